//! What an instance does while the store does not answer, and when it is back.

mod support;

use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{
    Clock, DigestKey, Error, Failure, How, Key, MAX_CLOCK_SKEW, Marked, Namespace, OnDoubt, Outage, Probed, store,
};
use support::*;
use testkit::faults::{Fault, Rule};

#[tokio::test]
async fn a_duplicate_of_what_goes_on_without_the_store_asks_nobody() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().down();
    let first = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| {
        let (once, db, key) = (&once, &db, &key);
        async move {
            db.faults().heal();
            db.reset_calls();
            let duplicate = run(once, key, "duplicate").await;
            assert!(matches!(duplicate, Err(Error::InFlight { .. })), "{duplicate:?}");
            assert_eq!(db.calls().total(), 0);
            work("first", claim).await
        }
    });
    assert!(first.await.unwrap().is_fresh());
}

#[tokio::test]
async fn an_attempt_without_the_store_that_died_is_taken_over_in_doubt_when_its_lease_is_over() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    db.faults().down();
    abandon(&once, &key).await;
    db.faults().heal();
    db.clock().advance(LEASE);
    let next = once.run(&key).probe(|_| async { Ok(Probed::Done("found".to_owned())) });
    let done = next.work(|claim| work("again", claim)).await.unwrap();
    assert_eq!(done.how, How::Probed);
}

#[tokio::test]
async fn a_doubt_of_an_outage_is_written_to_the_store_where_an_operator_can_release_it() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    let refuse = |once: ichido::Once| {
        let key = key.clone();
        async move { once.run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("again", claim)).await }
    };
    db.faults().down();
    let timeout = |_| async { Err::<String, _>(Failure::Uncertain("no answer".to_owned())) };
    once.run(&key).on_doubt(OnDoubt::Refuse).work(timeout).await.unwrap_err();
    db.faults().heal();
    assert!(matches!(refuse(once.clone()).await, Err(Error::Doubtful)));
    assert_eq!(once.unwritten(), 0, "the store has the doubt");
    assert!(matches!(refuse(instance(&db)).await, Err(Error::Doubtful)), "another instance knows it too");

    let shown = once.look(&key).await.unwrap().unwrap();
    let operator = DynamoDb::new(db.client(), Table::new(TABLE, "event_key"));
    operator.release(&key, &shown, db.clock().now(), "looked: it was not done", false).await.unwrap();
    assert_eq!(refuse(once).await.unwrap().how, How::Fresh);
}

#[tokio::test]
async fn a_claim_whose_answer_was_slow_waits_for_what_goes_on_without_the_store_meanwhile() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    answer_late_then_never(&db);
    let slow = run(&once, &key, "slow");
    let meanwhile = async {
        let clock = db.clock().clone();
        clock.wait(Duration::from_secs(1)).await;
        let run = once.run(&key).on_doubt(OnDoubt::Repeat).work(|claim| async move {
            clock.wait(Duration::from_secs(10)).await;
            work("meanwhile", claim).await
        });
        run.await.unwrap()
    };
    let (slow, meanwhile) = futures::join!(slow, meanwhile);
    assert!(matches!(slow, Err(Error::InFlight { .. })), "{slow:?}");
    assert!(meanwhile.is_fresh());
}

#[tokio::test]
async fn a_claim_whose_answer_was_slow_doubts_what_died_without_the_store_meanwhile() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    answer_late_then_never(&db);
    let slow = once.run(&key).probe(|_| async { Ok(Probed::Done("found".to_owned())) });
    let slow = slow.work(|claim| work("slow", claim));
    let meanwhile = async {
        db.clock().wait(Duration::from_secs(1)).await;
        // its lease ends exactly when the answer comes
        abandon_with(&once, &key, Duration::from_secs(4)).await;
    };
    let (slow, ()) = futures::join!(slow, meanwhile);
    assert_eq!(slow.unwrap().how, How::Probed);
}

#[tokio::test]
async fn a_mark_whose_answer_was_slow_is_a_duplicate_of_one_without_the_store_meanwhile() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    answer_late_then_never(&db);
    let slow = async { once.mark(&key).await.unwrap() };
    let meanwhile = async {
        db.clock().wait(Duration::from_secs(1)).await;
        once.mark(&key).await.unwrap()
    };
    assert_eq!(futures::join!(slow, meanwhile), (Marked::Duplicate, Marked::New));
}

#[tokio::test]
async fn every_duplicate_that_the_store_answers_tells_it_of_other_keys() {
    let db = dynamo();
    let once = instance(&db);
    run(&once, &open("Ev1"), "first").await.unwrap();
    once.mark(&open("Ev2")).await.unwrap();
    db.faults().down();
    once.mark(&open("Ev3")).await.unwrap();
    db.faults().heal();
    assert_eq!(run(&once, &open("Ev1"), "second").await.unwrap().how, How::Replayed);
    assert_eq!(once.unwritten(), 0);
}

