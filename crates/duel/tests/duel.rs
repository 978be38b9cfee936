//! The duel as a test: a short storm in which ichido's column is zero and the naive one is not.

use std::path::PathBuf;
use std::process::{Command, Output};

use duel::storm::{Fault, MAX_DELIVERIES, Storm};
use duel::{Handler, Options, Phase, Progress};
use serde_json::Value;

const SEED: u64 = 7;
const SECONDS: u64 = 20;

async fn short(without_powertools: bool) -> Progress {
    let mut options = Options::new(SEED, PathBuf::from(env!("CARGO_BIN_EXE_duel")));
    (options.seconds, options.without_powertools) = (SECONDS, without_powertools);
    let (watcher, _) = tokio::sync::watch::channel(Progress::default());
    duel::run(options, watcher).await.expect("a duel")
}

/// Powertools take part if `scripts/setup test` has installed them.
#[tokio::test(flavor = "multi_thread")]
async fn ichido_has_one_effect_per_event_in_a_storm_that_breaks_the_naive_handler() {
    let done = short(false).await;
    assert_eq!(done.phase, Phase::Done);
    let ours = done.score(Handler::Ichido).expect("a column");
    assert!(ours.is_exactly_once(), "seed {SEED}: {ours:?}\n{:#?}", done.stories);
    assert_eq!((ours.effects, ours.acknowledged), (ours.sent, ours.sent), "{ours:?}");
    if PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/powertools/node_modules/.installed")).exists() {
        let theirs = done.score(Handler::Powertools).expect("a column");
        assert!(theirs.version.starts_with("2.") && theirs.acknowledged > 0, "{theirs:?}");
    }
    let naive = done.score(Handler::Naive).expect("a column");
    assert!(!naive.is_exactly_once(), "the storm proves nothing: {naive:?}");
    for score in &done.handlers {
        assert!(score.sent > 0 && score.sent == ours.sent, "the same events: {score:?}");
        assert!(score.store_calls_per_event >= 1.0 && score.cpu_micros_per_event > 0.0, "{score:?}");
        let told = done.stories.iter().filter(|story| story.handler == score.name).count() as u64;
        assert_eq!(told, score.lost + score.doubled, "one sentence per lost or doubled effect: {score:?}");
    }
    each_handler_met_the_faults_of_the_seed(&done);
}

fn each_handler_met_the_faults_of_the_seed(done: &Progress) {
    let storm = Storm::new(SEED, SECONDS);
    for met in &done.met {
        assert!(met.delivery <= MAX_DELIVERIES);
        if met.fault != Fault::StoreDown {
            assert_eq!(storm.fault(met.event, met.delivery, met.call), Some(met.fault), "{met:?}");
        }
    }
    // Every event has a first delivery, and every first delivery a first call, whoever handles it.
    let sent = done.handlers[0].sent as u32;
    for event in 1..=sent {
        for score in &done.handlers {
            let first = done
                .met
                .iter()
                .find(|met| (met.handler, met.event, met.delivery, met.call) == (score.name, event, 1, 1));
            match first.map(|met| met.fault) {
                Some(Fault::StoreDown) => {}
                met => assert_eq!(met, storm.fault(event, 1, 1), "{} and event {event}", score.name),
            }
        }
    }
}

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_duel")).args(arguments).output().expect("a process")
}

#[test]
fn the_last_line_on_stdout_is_the_result_and_everything_else_goes_to_stderr() {
    let output = command(&["--seed", "7", "--seconds", "10", "--json", "--without", "powertools"]);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let result: Value = serde_json::from_str(out.trim()).expect("JSON");
    assert_eq!(result["seed"], 7);
    let names: Vec<_> =
        result["handlers"].as_array().expect("a list").iter().map(|score| score["name"].clone()).collect();
    assert_eq!(names, ["naive", "ichido"]);
    for name in [
        "sent",
        "acknowledged",
        "effects",
        "lost",
        "doubled",
        "wronglyAcknowledged",
        "cpuMicrosPerEvent",
        "storeCallsPerEvent",
    ] {
        assert!(result["handlers"][1][name].is_number(), "{name}: {result}");
    }
    assert!(result["handlers"][1]["version"].is_string());
    assert!(errors.contains("Seed 7") && errors.contains("powertools is left out: as you asked."), "{errors}");
    assert!(!errors.contains('\x1b'), "no colours where there is no terminal");
}

