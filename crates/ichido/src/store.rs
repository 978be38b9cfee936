//! The port to whatever keeps the records: three operations, each one call.
//!
//! An implementation promises:
//! - [`Store::admit`] is atomic: it writes the record if, at `now`, there is none, or one that
//!   [is claimable](Record::is_claimable); otherwise it returns the one that is there, changed in nothing.
//! - [`Store::settle`] is atomic: it changes the record if it is claimed by that very owner and fence.
//! - [`Store::read`] sees every write that was answered before it began.

use std::error::Error as StdError;
use std::future::Future;

use serde_json::Value;

use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::record::{self, Outcome, Owner, Record, State};

/// The caller's own attributes, beside the library's. A `Null` is left out.
pub type Attributes = Vec<(String, Value)>;

/// A new record, to be written if the key is free.
#[derive(Debug, Clone)]
pub struct Admit<'a> {
    pub key: &'a Key,
    pub owner: Owner,
    pub now: Timestamp,
    /// `Claimed` for a work to come; `Completed` or `Failed` for what is settled already.
    pub state: State,
    pub expires_at: Option<Timestamp>,
    pub digests: Option<&'a Digests>,
    pub attributes: &'a Attributes,
}

/// The answer to [`Admit`].
#[derive(Debug, Clone)]
pub enum Admitted {
    /// The record is written. `previous`: what it replaced, if anything.
    Won { fence: u64, previous: Option<Record> },
    /// The key is taken; this is by whom.
    Held(Record),
}

/// A change to a record by the holder of its claim.
#[derive(Debug, Clone)]
pub struct Settle<'a> {
    pub key: &'a Key,
    pub owner: Owner,
    pub fence: u64,
    pub now: Timestamp,
    pub to: Transition,
    pub expires_at: Option<Timestamp>,
}

/// What becomes of a claim.
#[derive(Debug, Clone)]
pub enum Transition {
    Complete { outcome: Outcome },
    Fail { reason: String },
    Release { reason: String, uncertain: bool },
    Renew { lease_until: Timestamp },
}

impl Transition {
    /// The state that the record is in afterwards.
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
    Done,
    /// The claim is somebody else's by now, or gone. Nothing was changed.
    Lost(Option<Record>),
}

/// Keeps records.
pub trait Store: Send + Sync + 'static {
    fn admit(&self, request: &Admit<'_>) -> impl Future<Output = Result<Admitted, Error>> + Send;
    fn settle(&self, request: &Settle<'_>) -> impl Future<Output = Result<Settled, Error>> + Send;
    fn read(&self, key: &Key) -> impl Future<Output = Result<Option<Record>, Error>> + Send;
}

/// A cause, as the store reported it.
pub type Source = Box<dyn StdError + Send + Sync>;

/// Why the store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Throttling, a 5xx, a timeout, no connection. It may have been done all the same.
    #[error("the store could not be reached or is overloaded")]
    Transient(#[source] Source),
    /// The store refused this very request: another one may succeed.
    #[error("the store refused the request")]
    Request(#[source] Source),
    /// A missing table, a missing permission: no request will succeed until somebody mends it.
    #[error("the store is misconfigured")]
    Configuration(#[source] Source),
    /// The record cannot be written or read.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The kinds of [`Error`], for those who decide by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// May pass by itself. Only this kind opens the breaker.
    Transient,
    /// Concerns this one request.
    Request,
    /// Concerns every request until somebody acts.
    Configuration,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Request => "request",
            Self::Configuration => "configuration",
        }
    }
}

impl Error {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Transient(_) => Kind::Transient,
            Self::Request(_) | Self::Record(_) => Kind::Request,
            Self::Configuration(_) => Kind::Configuration,
        }
    }

    pub fn is_transient(&self) -> bool {
        self.kind() == Kind::Transient
    }
}
