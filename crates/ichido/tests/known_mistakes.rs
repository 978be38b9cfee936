//! The well-known mistakes of idempotency libraries: each test is named after one and shows that this library does not make it.
//! All tests use the DynamoDB store on the embedded engine.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::dynamodb::DynamoDb;
use ichido::{
    Clock, DigestKey, Error, Failure, How, Key, Lost, MAX_CLOCK_SKEW, Marked, OnDoubt, Once, Outage, Probed, State,
    record, store,
};
use serde_json::json;
use support::*;
use testkit::Dynamo;
use testkit::faults::{Fault, Rule};

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
    let holder = instance(&db);
    let skew = i64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap();
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
async fn an_expired_but_undeleted_record_is_not_a_duplicate() {
    let db = dynamo();
    let once = instance(&db);
    once.mark(&closed("Ev1")).await.unwrap();
    run(&once, &closed("Ev2"), "first").await.unwrap();
    db.clock().advance(RETENTION);
    assert_eq!(db.items(TABLE).len(), 2, "DynamoDB has deleted nothing");
    assert_eq!(once.mark(&closed("Ev1")).await.unwrap(), Marked::New);
    assert_eq!(run(&once, &closed("Ev2"), "second").await.unwrap().how, How::Fresh);
}

#[tokio::test]
async fn a_lost_answer_is_not_a_duplicate() {
    let db = dynamo();
    let once = retrying(&db);
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    assert_eq!(once.mark(&closed("Ev1")).await.unwrap(), Marked::New);
    assert_eq!(db.calls().total(), 2, "the second attempt brought the record with its refusal");

    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    let done = run(&once, &closed("Ev2"), "claimed").await.unwrap();
    assert!(done.is_fresh() && done.recorded, "the claim's answer was lost");

    db.faults().only(Rule::new(Fault::LoseAnswer).call(2));
    let done = run(&once, &closed("Ev3"), "completed").await.unwrap();
    assert!(done.is_fresh() && done.recorded, "the completion's answer was lost");

    db.faults().heal();
    for key in ["Ev1", "Ev2", "Ev3"] {
        assert_eq!(instance(&db).mark(&closed(key)).await.unwrap(), Marked::Duplicate);
    }
}

#[tokio::test]
async fn a_lost_answer_is_recognised_with_one_extra_read_where_refusals_do_not_bring_the_record() {
    let db = dynamo();
    let once = retrying(&db);
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    db.faults().put(Rule::new(Fault::NoOldItem));
    assert_eq!(once.mark(&closed("Ev1")).await.unwrap(), Marked::New);
    let calls = db.reset_calls();
    assert_eq!((calls.of("PutItem"), calls.of("GetItem"), calls.total()), (2, 1, 3));
    assert_eq!(once.mark(&closed("Ev1")).await.unwrap(), Marked::Duplicate);
    let calls = db.reset_calls();
    assert_eq!((calls.of("PutItem"), calls.of("GetItem")), (1, 1));
}

#[tokio::test]
async fn a_lost_answer_to_a_take_over_still_leaves_the_doubt_of_a_take_over() {
    let (db, key) = (dynamo(), closed("Ev1"));
    abandon(&instance(&db), &key).await;
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    let once = retrying(&db);
    let run = once.run(&key).probe(|_| async { Ok(Probed::Done("found".to_owned())) });
    let done = run.work(|claim| work("again", claim)).await.unwrap();
    assert_eq!(done.how, How::Probed, "whoever died may have had its effect");
}

#[tokio::test]
async fn a_lost_answer_found_by_a_later_attempt_is_a_claim_that_lasts_as_long_as_it_was_made_for() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    let (db, once, key) = (&db, &once, &key);
    let first = once.run(key).on_doubt(OnDoubt::Repeat).work(|claim| async move {
        // Released by hand: the store would admit the key again, but this instance would not.
        give_back_by_hand(db, key).await;
        // A second call claims the key, but the answer is lost. It believes that the key is in flight, and waits.
        db.faults().only(Rule::new(Fault::LoseAnswer).on("UpdateItem").call(1));
        let claimed_at = once.now();
        let second = once.run(key).wait_until(claimed_at + LEASE).on_doubt(OnDoubt::Repeat).work(|claim| async move {
            assert!(once.now() > claimed_at);
            assert_eq!(claim.deadline(), claimed_at + LEASE);
            work("second", claim).await
        });
        assert_eq!(second.await.unwrap().value, "second under fence 2");
        work("first", claim).await
    });
    assert_eq!(first.await.unwrap().value, "second under fence 2");
}

