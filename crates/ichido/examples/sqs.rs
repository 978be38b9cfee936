//! A batch of SQS messages whose worker is killed in the middle. Each order is charged once all the same.
//!
//! `cargo run -p ichido --example sqs` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Mutex;
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::lambda::batch::{Batch, BatchResponse, SqsEvent, SqsMessage};
use ichido::{Claim, Clock as _, Failure, MAX_CLOCK_SKEW, Namespace, Once, OrFailure as _, Probed};
use lambda_runtime::{Context, Error, LambdaEvent};
use serde_json::{Value, json};
use testkit::{Dynamo, ManualClock};

/// The timeout of the function.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(serde::Deserialize)]
struct Order {
    order: String,
    amount: u64,
}

/// The function: it charges each order of a batch, under the order's number.
async fn handler(once: &Once, bank: &Bank, event: &LambdaEvent<SqsEvent>) -> BatchResponse {
    let orders = Namespace::new("order");
    Batch::new(once, event, |message| {
        // The order's number, and not the message id: the shop may send an order twice.
        let number = number(message).ok_or("the message has no order number")?;
        Ok::<_, Error>(orders.key([number])?)
    })
    .probe(|message, _claim: Claim| async {
        let order: Order = message.json()?;
        Ok(bank.find(&order).map_or(Probed::NotDone, Probed::Done))
    })
    .observe(|message, ended| println!("    order {}: {ended}", number(message).unwrap_or_default()))
    .work(|message, _claim| async {
        let order: Order = message.json().or_permanent()?; // it will never be an order
        bank.charge(&order).await
    })
    .await
}

/// The number is needed to name the order, even if the rest of it cannot be read.
fn number(message: &SqsMessage) -> Option<String> {
    Some(message.json::<Value>().ok()?["order"].as_str()?.to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut db = Dynamo::empty();
    db.simple_table("effects", "id", None, "ttl");
    let bank = Bank::new(db.clock());
    // Each instance of the function has an `Once` of its own. They share the table.
    let instance = || {
        let store = DynamoDb::new(db.client(), Table::new("effects", "id"));
        Once::builder(store).clock(db.clock().clone()).build()
    };

    println!("1. five messages come; the instance is killed at its timeout, while the bank has not answered for 1003:");
    let (once, event) = (instance(), invocation(&db, &["1001", "1002", "1003", "1004", "1005"], 1)?);
    let mut killed = Box::pin(handler(&once, &bank, &event));
    tokio::select! { _ = &mut killed => unreachable!("the bank never answers"), () = db.clock().wait(TIMEOUT) => {} }
    std::mem::forget(killed); // a killed process cleans nothing up

    println!("2. Lambda got no response, so SQS delivers all of them again, to another instance:");
    db.clock().advance(MAX_CLOCK_SKEW);
    let again = invocation(&db, &["1001", "1002", "1003", "1004", "1005"], 2)?;
    let response = handler(&instance(), &bank, &again).await;
    println!("    response {}", serde_json::to_string(&response)?);

    println!("3. SQS delivers again what the response names:");
    let failed: Vec<&str> =
        ORDERS.iter().filter(|order| response.identifiers().any(|id| id == order.1)).map(|order| order.0).collect();
    let response = handler(&instance(), &bank, &invocation(&db, &failed, 3)?).await;
    println!("    response {}", serde_json::to_string(&response)?);

    let charges = bank.charges.into_inner()?;
    let charged = |number: &str| charges.iter().filter(|charge| *charge == number).count();
    let valid = ["1001", "1002", "1003", "1005"];
    let doubled = valid.iter().filter(|number| charged(number) > 1).count();
    let lost = valid.iter().filter(|number| charged(number) == 0).count();
    println!("charged {}, doubled {doubled}, lost {lost}", charges.len());
    if doubled + lost == 0 { Ok(()) } else { Err("the promise does not hold".into()) }
}

/// The destination. Its first answer for order 1003 is lost, and it is busy once for order 1005.
struct Bank {
    charges: Mutex<Vec<String>>,
    clock: ManualClock,
    busy: Mutex<u32>,
}

impl Bank {
    fn new(clock: &ManualClock) -> Self {
        Self { charges: Mutex::default(), clock: clock.clone(), busy: Mutex::new(2) }
    }

    async fn charge(&self, order: &Order) -> Result<String, Failure<Error>> {
        if order.order == "1005" {
            let mut busy = self.busy.lock().expect("no one panics here");
            if *busy > 0 {
                *busy -= 1;
                return Err(Failure::Retry("the bank is busy".into())); // nothing was charged
            }
        }
        self.charges.lock().expect("no one panics here").push(order.order.clone());
        println!("    order {}: the bank charges {} cents", order.order, order.amount);
        if order.order == "1003" {
            self.clock.wait(2 * TIMEOUT).await;
        }
        Ok(receipt(&order.order))
    }

    fn find(&self, order: &Order) -> Option<String> {
        let charges = self.charges.lock().expect("no one panics here");
        charges.contains(&order.order).then(|| receipt(&order.order))
    }
}

fn receipt(order: &str) -> String {
    format!("receipt-{order}")
}

/// The order's number, the message id, the body, and its MD5.
const ORDERS: [(&str, &str, &str, &str); 5] = [
    (
        "1001",
        "059f36b4-87a3-44ab-83d2-661975830a7d",
        r#"{"order":"1001","amount":4900}"#,
        "63abd01808b5ae7fe1d0e467363c4f27",
    ),
    (
        "1002",
        "2e1424d4-f796-459a-8184-9c92662be6da",
        r#"{"order":"1002","amount":1250}"#,
        "f37e7f547abb4cb871b4e71d4913b31e",
    ),
    (
        "1003",
        "7a8c9b1e-3c1f-4a57-9d6b-8e2f0c4d5a61",
        r#"{"order":"1003","amount":8800}"#,
        "3dd2a441a307b1f41a729a14a1c3d308",
    ),
    (
        "1004",
        "c80e8021-a70a-42c7-a470-796e1186f753",
        r#"{"order":"1004","amount":"free"}"#,
        "607c76722251100d10e1eaf860523954",
    ),
    (
        "1005",
        "e1f6a5b0-54a1-4d3c-8a0e-3f7b8d9c2e14",
        r#"{"order":"1005","amount":300}"#,
        "549f1d390d58277005b4ebef1f49b67d",
    ),
];

/// An invocation with these orders, as Lambda sends it when SQS delivers them for the `receive_count`th time.
fn invocation(db: &Dynamo, orders: &[&str], receive_count: u32) -> Result<LambdaEvent<SqsEvent>, Error> {
    let records = ORDERS.iter().filter(|(number, ..)| orders.contains(number)).map(|(_, id, body, md5)| {
        json!({
            "messageId": id,
            "receiptHandle": format!("AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a{receive_count}"),
            "body": body,
            "attributes": {
                "ApproximateReceiveCount": receive_count.to_string(),
                "SentTimestamp": "1767225599183",
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": "1767225599185"
            },
            "messageAttributes": {},
            "md5OfBody": md5,
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
            "awsRegion": "eu-central-1"
        })
    });
    let event = json!({"Records": records.collect::<Vec<_>>()});
    let mut context = Context::default();
    context.deadline = (db.clock().now() + TIMEOUT).as_millis();
    Ok(LambdaEvent::new(serde_json::from_value(event)?, context))
}
