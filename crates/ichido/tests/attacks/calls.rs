//! Calls that are dropped after any number of polls, odd durations, scopes that would share a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::support::*;
use super::{ends_within, settle_tasks};
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use ichido::http::{HEADER, IdempotencyLayer};
use ichido::*;
use tower::{Layer as _, ServiceExt as _};

#[tokio::test]
async fn a_call_that_is_dropped_leaves_a_doubt_only_if_its_work_had_begun() {
    let mut wrong = Vec::new();
    for before in ["nothing", "released", "expired", "twice released"] {
        for refuse in [true, false] {
            for n in 0..400 {
                let (db, key) = (dynamo(), closed("Ev1"));
                let once = instance(&db);
                let no = || async {
                    let no = |_| async { Err::<String, _>(Failure::Retry("busy".to_owned())) };
                    once.run(&key).on_doubt(OnDoubt::Refuse).work(no).await.unwrap_err();
                };
                match before {
                    "released" => no().await,
                    "twice released" => {
                        no().await;
                        no().await
                    }
                    "expired" => {
                        run(&once, &key, "old").await.unwrap();
                        db.clock().advance(RETENTION * 2);
                    }
                    _ => {}
                }
                let begun = Arc::new(AtomicU32::new(0));
                let b = begun.clone();
                let choice = if refuse { OnDoubt::Refuse } else { OnDoubt::Repeat };
                let call = once.run(&key).on_doubt(choice).work(|claim| async move {
                    b.store(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    work("x", claim).await
                });
                if ends_within(n, call).await {
                    break;
                }
                settle_tasks().await;
                let doubt = Arc::new(AtomicU32::new(0));
                let d = doubt.clone();
                let next = once
                    .run(&key)
                    .probe(|_| async move {
                        d.store(1, Ordering::SeqCst);
                        Ok(Probed::NotDone)
                    })
                    .work(|claim| work("y", claim))
                    .await;
                let begun = begun.load(Ordering::SeqCst) == 1;
                let asked = doubt.load(Ordering::SeqCst) == 1;
                let ok = match &next {
                    Ok(done) => {
                        if begun {
                            asked || done.how == How::Replayed
                        } else {
                            !asked
                        }
                    }
                    Err(_) => false,
                };
                if !ok {
                    wrong.push(format!("{before}, refuse {refuse}, {n} polls, begun {begun}, asked {asked}: {next:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_breaker_asks_again_after_a_minute_though_the_clock_was_set_back() {
    let db = dynamo();
    let once = instance(&db);
    db.faults().down();
    for n in 0..3 {
        once.mark(&open(&format!("{n}"))).await.unwrap();
    }
    assert!(once.is_cut_off());
    db.faults().heal();
    db.clock().set_ms(db.clock().now_ms() - 3_600_000);
    db.clock().advance(Duration::from_secs(120));
    once.mark(&open("next")).await.unwrap();
    assert!(!once.is_cut_off(), "the store has not been asked for two minutes");
}

#[tokio::test]
async fn odd_durations_do_no_harm() {
    let db = dynamo();
    for (n, lease) in [Duration::MAX, Duration::from_millis(u64::MAX), Duration::from_millis(1)].into_iter().enumerate()
    {
        let key = Namespace::new("odd").retention(Duration::MAX).lease(lease).key([n.to_string()]).unwrap();
        let once = instance(&db);
        let done =
            once.run(&key).wait(Duration::MAX).keep_alive().on_doubt(OnDoubt::Repeat).work(|c| work("x", c)).await;
        assert!(done.is_ok(), "{lease:?} {done:?}");
        assert_eq!(run(&once, &key, "y").await.unwrap().how, How::Replayed);
        let none = once
            .run(&Namespace::new("odd").key([format!("z{n}")]).unwrap())
            .lease(Duration::ZERO)
            .on_doubt(OnDoubt::Repeat)
            .work(|c| work("x", c))
            .await;
        assert!(matches!(none, Err(Error::DeadlinePassed { .. })));
        let until = once
            .run(&Namespace::new("odd").key([format!("u{n}")]).unwrap())
            .lease_until(Timestamp::from_millis(u64::MAX))
            .keep_alive()
            .on_doubt(OnDoubt::Repeat)
            .work(|c| work("x", c))
            .await;
        assert!(until.is_ok(), "{until:?}");
    }
}

fn http(once: &Once) -> IdempotencyLayer<ichido::http::Decided> {
    IdempotencyLayer::new(once.clone(), Namespace::new("p").lease(LEASE), DigestKey::new(b"s"), |request| {
        let users = request.headers.get("x-user").ok_or(StatusCode::UNAUTHORIZED)?.to_str().unwrap().to_owned();
        Ok(users.split('|').map(str::to_owned).collect::<Vec<_>>())
    })
    .on_doubt(OnDoubt::Refuse)
}

fn post(user: &str, key: &str, body: &'static str) -> Request<Body> {
    Request::post("/p").header("x-user", user).header(HEADER, key).body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn no_two_scopes_share_a_key() {
    let db = dynamo();
    let count = Arc::new(AtomicU32::new(0));
    let c = count.clone();
    let service = http(&instance(&db)).layer(tower::service_fn(move |_: Request<Body>| {
        let n = c.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(n.to_string()))) }
    }));
    let all = [
        ("a", "b"),
        ("a#b", "c"),
        ("a|b", "c"),
        ("a%23b", "c"),
        ("a", "b#c"),
        ("a", "b%23c"),
        ("a#", "b"),
        ("a", "#b"),
        ("a%", "23b"),
        ("A", "b"),
        ("a ", "b"),
    ];
    for (user, key) in all {
        let _ = service.clone().oneshot(post(user, key, "1")).await.unwrap();
    }
    assert_eq!(count.load(Ordering::SeqCst) as usize, all.len());
    for user in ["", "a|", "|"] {
        assert_eq!(service.clone().oneshot(post(user, "k", "1")).await.unwrap().status(), 500);
    }
}
