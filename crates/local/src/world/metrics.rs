//! The metrics that CloudWatch would have received: ours, from the EMF lines that the handlers write, and those that AWS's
//! services send.
//!
//! Memory is bounded: values are kept by the minute for three hours, and percentiles come from the last values of a series.
//!
//! Metrics have their own time, which a person can move forward ([`Metrics::advance`]). So a person can see an alarm over
//! fifteen minutes ring and stop within seconds. Only metrics and alarms use this time; schedules, leases and retries do not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ichido::{Clock, SystemClock};
use serde_json::{Value, json};

/// Minutes that are kept for alarms: three periods of one hour.
const MINUTES: usize = 180;
/// Values that are kept per minute, for percentiles.
const VALUES_PER_MINUTE: usize = 500;
/// Values that are kept per series, for percentiles.
const LAST_VALUES: usize = 1_000;
/// The largest number of series. It bounds the memory if a handler invents dimensions.
const MAX_SERIES: usize = 5_000;
const MS_PER_MINUTE: u64 = 60_000;

/// What identifies a series: namespace, name and dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub namespace: String,
    pub name: String,
    pub dimensions: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct Series {
    unit: String,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    last: VecDeque<f64>,
    minutes: VecDeque<Minute>,
}

/// The values of one minute.
#[derive(Clone, Debug, Default)]
pub struct Minute {
    /// Epoch minutes.
    pub minute: u64,
    pub count: u64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    /// The values, as many as are kept.
    pub values: Vec<f64>,
}

/// All series.
pub struct Metrics {
    series: Mutex<BTreeMap<Id, Series>>,
    clock: Arc<dyn Clock>,
    /// How far the time of metrics is ahead of the clock.
    ahead_ms: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::with_clock(SystemClock)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("series", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Metrics {
    /// Without any series, in the time of `clock`.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { series: Mutex::default(), clock: Arc::new(clock), ahead_ms: AtomicU64::new(0) }
    }

    /// The time of metrics and alarms, in epoch milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.moved(self.clock.now().as_millis())
    }

    /// Moves the time of metrics forward, and returns how far it is now ahead of the clock.
    pub fn advance(&self, by: Duration) -> Duration {
        let by = ichido::whole_millis(by);
        let before = self.ahead_ms.fetch_add(by, Ordering::Relaxed);
        Duration::from_millis(before.saturating_add(by))
    }

