//! `ichidoctl console`: the console of an environment, served by the binary, against the local platform as its AWS.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::keys::claim;
use crate::support::client::{answer, eventually, http};
use crate::support::ctl::{command, ctl, platform};
use crate::support::process::Local;
use crate::support::{given_up, slack};

/// Who everybody without credentials is on the local platform.
const CALLER: &str = ":user/local";

/// A console that ends with the test.
struct Console {
    child: Child,
    /// With its token and the slash at the end.
    address: String,
    log: Arc<Mutex<String>>,
    /// Open, so that the console can go on writing.
    _stdout: BufReader<ChildStdout>,
}

impl Console {
    fn start(local: &Local, arguments: &[&str]) -> Self {
        let mut command = command(local, &[&["console"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ichidoctl");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
        let mut first = String::new();
        stdout.read_line(&mut first).expect("a line");
        let address = first.trim_end().split_once(" is at ").map(|(_, address)| address.to_owned());
        let address = address.unwrap_or_else(|| panic!("no address: {first}"));
        let log = Arc::new(Mutex::new(String::new()));
        let (kept, mut stderr) = (log.clone(), child.stderr.take().expect("its log"));
        std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(read @ 1..) = stderr.read(&mut part) {
                kept.lock().expect("the log").push_str(&String::from_utf8_lossy(&part[..read]));
            }
        });
        Self { child, address, log, _stdout: stdout }
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = answer(http().get(format!("{}_console/{path}", self.address))).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    async fn change(&self, change: Value) -> (StatusCode, String) {
        let request = http().post(format!("{}_console/changes", self.address)).header("x-ichido-console", "1");
        let (status, body) = answer(request.body(change.to_string())).await;
        (status, body["message"].as_str().unwrap_or_default().to_owned())
    }

    fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn total(series: &Value) -> f64 {
    series.as_array().expect("a series").iter().filter_map(Value::as_f64).sum()
}

#[tokio::test]
async fn the_console_shows_what_happened_from_metrics_logs_and_records() {
    let local = platform(&[]);
    assert_eq!(slack::upload(&local, "1").await, 200);
    assert_eq!(slack::upload(&local, "1").await, 200);
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    let console = Console::start(&local, &[]);

    let frame = console.get("frame").await;
    assert_eq!((&frame["environment"], &frame["identity"]), (&"local".into(), &Value::Null), "{frame}");
    assert!(!frame["capabilities"].as_array().expect("a list").contains(&"changes".into()), "it only reads: {frame}");
    let names: Vec<&str> =
        frame["pages"].as_array().expect("pages").iter().filter_map(|page| page["name"].as_str()).collect();
    let expected = ["overview", "keys", "life", "alarms", "dead-letters", "schedules", "rollouts", "cost", "history"];
    assert_eq!(names, expected, "what it lacks has no page");

    let free = console.get("overview?minutes=15").await;
    assert!(total(&free["rates"]["arrived"]) >= 3.0, "two requests, and the file: {free}");
    let latency = free["latency"].as_array().expect("functions");
    let events = latency.iter().find(|one| one["function"] == "slack-events").expect("slack-events");
    assert_eq!((&events["count"], events["p99"].as_f64().is_some()), (&2.into(), true), "{events}");
    assert_eq!((&free["rates"]["new"], &free["store"]), (&json!([]), &Value::Null), "only the logs know: {free}");
    let whole = console.get("overview?minutes=15&logs=1").await;
    assert_eq!((total(&whole["rates"]["new"]), total(&whole["rates"]["duplicate"])), (2.0, 1.0), "{whole}");
    assert_eq!(total(&whole["rates"]["effects"]), 1.0, "one reply: {whole}");
    assert!(total(&whole["store"]["calls"]) >= 4.0, "{whole}");

    let found = console.get("keys?text=Ev1").await;
    assert_eq!((found["keys"].as_array().map(Vec::len), &found["unread"]), (Some(1), &json!([])), "{found}");
    assert_eq!((&found["keys"][0]["namespace"], &found["keys"][0]["state"]), (&"events".into(), &"completed".into()));
    let life = console.get("keys/events/Ev1").await;
    assert_eq!(life["attempts"].as_array().map(Vec::len), Some(1), "{life}");
    assert_eq!(life["duplicates"][0]["told"], "completed", "{life}");
    assert_eq!((&life["attempts"][0]["end"]["how"], &life["whole"]), (&"completed".into(), &true.into()), "{life}");
    assert_eq!(life["records"][0].get("outcome"), None, "an outcome can have personal data");
    assert_eq!(console.get("keys/events/Ev999").await["records"], json!([]), "nothing is known, which is no error");

    let alarms = console.get("alarms").await;
    let conflicts = alarms.as_array().expect("alarms").iter().find(|alarm| alarm["name"] == "slack-events-errors");
    let conflicts = conflicts.expect("the alarm");
    assert_eq!(conflicts["runbook"], "slack-events-errors", "{conflicts}");
    assert!(conflicts["points"].as_array().is_some_and(|points| points.iter().any(Value::is_number)), "{conflicts}");
    let runbook = console.get("runbooks/slack-events-errors").await;
    assert!(runbook["markdown"].as_str().is_some_and(|text| text.starts_with("# slack-events-errors")));

    // What is counted last is counted after the reply.
    let history = eventually("the history", || async {
        let history = console.get("history?days=1").await;
        let total = &history["total"];
        (total["duplicates"]["atOnce"] == 1 && total["handled"] == 1).then_some(history)
    })
    .await;
    assert_eq!((&history["byDay"][0]["handled"], &history["days"]), (&1.into(), &1.into()), "{history}");
    assert_eq!(history["byChannel"].as_array().map(Vec::len), Some(1), "{history}");
    let (status, refused) = answer(http().get(format!("{}_console/history?days=91", console.address))).await;
    assert_eq!((status, &refused["message"]), (StatusCode::BAD_REQUEST, &"days is a number from 1 to 90".into()));

    let schedules = console.get("schedules").await;
    assert_eq!(schedules[0]["name"], "github-feed-subscriber-schedule", "{schedules}");
    let rollouts = console.get("rollouts").await;
    assert_eq!(
        (rollouts["functions"].as_array().map(Vec::len), &rollouts["unread"]),
        (Some(10), &json!([])),
        "{rollouts}"
    );
    assert_eq!((&rollouts["functions"][0]["live"], &rollouts["functions"][0]["to"]), (&1.into(), &Value::Null));
}

#[tokio::test]
async fn an_alarm_that_rings_comes_first_and_what_was_given_up_is_shown() {
    let local = platform(&[]);
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 500}})).await;
    assert_eq!(slack::upload(&local, "1").await, 200);
    given_up(&local, "slack-files-failures", 1).await;
    let console = Console::start(&local, &[]);
    let letters = console.get("dead-letters").await;
    let letter = &letters["letters"][0];
    assert_eq!((&letter["application"], &letter["function"]), (&"slack".into(), &"slack-files".into()), "{letters}");
    assert!(letter["keys"][0]["key"].as_str().is_some_and(|key| key.starts_with("FILE#")), "{letters}");
    let again = console.get("dead-letters").await;
    assert_eq!(again["letters"][0]["id"], letter["id"], "a look does not hide it from the next one");
    assert_eq!(console.get("overview").await["deadLetters"], 1);
    let ringing = eventually("the alarm", || async {
        let alarms = console.get("alarms").await;
        (alarms[0]["state"] == "ALARM").then_some(alarms)
    })
    .await;
    assert_eq!(ringing[0]["name"], "slack-files-dead-letters", "{}", ringing[0]);
    assert_eq!(
        console.get("overview").await["alarms"]["ALARM"],
        ringing.as_array().expect("alarms").iter().filter(|alarm| alarm["state"] == "ALARM").count()
    );
}

