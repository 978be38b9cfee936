//! Keeps a claim alive while its work goes on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::claim::{Claim, Lost};
use crate::clock::Clock;
use crate::once::MAX_CLOCK_SKEW;

/// A renewal that fails is repeated after this pause at the earliest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Polls the work, and renews the claim beside it. An error if the claim was lost before the work ended; the work is dropped
/// then. The work goes on only while the lease lasts: a process that was frozen for longer renews its claim first.
pub(super) async fn until_done<T>(work: impl Future<Output = T>, claim: &Claim, clock: &dyn Clock) -> Result<T, Lost> {
    let (mut work, mut loss) = (pin!(work), pin!(renew_until_lost(claim, clock)));
    poll_fn(|context| {
        if let Poll::Ready(lost) = loss.as_mut().poll(context) {
            return Poll::Ready(Err(lost));
        }
        // The renewal under way wakes this task when it is answered.
        if claim.deadline() <= clock.now() {
            return Poll::Pending;
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

/// Sleeps for half of the remaining lease, then renews. If the store fails, it sleeps for half of what is left and tries
/// again, until the lease has ended. A process that was frozen for longer than its lease keeps the claim if nobody has taken
/// over.
async fn renew_until_lost(claim: &Claim, clock: &dyn Clock) -> Lost {
    loop {
        let left = claim.deadline().since(clock.now());
        clock.sleep((left / 2).max(SHORTEST_PAUSE.min(left))).await;
        let now = clock.now();
        let last_try = claim.deadline() <= now;
        // Nobody takes over before the skew has passed too. A renewal that is not answered by then comes too late.
        let longest = (claim.deadline() + MAX_CLOCK_SKEW).since(now).max(SHORTEST_PAUSE);
        match first_of(claim.renew(), clock.sleep(longest)).await {
            Err(()) => return Lost::Lapsed,
            Ok(Err(Lost::Store(error))) if last_try => return Lost::Store(error),
            Ok(Ok(()) | Err(Lost::Store(_))) => {}
            Ok(Err(lost)) => return lost,
        }
    }
}

/// The output of the first future, or of the second one if that one is sooner. The other one is dropped.
async fn first_of<A, B>(first: impl Future<Output = A>, second: impl Future<Output = B>) -> Result<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => second.as_mut().poll(context).map(Err),
    })
    .await
}
