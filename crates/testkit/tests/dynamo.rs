//! The embedded DynamoDB behind the real SDK, with its faults.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::{PutItemError, PutItemOutput};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use ichido::Clock as _;
use serde_json::json;
use testkit::faults::{Fault, Lag, Rule};
use testkit::{Dynamo, Outside, interrupt};

const TABLE: &str = "events";

fn dynamo() -> Dynamo {
    let mut dynamo = Dynamo::empty();
    dynamo.simple_table(TABLE, "id", None, "ttl");
    dynamo
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

async fn put_once(client: &Client, id: &str) -> Result<PutItemOutput, SdkError<PutItemError>> {
    let put = client.put_item().table_name(TABLE).item("id", s(id));
    put.condition_expression("attribute_not_exists(id)").send().await
}

fn failed_condition<T>(result: Result<T, SdkError<PutItemError>>) -> bool {
    result.is_err_and(|error| error.as_service_error().is_some_and(|e| e.is_conditional_check_failed_exception()))
}

#[tokio::test]
async fn conditions_hold_and_calls_are_counted_by_operation() {
    let db = dynamo();
    let client = db.client();
    put_once(&client, "a").await.unwrap();
    assert!(failed_condition(put_once(&client, "a").await));
    client.get_item().table_name(TABLE).key("id", s("a")).send().await.unwrap();
    let calls = db.reset_calls();
    assert_eq!((calls.of("PutItem"), calls.of("GetItem"), calls.total()), (2, 1, 3));
    assert_eq!(db.calls().total(), 0);
    assert_eq!(db.items(TABLE), [json!({"id": {"S": "a"}})]);
}

#[tokio::test]
async fn the_tables_are_those_of_the_templates() {
    let db = Dynamo::start(&["infra/templates/slack.yaml"]).await;
    let name = db.table("ProcessedEventsTable");
    let table = db.client().describe_table().table_name(name).send().await.unwrap().table.unwrap();
    assert_eq!(table.key_schema()[0].attribute_name(), "event_key");
}

#[tokio::test]
async fn each_database_is_its_own() {
    let (one, other) = (dynamo(), dynamo());
    put_once(&one.client(), "a").await.unwrap();
    assert!(other.items(TABLE).is_empty());
}

#[tokio::test]
async fn down_performs_nothing_and_is_retried_by_the_sdk_in_virtual_time() {
    let db = dynamo();
    let before = db.clock().now_ms();
    db.faults().down();
    let error = put_once(&db.client(), "a").await.unwrap_err();
    assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
    assert_eq!(db.calls().of("PutItem"), 3, "the SDK's three attempts");
    assert!(db.items(TABLE).is_empty());
    assert!(db.clock().now_ms() > before, "it backed off in the manual clock's time");
    db.faults().heal();
    put_once(&db.client(), "a").await.unwrap();
}

#[tokio::test]
async fn a_lost_answer_leaves_the_write_behind_and_the_retry_sees_it() {
    let db = dynamo();
    db.faults().put(Rule::new(Fault::LoseAnswer).on("PutItem").call(1));
    assert!(failed_condition(put_once(&db.client(), "a").await), "the retry met the first attempt's item");
    assert_eq!(db.items(TABLE).len(), 1);
}

#[tokio::test]
async fn throttling_and_errors_are_what_the_sdk_takes_for_transient() {
    for fault in [Fault::Throttle, Fault::Error] {
        let db = dynamo();
        db.faults().put(Rule::new(fault).calls(1..=2));
        put_once(&db.client(), "a").await.unwrap();
        assert_eq!(db.calls().of("PutItem"), 3, "{fault:?}");
    }
}

#[tokio::test]
async fn denied_and_missing_are_not_retried() {
    for fault in [Fault::Denied, Fault::Missing] {
        let db = dynamo();
        db.faults().only(Rule::new(fault));
        put_once(&db.client(), "a").await.unwrap_err();
        assert_eq!(db.calls().total(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_call_that_hangs_ends_with_the_clients_timeout() {
    let db = dynamo();
    db.faults().only(Rule::new(Fault::Hang));
    let client = db.client_with(|config| {
        let timeouts = aws_sdk_dynamodb::config::timeout::TimeoutConfig::builder();
        config.timeout_config(timeouts.operation_timeout(Duration::from_secs(2)).build())
    });
    let before = db.clock().now_ms();
    let error = put_once(&client, "a").await.unwrap_err();
    assert!(matches!(error, SdkError::TimeoutError(_)), "{error:?}");
    assert_eq!(db.clock().now_ms() - before, 2000);
    assert!(db.items(TABLE).is_empty());
}

#[tokio::test]
async fn slow_and_late_pass_in_virtual_time() {
    for fault in [Fault::Slow(Duration::from_secs(30)), Fault::Late(Duration::from_secs(30))] {
        let db = dynamo();
        db.faults().only(Rule::new(fault));
        let before = db.clock().now_ms();
        put_once(&db.client(), "a").await.unwrap();
        assert_eq!(db.clock().now_ms() - before, 30_000);
    }
}

#[tokio::test]
async fn a_conflict_cancels_transactions_refuses_writes_and_lets_reads_through() {
    let db = dynamo();
    let client = db.client_without_retries();
    db.faults().conflict();
    let error = put_once(&client, "a").await.unwrap_err();
    assert!(matches!(error.as_service_error(), Some(PutItemError::TransactionConflictException(_))), "{error:?}");

    let put = |id: &str| {
        let put = Put::builder().table_name(TABLE).item("id", s(id)).build().unwrap();
        TransactWriteItem::builder().put(put).build()
    };
    let error =
        client.transact_write_items().transact_items(put("a")).transact_items(put("b")).send().await.unwrap_err();
    let error = error.into_service_error();
    let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
        cancelled,
    ) = error
    else {
        panic!("{error:?}")
    };
    let codes: Vec<_> = cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
    assert_eq!(codes, ["TransactionConflict", "None"]);
    client.get_item().table_name(TABLE).key("id", s("a")).send().await.unwrap();
    assert!(db.items(TABLE).is_empty());
}

#[tokio::test]
async fn a_rate_strikes_the_same_calls_for_the_same_seed() {
    let struck = async |seed| {
        let db = dynamo();
        db.faults().seed(seed);
        db.faults().only(Rule::new(Fault::Error).rate(0.5));
        let client = db.client_without_retries();
        let mut struck = Vec::new();
        for n in 0..32 {
            struck.push(put_once(&client, &n.to_string()).await.is_err());
        }
        struck
    };
    let first = struck(7).await;
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!(first, struck(7).await);
    assert_ne!(first, struck(8).await);
}

fn indexed() -> Dynamo {
    let mut db = Dynamo::empty();
    let create = json!({
        "TableName": "nodes",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "group", "AttributeType": "S"},
        ],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "GlobalSecondaryIndexes": [{
            "IndexName": "by-group",
            "KeySchema": [{"AttributeName": "group", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }],
    });
    db.create_table(create, None);
    db
}

async fn move_to(client: &Client, id: &str, group: &str) {
    client.put_item().table_name("nodes").item("id", s(id)).item("group", s(group)).send().await.unwrap();
}

async fn members(client: &Client, group: &str) -> usize {
    let query = client.query().table_name("nodes").index_name("by-group");
    let query = query.key_condition_expression("#g = :g").expression_attribute_names("#g", "group");
    query.expression_attribute_values(":g", s(group)).send().await.unwrap().items().len()
}

#[tokio::test]
async fn a_lagging_index_shows_the_table_as_it_was() {
    let db = indexed();
    let client = db.client();
    move_to(&client, "n1", "red").await;
    db.faults().lag_indexes(Some(Lag::Time(Duration::from_secs(3))));
    move_to(&client, "n1", "blue").await;
    assert_eq!((members(&client, "red").await, members(&client, "blue").await), (1, 0), "not yet moved");
    let item = client.get_item().table_name("nodes").key("id", s("n1")).send().await.unwrap().item.unwrap();
    assert_eq!(item["group"], s("blue"), "the table itself does not lag");
    db.clock().advance(Duration::from_secs(3));
    assert_eq!((members(&client, "red").await, members(&client, "blue").await), (0, 1));
}

#[tokio::test]
async fn an_index_can_lag_by_a_number_of_calls_and_is_healed() {
    let db = indexed();
    let client = db.client();
    db.faults().lag_indexes(Some(Lag::Calls(2)));
    move_to(&client, "n1", "red").await;
    assert_eq!(members(&client, "red").await, 0);
    assert_eq!(members(&client, "red").await, 0);
    assert_eq!(members(&client, "red").await, 1);
    move_to(&client, "n2", "red").await;
    assert_eq!(members(&client, "red").await, 1);
    db.faults().heal();
    assert_eq!(members(&client, "red").await, 2);
}

#[tokio::test]
async fn a_sweep_deletes_what_is_expired_and_nothing_else() {
    let db = dynamo();
    let client = db.client();
    let now = db.clock().now();
    for (id, ttl) in [("old", now.as_secs() - 1), ("new", now.as_secs() + 1)] {
        let put = client.put_item().table_name(TABLE).item("id", s(id));
        put.item("ttl", AttributeValue::N(ttl.to_string())).send().await.unwrap();
    }
    assert_eq!(db.items(TABLE).len(), 2, "nothing is deleted by itself");
    assert_eq!(db.sweep(now), 1);
    assert_eq!(db.items(TABLE).len(), 1);
}

#[tokio::test]
async fn a_run_can_be_stopped_at_each_call_to_the_database() {
    struct World {
        db: Dynamo,
    }
    let report = interrupt::at_every_call(
        async |outside: Outside| World { db: dynamo().with_outside(outside) },
        async |world| {
            let client = world.db.client();
            for id in ["a", "b"] {
                let put = put_once(&client, id).await;
                if put.is_err() && !failed_condition(put) {
                    return Err("refused");
                }
            }
            Ok(())
        },
        async |_| {},
        async |world| assert_eq!(world.db.items(TABLE).len(), 2),
    )
    .await;
    assert_eq!((report.stops, report.cuts, report.runs), (4, 4, 13));
}
