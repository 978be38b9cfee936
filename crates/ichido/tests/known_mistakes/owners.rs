//! Who may write a record: only the worker that holds its claim.

use std::time::Duration;

use ichido::dynamodb::DynamoDb;
use ichido::key::DEFAULT_LEASE;
use ichido::lambda::{Named, OnceLayer};
use ichido::{Clock, Error, Failure, How, Key, MAX_CLOCK_SKEW, Namespace, OnDoubt, Once, Outage, store};
use lambda_runtime::tower::{Layer as _, ServiceExt as _};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::{Value, json};
use testkit::Dynamo;
use testkit::faults::{Fault, Rule};

use crate::keys::{charge, payload};
use crate::naive::{Effects, Naive};
use crate::support::*;

/// The naive form: a worker has begun, its time is up, and its successor has completed.
async fn taken_over(db: &Dynamo) -> Naive {
    let naive = Naive::new(db);
    assert!(naive.begin("naive").await);
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    assert!(naive.begin("naive").await);
    assert!(naive.complete("naive", "successor").await);
    naive
}

/// Runs `late` with a work that outlives its lease, during which `successor` completes the same key.
async fn overtaken(
    db: &Dynamo,
    key: &Key,
    late: &Once,
    end: impl Fn() -> Result<String, Failure<String>> + Send,
) -> Run {
    let (successor, clock) = (instance(db), db.clock().clone());
    late.run(key)
        .on_doubt(OnDoubt::Repeat)
        .work(|_claim| async move {
            clock.advance(LEASE + MAX_CLOCK_SKEW);
            assert_eq!(run(&successor, key, "successor").await.unwrap().how, How::Fresh);
            end()
        })
        .await
}

#[tokio::test]
async fn unfenced_completion_a_late_worker_cannot_overwrite_its_successor() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let naive = taken_over(&db).await;
    naive.complete("naive", "late").await;
    assert_eq!(naive.outcome("naive").await.unwrap(), "late", "the naive form: its successor has told another outcome");

    let reported = Reported::default();
    let late = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    let done = overtaken(&db, &key, &late, || Ok("late".into())).await.unwrap();
    assert_eq!(done.value, "successor under fence 2", "the recorded outcome counts");
    assert_eq!(reported.count("Fenced"), 1);
    let replay = run(&instance(&db), &key, "third").await.unwrap();
    assert_eq!(replay.value, "successor under fence 2");
}

#[tokio::test]
async fn unfenced_completion_a_late_worker_is_fenced_also_if_it_came_to_the_same() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let reported = Reported::default();
    let late = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    let done = overtaken(&db, &key, &late, || Ok("successor under fence 2".into())).await.unwrap();
    assert_eq!(done.how, How::Replayed);
    assert_eq!(reported.count("Fenced"), 1);
}

#[tokio::test]
async fn a_late_worker_does_not_get_the_outcome_of_another_payload() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let (once, other, clock) = (instance(&db), instance(&db), db.clock().clone());
    let late = once.run(&key).digests(payload("100")).on_doubt(OnDoubt::Repeat).work(|claim| {
        let (other, key) = (&other, &key);
        async move {
            // The record expires, so the key may be used again for something else.
            clock.advance(RETENTION + LEASE * 2);
            let run = other.run(key).digests(payload("200")).on_doubt(OnDoubt::Repeat);
            run.work(|claim| work("another payload", claim)).await.unwrap();
            work("late", claim).await
        }
    });
    let late = late.await;
    assert!(matches!(late, Err(Error::Superseded)), "{late:?}");
}

#[tokio::test]
async fn unfenced_completion_a_worker_whose_claim_was_ended_by_hand_is_too_late() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    assert_eq!(once.now(), db.clock().now());
    let first = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| {
        let (db, key) = (&db, &key);
        async move {
            give_back_by_hand(db, key).await;
            work("first", claim).await
        }
    });
    let first = first.await;
    assert!(matches!(first, Err(Error::Superseded)), "{first:?}");
}

#[tokio::test]
async fn delete_on_failure_a_late_failure_cannot_remove_its_successors_record() {
    let db = dynamo();
    let naive = taken_over(&db).await;
    naive.delete("naive").await;
    assert!(naive.begin("naive").await, "the naive form: what was completed is done once more");

    for failure in [Failure::Retry, Failure::Uncertain, Failure::Permanent] {
        let (db, key) = (dynamo(), closed("Ev1"));
        let late = instance(&db);
        overtaken(&db, &key, &late, || Err(failure("late".into()))).await.unwrap_err();
        let replay = run(&instance(&db), &key, "third").await.unwrap();
        assert_eq!(replay.value, "successor under fence 2");
    }
}

#[tokio::test]
async fn a_live_claim_is_not_taken_for_an_orphan_even_by_a_clock_that_is_ahead() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let skew = i64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap();
    assert!(Naive::new(&db).begin("naive").await);
    db.clock().advance(LEASE - Duration::from_millis(1));
    let ahead = Naive::new(&db).with_clock(db.clock().skewed(skew));
    assert!(ahead.begin("naive").await, "the naive form: two at once");

    let holder = instance(&db);
    let ahead = instance_with(&db, db.clock().skewed(skew), Reported::default(), Outage::default());
    let clock = db.clock().clone();
    let done = holder
        .run(&key)
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| {
            let (ahead, key) = (&ahead, &key);
            async move {
                // The last moment of the lease.
                clock.advance(LEASE - Duration::from_millis(1));
                assert!(clock.now() < claim.deadline());
                let other = run(ahead, key, "thief").await;
                assert!(matches!(other, Err(Error::InFlight { .. })), "{other:?}");
                work("holder", claim).await
            }
        })
        .await
        .unwrap();
    assert!(done.recorded && done.is_fresh());
}

