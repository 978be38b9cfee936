//! Renewing a lease: in the store, or in the local memory if the claim is only there.

use std::sync::Arc;
use std::time::Duration;

use super::settle::Settling;
use crate::claim::{Claim, Lease, Lost, Renew, Renewing};
use crate::digest::Digests;
use crate::key::Key;
use crate::memory::Known;
use crate::observe::Event;
use crate::once::{Inner, MAX_CLOCK_SKEW, Timed};
use crate::record::Owner;
use crate::store::{Settle, Settled, Store, Transition};

struct Renewer<S> {
    inner: Arc<Inner<S>>,
    key: Key,
    owner: Owner,
    fence: u64,
    in_store: bool,
    digests: Option<Digests>,
}

impl<S: Store> Settling<'_, S> {
    /// The claim as the work sees it.
    pub(super) fn claim(&self) -> Claim {
        let Self { call, held } = self;
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

impl<S: Store> Renew for Renewer<S> {
    fn renew(&self, lease: Duration) -> Renewing<'_> {
        Box::pin(async move {
            let now = self.inner.clock.now();
            let lease_end = now + lease;
            if !self.in_store {
                let lengthened = self.inner.memory().lengthen(&self.key, &self.owner, lease_end);
                return if lengthened { Ok(lease_end) } else { Err(Lost::TakenOver) };
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
            match self.inner.ask(&self.key, "renew", self.inner.store.settle(&request)).await {
                Ok(Timed { answer: Settled::Done, .. }) => {
                    let state = Known::InFlight { until: lease_until };
                    self.inner.remember(&self.key, state, self.digests.clone(), request.expires_at);
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