#[tokio::test]
async fn a_later_call_tells_the_store_of_a_few_keys_and_of_no_more_when_one_is_not_taken() {
    let db = dynamo();
    let outage = Outage { reconciled_per_call: 3, ..Outage::default() };
    let once = instance_with(&db, db.clock().clone(), Reported::default(), outage);
    db.faults().down();
    for n in 0..7 {
        once.mark(&open(&format!("Ev{n}"))).await.unwrap();
    }
    db.faults().heal();
    db.clock().advance(Duration::from_secs(61));
    once.mark(&open("next")).await.unwrap();
    assert_eq!(once.unwritten(), 4);
    db.reset_calls();
    db.faults().only(Rule::new(Fault::Down).calls(3..=4));
    once.mark(&open("one is taken")).await.unwrap();
    assert_eq!((once.unwritten(), db.reset_calls().total()), (3, 3));
    db.faults().heal();
    once.mark(&open("the rest")).await.unwrap();
    assert_eq!(once.unwritten(), 0);
}

#[tokio::test]
async fn what_the_store_took_without_an_answer_is_no_conflict_when_it_is_told_again() {
    let db = dynamo();
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    db.faults().down();
    once.mark(&open("Ev1")).await.unwrap();
    db.faults().only(Rule::new(Fault::LoseAnswer).call(2));
    once.mark(&open("Ev2")).await.unwrap();
    assert_eq!(once.unwritten(), 1, "for all it knows");
    once.mark(&open("Ev3")).await.unwrap();
    assert_eq!(once.unwritten(), 0);
    assert_eq!(reported.with("Reconciled"), ["Reconciled { key: \"Ev1\", conflict: false }"]);
}

#[tokio::test]
async fn what_the_store_will_never_take_is_remembered_and_holds_up_nothing() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().down();
    once.mark(&open("Ev1")).attribute("blob", "x".repeat(500 * 1024)).await.unwrap();
    once.mark(&open("Ev2")).await.unwrap();
    db.faults().heal();
    once.mark(&open("Ev3")).await.unwrap();
    assert_eq!(once.unwritten(), 0);
    assert_eq!(instance(&db).mark(&open("Ev2")).await.unwrap(), Marked::Duplicate);
    db.faults().down();
    assert_eq!(once.mark(&open("Ev1")).await.unwrap(), Marked::Duplicate);
}

#[tokio::test]
async fn what_was_done_is_told_also_if_its_claim_is_given_back_by_hand_at_that_moment() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    // The claim is made, but its answer is lost, so the work is done without the store.
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    db.faults().put(Rule::new(Fault::Down));
    let done = run(&once, &key, "first").await.unwrap();
    // Somebody releases the claim after reconciliation has read it and before it settles it.
    db.faults().only(Rule::new(Fault::Slow(Duration::from_secs(2))).on("UpdateItem").call(1));
    let telling = async { once.mark(&open("Ev2")).await.unwrap() };
    let by_hand = async {
        db.clock().wait(Duration::from_secs(1)).await;
        give_back_by_hand(&db, &key).await;
    };
    futures::join!(telling, by_hand);
    assert_eq!(once.unwritten(), 1, "the store does not know of it yet");
    once.mark(&open("Ev3")).await.unwrap();
    assert_eq!(once.unwritten(), 0);
    assert_eq!(run(&instance(&db), &key, "elsewhere").await.unwrap().value, done.value);
}

#[tokio::test]
async fn a_completion_that_is_refused_is_an_error_also_where_outages_are_not() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().only(Rule::new(Fault::Denied).call(2));
    let refused = run(&once, &open("Ev1"), "first").await;
    assert!(matches!(refused, Err(Error::Unrecorded(_))), "{refused:?}");
    assert_eq!(once.unwritten(), 1, "somebody may mend the permissions");
    assert_eq!(run(&once, &open("Ev1"), "second").await.unwrap().value, "first under fence 1");
    assert_eq!(once.unwritten(), 0, "the store has it now");
}

