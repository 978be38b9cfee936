//! What `slack-events` accepts, what it answers, and what it ignores.

use std::time::Duration;

use crate::support::{EVENTS_TIMEOUT, World, own};
use function::LambdaEvent;
use function::http::{Request, Response};
use ichido::Clock;
use serde_json::{Value, json};
use slack::function::events;
use slack::outside::hand_over::Error::{Refused, Unanswered};
use slack::settings::Fallback;
use testkit::faults::{Fault, Rule};

async fn status(world: &World, request: &Request) -> u16 {
    let invocation = world.invocation("r", EVENTS_TIMEOUT);
    world.slack_events().answer(request, &invocation).await.map_or(500, |response| response.status)
}

#[tokio::test]
async fn what_is_not_signed_is_refused_and_never_touches_the_store() {
    let world = World::new().await;
    let good = world.signed(&world.event("Ev1", &["F1"]));
    let change = |change: &dyn Fn(&mut Request)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let without = |name: &'static str| change(&|request| drop(request.headers.remove(name)));
    assert_eq!(status(&world, &without("x-slack-signature")).await, 401);
    assert_eq!(status(&world, &without("x-slack-request-timestamp")).await, 401);
    assert_eq!(status(&world, &change(&|request| request.body.push(b' '))).await, 401);
    assert_eq!(status(&world, &change(&|request| request.body.clear())).await, 401);
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(status(&world, &good).await, 401, "too old");
    assert_eq!(world.dynamo.calls().total(), 0);
    assert_eq!(world.queue.accepted(), 0);
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_its_signature_is_computed() {
    let world = World::new().await;
    let mut event = world.event("Ev1", &["F1"]);
    event["padding"] = "x".repeat(events::MAX_BODY_BYTES).into();
    let large = world.signed(&event);
    assert_eq!(status(&world, &large).await, 413, "though it is signed");
    let unsigned = Request { headers: Default::default(), ..large };
    assert_eq!(status(&world, &unsigned).await, 413, "and nobody looks for a signature");
    let spare = events::MAX_BODY_BYTES - world.event("Ev1", &["F1"]).to_string().len() - 100;
    event["padding"] = "x".repeat(spare).into();
    assert_eq!(status(&world, &world.signed(&event)).await, 200, "what is within the limit is handled");
}

#[tokio::test]
async fn what_is_signed_and_no_event_is_refused_and_never_touches_the_store() {
    let world = World::new().await;
    for body in [json!([]), json!("text"), json!(7), json!(null), json!({"type": "url_verification"})] {
        assert_eq!(status(&world, &world.signed(&body)).await, 400, "{body}");
    }
    assert_eq!(world.dynamo.calls().total(), 0);
}

#[tokio::test]
async fn a_challenge_is_answered_with_itself() {
    let world = World::new().await;
    let request = world.signed(&json!({"type": "url_verification", "token": "t", "challenge": "3eZbrw1aB"}));
    let invocation = world.invocation("r", EVENTS_TIMEOUT);
    let answer = world.slack_events().answer(&request, &invocation).await.expect("an answer");
    assert_eq!(answer.status, 200);
    assert_eq!(serde_json::from_slice::<Value>(&answer.body).expect("JSON"), json!({"challenge": "3eZbrw1aB"}));
    assert_eq!(world.dynamo.calls().total(), 0);
}

#[tokio::test]
async fn everything_that_is_no_file_event_of_others_is_acknowledged_and_left_alone() {
    let world = World::new().await;
    let mut own_upload = world.event("Ev2", &["F1"]);
    own_upload["event"]["bot_id"] = own().bot_id.into();
    let mut own_user = world.event("Ev3", &["F1"]);
    own_user["event"]["user"] = own().user_id.into();
    let ignored = [
        json!({"type": "event_callback", "event_id": "Ev1", "event": {"type": "file_shared", "file_id": "F1"}}),
        json!({"type": "event_callback", "event": {"type": "message", "text": "hello", "ts": "1.2", "channel": "C"}}),
        json!({"type": "event_callback", "event": {"type": "a_type_of_next_year", "payload": [1, 2]}}),
        json!({"type": "app_rate_limited", "minute_rate_limited": 1_518_467_820}),
        json!({}),
        own_upload,
        own_user,
    ];
    for event in ignored {
        assert_eq!(status(&world, &world.signed(&event)).await, 200, "{event}");
    }
    assert_eq!(world.dynamo.calls().total(), 0);
    assert_eq!(world.queue.accepted(), 0);
}

#[tokio::test]
async fn another_bots_upload_without_a_user_is_handed_over() {
    let world = World::new().await;
    let mut event = world.event("Ev1", &["F1", "F2"]);
    event["event"]["bot_id"] = "B0OTHER".into();
    event["event"].as_object_mut().expect("an object").remove("user");
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    let upload = world.queue.first().expect("an upload");
    assert_eq!(upload.user, None);
    assert_eq!(upload.files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["F1", "F2"]);
    assert!(world.records()["Ev1"].get("user_id").is_none());
}

#[tokio::test]
async fn a_record_says_who_uploaded_what_where_and_when() {
    let world = World::new().await;
    let now = world.clock.now().as_secs();
    assert_eq!(world.deliver(&world.slack_events(), &world.event("Ev1", &["F1"])).await, 200);
    let record = &world.records()["Ev1"];
    assert_eq!(record["event_key"], json!({"S": "Ev1"}));
    assert_eq!(record["processed_at"], json!({"N": now.to_string()}));
    assert_eq!(record["file_id"], json!({"S": "F1"}));
    assert_eq!(record["channel_id"], json!({"S": "C0GENERAL"}));
    assert_eq!(record["user_id"], json!({"S": "U0ALICE"}));
    assert_eq!(record["lambda_instance_id"], json!({"S": "request-1"}));
    let ttl: u64 = record["ttl"]["N"].as_str().expect("a number").parse().expect("a number");
    assert!((now + 6 * 3600..=now + 6 * 3600 + 3).contains(&ttl), "{ttl}");
}

#[tokio::test]
async fn without_an_event_id_the_key_is_the_file_and_the_timestamp() {
    let world = World::new().await;
    let mut event = crate::support::envelope("", "1767225600.000100", &["F1"]);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    event.as_object_mut().expect("an object").remove("event_id");
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert_eq!(world.records().keys().collect::<Vec<_>>(), ["F1_1767225600.000100"]);
    assert_eq!(world.queue.accepted(), 1);
}

#[tokio::test]
async fn a_refused_hand_over_is_an_error_and_slacks_repeat_gets_through() {
    let world = World::new().await;
    let (events, event) = (world.slack_events(), world.event("Ev1", &["F1"]));
    world.queue.trouble([Refused("TooManyRequestsException".into())]);
    assert_eq!(world.deliver(&events, &event).await, 500);
    assert_eq!(world.queue.accepted(), 0);
    // The repeat may come at once, to the same instance or to another one.
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert_eq!(world.deliver(&events, &event).await, 200);
    assert_eq!(world.queue.accepted(), 1);
}

#[tokio::test]
async fn an_unanswered_hand_over_is_made_again_rather_than_believed() {
    let world = World::new().await;
    let event = world.event("Ev1", &["F1"]);
    world.queue.trouble([Unanswered("timeout".into())]);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 500);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert_eq!(world.queue.accepted(), 2, "harmless: the files have keys of their own");
}

