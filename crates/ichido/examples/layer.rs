//! A Lambda handler under `OnceLayer`: Lambda's retry of a failed event does not charge again, and a duplicate gets the
//! recorded response.
//!
//! `cargo run -p ichido --example layer` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::lambda::OnceLayer;
use ichido::{Claim, Clock as _, Failure, Namespace, Once, OrFailure as _, Probed};
use lambda_runtime::tower::{Layer as _, Service, ServiceExt as _};
use lambda_runtime::{Context, Diagnostic, Error, LambdaEvent, service_fn};
use serde_json::json;
use testkit::Dynamo;

#[derive(Clone, serde::Deserialize)]
struct Order {
    order: String,
    amount: String,
}

/// A destination that can be asked what it has received. The answer to its first charge is lost.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<Vec<String>>>);

impl Bank {
    /// The handler. It says what its errors mean; an error that says nothing counts as uncertain.
    async fn charge(&self, event: LambdaEvent<Order>) -> Result<String, Failure<Error>> {
        let Order { order, amount } = event.payload;
        let amount: u64 = amount.parse().or_permanent()?; // it will never be a number
        let mut charges = self.0.lock().expect("no one panics here");
        charges.push(order.clone());
        println!("    the bank charges {amount} cents for order {order}");
        if charges.len() == 1 {
            return Err(Failure::Uncertain("the bank did not answer in time".into()));
        }
        Ok(format!("receipt-{order}"))
    }

    /// The probe. It returns what the handler would have returned.
    async fn find(&self, event: LambdaEvent<Order>, _claim: Claim) -> Result<Probed<String>, Error> {
        let order = event.payload.order;
        let charged = self.0.lock().expect("no one panics here").contains(&order);
        println!("    the bank is asked whether it has charged order {order}: {charged}");
        Ok(if charged { Probed::Done(format!("receipt-{order}")) } else { Probed::NotDone })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut db = Dynamo::empty();
    db.simple_table("effects", "id", None, "ttl");
    let store = DynamoDb::new(db.client(), Table::new("effects", "id"));
    let once = Once::builder(store).clock(db.clock().clone()).build();

    let bank = Bank::default();
    let orders = Namespace::new("order");
    let layer = OnceLayer::new(once, move |event: &LambdaEvent<Order>| orders.key([&event.payload.order])).probe({
        let bank = bank.clone();
        move |event, claim| {
            let bank = bank.clone();
            async move { bank.find(event, claim).await }
        }
    });
    let handler = layer.layer(service_fn({
        let bank = bank.clone();
        move |event| {
            let bank = bank.clone();
            async move { bank.charge(event).await }
        }
    }));
    // On Lambda, `lambda_runtime::run(handler).await` does what follows here.
    let invoke = async |order: &str, amount: &str| invoke(&db, handler.clone(), order, amount).await;

    println!("1. an order comes; the bank charges, but its answer is lost:");
    invoke("1001", "4900").await?;
    println!("2. Lambda retries the event after the error:");
    invoke("1001", "4900").await?;
    println!("3. the shop sends the order once more:");
    invoke("1001", "4900").await?;
    println!("4. an order that cannot be charged, and Lambda's retry of it:");
    invoke("1002", "free").await?;
    invoke("1002", "free").await?;

    let charged = bank.0.lock().expect("no one panics here").len();
    let (doubled, lost) = (charged.saturating_sub(1), 1_usize.saturating_sub(charged));
    println!("charged {charged}, doubled {doubled}, lost {lost}");
    if charged == 1 { Ok(()) } else { Err("the promise does not hold".into()) }
}

/// Invokes the function as Lambda does, and prints its response or its error.
async fn invoke<H>(db: &Dynamo, handler: H, order: &str, amount: &str) -> Result<(), Error>
where
    H: Service<LambdaEvent<Order>, Response = String, Error = ichido::lambda::Error>,
{
    let mut context = Context::default();
    context.deadline = (db.clock().now() + Duration::from_secs(30)).as_millis();
    let payload = serde_json::from_value(json!({"order": order, "amount": amount}))?;
    match handler.oneshot(LambdaEvent::new(payload, context)).await {
        Ok(response) => println!("    response {response:?}"),
        Err(error) => println!("    error {}", serde_json::to_string(&Diagnostic::from(error))?),
    }
    Ok(())
}
