//! Keeps a claim alive while its work goes on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::claim::{Claim, Lost};
use crate::clock::Clock;

/// A renewal that fails is repeated after this pause at the earliest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Polls the work, and renews the claim beside it. An error if the claim was lost before the work ended; the work is dropped
/// then.
pub(super) async fn until_done<T>(work: impl Future<Output = T>, claim: &Claim, clock: &dyn Clock) -> Result<T, Lost> {
    let mut work = pin!(work);
    let mut loss = pin!(renew_until_lost(claim, clock));
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        loss.as_mut().poll(context).map(Err)
    })
    .await
}

/// Renews when half of the rest of the lease is over. If the store fails, half of what is left then is waited for, and so on
/// until the lease has ended. A process that was frozen for longer than its lease keeps the claim if nobody has taken over.
async fn renew_until_lost(claim: &Claim, clock: &dyn Clock) -> Lost {
    loop {
        let left = claim.deadline().since(clock.now());
        clock.sleep((left / 2).max(SHORTEST_PAUSE.min(left))).await;
        let last_try = claim.deadline() <= clock.now();
        match claim.renew().await {
            Err(Lost::Store(error)) if last_try => return Lost::Store(error),
            Err(Lost::TakenOver) => return Lost::TakenOver,
            Ok(()) | Err(Lost::Store(_)) => {}
        }
    }
}
