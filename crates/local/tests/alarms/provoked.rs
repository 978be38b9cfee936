//! The faults. Each test breaks something, lets time pass, sees the alarm ring, heals it, and sees the alarm end.

use aws_sdk_dynamodb::types::AttributeValue;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::client::{answer, aws, eventually, http};
use crate::process::Local;
use crate::slack::upload;

/// A platform with all applications, nothing moving by itself, and retries at once.
fn platform(variables: &[(&str, &str)]) -> Local {
    Local::of_test("platform_process", &["--memory", "--no-demo", "--retry-scale=0"], variables)
}

/// The state of an alarm, with its data for a message.
async fn state(local: &Local, alarm: &str) -> (String, Value) {
    let alarms = local.get("/_local/alarms").await;
    let all = alarms.as_array().expect("alarms");
    let found = all.iter().find(|each| each["name"] == alarm).unwrap_or_else(|| panic!("there is no alarm {alarm}"));
    (found["state"].as_str().expect("a state").to_owned(), found.clone())
}

async fn rings(local: &Local, alarm: &str) {
    let (state, data) = state(local, alarm).await;
    assert_eq!(state, "ALARM", "{alarm} does not ring: {data:#}");
}

async fn is_quiet(local: &Local, alarm: &str) {
    let (state, data) = state(local, alarm).await;
    assert_ne!(state, "ALARM", "{alarm} rings: {data:#}");
}

/// Moves the time of metrics and alarms forward.
async fn later(local: &Local, minutes: u64) {
    let request = http().post(format!("{}/_local/alarms/advance?minutes={minutes}", local.url));
    assert_eq!(answer(request).await.0, StatusCode::OK);
}

/// One run of a schedule's function.
async fn run(local: &Local, feed: &str) -> Value {
    let (status, ran) = answer(http().post(format!("{}/_local/schedules/{feed}-subscriber/run", local.url))).await;
    assert_eq!(status, StatusCode::OK, "{ran}");
    ran
}

/// A new entry in a sample feed.
async fn publish(local: &Local, feed: &str) {
    let (status, said) = answer(http().post(format!("{}/feeds/sample/{feed}", local.url))).await;
    assert!(status.is_success(), "{said}");
}

/// One of the sample accounts: its DID and its token.
async fn account(local: &Local, at: usize) -> (String, String) {
    let account = local.get("/_local/config").await["accounts"][at].clone();
    let text = |name: &str| account[name].as_str().expect("text").to_owned();
    (text("did"), text("token"))
}

async fn open(local: &Local, token: &str) {
    let request = http().post(format!("{}/tokens/accounts", local.url)).bearer_auth(token);
    assert!(answer(request).await.0.is_success());
}

/// Sends transfers at the same time, and returns how they were answered.
async fn transfers(local: &Local, count: usize, name: &str) -> Vec<StatusCode> {
    let ((_, token), (recipient, _)) = (account(local, 0).await, account(local, 1).await);
    let client = http();
    let all = (0..count).map(|n| {
        let transfer = client
            .post(format!("{}/tokens/transfer", local.url))
            .bearer_auth(&token)
            .header("idempotency-key", format!("{name}-{n}"))
            .json(&json!({"recipientDid": recipient, "amount": "0.01"}));
        async move { answer(transfer).await.0 }
    });
    futures::future::join_all(all).await
}

#[tokio::test]
async fn slack_events_refused_without_the_store_ring_until_it_is_back() {
    let local = platform(&[("SLACK_EVENTS__DEDUP_FALLBACK", "closed")]);
    let alarm = "slack-events-errors";
    local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
    for period in 0..2 {
        is_quiet(&local, alarm).await;
        for n in 0..3 {
            assert!(upload(&local, &format!("{period}{n}")).await.is_server_error());
        }
        later(&local, 5).await;
    }
    rings(&local, alarm).await;
    local.put_faults(json!({})).await;
    later(&local, 30).await;
    // The breaker still keeps the store alone, so this may be refused; it is one error, and one error rings nothing.
    upload(&local, "after").await;
    is_quiet(&local, alarm).await;
}

#[tokio::test]
async fn slack_events_admitted_without_the_store_ring_until_it_is_back() {
    let local = platform(&[]);
    let fallback = "slack-fallback-active";
    local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
    for minute in 0..2 {
        is_quiet(&local, fallback).await;
        assert_eq!(upload(&local, &format!("down{minute}")).await, StatusCode::OK, "admitted without the store");
        later(&local, 1).await;
    }
    rings(&local, fallback).await;
    local.put_faults(json!({})).await;
    later(&local, 30).await;
    is_quiet(&local, fallback).await;
}

