//! Leases, retention, payloads and outages.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::settle_tasks;
use super::support::*;
use ichido::dynamodb::{DynamoDb, Foreign, Table};
use ichido::store::Settled;
use ichido::*;
use serde_json::json;
use testkit::faults::{Fault, Rule};

fn payload(amount: &str) -> Digests {
    DigestKey::new(b"attack").digests().field("amount", amount).build()
}

/// Its retention is shorter than the default lease of 60 s.
fn short(name: &str) -> Key {
    Namespace::unprefixed("events").retention(Duration::from_secs(30)).key([name]).unwrap()
}

#[tokio::test]
async fn retention_shorter_than_the_lease_still_asks_the_probe() {
    let (db, key) = (dynamo(), short("Ev1"));
    let once = instance(&db);
    abandon_with(&once, &key, Duration::from_secs(60)).await;
    db.clock().advance(Duration::from_secs(63));
    let done = instance(&db)
        .run(&key)
        .probe(|_| async { Ok(Probed::Done("charged by the dead worker".to_owned())) })
        .work(|claim| work("charged again", claim))
        .await
        .unwrap();
    assert_eq!(done.how, How::Probed);
}

#[tokio::test]
async fn retention_shorter_than_the_lease_still_refuses() {
    let (db, key) = (dynamo(), short("Ev1"));
    abandon_with(&instance(&db), &key, Duration::from_secs(60)).await;
    db.clock().advance(Duration::from_secs(63));
    let next = instance(&db).run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("again", claim)).await;
    assert!(matches!(next, Err(Error::Doubtful)), "{next:?}");
}

#[tokio::test]
async fn a_lease_of_a_day_still_asks_the_probe() {
    let db = dynamo();
    let key = Namespace::new("nightly").key(["2026-11-17"]).unwrap();
    abandon_with(&instance(&db), &key, Duration::from_secs(24 * 3600)).await;
    db.clock().advance(Duration::from_secs(24 * 3600 + 3));
    let next = instance(&db).run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("again", claim)).await;
    assert!(matches!(next, Err(Error::Doubtful)), "{next:?}");
}

#[tokio::test]
async fn keep_alive_cancels_the_work_when_a_renewal_hangs_beyond_the_lease() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let (one, two) = (instance(&db), instance(&db));
    db.faults().only(Rule::new(Fault::Hang).on("UpdateItem").call(2)); // the first renewal
    let at_work = Arc::new(AtomicU32::new(0));
    struct Leaves(Arc<AtomicU32>);
    impl Drop for Leaves {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let (clock, seen) = (db.clock().clone(), at_work.clone());
    let long = one.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(move |_| async move {
        seen.fetch_add(1, Ordering::SeqCst);
        let _leaves = Leaves(seen);
        clock.wait(LEASE * 10).await;
        Ok::<_, Failure<String>>("late".to_owned())
    });
    let other = async {
        db.clock().wait(LEASE + MAX_CLOCK_SKEW + Duration::from_secs(5)).await;
        let at_work = at_work.clone();
        two.run(&key)
            .on_doubt(OnDoubt::Repeat)
            .work(move |_| async move { Ok::<_, Failure<String>>(at_work.load(Ordering::SeqCst).to_string()) })
            .await
            .unwrap()
            .value
    };
    let (_, still_at_work) = futures::join!(long, other);
    assert_eq!(still_at_work, "0", "the first worker was still at work when the second began");
}

#[tokio::test]
async fn an_operators_release_changes_nothing_if_the_record_is_another_by_now() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let operator = DynamoDb::new(db.client(), Table::new(TABLE, "event_key"));
    let shown = Arc::new(Mutex::new(None));
    let (see, looker, k) = (shown.clone(), once.clone(), key.clone());
    let failed = once.run(&key).on_doubt(OnDoubt::Refuse).work(move |_| async move {
        // The operator looks, sees a claim, and finds no charge at the destination.
        *see.lock().unwrap() = looker.look(&k).await.unwrap();
        // Now the worker charges, and its answer is lost.
        Err::<String, _>(Failure::Uncertain("no answer".to_owned()))
    });
    failed.await.unwrap_err();
    let shown = shown.lock().unwrap().take().unwrap();
    assert!(matches!(shown.state, State::Claimed { .. }));
    let released = operator.release(&key, &shown, db.clock().now(), "looked: it was not done", false).await.unwrap();
    assert!(matches!(released, Settled::Lost(_)), "the record was released in doubt meanwhile, and it was changed");
}

#[tokio::test]
async fn an_expired_item_with_some_of_the_librarys_attributes_counts_as_absent() {
    for foreign in [Foreign::Refused, Foreign::Done] {
        let (db, key) = (dynamo(), closed("Ev1"));
        db.must(
            "PutItem",
            &json!({"TableName": TABLE, "Item": {
            "event_key": {"S": "Ev1"}, "ttl": {"N": "1000"}, "ichido_fence": {"N": "5"}}}),
        );
        let store = DynamoDb::new(db.client(), Table::new(TABLE, "event_key").foreign(foreign));
        let once = Once::builder(store).clock(db.clock().clone()).build();
        let done = run(&once, &key, "first").await;
        assert!(done.is_ok(), "{foreign:?}: {done:?}");
    }
}

