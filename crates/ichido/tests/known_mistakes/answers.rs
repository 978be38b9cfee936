//! Answers that the store gave and nobody got, and writes that it did not take.

use std::collections::HashSet;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue::S;
use ichido::{Error, Failure, How, Key, MAX_CLOCK_SKEW, Marked, OnDoubt, Once, Outage, Probed, State};
use testkit::faults::{Fault, Rule};

use crate::naive::{Effects, Naive};
use crate::support::*;

#[tokio::test]
async fn a_lost_answer_is_not_a_duplicate() {
    let db = dynamo();
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    let begun = Naive::new(&db).retrying(&db).begin("naive").await;
    assert!(!begun, "the naive form: the retry of its own write is a duplicate, and nobody works");
    db.reset_calls();

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
async fn the_outcome_of_a_work_that_could_not_be_recorded_is_kept_and_told() {
    let db = dynamo();
    let (naive, effects) = (Naive::new(&db), Effects::default());
    db.faults().only(Rule::new(Fault::Down).on("UpdateItem").call(1));
    for _ in 0..2 {
        assert!(naive.begin("naive").await);
        effects.happen("charged");
        if !naive.complete("naive", "charged").await {
            naive.delete("naive").await; // the handler has failed, so it is cleaned up
        }
    }
    assert_eq!(effects.taken(), 2, "the naive form takes its own failure for one of the work");

    let once = instance(&db);
    db.faults().only(Rule::new(Fault::Down).calls(2..=2));
    let error = run(&once, &closed("Ev1"), "first").await.unwrap_err();
    assert!(matches!(error, Error::Unrecorded(_)), "{error:?}");
    let replay = run(&once, &closed("Ev1"), "second").await.unwrap();
    assert_eq!(replay.value, "first under fence 1");
    let record = instance(&db).look(&closed("Ev1")).await.unwrap().unwrap();
    assert!(matches!(record.state, State::Completed { .. }), "{record:?}");
}

#[tokio::test]
async fn of_two_that_come_at_the_same_time_one_works() {
    let (db, key, effects) = (dynamo(), closed("Ev1"), Effects::default());
    let (naive, clock) = (Naive::new(&db), db.clock());
    let check_then_work = async || {
        if naive.get("naive").await.is_none() {
            clock.wait(Duration::from_secs(1)).await;
            effects.happen("charged");
            naive.complete("naive", "charged").await;
        }
    };
    tokio::join!(check_then_work(), check_then_work());
    assert_eq!(effects.taken(), 2, "the naive form asks first and writes later");

    let (here, there) = (instance(&db), instance(&db));
    let charge = async |once: &Once| {
        let effects = &effects;
        let run = once.run(&key).on_doubt(OnDoubt::Refuse);
        run.work(|claim| async move {
            clock.wait(Duration::from_secs(1)).await;
            effects.happen("charged");
            work("charged", claim).await
        })
        .await
    };
    let (first, second) = tokio::join!(charge(&here), charge(&there));
    assert!(first.unwrap().is_fresh());
    assert!(matches!(second, Err(Error::InFlight { .. })), "{second:?}");
    assert_eq!(effects.taken(), 1);
}

#[tokio::test]
async fn a_redelivery_to_another_instance_is_a_duplicate_too() {
    let (db, effects) = (dynamo(), Effects::default());
    let mut memories = [HashSet::new(), HashSet::new()];
    for memory in &mut memories {
        if memory.insert("Ev1") {
            effects.happen("handled");
        }
    }
    assert_eq!(effects.taken(), 2, "the naive form: each instance has a memory of its own");

    for once in [instance(&db), instance(&db)] {
        let handle = |_| async { Ok::<_, Failure<String>>(effects.happen("handled")) };
        once.run(&closed("Ev1")).on_doubt(OnDoubt::Refuse).work(handle).await.unwrap();
    }
    assert_eq!(effects.taken(), 1);
}

#[tokio::test]
async fn without_the_store_an_instance_admits_a_key_once_and_says_so() {
    let (db, effects, reported) = (dynamo(), Effects::default(), Reported::default());
    db.faults().down();
    let look = || db.client_without_retries().get_item().table_name(TABLE).key("event_key", S("naive".into())).send();
    for _ in 0..3 {
        let known = look().await.is_ok_and(|answer| answer.item.is_some());
        if !known {
            effects.happen("handled");
        }
    }
    assert_eq!(effects.taken(), 3, "the naive form: what cannot be looked up is new, and nobody is told");

    let open_once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    let deliver = async |once: &Once, key: &Key| {
        let handle = |_| async { Ok::<_, Failure<String>>(effects.happen("handled")) };
        once.run(key).on_doubt(OnDoubt::Refuse).work(handle).await.is_ok()
    };
    for _ in 0..3 {
        assert!(deliver(&open_once, &open("Ev1")).await);
        assert!(!deliver(&open_once, &closed("Ev2")).await, "fails closed: it comes again");
    }
    assert_eq!((effects.taken(), reported.count("AdmittedWithoutStore")), (1, 1));
    // Not promised: another instance does not know of it, as long as the store is down.
    assert!(deliver(&instance(&db), &open("Ev1")).await);
    assert_eq!(effects.taken(), 1);
}
