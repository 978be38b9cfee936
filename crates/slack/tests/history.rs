//! What happened to events stays answerable after their records are gone: by hour and channel, duplicates by cause.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{EVENTS_TIMEOUT, Trouble, World, upload};
use ichido::Clock;
use serde_json::{Value, json};
use slack::outside::hand_over::Error::Refused;
use slack::table::RETENTION;
use slack::table::history::{self, Hour, KEPT_FOR, Tally, What};

/// All counters that are not zero, of all hours and channels.
async fn counted(world: &World) -> BTreeMap<&'static str, u64> {
    let entries = history::read(&world.dynamo.client(), world.table(), Hour(0)).await.expect("the history");
    let mut all = BTreeMap::new();
    for (what, n) in entries.iter().flat_map(|entry| What::ALL.map(|what| (what, entry.tally.get(what)))) {
        if n > 0 {
            *all.entry(what.name()).or_default() += n;
        }
    }
    all
}

fn counters<const N: usize>(list: [(&'static str, u64); N]) -> BTreeMap<&'static str, u64> {
    list.into()
}

async fn drain(world: &World) {
    while let Some(upload) = world.queue.first() {
        world.invoke(&world.slack_files(), &upload).await.expect("done");
        world.queue.done();
    }
}

/// Slack's own retry.
async fn retry(world: &World, event: &Value) {
    let mut request = world.signed(event);
    request.headers.insert("x-slack-retry-num".into(), "1".into());
    let invocation = world.invocation("r", EVENTS_TIMEOUT);
    world.slack_events().answer(&request, &invocation).await.expect("an answer");
}

#[tokio::test]
async fn duplicates_are_counted_by_their_causes_and_outlive_the_records() {
    let world = World::new().await;
    let event = world.event("Ev1", &["F1", "F2"]);
    let mut other_envelope = event.clone();
    other_envelope["event_id"] = "Ev2".into();
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    retry(&world, &event).await;
    assert_eq!(world.deliver(&world.slack_events(), &other_envelope).await, 200);
    drain(&world).await;
    let earlier = json!({"event_key": {"S": "Ev0"}, "processed_at": {"N": "1"}, "ttl": {"N": "99999999999"}});
    world.dynamo.must("PutItem", &json!({ "TableName": world.table(), "Item": earlier }));
    assert_eq!(world.deliver(&world.slack_events(), &world.event("Ev0", &["F0"])).await, 200);
    let all = counters([("handled", 2), ("atOnce", 1), ("slackRetry", 1), ("anotherEnvelope", 2), ("earlierBot", 1)]);
    assert_eq!(counted(&world).await, all);
    // Six hours later the records are gone, and 89 days later the history is still there.
    world.clock.advance(RETENTION + Duration::from_secs(60));
    world.dynamo.sweep(world.clock.now());
    assert_eq!(world.records().len(), 1, "the one that never expires");
    assert_eq!(counted(&world).await, all);
    world.clock.advance(KEPT_FOR - RETENTION - Duration::from_secs(7_200));
    world.dynamo.sweep(world.clock.now());
    assert_eq!(counted(&world).await, all);
    world.clock.advance(Duration::from_secs(7_200));
    world.dynamo.sweep(world.clock.now());
    assert_eq!(counted(&world).await, BTreeMap::new());
}

#[tokio::test]
async fn hours_and_channels_are_counted_apart() {
    let world = World::new().await;
    for n in 0..3 {
        let mut event = world.event(&format!("Ev{n}"), &[&format!("F{n}")]);
        event["event"]["channel"] = if n == 2 { "C0RANDOM" } else { "C0GENERAL" }.into();
        assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
        drain(&world).await;
        world.clock.advance(Duration::from_secs(3_600));
    }
    let entries = history::read(&world.dynamo.client(), world.table(), Hour(0)).await.expect("the history");
    let places: Vec<(u64, &str)> = entries.iter().map(|entry| (entry.hour.0, entry.channel.as_str())).collect();
    let first = places[0].0;
    assert_eq!(places, [(first, "C0GENERAL"), (first + 1, "C0GENERAL"), (first + 2, "C0RANDOM")]);
}

#[tokio::test]
async fn what_failed_was_refused_or_was_found_is_counted() {
    let world = World::new().await;
    let event = world.event("Ev1", &["F1"]);
    world.queue.trouble([Refused("TooManyRequestsException".into())]);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 500);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    world.slack.trouble_posts([Trouble::Lose]);
    world.invoke(&world.slack_files(), &upload(&event)).await.expect_err("no answer");
    drain(&world).await;
    assert_eq!(counted(&world).await, counters([("refused", 1), ("failedAttempts", 1), ("found", 1)]));
}

#[tokio::test]
async fn what_happened_while_the_table_could_not_be_reached_is_counted_afterwards() {
    let world = World::new().await;
    let (events, files, event) = (world.slack_events(), world.slack_files(), world.event("Ev1", &["F1"]));
    world.dynamo.faults().down();
    for _ in 0..3 {
        assert_eq!(world.deliver(&events, &event).await, 200);
    }
    for _ in 0..2 {
        world.invoke(&files, &upload(&event)).await.expect("done");
    }
    assert_eq!(world.slack.replies().get("F1"), Some(&1));
    world.dynamo.faults().heal();
    world.clock.advance(Duration::from_secs(120));
    assert_eq!(world.deliver(&events, &event).await, 200);
    world.invoke(&files, &upload(&world.event("Ev2", &["F2"]))).await.expect("done");
    let counted = counted(&world).await;
    assert_eq!(
        (counted.get("handled"), counted.get("afterOutage").copied() >= Some(3)),
        (Some(&2), true),
        "{counted:?}"
    );
}

#[tokio::test]
async fn after_an_outage_lambdas_own_retry_is_no_duplicate_and_another_envelope_is_one() {
    let world = World::new().await;
    let (files, event) = (world.slack_files(), world.event("Ev1", &["F1"]));
    let mut other_envelope = event.clone();
    other_envelope["event_id"] = "Ev2".into();
    world.dynamo.faults().down();
    for _ in 0..3 {
        world.invoke(&files, &upload(&event)).await.expect("done");
    }
    world.dynamo.faults().heal();
    world.clock.advance(Duration::from_secs(120));
    world.invoke(&files, &upload(&event)).await.expect("done");
    world.invoke(&files, &upload(&world.event("Ev3", &["F3"]))).await.expect("done");
    assert_eq!(counted(&world).await, counters([("handled", 2)]));
    world.dynamo.faults().down();
    world.invoke(&files, &upload(&other_envelope)).await.expect("done");
    world.dynamo.faults().heal();
    world.clock.advance(Duration::from_secs(120));
    world.invoke(&files, &upload(&world.event("Ev4", &["F4"]))).await.expect("done");
    assert_eq!(counted(&world).await, counters([("handled", 3), ("afterOutage", 1)]));
}

#[tokio::test]
async fn a_table_that_cannot_be_read_is_told_in_one_short_line() {
    let world = World::new().await;
    let error = history::read(&world.dynamo.client(), "nope", Hour(0)).await.expect_err("there is no such table");
    let said = telemetry::causes(&error);
    assert!(said.starts_with("the store cannot be used as it is configured; check the table"), "{said}");
    assert!(said.len() < 300 && !said.contains(['\n', '{']), "{said}");
}

#[tokio::test]
async fn only_a_table_with_the_key_of_processed_events_can_have_a_history() {
    use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
    let world = World::new().await;
    let client = world.dynamo.client();
    let with_key = |table: &'static str, names: &'static [(&str, KeyType)]| {
        let mut create = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
        for (name, kind) in names {
            let key = KeySchemaElement::builder().attribute_name(*name).key_type(kind.clone()).build();
            let attribute = AttributeDefinition::builder().attribute_name(*name);
            let attribute = attribute.attribute_type(ScalarAttributeType::S).build();
            create = create.key_schema(key.expect("a key")).attribute_definitions(attribute.expect("an attribute"));
        }
        create.send()
    };
    with_key("other", &[("id", KeyType::Hash)]).await.expect("a table");
    with_key("sorted", &[("event_key", KeyType::Hash), ("at", KeyType::Range)]).await.expect("a table");
    for (table, kept) in [(world.table(), true), ("other", false), ("sorted", false)] {
        assert_eq!(history::is_kept_in(&client, table).await.expect("an answer"), kept, "{table}");
    }
    history::is_kept_in(&client, "nope").await.expect_err("there is no such table");
}

#[tokio::test]
async fn an_instance_that_counts_without_end_writes_once_per_second() {
    let world = World::new().await;
    let (events, event) = (world.slack_events(), world.event("Ev1", &["F1"]));
    assert_eq!(world.deliver(&events, &event).await, 200);
    for _ in 0..150 {
        assert_eq!(world.deliver(&events, &event).await, 200);
    }
    world.dynamo.reset_calls();
    for _ in 0..50 {
        assert_eq!(world.deliver(&events, &event).await, 200);
    }
    let calls = world.dynamo.calls().total();
    assert!((50..55).contains(&calls), "{calls} calls for 50 duplicates");
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(world.deliver(&events, &event).await, 200);
    assert_eq!(counted(&world).await, counters([("atOnce", 201)]), "none is lost");
}

#[tokio::test]
async fn a_count_that_the_table_refuses_holds_up_no_other_one() {
    let world = World::new().await;
    let history =
        history::History::new(&world.dynamo.client(), world.table(), std::sync::Arc::new(world.clock.clone()));
    // More than a key of DynamoDB may have.
    let longest = "C".repeat(3_000);
    history.count(&longest, &Tally::of(What::Handled)).await;
    for n in 0..5 {
        world.clock.advance(Duration::from_secs(3_600));
        history.count(&format!("C{n}"), &Tally::of(What::Handled)).await;
        assert_eq!(counted(&world).await, counters([("handled", n + 1)]), "hour {n}");
    }
}

#[tokio::test]
async fn what_was_to_be_written_with_a_count_that_failed_is_written_later() {
    use testkit::faults::{Fault, Rule};
    let world = World::new().await;
    let history =
        history::History::new(&world.dynamo.client(), world.table(), std::sync::Arc::new(world.clock.clone()));
    world.dynamo.faults().put(Rule::new(Fault::Hang));
    for n in 0..3 {
        history.count(&format!("C{n}"), &Tally::of(What::Handled)).await;
    }
    world.clock.advance(Duration::from_secs(60));
    // Three are due, and all fail.
    history.count("C0", &Tally::of(What::Handled)).await;
    world.dynamo.faults().heal();
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(60));
        history.count("C9", &Tally::of(What::Handled)).await;
    }
    assert_eq!(counted(&world).await, counters([("handled", 7)]));
}

