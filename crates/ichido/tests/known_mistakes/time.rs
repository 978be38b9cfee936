//! How long a claim and a record protect.

use std::sync::Mutex;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use ichido::key::DEFAULT_RETENTION;
use ichido::{Clock, Error, Failure, How, Lost, Marked, Namespace, OnDoubt};
use testkit::faults::{Fault, Rule};

use crate::naive::{Effects, Naive};
use crate::support::*;

#[tokio::test]
async fn an_expired_but_undeleted_record_is_not_a_duplicate() {
    let db = dynamo();
    let ttl = (db.clock().now() + RETENTION).as_secs().to_string();
    let put = db.client().put_item().table_name(TABLE).item("event_key", AttributeValue::S("naive".into()));
    put.item("ttl", AttributeValue::N(ttl)).send().await.unwrap();
    db.clock().advance(RETENTION);
    let again = Naive::new(&db).begin_if("attribute_not_exists(event_key)", "naive", None).await;
    assert!(!again, "the naive form waits for DynamoDB to delete what has expired");
    db.sweep(db.clock().now());

    let once = instance(&db);
    once.mark(&closed("Ev1")).await.unwrap();
    run(&once, &closed("Ev2"), "first").await.unwrap();
    db.clock().advance(RETENTION);
    assert_eq!(db.items(TABLE).len(), 2, "DynamoDB has deleted nothing");
    assert_eq!(once.mark(&closed("Ev1")).await.unwrap(), Marked::New);
    assert_eq!(run(&once, &closed("Ev2"), "second").await.unwrap().how, How::Fresh);
}

#[tokio::test]
async fn a_claim_whose_answer_came_after_its_lease_is_not_begun() {
    let (db, key) = (dynamo(), closed("Ev1"));
    db.faults().only(Rule::new(Fault::Late(LEASE)).call(1));
    let late = run(&instance(&db), &key, "too late").await;
    assert!(matches!(late, Err(Error::DeadlinePassed { .. })), "{late:?}");
    assert_eq!(run(&instance(&db), &key, "next").await.unwrap().how, How::Fresh, "the late claim was released");
}

