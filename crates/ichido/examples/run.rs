//! `run`: a post that is made once, although its worker dies right after making it.
//!
//! `cargo run -p ichido --example run` runs it on an embedded DynamoDB, without an AWS account.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::error::Error;
use std::sync::Mutex;
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Claim, Failure, MAX_CLOCK_SKEW, Namespace, OnDoubt, Once, Probed};
use testkit::Dynamo;

/// A destination that can be asked what it has received.
#[derive(Default)]
struct Channel(Mutex<Vec<String>>);

impl Channel {
    async fn post(&self, text: &str, claim: Claim) -> Result<String, Failure<std::convert::Infallible>> {
        let mut posts = self.0.lock().expect("no one panics here");
        posts.push(text.to_owned());
        println!("    posted {text:?} under fence {}", claim.fence());
        Ok(format!("ts-{}", posts.len()))
    }

    async fn find(&self, text: &str) -> Option<String> {
        let posts = self.0.lock().expect("no one panics here");
        posts.iter().position(|post| post == text).map(|at| format!("ts-{}", at + 1))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut db = Dynamo::empty();
    db.simple_table("effects", "id", None, "ttl");
    let store = DynamoDb::new(db.client(), Table::new("effects", "id"));
    let once = Once::builder(store).clock(db.clock().clone()).build();
    let lease = Duration::from_secs(30);
    let key = Namespace::new("post").lease(lease).key(["C024BE91L", "1700000000.000100"])?;
    let channel = Channel::default();

    println!("1. a worker posts and dies before it can record that:");
    let dying = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| async {
        channel.post("hello", claim).await?;
        std::future::pending::<Result<String, Failure<std::convert::Infallible>>>().await
    });
    // The future is dropped in the middle, as if the machine were gone.
    tokio::select! { _ = dying => {}, () = db.clock().wait(Duration::from_secs(1)) => {} }

    println!("2. the event is delivered again:");
    let again = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| channel.post("hello", claim)).await;
    println!("    {}", again.expect_err("somebody holds the claim"));

    println!("3. and again, after the lease. Whoever takes over asks the channel first:");
    db.clock().advance(lease + MAX_CLOCK_SKEW);
    let done = once
        .run(&key)
        .probe(|_claim| async { Ok(channel.find("hello").await.map_or(Probed::NotDone, Probed::Done)) })
        .work(|claim| channel.post("hello", claim))
        .await?;
    println!("    {:?}, {:?}", done.value, done.how);

    println!("4. from now on everybody gets that outcome:");
    let done = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| channel.post("hello", claim)).await?;
    println!("    {:?}, {:?}; {} post in the channel", done.value, done.how, channel.0.lock().expect("no panic").len());
    Ok(())
}
