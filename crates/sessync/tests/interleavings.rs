//! Any interleaving of runs with appends to log files, truncations, renames, copies and removals uploads each line once.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use emulator::bigquery::{Fault, Faults};
use support::{World, Writer, dying, expected, runtime, uploaded};
use testkit::Outside;

fn logs(world: &World) -> Vec<PathBuf> {
    let mut logs: Vec<PathBuf> = fs::read_dir(world.logs())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    logs.sort();
    logs
}

async fn interleave(seed: u64, steps: usize) {
    let mut world = World::new(seed);
    let mut writer = Writer::new(seed);
    fs::create_dir_all(world.logs()).unwrap();
    world.batch_rows = writer.rng.usize(1..6);
    world.standin.set_faults(Faults {
        forgetful: writer.rng.bool(),
        inserts: writer.rng.bool().then_some((Fault::AcceptThenLose, 0.1)),
        ..Faults::default()
    });
    // `must`: lines that a finished run has seen. `may`: lines that were ever written.
    let mut must: BTreeMap<_, u64> = BTreeMap::new();
    let mut may: BTreeMap<_, u64> = BTreeMap::new();
    let mut names = 0;
    for step in 0..steps {
        let all = logs(&world);
        let some = (!all.is_empty()).then(|| all[writer.rng.usize(0..all.len())].clone());
        let what = match (writer.rng.u8(0..100), some) {
            (0..20, _) | (_, None) => {
                names += 1;
                fs::write(world.logs().join(format!("log-{names}.jsonl")), b"").unwrap();
                "create"
            }
            (20..50, Some(path)) => {
                let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
                for _ in 0..writer.rng.usize(1..6) {
                    file.write_all(&writer.line("s")).unwrap();
                    // Sometimes the newline is still to come.
                    if writer.rng.u8(0..10) > 0 {
                        file.write_all(b"\n").unwrap();
                    }
                }
                "append"
            }
            (50..58, Some(path)) => {
                let length = fs::metadata(&path).unwrap().len();
                fs::OpenOptions::new().write(true).open(path).unwrap().set_len(writer.rng.u64(0..=length)).unwrap();
                "truncate"
            }
            (58..64, Some(path)) => {
                names += 1;
                fs::rename(path, world.logs().join(format!("moved-{names}.jsonl"))).unwrap();
                "rename"
            }
            (64..70, Some(path)) => {
                names += 1;
                fs::copy(path, world.logs().join(format!("copy-{names}.jsonl"))).unwrap();
                "copy"
            }
            (70..74, Some(path)) => {
                fs::remove_file(path).unwrap();
                "remove"
            }
            (74..86, _) => {
                may.extend(expected(world.root.path()));
                let stopped = dying(writer.rng.u64(1..30), writer.rng.u64(..));
                if world.run(&stopped, writer.rng.u64(..)).await.1.is_ok() {
                    must.extend(expected(world.root.path()));
                }
                "killed run"
            }
            _ => {
                let (_, result) = world.run(&Outside::new(), writer.rng.u64(..)).await;
                result.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
                must.extend(expected(world.root.path()));
                may.extend(expected(world.root.path()));
                "run"
            }
        };
        let there = uploaded(&world.standin);
        for (identity, count) in &there {
            assert_eq!(*count, 1, "seed {seed}, step {step} ({what}): doubled {identity:?}");
            assert!(may.contains_key(identity), "seed {seed}, step {step} ({what}): never written {identity:?}");
        }
        for identity in must.keys() {
            assert!(there.contains_key(identity), "seed {seed}, step {step} ({what}): lost {identity:?}");
        }
    }
}

#[test]
fn any_interleaving_of_changes_and_runs_uploads_each_line_once() {
    for seed in 0..60 {
        runtime().block_on(interleave(seed, 80));
    }
}