#[tokio::test]
async fn the_fallback_remembers_what_the_store_accepted() {
    let db = dynamo();
    let once = instance(&db);
    once.mark(&open("Ev1")).await.unwrap();
    let first = run(&once, &open("Ev2"), "first").await.unwrap();
    instance(&db).mark(&open("Ev3")).await.unwrap();
    once.mark(&open("Ev3")).await.unwrap();
    db.faults().down();
    assert_eq!(once.mark(&open("Ev1")).await.unwrap(), Marked::Duplicate);
    assert_eq!(once.mark(&open("Ev3")).await.unwrap(), Marked::Duplicate, "seen as a duplicate, so known");
    let replay = run(&once, &open("Ev2"), "second").await.unwrap();
    assert_eq!((replay.how, replay.value), (How::Replayed, first.value));
}

#[tokio::test]
async fn the_fallback_remembers_the_payload_of_a_claim_that_was_renewed() {
    let db = dynamo();
    let once = instance(&db);
    let payload = |amount: &str| DigestKey::new(b"k").digests().field("amount", amount).build();
    let work = once.run(&open("Ev1")).digests(payload("100")).on_doubt(OnDoubt::Repeat).work(|claim| {
        let (db, once) = (&db, &once);
        async move {
            claim.renew().await.unwrap();
            db.faults().down();
            let other = once.run(&open("Ev1")).digests(payload("101"));
            let meanwhile = other.on_doubt(OnDoubt::Repeat).work(|_| async { Ok::<u32, Failure<String>>(2) }).await;
            assert!(matches!(meanwhile, Err(Error::Mismatch { .. })), "{meanwhile:?}");
            Ok::<u32, Failure<String>>(1)
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn the_fallback_remembers_what_it_accepted_itself() {
    let db = dynamo();
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    db.faults().down();
    assert_eq!(once.mark(&open("Ev1")).await.unwrap(), Marked::New);
    let done = run(&once, &open("Ev2"), "first").await.unwrap();
    assert!(done.is_fresh() && !done.recorded);
    assert_eq!(reported.count("AdmittedWithoutStore"), 2, "each was reported as it happened");
    assert_eq!(once.mark(&open("Ev1")).await.unwrap(), Marked::Duplicate);
    assert_eq!(run(&once, &open("Ev2"), "second").await.unwrap().value, done.value);

    // The store is back and does not know either key yet.
    db.faults().heal();
    db.clock().advance(Duration::from_secs(61));
    assert_eq!(once.mark(&open("Ev1")).await.unwrap(), Marked::Duplicate);
    assert_eq!(run(&once, &open("Ev2"), "third").await.unwrap().value, done.value);
    once.mark(&open("Ev3")).await.unwrap();
    assert_eq!(once.unwritten(), 0, "both are written");
    let elsewhere = instance(&db);
    assert_eq!(elsewhere.mark(&open("Ev1")).await.unwrap(), Marked::Duplicate);
    assert_eq!(run(&elsewhere, &open("Ev2"), "fourth").await.unwrap().value, done.value);
}

#[tokio::test]
async fn the_fallback_remembers_what_it_accepted_while_it_is_telling_the_store() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().down();
    for n in 0..3 {
        run(&once, &open(&format!("Ev{n}")), "first").await.unwrap();
    }
    // The store is back, but slow: the next call is still reconciling when the duplicates come.
    db.faults().only(Rule::new(Fault::Slow(Duration::from_secs(1))).on("PutItem"));
    db.clock().advance(Duration::from_secs(61));
    let telling = async { once.mark(&open("Ev9")).await.unwrap() };
    let duplicates = async {
        let mut fresh = Vec::new();
        for round in 0..40 {
            db.clock().wait(Duration::from_millis(97)).await;
            for n in 0..3 {
                let key = open(&format!("Ev{n}"));
                if run(&once, &key, "again").await.is_ok_and(|done| done.is_fresh()) {
                    fresh.push((round, n));
                }
            }
        }
        fresh
    };
    let (_, fresh) = futures::join!(telling, duplicates);
    assert_eq!(fresh, [], "none was done a second time");
}

#[tokio::test]
async fn the_fallback_keeps_what_it_was_telling_the_store_when_it_was_cut_short() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().down();
    run(&once, &open("Ev1"), "first").await.unwrap();
    db.faults().only(Rule::new(Fault::Hang).on("PutItem").call(2));
    db.clock().advance(Duration::from_secs(61));
    // An invocation ends while it reconciles: its future is dropped, but the instance goes on.
    {
        let mark = std::pin::pin!(async { once.mark(&open("Ev9")).await });
        let patience = std::pin::pin!(db.clock().wait(Duration::from_secs(5)));
        assert!(matches!(futures::future::select(mark, patience).await, futures::future::Either::Right(_)));
    }
    assert_eq!(run(&once, &open("Ev1"), "second").await.unwrap().how, How::Replayed);
    once.mark(&open("Ev10")).await.unwrap();
    assert_eq!(once.unwritten(), 0, "and the store learns of it in the end");
    assert_eq!(run(&instance(&db), &open("Ev1"), "third").await.unwrap().how, How::Replayed);
}

#[tokio::test]
async fn the_fallback_remembers_what_it_accepted_though_another_instance_is_at_the_key() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().down();
    let done = run(&once, &key, "first").await.unwrap();
    db.faults().heal();
    abandon(&instance(&db), &key).await;
    // The store is back and has the claim of another instance, which has died. Then the store fails again.
    once.mark(&open("Ev2")).await.unwrap();
    assert_eq!(run(&once, &key, "second").await.unwrap().value, done.value);
    db.faults().down();
    assert_eq!(run(&once, &key, "third").await.unwrap().value, done.value);
    // When the lease of that claim has ended, this instance writes its outcome to the store.
    db.faults().heal();
    db.clock().advance(Duration::from_secs(61));
    once.mark(&open("Ev3")).await.unwrap();
    assert_eq!(once.unwritten(), 0);
    assert_eq!(run(&instance(&db), &key, "fourth").await.unwrap().value, done.value);
}

#[tokio::test]
async fn a_claim_whose_answer_was_slow_finds_what_was_accepted_without_the_store_meanwhile() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    answer_late_then_never(&db);
    let slow = run(&once, &key, "slow");
    let meanwhile = async {
        db.clock().wait(Duration::from_secs(1)).await;
        run(&once, &key, "meanwhile").await.unwrap()
    };
    let (slow, meanwhile) = futures::join!(slow, meanwhile);
    assert!(meanwhile.is_fresh() && !meanwhile.recorded);
    let slow = slow.unwrap();
    assert_eq!((slow.how, &slow.value), (How::Replayed, &meanwhile.value));
    assert_eq!(run(&instance(&db), &key, "elsewhere").await.unwrap().value, meanwhile.value);
}