#[tokio::test]
async fn only_who_knows_the_address_is_answered_and_only_from_this_machine() {
    let local = platform(&[]);
    let console = Console::start(&local, &[]);
    let origin = console.address.split('/').take(3).collect::<Vec<_>>().join("/");
    assert!(origin.starts_with("http://127.0.0.1:"), "{origin}");
    let token = console.address.trim_end_matches('/').rsplit('/').next().expect("a token").to_owned();
    assert!(token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    for path in ["/", "/_console/frame", "/operate/alarms", "/0000/_console/frame"] {
        assert_eq!(answer(http().get(format!("{origin}{path}"))).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let ask = |name: &'static str, value: &'static str| {
        answer(http().get(format!("{}_console/frame", console.address)).header(name, value))
    };
    assert_eq!(ask("host", "rebound.example").await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask("origin", "https://evil.example").await.0, StatusCode::FORBIDDEN);
    assert_eq!(ask("origin", "http://127.0.0.1:1").await.0, StatusCode::OK);
    let page = http().get(&console.address).send().await.expect("the page");
    let policy = page.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'self';"), "{policy}");
    assert_eq!(page.headers()["referrer-policy"], "no-referrer", "the token is in the address");
    let other = Console::start(&local, &[]);
    assert!(!other.address.contains(&token), "each run has its own");
}

#[tokio::test]
async fn without_being_allowed_nothing_is_changed() {
    let local = platform(&[]);
    let key = "FILE#T1#C1#1.1#F1";
    let fence = claim(&local, key, Duration::from_secs(3_600)).await;
    let console = Console::start(&local, &[]);
    let release = json!({"action": "release-key", "application": "slack", "key": key, "fence": fence, "reason": "r"});
    let (status, said) = console.change(release).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(said.contains("without --allow-changes"), "{said}");
    assert_eq!(ctl(&local, &["keys", "show", "slack", key, "--json"]).json()["state"], "claimed");
}

#[tokio::test]
async fn a_change_is_conditional_on_what_was_shown_and_logged_with_the_callers_identity() {
    let local = platform(&[]);
    let key = "FILE#T1#C1#1.1#F1";
    let fence = claim(&local, key, Duration::from_secs(3_600)).await;
    let console = Console::start(&local, &["--allow-changes"]);
    let frame = console.get("frame").await;
    assert!(frame["identity"].as_str().is_some_and(|identity| identity.ends_with(CALLER)), "{frame}");
    assert!(frame["capabilities"].as_array().expect("a list").contains(&"changes".into()), "{frame}");
    let release = |fence: u64| json!({"action": "release-key", "application": "slack", "key": key, "fence": fence, "reason": "the instance is gone"});

    let (status, said) = console.change(release(fence + 1)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{said}");
    assert!(said.contains("Nothing was changed"), "{said}");
    assert_eq!(ctl(&local, &["keys", "show", "slack", key, "--json"]).json()["state"], "claimed");
    let (status, said) = console.change(release(fence)).await;
    assert_eq!((status, said.starts_with("released ")), (StatusCode::OK, true), "{said}");
    let traces = ctl(&local, &["operations", "slack", "--json"]).json();
    assert!(traces.to_string().contains("on a page of the console"), "{traces}");
    let record = ctl(&local, &["keys", "show", "slack", key, "--json"]).json();
    let reason = record["reason"].as_str().expect("a reason");
    assert!(reason.contains(CALLER) && reason.ends_with(": the instance is gone"), "{reason}");

    let pause =
        json!({"action": "pause-schedule", "name": "github-feed-subscriber-schedule", "reason": "GitHub is down"});
    assert_eq!(console.change(pause.clone()).await.0, StatusCode::OK);
    let (status, said) = console.change(pause).await;
    assert_eq!((status, said.contains("is paused already")), (StatusCode::CONFLICT, true), "{said}");
    let resume = json!({"action": "resume-schedule", "name": "github-feed-subscriber-schedule"});
    assert_eq!(console.change(resume).await.0, StatusCode::OK);
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    let reasons: Vec<&Value> = (0..2).map(|at| &kept["operations"][at]["reason"]).collect();
    assert_eq!(reasons, ["GitHub is down", "no reason given"], "{kept}");
    let gone = json!({"action": "redrive-dead-letter", "application": "slack", "id": "nobody"});
    assert_eq!(console.change(gone).await.0, StatusCode::CONFLICT);

    eventually("the log", || async { console.log().contains("has no dead letter nobody").then_some(()) }).await;
    let log = console.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.iter().all(|line| line["by"].as_str().is_some_and(|by| by.ends_with(CALLER))), "{log}");
    let asked = |action: &str| lines.iter().filter(|line| line["change"]["action"] == action).count();
    assert_eq!((asked("release-key"), asked("pause-schedule")), (2, 2), "also what was refused: {log}");
}

#[tokio::test]
async fn a_dead_letter_is_sent_again_from_the_console() {
    let local = platform(&[]);
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 500}})).await;
    assert_eq!(slack::upload(&local, "1").await, 200);
    given_up(&local, "slack-files-failures", 1).await;
    local.put_faults(json!({})).await;
    let console = Console::start(&local, &["--allow-changes"]);
    let letters = console.get("dead-letters").await;
    let id = letters["letters"][0]["id"].as_str().expect("an id");
    let redrive = json!({"action": "redrive-dead-letter", "application": "slack", "id": id, "reason": "Slack is back"});
    let (status, said) = console.change(redrive).await;
    assert_eq!((status, said.contains("sent again")), (StatusCode::OK, true), "{said}");
    let kept = ctl(&local, &["operations", "slack", "--json"]).json();
    assert_eq!(kept["operations"][0]["reason"], "Slack is back", "{kept}");
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    assert_eq!(console.get("dead-letters").await["letters"], json!([]));
}

