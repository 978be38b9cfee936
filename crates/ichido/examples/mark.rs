//! `mark`: a webhook that is delivered three times and handled once.
//!
//! `cargo run -p ichido --example mark` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Namespace, Once};
use testkit::Dynamo;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut db = Dynamo::empty();
    db.simple_table("processed-events", "event_key", None, "ttl");
    let store = DynamoDb::new(db.client(), Table::new("processed-events", "event_key"));
    let once = Once::builder(store).clock(db.clock().clone()).build();

    // The event's id is stored as it is. After a day, the same id is new again.
    let events = Namespace::unprefixed("events").retention(Duration::from_secs(24 * 3600));
    for delivery in 1..=3 {
        let key = events.key(["Ev08ABC"])?;
        let marked = once.mark(&key).attribute("channel_id", "C024BE91L").await?;
        println!("delivery {delivery} of {key}: {marked:?}");
    }

    db.clock().advance(Duration::from_secs(24 * 3600));
    println!("a day later: {:?} (the old record is still in the table)", once.mark(&events.key(["Ev08ABC"])?).await?);
    println!("{} calls to DynamoDB for 4 deliveries", db.calls().total());
    Ok(())
}
