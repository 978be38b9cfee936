//! Batches: one record must not decide about the others.

use ichido::lambda::Named;
use ichido::lambda::batch::{Batch, SqsEvent, SqsMessage};
use ichido::{Clock as _, Failure, MAX_CLOCK_SKEW, OnDoubt};
use lambda_runtime::{Context, LambdaEvent};
use serde_json::{Value, json};
use testkit::Dynamo;

use crate::naive::{Effects, Naive, PAYMENTS, World, killed_at_every_call};
use crate::support::*;

/// A batch of these messages. A message's id is its body.
fn deliver(db: &Dynamo, bodies: &[&str]) -> LambdaEvent<SqsEvent> {
    let message = |body: &&str| -> Value {
        json!({"messageId": body, "receiptHandle": "h", "body": body, "attributes": {}, "messageAttributes": {},
               "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders"})
    };
    let records: Vec<Value> = bodies.iter().map(message).collect();
    let mut context = Context::default();
    context.deadline = (db.clock().now() + LEASE).as_millis();
    LambdaEvent::new(serde_json::from_value(json!({"Records": records})).unwrap(), context)
}

fn by_body(message: &SqsMessage) -> Result<Named, ichido::key::Error> {
    Ok(closed(&message.body).into())
}

#[tokio::test]
async fn a_claim_missed_for_one_record_does_not_fail_its_batch() {
    let [first, held, last] = PAYMENTS;
    let (db, effects) = (dynamo(), Effects::default());
    let naive = Naive::new(&db);
    let handle = async || {
        for body in PAYMENTS {
            if !naive.begin(body).await {
                return Err("could not acquire the lock");
            }
            effects.happen(body);
            naive.delete(body).await; // unlocks
        }
        Ok(())
    };
    assert!(naive.begin(held).await, "another function has the lock");
    handle().await.unwrap_err();
    assert_eq!((effects.count(first), effects.count(last)), (1, 0), "the naive form: the last waits for the second");
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    handle().await.unwrap();
    assert_eq!(effects.count(first), 2, "the naive form: the first comes again with its batch");
    effects.taken();

    let db = dynamo();
    abandon(&instance(&db), &closed(held)).await;
    let handle = async |bodies: &[&str]| -> Vec<String> {
        let (once, event) = (instance(&db), deliver(&db, bodies));
        let batch = Batch::new(&once, &event, by_body).on_doubt(OnDoubt::Repeat);
        let pay = |message: &SqsMessage, _claim| {
            let receipt = effects.happen(&message.body);
            async move { Ok::<_, Failure<String>>(receipt) }
        };
        batch.work(pay).await.identifiers().map(str::to_owned).collect()
    };
    assert_eq!(handle(&PAYMENTS).await, [held]);
    assert_eq!((effects.count(first), effects.count(held), effects.count(last)), (1, 0, 1));
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    assert_eq!(handle(&[held]).await, [""; 0]);
    assert_eq!(handle(&PAYMENTS).await, [""; 0], "and if all of them come again, nothing is done");
    assert_eq!(effects.taken(), 3);
}

#[tokio::test]
async fn a_batch_that_is_cut_off_does_not_start_again_what_it_had_started() {
    let naive = killed_at_every_call(&PAYMENTS, async |world| {
        for payment in PAYMENTS {
            world.pay(payment).await;
        }
        Ok(())
    });
    assert_eq!(naive.await, (1, 2), "the naive form: the whole batch comes again");

    let here = killed_at_every_call(&PAYMENTS, async |world: &World| {
        let (once, event) = (instance(&world.db), deliver(&world.db, &PAYMENTS));
        let probe = |message: &SqsMessage, _claim| {
            let payment = message.body.clone();
            async move { Ok(world.find(&payment).await) }
        };
        let pay = |message: &SqsMessage, _claim| {
            let payment = message.body.clone();
            async move { Ok::<_, Failure<String>>(world.pay(&payment).await) }
        };
        let response = Batch::new(&once, &event, by_body).probe(probe).concurrency(1).work(pay).await;
        match response.identifiers().count() {
            0 => Ok(()),
            failed => Err(format!("{failed} come again")),
        }
    });
    assert_eq!(here.await, (1, 1));
}
