//! Runs against the stand-in: what arrives, and what the summary says.

mod support;

use std::fs;
use std::time::Duration;

use emulator::bigquery::{Fault, Faults};
use sessync::clock::Clock as _;
use sessync::journal::Journal;
use sessync::upload;
use support::{World, Writer, dying, line, runtime};
use testkit::Outside;

#[test]
fn everything_is_uploaded_once_and_the_second_run_does_nothing() {
    runtime().block_on(async {
        let world = World::new(1);
        Writer::new(1).files(&world.logs(), 200);
        let first = world.run_whole(1).await;
        world.assert_each_line_once("first run");
        assert!(first.duplicates > 0 && first.other_content > 0 && !first.skipped.is_empty(), "{first:?}");
        let calls = world.standin.calls();
        let second = world.run_whole(2).await;
        assert_eq!((second.uploaded, second.lines), (0, 0));
        assert_eq!(world.standin.calls(), calls);
    });
}

#[test]
fn what_is_appended_is_read_and_nothing_before_it() {
    runtime().block_on(async {
        let world = World::new(2);
        fs::create_dir_all(world.logs()).unwrap();
        let path = world.logs().join("a.jsonl");
        let mut text = format!("{}\n{}", line("u1", "s", "one", 1), &line("u2", "s", "two", 2)[..20]);
        fs::write(&path, &text).unwrap();
        assert_eq!(world.run_whole(1).await.uploaded, 1);
        assert_eq!(world.run_whole(2).await.uploaded, 0, "half a line is not a line");
        text.push_str(&line("u2", "s", "two", 2)[20..]);
        text.push('\n');
        fs::write(&path, &text).unwrap();
        let third = world.run_whole(3).await;
        assert_eq!((third.uploaded, third.lines), (1, 1));
        world.assert_each_line_once("appended");
    });
}

#[test]
fn a_file_of_many_batches_and_many_reads_is_read_whole_in_one_run_and_in_runs_that_die() {
    runtime().block_on(async {
        for seed in 0..4 {
            let mut world = World::new(seed);
            let mut writer = Writer::new(seed);
            world.batch_rows = writer.rng.usize(20..200);
            fs::create_dir_all(world.logs()).unwrap();
            let path = world.logs().join("a.jsonl");
            let mut bytes = Vec::new();
            // Several times as much as is read at once.
            while bytes.len() < 900_000 {
                bytes.extend(writer.line("s"));
                bytes.push(b'\n');
            }
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            fs::write(&path, &bytes).unwrap();
            // From now on the file looks unchanged: a line that this run leaves out would never be read.
            world.clock.jump(3_600_000);
            if seed % 2 == 0 {
                assert_eq!(world.run_whole(seed).await.lines, lines, "seed {seed}");
                world.assert_each_line_once(&format!("seed {seed}: one run"));
            }
            for life in 0..4 {
                for _ in 0..300 {
                    bytes.extend(writer.line("s"));
                    bytes.push(b'\n');
                }
                fs::write(&path, &bytes).unwrap();
                world.clock.jump(3_600_000);
                let stopped = dying(writer.rng.u64(1..60), writer.rng.u64(..));
                let _ = world.run(&stopped, life).await;
            }
            world.run_whole(seed).await;
            world.assert_each_line_once(&format!("seed {seed}: lives"));
            assert_eq!(world.run_whole(seed).await.lines, 0, "seed {seed}");
        }
    });
}

#[test]
fn an_invalid_row_is_set_aside_with_its_reason_and_holds_up_nobody() {
    runtime().block_on(async {
        let world = World::new(3);
        fs::create_dir_all(world.logs()).unwrap();
        let bad = line("bad", "s", "x", 50).replace("\"timestamp\":\"2", "\"timestamp\":\"someday 2");
        let lines: Vec<String> = (0..20).map(|at| line(&format!("u{at}"), "s", "x", at)).chain([bad]).collect();
        fs::write(world.logs().join("a.jsonl"), lines.join("\n") + "\n").unwrap();
        let summary = world.run_whole(1).await;
        assert_eq!((summary.uploaded, summary.set_aside), (20, 1));
        let letters = world.disk.files.lock().unwrap()[upload::DEAD_LETTERS].clone();
        let letter: serde_json::Value = serde_json::from_slice(&letters).unwrap();
        assert_eq!(letter["uuid"], "bad");
        assert!(letter["reason"].as_str().unwrap().contains("timestamp"), "{letter}");
        assert_eq!(world.run_whole(2).await.set_aside, 0, "once");
    });
}

