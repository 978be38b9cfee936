//! The runbooks' own commands. Six alarms are made to ring on the running platform with a fault; then somebody does what
//! their page says, word for word, and they stop.
//!
//! What a page marks as `sh` is run here. `ENV` means this platform, and `--yes` is added, since nobody is there to be
//! asked; other words in capitals are what the operator has seen (`ID`, `DID`, `FEED`). Everywhere in the documentation, a
//! command of `ichidoctl` must at least be one that exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aws_sdk_cloudwatch::types::StateValue;
use clap::Parser as _;
use clap::error::ErrorKind;
use reqwest::StatusCode;
use serde_json::json;

use crate::support::client::{answer, aws, eventually, http};
use crate::support::ctl::{Said, ctl, platform};
use crate::support::process::Local;
use crate::support::{given_up, slack};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Splits a command as a shell would: spaces, and quotes of both kinds.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for letter in command.chars() {
        match (quote, letter) {
            (None, ' ') => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, '\'' | '"') => (quote, begun) = (Some(letter), true),
            (Some(open), letter) if open == letter => quote = None,
            (_, letter) => {
                word.push(letter);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// The commands that a section of a page marks as `sh`.
fn marked(page: &str, section: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs/runbooks").join(format!("{page}.md"))).expect("a page");
    let (mut within, mut marked, mut commands) = (false, false, Vec::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            within = title == section;
        } else if line.trim_start().starts_with("```") {
            marked = !marked && line.trim() == "```sh";
        } else if within && marked && !line.trim().is_empty() {
            let command = line.split(" # ").next().unwrap_or(line).trim();
            commands.push(command.to_owned());
        }
    }
    commands
}

/// Carries out what a section of a page says, with what the operator has seen put in.
fn carry_out(local: &Local, page: &str, section: &str, seen: &[(&str, &str)]) -> Vec<Said> {
    let commands = marked(page, section);
    assert!(!commands.is_empty(), "{page}, {section}: nothing is marked as sh");
    let run = |command: &String| {
        let words = words(command);
        assert_eq!(words[0], "ichidoctl", "{page}: {command}");
        let put_in = |word: &String| {
            seen.iter().fold(word.clone(), |word, (name, value)| {
                let name = regex::Regex::new(&format!(r"\b{name}\b")).expect("a word");
                name.replace_all(&word, regex::NoExpand(value)).into_owned()
            })
        };
        let words: Vec<String> = words[1..].iter().map(put_in).collect();
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        // This platform is meant by its endpoint.
        if let Some(at) = arguments.iter().position(|word| *word == "--env") {
            arguments.drain(at..at + 2);
        }
        arguments.push("--yes");
        let said = ctl(local, &arguments);
        assert!(matches!(said.code, Some(0 | 1)), "{page}: {command}: {said:?}");
        said
    };
    commands.iter().map(run).collect()
}

/// What an alarm says, as CloudWatch's own client hears it.
async fn state(local: &Local, alarm: &str) -> StateValue {
    let cloudwatch = aws_sdk_cloudwatch::Client::new(aws(&local.url).config());
    let described = cloudwatch.describe_alarms().alarm_names(alarm).send().await.expect("alarms");
    let [alarm] = described.metric_alarms() else { panic!("there is no alarm {alarm}") };
    alarm.state_value().expect("a state").clone()
}

/// Moves the time of metrics and alarms forward.
async fn later(local: &Local, minutes: u64) {
    let request = http().post(format!("{}/_local/alarms/advance?minutes={minutes}", local.url));
    assert_eq!(answer(request).await.0, StatusCode::OK);
}

/// The datapoints of an alarm, newest first.
async fn datapoints(local: &Local, alarm: &str) -> Vec<f64> {
    let alarms = local.get("/_local/alarms").await;
    let found = alarms.as_array().expect("alarms").iter().find(|each| each["name"] == alarm).expect("the alarm");
    found["datapoints"].as_array().expect("datapoints").iter().map(|value| value.as_f64().unwrap_or(0.0)).collect()
}

#[tokio::test]
async fn a_store_that_is_down_rings_until_it_is_back_as_its_page_says() {
    let local = platform(&[]);
    let alarm = "slack-fallback-active";
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
    local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
    for minute in 0..2 {
        assert_eq!(
            slack::upload(&local, &minute.to_string()).await,
            StatusCode::OK,
            "events are admitted without the store"
        );
        if minute == 0 {
            assert_eq!(state(&local, alarm).await, StateValue::Ok, "one minute pages nobody");
        }
        later(&local, 1).await;
    }
    assert_eq!(state(&local, alarm).await, StateValue::Alarm);
    local.put_faults(json!({})).await;
    carry_out(&local, alarm, "How to look", &[]);
    later(&local, 7).await;
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
    carry_out(&local, alarm, "How to know it is over", &[]);
}

#[tokio::test]
async fn a_destination_that_refuses_and_its_dead_letters_ring_until_the_page_is_carried_out() {
    let local = platform(&[]);
    let (errors, dead_letters) = ("slack-files-errors", "slack-files-dead-letters");
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    for period in 0..2 {
        // Two files, three attempts each: six errors per period.
        for n in 0..2 {
            assert_eq!(slack::upload(&local, &format!("{period}{n}")).await, StatusCode::OK);
        }
        given_up(&local, "slack-files-failures", 2 * (period + 1)).await;
        if period == 0 {
            assert_eq!(state(&local, errors).await, StateValue::Ok, "one period pages nobody");
            later(&local, 5).await;
        }
    }
    assert_eq!(state(&local, errors).await, StateValue::Alarm);
    assert_eq!(state(&local, dead_letters).await, StateValue::Alarm);
    let looked = carry_out(&local, errors, "How to look", &[("KEY", "Ev00")]);
    assert!(looked.iter().any(|said| said.out.contains("slack-files")), "the page leads to the cause: {looked:?}");
    let looked = carry_out(&local, dead_letters, "How to look", &[]);
    assert!(looked[0].out.contains("Slack did not answer") || looked[0].out.contains("Probe"), "{looked:?}");
    local.put_faults(json!({})).await;
    carry_out(&local, dead_letters, "What to do", &[]);
    eventually("one reply per file", || async { (slack::replies(&local).await == 4).then_some(()) }).await;
    carry_out(&local, dead_letters, "How to know it is over", &[]);
    later(&local, 30).await;
    assert_eq!(state(&local, errors).await, StateValue::Ok);
    assert_eq!(state(&local, dead_letters).await, StateValue::Ok);
    assert_eq!(slack::replies(&local).await, 4, "each file has one reply");
}

#[tokio::test]
async fn dead_letters_of_a_feed_ring_until_the_page_is_carried_out() {
    let local = platform(&[("GITHUB_SUBSCRIBER__DEAD_AFTER", "1")]);
    let (alarm, page, feed) = ("github-feed-subscriber-errors", "feed-subscriber-errors", ("FEED", "github"));
    let run = || ctl(&local, &["schedules", "run", "github-subscriber"]);
    assert_eq!(run().code, Some(0), "the first read posts nothing");
    assert!(answer(http().post(format!("{}/feeds/sample/github", local.url))).await.0.is_success());
    local.put_faults(json!({"mastodon": {"mode": "refuse", "status": 422}})).await;
    for period in 0..3 {
        assert_ne!(state(&local, alarm).await, StateValue::Alarm, "{period} failed runs page nobody");
        later(&local, 5).await;
        assert_eq!(run().code, Some(1), "the run did its work, and somebody has to look");
    }
    assert_eq!(state(&local, alarm).await, StateValue::Alarm);
    let looked = carry_out(&local, page, "How to look", &[feed]);
    assert!(looked[0].out.contains("DeadLetters"), "the page leads to the cause: {looked:?}");
    local.put_faults(json!({})).await;
    carry_out(&local, page, "What to do", &[feed]);
    let posts = local.get("/_local/outbox?sink=mastodon").await;
    assert_eq!(posts.as_array().map(Vec::len), Some(1), "{posts}");
    let over = carry_out(&local, page, "How to know it is over", &[feed]);
    assert_eq!(over[0].code, Some(0), "{over:?}");
    later(&local, 30).await;
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
}

#[tokio::test]
async fn a_feed_that_nothing_reads_rings_until_its_page_starts_it() {
    let local = platform(&[]);
    let (alarm, page, feed) = ("github-feed-silence", "feed-silence", ("FEED", "github"));
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0));
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
    assert_eq!(ctl(&local, &["schedules", "pause", "github-subscriber"]).code, Some(0));
    later(&local, 25).await;
    assert_eq!(state(&local, alarm).await, StateValue::Alarm);
    let looked = carry_out(&local, page, "How to look", &[feed]);
    assert!(looked[0].out.contains("DISABLED"), "the page leads to the cause: {looked:?}");
    carry_out(&local, page, "What to do", &[feed]);
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
    let enabled = ctl(&local, &["schedules", "list", "--json"]).json();
    assert!(enabled.as_array().expect("schedules").iter().all(|schedule| schedule["state"] == "ENABLED"), "{enabled}");
}