#[tokio::test]
async fn an_attempt_without_the_store_that_came_to_nothing_is_overtaken_by_what_the_store_says() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().down();
    let timeout = |_| async { Err::<String, _>(Failure::Uncertain("timeout".to_owned())) };
    once.run(&key).on_doubt(OnDoubt::Repeat).work(timeout).await.unwrap_err();
    db.faults().heal();
    let done = run(&instance(&db), &key, "elsewhere").await.unwrap();
    assert_eq!(run(&once, &key, "second").await.unwrap().value, done.value);
    assert_eq!(once.unwritten(), 0);
    db.faults().down();
    assert_eq!(run(&once, &key, "third").await.unwrap().value, done.value);
}

#[tokio::test]
async fn a_journalled_key_keeps_the_owner_of_its_timed_out_write() {
    let db = dynamo();
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    // The claim is made, but its answer is lost, and every later call fails.
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    db.faults().put(Rule::new(Fault::Down));
    let done = run(&once, &open("Ev1"), "first").await.unwrap();
    assert!(done.is_fresh() && !done.recorded);
    db.faults().heal();
    db.clock().advance(Duration::from_secs(1));
    run(&once, &open("Ev2"), "other").await.unwrap();
    assert_eq!(once.unwritten(), 0);
    assert_eq!(reported.count("Reconciled { key: \"Ev1\", conflict: false }"), 1, "its own claim is no conflict");
    assert_eq!(run(&instance(&db), &open("Ev1"), "second").await.unwrap().value, done.value);
}

#[tokio::test]
async fn metadata_cannot_overwrite_the_key_or_anything_else_of_the_record() {
    let db = dynamo();
    let once = instance(&db);
    for name in ["event_key", "ttl", "ichido_owner", "ichido_state", "ichido_anything"] {
        let mark = once.mark(&closed("Ev1")).attribute(name, "Ev2").await.unwrap_err();
        assert!(matches!(&mark, store::Error::Record(record::Error::ReservedAttribute(a)) if a == name), "{mark:?}");
        let run = once
            .run(&closed("Ev1"))
            .attribute(name, "Ev2")
            .on_doubt(OnDoubt::Repeat)
            .work(|claim| work("never", claim))
            .await;
        assert!(matches!(run, Err(Error::Store(store::Error::Record(_)))), "{run:?}");
    }
    assert!(db.items(TABLE).is_empty() && !once.is_cut_off());
    once.mark(&closed("Ev1")).attribute("file_id", "F1").attribute("name", "reserved word").await.unwrap();
    assert_eq!(db.items(TABLE)[0]["file_id"], json!({"S": "F1"}));
    run(&once, &closed("Ev2"), "x").await.unwrap();
}

#[tokio::test]
async fn a_validation_error_or_a_missing_permission_does_not_trip_the_breaker() {
    let db = dynamo();
    let once = instance(&db);
    let too_large = "x".repeat(500 * 1024);
    for _ in 0..10 {
        let error = once.mark(&open("Ev1")).attribute("blob", too_large.clone()).await.unwrap_err();
        assert_eq!(error.kind(), store::Kind::Request, "{error:?}");
    }
    for fault in [Fault::Denied, Fault::Missing] {
        db.faults().only(Rule::new(fault));
        for _ in 0..10 {
            let error = once.mark(&open("Ev1")).await.unwrap_err();
            assert_eq!(error.kind(), store::Kind::Configuration, "{error:?}");
        }
    }
    db.faults().heal();
    assert!(!once.is_cut_off());
    assert_eq!(once.mark(&open("Ev1")).await.unwrap(), Marked::New, "and nothing was admitted without the store");
}