#[tokio::test]
async fn the_platform_answers_to_every_name_with_and_without_the_ending_of_the_environment() {
    let local = platform(&[]);
    assert_eq!(slack::upload(&local, "1").await, 200);
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    for environment in [&[][..], &["--env", "local"]] {
        let run = |arguments: &[&str]| ctl(&local, &[arguments, environment].concat());
        let shown = run(&["keys", "show", "slack", "Ev1", "--json"]);
        assert_eq!((shown.code, &shown.json()["state"]), (Some(0), &"completed".into()), "{shown:?}");
        let traced = run(&["trace", "Ev1", "--json"]).json();
        assert!(traced["lines"].as_array().is_some_and(|lines| lines.len() > 1), "{traced}");
        assert_eq!(run(&["dead-letters", "list"]).code, Some(0));
        let listed = run(&["schedules", "list", "--json"]).json();
        assert_eq!(listed.as_array().map(Vec::len), Some(3), "{listed}");
        assert_eq!(run(&["schedules", "pause", "github-feed-subscriber-schedule"]).code, Some(0));
        assert_eq!(run(&["schedules", "resume", "github-subscriber"]).code, Some(0));
        let verified = run(&["tokens", "verify", "--json"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    let console = Console::start(&local, &["--env", "local"]);
    assert!(total(&console.get("overview?minutes=15").await["rates"]["arrived"]) >= 2.0);
    assert_eq!(console.get("keys/events/Ev1").await["records"].as_array().map(Vec::len), Some(1));
}