#[tokio::test]
async fn replies_that_slack_refuses_ring_until_nothing_is_left() {
    let local = platform(&[]);
    let (errors, dead_letters) = ("slack-files-errors", "slack-files-dead-letters");
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    for period in 0..2 {
        is_quiet(&local, errors).await;
        for n in 0..2 {
            assert_eq!(upload(&local, &format!("{period}{n}")).await, StatusCode::OK);
        }
        let given_up = 2 * (period + 1);
        eventually("dead letters", || async {
            let queues = local.get("/_local/queues").await;
            let queue = queues.as_array()?.iter().find(|each| each["name"] == "slack-files-failures")?.clone();
            (queue["visible"] == given_up).then_some(())
        })
        .await;
        later(&local, 5).await;
    }
    rings(&local, errors).await;
    rings(&local, dead_letters).await;
    local.put_faults(json!({})).await;
    let sqs = aws_sdk_sqs::Client::new(aws(&local.url).config());
    let url = sqs.get_queue_url().queue_name("slack-files-failures").send().await.expect("a queue");
    sqs.purge_queue().queue_url(url.queue_url().expect("a URL")).send().await.expect("purged");
    later(&local, 30).await;
    is_quiet(&local, errors).await;
    is_quiet(&local, dead_letters).await;
}

#[tokio::test]
async fn a_token_api_without_its_store_rings_until_it_is_back() {
    let local = platform(&[]);
    let (unresolved, latency, http_api) = ("tokens-unresolved", "tokens-api-latency", "http-api-errors");
    for at in 0..2 {
        open(&local, &account(&local, at).await.1).await;
    }
    local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
    for minute in 0..3 {
        is_quiet(&local, unresolved).await;
        let answered = transfers(&local, 5, &format!("a{minute}")).await;
        assert!(answered.iter().all(|status| *status == StatusCode::SERVICE_UNAVAILABLE), "{answered:?}");
        later(&local, 1).await;
    }
    rings(&local, unresolved).await;
    is_quiet(&local, http_api).await;
    for period in 0..2 {
        later(&local, 5).await;
        transfers(&local, 5, &format!("b{period}")).await;
    }
    rings(&local, http_api).await;
    rings(&local, latency).await;
    local.put_faults(json!({})).await;
    later(&local, 40).await;
    let answered = transfers(&local, 5, "after").await;
    assert!(answered.iter().all(|status| *status == StatusCode::OK), "{answered:?}");
    for alarm in [unresolved, latency, http_api] {
        is_quiet(&local, alarm).await;
    }
}

#[tokio::test]
async fn an_account_that_cannot_be_read_rings_until_it_is_repaired() {
    let local = platform(&[]);
    let alarm = "tokens-api-errors";
    let (did, token) = account(&local, 0).await;
    open(&local, &token).await;
    let dynamodb = aws(&local.url).dynamodb();
    let items = dynamodb.scan().table_name("tokens-ledger").send().await.expect("items");
    let item = items.items().iter().find(|item| {
        let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
        text("PK").contains("alice") && item.contains_key("balance")
    });
    let whole = item.expect("the account").clone();
    let put = |item| dynamodb.put_item().table_name("tokens-ledger").set_item(Some(item)).send();
    let mut broken = whole.clone();
    broken.insert("balance".to_owned(), AttributeValue::S("nonsense".to_owned()));
    put(broken).await.expect("broken");
    let balance = || async {
        let request = http().get(format!("{}/tokens/balance/{did}", local.url)).bearer_auth(&token);
        answer(request).await.0
    };
    for _ in 0..2 {
        is_quiet(&local, alarm).await;
        for _ in 0..3 {
            assert_eq!(balance().await, StatusCode::INTERNAL_SERVER_ERROR);
        }
        later(&local, 5).await;
    }
    rings(&local, alarm).await;
    put(whole).await.expect("whole again");
    later(&local, 30).await;
    assert_eq!(balance().await, StatusCode::OK);
    is_quiet(&local, alarm).await;
}

/// The alarms of a feed, one feed per test so that they run at the same time.
mod feed {
    use super::*;

    pub(super) struct Names {
        pub(super) feed: &'static str,
        pub(super) period: u64,
        pub(super) errors: &'static str,
        pub(super) duration: &'static str,
        pub(super) silence: &'static str,
        pub(super) notifier: &'static str,
    }

    /// The first read marks what is there; what is published afterwards is owed.
    async fn started(variables: &[(&str, &str)], names: &Names) -> Local {
        let local = platform(variables);
        assert_eq!(run(&local, names.feed).await["ok"], true);
        local
    }

    pub(super) async fn a_store_that_is_down_rings_until_it_is_back(names: &Names) {
        let local = started(&[], names).await;
        local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
        for _ in 0..3 {
            is_quiet(&local, names.errors).await;
            later(&local, names.period).await;
            assert_eq!(run(&local, names.feed).await["error"]["errorType"], "Store");
        }
        rings(&local, names.errors).await;
        local.put_faults(json!({})).await;
        later(&local, 7 * names.period).await;
        assert_eq!(run(&local, names.feed).await["ok"], true);
        is_quiet(&local, names.errors).await;
    }