#[tokio::test]
async fn transient_errors_do_trip_it_and_the_clock_alone_lets_one_call_probe() {
    for fault in [Fault::Down, Fault::Throttle, Fault::Error, Fault::LoseAnswer, Fault::Conflict] {
        let db = dynamo();
        let once = instance(&db);
        db.faults().only(Rule::new(fault));
        for n in 0..10 {
            once.mark(&open(&format!("Ev{n}"))).await.unwrap();
        }
        assert!(once.is_cut_off(), "{fault:?}");
        assert_eq!(db.calls().total(), 3, "{fault:?}: left alone after three failures");
        db.clock().advance(Duration::from_secs(60));
        for n in 10..20 {
            once.mark(&open(&format!("Ev{n}"))).await.unwrap();
        }
        assert_eq!(db.calls().total(), 4, "{fault:?}: one probe per minute");
    }
}

#[tokio::test]
async fn a_duplicate_of_what_is_in_flight_does_not_use_up_the_breakers_probe() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().down();
    let clock = db.clock().clone();
    let key = open("Ev1");
    once.run(&key)
        .lease(Duration::from_secs(600))
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| {
            let (once, key, db) = (&once, &key, &db);
            async move {
                for n in 0..3 {
                    once.mark(&open(&format!("other-{n}"))).await.unwrap();
                }
                assert!(once.is_cut_off());
                db.faults().heal();
                clock.advance(Duration::from_secs(61));
                let duplicate = run(once, key, "duplicate").await;
                assert!(matches!(duplicate, Err(Error::InFlight { .. })), "{duplicate:?}");
                once.mark(&open("next")).await.unwrap();
                assert!(!once.is_cut_off(), "the next call asked the store and found it well");
                work("done", claim).await
            }
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_fallback_is_bounded_and_refuses_rather_than_forgets() {
    let db = dynamo();
    let reported = Reported::default();
    let outage = Outage { known_keys: 4, journal_keys: 8, ..Outage::default() };
    let once = instance_with(&db, db.clock().clone(), reported.clone(), outage);
    db.faults().down();
    let mut admitted = 0;
    for n in 0..1000 {
        match once.mark(&open(&format!("Ev{n}"))).await {
            Ok(marked) => admitted += u32::from(marked.is_new()),
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
    assert_eq!((admitted, once.unwritten()), (8, 8));
    assert_eq!(reported.count("JournalFull"), 992);
    for n in 0..8 {
        assert_eq!(once.mark(&open(&format!("Ev{n}"))).await.unwrap(), Marked::Duplicate, "none was forgotten");
    }
}

#[tokio::test]
async fn closed_means_that_nothing_is_admitted_without_the_store() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().down();
    for n in 0..10 {
        assert!(once.mark(&closed(&format!("Ev{n}"))).await.unwrap_err().is_transient());
        assert!(matches!(run(&once, &closed("Ev"), "never").await, Err(Error::Store(_))));
    }
}

#[tokio::test]
async fn success_is_not_reported_for_an_event_that_is_merely_in_flight() {
    use ichido::lambda::{Named, OnceLayer};
    use lambda_runtime::tower::{Layer, Service, service_fn};
    use lambda_runtime::{Context, LambdaEvent};

    let db = dynamo();
    let layer = OnceLayer::new(instance(&db), |event: &LambdaEvent<String>| {
        Ok::<_, ichido::key::Error>(Named::from(closed(&event.payload)))
    })
    .on_doubt(OnDoubt::Repeat);
    let clock = db.clock().clone();
    let event = move || {
        let mut context = Context::default();
        context.deadline = (clock.now() + LEASE).as_millis();
        LambdaEvent::new("Ev1".to_owned(), context)
    };
    let (entered, has_entered) = tokio::sync::oneshot::channel();
    let entered = Arc::new(Mutex::new(Some(entered)));
    let (go_on, may_go_on) = tokio::sync::watch::channel(false);
    let handler = layer.layer(service_fn(move |_event: LambdaEvent<String>| {
        let (entered, mut may_go_on) = (entered.lock().unwrap().take(), may_go_on.clone());
        async move {
            entered.unwrap().send(()).unwrap();
            may_go_on.wait_for(|go| *go).await.unwrap();
            Ok::<_, lambda_runtime::Error>("handled".to_owned())
        }
    }));
    let first = tokio::spawn(handler.clone().call(event()));
    has_entered.await.unwrap();

    let error = handler.clone().call(event()).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("another call is working on it; its lease ends at 20"), "{error}");

    go_on.send(true).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), "handled");
    assert_eq!(handler.clone().call(event()).await.unwrap(), "handled", "and now the response is replayed");
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
async fn a_record_of_a_newer_format_is_an_error_and_stays_as_it_is() {
    let db = dynamo();
    let once = instance(&db);
    let item = json!({"event_key": {"S": "Ev1"}, "ichido_format": {"N": "2"}, "ichido_state": {"S": "claimed"},
                      "ichido_lease_until": {"N": "0"}, "ichido_owner": {"S": "x"}, "ichido_fence": {"N": "1"}});
    db.must("PutItem", &json!({"TableName": TABLE, "Item": item}));
    for error in [
        once.mark(&open("Ev1")).await.unwrap_err(),
        once.look(&open("Ev1")).await.unwrap_err(),
        match run(&once, &open("Ev1"), "never").await.unwrap_err() {
            Error::Store(error) => error,
            other => panic!("{other:?}"),
        },
    ] {
        assert!(matches!(error, store::Error::Record(record::Error::NewerFormat { found: 2 })), "{error:?}");
    }
    assert_eq!(db.items(TABLE), [item]);
}

