//! The ledger and a model of it give the same answers to random operations.

use std::time::Duration;

use crate::support::model::{Expected, Model};
use crate::support::*;
use ichido::Clock;
use testkit::faults::{Fault, Rule};
use tokens::amount::Amount;
use tokens::ledger::{Answer, Error, Transfer};
use tokens::settings::{Rules, Window};

const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "nobody"];
const OPENED: usize = 4;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn observed(result: &Result<Answer, Error>) -> Expected {
    match result {
        Ok(answer) if answer.replayed => Expected::Replayed,
        Ok(_) => Expected::Made,
        Err(Error::Mismatch { fields }) => Expected::Mismatch(fields.clone()),
        Err(Error::Refused(refusal)) => Expected::Refused(*refusal),
        Err(other) => panic!("{other:?}"),
    }
}

fn any_transfer(random: &mut fastrand::Rng) -> Transfer {
    let from = random.usize(..NAMES.len());
    let to = (from + 1 + random.usize(..NAMES.len() - 1)) % NAMES.len();
    // few keys and few amounts, so that replays and mismatches are common
    let amount = Amount::from_units([1, 333, 20_000_000_000, 70_000_000_000, 12_345_678_901][random.usize(..5)]);
    let mut transfer = transfer(NAMES[from], NAMES[to], "1", &format!("k{}", random.u8(..40)));
    transfer.amount = amount;
    transfer.message = ["", "hello"][random.usize(..2)].into();
    transfer
}

async fn run(seed: u64, operations: usize, faults: &[Fault]) {
    let mut random = fastrand::Rng::with_seed(seed);
    let rules = Rules {
        tax_rate: ["0", "0.015", "0.33333333"][random.usize(..3)].parse().unwrap(),
        daily_limit: Amount::whole(2_000).unwrap(),
        treasury_shards: 1 + random.u8(..8),
        window: Window::For(2 * DAY),
        ..Rules::default()
    };
    let mut model = Model { rate: rules.tax_rate, daily_limit: Some(rules.daily_limit), ..Model::default() };
    let world = World::new(rules, seed).await;
    world.open(&NAMES[..OPENED]).await;
    for name in &NAMES[..OPENED] {
        model.balances.insert(did(name), Amount::whole(1_000).unwrap().units());
    }
    for fault in faults {
        world.db.faults().put(Rule::new(*fault).on("TransactWriteItems").rate(0.15));
    }
    for step in 0..operations {
        match random.u8(..20) {
            0 => world.clock.advance(Duration::from_secs(random.u64(..3 * 24 * 60 * 60))),
            1 => {
                let (name, frozen) = (NAMES[random.usize(..OPENED)], random.bool());
                world.ledger.set_frozen(&did(name), frozen, "test").await.unwrap();
                model.frozen.insert(did(name), frozen);
            }
            2 => drop(world.db.sweep(world.clock.now())),
            _ => {
                let transfer = any_transfer(&mut random);
                let now = world.clock.now().as_millis();
                let result = world.ledger.transfer(&transfer, world.until()).await;
                let expected = model.transfer(&transfer, now, 2 * DAY.as_millis() as u64);
                assert_eq!(observed(&result), expected, "seed {seed}, step {step}: {transfer:?}");
            }
        }
    }
    world.db.faults().heal();
    for (did, units) in &model.balances {
        let held = world.ledger.holding(did).await.unwrap().unwrap().balance;
        assert_eq!(held.0, i128::from(*units), "seed {seed}: {did}");
    }
    let treasury = world.ledger.rules().treasury.clone();
    assert_eq!(
        world.ledger.holding(&treasury).await.unwrap().unwrap().balance.0,
        i128::from(model.fees),
        "seed {seed}"
    );
    let entries = world.items("SENT#");
    assert_eq!(entries.len(), model.made.len(), "seed {seed}");
    let report = world.verify().await;
    assert!(report.is_clean(), "seed {seed}: {report:#?}");
}

#[tokio::test]
async fn the_ledger_and_its_model_agree() {
    let first = seed(0);
    for seed in first..first + number("MODEL_SEEDS", 6) {
        run(seed, 150, &[]).await;
    }
}

#[tokio::test]
async fn they_agree_though_writes_conflict_or_are_throttled() {
    // What DynamoDB cancels or throttles did nothing, so the answers are the same. (After a lost answer they may differ. The
    // simulation has lost answers.)
    let first = seed(100);
    for seed in first..first + number("MODEL_SEEDS", 6) {
        run(seed, 150, &[Fault::Conflict, Fault::Throttle]).await;
    }
}
