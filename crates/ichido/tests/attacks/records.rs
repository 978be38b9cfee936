//! Records that cannot be read, and claims whose holder is late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::support::*;
use ichido::*;
use serde_json::json;

#[tokio::test]
async fn a_doubt_in_a_record_that_cannot_be_read_is_not_lost() {
    for odd in [
        json!({"ttl": {"S": "never"}}),
        json!({"ichido_reason": {"N": "1"}}),
        json!({"ichido_updated_at": {"N": "1.5"}}),
    ] {
        let (db, key) = (dynamo(), closed("Ev1"));
        let mut item = json!({"event_key": {"S": "Ev1"}, "ichido_format": {"N": "1"}, "ichido_state": {"S": "released"},
            "ichido_uncertain": {"BOOL": true}, "ichido_owner": {"S": "x"}, "ichido_fence": {"N": "3"}, "ichido_updated_at": {"N": "1"}});
        item.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
        db.must("PutItem", &json!({"TableName": TABLE, "Item": item}));
        let worked = Arc::new(AtomicU32::new(0));
        let w = worked.clone();
        let done = instance(&db)
            .run(&key)
            .probe(|_| async { Ok(Probed::Done("found".to_owned())) })
            .work(|claim| async move {
                w.fetch_add(1, Ordering::SeqCst);
                work("again", claim).await
            })
            .await;
        assert_eq!(worked.load(Ordering::SeqCst), 0, "{odd}: {done:?}");
    }
}

#[tokio::test]
async fn a_release_by_hand_ends_a_claim_although_its_worker_renews_it() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let once = instance(&db);
    let clock = db.clock().clone();
    let long = once.run(&key).keep_alive().on_doubt(OnDoubt::Repeat).work(|claim| async move {
        for _ in 0..10 {
            clock.wait(Duration::from_secs(7)).await;
            claim.renew().await.map_err(|e| Failure::Uncertain(e.to_string()))?;
        }
        Ok::<_, Failure<String>>("late".to_owned())
    });
    let operator = async {
        db.clock().wait(Duration::from_secs(31)).await;
        give_back_by_hand(&db, &key).await;
        run(&instance(&db), &key, "next").await
    };
    let (long, next) = futures::join!(long, operator);
    assert!(long.is_err() && next.is_ok(), "{long:?} {next:?}");
}

#[tokio::test]
async fn keep_alive_cancels_the_work_of_a_process_that_was_frozen_for_longer_than_its_lease() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let clock = testkit::ManualClock::held();
    let make = || instance_with(&db, clock.clone(), Reported::default(), Outage::default());
    let charges = Arc::new(AtomicU32::new(0));
    let (one, two) = (make(), make());
    let (c, w) = (charges.clone(), clock.clone());
    let mut frozen = Box::pin(one.run(&key).keep_alive().on_doubt(OnDoubt::Refuse).work(|_| async move {
        w.wait(Duration::from_secs(1)).await; // it is about to charge
        c.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Failure<String>>("frozen".to_owned())
    }));
    for _ in 0..50 {
        assert!(futures::poll!(&mut frozen).is_pending());
        tokio::task::yield_now().await;
    }
    clock.advance(LEASE + MAX_CLOCK_SKEW); // it is not polled: the process is frozen
    let (c, asked) = (charges.clone(), charges.clone());
    let next = two
        .run(&key)
        .probe(|_| async move {
            Ok(if asked.load(Ordering::SeqCst) > 0 { Probed::Done("done".to_owned()) } else { Probed::NotDone })
        })
        .work(|_| async move {
            c.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Failure<String>>("next".to_owned())
        })
        .await
        .unwrap();
    assert_eq!(next.how, How::Fresh);
    let thawed = frozen.await;
    assert_eq!(charges.load(Ordering::SeqCst), 1, "{thawed:?}");
}