#[tokio::test]
async fn the_outcome_of_a_work_that_could_not_be_recorded_is_kept_and_told() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().only(Rule::new(Fault::Down).calls(2..=2));
    let error = run(&once, &closed("Ev1"), "first").await.unwrap_err();
    assert!(matches!(error, Error::Unrecorded(_)), "{error:?}");
    let replay = run(&once, &closed("Ev1"), "second").await.unwrap();
    assert_eq!(replay.value, "first under fence 1");
    let record = instance(&db).look(&closed("Ev1")).await.unwrap().unwrap();
    assert!(matches!(record.state, State::Completed { .. }), "{record:?}");
}

fn payload(amount: &str) -> ichido::Digests {
    DigestKey::new(b"known mistakes").digests().field("amount", amount).build()
}

/// A charge of this amount that ends like this.
async fn charge(once: &Once, key: &Key, amount: &str, end: Result<String, Failure<String>>) -> Run {
    let probe = |_| async { Ok(Probed::<String>::NotDone) };
    once.run(key).digests(payload(amount)).probe(probe).work(|_| async { end }).await
}

#[tokio::test]
async fn another_payload_cannot_take_over_a_key_that_failed() {
    for (failure, name) in [
        (Failure::Uncertain as fn(String) -> Failure<String>, "uncertain"),
        (Failure::Retry as fn(String) -> Failure<String>, "retry"),
    ] {
        let (db, key) = (dynamo(), closed("Ev1"));
        let once = instance(&db);
        charge(&once, &key, "100", Err(failure("no answer".into()))).await.unwrap_err();
        for other in [&once, &instance(&db)] {
            let refused = charge(other, &key, "101", Ok("charged 101".into())).await.unwrap_err();
            assert!(matches!(&refused, Error::Mismatch { fields } if fields == &["amount"]), "{name}: {refused:?}");
        }
        let done = charge(&once, &key, "100", Ok("charged 100".into())).await.unwrap();
        assert_eq!(done.value, "charged 100", "{name}: the first payload keeps its key");
    }
}