#[test]
fn a_request_that_is_too_large_is_split_until_it_fits() {
    runtime().block_on(async {
        let mut world = World::new(4);
        world.batch_rows = 64;
        Writer::new(4).files(&world.logs(), 150);
        world.standin.set_faults(Faults { max_rows: Some(3), ..Faults::default() });
        world.run_whole(1).await;
        world.assert_each_line_once("split");
    });
}

#[test]
fn passing_failures_are_waited_out_and_answers_that_got_lost_are_asked_for() {
    runtime().block_on(async {
        for forgetful in [false, true] {
            let world = World::new(5);
            Writer::new(5).files(&world.logs(), 120);
            world.standin.set_faults(Faults { forgetful, ..Faults::default() });
            world.standin.fail_next([
                Fault::Refuse { status: 429, retry_after: Some(40) },
                Fault::AcceptThenLose,
                Fault::Refuse { status: 503, retry_after: None },
                Fault::Lose,
                Fault::AcceptThenLose,
                Fault::Slow(Duration::from_millis(1)),
            ]);
            world.standin.fail_next_queries([Fault::Refuse { status: 500, retry_after: None }, Fault::Lose]);
            world.run_whole(1).await;
            world.assert_each_line_once("faults");
            assert!(world.clock.elapsed() >= Duration::from_secs(40), "Retry-After is honoured");
        }
    });
}

#[test]
fn a_refusal_ends_the_run_and_the_next_one_goes_on() {
    runtime().block_on(async {
        let world = World::new(6);
        Writer::new(6).files(&world.logs(), 60);
        world.standin.set_faults(Faults {
            inserts: Some((Fault::Refuse { status: 403, retry_after: None }, 1.0)),
            ..Faults::default()
        });
        let (_, result) = world.run(&Outside::new(), 1).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains("403") && error.contains("Data Editor"), "{error}");
        world.standin.set_faults(Faults::default());
        world.run_whole(2).await;
        world.assert_each_line_once("after a refusal");
        assert_eq!(world.standin.calls().1, 0, "a refusal leaves nothing uncertain");
    });
}

#[test]
fn without_deduplication_everything_is_uploaded_every_time() {
    runtime().block_on(async {
        let mut world = World::new(7);
        world.deduplication = false;
        fs::create_dir_all(world.logs()).unwrap();
        fs::write(world.logs().join("a.jsonl"), format!("{0}\n{0}\n", line("u", "s", "x", 1))).unwrap();
        world.run_whole(1).await;
        world.run_whole(2).await;
        assert_eq!(world.standin.rows(support::DATASET, support::TABLE).len(), 4);
    });
}

#[test]
fn the_clock_may_jump_and_nothing_is_forgotten_or_doubled() {
    runtime().block_on(async {
        let world = World::new(8);
        let mut writer = Writer::new(8);
        writer.files(&world.logs(), 80);
        for (seed, days) in [0, 400, -800, 20, 5000, -1].into_iter().enumerate() {
            world.clock.jump(days * 86_400_000);
            // The same lines under another name: only their keys are known.
            let from = world.logs().join("session-1.jsonl");
            let mut copy = b"{\"type\":\"summary\"}\n".to_vec();
            copy.extend(fs::read(from).unwrap());
            fs::write(world.logs().join(format!("copy-{seed}.jsonl")), copy).unwrap();
            world.run_whole(seed as u64).await;
            world.assert_each_line_once(&format!("after a jump of {days} days"));
        }
    });
}

#[test]
fn lines_of_another_directory_with_the_same_name_stay_out() {
    runtime().block_on(async {
        let world = World::new(9);
        fs::create_dir_all(world.logs()).unwrap();
        fs::write(world.logs().join("a.jsonl"), line("ours", "s", "x", 1) + "\n").unwrap();
        fs::write(world.logs().join("b.jsonl"), line("theirs", "s", "x", 1).replace("/src/app", "/src-app") + "\n")
            .unwrap();
        let summary = world.run_whole(1).await;
        assert_eq!((summary.uploaded, summary.foreign), (1, 1));
        assert_eq!(world.run_whole(2).await.uploaded, 0);
    });
}

