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

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{answer, http};
use futures::future::join_all;
use process::Local;
use reqwest::StatusCode;
use serde_json::json;

/// How many requests of the flood are under way at once.
const AT_ONCE: usize = 32;
/// The flood goes on until the others are done and so many of its requests were refused.
const REFUSED: usize = 500;
/// A bound: no machine is so slow that the flood fits the route's ten requests per second.
const MOST_ROUNDS: usize = 10_000;
/// How many events and transfers come meanwhile: fewer than what their routes let through at once.
const WANTED: usize = 30;

#[tokio::test]
async fn slack_and_transfers_are_answered_while_another_route_is_flooded() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
    command.args(["--port=0", "--dynamodb-port=0", "--tls-port=0", "--memory", "--no-demo", "--throttle"]);
    let local = Local::spawned(command);
    let config = local.get("/_local/config").await;
    let account = |at: usize, name: &str| config["accounts"][at][name].as_str().expect("an account").to_owned();
    let client = http();
    for at in 0..2 {
        let open = client.post(format!("{}/tokens/accounts", local.url)).bearer_auth(account(at, "token"));
        assert!(answer(open).await.0.is_success());
    }

    let done = AtomicBool::new(false);
    // The route of the flood leads to the same function as transfers do.
    let flood = async {
        let (mut served, mut refused) = (0, 0);
        for _ in 0..MOST_ROUNDS {
            let get = || client.get(format!("{}/tokens/openapi.json", local.url)).send();
            for answered in join_all((0..AT_ONCE).map(|_| get())).await {
                match answered.expect("an answer").status() {
                    StatusCode::OK => served += 1,
                    StatusCode::TOO_MANY_REQUESTS => refused += 1,
                    other => panic!("{other}"),
                }
            }
            if done.load(Ordering::SeqCst) && refused >= REFUSED {
                break;
            }
        }
        (served, refused)
    };
    let wanted = async {
        let (mut transfers, mut events) = (Vec::new(), Vec::new());
        for n in 0..WANTED {
            let transfer = client
                .post(format!("{}/tokens/transfer", local.url))
                .bearer_auth(account(0, "token"))
                .header("idempotency-key", format!("flood-{n}"))
                .json(&json!({"recipientDid": account(1, "did"), "amount": "1"}));
            transfers.push(answer(transfer).await.0);
            events.push(slack::upload(&local, &n.to_string()).await);
        }
        done.store(true, Ordering::SeqCst);
        (transfers, events)
    };
    let ((served, refused), (transfers, events)) = futures::join!(flood, wanted);
    assert!(served > 0 && refused >= REFUSED, "{served} served, {refused} refused");
    assert_eq!(transfers, [StatusCode::OK; WANTED]);
    assert_eq!(events, [StatusCode::OK; WANTED]);
}