#[tokio::test]
async fn a_work_kept_alive_without_the_store_is_the_only_one_of_its_instance() {
    let db = dynamo();
    let key = Namespace::new("e").lease(LEASE).retention(Duration::from_secs(60)).fail_open().key(["1"]).unwrap();
    let once = instance(&db);
    db.faults().down();
    let clock = db.clock().clone();
    let first = once.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(move |_| async move {
        clock.wait(Duration::from_secs(120)).await;
        Ok::<_, Failure<String>>("first".to_owned())
    });
    let second = async {
        db.clock().wait(Duration::from_secs(70)).await;
        run(&once, &key, "second").await
    };
    let (first, second) = futures::join!(first, second);
    assert!(matches!(second, Err(Error::InFlight { .. })), "first: {first:?}, second: {second:?}");
}

#[tokio::test]
async fn a_permanent_failure_of_an_outage_is_what_the_next_call_gets() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().down();
    let poison = |_| async { Err::<String, _>(Failure::Permanent("no number".to_owned())) };
    once.run(&key).on_doubt(OnDoubt::Repeat).work(poison).await.unwrap_err();
    assert!(matches!(run(&once, &key, "during").await, Err(Error::Failed { .. })), "while the store is down");
    db.faults().heal();
    let next = run(&once, &key, "after").await;
    assert!(matches!(next, Err(Error::Failed { .. })), "{next:?}");
}

#[tokio::test]
async fn another_payload_is_refused_after_a_permanent_failure_of_an_outage() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().down();
    let poison = |_| async { Err::<String, _>(Failure::Permanent("no number".to_owned())) };
    once.run(&key).digests(payload("100")).on_doubt(OnDoubt::Repeat).work(poison).await.unwrap_err();
    db.faults().heal();
    let next =
        once.run(&key).digests(payload("999")).on_doubt(OnDoubt::Repeat).work(|claim| work("other", claim)).await;
    assert!(matches!(next, Err(Error::Mismatch { .. })), "{next:?}");
}

#[tokio::test]
async fn the_journal_keeps_an_outcome_that_the_store_could_not_record_for_whatever_reason() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    db.faults().only(Rule::new(Fault::Denied).call(2));
    let first = run(&once, &key, "first").await;
    assert!(matches!(first, Err(Error::Unrecorded(_))), "{first:?}");
    assert_eq!(once.unwritten(), 1, "the journal keeps the outcome");
}

#[tokio::test]
async fn a_call_dropped_before_its_work_leaves_no_doubt() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let no = |_| async { Err::<String, _>(Failure::Retry("busy".to_owned())) };
    once.run(&key).on_doubt(OnDoubt::Refuse).work(no).await.unwrap_err();
    db.faults().only(Rule::new(Fault::Late(Duration::from_secs(5))).call(1));
    let worked = Arc::new(AtomicU32::new(0));
    let w = worked.clone();
    let mut dropped = Box::pin(once.run(&key).on_doubt(OnDoubt::Refuse).work(|claim| async move {
        w.fetch_add(1, Ordering::SeqCst);
        work("never", claim).await
    }));
    let clock = db.clock().clone();
    tokio::select! {
        _ = &mut dropped => unreachable!(),
        () = clock.wait(Duration::from_secs(1)) => {}
    }
    drop(dropped);
    settle_tasks().await;
    assert_eq!(worked.load(Ordering::SeqCst), 0);
    let next = once.run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("next", claim)).await;
    assert!(next.is_ok(), "nothing was ever done: {next:?}");
}

#[tokio::test]
async fn an_instance_admits_a_key_once_though_its_call_was_dropped_while_it_recorded_its_outcome() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().only(Rule::new(Fault::Late(Duration::from_secs(5))).call(2));
    let mut dropped = Box::pin(run(&once, &key, "first"));
    let clock = db.clock().clone();
    tokio::select! {
        _ = &mut dropped => unreachable!(),
        () = clock.wait(Duration::from_secs(1)) => {}
    }
    drop(dropped);
    settle_tasks().await;
    assert!(matches!(once.look(&key).await.unwrap().unwrap().state, State::Completed { .. }));
    db.faults().down();
    let next = run(&once, &key, "again").await.unwrap();
    assert_eq!(next.how, How::Replayed, "the store had told this instance that it is completed");
}

#[test]
fn an_outcome_comes_back_as_it_was() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut differs = Vec::new();
    for _ in 0..100_000 {
        let value = random.f64() * 1000.0;
        let back: f64 = Outcome::of(&value).unwrap().value().unwrap();
        if back != value {
            differs.push((value, back));
        }
    }
    assert!(differs.is_empty(), "{} differ, as {:?}", differs.len(), &differs[..1]);
}
