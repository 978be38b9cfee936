//! Time and randomness, handed in so that tests can hold them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Where `util.time`, `util.autoId` and the expiry of keys get their time and randomness.
pub(crate) struct Host {
    clock: Clock,
    random: Mutex<fastrand::Rng>,
    /// Ids come from the system's generator unless a seed was given.
    seeded: bool,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl Host {
    pub(crate) fn new(clock: Option<Clock>, seed: Option<u64>) -> Self {
        Self {
            clock: clock.unwrap_or_else(|| Arc::new(system_now)),
            random: Mutex::new(seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed)),
            seeded: seed.is_some(),
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    pub(crate) fn fraction(&self) -> f64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }

    pub(crate) fn uuid(&self) -> String {
        if self.seeded {
            let bytes = self.random.lock().unwrap_or_else(PoisonError::into_inner).u128(..).to_be_bytes();
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
