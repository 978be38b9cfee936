//! What a key names, and for whom.

use ichido::{DigestKey, Error, Failure, Key, MAX_CLOCK_SKEW, Marked, Namespace, OnDoubt, Once, Probed};
use serde_json::{Value, json};
use testkit::faults::{Fault, Rule};

use crate::naive::{Effects, Naive};
use crate::support::*;

pub(crate) fn payload(amount: &str) -> ichido::Digests {
    DigestKey::new(b"known mistakes").digests().field("amount", amount).build()
}

/// A charge of this amount that ends like this.
pub(crate) async fn charge(once: &Once, key: &Key, amount: &str, end: Result<String, Failure<String>>) -> Run {
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
async fn one_message_under_many_event_ids_is_handled_once() {
    let (db, effects) = (dynamo(), Effects::default());
    let event = |n| json!({"event_id": format!("Ev{n}"), "event": {"channel": "C1", "ts": "1737975600.000100"}});
    for event in (0..11).map(event) {
        if Naive::new(&db).begin(event["event_id"].as_str().unwrap()).await {
            effects.happen("replied");
        }
    }
    assert_eq!(effects.taken(), 11, "the naive form: the key names the delivery");

    let replies = Namespace::new("reply").lease(LEASE);
    for event in (0..11).map(event) {
        let parts = [&event["event"]["channel"], &event["event"]["ts"]].map(|part| part.as_str().unwrap());
        let key = replies.key(parts).unwrap();
        let reply = |_| async { Ok::<_, Failure<String>>(effects.happen("replied")) };
        instance(&db).run(&key).on_doubt(OnDoubt::Refuse).work(reply).await.unwrap();
    }
    assert_eq!(effects.taken(), 1, "the key names the effect");
}

#[tokio::test]
async fn another_payload_does_not_get_the_recorded_outcome() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let naive = Naive::new(&db);
    let charge_naively = async |amount: &str| {
        if naive.begin("naive").await {
            naive.complete("naive", &format!("charged {amount}")).await;
        }
        naive.outcome("naive").await.unwrap()
    };
    charge_naively("100").await;
    assert_eq!(charge_naively("900").await, "charged 100", "the naive form answers for another request");

    charge(&instance(&db), &key, "100", Ok("charged 100".into())).await.unwrap();
    let other = charge(&instance(&db), &key, "900", Ok("charged 900".into())).await.unwrap_err();
    assert!(matches!(&other, Error::Mismatch { fields } if fields == &["amount"]), "{other:?}");
}

#[tokio::test]
async fn two_events_under_one_key_are_an_error_and_not_a_duplicate() {
    let (db, effects) = (dynamo(), Effects::default());
    let events = ["order.paid", "order.shipped"];
    for kind in events {
        if Naive::new(&db).begin("order A1").await {
            effects.happen(kind);
        }
    }
    assert_eq!(effects.taken(), 1, "the naive form: the shipment is a duplicate of the payment");

    let handle = async |key: Key, kind: &str| {
        let digests = DigestKey::new(b"known mistakes").digests().field("kind", kind).build();
        let once = instance(&db);
        let run = once.run(&key).digests(digests).on_doubt(OnDoubt::Refuse);
        run.work(|_| async { Ok::<_, Failure<String>>(effects.happen(kind)) }).await
    };
    handle(closed("A1"), events[0]).await.unwrap();
    let second = handle(closed("A1"), events[1]).await;
    assert!(matches!(&second, Err(Error::Mismatch { fields }) if fields == &["kind"]), "{second:?}");
    for kind in events {
        handle(Namespace::new(kind).key(["A1"]).unwrap(), kind).await.unwrap();
    }
    assert_eq!(effects.taken(), 3);
    // Without digests nobody can tell.
    assert_eq!(instance(&db).mark(&closed("A2")).await.unwrap(), Marked::New);
    assert_eq!(instance(&db).mark(&closed("A2")).await.unwrap(), Marked::Duplicate);
}

#[tokio::test]
async fn the_same_payload_in_another_order_is_no_other_event() {
    let (db, effects) = (dynamo(), Effects::default());
    let bodies = [r#"{"order": "A1", "amount": 100}"#, r#"{"amount": 100, "order": "A1"}"#];
    for body in bodies {
        if Naive::new(&db).begin(body).await {
            effects.happen("charged");
        }
    }
    assert_eq!(effects.taken(), 2, "the naive form: the key is made of the text");

    for body in bodies {
        let event: Value = serde_json::from_str(body).unwrap();
        let (key, amount) = (closed(event["order"].as_str().unwrap()), payload(&event["amount"].to_string()));
        let once = instance(&db);
        let run = once.run(&key).digests(amount).on_doubt(OnDoubt::Refuse);
        run.work(|_| async { Ok::<_, Failure<String>>(effects.happen("charged")) }).await.unwrap();
    }
    assert_eq!(effects.taken(), 1);
}
