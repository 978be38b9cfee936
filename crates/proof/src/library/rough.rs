//! The store with a bad connection: the explorer decides what becomes of each request and of each answer.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ichido::store::{Admit, Admitted, Error, Settle, Settled, Transition};
use ichido::{Key, Record, State, Store};
use ichido_testkit::explore::{Choice, Gate, Group};

use super::world::World;
use crate::ledger::Life;

const ARRIVES: Choice = Choice::normal("arrives");
const REQUEST: &[Choice] = &[
    ARRIVES,
    Choice::fault("does not arrive, an error"),
    Choice::fault("arrives TWICE"),
    Choice::fault("does not arrive, an OUTAGE begins"),
    Choice::fault("is under way for LONG, an error"),
];
const LATE: &[Choice] = &[Choice::normal("arrives")];
/// A release or a failure that arrives twice is refused the second time, like a completion.
const ENDING: &[Choice] = &[REQUEST[0], REQUEST[1], REQUEST[4]];
/// A read changes nothing, so it makes no difference how often or when it arrives.
const READ: &[Choice] = &[REQUEST[0], REQUEST[1]];
const ANSWER: &[Choice] = &[Choice::normal("arrives"), Choice::fault("is LOST, an error")];

/// The bits of what a step touches: the keys, then the instances.
pub(super) fn touches_key(world: &World, key: &Key) -> u64 {
    world.keys().iter().position(|other| other == key).map_or(u64::MAX, |at| 1 << at)
}

pub(super) fn touches_instance(life: Life) -> u64 {
    1 << (8 + life.min(16))
}

pub(super) struct Rough {
    world: Arc<World>,
    life: Life,
}

#[derive(Debug)]
struct Away(&'static str);

impl std::fmt::Display for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Away {}

fn away(text: &'static str) -> Error {
    Error::Transient(Box::new(Away(text)))
}

impl Rough {
    pub(super) fn new(world: &Arc<World>, life: Life) -> Self {
        Self { world: Arc::clone(world), life }
    }

    async fn call<T, F>(
        &self,
        call: Call,
        key: &Key,
        perform: impl Fn() -> F + Send + Sync,
        late: impl FnOnce() -> Late + Send,
        told: impl Fn(&T) -> String + Send + Sync,
    ) -> Result<T, Error>
    where
        T: Send + Debug,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let World { path, scenario, .. } = &*self.world;
        let lane = path.lane().unwrap_or(scenario.background());
        let Call { what, choices, after_effect } = call;
        let instance = touches_instance(self.life);
        let group = self.life;
        let touches = touches_key(&self.world, key) | instance;
        let chosen = path.gate_with(Gate { group, lane, what, touches, mortal: after_effect }, choices).await;
        // An outage concerns the requests of all instances. They all touch one key or one instance, so that their order counts.
        if self.world.in_outage() {
            path.note(lane, || "… but there is an outage".to_owned());
            return Err(away("no connection"));
        }
        // The numbers below are those of all choices.
        let chosen = REQUEST.iter().position(|choice| *choice == choices[chosen]).unwrap_or(chosen);
        let times = match chosen {
            0 => 1,
            2 => 2,
            choice => {
                match choice {
                    3 => self.world.begin_outage(),
                    4 => {
                        // Its caller has given up. It may still arrive, or never.
                        let (path, background, late) = (path.clone(), scenario.background(), late());
                        path.clone().spawn_optional(background, NETWORK, async move {
                            path.gate(background, "a late request", touches, LATE).await;
                            late.await;
                        });
                    }
                    _ => {}
                }
                return Err(away("no connection"));
            }
        };
        let mut answer = perform().await?;
        for _ in 1..times {
            answer = perform().await?;
        }
        path.note(lane, || format!("… {}", told(&answer)));
        path.told(lane, &answer);
        // Only the caller's process notices when the answer arrives.
        let answered = Gate { group, lane, what: "its answer", touches: instance, mortal: true };
        match path.gate_with(answered, ANSWER).await {
            0 => Ok(answer),
            _ => Err(away("the answer was lost")),
        }
    }
}

/// A request that arrives when nobody waits for it any more.
type Late = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Requests that are under way die with nobody.
const NETWORK: Group = Group::MAX - 2;

/// A call to the store.
struct Call {
    what: &'static str,
    choices: &'static [Choice],
    /// Something may have happened since the caller's last answer, so it makes a difference if its machine dies before this call.
    after_effect: bool,
}

fn shown(record: &Record) -> String {
    format!("refused, the key is {} (fence {})", record.state.name(), record.fence)
}

impl Store for Rough {
    async fn admit(&self, request: &Admit<'_>) -> Result<Admitted, Error> {
        let what = if matches!(request.state, State::Claimed { .. }) { "claim" } else { "write" };
        let perform = || self.world.admit(request);
        let late = || -> Late {
            let (world, key, digests) = (Arc::clone(&self.world), request.key.clone(), request.digests.cloned());
            let (owner, state, attributes) = (request.owner.clone(), request.state.clone(), request.attributes.clone());
            let Admit { now, expires_at, refuses_doubt, .. } = *request;
            Box::pin(async move {
                let (key, digests, attributes) = (&key, digests.as_ref(), &attributes);
                let request = Admit { key, owner, now, state, expires_at, digests, attributes, refuses_doubt };
                // Nobody hears the answer.
                let _ = world.admit(&request).await;
            })
        };
        let told = |answer: &Admitted| match answer {
            Admitted::Won { fence, .. } => format!("won, fence {fence}"),
            Admitted::Held(record) => shown(record),
        };
        self.call(Call { what, choices: REQUEST, after_effect: false }, request.key, perform, late, told).await
    }

    async fn settle(&self, request: &Settle<'_>) -> Result<Settled, Error> {
        let (what, choices) = match request.to {
            Transition::Complete { .. } => ("complete", REQUEST),
            Transition::Fail { .. } => ("fail", ENDING),
            Transition::Release { .. } => ("release", ENDING),
            Transition::Renew { .. } => ("renew", REQUEST),
        };
        let perform = || async {
            let answer = self.world.store.settle(request).await?;
            self.world.ledger().settled(request, &answer);
            Ok(answer)
        };
        let late = || -> Late {
            let (world, key, owner, to) =
                (Arc::clone(&self.world), request.key.clone(), request.owner.clone(), request.to.clone());
            let Settle { fence, now, expires_at, .. } = *request;
            Box::pin(async move {
                let request = Settle { key: &key, owner, fence, now, to, expires_at };
                if let Ok(answer) = world.store.settle(&request).await {
                    world.ledger().settled(&request, &answer);
                }
            })
        };
        let told = |answer: &Settled| match answer {
            Settled::Done => "done".to_owned(),
            Settled::Lost(Some(record)) => shown(record),
            Settled::Lost(None) => "refused, there is no record".to_owned(),
        };
        self.call(Call { what, choices, after_effect: true }, request.key, perform, late, told).await
    }

    async fn read(&self, key: &Key) -> Result<Option<Record>, Error> {
        let told = |answer: &Option<Record>| {
            answer.as_ref().map_or("no record".to_owned(), |record| record.state.name().to_owned())
        };
        let call = Call { what: "read", choices: READ, after_effect: false };
        self.call(call, key, || self.world.store.read(key), || Box::pin(async {}), told).await
    }
}
