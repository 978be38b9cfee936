//! `ichidoctl dead-letters`.

use std::io::{Read as _, Write as _};

use insta::assert_snapshot;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::client::{answer, aws, eventually, http};
use crate::support::ctl::{Act, ctl, ctl_as, ctl_at, door, door_without, platform, tidy};
use crate::support::process::Local;
use crate::support::{given_up, slack};

const QUEUE: &str = "slack-files-failures";

fn ids(local: &Local, application: &str) -> Vec<String> {
    let all = ctl(local, &["dead-letters", "list", application, "--json"]).json();
    all["deadLetters"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|letter| letter["id"].as_str().expect("an id").to_owned())
        .collect()
}

async fn sqs(local: &Local, action: &str, body: Value) -> Value {
    let request = http().post(&local.url).header("x-amz-target", format!("AmazonSQS.{action}"));
    answer(request.body(body.to_string())).await.1
}

#[tokio::test]
async fn what_lambda_gave_up_on_is_listed_shown_and_sent_again_once() {
    let local = platform(&[]);
    assert_snapshot!(ctl(&local, &["dead-letters", "list"]).tidy(), @r"
    no dead letters
    exit code 0
    ");
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK);
    given_up(&local, QUEUE, 1).await;
    assert_snapshot!(ctl(&local, &["dead-letters", "list"]).tidy(), @r"
    APPLICATION  GIVEN UP  ATTEMPTS  ID  REASON
    slack  [age] ago  3  [uuid]  RetriesExhausted Probe: 1 of 1 files of event Ev1 are not done: F1: could not find out whether it w…
    exit code 1
    ");
    let id = ids(&local, "slack").remove(0);
    assert_eq!(ids(&local, "slack"), [id.as_str()], "looking does not take it away");
    let shown = ctl(&local, &["dead-letters", "show", "slack", &id, "--json"]).json();
    assert_eq!(shown["deadLetters"][0]["attempts"], 3);
    assert_eq!(shown["deadLetters"][0]["payload"]["files"][0]["id"], "F1");
    let failed = shown["history"].as_array().expect("lines").iter().filter(|line| line["level"] == "ERROR").count();
    assert_eq!(failed, 3, "each attempt is in the history: {shown:#}");
    let shown = ctl(&local, &["dead-letters", "show", "slack", &id]);
    assert_eq!(shown.code, Some(0));
    for said in ["attempts  3", "HTTP 503", "what the attempts logged:"] {
        assert!(tidy(&shown.out).contains(said), "{said} is not in {}", shown.out);
    }

    // Somebody else looks at it, by other means.
    let url = sqs(&local, "GetQueueUrl", json!({"QueueName": QUEUE})).await["QueueUrl"].clone();
    let received = json!({"QueueUrl": url, "VisibilityTimeout": 60});
    let held = sqs(&local, "ReceiveMessage", received).await["Messages"][0]["ReceiptHandle"].clone();
    assert_snapshot!(ctl(&local, &["dead-letters", "list", "slack"]).tidy(), @r"
    there may be more dead letters: somebody else looks at 1 in slack-files-failures just now; they are shown again within [age]
    exit code 1
    ");
    let let_go = json!({"QueueUrl": url, "ReceiptHandle": held, "VisibilityTimeout": 0});
    sqs(&local, "ChangeMessageVisibility", let_go).await;

    let unasked = ctl(&local, &["dead-letters", "redrive", "slack"]);
    assert_eq!(unasked.code, Some(2), "it asks: {unasked:?}");
    // The cause is still there: it comes back.
    assert_eq!(ctl(&local, &["dead-letters", "redrive", "slack", "--yes"]).code, Some(0));
    given_up(&local, QUEUE, 1).await;
    let id = ids(&local, "slack").remove(0);
    assert_eq!(slack::replies(&local).await, 0);
    local.put_faults(json!({})).await;
    let sent = ctl(&local, &["dead-letters", "redrive", "slack", "--yes"]);
    assert_snapshot!(sent.tidy(), @r"
    APPLICATION  GIVEN UP  ATTEMPTS  ID  REASON
    slack  [age] ago  3  [uuid]  RetriesExhausted Probe: 1 of 1 files of event Ev1 are not done: F1: could not find out whether it w…
    [uuid]  sent again
    exit code 0
    ");
    assert!(sent.err.contains(&format!("resent dead letter {id} of slack by hand")), "it is logged: {sent:?}");
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    assert_snapshot!(ctl(&local, &["dead-letters", "redrive", "slack", "--yes"]).tidy(), @r"
    slack has no dead letters
    exit code 0
    ");
    assert_eq!(slack::replies(&local).await, 1);
}

#[tokio::test]
async fn a_reply_whose_answer_was_lost_is_not_made_again_by_a_redrive() {
    let local = platform(&[]);
    // Slack takes the message and the answer is lost; asked about it, Slack does not answer either.
    local.put_faults(json!({"slack": {"mode": "accept_then_lose"}})).await;
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK);
    given_up(&local, QUEUE, 1).await;
    local.put_faults(json!({})).await;
    assert_eq!(ctl(&local, &["dead-letters", "redrive", "slack", "--yes"]).code, Some(0));
    let key = eventually("the file", || async {
        let keys =
            ctl(&local, &["keys", "list", "slack", "--prefix", "FILE#", "--state", "completed", "--json"]).json();
        keys["keys"][0]["key"].as_str().map(str::to_owned)
    })
    .await;
    assert!(key.ends_with("#F1"), "{key}");
    assert_eq!(slack::replies(&local).await, 1, "the probe found it");
}

#[tokio::test]
async fn the_reason_of_a_dead_letter_cannot_look_like_other_lines() {
    let local = platform(&[]);
    let record = json!({
        "version": "1.0", "timestamp": "2026-11-17T04:00:00.000Z",
        "requestContext": {
            "requestId": "11111111-2222-3333-4444-555555555555", "condition": "RetriesExhausted", "approximateInvokeCount": 3,
            "functionArn": "arn:aws:lambda:ap-northeast-1:000000000000:function:slack-files:live",
        },
        "requestPayload": {}, "responsePayload": {"errorType": "E", "errorMessage": "x\n  attempts     0\u{1b}[2J\u{202e}"},
    });
    let sqs = aws_sdk_sqs::Client::new(aws(&local.url).config());
    let url = sqs.get_queue_url().queue_name(QUEUE).send().await.expect("a queue");
    let send = sqs.send_message().queue_url(url.queue_url().expect("a URL")).message_body(record.to_string());
    send.send().await.expect("sent");
    let shown = ctl(&local, &["dead-letters", "show", "slack", "11111111-2222-3333-4444-555555555555"]);
    assert!(shown.out.contains("E: x\\n  attempts     0\\u{1b}[2J\\u{202e}"), "{shown:?}");
    assert_eq!(shown.out.lines().filter(|line| line.trim_start().starts_with("attempts")).count(), 1, "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_was_sent_and_could_not_be_deleted_is_kept_as_done_in_part() {
    let local = platform(&[]);
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    assert_eq!(slack::upload(&local, "1").await, StatusCode::OK);
    given_up(&local, QUEUE, 1).await;
    local.put_faults(json!({})).await;
    let door = door_without(&local, "DeleteMessage").await;
    let sent = ctl_at(&local, &door, &["dead-letters", "redrive", "slack", "--yes"]);
    assert_eq!(sent.code, Some(1), "{sent:?}");
    eventually("the reply", || async { (slack::replies(&local).await == 1).then_some(()) }).await;
    let kept = ctl(&local, &["operations", "slack", "--json"]);
    let outcome = kept.json()["operations"][0]["outcome"].as_str().expect("an outcome").to_owned();
    assert!(
        outcome.starts_with("happened in part: sent it again, but the dead letter is still in its queue"),
        "{outcome}"
    );
    assert_eq!(kept.code, Some(1), "somebody has to look");
}

#[tokio::test]
async fn a_function_that_is_down_does_not_hide_what_its_queue_holds() {
    let local = platform(&[]);
    let record = json!({
        "version": "1.0", "timestamp": "2026-11-17T04:00:00.000Z",
        "requestContext": {
            "requestId": "11111111-2222-3333-4444-555555555555", "condition": "EventAgeExceeded", "approximateInvokeCount": 0,
            "functionArn": "arn:aws:lambda:ap-northeast-1:000000000000:function:github-subscriber:live",
        },
        "requestPayload": {},
    });
    let sqs = aws_sdk_sqs::Client::new(aws(&local.url).config());
    let url = sqs.get_queue_url().queue_name("github-subscriber-failures").send().await.expect("a queue");
    let send = sqs.send_message().queue_url(url.queue_url().expect("a URL")).message_body(record.to_string());
    send.send().await.expect("sent");
    local.put_faults(json!({"dynamodb": {"mode": "down"}})).await;
    let listed = ctl(&local, &["dead-letters", "list", "github"]);
    assert_eq!((listed.code, listed.out.contains("EventAgeExceeded")), (Some(1), true), "{listed:?}");
    assert!(listed.out.contains("there may be more dead letters: github-subscriber answered Store"), "{listed:?}");
}

#[tokio::test]
async fn one_of_many_can_be_dropped_and_the_others_stay() {
    let local = platform(&[]);
    local.put_faults(json!({"slack": {"mode": "refuse", "status": 503}})).await;
    for n in 0..12 {
        assert_eq!(slack::upload(&local, &n.to_string()).await, StatusCode::OK);
    }
    given_up(&local, QUEUE, 12).await;
    let all = ids(&local, "slack");
    assert_eq!(all.len(), 12, "more than SQS gives in one call");
    let nameless = ctl(&local, &["dead-letters", "drop", "slack", "--yes"]);
    assert_eq!((nameless.code, nameless.err.contains("name the IDs")), (Some(2), true), "{nameless:?}");
    let unknown = ctl(&local, &["dead-letters", "drop", "slack", "nothing", "--yes"]);
    assert!(unknown.err.contains("slack has no dead letter nothing"), "{unknown:?}");
    assert_eq!(ids(&local, "slack").len(), 12);
    let drop = ["dead-letters", "drop", "slack", all[3].as_str(), "--reason", "a test", "--yes"];
    let dropped = ctl_as(&local, "olga", &drop);
    assert_eq!(
        (dropped.code, dropped.out.ends_with(&format!("\n{}  dropped\n", all[3]))),
        (Some(0), true),
        "{dropped:?}"
    );
    let kept = ctl(&local, &["operations", "slack", "--json"]).json();
    let [kept] = kept["operations"].as_array().expect("a list").as_slice() else { panic!("one: {kept:#}") };
    assert_eq!((&kept["operation"], &kept["on"]), (&json!("drop"), &json!(all[3])));
    assert_eq!(kept["by"], "arn:aws:iam::000000000000:user/olga");
    assert_eq!((&kept["reason"], &kept["shown"]["before"]["attempts"]), (&json!("a test"), &json!(3)));
    let before = kept["shown"]["before"]["reason"].as_str().expect("a reason");
    assert!(dropped.out.contains(before), "what is kept was shown: {before:?} {dropped:?}");
    let left = ids(&local, "slack");
    assert_eq!(left.len(), 11);
    assert!(!left.contains(&all[3]));
}

/// A platform whose GitHub feed has one entry that Mastodon refused for good; answers its id.
pub(crate) async fn refused_entry(local: &Local) -> String {
    assert_eq!(ctl(local, &["schedules", "run", "github-subscriber"]).code, Some(0), "the first read posts nothing");
    let (status, _) = answer(http().post(format!("{}/feeds/sample/github", local.url))).await;
    assert!(status.is_success());
    local.put_faults(json!({"mastodon": {"mode": "refuse", "status": 422}})).await;
    let ran = ctl(local, &["schedules", "run", "github-subscriber"]);
    assert_eq!((ran.code, ran.out.contains("answered DeadLetters")), (Some(1), true), "{ran:?}");
    let all = ids(local, "github");
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

#[tokio::test]
async fn what_a_feed_gave_up_on_is_listed_and_sent_again_by_its_next_run() {
    let local = platform(&[("GITHUB_SUBSCRIBER__DEAD_AFTER", "1")]);
    let id = refused_entry(&local).await;
    assert_snapshot!(tidy(&ctl(&local, &["dead-letters", "list", "github"]).out).replace(&id, "[id]"), @r#"
    APPLICATION  GIVEN UP  ATTEMPTS  ID  REASON
    github  [age] ago  1  [id]  mastodon refused 1 times: status 422: {"error":"Validation failed: refused by a fault switch"}
    "#);
    local.put_faults(json!({})).await;
    let sent = ctl(&local, &["dead-letters", "redrive", "github", &id, "--yes"]);
    assert_snapshot!(sent.tidy().replace(&id, "[id]"), @r#"
    APPLICATION  GIVEN UP  ATTEMPTS  ID  REASON
    github  [age] ago  1  [id]  mastodon refused 1 times: status 422: {"error":"Validation failed: refused by a fault switch"}
    [id]  owed again; the next run of the feed delivers it
    exit code 0
    "#);
    assert!(ids(&local, "github").is_empty());
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    let kept: Vec<_> =
        kept["operations"].as_array().expect("a list").iter().map(|it| (&it["operation"], &it["on"])).collect();
    let schedule = json!("github-feed-subscriber-schedule");
    let (run, redrive) = (json!("run"), json!("redrive"));
    assert_eq!(kept, [(&run, &schedule), (&run, &schedule), (&redrive, &json!(id))]);
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0), "the trace is no entry");
    let posts: Value = local.get("/_local/outbox?sink=mastodon").await;
    assert_eq!(posts.as_array().map(Vec::len), Some(1), "{posts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_function_that_timed_out_is_kept_as_one_that_may_have_happened() {
    let local = platform(&[("GITHUB_SUBSCRIBER__DEAD_AFTER", "1")]);
    let id = refused_entry(&local).await;
    let timed_out = r#"{"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 60.00 seconds"}"#;
    let door = door(&local, "invocations", "resend", Act::AnswerInstead(200, timed_out)).await;
    let sent = ctl_at(&local, &door, &["dead-letters", "redrive", "github", &id, "--yes"]);
    assert_eq!(sent.code, Some(1), "{sent:?}");
    assert!(ids(&local, "github").is_empty(), "it happened");
    let kept = ctl(&local, &["operations", "github", "--json"]).json();
    let outcomes = kept["operations"].as_array().expect("a list").iter().filter(|kept| kept["operation"] == "redrive");
    let outcomes: Vec<&str> = outcomes.map(|kept| kept["outcome"].as_str().expect("an outcome")).collect();
    assert_eq!(
        outcomes,
        ["may have happened: github-subscriber answered Sandbox.Timedout: Task timed out after 60.00 seconds"]
    );
}

#[tokio::test]
async fn what_a_feed_gave_up_on_can_be_dropped() {
    let local = platform(&[("GITHUB_SUBSCRIBER__DEAD_AFTER", "1")]);
    let id = refused_entry(&local).await;
    local.put_faults(json!({})).await;
    assert_eq!(ctl(&local, &["dead-letters", "drop", "github", &id, "--yes"]).code, Some(0));
    assert!(ids(&local, "github").is_empty());
    assert_eq!(ctl(&local, &["schedules", "run", "github-subscriber"]).code, Some(0));
    assert_eq!(local.get("/_local/outbox?sink=mastodon").await, json!([]));
}

/// Serves one document on loopback until the test ends; answers its address. It has a thread, because `ctl` waits in this one.
fn serve(document: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/feed.json", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 4096]);
            let length = document.len();
            let _ =
                write!(socket, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{document}");
        }
    });
    url
}

#[tokio::test]
async fn a_dead_letter_of_one_feed_is_dropped_and_that_of_another_with_the_same_id_stays() {
    // The id is from the feed, and a terminal would obey it.
    let document =
        r#"{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1\u001b[31m", "title": "One"}]}"#;
    let url = serve(document);
    let feed = |name: &str| json!({"name": name, "url": url, "period": "1 hour", "destinations": ["mastodon"], "first_run": "all"});
    let list = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(list.path(), json!([feed("one"), feed("two")]).to_string()).expect("written");
    let arguments = ["--memory", "--no-demo", "--retry-scale=0", "--feeds", list.path().to_str().expect("a path")];
    let local = Local::of_test("platform_process", &arguments, &[("FEEDS_SUBSCRIBER__DEAD_AFTER", "1")]);
    local.put_faults(json!({"mastodon": {"mode": "refuse", "status": 422}})).await;
    for name in ["one", "two"] {
        let ran = ctl(&local, &["schedules", "run", &format!("feed-{name}")]);
        assert!(ran.out.contains(&format!("answered DeadLetters: feed {name}: ")), "it names the feed: {ran:?}");
    }
    let listed = ctl(&local, &["dead-letters", "list", "feeds"]);
    assert!(!listed.out.contains('\u{1b}') && listed.out.contains("one/1\\u{1b}[31m"), "{listed:?}");
    assert_eq!(ids(&local, "feeds"), ["one/1\u{1b}[31m", "two/1\u{1b}[31m"]);
    let dropped = ctl(&local, &["dead-letters", "drop", "feeds", "one/1\u{1b}[31m", "--yes"]);
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    assert_eq!(ids(&local, "feeds"), ["two/1\u{1b}[31m"]);
}