#[tokio::test]
async fn a_duplicate_costs_one_call_to_the_store_and_its_count_and_no_hand_over() {
    let world = World::new().await;
    let event = world.event("Ev1", &["F1"]);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert_eq!(world.dynamo.reset_calls().total(), 2, "a claim and a completion");
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert_eq!(world.dynamo.calls().total(), 2, "a claim that is refused, and the history");
    assert_eq!(world.queue.accepted(), 1);
}

#[tokio::test]
async fn slacks_retry_headers_drop_nothing() {
    let world = World::new().await;
    let mut request = world.signed(&world.event("Ev1", &["F1"]));
    request.headers.insert("x-slack-retry-num".into(), "3".into());
    request.headers.insert("x-slack-retry-reason".into(), "http_timeout".into());
    assert_eq!(status(&world, &request).await, 200);
    assert_eq!(world.queue.accepted(), 1, "the third repeat was the first to arrive");
}

#[tokio::test]
async fn an_answer_comes_in_time_whatever_the_store_does() {
    let faults = [
        Fault::Down,
        Fault::Throttle,
        Fault::Error,
        Fault::Hang,
        Fault::LoseAnswer,
        Fault::Slow(Duration::from_millis(600)),
        Fault::Late(Duration::from_secs(20)),
    ];
    for fallback in [Fallback::Open, Fallback::Closed] {
        for fault in faults {
            let mut world = World::new().await;
            world.fallback = fallback;
            world.dynamo.faults().put(Rule::new(fault));
            let event = world.event("Ev1", &["F1"]);
            let started = world.clock.now();
            let answer = world.deliver(&world.slack_events(), &event).await;
            let took = world.clock.now().since(started);
            assert!(took <= events::ANSWER_WITHIN, "{fault:?}, {fallback:?}: {took:?}");
            match fallback {
                Fallback::Open => assert_eq!((answer, world.queue.accepted()), (200, 1), "{fault:?}"),
                // A slow store is not down. After a lost answer, the instance recognises its own claim.
                Fallback::Closed if matches!(fault, Fault::Slow(_)) => assert_eq!(answer, 200, "{fault:?}"),
                Fallback::Closed => assert_eq!((answer, world.queue.accepted()), (500, 0), "{fault:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_missing_table_is_loud_and_opens_no_fallback() {
    for fault in [Fault::Missing, Fault::Denied] {
        let world = World::new().await;
        world.dynamo.faults().put(Rule::new(fault));
        assert_eq!(world.deliver(&world.slack_events(), &world.event("Ev1", &["F1"])).await, 500);
        assert_eq!((world.queue.accepted(), world.admissions.total()), (0, 0), "{fault:?}");
    }
}

#[tokio::test]
async fn the_handler_takes_what_api_gateway_sends_base64_included() {
    let world = World::new().await;
    let handler = events::handler(world.slack_events());
    let mut request = world.signed(&world.event("Ev1", &["F1"]));
    let invoke = async |payload: Value| {
        let context = world.invocation("r", EVENTS_TIMEOUT);
        let answer = handler(LambdaEvent { payload, context }).await.expect("an answer");
        Response::from_value(&answer).expect("an HTTP answer").status
    };
    let plain = request.to_event();
    assert_eq!(plain["isBase64Encoded"], false);
    assert_eq!(invoke(plain).await, 200);
    // API Gateway encodes a body of this type.
    request.headers.insert("content-type".into(), "application/octet-stream".into());
    let mut encoded = request.to_event();
    assert_eq!(encoded["isBase64Encoded"], true);
    assert_eq!(invoke(encoded.clone()).await, 200);
    encoded["body"] = "not base64!".into();
    assert_eq!(invoke(encoded).await, 400);
    assert_eq!(world.queue.accepted(), 1);
}