#[tokio::test]
async fn a_release_by_hand_changes_nothing_if_the_claim_was_renewed_since_it_was_shown() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let operator = DynamoDb::new(db.client(), ichido::dynamodb::Table::new(TABLE, "event_key"));
    let done = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| {
        let (once, operator, key, db) = (&once, &operator, &key, &db);
        async move {
            let shown = once.look(key).await.unwrap().unwrap();
            db.clock().advance(LEASE / 2);
            claim.renew().await.unwrap();
            let released = operator.release(key, &shown, db.clock().now(), "stuck", false).await.unwrap();
            assert!(matches!(released, store::Settled::Lost(Some(_))), "{released:?}");
            work("done", claim).await
        }
    });
    assert!(done.await.unwrap().recorded);
}

#[tokio::test]
async fn a_refused_duplicate_does_not_remove_the_claim_of_the_one_at_work() {
    let (db, effects) = (dynamo(), Effects::default());
    let naive = Naive::new(&db);
    let handle = async || {
        let begun = naive.begin("naive").await;
        if begun {
            effects.happen("naive"); // and goes on
        } else {
            naive.delete("naive").await; // cleans up after any error, also after its own refusal
        }
        begun
    };
    assert!(handle().await && !handle().await && handle().await);
    assert_eq!(effects.taken(), 2, "the naive form: the third call works beside the first");

    let (key, done) = (closed("Ev1"), closed("Ev2"));
    abandon(&instance(&db), &key).await;
    charge(&instance(&db), &done, "100", Ok("charged 100".into())).await.unwrap();
    let before = db.items(TABLE);
    for _ in 0..3 {
        let duplicate = run(&instance(&db), &key, "duplicate").await;
        assert!(matches!(duplicate, Err(Error::InFlight { .. })), "{duplicate:?}");
        let other = charge(&instance(&db), &done, "101", Ok("charged 101".into())).await;
        assert!(matches!(other, Err(Error::Mismatch { .. })), "{other:?}");
    }
    assert_eq!(db.items(TABLE), before);
}

#[tokio::test]
async fn a_take_over_is_decided_by_the_write_and_not_by_an_earlier_read() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let naive = Naive::new(&db);
    assert!(naive.begin("naive").await);
    let seen = naive.get("naive").await.unwrap();
    naive.complete("naive", "first").await;
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    assert!(seen.outcome.is_none() && seen.progress_until_ms < db.clock().now_ms(), "it looks like an orphan");
    naive.begin_anyway("naive").await;
    assert_eq!(naive.outcome("naive").await, None, "the naive form: the outcome is gone");

    // The second claim is under way when the first is completed, and arrives when the lease is over.
    db.faults().only(Rule::new(Fault::Slow(LEASE * 2)).on("UpdateItem").call(2));
    let (once, clock) = (instance(&db), db.clock());
    let first = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| async move {
        clock.wait(Duration::from_secs(2)).await;
        work("first", claim).await
    });
    let second = async {
        clock.wait(Duration::from_secs(1)).await;
        run(&instance(&db), &key, "second").await
    };
    let started = clock.now();
    let (first, second) = tokio::join!(first, second);
    assert!(clock.now().since(started) > LEASE * 2, "the second claim was late");
    assert_eq!((first.unwrap().how, second.unwrap().how), (How::Fresh, How::Replayed));
}

#[tokio::test]
async fn a_claim_has_a_lease_although_its_caller_knows_no_deadline() {
    let db = dynamo();
    let naive = Naive::new(&db);
    let orphan = "attribute_not_exists(event_key) OR attribute_not_exists(progress_until) OR progress_until < :now";
    assert!(naive.begin_if(orphan, "naive", None).await);
    assert!(naive.begin_if(orphan, "naive", None).await, "the naive form: no deadline counts as one that has passed");

    let key = Namespace::unprefixed("events").key(["Ev1"]).unwrap();
    let (once, other) = (instance(&db), instance(&db));
    let done = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| {
        let (key, other, clock) = (&key, &other, db.clock());
        async move {
            assert_eq!(claim.deadline(), clock.now() + DEFAULT_LEASE);
            clock.advance(DEFAULT_LEASE - Duration::from_millis(1));
            let duplicate = run(other, key, "duplicate").await;
            assert!(matches!(duplicate, Err(Error::InFlight { .. })), "{duplicate:?}");
            work("first", claim).await
        }
    });
    assert!(done.await.unwrap().recorded);
}

#[tokio::test]
async fn the_record_that_was_claimed_is_completed_though_the_handler_changes_its_event() {
    let event = json!({"order": 7});
    fn change(event: &mut Value) {
        event["processed"] = true.into();
    }
    let db = dynamo();
    let (naive, mut changing) = (Naive::new(&db), event.clone());
    assert!(naive.begin(&changing.to_string()).await);
    change(&mut changing);
    naive.complete(&changing.to_string(), "done").await;
    assert_eq!(naive.outcome(&event.to_string()).await, None, "the naive form: a duplicate will not find it");

    let db = dynamo();
    let by_payload =
        |event: &LambdaEvent<Value>| Ok::<_, ichido::key::Error>(Named::from(closed(&event.payload.to_string())));
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let handler = layer.layer(service_fn(|mut event: LambdaEvent<Value>| async move {
        change(&mut event.payload);
        Ok::<_, lambda_runtime::Error>(event.payload)
    }));
    let mut context = lambda_runtime::Context::default();
    context.deadline = (db.clock().now() + LEASE).as_millis();
    for _ in 0..2 {
        let response = handler.clone().oneshot(LambdaEvent::new(event.clone(), context.clone())).await.unwrap();
        assert_eq!(response, json!({"order": 7, "processed": true}));
    }
    assert_eq!(db.items(TABLE).len(), 1);
}
