//! Every order of the calls of two callers, and everything that can become of each call, within a bound.
//!
//! The real ledger runs on the embedded DynamoDB, and each call to it waits for the explorer: before it arrives, and before
//! its answer does. In every state, no attempt of a refused request has been committed. At the end of every path:
//!
//! - the books are right: no money appeared or vanished, no balance is negative, nothing was reversed twice (`verify`);
//! - there is at most one entry per request, and exactly one if somebody was told that it was done;
//! - all who were told that it was done were told the same;
//! - that still holds when the calls arrive that were on their way, and when every request is sent again;
//! - every request that is sent again is answered.
//!
//! One thing goes wrong where a caller makes one request. Where it makes several, only their order is explored here, because the
//! embedded DynamoDB takes milliseconds per call. `FAULTS=n` explores all of them further.

#![expect(clippy::print_stdout, reason = "the numbers of states and paths are the result")]

#[path = "../support/mod.rs"]
mod support;
mod wire;
mod world;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use support::{number, transfer};
use testkit::explore::{self, Bound, Choice, Model, Path};
use testkit::faults::Fault;
use tokens::ledger::BUDGET;
use tokens::settings::Rules;
use world::World;

/// The two callers, what is on its way of each of them, and who asks afterwards.
const CALLERS: usize = 2;
const AFTERWARDS: usize = 2 * CALLERS;
/// Machines that nobody can crash.
const NETWORK: u32 = u32::MAX - 1;
const NOBODY: u32 = u32::MAX;

const LAST: &[Choice] = &[Choice::normal("")];

/// One request. The name of a transfer is its key.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Send {
        name: &'static str,
        from: &'static str,
        to: &'static str,
        amount: &'static str,
    },
    /// Takes a transfer back, if this caller knows that it was done.
    Reverse {
        name: &'static str,
        of: &'static str,
    },
    Freeze {
        who: &'static str,
    },
}

impl Ask {
    fn name(self) -> &'static str {
        match self {
            Self::Send { name, .. } | Self::Reverse { name, .. } | Self::Freeze { who: name } => name,
        }
    }
}

