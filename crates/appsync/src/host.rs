//! Time, randomness and the log. They are handed in, so that tests can control them.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::lock::lock;

/// Milliseconds since 1970.
pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Takes the lines of an API's log.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The source of time and randomness for `util.time`, `util.autoId` and the expiry of keys, and the end of all log lines.
pub(crate) struct Host {
    clock: Clock,
    /// `None` if nobody listens, or if the API logs nothing (`FieldLogLevel: NONE`).
    log: Option<Log>,
    random: Mutex<fastrand::Rng>,
    /// With a seed, ids come from `random`. Without one they come from the system's generator.
    seeded: bool,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl Host {
    pub(crate) fn new(clock: Option<Clock>, seed: Option<u64>, log: Option<Log>) -> Self {
        Self {
            log,
            clock: clock.unwrap_or_else(|| Arc::new(system_now)),
            random: Mutex::new(seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)),
            seeded: seed.is_some(),
        }
    }

    pub(crate) fn logs_errors(&self) -> bool {
        self.log.is_some()
    }

    /// Logs an error. `line` makes the line, if there is a log.
    pub(crate) fn log_error(&self, line: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            log(&line());
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    pub(crate) fn fraction(&self) -> f64 {
        lock(&self.random).f64()
    }

    pub(crate) fn uuid(&self) -> String {
        if self.seeded {
            let bytes = lock(&self.random).u128(..).to_be_bytes();
            uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
        } else {
            uuid::Uuid::new_v4().to_string()
        }
    }
}

fn system_now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|elapsed| i64::try_from(elapsed.as_millis()).ok())
        .unwrap_or_default()
}