#[test]
fn bad_options_are_refused_with_a_sentence() {
    let output = command(&["--seconds", "3"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("a duel takes from 10 to 3600 seconds, not 3"));
    let output = command(&["--seed", "9007199254740992"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a seed is at most 9007199254740991"));
    let output = command(&["--without", "ichido"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("powertools"));
}

#[test]
fn without_node_there_are_two_columns_and_a_sentence() {
    let output = Command::new(env!("CARGO_BIN_EXE_duel"))
        .args(["--seed", "7", "--seconds", "10", "--json"])
        .env("PATH", "/nowhere")
        .output()
        .expect("a process");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(errors.contains("powertools is left out: it needs node, which is not installed."), "{errors}");
    let result: Value = serde_json::from_str(out.trim()).expect("JSON");
    assert_eq!(result["handlers"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_somebody_watches_gets_the_result_before_the_duel_ends() {
    let mut options = Options::new(SEED, PathBuf::from(env!("CARGO_BIN_EXE_duel")));
    (options.seconds, options.without_powertools) = (10, true);
    let (watcher, mut receiver) = tokio::sync::watch::channel(Progress::default());
    let duel = tokio::spawn(duel::run(options, watcher));
    let page =
        receiver.wait_for(|progress| progress.page.is_some()).await.expect("an address").page.clone().expect("it");
    let client = http_client::builder().build().expect("a client");
    let answer = client.get(&page).send().await.expect("the page");
    assert!(
        answer.headers()["content-security-policy"].to_str().is_ok_and(|policy| policy.contains("default-src 'self'"))
    );
    assert!(answer.text().await.expect("a text").contains("/duel/page.js"));
    let state = page.replace("/duel", "/_local/duel");
    for (header, foreign) in [("origin", "https://example.com"), ("host", "example.com")] {
        for url in [&page, &state, &page.replace("/duel", "/w/ichido/1")] {
            let answer = client.get(url).header(header, foreign).send().await.expect("an answer");
            assert_eq!(answer.status().as_u16(), 403, "{header} {url}");
        }
    }
    let last = loop {
        let state: Value = client.get(&state).send().await.expect("the duel has not ended").json().await.expect("JSON");
        assert_eq!(state["startable"], false);
        if state["duel"]["phase"] == "done" {
            break state;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    assert_eq!(last["running"], false);
    let done = duel.await.expect("no panic").expect("a duel");
    assert_eq!(last["duel"]["handlers"][1]["effects"], done.score(Handler::Ichido).expect("a column").effects);
    assert_eq!(last["duel"]["marks"][1].as_str().map(str::len), Some(done.handlers[1].sent as usize));
}

/// An old node, for example.
#[tokio::test(flavor = "multi_thread")]
async fn if_powertools_do_not_start_they_are_left_out_and_the_sentence_says_why() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("powertools-that-do-not-start");
    let package = directory.join("node_modules/@aws-lambda-powertools/idempotency");
    std::fs::create_dir_all(&package).expect("a directory");
    std::fs::write(package.join("package.json"), r#"{"version": "0.0.0"}"#).expect("a file");
    std::fs::write(directory.join("worker.mjs"), "throw new Error('too old');").expect("a file");
    let mut options = Options::new(SEED, PathBuf::from(env!("CARGO_BIN_EXE_duel")));
    (options.seconds, options.powertools) = (10, directory);
    let (watcher, _) = tokio::sync::watch::channel(Progress::default());
    let done = duel::run(options, watcher).await.expect("a duel");
    assert_eq!(done.handlers.len(), 2);
    let why = done.left_out.expect("a sentence");
    assert!(why.starts_with("powertools is left out: a worker of powertools could not be started: "), "{why}");
    assert!(why.contains("too old") && !why.contains('\n'), "{why}");
}

/// Ctrl-C ends the duel and its workers.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_leaves_no_worker_behind() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let mut duel = Command::new(env!("CARGO_BIN_EXE_duel"))
        .args(["--seed", "7", "--without", "powertools"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(duel.stderr.take().expect("stderr")).lines();
    let said = |lines: &mut dyn Iterator<Item = std::io::Result<String>>, words: &str| {
        lines.map_while(Result::ok).any(|line| line.contains(words))
    };
    assert!(said(&mut lines, "events sent"), "the duel runs");
    let workers = children(duel.id());
    assert!(!workers.is_empty());
    let interrupted = Command::new("kill").args(["-INT", &duel.id().to_string()]).status().expect("kill");
    assert!(interrupted.success());
    assert!(said(&mut lines, "Stopped"), "it says that it stops");
    assert_eq!(duel.wait().expect("an end").code(), Some(130));
    let alive =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    for _ in 0..200 {
        if !workers.iter().any(alive) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("workers are left: {:?}", workers.into_iter().filter(alive).collect::<Vec<_>>());
}

#[cfg(target_os = "linux")]
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("tasks").flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}