    pub(super) async fn a_delivery_that_was_given_up_rings_until_somebody_acts(names: &Names) {
        let variable = format!("{}_SUBSCRIBER__DEAD_AFTER", names.feed.to_uppercase());
        let local = started(&[(variable.as_str(), "1")], names).await;
        publish(&local, names.feed).await;
        local.put_faults(json!({"mastodon": {"mode": "refuse", "status": 422}})).await;
        for _ in 0..3 {
            is_quiet(&local, names.errors).await;
            later(&local, names.period).await;
            assert_eq!(run(&local, names.feed).await["error"]["errorType"], "DeadLetters");
        }
        rings(&local, names.errors).await;
        local.put_faults(json!({})).await;
        let subscriber = format!("{}-subscriber", names.feed);
        let command = |command: Value| local.invoke(&subscriber, "RequestResponse", command);
        let letters = command(json!({"command": "dead-letters"})).await.2;
        let id = letters["deadLetters"][0]["entryId"].clone();
        command(json!({"command": "resend", "entryId": id})).await;
        later(&local, 7 * names.period).await;
        assert_eq!(run(&local, names.feed).await["ok"], true);
        is_quiet(&local, names.errors).await;
        let queues = local.get("/_local/queues").await;
        let of_feed = queues
            .as_array()
            .expect("queues")
            .iter()
            .find(|each| each["name"].as_str().is_some_and(|name| name.starts_with(names.feed)));
        assert!(of_feed.is_none_or(|queue| queue["visible"] == 0), "such an error leaves no message: {queues}");
    }

    pub(super) async fn a_revoked_token_rings_until_it_is_accepted(names: &Names) {
        let local = started(&[], names).await;
        publish(&local, names.feed).await;
        local.put_faults(json!({"mastodon": {"mode": "refuse", "status": 401}})).await;
        for _ in 0..3 {
            is_quiet(&local, names.notifier).await;
            later(&local, names.period).await;
            let ran = run(&local, names.feed).await;
            assert_eq!((&ran["ok"], &ran["result"]["owed"]), (&json!(true), &json!(1)), "{ran}");
        }
        rings(&local, names.notifier).await;
        is_quiet(&local, names.errors).await;
        local.put_faults(json!({})).await;
        later(&local, 7 * names.period).await;
        assert_eq!(run(&local, names.feed).await["result"]["settled"], 1);
        is_quiet(&local, names.notifier).await;
    }

    pub(super) async fn a_destination_that_hangs_rings_until_it_answers(names: &Names) {
        let local = started(&[], names).await;
        publish(&local, names.feed).await;
        local.put_faults(json!({"mastodon": {"mode": "hang"}})).await;
        for _ in 0..2 {
            is_quiet(&local, names.duration).await;
            later(&local, names.period).await;
            run(&local, names.feed).await;
        }
        rings(&local, names.duration).await;
        local.put_faults(json!({})).await;
        later(&local, 5 * names.period).await;
        run(&local, names.feed).await;
        is_quiet(&local, names.duration).await;
    }

    pub(super) async fn a_feed_that_nothing_reads_rings_until_it_is_read(names: &Names) {
        let local = started(&[], names).await;
        is_quiet(&local, names.silence).await;
        // Nothing runs by itself here, as with a schedule that is off, or with events that Lambda throttles and drops.
        later(&local, 6 * names.period).await;
        rings(&local, names.silence).await;
        run(&local, names.feed).await;
        is_quiet(&local, names.silence).await;
    }
}

macro_rules! feed {
    ($module:ident, $names:expr, $($fault:ident),*) => {
        mod $module {
            const NAMES: super::feed::Names = $names;
            $(
                #[tokio::test]
                async fn $fault() {
                    super::feed::$fault(&NAMES).await;
                }
            )*
        }
    };
}

feed!(
    github,
    super::feed::Names {
        feed: "github",
        period: 5,
        errors: "github-feed-subscriber-errors",
        duration: "github-feed-subscriber-duration",
        silence: "github-feed-silence",
        notifier: "github-notifier-errors",
    },
    a_store_that_is_down_rings_until_it_is_back,
    a_delivery_that_was_given_up_rings_until_somebody_acts,
    a_revoked_token_rings_until_it_is_accepted,
    a_destination_that_hangs_rings_until_it_answers,
    a_feed_that_nothing_reads_rings_until_it_is_read
);
feed!(
    hatebu,
    super::feed::Names {
        feed: "hatebu",
        period: 15,
        errors: "hatebu-feed-subscriber-errors",
        duration: "hatebu-feed-subscriber-duration",
        silence: "hatebu-feed-silence",
        notifier: "hatebu-notifier-errors",
    },
    a_store_that_is_down_rings_until_it_is_back,
    a_delivery_that_was_given_up_rings_until_somebody_acts,
    a_revoked_token_rings_until_it_is_accepted,
    a_destination_that_hangs_rings_until_it_answers,
    a_feed_that_nothing_reads_rings_until_it_is_read
);