#[tokio::test]
async fn another_payload_cannot_take_over_a_lapsed_claim() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let mut first = Box::pin(charge_for_ever(&once, &key));
    while db.items(TABLE).is_empty() {
        assert!(futures::poll!(first.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    std::mem::forget(first); // the worker died
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    let refused = charge(&instance(&db), &key, "101", Ok("charged 101".into())).await.unwrap_err();
    assert!(matches!(refused, Error::Mismatch { .. }), "{refused:?}");
    let done = charge(&instance(&db), &key, "100", Ok("charged 100".into())).await.unwrap();
    assert_eq!(done.value, "charged 100");
}

async fn charge_for_ever(once: &Once, key: &Key) -> Run {
    let run = once.run(key).digests(payload("100")).on_doubt(OnDoubt::Repeat);
    run.work(|_| async { std::future::pending::<Result<String, Failure<String>>>().await }).await
}

#[tokio::test]
async fn another_payload_cannot_take_over_a_key_in_an_outage() {
    for failure in
        [Failure::Uncertain as fn(String) -> Failure<String>, Failure::Retry as fn(String) -> Failure<String>]
    {
        let (db, key) = (dynamo(), open("Ev1"));
        let once = instance(&db);
        charge(&once, &key, "100", Err(failure("no answer".into()))).await.unwrap_err();
        db.faults().only(Rule::new(Fault::Down));
        let refused = charge(&once, &key, "101", Ok("charged 101".into())).await.unwrap_err();
        assert!(matches!(refused, Error::Mismatch { .. }), "{refused:?}");
        // What was released during the outage keeps its digests too.
        charge(&once, &key, "100", Err(failure("no answer".into()))).await.unwrap_err();
        let refused = charge(&once, &key, "101", Ok("charged 101".into())).await.unwrap_err();
        assert!(matches!(refused, Error::Mismatch { .. }), "{refused:?}");
        assert_eq!(charge(&once, &key, "100", Ok("charged 100".into())).await.unwrap().value, "charged 100");
    }
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
async fn a_question_mark_after_the_effect_does_not_repeat_it() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let charged = Arc::new(Mutex::new(0));
    let attempt = || {
        let (charged, asked) = (charged.clone(), charged.clone());
        once.run(&key)
            .probe(
                move |_| async move { Ok(if *asked.lock().unwrap() > 0 { Probed::Done(7) } else { Probed::NotDone }) },
            )
            .work(move |_| async move {
                *charged.lock().unwrap() += 1;
                let receipt: u32 = "not a number".parse().map_err(|_| "the answer cannot be read".to_owned())?;
                Ok::<_, Failure<String>>(receipt)
            })
    };
    assert!(matches!(attempt().await.unwrap_err(), Error::Work(_)));
    let done = attempt().await.unwrap();
    assert_eq!((done.value, done.how, *charged.lock().unwrap()), (7, How::Probed, 1));
}

#[tokio::test]
async fn what_an_error_means_can_be_said_of_any_result() {
    use ichido::OrFailure as _;
    type BoxError = Box<dyn std::error::Error + Send + Sync>;
    fn parse(text: &str) -> Result<u32, Failure<BoxError>> {
        let units: u32 = text.parse().or_permanent()?;
        let text = std::str::from_utf8(if units == 1 { &[0xff] } else { b"2" }).or_retry()?;
        Ok(text.parse::<u32>().or_uncertain::<BoxError>()? + units)
    }
    assert!(matches!(parse("x"), Err(Failure::Permanent(_))));
    assert!(matches!(parse("1"), Err(Failure::Retry(_))));
    assert!(matches!(parse("3"), Ok(5)));
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_not_reported_as_in_flight() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let past = db.clock().now();
    let run =
        instance(&db).run(&key).lease_until(past).on_doubt(OnDoubt::Repeat).work(|claim| work("never", claim)).await;
    assert!(matches!(run, Err(Error::DeadlinePassed { deadline }) if deadline == past), "{run:?}");
    assert!(db.items(TABLE).is_empty(), "no claim was made");
}

#[tokio::test]
async fn an_outcome_of_a_type_that_changed_is_not_reported_as_undone() {
    let (db, key) = (dynamo(), closed("Ev1"));
    run(&instance(&db), &key, "first").await.unwrap();
    let changed =
        instance(&db).run(&key).on_doubt(OnDoubt::Repeat).work(|_| async { Ok::<u32, Failure<String>>(1) }).await;
    assert!(matches!(changed, Err(Error::DoneWithoutValue(ichido::NoValue::Unreadable(_)))), "{changed:?}");
    assert_eq!(instance(&db).mark(&closed("Ev2")).await.unwrap(), Marked::New);
    let marked = run(&instance(&db), &closed("Ev2"), "never").await;
    assert!(matches!(marked, Err(Error::DoneWithoutValue(ichido::NoValue::Nothing))), "{marked:?}");
}

#[tokio::test]
async fn an_open_breaker_does_not_cut_off_a_namespace_that_fails_closed() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().put(Rule::new(Fault::Down).calls(1..=3));
    for _ in 0..3 {
        assert!(matches!(run(&once, &closed("Ev1"), "never").await, Err(Error::Store(_))));
    }
    assert!(!once.is_cut_off(), "calls that have no alternative do not open the breaker");
    assert_eq!(run(&once, &closed("Ev1"), "first").await.unwrap().how, How::Fresh);
    db.faults().put(Rule::new(Fault::Down).calls(1..=3));
    for key in ["a", "b", "c"] {
        once.mark(&open(key)).await.unwrap();
    }
    assert!(once.is_cut_off());
    assert_eq!(run(&once, &closed("Ev2"), "second").await.unwrap().how, How::Fresh);
}

#[tokio::test]
async fn a_call_that_waits_reports_its_decision_once() {
    let (db, key) = (dynamo(), closed("Ev1"));
    abandon(&instance(&db), &key).await;
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    let wait = || once.run(&key).wait_until(db.clock().now() + LEASE * 3).on_doubt(OnDoubt::Repeat);
    wait().work(|claim| work("taken over", claim)).await.unwrap();
    assert_eq!(reported.count("Decided"), 1, "{:?}", reported.with("Decided"));
    assert!(reported.with("Decided")[0].contains("TakenOver"), "{:?}", reported.with("Decided"));

    let key = closed("Ev2");
    let (entered, has_entered) = tokio::sync::oneshot::channel();
    let other = instance(&db);
    let first = other.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| {
        let clock = db.clock().clone();
        async move {
            entered.send(()).unwrap();
            clock.wait(Duration::from_secs(3)).await;
            work("first", claim).await
        }
    });
    let second = async {
        has_entered.await.unwrap();
        once.run(&key)
            .wait_until(db.clock().now() + LEASE)
            .on_doubt(OnDoubt::Repeat)
            .work(|claim| work("second", claim))
            .await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.unwrap().how, second.unwrap().how), (How::Fresh, How::Replayed));
    assert_eq!(reported.count("Decided"), 2);
    assert!(reported.with("Decided")[1].contains("Completed"), "{:?}", reported.with("Decided"));
}

