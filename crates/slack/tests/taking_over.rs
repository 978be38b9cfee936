//! The table of a bot that ran before: its items mean that an event was handled, until they expire, and it understands ours.

use std::time::Duration;

use crate::support::{World, envelope};
use aws_sdk_dynamodb::types::AttributeValue;
use ichido::Clock;
use serde_json::{Value, json};
use slack::outside::hand_over::Error::Refused;
use slack::settings::Fallback;
use slack::table::RETENTION;

/// The bot before this one, as its design describes it: it writes an item before it does anything, unless there is one.
struct EarlierBot<'w>(&'w World);

impl EarlierBot<'_> {
    /// Whether the event is new to it.
    async fn check_and_mark_processed(&self, event_key: &str) -> bool {
        let now = self.0.clock.now().as_secs();
        let put = self.0.dynamo.client().put_item().table_name(self.0.table());
        let put = put
            .item("event_key", AttributeValue::S(event_key.into()))
            .item("processed_at", AttributeValue::N(now.to_string()))
            .item("ttl", AttributeValue::N((now + RETENTION.as_secs()).to_string()))
            .item("file_id", AttributeValue::S("F1".into()))
            .item("channel_id", AttributeValue::S("C0GENERAL".into()))
            .item("user_id", AttributeValue::S("U0ALICE".into()))
            .item("lambda_instance_id", AttributeValue::S("an-earlier-request".into()))
            .condition_expression("attribute_not_exists(event_key)");
        put.send().await.is_ok()
    }
}

/// Puts an item as it is.
fn put(world: &World, item: &Value) {
    world.dynamo.must("PutItem", &json!({ "TableName": world.table(), "Item": item }));
}

/// The forms of its items that are known: a number or a text as the time, an event's id or a file's as the key, with and
/// without further attributes.
fn forms(world: &World, ttl: u64) -> Vec<(Value, Value)> {
    let ts = format!("{}.000100", world.clock.now().as_secs());
    let mut without_id = envelope("", &ts, &["F1"]);
    without_id.as_object_mut().expect("an object").remove("event_id");
    let ttl = json!({ "N": ttl.to_string() });
    vec![
        (
            json!({"event_key": {"S": "Ev1"}, "processed_at": {"N": "1767225600"}, "ttl": ttl}),
            envelope("Ev1", &ts, &["F1"]),
        ),
        (
            json!({"event_key": {"S": "Ev2"}, "processed_at": {"S": "2026-01-01T00:00:00.000Z"}, "ttl": ttl}),
            envelope("Ev2", &ts, &["F1"]),
        ),
        (json!({"event_key": {"S": format!("F1_{ts}")}, "processed_at": {"N": "1767225600"}, "ttl": ttl}), without_id),
        (
            json!({
                "event_key": {"S": "Ev3"}, "processed_at": {"N": "1767225600"}, "ttl": ttl, "file_id": {"S": "F1"},
                "channel_id": {"S": "C0GENERAL"}, "user_id": {"NULL": true}, "lambda_instance_id": {"S": "r"},
                "result": {"M": {"category": {"S": "invoice"}, "tags": {"L": [{"S": "a"}]}}},
            }),
            envelope("Ev3", &ts, &["F1"]),
        ),
    ]
}

#[tokio::test]
async fn what_an_earlier_bot_handled_is_acknowledged_and_not_handled_again() {
    for fallback in [Fallback::Open, Fallback::Closed] {
        let mut world = World::new().await;
        world.fallback = fallback;
        let live = world.clock.now().as_secs() + 3600;
        for (item, event) in forms(&world, live) {
            put(&world, &item);
            for _ in 0..2 {
                assert_eq!(world.deliver(&world.slack_events(), &event).await, 200, "{item}");
            }
            let key = item["event_key"]["S"].as_str().expect("a key");
            assert_eq!(world.records()[key], item, "it is left as it was");
        }
        assert_eq!(world.queue.accepted(), 0);
    }
}

