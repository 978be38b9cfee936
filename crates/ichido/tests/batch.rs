//! Batches: which records Lambda is told to deliver again, and that no delivery loses or doubles an effect.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::lambda::batch::{
    Batch, BatchResponse, DEFAULT_CONCURRENCY, DynamoDbEvent, Event, KinesisEvent, Record, SqsEvent, SqsMessage,
};
use ichido::lambda::{Named, RESPONSE_MARGIN};
use ichido::{Claim, Clock as _, DigestKey, Failure, MAX_CLOCK_SKEW, OnDoubt, Once, Probed};
use lambda_runtime::{Context, LambdaEvent};
use serde_json::{Value, json};
use support::{LEASE, TABLE, abandon, closed, dynamo, instance};
use testkit::faults::{Fault, Rule};
use testkit::{Dynamo, Outside, interrupt};

const STANDARD: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";
const FIFO: &str = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";

/// A message as Lambda delivers it. Its body is the order.
fn message(id: &str, order: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a...",
        "body": order,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1545082649183",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1545082649185"
        },
        "messageAttributes": {},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": STANDARD,
        "awsRegion": "eu-central-1"
    })
}

fn fifo(id: &str, group: &str) -> Value {
    let mut message = message(id, id);
    message["eventSourceARN"] = FIFO.into();
    message["attributes"]["MessageGroupId"] = group.into();
    message["attributes"]["SequenceNumber"] = "18850496460449522689".into();
    message
}

/// A Kinesis record whose data is `order`.
fn kinesis(sequence: &str, partition: &str, order: &str) -> Value {
    use base64::Engine as _;
    json!({
        "kinesis": {
            "kinesisSchemaVersion": "1.0",
            "partitionKey": partition,
            "sequenceNumber": sequence,
            "data": base64::prelude::BASE64_STANDARD.encode(order),
            "approximateArrivalTimestamp": 1_545_084_650.987
        },
        "eventSource": "aws:kinesis",
        "eventVersion": "1.0",
        "eventID": format!("shardId-000000000006:{sequence}"),
        "eventName": "aws:kinesis:record",
        "invokeIdentityArn": "arn:aws:iam::123456789012:role/lambda-role",
        "awsRegion": "eu-central-1",
        "eventSourceARN": "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
    })
}

/// A DynamoDB record: the item `item` was changed.
fn change(sequence: &str, item: &str) -> Value {
    json!({
        "eventID": format!("c4ca4238a0b923820dcc509a6f75{sequence}"),
        "eventName": "MODIFY",
        "eventVersion": "1.0",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-central-1",
        "dynamodb": {
            "Keys": {"Id": {"S": item}},
            "NewImage": {"Id": {"S": item}, "Amount": {"N": "100"}},
            "SequenceNumber": sequence,
            "SizeBytes": 26,
            "StreamViewType": "NEW_AND_OLD_IMAGES"
        },
        "eventSourceARN": "arn:aws:dynamodb:eu-central-1:123456789012:table/orders/stream/2026-01-01T00:00:00.000"
    })
}

/// An invocation with these records, whose deadline is [`LEASE`] from now.
fn deliver<R>(db: &Dynamo, records: impl IntoIterator<Item = Value>) -> LambdaEvent<Event<R>>
where
    Event<R>: serde::de::DeserializeOwned,
{
    let mut context = Context::default();
    context.deadline = (db.clock().now() + LEASE).as_millis();
    let records: Vec<Value> = records.into_iter().collect();
    LambdaEvent::new(serde_json::from_value(json!({"Records": records})).unwrap(), context)
}

/// The destination. It notes each charge, and fails as it is told.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    charges: Vec<String>,
    fails: BTreeMap<String, fn(String) -> Failure<String>>,
    at_work: usize,
    most_at_work: usize,
}

impl Bank {
    fn failing(order: &str, how: fn(String) -> Failure<String>) -> Self {
        let bank = Self::default();
        bank.fails(order, how);
        bank
    }

    fn fails(&self, order: &str, how: fn(String) -> Failure<String>) {
        self.0.lock().unwrap().fails.insert(order.to_owned(), how);
    }