#[tokio::test]
async fn a_run_that_refuses_doubt_changes_nothing_until_somebody_releases_the_key() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let refuse = |once: &Once| {
        let (once, key) = (once.clone(), key.clone());
        async move { once.run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("again", claim)).await }
    };
    let timeout = |_| async { Err::<String, _>(Failure::Uncertain("no answer".to_owned())) };
    once.run(&key).on_doubt(OnDoubt::Refuse).work(timeout).await.unwrap_err();
    let before = db.items(TABLE);
    for once in [&once, &instance(&db)] {
        assert!(matches!(refuse(once).await, Err(Error::Doubtful)));
    }
    assert_eq!(db.items(TABLE), before, "nothing was changed");

    // An operator looked at the destination: it was not done.
    let operator = DynamoDb::new(db.client(), ichido::dynamodb::Table::new(TABLE, "event_key"));
    let shown = once.look(&key).await.unwrap().unwrap();
    let mut stale = shown.clone();
    stale.fence += 1;
    let (now, looked) = (db.clock().now(), "looked: it was not done");
    assert!(matches!(operator.release(&key, &stale, now, looked, false).await.unwrap(), store::Settled::Lost(_)));
    assert_eq!(db.items(TABLE), before, "the record is not the one that the operator saw");
    assert!(matches!(operator.release(&key, &shown, now, looked, false).await.unwrap(), store::Settled::Done));
    assert_eq!(refuse(&instance(&db)).await.unwrap().how, How::Fresh);

    let key = closed("Ev2");
    abandon(&instance(&db), &key).await;
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    let lapsed = instance(&db).run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("again", claim)).await;
    assert!(matches!(lapsed, Err(Error::Doubtful)), "a worker that died leaves a doubt: {lapsed:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_does_not_keep_its_key_for_the_whole_lease() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let (entered, has_entered) = tokio::sync::oneshot::channel();
    let dropped = once.run(&key).on_doubt(OnDoubt::Repeat).work(|_| async move {
        entered.send(()).unwrap();
        std::future::pending::<Result<String, Failure<String>>>().await
    });
    tokio::select! {
        _ = dropped => unreachable!("it never ends"),
        entered = has_entered => entered.unwrap(),
    }
    let asked = Arc::new(Mutex::new(0));
    let next = || {
        let asked = asked.clone();
        let probe = move |_| async move {
            *asked.lock().unwrap() += 1;
            Ok(Probed::NotDone)
        };
        once.run(&key).probe(probe).work(|claim| work("next", claim))
    };
    let done = eventually(next).await;
    assert_eq!((done.how, *asked.lock().unwrap()), (How::Fresh, 1), "the work had begun, so the probe is asked");
}

