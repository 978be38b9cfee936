//! The throttles of the HTTP API: one bucket of tokens per route, with the rate and the burst that the stage of the templates declares.
//! A bucket is shared by all callers, as on AWS. They are off unless somebody asks for them (`--throttle`).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use template::{DEFAULT_ROUTE, Throttle};

#[derive(Debug)]
pub(crate) struct Throttles {
    /// By the keys of routes; empty if nothing is throttled.
    limits: BTreeMap<String, Throttle>,
    buckets: Mutex<BTreeMap<String, Bucket>>,
    started: Instant,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    /// When it was last looked at.
    at: Duration,
}

impl Throttles {
    pub(crate) fn new(limits: BTreeMap<String, Throttle>) -> Self {
        Throttles { limits, buckets: Mutex::default(), started: Instant::now() }
    }

    /// Whether a request to this route is let through now.
    pub(crate) fn lets_through(&self, route: &str) -> bool {
        self.lets_through_at(route, self.started.elapsed())
    }

    fn lets_through_at(&self, route: &str, now: Duration) -> bool {
        let Some(limit) = self.limits.get(route).or_else(|| self.limits.get(DEFAULT_ROUTE)) else { return true };
        let mut buckets = telemetry::lock(&self.buckets);
        let full = Bucket { tokens: limit.burst, at: now };
        let bucket = buckets.entry(route.to_owned()).or_insert(full);
        let filled = bucket.tokens + now.saturating_sub(bucket.at).as_secs_f64() * limit.rate;
        bucket.tokens = filled.min(limit.burst);
        bucket.at = now.max(bucket.at);
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_lets_through_its_burst_and_then_its_rate_and_other_routes_do_not_notice() {
        let limit = |rate, burst| Throttle { rate, burst };
        let limits =
            BTreeMap::from([("POST /a".to_owned(), limit(2.0, 3.0)), (DEFAULT_ROUTE.to_owned(), limit(1.0, 1.0))]);
        let throttles = Throttles::new(limits);
        let through = |route: &str, at: u64, requests: usize| {
            (0..requests).filter(|_| throttles.lets_through_at(route, Duration::from_secs(at))).count()
        };
        assert_eq!(through("POST /a", 0, 10), 3, "the burst");
        assert_eq!(through("POST /a", 1, 10), 2, "the rate");
        assert_eq!(through("POST /a", 100, 10), 3, "what was not used is not saved beyond the burst");
        assert_eq!((through("GET /b", 0, 5), through("GET /c", 0, 5)), (1, 1), "each route has a bucket of its own");
        assert!(Throttles::new(BTreeMap::new()).lets_through("POST /a"), "nothing is throttled unless it is asked for");
    }
}
