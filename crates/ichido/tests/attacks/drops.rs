//! Calls that are dropped while the store is slow, and what an earlier system left in the table.

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use super::support::*;
use super::{ends_within, settle_tasks};
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode};
use ichido::dynamodb::{DynamoDb, Foreign, Table};
use ichido::http::{HEADER, IdempotencyLayer, RECORDED};
use ichido::store::{Admit, Admitted, Settle, Settled};
use ichido::*;
use ichido_testkit::model::Memory;
use serde_json::json;
use testkit::faults::{Fault, Rule};
use tower::{Layer as _, ServiceExt as _};

fn undecided(once: &Once) -> IdempotencyLayer {
    IdempotencyLayer::new(once.clone(), Namespace::new("p").lease(LEASE), DigestKey::new(b"s"), |_| {
        Ok::<_, StatusCode>(["alice"])
    })
}

fn post(key: &str) -> Request<Body> {
    Request::post("/p").header(HEADER, key).body(Body::from("1")).unwrap()
}

#[tokio::test]
async fn what_the_probe_found_reaches_its_client_though_the_store_cannot_record_it() {
    let db = dynamo();
    let layer = undecided(&instance(&db)).probe(|_, _| async {
        Ok::<_, std::io::Error>(Probed::Done(Response::builder().status(201).body(Bytes::from("charged")).unwrap()))
    });
    let service = layer.layer(tower::service_fn(move |_: Request<Body>| async move {
        Ok::<_, std::convert::Infallible>(Response::builder().status(500).body(Body::empty()).unwrap())
    }));
    assert_eq!(service.clone().oneshot(post("k")).await.unwrap().status(), 500);
    db.faults().only(Rule::new(Fault::Down).call(2));
    let second = service.oneshot(post("k")).await.unwrap();
    assert_eq!(
        (second.status().as_u16(), second.headers().get(RECORDED).map(|v| v.as_bytes())),
        (201, Some(&b"false"[..]))
    );
}

#[tokio::test]
async fn a_late_worker_that_is_dropped_does_not_make_its_instance_forget_its_successor() {
    let (db, key) = (dynamo(), open("Ev1"));
    let once = instance(&db);
    let mut late = Box::pin(
        once.run(&key)
            .on_doubt(OnDoubt::Repeat)
            .work(|_| async { std::future::pending::<Result<String, Failure<String>>>().await }),
    );
    let clock = db.clock().clone();
    tokio::select! {
        _ = &mut late => unreachable!(),
        () = clock.wait(LEASE + MAX_CLOCK_SKEW + Duration::from_secs(1)) => {}
    }
    let done = run(&once, &key, "successor").await.unwrap();
    assert!(done.recorded);
    drop(late);
    settle_tasks().await;
    db.faults().down();
    let next = run(&once, &key, "again").await.unwrap();
    assert_eq!(next.value, done.value);
}

#[tokio::test]
async fn odd_foreign_items_count_as_done() {
    for ttl in [
        json!({"S": "1"}),
        json!({"N": "99999999999999999999999999999999999999"}),
        json!({"L": []}),
        json!({"NULL": true}),
        json!({"S": "2026-01-01"}),
        json!({"N": "17672256000000"}),
        json!(null),
    ] {
        let (db, key) = (dynamo(), closed("Ev1"));
        let mut item = json!({"event_key": {"S": "Ev1"}, "status": {"S": "COMPLETED"}});
        if !ttl.is_null() {
            item["ttl"] = ttl.clone();
        }
        db.must("PutItem", &json!({"TableName": TABLE, "Item": item}));
        let store = DynamoDb::new(db.client(), Table::new(TABLE, "event_key").foreign(Foreign::Done));
        let once = Once::builder(store).clock(db.clock().clone()).build();
        for refuse in [OnDoubt::Refuse, OnDoubt::Repeat] {
            let done = once.run(&key).on_doubt(refuse).work(|c| work("x", c)).await;
            assert!(matches!(done, Err(Error::DoneWithoutValue(_))), "{ttl}: {done:?}");
        }
        assert_eq!(once.mark(&key).await.unwrap(), Marked::Duplicate, "{ttl}");
    }
}

/// A store behind a network: a request that was sent is performed, whether or not its caller still waits.
#[derive(Clone)]
struct Network {
    store: Memory,
    there: u32,
    back: u32,
}