#[tokio::test]
async fn a_failure_that_the_store_did_not_hear_of_is_kept_and_told() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    let fail = |_| async { Err::<String, _>(Failure::Permanent("no such file".to_owned())) };
    db.faults().only(Rule::new(Fault::Down).calls(2..=3));
    once.run(&key).on_doubt(OnDoubt::Repeat).work(fail).await.unwrap_err();
    assert_eq!(once.unwritten(), 1);
    let failed = |run: &Run| matches!(run, Err(Error::Failed { reason }) if reason == "no such file");
    let duplicate = run(&once, &key, "while the store is away").await;
    assert!(failed(&duplicate), "{duplicate:?}");
    once.mark(&open("Ev2")).await.unwrap();
    assert_eq!(once.unwritten(), 0, "the store knows it, too");
    let elsewhere = run(&instance(&db), &key, "elsewhere").await;
    assert!(failed(&elsewhere), "{elsewhere:?}");
}

#[tokio::test]
async fn a_failure_that_the_store_refused_is_kept_and_written_later() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    let fail = |_| async { Err::<String, _>(Failure::Permanent("no such file".to_owned())) };
    db.faults().only(Rule::new(Fault::Denied).call(2));
    once.run(&key).on_doubt(OnDoubt::Repeat).work(fail).await.unwrap_err();
    assert_eq!(once.unwritten(), 1, "somebody may mend the permissions");
    assert!(matches!(run(&once, &key, "second").await, Err(Error::Failed { .. })));
    assert!(matches!(run(&instance(&db), &key, "elsewhere").await, Err(Error::Failed { .. })));
}

#[tokio::test]
async fn an_attempt_that_was_given_back_is_doubted_without_the_store_if_it_was_uncertain() {
    let db = dynamo();
    let once = instance(&db);
    for (name, failure, how) in
        [("Ev1", Failure::Retry as fn(String) -> Failure<String>, How::Fresh), ("Ev2", Failure::Uncertain, How::Probed)]
    {
        let key = open(name);
        once.run(&key)
            .on_doubt(OnDoubt::Repeat)
            .work(|_| async { Err::<String, _>(failure("timeout".to_owned())) })
            .await
            .unwrap_err();
        db.faults().down();
        let next = once.run(&key).probe(|_| async { Ok(Probed::Done("found".to_owned())) });
        let done = next.work(|claim| work("again", claim)).await.unwrap();
        assert_eq!(done.how, how, "{name}");
        db.faults().heal();
    }
}

/// A key of a namespace that keeps records which are not completed for longer than completed ones.
fn kept(name: &str) -> Key {
    let namespace = Namespace::unprefixed("events").lease(LEASE).retention(RETENTION);
    namespace.keep_unfinished(2 * RETENTION).fail_open().key([name]).unwrap()
}

#[tokio::test]
async fn what_is_not_completed_is_kept_for_longer_in_the_store_and_in_memory() {
    // Settled with and without the store, and asked for with and without it.
    for (settled_without, asked_without) in [(false, false), (false, true), (true, true)] {
        let at = format!("settled without: {settled_without}, asked without: {asked_without}");
        let db = dynamo();
        let once = instance(&db);
        if settled_without {
            db.faults().down();
        }
        run(&once, &kept("Ev1"), "first").await.unwrap();
        let fail = |_| async { Err::<String, _>(Failure::Permanent("no such file".to_owned())) };
        once.run(&kept("Ev2")).on_doubt(OnDoubt::Repeat).work(fail).await.unwrap_err();
        if asked_without {
            db.faults().down();
        }
        db.clock().advance(RETENTION - Duration::from_millis(1));
        assert_eq!(run(&once, &kept("Ev1"), "second").await.unwrap().how, How::Replayed, "{at}");
        db.clock().advance(Duration::from_millis(1));
        assert_eq!(run(&once, &kept("Ev1"), "third").await.unwrap().how, How::Fresh, "{at}");
        let duplicate = run(&once, &kept("Ev2"), "second").await;
        assert!(matches!(duplicate, Err(Error::Failed { .. })), "{at}: {duplicate:?}");
        db.clock().advance(RETENTION);
        assert_eq!(run(&once, &kept("Ev2"), "third").await.unwrap().how, How::Fresh, "{at}");
    }
}

#[tokio::test]
async fn a_lost_answer_to_a_first_claim_leaves_no_doubt() {
    let (db, key) = (dynamo(), closed("Ev1"));
    db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    let once = retrying(&db);
    let first = once.run(&key).probe(|_| async { Ok(Probed::Done("never asked".to_owned())) });
    let done = first.work(|claim| work("first", claim)).await.unwrap();
    assert_eq!(done.how, How::Fresh);
}

