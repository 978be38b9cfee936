//! Handlers that never heard of the kit, with the real aws-sdk-dynamodb: the kit finds the faults that are planted in them, and
//! finds nothing in one that is right.

use std::cell::RefCell;
use std::process::Command;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem, Update};
use testkit::{Dynamo, Outside, effects, interrupt, race};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The handlers credit an account for an event, and keep a marker of the event.
struct World {
    dynamo: Dynamo,
    client: Client,
    outside: Outside,
}

async fn world(outside: Outside) -> World {
    let mut dynamo = Dynamo::empty().with_outside(outside.clone());
    dynamo.simple_table("bank", "id", None, "ttl");
    let client = dynamo.client();
    World { dynamo, client, outside }
}

impl World {
    /// One effect per time that the account was credited.
    fn credits(&self) -> Vec<&'static str> {
        let items = self.dynamo.items("bank");
        let account = items.iter().find(|item| item["id"]["S"] == "account");
        let balance = account.map_or("0", |account| account["balance"]["N"].as_str().unwrap());
        vec!["event-7"; balance.parse().unwrap()]
    }

    async fn is_marked(&self) -> Result<bool, Error> {
        let found = self.client.get_item().table_name("bank").key("id", text("event-7")).consistent_read(true);
        Ok(found.send().await?.item.is_some())
    }

    async fn mark(&self) -> Result<(), Error> {
        self.client.put_item().table_name("bank").item("id", text("event-7")).send().await?;
        Ok(())
    }

    async fn credit(&self) -> Result<(), Error> {
        let credit = self.client.update_item().table_name("bank").key("id", text("account"));
        let one = AttributeValue::N("1".into());
        credit.update_expression("ADD balance :one").expression_attribute_values(":one", one).send().await?;
        Ok(())
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// If it dies after the credit, or the SDK repeats a credit whose answer was lost, the account is credited twice.
async fn credits_then_marks(world: &World) -> Result<(), Error> {
    if !world.is_marked().await? {
        world.credit().await?;
        world.mark().await?;
    }
    Ok(())
}

/// If it dies after the marker, the account is never credited.
async fn marks_then_credits(world: &World) -> Result<(), Error> {
    if !world.is_marked().await? {
        world.mark().await?;
        world.credit().await?;
    }
    Ok(())
}

/// Marker and credit are one transaction.
async fn is_right(world: &World) -> Result<(), Error> {
    let marker = Put::builder()
        .table_name("bank")
        .item("id", text("event-7"))
        .condition_expression("attribute_not_exists(id)")
        .build()?;
    let credit = Update::builder()
        .table_name("bank")
        .key("id", text("account"))
        .update_expression("ADD balance :one")
        .expression_attribute_values(":one", AttributeValue::N("1".into()))
        .build()?;
    let items = [TransactWriteItem::builder().put(marker), TransactWriteItem::builder().update(credit)];
    let write = world.client.transact_write_items().set_transact_items(Some(items.map(|item| item.build()).into()));
    match write.send().await {
        Ok(_) => Ok(()),
        Err(SdkError::ServiceError(refused)) if refused.err().code() == Some("TransactionCanceledException") => {
            if world.is_marked().await? { Ok(()) } else { Err("cancelled, but not marked".into()) }
        }
        Err(error) => Err(error.into()),
    }
}

async fn at_every_call(handler: impl AsyncFn(&World) -> Result<(), Error>) -> interrupt::Report {
    interrupt::at_every_call(world, handler, async |_| {}, credited_once).await
}

async fn two_at_once(handler: impl AsyncFn(&World) -> Result<(), Error>) -> race::Report {
    race::two_at_once(0..100, world, handler, async |_| {}, credited_once).await
}

async fn credited_once(world: &World) {
    effects(world.credits()).each_once(["event-7"]);
}

#[tokio::test]
#[should_panic(expected = "happened 2 times: event-7")]
async fn a_planted_double_effect_is_found() {
    at_every_call(credits_then_marks).await;
}

#[tokio::test]
#[should_panic(expected = "lost: event-7")]
async fn a_planted_lost_effect_is_found() {
    at_every_call(marks_then_credits).await;
}

#[tokio::test]
async fn a_repetition_by_the_sdk_itself_is_found() {
    // Nothing dies: an answer is lost, and the SDK repeats the request.
    let found = RefCell::new(Vec::new());
    let credit = async |world: &World| world.credit().await;
    let report = interrupt::at_every_call(
        world,
        credit,
        async |_| {},
        async |world: &World| {
            if world.credits().len() > 1 {
                found.borrow_mut().push(world.outside.history().to_string());
            }
        },
    );
    let report = report.await;
    assert_eq!((report.stops, report.cuts), (2, 2));
    let expected = "    delivery 1
 1  UpdateItem: done, cut off before the answer
 2  UpdateItem (attempt 2): 200
 3  returns Ok
 4  -- the test checks the world --
";
    assert!(found.borrow().iter().any(|history| history == expected), "{:?}", found.borrow());
}

#[tokio::test]
async fn nothing_is_found_in_a_handler_that_is_right() {
    let report = at_every_call(is_right).await;
    assert_eq!((report.stops, report.cuts), (2, 2));
    let report = two_at_once(is_right).await;
    assert_eq!(report.seeds, if std::env::var_os(race::SEED).is_some() { 1 } else { 100 });
}

#[tokio::test]
#[should_panic(expected = "happened 2 times: event-7")]
async fn two_at_once_that_both_look_before_they_leap_are_found() {
    // No copy is stopped where this is found first: that they look at the same time is enough.
    two_at_once(credits_then_marks).await;
}

#[tokio::test]
async fn a_seed_always_gives_the_same_history() {
    let histories = async |handler: fn(&World) -> _| {
        let histories = RefCell::new(Vec::new());
        let keep = async |world: &World| histories.borrow_mut().push(world.outside.history().to_string());
        let run = async |world: &World| handler(world).await;
        race::two_at_once(0..20, world, run, async |_| {}, keep).await;
        histories.into_inner()
    };
    let handler = |world: &World| -> std::pin::Pin<Box<dyn Future<Output = Result<(), Error>>>> {
        // The SDK waits for a real timer before it repeats a request, so it does not repeat any here.
        let client = world.dynamo.client_without_retries();
        let world = World { dynamo: world.dynamo.clone(), client, outside: world.outside.clone() };
        Box::pin(async move { credits_then_marks(&world).await })
    };
    let once = histories(handler).await;
    assert_eq!(once, histories(handler).await);
    let mut different = once.clone();
    different.sort();
    different.dedup();
    assert!(std::env::var_os(race::SEED).is_some() || different.len() > 10, "{} histories", different.len());
}

/// Runs one test of this file as a process, and returns what it writes to standard error.
fn said_by(test: &str, seed: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env_remove(race::SEED).env("RUST_BACKTRACE", "0");
    if let Some(seed) = seed {
        command.env(race::SEED, seed);
    }
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

/// The table that follows a line with this beginning.
fn lanes_after<'a>(said: &'a str, beginning: &str) -> &'a str {
    let at = said.find(beginning).unwrap_or_else(|| panic!("no {beginning:?} in {said}"));
    said[at..].split_once('\n').unwrap().1
}

#[test]
fn a_failure_shows_its_history_as_lanes() {
    let said = said_by("a_planted_lost_effect_is_found", None);
    let lanes = lanes_after(&said, "the run has failed; it was to be killed after call 2:");
    let expected = "    delivery 1                               delivery 2
 1  GetItem: 200
 2  PutItem: done, killed before the answer
 3  -- it was not acknowledged: recover, and deliver it again --
 4                                           GetItem: 200
 5                                           returns Ok
 6  -- the test checks the world --
";
    assert!(lanes.starts_with(expected), "{lanes}");
}

#[test]
fn a_failure_of_two_at_once_can_be_replayed() {
    let test = "two_at_once_that_both_look_before_they_leap_are_found";
    let beginning = "two at once have failed; run it again with SEED=";
    let first = said_by(test, None);
    let (_, rest) = first.split_once(beginning).expect("it fails");
    let seed = &rest[..rest.find(':').unwrap()];
    let again = said_by(test, Some(seed));
    assert_eq!(lanes_after(&first, beginning), lanes_after(&again, beginning));
    assert!(first.contains("worker 1") && first.contains("worker 2"), "{first}");
    assert!(said_by(test, Some("seven")).contains("is not a seed"));
}