#[tokio::test]
async fn renewing_never_makes_a_lease_shorter() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let end = db.clock().now() + LEASE * 30;
    let run = once.run(&key).lease_until(end).on_doubt(OnDoubt::Repeat);
    run.work(|claim| {
        let db = &db;
        async move {
            claim.renew().await.unwrap();
            assert_eq!(claim.deadline(), end);
            db.clock().advance(LEASE * 29);
            let other = instance(db).run(&closed("Ev1")).on_doubt(OnDoubt::Repeat).work(|claim| work("b", claim)).await;
            assert!(matches!(other, Err(Error::InFlight { .. })), "{other:?}");
            claim.renew().await.unwrap();
            assert_eq!(claim.deadline(), end);
            db.clock().advance(LEASE / 2);
            claim.renew().await.unwrap();
            assert_eq!(claim.deadline(), end + LEASE / 2, "near its end, a renewal makes it longer");
            Ok::<_, Failure<String>>("a".to_owned())
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_claim_that_is_kept_alive_outlives_its_lease() {
    let (db, key) = (dynamo(), closed("Ev1"));
    assert!(Naive::new(&db).begin("naive").await, "a work of ten leases begins");
    db.clock().advance(LEASE * 5);
    assert!(Naive::new(&db).begin("naive").await, "the naive form protects it for its first minutes only");

    let (once, clock) = (instance(&db), db.clock().clone());
    let long = once.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(|claim| async move {
        clock.wait(LEASE * 10).await;
        work("long", claim).await
    });
    let other = async {
        db.clock().wait(LEASE * 5).await;
        run(&instance(&db), &key, "other").await
    };
    let (long, other) = tokio::join!(long, other);
    assert!(matches!(other, Err(Error::InFlight { .. })), "{other:?}");
    assert_eq!(long.unwrap().value, "long under fence 1");
}

#[tokio::test]
async fn a_work_that_is_kept_alive_is_cancelled_when_its_claim_is_lost() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let (once, clock) = (instance(&db), db.clock().clone());
    let (naive, effects) = (Naive::new(&db), Mutex::new(0));
    assert!(naive.begin("naive").await);
    naive.delete("naive").await; // the lock is lost
    assert!(naive.begin("naive").await, "so another worker begins");
    *effects.lock().unwrap() += 1;
    let renewed = naive.begin_if("progress_until < :now", "naive", Some(LEASE)).await;
    assert!(!renewed, "the first learns that it is not its lock any more");
    *effects.lock().unwrap() += 1;
    assert_eq!(std::mem::take(&mut *effects.lock().unwrap()), 2, "the naive form logs it and goes on");

    let long = once.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(|claim| {
        let effects = &effects;
        async move {
            clock.wait(LEASE * 10).await;
            *effects.lock().unwrap() += 1;
            work("long", claim).await
        }
    });
    let operator = async {
        db.clock().wait(LEASE).await;
        give_back_by_hand(&db, &key).await;
    };
    let (long, ()) = tokio::join!(long, operator);
    assert!(matches!(long, Err(Error::Cancelled(Lost::TakenOver))), "{long:?}");
    assert_eq!(*effects.lock().unwrap(), 0, "the work was dropped");
}

#[tokio::test]
async fn a_work_that_is_kept_alive_survives_a_short_outage_and_is_cancelled_by_a_long_one() {
    for (outage, survives) in [(LEASE / 4, true), (LEASE * 4, false)] {
        let (db, key) = (dynamo(), closed("Ev1"));
        let (once, clock) = (instance(&db), db.clock().clone());
        let long = once.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(|claim| async move {
            clock.wait(LEASE * 10).await;
            work("long", claim).await
        });
        let storm = async {
            db.clock().wait(LEASE / 4).await;
            db.faults().down();
            db.clock().wait(outage).await;
            db.faults().heal();
        };
        let (long, ()) = tokio::join!(long, storm);
        match long {
            Ok(_) => assert!(survives, "the outage lasted {outage:?}"),
            Err(Error::Cancelled(Lost::Store(_))) => assert!(!survives, "the outage lasted {outage:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_work_that_is_kept_alive_does_not_outlive_its_lease_because_the_store_hangs() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let (once, clock) = (instance(&db), db.clock().clone());
    let started = clock.now();
    let long = once.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(|claim| async move {
        clock.wait(LEASE * 10).await;
        work("long", claim).await
    });
    let storm = async {
        db.clock().wait(LEASE / 4).await;
        db.faults().only(Rule::new(Fault::Late(LEASE * 8)));
        // The renewal is under way. What comes later is answered at once.
        db.clock().wait(LEASE / 2).await;
        db.faults().heal();
    };
    let (long, ()) = tokio::join!(long, storm);
    assert!(matches!(long, Err(Error::Cancelled(Lost::Lapsed))), "{long:?}");
    assert!(db.clock().now().since(started) <= LEASE * 2);
}

#[tokio::test]
async fn an_outcome_whose_record_was_deleted_during_the_work_is_written_by_a_later_call() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let done = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| {
        let db = &db;
        async move {
            db.clock().advance(RETENTION + LEASE * 2);
            assert_eq!(db.sweep(db.clock().now()), 1);
            work("slow", claim).await
        }
    });
    assert!(!done.await.unwrap().recorded);
    assert_eq!(once.unwritten(), 1);
    let again = run(&once, &key, "again").await.unwrap();
    assert_eq!((again.value.as_str(), again.how), ("slow under fence 1", How::Replayed));
    assert_eq!(run(&instance(&db), &key, "elsewhere").await.unwrap().value, "slow under fence 1");
}

#[tokio::test]
async fn a_record_outlives_the_last_redelivery_of_its_sender() {
    // Slack repeats an event for five minutes, Lambda an asynchronous invocation for six hours.
    let (slack, lambda) = (Duration::from_secs(5 * 60), Duration::from_secs(6 * 60 * 60));
    let (db, effects) = (dynamo(), Effects::default());
    let naive = Naive::new(&db);
    for _ in 0..2 {
        let remembered = "attribute_not_exists(event_key) OR progress_until <= :now";
        if naive.begin_if(remembered, "naive", Some(slack)).await {
            effects.happen("naive");
        }
        db.clock().advance(slack);
    }
    assert_eq!(effects.taken(), 2, "the naive form forgets when the last redelivery comes");

    let key = Namespace::unprefixed("events").key(["Ev1"]).unwrap();
    assert!(run(&instance(&db), &key, "first").await.unwrap().is_fresh());
    let done = db.clock().now();
    for later in [slack, lambda, DEFAULT_RETENTION - Duration::from_secs(1)] {
        db.clock().set_ms((done + later).as_millis());
        assert_eq!(run(&instance(&db), &key, "again").await.unwrap().how, How::Replayed, "after {later:?}");
    }
    db.clock().set_ms((done + DEFAULT_RETENTION).as_millis());
    assert!(
        run(&instance(&db), &key, "again").await.unwrap().is_fresh(),
        "no record protects for longer than it is kept"
    );
}