    fn recovers(&self) {
        self.0.lock().unwrap().fails.clear();
    }

    fn charges(&self) -> Vec<String> {
        self.0.lock().unwrap().charges.clone()
    }

    fn sorted_charges(&self) -> Vec<String> {
        let mut charges = self.charges();
        charges.sort();
        charges
    }

    /// Fails before it charges, or charges.
    async fn charge(&self, order: &str) -> Result<u64, Failure<String>> {
        {
            let mut books = self.0.lock().unwrap();
            books.at_work += 1;
            books.most_at_work = books.most_at_work.max(books.at_work);
        }
        tokio::task::yield_now().await;
        let mut books = self.0.lock().unwrap();
        books.at_work -= 1;
        if let Some(fails) = books.fails.get(order) {
            return Err(fails(format!("order {order} cannot be charged")));
        }
        books.charges.push(order.to_owned());
        Ok(100)
    }
}

fn by_body(message: &SqsMessage) -> Result<Named, String> {
    match message.body.as_str() {
        "" => Err("the message has no order".to_owned()),
        order => Ok(closed(order).into()),
    }
}

/// What the handler under test does with an SQS event. It returns the response and what was observed.
async fn handle(once: &Once, event: &LambdaEvent<SqsEvent>, bank: &Bank) -> (BatchResponse, Vec<String>) {
    let seen = Mutex::new(Vec::new());
    let response = Batch::new(once, event, by_body)
        .on_doubt(OnDoubt::Refuse)
        .observe(|message, ended| seen.lock().unwrap().push(format!("{} {ended}", message.message_id)))
        .work(|message, _claim| bank.charge(&message.body))
        .await;
    (response, seen.into_inner().unwrap())
}

fn failed(response: &BatchResponse) -> Vec<&str> {
    response.identifiers().collect()
}

