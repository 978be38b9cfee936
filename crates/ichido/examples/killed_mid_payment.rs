//! A payment whose process is killed at every call it makes to the outside, in turn, and whose event is then delivered again.
//!
//! The same payment is written twice: once as most of us would (look whether it is done, charge, note it), and once with `run` and
//! a probe. `cargo run -p ichido --example killed_mid_payment` runs both on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::cell::RefCell;
use std::error::Error;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, Key, MAX_CLOCK_SKEW, Namespace, Once, Probed};
use testkit::{Dynamo, Outside, interrupt};

type BoxError = Box<dyn Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(30);
const ORDER: &str = "order-7";

/// A database, and a payment provider that can be asked what it has charged. Every call to one of them may be the last one.
struct World {
    outside: Outside,
    db: Dynamo,
    charges: std::sync::Mutex<Vec<String>>,
}

impl World {
    async fn new(outside: Outside) -> Self {
        let mut db = Dynamo::empty().with_outside(outside.clone());
        db.simple_table("payments", "id", None, "ttl");
        Self { outside, db, charges: Default::default() }
    }

    async fn charge(&self) -> Result<String, BoxError> {
        let charged = async {
            let mut charges = self.charges.lock().map_err(|_| "poisoned")?;
            charges.push(ORDER.to_owned());
            Ok(format!("charge-{}", charges.len()))
        };
        self.outside.request("charge the card", charged).await?
    }

    async fn find_charge(&self) -> Result<Option<String>, BoxError> {
        let found = async {
            let charges = self.charges.lock().map_err(|_| "poisoned")?;
            Ok(charges.iter().position(|order| order == ORDER).map(|at| format!("charge-{}", at + 1)))
        };
        self.outside.request("ask for the charge", found).await?
    }

    fn charged(&self) -> usize {
        self.charges.lock().map_or(0, |charges| charges.len())
    }
}

/// Look, charge, note it. It charges twice if it dies between the charge and the note.
async fn by_hand(world: &World) -> Result<(), BoxError> {
    let client = world.db.client();
    let id = || AttributeValue::S(ORDER.to_owned());
    let found = client.get_item().table_name("payments").key("id", id()).consistent_read(true).send().await?;
    if found.item.is_none() {
        world.charge().await?;
        client.put_item().table_name("payments").item("id", id()).send().await?;
    }
    Ok(())
}

/// Mark, then charge. It never charges if it dies between the two.
async fn marked_first(world: &World) -> Result<(), BoxError> {
    let (once, key) = once(world)?;
    if once.mark(&key).await?.is_new() {
        world.charge().await?;
    }
    Ok(())
}

/// `run` with a probe.
async fn with_run(world: &World) -> Result<(), BoxError> {
    let (once, key) = once(world)?;
    once.run(&key)
        .probe(|_claim| async { Ok(world.find_charge().await?.map_or(Probed::NotDone, Probed::Done)) })
        .work(|_claim| async { world.charge().await.map_err(Failure::Uncertain) })
        .await?;
    Ok(())
}

fn once(world: &World) -> Result<(Once, Key), BoxError> {
    let store = DynamoDb::new(world.db.client(), Table::new("payments", "id"));
    let once = Once::builder(store).clock(world.db.clock().clone()).build();
    Ok((once, Namespace::new("payment").lease(LEASE).key([ORDER])?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tell("look, charge, note it", by_hand).await;
    tell("mark it, then charge", marked_first).await;
    let (runs, doubled, lost) = tell("run with a probe", with_run).await;
    println!();
    println!("charged {runs}, doubled {doubled}, lost {lost}");
    Ok(())
}

/// Stops the payment before and after each of its calls, delivers its event again, and says what the customer sees. Returns how
/// many payments there were, and how many of them were charged twice and not at all.
async fn tell(name: &str, pay: impl AsyncFn(&World) -> Result<(), BoxError>) -> (usize, usize, usize) {
    println!("\n{name}:");
    let seen: RefCell<Vec<(String, usize)>> = RefCell::default();
    let note = async |world: &World| {
        let stopped = world.outside.stopped().unwrap_or_else(|| "not stopped".to_owned());
        seen.borrow_mut().push((stopped, world.charged()));
    };
    // The event is delivered again when the lease is over.
    let later = async |world: &World| world.db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    interrupt::at_every_call(World::new, pay, later, note).await;
    let seen = seen.into_inner();
    for (stopped, charged) in &seen {
        let verdict = match charged {
            0 => "NEVER CHARGED",
            1 => "charged once",
            _ => "CHARGED TWICE",
        };
        println!("  {stopped:<34} {verdict}");
    }
    (
        seen.len(),
        seen.iter().filter(|(_, charged)| *charged > 1).count(),
        seen.iter().filter(|(_, charged)| *charged == 0).count(),
    )
}
