//! [`Memory`]: a store that is simple enough to be obviously right.
//!
//! It is a map behind one lock that does exactly what [`ichido::store`] promises. The conformance tests of `ichido` compare the
//! DynamoDB store with it, call by call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use ichido::store::{Admit, Admitted, Error, Settle, Settled, Transition};
use ichido::{Key, Record, State, Store, Timestamp};

/// Records in a map. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    records: BTreeMap<String, Record>,
    calls: u64,
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many calls it got.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// The record of a key. This call is not counted.
    #[must_use]
    pub fn record(&self, key: &Key) -> Option<Record> {
        self.lock().records.get(key.as_str()).cloned()
    }

    /// Deletes the expired records, as DynamoDB does hours or days later.
    pub fn sweep(&self, now: Timestamp) {
        self.lock().records.retain(|_, record| !record.is_expired(now));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        telemetry::lock(&self.state)
    }

    fn called(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.calls += 1;
        inner
    }
}

impl Store for Memory {
    async fn admit(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        let mut inner = self.called();
        let previous = inner.records.get(request.key.as_str()).cloned();
        if let Some(record) = &previous
            && !request.may_replace(record)
        {
            return Ok(Admitted::Held(record.clone()));
        }
        // Only claims increment the fence. A record that is settled from the start has had one holder.
        let fence = match (&request.state, &previous) {
            (State::Claimed { .. }, Some(previous)) => previous.fence + 1,
            _ => 1,
        };
        let mut record = Record::new(request.state.clone(), request.owner.clone(), fence, request.now);
        record.expires_at = request.expires_at.map(in_seconds);
        record.digests = request.digests.cloned();
        // A claim changes an item, and other attributes of the item stay. A settled record replaces the item.
        let kept = match (&request.state, &previous) {
            (State::Claimed { .. }, Some(previous)) => previous.attributes.clone(),
            _ => Vec::new(),
        };
        let given = request.attributes.iter().filter(|(_, value)| !value.is_null()).cloned();
        let attributes: BTreeMap<_, _> = kept.into_iter().chain(given).collect();
        record.attributes = attributes.into_iter().collect();
        inner.records.insert(request.key.as_str().to_owned(), record);
        Ok(Admitted::Won { fence, previous })
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Settled, Error> {
        let mut inner = self.called();
        let Some(record) = inner.records.get_mut(request.key.as_str()) else { return Ok(Settled::Lost(None)) };
        let claimed = matches!(record.state, State::Claimed { .. });
        let shorter = match (&request.to, &record.state) {
            (Transition::Renew { lease_until }, State::Claimed { lease_until: now }) => lease_until < now,
            _ => false,
        };
        if !claimed || record.owner != request.owner || record.fence != request.fence || shorter {
            return Ok(Settled::Lost(Some(record.clone())));
        }
        record.state = request.to.clone().into_state();
        record.updated_at = request.now;
        record.expires_at = request.expires_at.map(in_seconds);
        Ok(Settled::Done)
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, Error> {
        Ok(self.called().records.get(key.as_str()).cloned())
    }
}

/// Expiry in whole seconds, rounded up, as a `ttl` attribute stores it.
fn in_seconds(expiry: Timestamp) -> Timestamp {
    Timestamp::from_secs(expiry.as_secs_ceil())
}