#[tokio::test]
async fn several_slow_writes_delay_an_event_no_longer_than_one() {
    use testkit::faults::{Fault, Rule};
    const SLOW: Duration = Duration::from_millis(200);
    let world = World::new().await;
    let history =
        history::History::new(&world.dynamo.client(), world.table(), std::sync::Arc::new(world.clock.clone()));
    world.dynamo.faults().put(Rule::new(Fault::Hang));
    for n in 0..3 {
        history.count(&format!("C{n}"), &Tally::of(What::Handled)).await;
    }
    world.dynamo.faults().heal();
    world.dynamo.faults().put(Rule::new(Fault::Slow(SLOW)));
    world.clock.advance(Duration::from_secs(60));
    let begun = world.clock.now();
    history.count("C0", &Tally::of(What::Handled)).await;
    assert_eq!(world.clock.now().since(begun), SLOW, "three writes");
    world.dynamo.faults().heal();
    assert_eq!(counted(&world).await, counters([("handled", 4)]));
}

#[tokio::test]
async fn a_history_that_cannot_be_written_fails_no_event() {
    use testkit::faults::{Fault, Rule};
    let world = World::new().await;
    let event = world.event("Ev1", &["F1"]);
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    // The second call of a duplicate is the one that counts it.
    world.dynamo.faults().put(Rule::new(Fault::Hang).calls(2..=2));
    let begun = world.clock.now();
    assert_eq!(world.deliver(&world.slack_events(), &event).await, 200);
    assert!(world.clock.now().since(begun) < Duration::from_millis(400));
}