impl Network {
    async fn go<T: Send + 'static>(&self, call: impl Future<Output = T> + Send + 'static) -> T {
        let there = self.there;
        let task = tokio::spawn(async move {
            for _ in 0..there {
                tokio::task::yield_now().await;
            }
            call.await
        });
        let answer = task.await.unwrap();
        for _ in 0..self.back {
            tokio::task::yield_now().await;
        }
        answer
    }
}

impl Store for Network {
    async fn admit(&self, r: &Admit<'_>) -> Result<Admitted, store::Error> {
        let (store, key, owner, state, digests, attributes) = (
            self.store.clone(),
            r.key.clone(),
            r.owner.clone(),
            r.state.clone(),
            r.digests.cloned(),
            r.attributes.clone(),
        );
        let (now, expires_at, refuses_doubt) = (r.now, r.expires_at, r.refuses_doubt);
        self.go(async move {
            store
                .admit(&Admit {
                    key: &key,
                    owner,
                    now,
                    state,
                    expires_at,
                    digests: digests.as_ref(),
                    attributes: &attributes,
                    refuses_doubt,
                })
                .await
        })
        .await
    }
    async fn settle(&self, r: &Settle<'_>) -> Result<Settled, store::Error> {
        let (store, key, owner, to, fence, now, expires_at) =
            (self.store.clone(), r.key.clone(), r.owner.clone(), r.to.clone(), r.fence, r.now, r.expires_at);
        self.go(async move { store.settle(&Settle { key: &key, owner, fence, now, to, expires_at }).await }).await
    }
    async fn read(&self, key: &Key) -> Result<Option<Record>, store::Error> {
        let (store, key) = (self.store.clone(), key.clone());
        self.go(async move { store.read(&key).await }).await
    }
}

/// Drops a call after each number of polls, and calls again. Returns what was wrong about the second call.
async fn dropped_at_every_poll(there: u32, back: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for before in ["nothing", "released"] {
        for keep_alive in [false, true] {
            for n in 0..200 {
                let key = closed("Ev1");
                let memory = Memory::new();
                let once = Once::new(Network { store: memory.clone(), there, back });
                if before == "released" {
                    let no = |_| async { Err::<String, _>(Failure::Retry("busy".to_owned())) };
                    once.run(&key).on_doubt(OnDoubt::Refuse).work(no).await.unwrap_err();
                }
                let begun = Arc::new(AtomicU32::new(0));
                let b = begun.clone();
                let mut run = once.run(&key).on_doubt(OnDoubt::Refuse);
                if keep_alive {
                    run = run.keep_alive();
                }
                let call = run.work(|claim| async move {
                    b.store(1, Ordering::SeqCst);
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                    work("x", claim).await
                });
                if ends_within(n, call).await {
                    break;
                }
                settle_tasks().await;
                let begun = begun.load(Ordering::SeqCst) == 1;
                let next = once.run(&key).on_doubt(OnDoubt::Refuse).work(|claim| work("y", claim)).await;
                let ok = match &next {
                    Ok(done) if begun => done.how == How::Replayed,
                    Err(Error::Doubtful) => begun,
                    Ok(_) => true,
                    Err(_) => false,
                };
                if !ok {
                    wrong.push(format!("{before}, keep_alive {keep_alive}, {n} polls, begun {begun}: {next:?}"));
                }
            }
        }
    }
    wrong
}

#[tokio::test]
async fn a_dropped_call_is_refused_only_if_its_work_had_begun_though_answers_are_slow() {
    let wrong = dropped_at_every_poll(0, 5).await;
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_dropped_call_is_refused_only_if_its_work_had_begun_though_requests_are_slow() {
    let wrong = dropped_at_every_poll(5, 0).await;
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn without_a_runtime_a_dropped_call_ends_with_its_lease_and_the_next_one_doubts() {
    let key = closed("Ev1");
    let clock = testkit::ManualClock::new();
    let once = Once::builder(Memory::new()).clock(clock.clone()).build();
    let mut call = Box::pin(
        once.run(&key).on_doubt(OnDoubt::Refuse).work(|_| std::future::pending::<Result<String, Failure<String>>>()),
    );
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(call);
    let next = || futures::executor::block_on(once.run(&key).on_doubt(OnDoubt::Refuse).work(|c| work("y", c)));
    assert!(matches!(next(), Err(Error::InFlight { .. })));
    clock.advance(LEASE + MAX_CLOCK_SKEW);
    assert!(matches!(next(), Err(Error::Doubtful)));
}