#[tokio::test]
async fn every_decision_is_reported_with_its_reason() {
    let db = dynamo();
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    let payload = |amount: &str| ichido::DigestKey::new(b"k").digests().field("amount", amount).build();
    let begun = db.clock().now();

    let first = once.run(&open("Ev1")).digests(payload("100")).on_doubt(OnDoubt::Repeat).work(|claim| {
        let once = &once;
        async move {
            run(once, &open("Ev1"), "in flight").await.unwrap_err();
            work("first", claim).await
        }
    });
    first.await.unwrap();
    run(&once, &open("Ev1"), "completed").await.unwrap();
    once.run(&open("Ev1"))
        .digests(payload("101"))
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| work("x", claim))
        .await
        .unwrap_err();
    once.run(&open("Ev2"))
        .on_doubt(OnDoubt::Repeat)
        .work(|_| async { Err::<String, _>(Failure::Permanent("no")) })
        .await
        .unwrap_err();
    run(&once, &open("Ev2"), "failed").await.unwrap_err();
    abandon(&once, &open("Ev3")).await;
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    run(&once, &open("Ev3"), "taken over").await.unwrap();
    db.faults().down();
    run(&once, &open("Ev4"), "without the store").await.unwrap();
    run(&once, &open("Ev4"), "again").await.unwrap();

    let (begun, later) = (begun + LEASE, begun + LEASE + MAX_CLOCK_SKEW + LEASE);
    let held = |fence: u64, lease_end| {
        format!("attempt: Some(Attempt {{ owner: Owner, fence: {fence}, lease_end: {lease_end:?} }}), until: None")
    };
    let told = "attempt: None, until: None".to_owned();
    let busy = format!("attempt: None, until: Some({:?})", begun + MAX_CLOCK_SKEW);
    let decided = |key: &str, decision: &str, reason: &str, fallback: bool, who: &str| {
        let latency = if fallback { "None" } else { "Some(0ns)" };
        format!(
            "Decided {{ key: {key:?}, strength: Run, decision: {decision}, reason: {reason}, store_latency: {latency}, fallback: {fallback}, first: [], {who} }}"
        )
    };
    let expected = [
        decided("Ev1", "New", "Absent", false, &held(1, begun)),
        decided("Ev1", "Duplicate", "InFlight", false, &busy),
        decided("Ev1", "Duplicate", "Completed", false, &told),
        decided("Ev1", "Duplicate", "DifferentPayload", false, &told),
        decided("Ev2", "New", "Absent", false, &held(1, begun)),
        decided("Ev2", "Duplicate", "Failed", false, &told),
        decided("Ev3", "New", "Absent", false, &held(1, begun)),
        decided("Ev3", "New", "TakenOver", false, &held(2, later)),
        decided("Ev4", "New", "Absent", true, &held(0, later)),
        decided("Ev4", "Duplicate", "Completed", true, &told),
    ];
    // Each attempt has an owner of its own.
    let anonymous = |event: String| match (event.find("Owner("), event.find(", fence")) {
        (Some(from), Some(to)) => format!("{}Owner{}", &event[..from], &event[to..]),
        _ => event,
    };
    let reported: Vec<String> = reported.with("Decided").into_iter().map(anonymous).collect();
    assert_eq!(reported, expected);
}

/// How a work fails.
type Fails = fn(&'static str) -> Failure<&'static str>;

#[tokio::test]
async fn every_end_of_a_claim_is_reported_and_so_is_what_the_store_did_not_do() {
    let db = dynamo();
    let reported = Reported::default();
    let once = instance_with(&db, db.clock().clone(), reported.clone(), Outage::default());
    let end = async |key: &str, failure: Option<Fails>| {
        let ended = once
            .run(&open(key))
            .on_doubt(OnDoubt::Repeat)
            .work(|_| async { failure.map_or(Ok(()), |failure| Err(failure("no"))) })
            .await;
        assert_eq!(ended.is_ok(), failure.is_none());
    };
    let all: [(&str, Option<Fails>); 4] = [
        ("completed", None),
        ("failed", Some(Failure::Permanent)),
        ("released", Some(Failure::Retry)),
        ("uncertain", Some(Failure::Uncertain)),
    ];
    for (key, failure) in all {
        end(key, failure).await;
    }
    let settled = |key: &str, state: &str| {
        format!("Settled {{ key: {key:?}, fence: 1, state: {state}, store_latency: Some(0ns) }}")
    };
    let expected = [
        settled("completed", "Completed"),
        settled("failed", "Failed"),
        settled("released", "Released"),
        settled("uncertain", "Released"),
    ];
    assert_eq!(reported.with("Settled"), expected);

    for (key, failure) in all {
        db.faults().only(Rule::new(Fault::Down).call(2));
        end(&format!("{key} again"), failure).await;
    }
    let operations: Vec<_> = reported
        .with("StoreFailed")
        .iter()
        .map(|failed| failed.split("operation: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned())
        .collect();
    assert_eq!(operations, ["Complete", "Fail", "Release", "Release"]);
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
