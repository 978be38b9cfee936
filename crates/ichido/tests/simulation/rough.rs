//! A store with a bad connection.
//!
//! For each call the seed decides what goes wrong: an error before it, an error after it (the answer is lost), a second
//! attempt (as of an SDK that retries after a lost answer), a delay on either way that may be longer than a lease, or a
//! crash of the caller before or after it.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use ichido::store::{Admit, Admitted, Error, Settle, Settled};
use ichido::{Key, Record, Store};
use proof::ledger::Life;

use crate::world::World;

/// The longest delay: twice a lease.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(20);

pub(crate) struct Rough<S> {
    pub(crate) inner: S,
    pub(crate) world: Arc<World>,
    pub(crate) life: Life,
    /// Locked while a call is performed and noted, so that the ledger has the order of the store. All instances share it.
    pub(crate) order: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Away(&'static str);

fn away(text: &'static str) -> Error {
    Error::Transient(Box::new(Away(text)))
}

impl<S: Store> Rough<S> {
    async fn call<T, F>(
        &self,
        perform: impl Fn() -> F + Send + Sync,
        note: impl Fn(&T) + Send + Sync,
    ) -> Result<T, Error>
    where
        T: Send,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let world = &self.world;
        world.sim.pause().await;
        if world.in_outage() && world.chance(0.7) || world.chance(world.plan.error_before) {
            return Err(away("no connection"));
        }
        self.maybe_crash().await;
        self.maybe_wait().await;
        let mut answer = self.ordered(&perform, &note).await;
        if world.chance(world.plan.retried_inside) {
            world.answer_lost();
            self.maybe_wait().await;
            answer = self.ordered(&perform, &note).await;
        }
        self.maybe_crash().await;
        self.maybe_wait().await;
        if world.in_outage() || world.chance(world.plan.lost_answer) {
            world.answer_lost();
            world.note(|| format!("life {} never gets that answer", self.life));
            return Err(away("the answer was lost"));
        }
        world.sim.pause().await;
        answer
    }

    async fn ordered<T, F>(&self, perform: &impl Fn() -> F, note: &impl Fn(&T)) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let _order = self.order.lock().await;
        let answer = perform().await?;
        note(&answer);
        Ok(answer)
    }

    async fn maybe_wait(&self) {
        if self.world.chance(self.world.plan.slow) {
            self.world.sim.sleep(self.world.sim.shorter_than(LONGEST_DELAY)).await;
        }
    }

    async fn maybe_crash(&self) {
        if self.world.may_crash() {
            self.world.note(|| format!("life {} CRASHES", self.life));
            self.world.sim.kill(self.life);
            pending::<()>().await;
        }
    }
}

impl<S: Store> Store for Rough<S> {
    async fn admit(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        self.call(|| self.inner.admit(request), |answer| self.world.admitted(request, answer)).await
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Settled, Error> {
        self.call(|| self.inner.settle(request), |answer| self.world.settled(request, answer)).await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.call(|| self.inner.read(key), |_| {}).await
    }
}
