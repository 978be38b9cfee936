//! Histories recorded under concurrency can be put into one order, account by account.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::linear::{Observed, Operation, explain};
use crate::support::*;
use futures::future::join_all;
use testkit::faults::{Fault, Rule};
use tokens::amount::Amount;
use tokens::ledger::{Error, Obstacle};
use tokens::settings::Rules;

const START: u64 = 100_000_000_000;

fn operation(called: u64, returned: u64, observed: Observed) -> Operation {
    Operation { called, returned: Some(returned), observed }
}

// The checker is checked first

#[test]
fn a_sequential_history_is_explained() {
    let history = [
        operation(1, 2, Observed::Debited(60)),
        operation(3, 4, Observed::Refused(50)),
        operation(5, 6, Observed::Credited(10)),
        operation(7, 8, Observed::Read(50)),
    ];
    assert_eq!(explain(100, &history), Some(vec![0, 1, 2, 3]));
}

#[test]
fn overlapping_operations_may_be_put_into_either_order() {
    let history = [
        operation(1, 9, Observed::Credited(50)),
        operation(2, 3, Observed::Refused(120)),
        operation(4, 5, Observed::Read(150)),
    ];
    assert!(explain(100, &history).is_some());
}

#[test]
fn broken_histories_are_found() {
    // both spent the last coin
    assert!(
        explain(100, &[operation(1, 4, Observed::Debited(100)), operation(2, 3, Observed::Debited(100))]).is_none()
    );
    // a read that saw the past
    assert!(explain(100, &[operation(1, 2, Observed::Debited(40)), operation(3, 4, Observed::Read(100))]).is_none());
    // a lost update
    let lost = [
        operation(1, 2, Observed::Debited(40)),
        operation(1, 2, Observed::Debited(40)),
        operation(3, 4, Observed::Read(60)),
    ];
    assert!(explain(100, &lost).is_none());
    // refused although there was enough at every moment
    assert!(explain(100, &[operation(1, 4, Observed::Refused(50)), operation(2, 3, Observed::Credited(1))]).is_none());
    // money that appears
    assert!(explain(100, &[operation(1, 2, Observed::Read(101))]).is_none());
}

#[test]
fn what_was_never_known_may_have_happened_later_or_never() {
    let unknown = Operation { called: 1, returned: None, observed: Observed::Debited(40) };
    for balance in [100, 60] {
        assert!(explain(100, &[unknown, operation(5, 6, Observed::Read(balance))]).is_some(), "{balance}");
    }
    assert!(
        explain(100, &[operation(5, 6, Observed::Read(60)), Operation { called: 7, ..unknown }]).is_none(),
        "not before it was called"
    );
}

// The ledger

async fn check(seed: u64) {
    const NAMES: [&str; 3] = ["alice", "bob", "carol"];
    let mut random = fastrand::Rng::with_seed(seed);
    let world = World::new(Rules::default(), seed).await;
    world.open(&NAMES).await;
    // Some worlds begin with shards. In others with conflicts they come into being.
    if seed.is_multiple_of(4) {
        for (from, to) in [("alice", "bob"), ("bob", "carol"), ("carol", "alice")] {
            world.give_shards(from, to).await;
        }
    }
    for (fault, rate) in [
        (Fault::Slow(Duration::from_millis(9)), 0.3),
        (Fault::Late(Duration::from_millis(13)), 0.3),
        (Fault::LoseAnswer, 0.1),
        (Fault::Conflict, 0.1),
        (Fault::ConflictOn("ACCOUNT#"), if seed.is_multiple_of(2) { 0.3 } else { 0.0 }),
        (Fault::Down, 0.05),
    ] {
        world.db.faults().put(Rule::new(fault).rate(rate));
    }
    // Not the time: two things can happen in one millisecond, and the order of calls is known exactly.
    let moment = AtomicU64::new(0);
    let history: Mutex<Vec<(usize, Operation)>> = Mutex::default();
    let note = |account: usize, called: u64, returned: Option<u64>, observed: Observed| {
        history.lock().unwrap().push((account, Operation { called, returned, observed }));
    };
    let tick = || moment.fetch_add(1, Ordering::SeqCst);
    let client = async |number: u64, mut random: fastrand::Rng| {
        for n in 0..6 {
            let from = random.usize(..NAMES.len());
            let called = tick();
            if random.bool() {
                let read = world.ledger.holding(&did(NAMES[from])).await;
                if let Ok(Some(holding)) = read {
                    note(from, called, Some(tick()), Observed::Read(u64::try_from(holding.balance.0).unwrap()));
                }
                continue;
            }
            let to = (from + 1 + random.usize(..NAMES.len() - 1)) % NAMES.len();
            let units = random.u64(1..START);
            let mut request = transfer(NAMES[from], NAMES[to], "1", &format!("{number}-{n}"));
            request.amount = Amount::from_units(units);
            let result = world.ledger.transfer(&request, world.until()).await;
            let returned = tick();
            match result {
                Ok(_) => {
                    note(from, called, Some(returned), Observed::Debited(units));
                    note(to, called, Some(returned), Observed::Credited(units));
                }
                Err(Error::Refused(Obstacle::InsufficientBalance)) => {
                    note(from, called, Some(returned), Observed::Refused(units));
                }
                Err(Error::Unresolved) => {
                    note(from, called, None, Observed::Debited(units));
                    note(to, called, None, Observed::Credited(units));
                }
                Err(other) => panic!("seed {seed}: {other:?}"),
            }
        }
    };
    join_all((0..6).map(|number| client(number, fastrand::Rng::with_seed(random.u64(..))))).await;
    world.db.faults().heal();
    let history = history.into_inner().unwrap();
    for (index, name) in NAMES.iter().enumerate() {
        let mut of_one: Vec<Operation> =
            history.iter().filter(|(account, _)| *account == index).map(|(_, operation)| *operation).collect();
        // The last operation reads what it holds in the end.
        let (called, returned) = (tick(), tick());
        let held = world.ledger.holding(&did(name)).await.unwrap().unwrap().balance.0;
        of_one.push(operation(called, returned, Observed::Read(u64::try_from(held).unwrap())));
        assert!(explain(START, &of_one).is_some(), "seed {seed}: {name} {of_one:#?}");
    }
}

#[tokio::test]
async fn recorded_histories_are_linearizable_per_account() {
    let first = seed(1);
    for seed in first..first + number("LINEAR_SEEDS", 20) {
        check(seed).await;
    }
}
