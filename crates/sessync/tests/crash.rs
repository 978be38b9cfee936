//! Every line is in BigQuery once: a crash at any point loses none, and BigQuery is asked about what is uncertain
//! (ARCHITECTURE.md, "What must always hold", 7).
//!
//! A run is killed at each of its effects in turn: before, in the middle of and after every write to the disk, and before and
//! after every call to BigQuery, which may also only lose its connection. Further runs are sometimes killed too. The last run is
//! left to finish.

mod support;

use std::cell::RefCell;

use emulator::bigquery::{Fault, Faults};
use fastrand::Rng;
use support::{World, Writer, assert_same, dying, expected, runtime, uploaded};
use testkit::interrupt;

/// How many projects are generated.
const SEEDS: u64 = 14;

/// Stops a run at every point of the upload of one generated project. Returns how many points there were.
async fn kill_everywhere(seed: u64, forgetful: bool) -> usize {
    let mut rng = Rng::with_seed(seed);
    let mut project = World::new(seed);
    // Small batches, so that there are many points between two effects.
    project.batch_rows = rng.usize(1..4);
    let lines = rng.usize(8..24);
    Writer::new(seed).files(&project.logs(), lines);
    let expected = expected(project.root.path());
    let faults = Faults {
        forgetful,
        max_rows: rng.bool().then_some(3),
        inserts: rng.bool().then_some((Fault::AcceptThenLose, 0.2)),
        ..Faults::default()
    };
    let rng = RefCell::new(rng);
    let draw = || rng.borrow_mut().u64(..);
    let report = interrupt::at_every_call(
        async |outside| {
            let world = project.afresh(seed);
            world.standin.set_faults(faults.clone());
            (world, outside)
        },
        async |(world, outside)| {
            // A run that nothing stops must succeed.
            let again = outside.stopped().is_some();
            let (_, result) = world.run(outside, seed).await;
            assert!(!again || result.is_ok(), "{result:?}");
            result
        },
        async |(world, _)| {
            // Sometimes the runs that clean up are killed as well.
            for _ in 0..draw() % 3 {
                let _ = world.run(&dying(1 + draw() % 19, draw()), draw()).await;
            }
        },
        async |(world, outside)| {
            let ids = if forgetful { "forgotten" } else { "remembered" };
            let what = format!("seed {seed}, insertIds {ids}, {:?}", outside.stopped());
            assert_same(&uploaded(&world.standin), &expected, &what);
        },
    )
    .await;
    report.stops + report.cuts
}

fn kill_everywhere_in(seeds: std::ops::Range<u64>, forgetful: bool) {
    let mut points = 0;
    for seed in seeds {
        points += runtime().block_on(kill_everywhere(seed, forgetful));
    }
    assert!(points > 1000, "only {points} points were tried");
}

#[test]
fn killed_anywhere_while_insert_ids_are_remembered_no_line_is_lost_or_doubled() {
    kill_everywhere_in(0..SEEDS, false);
}

#[test]
fn killed_anywhere_while_insert_ids_are_forgotten_no_line_is_lost_or_doubled() {
    kill_everywhere_in(1000..1000 + SEEDS, true);
}
