//! A bucket of tokens over a time that is handed in.

use ichido::Timestamp;

/// What adding up fractions may be wrong by, as a share of the burst.
const ROUNDING: f64 = 1e-9;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    tokens: f64,
    at: Timestamp,
}

impl Bucket {
    pub(super) fn full(burst: f64, now: Timestamp) -> Self {
        Self { tokens: burst, at: now }
    }

    pub(super) fn has(&mut self, amount: f64, per_second: f64, burst: f64, now: Timestamp) -> bool {
        self.fill(per_second, burst, now);
        // A request that is larger than the bucket passes when the bucket is full. Otherwise it never would.
        self.tokens + ROUNDING * burst >= amount.min(burst)
    }

    /// May overdraw the bucket.
    pub(super) fn spend(&mut self, amount: f64, per_second: f64, burst: f64, now: Timestamp) {
        self.fill(per_second, burst, now);
        self.tokens -= amount;
    }

    fn fill(&mut self, per_second: f64, burst: f64, now: Timestamp) {
        let came = now.since(self.at).as_secs_f64() * per_second;
        self.tokens = (self.tokens + came).min(burst);
        self.at = self.at.max(now);
    }
}
