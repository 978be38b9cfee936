//! [`Memory`]: a store that is simple enough to be obviously right.
//!
//! It is a map behind one lock that does exactly what [`ichido::store`] promises. The conformance tests of `ichido` compare the
//! DynamoDB store with it, call by call. So a handler can be tested with it in place of DynamoDB. It has no
//! [`Join`](https://docs.rs/ichido/latest/ichido/dynamodb/struct.Join.html), which is an item of your own transaction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use ichido::store::{Admit, Admitted, Error, Settle, Settled, Transition};
use ichido::{Key, Record, State, Store, Timestamp};

use crate::lock::lock;
use crate::outside::Outside;

/// Records in a map. Clones are the same store.
///
/// ```
/// use ichido::{Namespace, Once};
/// use ichido_testkit::model::Memory;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Memory::new();
/// let once = Once::new(store.clone());
/// let key = Namespace::new("event").key(["Ev1"])?;
/// assert!(once.mark(&key).await?.is_new());
/// assert!(!once.mark(&key).await?.is_new());
/// assert_eq!(store.calls(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory {
    state: Arc<Mutex<Inner>>,
    outside: Option<Outside>,
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

    /// The same store, which reports each of its calls to `outside`, so that a run can be stopped there. The calls are
    /// `admit`, `settle` and `read`.
    #[must_use]
    pub fn with_outside(mut self, outside: Outside) -> Self {
        self.outside = Some(outside);
        self
    }

    /// How many calls reached it.
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
        lock(&self.state)
    }

    async fn call<T: Send>(&self, name: &str, operation: impl FnOnce(&mut BTreeMap<String, Record>) -> T + Send) -> T {
        let work = async {
            let mut inner = self.lock();
            inner.calls += 1;
            operation(&mut inner.records)
        };
        match &self.outside {
            Some(outside) => outside.call(name, work).await,
            None => work.await,
        }
    }
}

impl Store for Memory {
    async fn admit(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        Ok(self.call("admit", |records| admit(records, request)).await)
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Settled, Error> {
        Ok(self.call("settle", |records| settle(records, request)).await)
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, Error> {
        Ok(self.call("read", |records| records.get(key.as_str()).cloned()).await)
    }
}

fn admit(records: &mut BTreeMap<String, Record>, request: &Admit<'_>) -> Admitted {
    let previous = records.get(request.key.as_str()).cloned();
    if let Some(record) = &previous
        && !request.may_replace(record)
    {
        return Admitted::Held(record.clone());
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
    record.attributes = kept.into_iter().chain(given).collect::<BTreeMap<_, _>>().into_iter().collect();
    records.insert(request.key.as_str().to_owned(), record);
    Admitted::Won { fence, previous }
}

fn settle(records: &mut BTreeMap<String, Record>, request: &Settle<'_>) -> Settled {
    let Some(record) = records.get_mut(request.key.as_str()) else { return Settled::Lost(None) };
    let claimed = matches!(record.state, State::Claimed { .. });
    let shorter = match (&request.to, &record.state) {
        (Transition::Renew { lease_until }, State::Claimed { lease_until: now }) => lease_until < now,
        _ => false,
    };
    if !claimed || record.owner != request.owner || record.fence != request.fence || shorter {
        return Settled::Lost(Some(record.clone()));
    }
    record.state = request.to.clone().into_state();
    record.updated_at = request.now;
    record.expires_at = request.expires_at.map(in_seconds);
    Settled::Done
}

/// Expiry in whole seconds, rounded up, as a `ttl` attribute stores it.
fn in_seconds(expiry: Timestamp) -> Timestamp {
    Timestamp::from_secs(expiry.as_secs_ceil())
}
