//! Which accounts were paid so often lately that credits to them met.
//!
//! It is only a hint, kept in this instance's memory: a credit to such an account begins at a shard of it, not at the account itself, where
//! it would probably meet another one. Whether the shard is there, and open, is a condition of the write.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use ichido::Timestamp;

use crate::identity::did::Did;

/// How long after the last conflict an account counts as hot. Later its credits go to the account itself again, so that the account alone
/// can pay.
const COOLS_AFTER: Duration = Duration::from_secs(10);

/// How many accounts are remembered.
const MOST: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Hot(Mutex<HashMap<Did, Timestamp>>);

impl Hot {
    pub(super) fn is(&self, did: &Did, now: Timestamp) -> bool {
        telemetry::lock(&self.0).get(did).is_some_and(|until| now < *until)
    }

    /// Credits to this account, which has shards, have met.
    pub(super) fn met(&self, did: &Did, now: Timestamp) {
        let mut hot = telemetry::lock(&self.0);
        if hot.len() >= MOST {
            hot.retain(|_, until| now < *until);
        }
        if hot.len() < MOST || hot.contains_key(did) {
            hot.insert(did.clone(), now + COOLS_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(n: usize) -> Did {
        format!("did:key:{n}").parse().unwrap()
    }

    #[test]
    fn an_account_cools_down() {
        let (hot, now) = (Hot::default(), Timestamp::from_millis(1_000));
        hot.met(&did(1), now);
        let last = now + (COOLS_AFTER - Duration::from_millis(1));
        assert_eq!((hot.is(&did(1), last), hot.is(&did(1), now + COOLS_AFTER)), (true, false));
        assert!(!hot.is(&did(2), now));
    }

    #[test]
    fn there_is_a_limit_and_those_that_cooled_down_make_room() {
        let (hot, now) = (Hot::default(), Timestamp::from_millis(1_000));
        for n in 0..=MOST {
            hot.met(&did(n), now);
        }
        assert_eq!((hot.is(&did(0), now), hot.is(&did(MOST), now)), (true, false));
        let later = now + COOLS_AFTER;
        hot.met(&did(MOST), later);
        assert!(hot.is(&did(MOST), later));
        assert_eq!(telemetry::lock(&hot.0).len(), 1);
    }
}