struct Scenario {
    name: &'static str,
    callers: [&'static [Ask]; CALLERS],
    rules: Rules,
    /// How long the ledger tries. With none, one attempt is made, and the caller is told sooner that nothing is known.
    budget: Duration,
    /// The items with which each path starts.
    items: Vec<Value>,
    /// The name and the answer of a transfer that was made before.
    made: Option<(&'static str, String)>,
    /// What a write meets that meets a conflict.
    conflict: Fault,
    /// Which transactions of the first caller meet one in any case.
    meets: &'static [u32],
}

impl Scenario {
    fn new(
        name: &'static str,
        budget: Duration,
        fee: &str,
        before: Option<Ask>,
        callers: [&'static [Ask]; CALLERS],
    ) -> Self {
        let rules = Rules { tax_rate: fee.parse().unwrap(), treasury_shards: 1, ..Rules::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (items, made) = runtime.block_on(async {
            let world = support::World::new(rules.clone(), 1).await;
            world.open(&["alice", "bob", "carol"]).await;
            let mut made = None;
            if let Some(Ask::Send { name, from, to, amount }) = before {
                let mut request = transfer(from, to, amount, name);
                name.clone_into(&mut request.message);
                made = Some((name, world.ledger.transfer(&request, world.until()).await.unwrap().body));
            }
            (world.db.items(world.table()), made)
        });
        Self { name, callers, rules, budget, items, made, conflict: Fault::Conflict, meets: &[] }
    }

    /// Conflicts are about bob's account, which everybody pays. If `shards`, it has shards, and the most of its money is in one of them.
    /// If not, the first caller meets the two conflicts after which the account gets them.
    fn hot(name: &'static str, shards: bool, callers: [&'static [Ask]; CALLERS]) -> Self {
        let mut scenario = Self::new(name, BUDGET, "0", None, callers);
        scenario.conflict = Fault::ConflictOn("ACCOUNT#did:key:bob");
        if !shards {
            scenario.meets = &[1, 3];
        } else {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            scenario.items = runtime.block_on(async {
                let world = support::World::new(scenario.rules.clone(), 1).await;
                world.open(&["alice", "bob", "carol"]).await;
                world.give_shards("carol", "bob").await;
                // This instance knows that the account is hot, so it pays a shard.
                world.send("alice", "bob", "900", "before").await.unwrap();
                world.send("bob", "carol", "900", "before").await.unwrap();
                world.db.items(world.table())
            });
        }
        scenario
    }

    /// Explores everything within the bound. `paths` is how many paths there were when this was written.
    fn explore(&self, faults: u32, paths: u64) {
        let faults = u32::try_from(number("FAULTS", u64::from(faults))).unwrap();
        let report = explore::explore(self, &Bound::faults(faults));
        if let Some(violation) = report.violation {
            let history = explore::replay(self, violation.faults, &violation.choices).history;
            panic!("{}: {violation}\n{history}", self.name);
        }
        println!("{}: explored {} states, {} paths: 0 violations", self.name, report.states, report.paths);
        assert!(report.paths >= paths, "{}: {} paths, there were {paths}", self.name, report.paths);
    }
}

impl Model for Scenario {
    type World = Arc<World>;

    fn lanes(&self) -> Vec<String> {
        ["caller 1", "caller 2", "on its way 1", "on its way 2", "afterwards"].map(str::to_owned).to_vec()
    }

    fn begin(&self, path: &Path) -> Arc<World> {
        let world = Arc::new(World::new(path, self));
        for (lane, asks) in self.callers.into_iter().enumerate() {
            let ledger = world.ledger(lane, self);
            let (world, budget) = (Arc::clone(&world), self.budget);
            path.spawn(lane, u32::try_from(lane).unwrap(), async move {
                for ask in asks {
                    world.ask(&ledger, lane, *ask, budget).await;
                }
            });
        }
        world
    }

    fn fingerprint(&self, world: &Arc<World>, mut state: &mut dyn Hasher) {
        world.wire.dump().hash(&mut state);
        format!("{:?}", world.told()).hash(&mut state);
    }

    fn check(&self, world: &Arc<World>) -> Result<(), String> {
        world.wire.refused_is_refused()
    }

    fn end(&self, world: &Arc<World>, path: &Path) -> Result<(), String> {
        world.audit("when the callers were gone")?;
        let before = world.wire.dump();
        let last = path.clone();
        path.spawn(AFTERWARDS, NOBODY, async move {
            last.gate(AFTERWARDS, "everything has arrived", wire::STORE, LAST).await;
        });
        path.settle()?;
        if world.wire.dump() != before {
            world.audit("when everything had arrived")?;
        }
        let ledger = world.ledger(AFTERWARDS, self);
        let asks: Vec<Ask> = self.callers.iter().flat_map(|asks| asks.iter().copied()).collect();
        let again = Arc::clone(world);
        path.spawn(AFTERWARDS, NOBODY, async move {
            for ask in asks {
                again.ask(&ledger, AFTERWARDS, ask, BUDGET).await;
            }
        });
        path.settle()?;
        world.audit("when everything had been sent again")?;
        world.everybody_is_answered()
    }
}

const RENT: Ask = Ask::Send { name: "rent", from: "alice", to: "bob", amount: "400" };
/// More than alice has, unless she gets what carol sends.
const HOUSE: Ask = Ask::Send { name: "house", from: "alice", to: "bob", amount: "1200" };
const LOAN: Ask = Ask::Send { name: "loan", from: "carol", to: "alice", amount: "500" };
const GIFT: Ask = Ask::Send { name: "gift", from: "carol", to: "bob", amount: "400" };
const CAR: Ask = Ask::Send { name: "car", from: "alice", to: "bob", amount: "700" };
const BOAT: Ask = Ask::Send { name: "boat", from: "alice", to: "carol", amount: "700" };
const BACK: Ask = Ask::Reverse { name: "rent, back", of: "rent" };
const HURRIED: Duration = Duration::ZERO;

#[test]
fn one_transfer_sent_by_two_callers() {
    Scenario::new("one transfer twice", BUDGET, "0", None, [&[RENT], &[RENT]]).explore(1, 208);
}

#[test]
fn one_transfer_sent_by_two_callers_in_a_hurry() {
    Scenario::new("one transfer twice, in a hurry", HURRIED, "0", None, [&[RENT, RENT], &[RENT]]).explore(0, 9);
}

#[test]
fn a_refusal_while_the_balance_rises() {
    Scenario::new("a refusal", BUDGET, "0", None, [&[HOUSE], &[LOAN]]).explore(1, 610);
}

#[test]
fn a_refusal_while_another_caller_sends_the_same() {
    Scenario::new("a refusal and its key again", HURRIED, "0", None, [&[HOUSE], &[LOAN, HOUSE]]).explore(0, 17);
}

#[test]
fn two_senders_to_one_recipient() {
    Scenario::new("a hot recipient", BUDGET, "0", None, [&[RENT], &[GIFT]]).explore(1, 205);
}

#[test]
fn two_transfers_of_the_same_money() {
    Scenario::new("the same money", BUDGET, "0", None, [&[CAR], &[BOAT]]).explore(1, 368);
}

#[test]
fn a_transfer_and_its_reversal() {
    Scenario::new("a transfer and its reversal", BUDGET, "0", None, [&[RENT, BACK], &[RENT]]).explore(0, 12);
}

#[test]
fn one_reversal_asked_for_by_two_callers() {
    Scenario::new("one reversal twice", BUDGET, "0", Some(RENT), [&[BACK], &[BACK]]).explore(0, 22);
}

/// With a fee, the treasury pays, and its shards are read first: more calls, so nothing goes wrong here.
#[test]
fn one_reversal_paid_by_the_treasury() {
    Scenario::new("one reversal with a fee", BUDGET, "0.05", Some(RENT), [&[BACK], &[BACK]]).explore(0, 76);
}

/// More than bob's account has itself, and less than it has with its shards.
const TRIP: Ask = Ask::Send { name: "trip", from: "bob", to: "carol", amount: "600" };
const BIKE: Ask = Ask::Send { name: "bike", from: "bob", to: "alice", amount: "600" };
const COIN: Ask = Ask::Send { name: "coin", from: "alice", to: "bob", amount: "50" };
const FREEZE: Ask = Ask::Freeze { who: "bob" };

#[test]
fn two_senders_to_one_recipient_with_shards() {
    Scenario::hot("a hot recipient with shards", true, [&[COIN], &[GIFT]]).explore(1, 209);
}

#[test]
fn two_senders_to_one_recipient_that_gets_shards() {
    Scenario::hot("a hot recipient gets shards", false, [&[COIN], &[GIFT]]).explore(0, 33);
}

#[test]
fn a_payment_that_folds_the_shards_while_one_is_paid() {
    Scenario::hot("a fold and a credit", true, [&[TRIP], &[GIFT]]).explore(0, 12);
}

#[test]
fn two_payments_of_the_same_money_in_shards() {
    Scenario::hot("the same money in shards", true, [&[TRIP], &[BIKE]]).explore(0, 88);
}

#[test]
fn an_account_with_shards_is_frozen_while_one_is_paid() {
    Scenario::hot("a freeze and a credit", true, [&[COIN], &[FREEZE]]).explore(0, 6);
}

#[test]
fn an_account_is_frozen_while_it_gets_shards() {
    Scenario::hot("a freeze and new shards", false, [&[COIN], &[FREEZE]]).explore(0, 32);
}