#[tokio::test]
async fn a_subscriber_that_fails_rings_until_its_page_is_carried_out() {
    let local = platform(&[]);
    let (alarm, page, feed) = ("github-feed-subscriber-errors", "feed-subscriber-errors", ("FEED", "github"));
    local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
    for period in 0..3 {
        assert_ne!(state(&local, alarm).await, StateValue::Alarm, "{period} failed runs page nobody");
        assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(1));
        if period < 2 {
            later(&local, 5).await;
        }
    }
    assert_eq!(state(&local, alarm).await, StateValue::Alarm);
    let looked = carry_out(&local, page, "How to look", &[feed]);
    assert!(looked[0].out.contains("Store"), "the page leads to the cause: {looked:?}");
    local.put_faults(json!({})).await;
    carry_out(&local, page, "What to do", &[feed]);
    later(&local, 30).await;
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
}

#[tokio::test]
async fn a_storm_of_conflicts_rings_until_its_page_says_that_it_is_over() {
    const THRESHOLD: f64 = 100.0;
    /// Bounds; a handful of minutes with a few rounds each are enough.
    const MINUTES: usize = 20;
    const ROUNDS: usize = 100;
    let local = platform(&[]);
    let alarm = "tokens-conflicts";
    let config = local.get("/_local/config").await;
    let account = |at: usize| config["accounts"][at].clone();
    let token = |at: usize| account(at)["token"].as_str().expect("a token").to_owned();
    for at in 0..2 {
        let open = http().post(format!("{}/tokens/accounts", local.url)).bearer_auth(token(at));
        assert!(answer(open).await.0.is_success());
    }
    local.put_faults(json!({"dynamodb": {"mode": "conflict", "rate": 0.5}})).await;
    let (client, mut key) = (http(), 0);
    for _ in 0..MINUTES {
        for _ in 0..ROUNDS {
            if datapoints(&local, alarm).await.first().is_some_and(|newest| *newest >= THRESHOLD) {
                break;
            }
            let transfers = (0..64).map(|_| {
                key += 1;
                let transfer = client
                    .post(format!("{}/tokens/transfer", local.url))
                    .bearer_auth(token(0))
                    .header("idempotency-key", format!("storm-{key}"))
                    .json(&json!({"recipientDid": account(1)["did"], "amount": "0.01"}));
                answer(transfer)
            });
            futures::future::join_all(transfers).await;
        }
        if state(&local, alarm).await == StateValue::Alarm {
            // On a slow machine a round of transfers takes minutes of its own, so the minutes are counted where the alarm looks.
            let storms = datapoints(&local, alarm).await.into_iter().filter(|value| *value >= THRESHOLD).count();
            assert!(storms >= 3, "two minutes page nobody");
            break;
        }
        later(&local, 1).await;
    }
    assert_eq!(state(&local, alarm).await, StateValue::Alarm);
    let did = account(0)["did"].as_str().expect("a DID").to_owned();
    carry_out(&local, alarm, "How to look", &[("DID", &did)]);
    carry_out(&local, alarm, "What to do", &[("DID", &did)]);
    local.put_faults(json!({})).await;
    later(&local, 7).await;
    assert_eq!(state(&local, alarm).await, StateValue::Ok);
    let over = carry_out(&local, alarm, "How to know it is over", &[]);
    assert!(over[0].out.contains("proven"), "{over:?}");
}

