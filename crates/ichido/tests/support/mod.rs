//! The DynamoDB store on the embedded engine, and instances of the library on it.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate and uses its part of this one")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::observe::Event;
use ichido::store::{Settle, Settled, Transition};
use ichido::{Claim, Clock, Done, Error, Failure, Key, Namespace, Observer, OnDoubt, Once, Outage, Record, Store};
use testkit::faults::{Fault, Rule};
use testkit::{Dynamo, ManualClock};

pub const LEASE: Duration = Duration::from_secs(30);
pub const RETENTION: Duration = Duration::from_secs(3600);
pub const TABLE: &str = "processed-events";

pub type Run = Result<Done<String>, Error<String>>;

pub fn dynamo() -> Dynamo {
    let mut db = Dynamo::empty();
    db.simple_table(TABLE, "event_key", None, "ttl");
    db
}

/// An instance: it has its own memory and breaker, and shares the table.
pub fn instance(db: &Dynamo) -> Once {
    instance_with(db, db.clock().clone(), Reported::default(), Outage::default())
}

pub fn instance_with(db: &Dynamo, clock: ManualClock, reported: Reported, outage: Outage) -> Once {
    let store = DynamoDb::new(db.client_without_retries(), Table::new(TABLE, "event_key"));
    Once::builder(store).clock(clock).observer(reported).outage(outage).build()
}

pub fn closed(name: &str) -> Key {
    Namespace::unprefixed("events").lease(LEASE).retention(RETENTION).key([name]).unwrap()
}

pub fn open(name: &str) -> Key {
    Namespace::unprefixed("events").lease(LEASE).retention(RETENTION).fail_open().key([name]).unwrap()
}

/// The events that an instance reported, as text.
#[derive(Clone, Default)]
pub struct Reported(Arc<Mutex<Vec<String>>>);

impl Reported {
    pub fn count(&self, word: &str) -> usize {
        self.with(word).len()
    }

    /// The events that begin with this word, in order.
    pub fn with(&self, word: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|reported| reported.starts_with(word)).cloned().collect()
    }
}

impl Observer for Reported {
    fn observe(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

pub async fn work(text: &str, claim: Claim) -> Result<String, Failure<String>> {
    Ok(format!("{text} under fence {}", claim.fence()))
}

pub async fn run(once: &Once, key: &Key, text: &str) -> Run {
    once.run(key).on_doubt(OnDoubt::Repeat).work(|claim| work(text, claim)).await
}

/// An instance whose SDK retries, so that a retry meets what the first attempt wrote.
pub fn retrying(db: &Dynamo) -> Once {
    let store = DynamoDb::new(db.client(), Table::new(TABLE, "event_key"));
    Once::builder(store).clock(db.clock().clone()).build()
}

/// Claims the key and dies.
pub async fn abandon(once: &Once, key: &Key) {
    abandon_with(once, key, LEASE).await;
}

/// The same, with this lease.
pub async fn abandon_with(once: &Once, key: &Key, lease: Duration) {
    let (entered, has_entered) = tokio::sync::oneshot::channel();
    let run = once.run(key).lease(lease).on_doubt(OnDoubt::Repeat).work(|_claim| async move {
        entered.send(()).unwrap();
        std::future::pending::<Result<String, Failure<String>>>().await
    });
    let mut run = Box::pin(run);
    tokio::select! {
        _ = &mut run => unreachable!("it never ends"),
        entered = has_entered => entered.unwrap(),
    }
    // A dead process drops nothing.
    std::mem::forget(run);
}

/// Releases a claim as an operator does, whoever holds it.
pub async fn give_back_by_hand(db: &Dynamo, key: &Key) {
    let store = DynamoDb::new(db.client(), Table::new(TABLE, "event_key"));
    let Record { owner, fence, expires_at, .. } = store.read(key).await.unwrap().unwrap();
    let to = Transition::Release { reason: "stuck, says the operator".into(), uncertain: true };
    let release = Settle { key, owner, fence, now: db.clock().now(), to, expires_at };
    assert!(matches!(store.settle(&release).await.unwrap(), Settled::Done));
}

/// The answer to the first call comes after five seconds; the next call fails.
pub fn answer_late_then_never(db: &Dynamo) {
    db.faults().put(Rule::new(Fault::Late(Duration::from_secs(5))).call(1));
    db.faults().put(Rule::new(Fault::Down).call(1));
}
