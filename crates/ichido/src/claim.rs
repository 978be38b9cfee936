//! The claim as the work sees it: the right to perform an effect until the lease ends.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::key::Key;
use crate::store;

/// The right to perform the effect of one key.
#[derive(Clone)]
pub struct Claim {
    key: Key,
    fence: u64,
    lease: Arc<Lease>,
}

impl Claim {
    pub(crate) fn new(key: Key, fence: u64, lease: Lease) -> Self {
        Self { key, fence, lease: Arc::new(lease) }
    }

    /// The key that is claimed.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The counter of the key's claims: greater than the fence of every earlier holder while the record exists. A
    /// destination that remembers the greatest fence it has received can refuse a late worker. It begins again at 1 when the
    /// record has expired and DynamoDB has deleted it. Zero if the claim was made without the store.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// When the lease ends. Do not begin anything that cannot be done by then.
    pub fn deadline(&self) -> Timestamp {
        Timestamp::from_millis(self.lease.end.load(Ordering::Acquire))
    }

    /// Renews the lease, counted from now. After an error, stop: another call may hold the claim.
    pub async fn renew(&self) -> Result<(), Lost> {
        let end = self.lease.renewer.renew(self.lease.duration, self.deadline()).await?;
        // Two renewals may be under way at once, and the later one may be answered first.
        self.lease.end.fetch_max(end.as_millis(), Ordering::AcqRel);
        Ok(())
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("deadline", &self.deadline())
            .finish()
    }
}

/// Why a lease could not be renewed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// Another call holds the claim now, or the claim was ended by hand.
    #[error("the lease could not be renewed, because another call has taken over the claim")]
    TakenOver,
    /// The store failed. The claim may still be held.
    #[error("the lease could not be renewed, because the store failed")]
    Store(#[source] store::Error),
    /// The lease ended while the store had not answered. Another call may hold the claim.
    #[error("the lease ended before the store answered its renewal")]
    Lapsed,
}

pub(crate) struct Lease {
    end: AtomicU64,
    duration: Duration,
    renewer: Box<dyn Renew>,
}

impl Lease {
    pub(crate) fn new(end: Timestamp, duration: Duration, renewer: Box<dyn Renew>) -> Self {
        Self { end: AtomicU64::new(end.as_millis()), duration, renewer }
    }
}

pub(crate) type Renewing<'a> = Pin<Box<dyn Future<Output = Result<Timestamp, Lost>> + Send + 'a>>;

/// Hides the type of the store from the work.
pub(crate) trait Renew: Send + Sync {
    /// `end`: when the lease ends now. The renewed lease ends no earlier.
    fn renew(&self, lease: Duration, end: Timestamp) -> Renewing<'_>;
}
