//! Every line is in BigQuery once: a crash at any point loses none, and BigQuery is asked about what is uncertain
//! (ARCHITECTURE.md, "What must always hold", 7).
//!
//! A run is killed at each of its effects in turn: before, in the middle of or after every write to the disk and
//! every call to BigQuery. Further runs are sometimes killed too. The last run is left to finish.

mod support;

use emulator::bigquery::{Fault, Faults};
use fastrand::Rng;
use support::{Fuse, World, Writer, assert_same, expected, runtime, uploaded};

/// How many projects are generated.
const SEEDS: u64 = 40;

/// Kills a run at every point of the upload of one generated project. Returns how many points there were.
async fn kill_everywhere(seed: u64, forgetful: bool) -> u64 {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::new(seed);
    // Small batches, so that there are many points between two effects.
    world.batch_rows = rng.usize(1..4);
    let lines = rng.usize(8..24);
    Writer::new(seed).files(&world.logs(), lines);
    let expected = expected(world.root.path());
    let troubled = rng.bool();
    let mut point = 0;
    loop {
        point += 1;
        let what =
            format!("seed {seed}, insertIds {}, point {point}", if forgetful { "forgotten" } else { "remembered" });
        world.standin = std::sync::Arc::new(support::standin(seed));
        world.disk = support::MemoryDisk::new();
        world.standin.set_faults(Faults {
            forgetful,
            max_rows: rng.bool().then_some(3),
            inserts: troubled.then_some((Fault::AcceptThenLose, 0.2)),
            ..Faults::default()
        });
        let (_, result) = world.run(&Fuse::new(point, rng.u64(..)), rng.u64(..)).await;
        let whole = result.is_ok();
        // Sometimes the runs that clean up are killed as well.
        for _ in 0..rng.u8(0..3) {
            let fuse = Fuse::new(rng.u64(1..20), rng.u64(..));
            let _ = world.run(&fuse, rng.u64(..)).await;
        }
        let (_, result) = world.run(&Fuse::unlimited(), rng.u64(..)).await;
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_same(&uploaded(&world.standin), &expected, &what);
        if whole {
            return point;
        }
    }
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