#[tokio::test]
async fn a_work_that_panics_does_not_keep_its_key_for_the_whole_lease() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let (panicking, of) = (once.clone(), key.clone());
    let panicked = tokio::spawn(async move {
        let work = |_| async { panic!("as a bug would") };
        panicking.run(&of).on_doubt(OnDoubt::Repeat).work::<String, String, _, _>(work).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    let done = eventually(|| {
        once.run(&key).probe(|_| async { Ok(Probed::Done("found".to_owned())) }).work(|claim| work("never", claim))
    })
    .await;
    assert_eq!((done.value.as_str(), done.how), ("found", How::Probed));
}

/// Repeats a run that finds its key in flight, while the task that releases the key goes on. Time stands still meanwhile.
async fn eventually<F: Future<Output = Run>>(run: impl Fn() -> F) -> ichido::Done<String> {
    for _ in 0..1_000 {
        match run().await {
            Err(Error::InFlight { .. }) => tokio::task::yield_now().await,
            ended => return ended.unwrap(),
        }
    }
    panic!("the key was never released");
}

#[tokio::test]
async fn a_claim_that_is_kept_alive_outlives_its_lease() {
    let (db, key) = (dynamo(), closed("Ev1"));
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
    let effects = Mutex::new(0);
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
async fn a_replay_has_the_attributes_of_the_call_that_did_the_work() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    for trace in ["first", "second"] {
        let run = once.run(&key).attribute("trace", trace).on_doubt(OnDoubt::Repeat);
        let done = run.work(|claim| work("done", claim)).await.unwrap();
        let first = if done.is_fresh() { vec![] } else { vec![("trace".to_owned(), json!("first"))] };
        assert_eq!(done.first, first);
    }
    assert!(reported.with("Decided")[1].contains("first: [(\"trace\", String(\"first\"))]"));
}

#[tokio::test]
async fn an_item_of_an_earlier_system_is_an_error_unless_the_table_says_what_it_means() {
    use aws_sdk_dynamodb::types::AttributeValue;
    use ichido::NoValue;
    use ichido::dynamodb::{Foreign, Table};
    let db = dynamo();
    let now = db.clock().now().as_secs();
    for (name, ttl) in [("live", Some(now + 60)), ("expired", Some(now)), ("for-ever", None)] {
        let mut put = db.client().put_item().table_name(TABLE).item("event_key", AttributeValue::S(name.into()));
        put = put.item("processed_at", AttributeValue::S("2026-11-01T00:00:00Z".into()));
        if let Some(ttl) = ttl {
            put = put.item("ttl", AttributeValue::N(ttl.to_string()));
        }
        put.send().await.unwrap();
    }
    let table = Table::new(TABLE, "event_key");
    let once = |table| Once::builder(DynamoDb::new(db.client(), table)).clock(db.clock().clone()).build();
    let refusing = run(&once(table.clone()), &closed("live"), "again").await;
    assert!(matches!(refusing, Err(Error::Store(store::Error::Record(record::Error::Missing(_))))), "{refusing:?}");

    let once = once(table.foreign(Foreign::Done));
    for name in ["live", "for-ever"] {
        let done = run(&once, &closed(name), "again").await;
        assert!(matches!(done, Err(Error::DoneWithoutValue(NoValue::Foreign))), "{name}: {done:?}");
        assert_eq!(once.mark(&closed(name)).await.unwrap(), Marked::Duplicate, "{name}");
    }
    assert!(run(&once, &closed("expired"), "again").await.unwrap().is_fresh());
}

#[tokio::test]
async fn an_error_says_whether_and_when_to_try_again() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    abandon(&once, &key).await;
    let in_flight = run(&once, &key, "again").await.unwrap_err();
    assert!(in_flight.is_retryable());
    assert_eq!(in_flight.retry_after(db.clock().now()), Some(LEASE + MAX_CLOCK_SKEW));
    db.faults().down();
    let down = run(&once, &key, "again").await.unwrap_err();
    assert!(down.is_retryable() && down.retry_after(db.clock().now()).is_none(), "{down:?}");
    db.faults().heal();
    let failed = closed("Ev2");
    let never = |_| async { Err::<String, _>(Failure::Permanent("never".to_owned())) };
    once.run(&failed).on_doubt(OnDoubt::Repeat).work(never).await.unwrap_err();
    assert!(!run(&once, &failed, "again").await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_duplicate_waits_as_long_as_it_was_told() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    abandon(&once, &key).await;
    let before = db.clock().now();
    let waited = once.run(&key).wait(LEASE / 2).on_doubt(OnDoubt::Repeat).work(|claim| work("again", claim)).await;
    assert!(matches!(waited, Err(Error::InFlight { .. })), "{waited:?}");
    assert_eq!(db.clock().now().since(before), LEASE / 2);
}

#[tokio::test]
async fn a_permanent_failure_does_not_hide_that_an_earlier_attempt_may_have_had_its_effect() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let end = |failure: fn(String) -> Failure<String>| {
        let run = once.run(&key).on_doubt(OnDoubt::Repeat);
        run.work(move |_| async move { Err::<String, _>(failure("no".into())) })
    };
    end(Failure::Uncertain).await.unwrap_err();
    end(Failure::Permanent).await.unwrap_err();
    let state = once.look(&key).await.unwrap().unwrap().state;
    assert!(matches!(state, State::Released { uncertain: true, .. }), "{state:?}");
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
async fn a_claim_on_an_expired_record_of_a_newer_format_can_be_completed() {
    use aws_sdk_dynamodb::types::AttributeValue;
    let (db, key) = (dynamo(), closed("Ev1"));
    let number = |n: u64| AttributeValue::N(n.to_string());
    let put = db.client().put_item().table_name(TABLE).item("event_key", AttributeValue::S("Ev1".into()));
    let put = put.item("ichido_format", number(2)).item("ichido_fence", number(7)).item("ttl", number(1));
    put.send().await.unwrap();
    let done = run(&instance(&db), &key, "next").await.unwrap();
    assert_eq!((done.value.as_str(), done.recorded), ("next under fence 8", true));
}

#[tokio::test]
async fn an_attribute_that_is_given_twice_has_its_later_value() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let run = once.run(&key).attribute("trace", "one").attribute("trace", "two").on_doubt(OnDoubt::Repeat);
    run.work(|claim| work("done", claim)).await.unwrap();
    assert_eq!(db.items(TABLE)[0]["trace"]["S"], "two");
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