/// Every command of the tool in a text: after `ichidoctl` on a line of its own, or between backticks.
fn mentioned(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            // Without a comment, and without where its output goes.
            let line = line.split(" # ").next().and_then(|line| line.split(" > ").next()).unwrap_or(line);
            commands.extend(line.trim().starts_with("ichidoctl ").then(|| line.trim().to_owned()));
        } else {
            let quoted = line.split('`').skip(1).step_by(2);
            commands.extend(quoted.filter(|code| code.starts_with("ichidoctl ")).map(str::to_owned));
        }
    }
    commands
}

fn pages(directory: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && !["node_modules", "target"].contains(&name.as_str()) && !name.starts_with('.') {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.insert(path.clone(), std::fs::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn every_command_in_the_documentation_is_one_that_exists() {
    let mut found = BTreeMap::new();
    pages(&root(), &mut found);
    let mut count = 0;
    for (path, text) in &found {
        for command in mentioned(text) {
            count += 1;
            let words = words(&command).into_iter().map(|word| match word.as_str() {
                "ENV" => "dev".to_owned(),
                "FEED" | "APPLICATION" => "github".to_owned(),
                "TIME" => "2026-01-31T12:00:00Z".to_owned(),
                _ => word,
            });
            if let Err(error) = ops::command::Cli::try_parse_from(words) {
                // A text may name a command without its arguments.
                let unfinished = matches!(
                    error.kind(),
                    ErrorKind::MissingRequiredArgument
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                        | ErrorKind::MissingSubcommand
                );
                assert!(unfinished, "{}: {command}\n{error}", path.display());
            }
        }
    }
    assert!(count > 20, "only {count} commands were found");
}