#[test]
fn of_two_contents_under_an_imported_uuid_the_second_is_uploaded() {
    runtime().block_on(async {
        let world = World::new(10);
        fs::create_dir_all(world.logs()).unwrap();
        let text =
            format!("{}\n{}\n{}\n", line("u", "s", "first", 1), line("u", "s", "second", 2), line("v", "s", "x", 3));
        fs::write(world.logs().join("a.jsonl"), &text).unwrap();
        let mut seen = sessync::journal::seen::Seen::default();
        seen.insert_unknown("u", 0);
        let state = sessync::journal::state::State::new(support::DESTINATION);
        sessync::journal::Journal::fresh(world.disk.clone(), state, seen).compact().unwrap();
        let summary = world.run_whole(1).await;
        assert_eq!((summary.uploaded, summary.duplicates, summary.other_content), (2, 1, 1));
        // The same lines in another file are all known now.
        fs::write(world.logs().join("b.jsonl"), format!("{{}}\n{text}")).unwrap();
        assert_eq!(world.run_whole(2).await.uploaded, 0);
    });
}

#[test]
fn a_request_that_is_refused_as_a_whole_is_halved_to_the_row_that_is_to_blame() {
    runtime().block_on(async {
        let world = World::new(11);
        fs::create_dir_all(world.logs()).unwrap();
        let lines: Vec<String> = (0..7).map(|at| line(&format!("u{at}"), "s", "x", at)).collect();
        fs::write(world.logs().join("a.jsonl"), lines.join("\n") + "\n").unwrap();
        world.standin.refuse_rows_with("u3");
        let (summary, result) = world.run(&Outside::new(), 1).await;
        result.unwrap();
        assert_eq!((summary.uploaded, summary.set_aside), (6, 1));
        // If everything is refused, the rows are not to blame.
        let world = World::new(12);
        Writer::new(12).files(&world.logs(), 30);
        world.standin.refuse_rows_with("");
        let (summary, result) = world.run(&Outside::new(), 1).await;
        assert!(result.unwrap_err().to_string().contains("refuses the request"));
        assert_eq!(summary.set_aside, 0);
    });
}

#[test]
fn lines_are_remembered_as_long_as_their_file_is_there_and_thirty_days_longer() {
    runtime().block_on(async {
        let world = World::new(30);
        fs::create_dir_all(world.logs()).unwrap();
        let old: String = (0..9).map(|at| line(&format!("old-{at}"), "s", "x", at) + "\n").collect();
        fs::write(world.logs().join("old.jsonl"), &old).unwrap();
        world.run_whole(0).await;
        let known = |world: &World| {
            let mut journal = Journal::open(world.disk.clone(), support::DESTINATION).unwrap();
            journal.compact().unwrap();
            journal.seen().unwrap().len()
        };
        let months = |world: &World, from: i64| {
            for round in from..from + 12 {
                world.clock.jump(6 * 24 * 60 * 60 * 1000);
                let text: String = (from..=round).map(|at| line(&format!("new-{at}"), "s", "x", at) + "\n").collect();
                fs::write(world.logs().join(format!("new-{from}.jsonl")), text).unwrap();
                futures::executor::block_on(world.run_whole(round as u64));
                known(world);
            }
        };
        // The old file does not change for 72 days, so it is not read.
        months(&world, 0);
        fs::write(world.logs().join("copy.jsonl"), old.replace("\"s\"", "\"resumed\"")).unwrap();
        assert_eq!(world.run_whole(99).await.uploaded, 0, "a resumed session repeats lines of a file that is there");
        let before = known(&world);
        fs::remove_file(world.logs().join("old.jsonl")).unwrap();
        fs::remove_file(world.logs().join("copy.jsonl")).unwrap();
        fs::remove_file(world.logs().join("new-0.jsonl")).unwrap();
        months(&world, 100);
        assert!(known(&world) < before + 12, "keys of files that are gone are dropped: {} {before}", known(&world));
    });
}