    fn moved(&self, at_ms: u64) -> u64 {
        at_ms.saturating_add(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Takes a line with the numbers of an invocation; returns false if it is another line. As in CloudWatch, only the numbers
    /// that the line declares as metrics become metrics.
    pub fn line(&self, line: &Value) -> bool {
        if line.get("FunctionName").is_none() {
            return false;
        }
        let at_ms = self.moved(line["_aws"]["Timestamp"].as_u64().unwrap_or_else(|| self.clock.now().as_millis()));
        for directive in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
            let namespace = directive["Namespace"].as_str().unwrap_or_default();
            for names in directive["Dimensions"].as_array().into_iter().flatten() {
                let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
                let dimensions: BTreeMap<String, String> =
                    names.map(|name| (name.to_owned(), line[name].as_str().unwrap_or_default().to_owned())).collect();
                for metric in directive["Metrics"].as_array().into_iter().flatten() {
                    let (Some(name), unit) = (metric["Name"].as_str(), metric["Unit"].as_str().unwrap_or("None"))
                    else {
                        continue;
                    };
                    let id =
                        Id { namespace: namespace.to_owned(), name: name.to_owned(), dimensions: dimensions.clone() };
                    match &line[name] {
                        Value::Array(values) => self.put(&id, unit, at_ms, values.iter().filter_map(Value::as_f64)),
                        value => self.put(&id, unit, at_ms, value.as_f64()),
                    }
                }
            }
        }
        true
    }

    /// Records what Lambda reports about an invocation.
    pub fn invocation(&self, function: &str, took: Duration, failed: bool) {
        self.invocation_at(function, took, failed, self.now_ms());
    }

    /// The same at a given time.
    pub fn invocation_at(&self, function: &str, took: Duration, failed: bool, at_ms: u64) {
        let alias = ("Resource".to_owned(), format!("{function}:live"));
        let name = ("FunctionName".to_owned(), function.to_owned());
        for dimensions in [BTreeMap::from([name.clone()]), BTreeMap::from([name.clone(), alias])] {
            let id = |metric: &str| Id {
                namespace: "AWS/Lambda".into(),
                name: metric.into(),
                dimensions: dimensions.clone(),
            };
            self.put(&id("Invocations"), "Count", at_ms, Some(1.0));
            self.put(&id("Errors"), "Count", at_ms, Some(f64::from(u8::from(failed))));
            self.put(&id("Duration"), "Milliseconds", at_ms, Some(took.as_secs_f64() * 1e3));
        }
    }

    /// Records what Lambda reports about an invocation that it refused, because the function's concurrency is used up.
    pub fn throttle(&self, function: &str) {
        let name = ("FunctionName".to_owned(), function.to_owned());
        let alias = ("Resource".to_owned(), format!("{function}:live"));
        for dimensions in [BTreeMap::from([name.clone()]), BTreeMap::from([name.clone(), alias])] {
            let id = Id { namespace: "AWS/Lambda".into(), name: "Throttles".into(), dimensions };
            self.put(&id, "Count", self.now_ms(), Some(1.0));
        }
    }

    /// Records what DynamoDB reports about a call that it throttled, or that met a transaction (`metric`: `WriteThrottleEvents`,
    /// `ReadThrottleEvents`, `TransactionConflict`).
    pub fn dynamodb(&self, table: &str, metric: &str) {
        let dimensions = BTreeMap::from([("TableName".to_owned(), table.to_owned())]);
        let id = Id { namespace: "AWS/DynamoDB".into(), name: metric.into(), dimensions };
        self.put(&id, "Count", self.now_ms(), Some(1.0));
    }

    /// Whether anything was ever sent to a series.
    pub fn knows(&self, id: &Id) -> bool {
        self.lock().contains_key(id)
    }

    /// Records what AppSync reports about a request. An answer with GraphQL errors has the status 200.
    pub fn graphql(&self, api: &str, status: u16, took: Duration) {
        let count = |holds: bool| f64::from(u8::from(holds));
        self.appsync(api, "Requests", "Count", 1.0);
        self.appsync(api, "4XXError", "Count", count((400..500).contains(&status)));
        self.appsync(api, "5XXError", "Count", count(status >= 500));
        self.appsync(api, "Latency", "Milliseconds", took.as_secs_f64() * 1e3);
    }

    /// Records what AppSync reports about its WebSockets, once a minute.
    pub fn realtime(&self, api: &str, connections: usize, subscriptions: usize) {
        self.appsync(api, "ActiveConnections", "Count", connections as f64);
        self.appsync(api, "ActiveSubscriptions", "Count", subscriptions as f64);
    }

    fn appsync(&self, api: &str, name: &str, unit: &str, value: f64) {
        let dimensions = BTreeMap::from([("GraphQLAPIId".to_owned(), api.to_owned())]);
        let id = Id { namespace: "AWS/AppSync".into(), name: name.into(), dimensions };
        self.put(&id, unit, self.now_ms(), Some(value));
    }

    /// Records what API Gateway reports about a request.
    pub fn request(&self, api: &str, status: u16, took: Duration) {
        self.request_at(api, status, took, self.now_ms());
    }

    /// The same at a given time.
    pub fn request_at(&self, api: &str, status: u16, took: Duration, at_ms: u64) {
        let dimensions = BTreeMap::from([("ApiId".to_owned(), api.to_owned())]);
        let id = |metric: &str| Id {
            namespace: "AWS/ApiGateway".into(),
            name: metric.into(),
            dimensions: dimensions.clone(),
        };
        self.put(&id("Count"), "Count", at_ms, Some(1.0));
        self.put(&id("4xx"), "Count", at_ms, Some(f64::from(u8::from((400..500).contains(&status)))));
        self.put(&id("5xx"), "Count", at_ms, Some(f64::from(u8::from(status >= 500))));
        self.put(&id("Latency"), "Milliseconds", at_ms, Some(took.as_secs_f64() * 1e3));
    }

    /// Records what SQS reports about a queue.
    pub fn queue(&self, queue: &str, visible: usize) {
        self.queue_at(queue, visible, self.now_ms());
    }

    /// The same at a given time.
    pub fn queue_at(&self, queue: &str, visible: usize, at_ms: u64) {
        let id = Id {
            namespace: "AWS/SQS".into(),
            name: "ApproximateNumberOfMessagesVisible".into(),
            dimensions: BTreeMap::from([("QueueName".to_owned(), queue.to_owned())]),
        };
        self.put(&id, "Count", at_ms, Some(visible as f64));
    }

    /// Adds values to a series.
    pub fn put(&self, id: &Id, unit: &str, at_ms: u64, values: impl IntoIterator<Item = f64>) {
        let mut all = self.lock();
        if !all.contains_key(id) && all.len() >= MAX_SERIES {
            return;
        }
        let series = all.entry(id.clone()).or_default();
        if series.unit.is_empty() {
            unit.clone_into(&mut series.unit);
        }
        for value in values {
            series.add(at_ms / MS_PER_MINUTE, value);
        }
    }

    /// The minutes of a series that have values, from `from` to `to` (epoch minutes, `to` excluded).
    pub fn minutes(&self, id: &Id, from: u64, to: u64) -> Vec<Minute> {
        let all = self.lock();
        let minutes = all.get(id).into_iter().flat_map(|series| &series.minutes);
        minutes.filter(|minute| (from..to).contains(&minute.minute)).cloned().collect()
    }

    /// All series, for the console: with the sums of their last minutes.
    pub(crate) fn of_console(&self, minutes: u64) -> Vec<console::contract::Metric> {
        let end = self.now_ms() / MS_PER_MINUTE + 1;
        let all = self.lock();
        all.iter()
            .map(|(id, series)| {
                let mut last: Vec<f64> = series.last.iter().copied().collect();
                last.sort_by(f64::total_cmp);
                let sum =
                    |at: u64| series.minutes.iter().rev().find(|minute| minute.minute == at).map(|minute| minute.sum);
                console::contract::Metric {
                    namespace: id.namespace.clone(),
                    name: id.name.clone(),
                    dimensions: id.dimensions.clone(),
                    unit: series.unit.clone(),
                    count: series.count,
                    sum: series.sum,
                    p50: percentile(&last, 50.0),
                    p99: percentile(&last, 99.0),
                    max: Some(series.max),
                    minutes: (end.saturating_sub(minutes)..end).map(sum).collect(),
                }
            })
            .collect()
    }

    /// All series, for `/_local/metrics`.
    pub fn shown(&self) -> Value {
        let all = self.lock();
        all.iter()
            .map(|(id, series)| {
                let mut last: Vec<f64> = series.last.iter().copied().collect();
                last.sort_by(f64::total_cmp);
                json!({
                    "namespace": id.namespace, "name": id.name, "dimensions": id.dimensions, "unit": series.unit,
                    "count": series.count, "sum": series.sum, "min": series.min, "max": series.max,
                    "average": series.sum / (series.count.max(1) as f64), "last": series.last.back(),
                    "p50": percentile(&last, 50.0), "p90": percentile(&last, 90.0), "p99": percentile(&last, 99.0),
                })
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Series>> {
        telemetry::lock(&self.series)
    }
}

impl Series {
    fn add(&mut self, minute: u64, value: f64) {
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        }
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.last.len() == LAST_VALUES {
            self.last.pop_front();
        }
        self.last.push_back(value);
        if self.minutes.back().is_none_or(|last| last.minute < minute) {
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back(Minute { minute, min: value, max: value, ..Minute::default() });
        }
        // A late value belongs to its own minute, if that minute is still kept.
        if let Some(of) = self.minutes.iter_mut().rev().find(|of| of.minute <= minute) {
            of.count += 1;
            of.sum += value;
            of.min = of.min.min(value);
            of.max = of.max.max(value);
            if of.values.len() < VALUES_PER_MINUTE {
                of.values.push(value);
            }
        }
    }
}

/// The nearest-rank percentile of sorted values.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_ms: u64, value: Value) -> Value {
        json!({
            "_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [{
                "Namespace": "Ichido",
                "Dimensions": [["FunctionName"], ["FunctionName", "Destination"]],
                "Metrics": [{"Name": "Deliveries", "Unit": "Count"}],
            }]},
            "FunctionName": "github-notifier", "Destination": "mastodon", "Deliveries": value,
        })
    }

    #[test]
    fn an_emf_line_becomes_one_series_for_each_set_of_dimensions() {
        let metrics = Metrics::default();
        assert!(metrics.line(&line(60_000, json!([1, 2]))));
        assert!(metrics.line(&line(120_000, json!(3))));
        assert!(!metrics.line(&json!({"level": "INFO"})));
        assert!(
            metrics.line(&json!({"FunctionName": "github-notifier", "DeliveryFailures": 1})),
            "numbers of the log alone"
        );
        let shown = metrics.shown();
        let shown = shown.as_array().expect("a list");
        assert_eq!(shown.len(), 2);
        for series in shown {
            assert_eq!((&series["count"], &series["sum"], &series["max"]), (&json!(3), &json!(6.0), &json!(3.0)));
        }
        let id = Id {
            namespace: "Ichido".into(),
            name: "Deliveries".into(),
            dimensions: BTreeMap::from([("FunctionName".into(), "github-notifier".into())]),
        };
        let sums: Vec<f64> = metrics.minutes(&id, 0, 10).iter().map(|minute| minute.sum).collect();
        assert_eq!(sums, [3.0, 3.0]);
        assert_eq!(metrics.minutes(&id, 2, 10).len(), 1);
    }

    #[test]
    fn time_moved_forward_moves_what_is_measured_from_then_on() {
        let metrics = Metrics::default();
        metrics.line(&line(60_000, json!(1)));
        assert_eq!(metrics.advance(Duration::from_secs(300)), Duration::from_secs(300));
        metrics.line(&line(60_000, json!(1)));
        let id = Id {
            namespace: "Ichido".into(),
            name: "Deliveries".into(),
            dimensions: BTreeMap::from([("FunctionName".into(), "github-notifier".into())]),
        };
        let minutes: Vec<u64> = metrics.minutes(&id, 0, 10).iter().map(|minute| minute.minute).collect();
        assert_eq!(minutes, [1, 6]);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&values, 50.0), percentile(&values, 99.0)), (Some(50.0), Some(99.0)));
        assert_eq!(percentile(&[7.0], 1.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn memory_is_bounded_by_the_minute_and_by_the_series() {
        let metrics = Metrics::default();
        let id = |n: usize| Id { namespace: "N".into(), name: n.to_string(), dimensions: BTreeMap::new() };
        for minute in 0..500 {
            metrics.put(&id(0), "Count", minute * MS_PER_MINUTE, Some(1.0));
        }
        assert_eq!(metrics.minutes(&id(0), 0, 1_000).len(), MINUTES);
        for n in 0..MAX_SERIES + 10 {
            metrics.put(&id(n), "Count", 0, Some(1.0));
        }
        assert_eq!(metrics.shown().as_array().map(Vec::len), Some(MAX_SERIES));
    }
}
