//! Renewing a lease: in the store, or in the local memory if the claim is only there.

use std::sync::Arc;
use std::time::Duration;

use super::settle::Settling;
use crate::claim::{Claim, Lease, Lost, Renew, Renewing};
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::memory::Known;
use crate::observe::{Attempt, Event, Operation};
use crate::once::{Inner, MAX_CLOCK_SKEW, Timed};
use crate::record::{Owner, Record, State};
use crate::store::{Settle, Settled, Transition};

struct Renewer {
    inner: Arc<Inner>,
    key: Key,
    owner: Owner,
    fence: u64,
    in_store: bool,
    digests: Option<Digests>,
}

impl Settling<'_> {
    /// The claim as the work sees it.
    pub(super) fn claim(&self) -> Claim {
        let Self { call, held, .. } = self;
        let renewer = Renewer {
            inner: call.inner.clone(),
            key: call.key.clone(),
            owner: held.owner.clone(),
            fence: held.fence,
            in_store: held.in_store,
            digests: call.digests.clone(),
        };
        Claim::new(call.key.clone(), held.fence, Lease::new(held.lease_end, call.lease(), Box::new(renewer)))
    }
}

impl Renewer {
    fn renewed(&self, lease_end: Timestamp) {
        let attempt = Attempt { owner: &self.owner, fence: self.fence, lease_end };
        self.inner.observe(Event::Renewed { key: &self.key, attempt });
    }
}

impl Renew for Renewer {
    fn renew(&self, lease: Duration, end: Timestamp) -> Renewing<'_> {
        Box::pin(async move {
            let now = self.inner.clock.now();
            // The caller may have asked for a longer lease than the namespace's (`lease_until`). Renewing keeps it.
            let lease_end = (now + lease).max(end);
            if !self.in_store {
                let expiry = self.inner.unfinished_expiry(&self.key, now, lease_end);
                let lengthened = self.inner.memory().lengthen(&self.key, &self.owner, lease_end, expiry);
                if let Some(lease_end) = lengthened {
                    self.renewed(lease_end);
                }
                return lengthened.ok_or(Lost::TakenOver);
            }
            let lease_until = lease_end + MAX_CLOCK_SKEW;
            let request = Settle {
                key: &self.key,
                owner: self.owner.clone(),
                fence: self.fence,
                now,
                to: Transition::Renew { lease_until },
                expires_at: self.inner.unfinished_expiry(&self.key, now, lease_until),
            };
            match self.inner.ask(&self.key, Operation::Renew, self.inner.store.settle(&request)).await {
                Ok(Timed { answer: Settled::Done, .. }) => {
                    let state = Known::InFlight { until: lease_until };
                    self.inner.remember(&self.key, state, self.fence, self.digests.clone(), request.expires_at);
                    self.renewed(lease_end);
                    Ok(lease_end)
                }
                // A later renewal of the same claim was quicker, and the lease ends later than this one asked for.
                Ok(Timed { answer: Settled::Lost(Some(Record { owner, fence, state, .. })), .. })
                    if owner == self.owner
                        && fence == self.fence
                        && matches!(state, State::Claimed { lease_until: later } if later >= lease_until) =>
                {
                    Ok(lease_end)
                }
                Ok(Timed { answer: Settled::Lost(_), .. }) => {
                    self.inner.observe(Event::Fenced { key: &self.key, fence: self.fence });
                    Err(Lost::TakenOver)
                }
                Err(error) => Err(Lost::Store(error)),
            }
        })
    }
}