#[tokio::test]
async fn what_an_earlier_bot_handled_and_has_expired_is_new_although_nobody_deleted_it() {
    let world = World::new().await;
    let expired = world.clock.now().as_secs() - 1;
    let forms = forms(&world, expired);
    for (item, event) in &forms {
        put(&world, item);
        assert_eq!(world.deliver(&world.slack_events(), event).await, 200, "{item}");
        assert_eq!(world.deliver(&world.slack_events(), event).await, 200, "{item}");
    }
    assert_eq!(world.queue.accepted(), forms.len(), "each of them once");
    for (_, record) in world.records() {
        assert_eq!(record["ichido_state"], json!({"S": "completed"}), "a record of ours");
    }
}

#[tokio::test]
async fn an_item_of_an_earlier_bot_that_never_expires_is_believed() {
    let world = World::new().await;
    put(&world, &json!({"event_key": {"S": "Ev1"}, "processed_at": {"N": "1767225600"}}));
    assert_eq!(world.deliver(&world.slack_events(), &world.event("Ev1", &["F1"])).await, 200);
    assert_eq!(world.queue.accepted(), 0);
}

#[tokio::test]
async fn side_by_side_each_bot_leaves_alone_what_the_other_one_has_handled() {
    let world = World::new().await;
    let (earlier, ours) = (EarlierBot(&world), world.slack_events());
    let mut handled_by_it = 0;
    for n in 0..10 {
        let event_id = format!("Ev{n}");
        let event = world.event(&event_id, &[&format!("F{n}")]);
        // Slack's deliveries of one event reach either bot, in any order.
        for delivery in 0..4 {
            if (n + delivery) % 2 == 0 {
                assert_eq!(world.deliver(&ours, &event).await, 200);
            } else if earlier.check_and_mark_processed(&event_id).await {
                handled_by_it += 1;
            }
        }
    }
    assert_eq!((handled_by_it, world.queue.accepted()), (5, 5), "whoever was first, and nobody else");
}

/// Why the proxy of docs/taking-over.md sends every retry to ours: the earlier bot would skip what ours could not hand over.
#[tokio::test]
async fn side_by_side_an_event_that_ours_could_not_hand_over_is_handled_if_its_retry_comes_to_ours() {
    let world = World::new().await;
    let (earlier, ours) = (EarlierBot(&world), world.slack_events());
    let (refused, handled) = (world.event("Ev1", &["F1"]), world.event("Ev2", &["F2"]));
    world.queue.trouble([Refused("TooManyRequestsException".into())]);
    assert_eq!(world.deliver(&ours, &refused).await, 500);
    assert!(earlier.check_and_mark_processed("Ev2").await);
    for retry in [&refused, &handled] {
        assert_eq!(world.deliver(&ours, retry).await, 200);
    }
    assert_eq!(world.queue.accepted(), 1, "and what the earlier bot has handled is done");
}

#[tokio::test]
async fn after_going_back_the_earlier_bot_leaves_alone_what_ours_has_handled() {
    let world = World::new().await;
    let earlier = EarlierBot(&world);
    assert_eq!(world.deliver(&world.slack_events(), &world.event("Ev1", &["F1"])).await, 200);
    assert!(!earlier.check_and_mark_processed("Ev1").await);
    assert!(earlier.check_and_mark_processed("Ev2").await, "the next event is its own");
}

/// The limit of going back, as docs/taking-over.md says it: the earlier bot takes every item for "handled".
#[tokio::test]
async fn after_going_back_the_earlier_bot_skips_an_event_that_ours_could_not_hand_over() {
    let world = World::new().await;
    world.queue.trouble([Refused("TooManyRequestsException".into())]);
    assert_eq!(world.deliver(&world.slack_events(), &world.event("Ev1", &["F1"])).await, 500);
    assert!(!EarlierBot(&world).check_and_mark_processed("Ev1").await);
    assert_eq!(world.records()["Ev1"]["ichido_state"], json!({"S": "released"}), "which `keys list` shows");
}

#[tokio::test]
async fn an_earlier_bots_item_is_remembered_during_an_outage_of_the_table() {
    let world = World::new().await;
    let (events, event) = (world.slack_events(), world.event("Ev1", &["F1"]));
    assert!(EarlierBot(&world).check_and_mark_processed("Ev1").await);
    assert_eq!(world.deliver(&events, &event).await, 200);
    world.dynamo.faults().down();
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.deliver(&events, &event).await, 200);
    assert_eq!((world.queue.accepted(), world.admissions.total()), (0, 0));
}