#[tokio::test]
async fn each_message_is_done_once_and_a_full_success_is_an_empty_list() {
    let (db, bank) = (dynamo(), Bank::default());
    let once = instance(&db);
    let event = deliver(&db, (0..25).map(|n| message(&format!("m{n}"), &format!("order-{n:02}"))));
    let expected: Vec<String> = (0..25).map(|n| format!("order-{n:02}")).collect();
    for how in ["done", "done before"] {
        let (response, seen) = handle(&once, &event, &bank).await;
        assert_eq!(serde_json::to_string(&response).unwrap(), r#"{"batchItemFailures":[]}"#);
        assert_eq!(seen.len(), 25);
        assert!(seen.iter().all(|line| line.ends_with(&format!(" {how}"))), "{seen:?}");
        assert_eq!(bank.sorted_charges(), expected);
    }
    assert_eq!(bank.0.lock().unwrap().most_at_work, DEFAULT_CONCURRENCY);
}

#[tokio::test]
async fn an_empty_batch_is_done() {
    let (db, bank) = (dynamo(), Bank::default());
    let (response, seen) = handle(&instance(&db), &deliver(&db, []), &bank).await;
    assert_eq!((response, seen.len()), (BatchResponse::default(), 0));
}

#[tokio::test]
async fn a_failed_message_is_named_as_aws_wants_it_and_its_redelivery_does_only_the_rest() {
    let (db, bank) = (dynamo(), Bank::failing("order-2", Failure::Retry));
    let once = instance(&db);
    let batch = || [message("m1", "order-1"), message("m2", "order-2"), message("m3", "order-3")];
    let (response, seen) = handle(&once, &deliver(&db, batch()), &bank).await;
    assert_eq!(serde_json::to_value(&response).unwrap(), json!({"batchItemFailures": [{"itemIdentifier": "m2"}]}));
    assert!(seen.contains(&"m2 failed and will come again: order order-2 cannot be charged".to_owned()), "{seen:?}");

    bank.recovers();
    let mut again = message("m2", "order-2");
    again["attributes"]["ApproximateReceiveCount"] = "2".into();
    let again: LambdaEvent<SqsEvent> = deliver(&db, [again]);
    assert_eq!(again.payload.records[0].receive_count(), Some(2));
    assert_eq!(failed(&handle(&once, &again, &bank).await.0), [""; 0]);
    // The answer to the response was lost, so SQS delivers all of them once more.
    assert_eq!(failed(&handle(&instance(&db), &deliver(&db, batch()), &bank).await.0), [""; 0]);
    assert_eq!(bank.sorted_charges(), ["order-1", "order-2", "order-3"]);
}

#[tokio::test]
async fn duplicates_within_one_batch_get_the_outcome_of_the_first() {
    let (db, bank) = (dynamo(), Bank::default());
    let event = deliver(&db, [message("m1", "order-1"), message("m2", "order-1"), message("m1", "order-1")]);
    let (response, seen) = handle(&instance(&db), &event, &bank).await;
    assert_eq!(failed(&response), [""; 0], "none of them was in flight for the other");
    assert_eq!(seen, ["m1 done", "m2 done before", "m1 done before"]);
    assert_eq!(bank.charges(), ["order-1"]);
}

#[tokio::test]
async fn a_duplicate_of_a_message_that_failed_in_the_same_batch_is_not_tried_again_at_once() {
    let (db, bank) = (dynamo(), Bank::failing("order-1", Failure::Uncertain));
    let batch = [("m1", "order-1"), ("m1", "order-1"), ("m2", "order-1"), ("m3", "order-3")];
    let event = deliver(&db, batch.map(|(id, order)| message(id, order)));
    let (response, seen) = handle(&instance(&db), &event, &bank).await;
    assert_eq!(failed(&response), ["m1", "m2"], "each message is named once");
    assert_eq!(seen.last().unwrap(), "m2 not begun, because a record before it failed; it will come again");
}

#[tokio::test]
async fn poison_is_recorded_and_never_reported() {
    let (db, bank) = (dynamo(), Bank::failing("order-2", Failure::Permanent));
    let once = instance(&db);
    let event = deliver(&db, [message("m1", "order-1"), message("m2", "order-2"), message("m3", "order-2")]);
    for _ in 0..2 {
        let (response, seen) = handle(&once, &event, &bank).await;
        assert_eq!(failed(&response), [""; 0]);
        for poison in ["m2", "m3"] {
            let line = format!("{poison} failed permanently, and that is recorded: order order-2 cannot be charged");
            assert!(seen.contains(&line), "{seen:?}");
        }
    }
    assert_eq!(once.look(&closed("order-2")).await.unwrap().unwrap().state.name(), "failed");
    assert_eq!(bank.charges(), ["order-1"]);
}

#[tokio::test]
async fn poison_that_could_not_be_recorded_comes_again() {
    let (db, bank) = (dynamo(), Bank::failing("order-1", Failure::Permanent));
    // The claim is written; the failure is not.
    db.faults().only(Rule::new(Fault::Down).call(2));
    let (response, _) = handle(&instance(&db), &deliver(&db, [message("m1", "order-1")]), &bank).await;
    assert_eq!(failed(&response), ["m1"]);
}

#[tokio::test]
async fn a_message_without_a_key_is_a_failed_one_and_leaves_no_record() {
    let (db, bank) = (dynamo(), Bank::default());
    let event = deliver(&db, [message("m1", ""), message("m2", "order-2"), message("m3", "")]);
    let (response, seen) = handle(&instance(&db), &event, &bank).await;
    assert_eq!(failed(&response), ["m1", "m3"]);
    assert!(seen.contains(&"m1 failed and will come again: the message has no order".to_owned()), "{seen:?}");
    assert_eq!((bank.charges(), db.items(TABLE).len()), (vec!["order-2".to_owned()], 1));
}

#[tokio::test]
async fn a_message_without_an_identifier_that_fails_fails_the_whole_batch() {
    let (db, bank) = (dynamo(), Bank::failing("order-2", Failure::Retry));
    let mut nameless = message("", "order-2");
    nameless.as_object_mut().unwrap().remove("messageId");
    let event = deliver(&db, [message("m1", "order-1"), nameless]);
    let (response, _) = handle(&instance(&db), &event, &bank).await;
    assert_eq!(serde_json::to_value(&response).unwrap(), json!({"batchItemFailures": [{"itemIdentifier": ""}]}));
}

#[tokio::test]
async fn a_message_that_is_doubtful_or_in_flight_elsewhere_comes_again() {
    let (db, bank) = (dynamo(), Bank::failing("order-1", Failure::Uncertain));
    let once = instance(&db);
    let batch = || deliver(&db, [message("m1", "order-1"), message("m2", "order-2"), message("m3", "order-3")]);
    abandon(&once, &closed("order-2")).await;
    assert_eq!(failed(&handle(&once, &batch(), &bank).await.0), ["m1", "m2"]);
    bank.recovers();
    let (response, seen) = handle(&once, &batch(), &bank).await;
    assert_eq!(failed(&response), ["m1", "m2"]);
    assert!(seen.iter().any(|line| line.starts_with("m1") && line.contains("may have had its effect")), "{seen:?}");
    assert!(
        seen.iter().any(|line| line.starts_with("m2") && line.contains("another call is working on it")),
        "{seen:?}"
    );
    assert_eq!(bank.charges(), ["order-3"]);
}

#[tokio::test]
async fn a_message_in_flight_elsewhere_is_waited_for_if_the_batch_says_so() {
    let (db, bank) = (dynamo(), Bank::default());
    let (here, there) = (instance(&db), instance(&db));
    let event = deliver(&db, [message("m1", "order-1")]);
    let (key, clock) = (closed("order-1"), db.clock().clone());
    let elsewhere = there.run(&key).on_doubt(OnDoubt::Refuse).work(|_| async {
        clock.wait(Duration::from_secs(2)).await;
        bank.charge("order-1").await
    });
    let waiting = Batch::new(&here, &event, by_body)
        .on_doubt(OnDoubt::Refuse)
        .wait(Duration::from_secs(10))
        .work(|message, _| bank.charge(&message.body));
    let (elsewhere, response) = tokio::join!(elsewhere, waiting);
    assert!(elsewhere.is_ok());
    assert_eq!((failed(&response), bank.charges()), (vec![], vec!["order-1".to_owned()]));
}

#[tokio::test]
async fn a_key_that_was_used_with_another_payload_is_a_failed_message() {
    let (db, bank) = (dynamo(), Bank::default());
    let once = instance(&db);
    let event = deliver(&db, [message("m1", "100"), message("m2", "200")]);
    let response = Batch::new(&once, &event, |message: &SqsMessage| {
        let digests = DigestKey::new(b"secret").digests().field("amount", &message.body).build();
        Ok::<_, String>(Named::from(closed("order-7")).digests(digests))
    })
    .on_doubt(OnDoubt::Refuse)
    .work(|message, _| bank.charge(&message.body))
    .await;
    assert_eq!((failed(&response), bank.charges()), (vec!["m2"], vec!["100".to_owned()]));
}

#[tokio::test]
async fn a_message_that_is_done_without_a_value_is_done() {
    let (db, bank) = (dynamo(), Bank::default());
    let once = instance(&db);
    assert!(once.mark(&closed("order-1")).await.unwrap().is_new());
    let (response, seen) = handle(&once, &deliver(&db, [message("m1", "order-1")]), &bank).await;
    assert_eq!((failed(&response), seen), (vec![], vec!["m1 done before".to_owned()]));
    assert!(bank.charges().is_empty());
}

#[tokio::test]
async fn after_the_deadline_nothing_is_begun_and_all_comes_again() {
    for late_by in [Duration::ZERO, Duration::from_secs(60)] {
        let (db, bank) = (dynamo(), Bank::default());
        let event = deliver(&db, [message("m1", "order-1"), message("m2", "order-2")]);
        db.clock().advance(LEASE - RESPONSE_MARGIN + late_by);
        let (response, seen) = handle(&instance(&db), &event, &bank).await;
        assert_eq!(failed(&response), ["m1", "m2"]);
        assert!(seen[0].contains("the deadline 2026-01-01T00:00:30.000Z passed"), "{seen:?}");
        assert!(bank.charges().is_empty() && db.items(TABLE).is_empty());
    }
}

#[tokio::test]
async fn a_batch_that_takes_too_long_responds_in_time_with_what_is_left() {
    let (db, bank) = (dynamo(), Bank::default());
    let once = instance(&db);
    let event: LambdaEvent<SqsEvent> = deliver(&db, (0..10).map(|n| message(&format!("m{n}"), &format!("order-{n}"))));
    let response = Batch::new(&once, &event, by_body)
        .on_doubt(OnDoubt::Refuse)
        .concurrency(1)
        .work(|message, _| async {
            db.clock().wait(Duration::from_secs(10)).await;
            bank.charge(&message.body).await
        })
        .await;
    // The third one ends at the deadline.
    assert_eq!(bank.charges(), ["order-0", "order-1", "order-2"]);
    assert_eq!(failed(&response), (3..10).map(|n| format!("m{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_batch_of_ten_thousand_is_done_with_bounded_concurrency() {
    let (db, bank) = (dynamo(), Bank::default());
    let once = Once::builder(testkit::model::Memory::new()).clock(db.clock().clone()).build();
    let event = deliver(&db, (0..10_000).map(|n| message(&format!("m{n}"), &format!("order-{n:05}"))));
    bank.fails("order-05000", Failure::Retry);
    let (response, seen) = handle(&once, &event, &bank).await;
    assert_eq!((failed(&response), seen.len()), (vec!["m5000"], 10_000));
    bank.recovers();
    assert_eq!(failed(&handle(&once, &event, &bank).await.0), [""; 0]);
    let charges = bank.sorted_charges();
    assert!(charges.len() == 10_000 && charges.windows(2).all(|pair| pair[0] < pair[1]), "each exactly once");
    assert_eq!(bank.0.lock().unwrap().most_at_work, DEFAULT_CONCURRENCY);
}

#[tokio::test]
async fn a_fifo_group_stops_at_its_first_failure_and_other_groups_go_on() {
    let (db, bank) = (dynamo(), Bank::failing("a2", Failure::Retry));
    let once = instance(&db);
    let batch = [("a1", "A"), ("b1", "B"), ("a2", "A"), ("b2", "B"), ("a3", "A"), ("c1", "C"), ("a4", "A")];
    let (response, seen) = handle(&once, &deliver(&db, batch.map(|(id, group)| fifo(id, group))), &bank).await;
    assert_eq!(failed(&response), ["a2", "a3", "a4"], "failed and unprocessed messages, in their order");
    assert_eq!(seen.len(), batch.len(), "each one was observed");
    assert_eq!(bank.sorted_charges(), ["a1", "b1", "b2", "c1"]);

    bank.recovers();
    let again = ["a2", "a3", "a4"].map(|id| fifo(id, "A"));
    assert_eq!(failed(&handle(&once, &deliver(&db, again), &bank).await.0), [""; 0]);
    let charges = bank.charges();
    let of_a: Vec<_> = charges.iter().filter(|order| order.starts_with('a')).collect();
    assert_eq!(of_a, ["a1", "a2", "a3", "a4"], "in order");
}

#[tokio::test]
async fn poison_does_not_block_its_fifo_group() {
    let (db, bank) = (dynamo(), Bank::failing("a2", Failure::Permanent));
    let event = deliver(&db, ["a1", "a2", "a3"].map(|id| fifo(id, "A")));
    assert_eq!(failed(&handle(&instance(&db), &event, &bank).await.0), [""; 0]);
    assert_eq!(bank.charges(), ["a1", "a3"]);
}

#[tokio::test]
async fn a_message_group_of_a_standard_queue_is_no_order() {
    let (db, bank) = (dynamo(), Bank::failing("order-1", Failure::Retry));
    let in_group = |id, order| {
        let mut message = message(id, order);
        message["attributes"]["MessageGroupId"] = "tenant-1".into();
        message
    };
    let event = deliver(&db, [in_group("m1", "order-1"), in_group("m2", "order-2")]);
    assert_eq!(failed(&handle(&instance(&db), &event, &bank).await.0), ["m1"]);
    assert_eq!(bank.charges(), ["order-2"]);
}

/// What the handler under test does with a Kinesis event.
async fn consume(once: &Once, event: &LambdaEvent<KinesisEvent>, bank: &Bank, concurrency: usize) -> BatchResponse {
    let namespace = ichido::Namespace::new("stream");
    Batch::new(once, event, |record| record.key(&namespace))
        .on_doubt(OnDoubt::Refuse)
        .concurrency(concurrency)
        .work(|record, _claim| async {
            let order = String::from_utf8(record.bytes().unwrap()).unwrap();
            bank.charge(&order).await
        })
        .await
}

#[tokio::test]
async fn a_stream_reports_the_lowest_failed_record_and_begins_nothing_after_it() {
    let (db, bank) = (dynamo(), Bank::failing("order-3", Failure::Retry));
    bank.fails("order-5", Failure::Retry);
    let once = instance(&db);
    let sequence = |n: u32| format!("4959033827149025660855969253836157109592157598913{n:07}");
    let batch = |from| (from..=8).map(|n| kinesis(&sequence(n), &format!("p{n}"), &format!("order-{n}")));
    let response = consume(&once, &deliver(&db, batch(1)), &bank, 1).await;
    assert_eq!(failed(&response), [sequence(3)], "one checkpoint");
    assert_eq!(bank.charges(), ["order-1", "order-2"]);

    bank.recovers();
    assert_eq!(failed(&consume(&once, &deliver(&db, batch(3)), &bank, 1).await), [""; 0]);
    assert_eq!(bank.charges(), (1..=8).map(|n| format!("order-{n}")).collect::<Vec<_>>(), "in order, each once");
}

#[tokio::test]
async fn several_records_of_a_stream_at_once_keep_the_order_of_their_partition_key() {
    let (db, bank) = (dynamo(), Bank::failing("b2", Failure::Retry));
    let once = instance(&db);
    let batch = ["a1", "b1", "a2", "b2", "a3", "b3"];
    let deliver_from = |from: usize| {
        let records = batch.iter().enumerate().skip(from);
        deliver(&db, records.map(|(n, order)| kinesis(&format!("10{n}"), &order[..1], order)))
    };
    let response = consume(&once, &deliver_from(0), &bank, 10).await;
    assert_eq!(failed(&response), ["103"]);
    bank.recovers();
    assert_eq!(failed(&consume(&once, &deliver_from(3), &bank, 10).await), [""; 0]);
    let charges = bank.charges();
    for partition in ["a", "b"] {
        let of_it: Vec<_> = charges.iter().filter(|order| order.starts_with(partition)).cloned().collect();
        assert_eq!(of_it, ["1", "2", "3"].map(|n| format!("{partition}{n}")));
    }
}

#[tokio::test]
async fn the_lowest_sequence_number_is_the_lowest_number_wherever_it_stands() {
    // As text, "99" is greater than "100"; and Lambda would take it as the checkpoint.
    let (db, bank) = (dynamo(), Bank::failing("order-99", Failure::Retry));
    let event = deliver(&db, ["100", "99", "101", "098"].map(|n| kinesis(n, "p", &format!("order-{n}"))));
    assert_eq!(failed(&consume(&instance(&db), &event, &bank, 10).await), ["99"]);
    assert_eq!(bank.charges(), ["order-098"], "all below the checkpoint is done, and nothing above it");
}

#[tokio::test]
async fn poison_does_not_block_its_shard() {
    let (db, bank) = (dynamo(), Bank::failing("order-2", Failure::Permanent));
    let event = deliver(&db, (1..=3).map(|n| kinesis(&format!("10{n}"), "p", &format!("order-{n}"))));
    assert_eq!(failed(&consume(&instance(&db), &event, &bank, 1).await), [""; 0]);
    assert_eq!(bank.charges(), ["order-1", "order-3"]);
}

#[tokio::test]
async fn a_dynamodb_stream_keeps_the_order_of_each_item_and_reports_its_sequence_number() {
    let (db, bank) = (dynamo(), Bank::failing("222 y", Failure::Retry));
    let once = instance(&db);
    let event: LambdaEvent<DynamoDbEvent> =
        deliver(&db, [change("111", "x"), change("222", "y"), change("333", "x"), change("444", "y")]);
    let namespace = ichido::Namespace::new("changes");
    let handle = async || {
        Batch::new(&once, &event, |record| record.key(&namespace))
            .on_doubt(OnDoubt::Refuse)
            .work(|record, _| async {
                let image = record.dynamodb.new_image.as_ref().unwrap();
                bank.charge(&format!("{} {}", record.identifier(), image["Id"]["S"].as_str().unwrap())).await
            })
            .await
    };
    assert_eq!(failed(&handle().await), ["222"]);
    bank.recovers();
    assert_eq!(failed(&handle().await), [""; 0]);
    assert_eq!(bank.sorted_charges(), ["111 x", "222 y", "333 x", "444 y"]);
}

#[test]
fn what_the_library_does_not_know_of_a_record_is_kept_as_it_came() {
    let mut sent = message("m1", "order-1");
    sent["messageAttributes"] = json!({"tenant": {"stringValue": "t1", "dataType": "String"}});
    let event: SqsEvent = serde_json::from_value(json!({"Records": [sent]})).unwrap();
    assert_eq!(event.records[0].other["messageAttributes"]["tenant"]["stringValue"], "t1");
    for sent in [message("m1", "order-1"), fifo("m1", "A")] {
        let read: SqsMessage = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), sent);
    }
    let sent = json!({"Records": [kinesis("1", "p", "x")]});
    assert_eq!(serde_json::to_value(serde_json::from_value::<KinesisEvent>(sent.clone()).unwrap()).unwrap(), sent);
    let sent = json!({"Records": [change("1", "x")]});
    assert_eq!(serde_json::to_value(serde_json::from_value::<DynamoDbEvent>(sent.clone()).unwrap()).unwrap(), sent);
}

#[test]
fn kinesis_data_that_is_no_base64_or_no_json_is_an_error_that_says_so() {
    let mut sent = kinesis("1", "p", "[1, 2]");
    let read = |sent: &Value| serde_json::from_value::<ichido::lambda::batch::KinesisRecord>(sent.clone()).unwrap();
    assert_eq!(read(&sent).json::<Vec<u8>>().unwrap(), [1, 2]);
    let error = read(&sent).json::<String>().unwrap_err().to_string();
    assert!(error.starts_with("the data of the record is not the expected JSON"), "{error}");
    sent["kinesis"]["data"] = "%".into();
    let error = read(&sent).bytes().unwrap_err().to_string();
    assert!(error.starts_with("the data of the record is not base64"), "{error}");
}

#[tokio::test]
async fn a_handler_with_a_batch_can_move_between_threads() {
    let (db, bank) = (dynamo(), Bank::default());
    let (once, event) = (instance(&db), deliver(&db, [message("m1", "order-1")]));
    let handled = tokio::spawn(async move { handle(&once, &event, &bank).await });
    assert_eq!(failed(&handled.await.unwrap().0), [""; 0]);
}

/// A queue or a shard, a bank that can be asked, and a function that dies.
struct World {
    db: Dynamo,
    outside: Outside,
    bank: Bank,
    /// What was sent and not acknowledged yet.
    waiting: Mutex<Vec<Value>>,
}

impl World {
    fn new(outside: Outside, sent: &[Value]) -> Self {
        let db = dynamo().with_outside(outside.clone());
        Self { db, outside, bank: Bank::default(), waiting: Mutex::new(sent.to_vec()) }
    }

    async fn charge(&self, order: &str) -> Result<u64, Failure<String>> {
        self.outside.call("charge", self.bank.charge(order)).await
    }

    async fn find(&self, order: &str) -> Result<Probed<u64>, String> {
        let charged =
            self.outside.call("find", async { self.bank.charges().iter().any(|charge| charge == order) }).await;
        Ok(if charged { Probed::Done(100) } else { Probed::NotDone })
    }

    /// Each delivery goes to a new process. What it does not name is acknowledged.
    async fn invoke_sqs(&self) -> Result<(), String> {
        let event: LambdaEvent<SqsEvent> = deliver(&self.db, self.waiting.lock().unwrap().clone());
        let once = instance(&self.db);
        let response = Batch::new(&once, &event, by_body)
            .probe(|message, _claim: Claim| self.find(&message.body))
            .concurrency(3)
            .work(|message, _claim| self.charge(&message.body))
            .await;
        let failed = failed(&response);
        self.waiting.lock().unwrap().retain(|message| failed.contains(&message["messageId"].as_str().unwrap()));
        if failed.is_empty() { Ok(()) } else { Err(format!("{failed:?}")) }
    }

    async fn invoke_stream(&self) -> Result<(), String> {
        let event: LambdaEvent<DynamoDbEvent> = deliver(&self.db, self.waiting.lock().unwrap().clone());
        let once = instance(&self.db);
        let namespace = ichido::Namespace::new("changes").lease(LEASE);
        let response = Batch::new(&once, &event, |record| record.key(&namespace))
            .probe(|record, _claim: Claim| self.find(record.identifier()))
            .concurrency(2)
            .work(|record, _claim| self.charge(record.identifier()))
            .await;
        let mut waiting = self.waiting.lock().unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        let checkpoint = response.identifiers().map(number).min();
        waiting.retain(|record| {
            let sequence = number(record["dynamodb"]["SequenceNumber"].as_str().unwrap());
            checkpoint.is_some_and(|checkpoint| sequence >= checkpoint)
        });
        if checkpoint.is_none() { Ok(()) } else { Err(format!("{checkpoint:?}")) }
    }
}

#[tokio::test]
async fn a_function_that_dies_at_any_call_loses_no_message_and_doubles_none() {
    let sent = [message("m1", "order-1"), message("m2", "order-2"), message("m3", "order-1"), message("m4", "order-4")];
    let report = interrupt::at_every_call(
        async |outside| World::new(outside, &sent),
        World::invoke_sqs,
        async |world| world.db.clock().advance(LEASE + MAX_CLOCK_SKEW),
        async |world| {
            assert_eq!(world.bank.sorted_charges(), ["order-1", "order-2", "order-4"]);
            assert!(world.waiting.lock().unwrap().is_empty());
        },
    )
    .await;
    // Three claims, charges and completions, and the claim of the duplicate and its answer, each on both sides.
    assert_eq!(report.stops, 20);
}

#[tokio::test]
async fn a_function_that_dies_at_any_call_loses_no_message_of_a_fifo_group_and_keeps_its_order() {
    let sent = [fifo("a1", "A"), fifo("b1", "B"), fifo("a2", "A"), fifo("a3", "A")];
    interrupt::at_every_call(
        async |outside| {
            let world = World::new(outside, &sent);
            world.bank.fails("a2", Failure::Retry);
            world
        },
        World::invoke_sqs,
        async |world| {
            world.bank.recovers();
            world.db.clock().advance(LEASE + MAX_CLOCK_SKEW);
        },
        async |world| {
            let charges = world.bank.charges();
            let of_a: Vec<_> = charges.iter().filter(|order| order.starts_with('a')).collect();
            assert_eq!(of_a, ["a1", "a2", "a3"]);
            assert_eq!(charges.len(), 4);
        },
    )
    .await;
}

#[tokio::test]
async fn a_function_that_dies_at_any_call_loses_no_record_of_a_stream_and_doubles_none() {
    let sent = [change("111", "x"), change("222", "y"), change("333", "x"), change("444", "z")];
    interrupt::at_every_call(
        async |outside| {
            let world = World::new(outside, &sent);
            world.bank.fails("222", Failure::Uncertain);
            world
        },
        World::invoke_stream,
        async |world| {
            world.bank.recovers();
            world.db.clock().advance(LEASE + MAX_CLOCK_SKEW);
        },
        async |world| {
            assert_eq!(world.bank.sorted_charges(), ["111", "222", "333", "444"]);
            assert!(world.waiting.lock().unwrap().is_empty());
        },
    )
    .await;
}
