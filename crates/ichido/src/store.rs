//! The interface to whatever keeps the records: three operations, one call each.
//!
//! An implementation promises:
//! - [`Store::admit`] is atomic. It writes the record if there is none, or if the request
//!   [may replace](Admit::may_replace) the one that is there. Otherwise it changes nothing and returns that record.
//! - [`Store::settle`] is atomic. It changes the record only if it is claimed with this owner and this fence. A renewal
//!   never makes a lease shorter: it changes nothing if the lease already ends later.
//! - [`Store::read`] returns every write that was answered before the read began.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use crate::clock::Timestamp;
use crate::digest::{self, Digests};
use crate::key::Key;
use crate::record::{self, Outcome, Owner, Record, State};

/// The caller's attributes, stored beside the library's. A `Null` is not stored.
pub type Attributes = Vec<(String, Value)>;

/// A request to write a new record if the key is free.
#[derive(Debug, Clone)]
pub struct Admit<'a> {
    /// The key to write.
    pub key: &'a Key,
    /// The token of the call.
    pub owner: Owner,
    /// The time of the call.
    pub now: Timestamp,
    /// `Claimed` before a work; `Completed` or `Failed` if it is settled already.
    pub state: State,
    /// From this time on, the record counts as absent. `None`: never.
    pub expires_at: Option<Timestamp>,
    /// The digests of the payload.
    pub digests: Option<&'a Digests>,
    /// The caller's attributes.
    pub attributes: &'a Attributes,
    /// A claim that must not take over a key whose effect may have happened.
    pub refuses_doubt: bool,
}

impl Admit<'_> {
    /// May this request replace the record? An expired record counts as absent. Of the others, a claim may replace one
    /// that is released or whose lease is over, but not if the payloads are known to differ: the earlier payload may
    /// have had its effect already, and its digests would be lost.
    pub fn may_replace(&self, record: &Record) -> bool {
        if record.is_expired(self.now) {
            return true;
        }
        let claims = matches!(self.state, State::Claimed { .. });
        let other_payload = claims && digest::differ(self.digests, record.digests.as_ref());
        let doubt = claims && self.refuses_doubt && record.leaves_doubt(self.now);
        record.is_claimable(self.now) && !other_payload && !doubt
    }
}

/// The answer to [`Admit`].
#[derive(Debug, Clone)]
pub enum Admitted {
    /// The record is written. `fence`: one more than that of the record that it replaced, or 1. `previous`: the record that a
    /// claim replaced; it tells whether an earlier attempt left a doubt. `None` if there was none, or if this is no claim.
    #[expect(missing_docs, reason = "the fence is the one of the new record")]
    Won { fence: u64, previous: Option<Record> },
    /// The key is not free. This is its record.
    Held(Record),
}

/// A request to change a record, by the holder of its claim.
#[derive(Debug, Clone)]
pub struct Settle<'a> {
    /// The key to change.
    pub key: &'a Key,
    /// The token of the call that holds the claim.
    pub owner: Owner,
    /// The fence of its claim.
    pub fence: u64,
    /// The time of the call.
    pub now: Timestamp,
    /// What the claim becomes.
    pub to: Transition,
    /// From this time on, the record counts as absent. `None`: never.
    pub expires_at: Option<Timestamp>,
}

/// How a claim changes.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are those of the states")]
pub enum Transition {
    /// To [`State::Completed`].
    Complete { outcome: Outcome },
    /// To [`State::Failed`].
    Fail { reason: String },
    /// To [`State::Released`].
    Release { reason: String, uncertain: bool },
    /// It stays claimed, with a later end of the lease.
    Renew { lease_until: Timestamp },
}

impl Transition {
    /// The state of the record after the change.
    pub fn into_state(self) -> State {
        match self {
            Self::Complete { outcome } => State::Completed { outcome },
            Self::Fail { reason } => State::Failed { reason },
            Self::Release { reason, uncertain } => State::Released { reason, uncertain },
            Self::Renew { lease_until } => State::Claimed { lease_until },
        }
    }
}

/// The answer to [`Settle`].
#[derive(Debug, Clone)]
pub enum Settled {
    /// The record is changed.
    Done,
    /// Another call has taken over the claim, or the claim has ended. Nothing was changed. `None`: there is no record.
    Lost(Option<Record>),
}

/// Keeps records.
pub trait Store: Send + Sync + 'static {
    /// Writes a new record if the key is free.
    fn admit(&self, request: &Admit<'_>) -> impl Future<Output = Result<Admitted, Error>> + Send;
    /// Changes a record for the holder of its claim.
    fn settle(&self, request: &Settle<'_>) -> impl Future<Output = Result<Settled, Error>> + Send;
    /// Reads the record of a key. Expired records are returned too.
    fn read(&self, key: &Key) -> impl Future<Output = Result<Option<Record>, Error>> + Send;
}

/// A [`Store`] of any type, so that [`Once`](crate::Once) has no type parameter. It costs one allocation per call.
pub(crate) trait AnyStore: Send + Sync {
    fn admit<'a>(&'a self, request: &'a Admit<'a>) -> Answer<'a, Admitted>;
    fn settle<'a>(&'a self, request: &'a Settle<'a>) -> Answer<'a, Settled>;
    fn read<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>>;
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl<S: Store> AnyStore for S {
    fn admit<'a>(&'a self, request: &'a Admit<'a>) -> Answer<'a, Admitted> {
        Box::pin(Store::admit(self, request))
    }

    fn settle<'a>(&'a self, request: &'a Settle<'a>) -> Answer<'a, Settled> {
        Box::pin(Store::settle(self, request))
    }

    fn read<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        Box::pin(Store::read(self, key))
    }
}

/// The cause, as the store reported it.
pub type Source = Box<dyn StdError + Send + Sync>;

/// Why a call to the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Throttling, a 5xx, a timeout, no connection. The store may have done what it was asked to.
    #[error("the store did not answer or is overloaded; try again later")]
    Transient(#[source] Source),
    /// The store refused this request. Another one may succeed.
    #[error("the store refused the request, and would refuse it again")]
    Request(#[source] Source),
    /// A missing table, a missing permission. No request will succeed until somebody mends it.
    #[error("the store cannot be used as it is configured; check the table, the permissions and the credentials")]
    Configuration(#[source] Source),
    /// The record cannot be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The kinds of [`Error`], to decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It may pass by itself. Only this kind opens the breaker.
    Transient,
    /// It concerns only this request.
    Request,
    /// It concerns every request until somebody acts.
    Configuration,
}

impl Kind {
    /// The word for it in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Request => "request",
            Self::Configuration => "configuration",
        }
    }
}

impl Error {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Transient(_) => Kind::Transient,
            Self::Request(_) | Self::Record(_) => Kind::Request,
            Self::Configuration(_) => Kind::Configuration,
        }
    }

    /// May it pass by itself?
    pub fn is_transient(&self) -> bool {
        self.kind() == Kind::Transient
    }
}
