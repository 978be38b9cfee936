//! What a call of `run` tells its caller, and what it reads and writes in a record.

mod support;

use std::time::Duration;

use ichido::dynamodb::DynamoDb;
use ichido::{Clock, Error, Failure, How, MAX_CLOCK_SKEW, Marked, OnDoubt, Once, Outage, record, store};
use serde_json::json;
use support::*;

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
async fn an_observer_learns_who_holds_a_claim_for_how_long_and_when_its_work_ended() {
    let db = dynamo();
    let (clock, reported) = (db.clock().clone(), Reported::default());
    let once = instance_with(&db, clock.clone(), reported.clone(), Outage::default());
    let began = clock.now();
    let done = once.run(&closed("Ev1")).on_doubt(OnDoubt::Repeat).work(async |claim| {
        clock.advance(Duration::from_secs(7));
        claim.renew().await.expect("renewed");
        let meanwhile =
            run(&instance_with(&db, clock.clone(), reported.clone(), Outage::default()), &closed("Ev1"), "late").await;
        assert!(matches!(meanwhile, Err(Error::InFlight { .. })), "{meanwhile:?}");
        Ok::<_, Failure<String>>("done".to_owned())
    });
    assert_eq!(done.await.expect("an outcome").value, "done");
    let one = |word: &str| reported.with(word).pop().unwrap_or_default();
    let owner = db.items(TABLE)[0]["ichido_owner"]["S"].as_str().unwrap_or_default().to_owned();
    let decided = reported.with("Decided");
    let attempt = |lease_end| format!("Attempt {{ owner: Owner({owner}), fence: 1, lease_end: {lease_end:?} }}");
    assert!(decided[0].contains(&attempt(began + LEASE)), "{decided:?}");
    assert!(decided[0].contains("until: None"), "{decided:?}");
    let renewed = began + Duration::from_secs(7) + LEASE;
    assert!(one("Renewed").contains(&attempt(renewed)), "{}", one("Renewed"));
    assert!(decided[1].contains("attempt: None"), "{decided:?}");
    assert!(decided[1].contains(&format!("until: Some({:?})", renewed + MAX_CLOCK_SKEW)), "{decided:?}");
    assert!(one("Worked").contains("fence: 1, done: true, took: 7s"), "{}", one("Worked"));
    assert!(one("Settled").contains("fence: 1, state: Completed"), "{}", one("Settled"));
}
