//! `mark`: at most once, with one conditional write.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use crate::breaker::Gate;
use crate::key::Key;
use crate::memory::{Admission, Known, Remembered, Unwritten};
use crate::observe::{Decision, Event, Operation, Reason, Strength};
use crate::once::{Inner, Timed};
use crate::record::{Outcome, Owner, State};
use crate::store::{self, Admit, Admitted, Attributes};

/// Whether a mark is the first one of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// This call is the first one.
    New,
    /// Another call was first.
    Duplicate,
}

impl Marked {
    /// Is this call the first one?
    pub fn is_new(self) -> bool {
        self == Self::New
    }
}

/// A mark that is not made yet. Await it.
///
/// If the caller dies after its mark, the effect does not happen and no duplicate performs it. Use
/// [`run`](crate::Once::run) where that matters.
#[must_use = "a mark is made only when it is awaited"]
pub struct Mark<'o> {
    inner: &'o Inner,
    key: Key,
    attributes: Attributes,
}

impl fmt::Debug for Mark<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'o> Mark<'o> {
    pub(crate) fn new(inner: &'o Inner, key: Key) -> Self {
        Self { inner, key, attributes: Vec::new() }
    }

    /// Stores an attribute of the caller beside the library's.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    async fn make(self) -> Result<Marked, store::Error> {
        let now = self.inner.clock.now();
        let admitted_alone = self.inner.memory().unwritten(&self.key, now).is_some();
        if admitted_alone {
            // The key was admitted during an outage. The store may not know that and would admit it again.
            self.inner.reconcile_key(&self.key).await;
            return Ok(self.decided(Marked::Duplicate, None, &[]));
        }
        let owner = self.inner.new_owner();
        if let Gate::Blocked { .. } = self.inner.gate(&self.key, now) {
            return self.without_store(owner);
        }
        let request = Admit {
            key: &self.key,
            owner: owner.clone(),
            now,
            state: State::Completed { outcome: Outcome::Nothing },
            expires_at: self.inner.expiry(&self.key, now),
            digests: None,
            attributes: &self.attributes,
            refuses_doubt: false,
        };
        match self.inner.ask(&self.key, Operation::Mark, self.inner.store.admit(&request)).await {
            Ok(Timed { answer, latency }) => {
                let mut first = Vec::new();
                let marked = match answer {
                    // A record with this call's own token is its own write, whose answer was lost.
                    Admitted::Held(record) if record.owner != owner => {
                        self.inner.memory().note(&self.key, &record, now);
                        first = record.attributes;
                        Marked::Duplicate
                    }
                    // While the answer was under way, another call of this instance was admitted without the store.
                    _ if self.inner.memory().unwritten(&self.key, self.inner.clock.now()).is_some() => {
                        Marked::Duplicate
                    }
                    Admitted::Held(_) | Admitted::Won { .. } => {
                        let state = Known::Completed { outcome: Outcome::Nothing };
                        self.inner.remember(&self.key, state, 1, None, request.expires_at);
                        Marked::New
                    }
                };
                let marked = self.decided(marked, Some(latency), &first);
                self.inner.reconcile().await;
                Ok(marked)
            }
            Err(error) if error.is_transient() && self.key.namespace().fails_open() => self.without_store(owner),
            Err(error) => Err(error),
        }
    }

    fn without_store(self, owner: Owner) -> Result<Marked, store::Error> {
        let key = self.key.clone();
        let now = self.inner.clock.now();
        let remembered = Remembered {
            state: Known::Completed { outcome: Outcome::Nothing },
            fence: 0,
            digests: None,
            expires_at: self.inner.expiry(&key, now),
        };
        let unwritten = Unwritten { key: key.clone(), owner, remembered, attributes: self.attributes.clone() };
        let admission = self.inner.memory().admit(unwritten, false, now);
        match admission {
            Admission::New { .. } => {
                self.inner.observe(Event::AdmittedWithoutStore { key: &key });
                Ok(self.decided(Marked::New, None, &[]))
            }
            Admission::Known(_) => Ok(self.decided(Marked::Duplicate, None, &[])),
            Admission::Full => Err(self.inner.journal_full(&key)),
        }
    }

    /// Reports the decision. `store_latency`: `None` if the local memory decided.
    fn decided(&self, marked: Marked, store_latency: Option<Duration>, first: &[(String, Value)]) -> Marked {
        let (decision, reason) = match marked {
            Marked::New => (Decision::New, Reason::Absent),
            Marked::Duplicate => (Decision::Duplicate, Reason::Completed),
        };
        let (key, strength, fallback) = (&self.key, Strength::Mark, store_latency.is_none());
        self.inner.observe(Event::Decided {
            key,
            strength,
            decision,
            reason,
            store_latency,
            fallback,
            first,
            attempt: None,
            until: None,
        });
        marked
    }
}

impl<'o> IntoFuture for Mark<'o> {
    type Output = Result<Marked, store::Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'o>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}
