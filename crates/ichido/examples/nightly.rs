//! A nightly job on three machines: it runs once per night, although every machine starts it and the one that won dies.
//!
//! The key is the date, so there is nothing to unlock, and whoever comes later learns that it was done. `keep_alive` renews
//! the lease while the job goes on. `cargo run -p ichido --example nightly` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, How, Key, MAX_CLOCK_SKEW, Namespace, Once, Probed};
use testkit::Dynamo;

type BoxError = Box<dyn Error + Send + Sync>;

const LEASE: Duration = Duration::from_secs(60);
const INVOICES: u32 = 5;

/// Where the invoices go. It can be asked which ones it has.
#[derive(Clone, Default)]
struct Mail(Arc<Mutex<Vec<(String, u32)>>>);

impl Mail {
    fn sent(&self, night: &str) -> BTreeSet<u32> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(of, _)| of == night).map(|(_, invoice)| *invoice).collect()
    }

    fn send(&self, night: &str, invoice: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((night.to_owned(), invoice));
    }
}

/// One night's job: an invoice every 40 seconds, so that it takes longer than its lease. It goes on where an earlier machine
/// stopped. `dies_after`: this machine is gone after so many invoices.
async fn invoices(db: &Dynamo, mail: &Mail, night: &str, dies_after: Option<u32>) -> u32 {
    let mut sent = 0;
    for invoice in 1..=INVOICES {
        if mail.sent(night).contains(&invoice) {
            continue;
        }
        if dies_after == Some(sent) {
            println!("  this machine dies after {sent} invoices");
            std::future::pending::<()>().await;
        }
        db.clock().wait(Duration::from_secs(40)).await;
        mail.send(night, invoice);
        sent += 1;
    }
    INVOICES
}

async fn machine(name: &str, db: &Dynamo, mail: &Mail, key: &Key, night: &str, dies_after: Option<u32>) {
    let store = DynamoDb::new(db.client_without_retries(), Table::new("jobs", "id"));
    let once = Once::builder(store).clock(db.clock().clone()).build();
    let done = once
        .run(key)
        .attribute("machine", name)
        .keep_alive()
        .probe(|_claim| async {
            let sent = u32::try_from(mail.sent(night).len()).unwrap_or(u32::MAX);
            println!("  {name} takes over: {sent} of {INVOICES} invoices are sent");
            Ok(if sent == INVOICES { Probed::Done(sent) } else { Probed::NotDone })
        })
        .work(|_claim| async { Ok::<_, Failure<BoxError>>(invoices(db, mail, night, dies_after).await) })
        .await;
    match done {
        Ok(done) if done.how == How::Replayed => println!("  {name}: it was done before ({} invoices)", done.value),
        Ok(done) => println!("  {name}: did it ({} invoices)", done.value),
        Err(error) => println!("  {name}: {error}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let mut db = Dynamo::empty();
    db.simple_table("jobs", "id", None, "ttl");
    let mail = Mail::default();
    let nightly = Namespace::new("invoices").lease(LEASE).retention(Duration::from_secs(30 * 24 * 3600));

    println!("the night of 2026-11-16: three machines start the job");
    let (night, key) = ("2026-11-16", nightly.key(["2026-11-16"])?);
    tokio::join!(
        machine("machine 1", &db, &mail, &key, night, None),
        machine("machine 2", &db, &mail, &key, night, None),
        machine("machine 3", &db, &mail, &key, night, None),
    );

    println!("the night of 2026-11-17: the machine that won dies in the middle");
    let (night, key) = ("2026-11-17", nightly.key(["2026-11-17"])?);
    let mut dying = Box::pin(machine("machine 1", &db, &mail, &key, night, Some(2)));
    while mail.sent(night).len() < 2 {
        tokio::select! { () = &mut dying => {}, () = db.clock().wait(Duration::from_secs(1)) => {} }
    }
    // A dead machine cannot give its claim back.
    db.faults().down();
    drop(dying);
    db.clock().wait(Duration::from_secs(1)).await;
    db.faults().heal();
    machine("machine 2", &db, &mail, &key, night, None).await;
    println!("  ... the lease of machine 1 ends");
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    machine("machine 2", &db, &mail, &key, night, None).await;
    machine("machine 3", &db, &mail, &key, night, None).await;

    let all = mail.0.lock().unwrap_or_else(PoisonError::into_inner);
    let different: BTreeSet<_> = all.iter().collect();
    let wanted = 2 * usize::try_from(INVOICES)?;
    println!("sent {}, doubled {}, lost {}", different.len(), all.len() - different.len(), wanted - different.len());
    Ok(())
}
