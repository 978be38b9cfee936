//! The doors under a flood: while strangers flood one route, Slack's events and transfers are answered. Answers are counted; no time is
//! measured.

#[allow(dead_code, reason = "shared with the platform's own tests, which use all of it")]
#[path = "support/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the platform's own tests, which use all of it")]
#[path = "support/process.rs"]
mod process;
#[allow(dead_code, reason = "shared with the other tests")]
#[path = "support/slack.rs"]
mod slack;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use client::{answer, http};
use futures::StreamExt as _;
use futures::future::{join, join_all};
use futures::stream;
use process::Local;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

/// How many requests of the flood are under way at once. Each is followed by the next one at once.
const AT_ONCE: usize = 32;
/// The flood goes on until the others are done and so many of its requests were refused.
const REFUSED: usize = 500;
/// A bound for the requests of the flood.
const MOST: usize = 200_000;
/// How many events and transfers come meanwhile, a few at once: fewer than what their routes let through at once.
const WANTED: usize = 60;
const WANTED_AT_ONCE: usize = 4;
/// Slack and a client repeat what the function could not do in its time: on a machine that is busy with other things a call to the store
/// may take too long. What the route refuses (429) is not repeated: it must not come.
const TRIES: usize = 60;
const PAUSE: Duration = Duration::from_millis(500);
/// One platform at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn slack_and_transfers_are_answered_while_another_route_is_flooded() {
    let town = Town::start().await;
    // This route leads to the same function as transfers do.
    let flood = || town.client.get(format!("{}/tokens/openapi.json", town.local.url));
    let (flooded, (transfers, events)) =
        while_flooded(flood, async { join(town.transfers(), town.events()).await }).await;
    let of = |status| flooded.get(&status).copied().unwrap_or_default();
    let (served, refused) = (of(StatusCode::OK), of(StatusCode::TOO_MANY_REQUESTS));
    assert!(served > 0 && refused >= REFUSED && flooded.len() == 2, "{flooded:?}");
    assert_eq!(transfers, [StatusCode::OK; WANTED]);
    assert_eq!(events, [StatusCode::OK; WANTED]);
}

/// Strangers can use up Slack's route, because its limit is for all callers together. What they use up is Slack's alone.
#[tokio::test]
async fn transfers_are_answered_while_strangers_flood_slacks_route() {
    let town = Town::start().await;
    let flood = || town.client.post(format!("{}/slack/events", town.local.url)).body("{}");
    let (flooded, transfers) = while_flooded(flood, town.transfers()).await;
    assert!(flooded.keys().all(is_refusal), "{flooded:?}");
    assert_eq!(transfers, [StatusCode::OK; WANTED]);
}

#[tokio::test]
async fn slack_is_answered_while_strangers_flood_the_route_of_transfers() {
    let town = Town::start().await;
    let flood = || town.client.post(format!("{}/tokens/transfer", town.local.url)).body("{}");
    let (flooded, events) = while_flooded(flood, town.events()).await;
    assert!(flooded.keys().all(is_refusal), "{flooded:?}");
    assert_eq!(events, [StatusCode::OK; WANTED]);
}

/// A platform with the throttles of the templates, two accounts, and Slack.
struct Town {
    local: Local,
    client: Client,
    config: Value,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

impl Town {
    async fn start() -> Self {
        let alone = ALONE.lock().await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
        command.args(["--port=0", "--dynamodb-port=0", "--tls-port=0", "--memory", "--no-demo", "--throttle"]);
        let local = Local::spawned(command);
        let config = local.get("/_local/config").await;
        let town = Town { local, client: http(), config, _alone: alone };
        for at in 0..2 {
            let open = town.client.post(format!("{}/tokens/accounts", town.local.url));
            assert!(answer(open.bearer_auth(town.account(at, "token"))).await.0.is_success());
        }
        town
    }

    fn account(&self, at: usize, name: &str) -> &str {
        self.config["accounts"][at][name].as_str().expect("an account")
    }

    /// The answers to transfers with a token, each with a key of its own.
    async fn transfers(&self) -> Vec<StatusCode> {
        let transfer = |n| async move {
            let transfer = self.client.post(format!("{}/tokens/transfer", self.local.url));
            let transfer =
                transfer.bearer_auth(self.account(0, "token")).header("idempotency-key", format!("flood-{n}"));
            answer(transfer.json(&json!({"recipientDid": self.account(1, "did"), "amount": "1"}))).await.0
        };
        let answers = stream::iter(0..WANTED).map(|n| until_done(move || transfer(n)));
        answers.buffer_unordered(WANTED_AT_ONCE).collect().await
    }

    /// The answers to events that Slack signed.
    async fn events(&self) -> Vec<StatusCode> {
        let event = |n: usize| async move { slack::upload(&self.local, &n.to_string()).await };
        let answers = stream::iter(0..WANTED).map(|n| until_done(move || event(n)));
        answers.buffer_unordered(WANTED_AT_ONCE).collect().await
    }
}

/// The first answer that is not an error of the server.
async fn until_done<F: Future<Output = StatusCode>>(ask: impl Fn() -> F) -> StatusCode {
    let mut status = ask().await;
    for _ in 1..TRIES {
        if !status.is_server_error() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        status = ask().await;
    }
    status
}

/// Floods until `wanted` is done and enough of the flood was refused. Returns how often each status was the flood's answer.
async fn while_flooded<T>(
    request: impl Fn() -> RequestBuilder,
    wanted: impl Future<Output = T>,
) -> (BTreeMap<StatusCode, usize>, T) {
    let done = AtomicBool::new(false);
    let (sent, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stranger = || async {
        let mut answers = Vec::new();
        while sent.fetch_add(1, Ordering::SeqCst) < MOST
            && !(done.load(Ordering::SeqCst) && refused.load(Ordering::SeqCst) >= REFUSED)
        {
            let status = request().send().await.expect("an answer").status();
            if is_refusal(&status) {
                refused.fetch_add(1, Ordering::SeqCst);
            }
            answers.push(status);
        }
        answers
    };
    let wanted = async {
        // Before the flood has used up its route there is nothing to see.
        while refused.load(Ordering::SeqCst) < AT_ONCE && sent.load(Ordering::SeqCst) < MOST {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let wanted = wanted.await;
        done.store(true, Ordering::SeqCst);
        wanted
    };
    let (answers, wanted) = join(join_all((0..AT_ONCE).map(|_| stranger())), wanted).await;
    let mut counted = BTreeMap::new();
    for status in answers.into_iter().flatten() {
        *counted.entry(status).or_default() += 1;
    }
    (counted, wanted)
}

/// By API Gateway, or by the function because nobody signed.
fn is_refusal(status: &StatusCode) -> bool {
    matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::UNAUTHORIZED)
}
