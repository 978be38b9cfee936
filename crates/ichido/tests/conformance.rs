//! One suite for both stores: the in-memory model, which is simple enough to be obviously right, and DynamoDB on the embedded
//! engine.
//!
//! The number of calls to the store is part of the contract: `mark` makes 1, a fresh `run` 2, a duplicate 1, `join` none of
//! its own. At the end both stores get the same random requests and must give the same answers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Join, Table, Verdict};
use ichido::store::{Admit, Admitted, Settle, Settled, Transition};
use ichido::{
    Claim, Clock, DigestKey, Digests, Error, Failure, How, Key, Marked, Namespace, NoValue, OnDoubt, Once, Outcome,
    Owner, Probed, Record, State, Store, Timestamp,
};
use testkit::model::Memory;
use testkit::{Dynamo, ManualClock};

const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(3600);

/// A store with a clock and a counter of its calls.
trait Fixture: Sized {
    type Store: Store + Clone;
    fn new() -> Self;
    fn store(&self) -> Self::Store;
    fn clock(&self) -> &ManualClock;
    fn calls(&self) -> u64;
    fn sweep(&self);

    fn once(&self) -> Once {
        Once::builder(self.store()).clock(self.clock().clone()).build()
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }
}

struct InMemory {
    store: Memory,
    clock: ManualClock,
}

impl Fixture for InMemory {
    type Store = Memory;

    fn new() -> Self {
        Self { store: Memory::new(), clock: ManualClock::new() }
    }

    fn store(&self) -> Memory {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn calls(&self) -> u64 {
        self.store.calls()
    }

    fn sweep(&self) {
        self.store.sweep(self.now());
    }
}

struct OnDynamoDb {
    db: Dynamo,
}

impl OnDynamoDb {
    fn table() -> Table {
        Table::new("records", "PK").sort_key("SK", "METADATA")
    }
}

impl Fixture for OnDynamoDb {
    type Store = DynamoDb;

    fn new() -> Self {
        let mut db = Dynamo::empty();
        db.simple_table("records", "PK", Some("SK"), "ttl");
        Self { db }
    }

    fn store(&self) -> DynamoDb {
        DynamoDb::new(self.db.client(), Self::table())
    }

    fn clock(&self) -> &ManualClock {
        self.db.clock()
    }

    fn calls(&self) -> u64 {
        self.db.calls().total()
    }

    fn sweep(&self) {
        self.db.sweep(self.now());
    }
}

/// Runs the suite on each store.
macro_rules! for_both_stores {
    ($($claim:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test] async fn $claim() { super::$claim::<super::InMemory>().await; })*
        }
        mod on_dynamodb {
            $(#[tokio::test] async fn $claim() { super::$claim::<super::OnDynamoDb>().await; })*
        }
    };
}

for_both_stores!(
    an_absent_key_is_won_with_the_first_fence,
    a_live_claim_is_held_and_nothing_about_it_changes,
    a_lapsed_claim_is_won_with_the_next_fence_and_what_it_replaced,
    a_released_claim_is_won_at_once,
    a_settled_key_is_held_until_it_expires_and_then_absent_though_undeleted,
    only_owner_and_fence_together_settle_a_claim,
    a_settled_claim_cannot_be_settled_again,
    a_renewed_claim_lasts_longer_under_the_same_fence,
    what_is_written_is_read,
    a_record_that_never_expires_stays,
    mark_takes_one_call_and_so_does_its_duplicate,
    mark_is_new_again_after_its_retention,
    a_fresh_run_takes_two_calls_and_a_duplicate_one,
    a_run_in_flight_is_told_so_in_one_call,
    a_failed_work_gives_its_claim_back_and_the_next_call_does_it,
    a_permanent_failure_is_told_to_duplicates,
    a_run_that_waits_gets_the_outcome_of_the_other,
    a_run_that_waits_takes_over_when_the_lease_is_over,
    a_wait_ends_at_its_deadline,
    a_take_over_asks_the_probe_and_its_answer_is_the_outcome,
    a_probe_that_finds_nothing_lets_the_work_be_done,
    a_probe_that_fails_is_asked_again_by_the_next_call,
    an_uncertain_failure_makes_the_next_call_ask_its_probe,
    a_doubtful_run_asks_its_probe_though_nothing_is_recorded,
    a_long_work_renews_its_lease,
    a_renewal_after_a_take_over_is_refused,
    a_different_payload_is_refused_and_the_fields_are_named,
    an_outcome_too_large_to_keep_is_done_without_its_value,
    an_outcome_is_forgotten_after_its_retention,
);

fn key(name: &str) -> Key {
    Namespace::new("effect").lease(LEASE).retention(RETENTION).key([name]).unwrap()
}

fn claim_request<'a>(
    key: &'a Key,
    owner: &str,
    now: Timestamp,
    attributes: &'a ichido::store::Attributes,
) -> Admit<'a> {
    Admit {
        key,
        owner: owner.into(),
        now,
        state: State::Claimed { lease_until: now + LEASE },
        expires_at: Some(now + RETENTION),
        digests: None,
        attributes,
        refuses_doubt: false,
    }
}

async fn claim<F: Fixture>(f: &F, key: &Key, owner: &str) -> Admitted {
    f.store().admit(&claim_request(key, owner, f.now(), &Vec::new())).await.unwrap()
}

async fn settle<F: Fixture>(f: &F, key: &Key, owner: &str, fence: u64, to: Transition) -> Settled {
    let now = f.now();
    let request = Settle { key, owner: owner.into(), fence, now, to, expires_at: Some(now + RETENTION) };
    f.store().settle(&request).await.unwrap()
}

async fn read<F: Fixture>(f: &F, key: &Key) -> Option<Record> {
    f.store().read(key).await.unwrap()
}

fn complete(json: &str) -> Transition {
    Transition::Complete { outcome: Outcome::Value(json.into()) }
}

fn won(admitted: Admitted) -> (u64, Option<Record>) {
    match admitted {
        Admitted::Won { fence, previous } => (fence, previous),
        Admitted::Held(record) => panic!("held: {record:?}"),
    }
}

fn held(admitted: Admitted) -> Record {
    match admitted {
        Admitted::Held(record) => record,
        Admitted::Won { .. } => panic!("won"),
    }
}

async fn an_absent_key_is_won_with_the_first_fence<F: Fixture>() {
    let f = F::new();
    let (fence, previous) = won(claim(&f, &key("a"), "alice").await);
    assert_eq!((fence, previous), (1, None));
    assert_eq!(f.calls(), 1);
}

async fn a_live_claim_is_held_and_nothing_about_it_changes<F: Fixture>() {
    let f = F::new();
    let key = key("a");
    claim(&f, &key, "alice").await;
    let before = read(&f, &key).await.unwrap();
    f.clock().advance(LEASE - Duration::from_millis(1));
    let calls = f.calls();
    let record = held(claim(&f, &key, "bob").await);
    assert_eq!(f.calls() - calls, 1, "the refusal brings the record with it");
    assert_eq!(record.owner, Owner::from("alice"));
    assert_eq!((record, read(&f, &key).await.as_ref()), (before.clone(), Some(&before)));
}

async fn a_lapsed_claim_is_won_with_the_next_fence_and_what_it_replaced<F: Fixture>() {
    let f = F::new();
    let key = key("a");
    claim(&f, &key, "alice").await;
    let before = read(&f, &key).await;
    f.clock().advance(LEASE);
    let (fence, previous) = won(claim(&f, &key, "bob").await);
    assert_eq!((fence, previous), (2, before));
    assert_eq!(read(&f, &key).await.unwrap().owner, Owner::from("bob"));
}

async fn a_released_claim_is_won_at_once<F: Fixture>() {
    let f = F::new();
    let key = key("a");
    claim(&f, &key, "alice").await;
    let release = Transition::Release { reason: "503".into(), uncertain: true };
    assert!(matches!(settle(&f, &key, "alice", 1, release).await, Settled::Done));
    let (fence, previous) = won(claim(&f, &key, "bob").await);
    assert_eq!(fence, 2);
    assert_eq!(previous.unwrap().state, State::Released { reason: "503".into(), uncertain: true });
}

async fn a_settled_key_is_held_until_it_expires_and_then_absent_though_undeleted<F: Fixture>() {
    for to in [complete("1"), Transition::Fail { reason: "gone".into() }] {
        let f = F::new();
        let key = key("a");
        claim(&f, &key, "alice").await;
        settle(&f, &key, "alice", 1, to.clone()).await;
        f.clock().advance(RETENTION - Duration::from_millis(1));
        assert_eq!(held(claim(&f, &key, "bob").await).state, to.into_state());
        f.clock().advance(Duration::from_millis(1));
        let (fence, previous) = won(claim(&f, &key, "bob").await);
        assert_eq!(fence, 2, "the store has not deleted the record, so the fence goes on");
        assert!(previous.is_some());
    }
}

async fn only_owner_and_fence_together_settle_a_claim<F: Fixture>() {
    let f = F::new();
    let key = key("a");
    claim(&f, &key, "alice").await;
    f.clock().advance(LEASE);
    claim(&f, &key, "bob").await;
    let before = read(&f, &key).await;
    for (owner, fence) in [("alice", 1), ("alice", 2), ("bob", 1)] {
        for to in [
            complete("1"),
            Transition::Fail { reason: "late".into() },
            Transition::Release { reason: "late".into(), uncertain: false },
            Transition::Renew { lease_until: f.now() + LEASE * 2 },
        ] {
            match settle(&f, &key, owner, fence, to).await {
                Settled::Lost(Some(record)) => assert_eq!(record.owner, Owner::from("bob")),
                other => panic!("{owner} with fence {fence}: {other:?}"),
            }
        }
    }
    assert_eq!(read(&f, &key).await, before);
    assert!(matches!(settle(&f, &key, "bob", 2, complete("2")).await, Settled::Done));
}

async fn a_settled_claim_cannot_be_settled_again<F: Fixture>() {
    let f = F::new();
    let key = key("a");
    claim(&f, &key, "alice").await;
    settle(&f, &key, "alice", 1, complete("1")).await;
    assert!(matches!(settle(&f, &key, "alice", 1, complete("2")).await, Settled::Lost(Some(_))));
    assert_eq!(read(&f, &key).await.unwrap().state, State::Completed { outcome: Outcome::Value("1".into()) });
    f.clock().advance(RETENTION);
    f.sweep();
    assert!(matches!(settle(&f, &key, "alice", 1, complete("2")).await, Settled::Lost(None)));
    assert_eq!(read(&f, &key).await, None);
}

async fn a_renewed_claim_lasts_longer_under_the_same_fence<F: Fixture>() {
    let f = F::new();
    let key = key("a");
    claim(&f, &key, "alice").await;
    f.clock().advance(LEASE / 2);
    settle(&f, &key, "alice", 1, Transition::Renew { lease_until: f.now() + LEASE }).await;
    f.clock().advance(LEASE / 2);
    let record = held(claim(&f, &key, "bob").await);
    assert_eq!(record.fence, 1);
    f.clock().advance(LEASE / 2);
    assert_eq!(won(claim(&f, &key, "bob").await).0, 2);
}

async fn what_is_written_is_read<F: Fixture>() {
    let f = F::new();
    let digests = DigestKey::new(b"k").digests().field("amount", "1").field("to", "bob").build();
    let states = [
        State::Completed { outcome: Outcome::Value(r#"{"ts":"1.2"}"#.into()) },
        State::Completed { outcome: Outcome::NotKept },
        State::Completed { outcome: Outcome::Nothing },
        State::Failed { reason: "channel_not_found".into() },
        State::Claimed { lease_until: f.now() + LEASE },
    ];
    for (n, state) in states.into_iter().enumerate() {
        let key = key(&n.to_string());
        let none = Vec::new();
        let request = Admit {
            state: state.clone(),
            digests: (n % 2 == 0).then_some(&digests),
            ..claim_request(&key, "alice", f.now(), &none)
        };
        won(f.store().admit(&request).await.unwrap());
        let mut expected = Record::new(state, "alice".into(), 1, f.now());
        expected.expires_at = Some(f.now() + RETENTION);
        expected.digests = (n % 2 == 0).then(|| digests.clone());
        assert_eq!(read(&f, &key).await, Some(expected));
    }
}

async fn a_record_that_never_expires_stays<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let key = Namespace::new("group").forever().key(["g"]).unwrap();
    assert_eq!(once.mark(&key).await.unwrap(), Marked::New);
    f.clock().advance(Duration::from_secs(10 * 365 * 24 * 3600));
    f.sweep();
    assert_eq!(once.mark(&key).await.unwrap(), Marked::Duplicate);
}

// What a user sees.

/// Counts how often it is done, and returns the count.
#[derive(Clone, Default)]
struct Effect(Arc<AtomicU32>);

impl Effect {
    fn times(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    async fn perform(self, _claim: Claim) -> Result<u32, Failure<String>> {
        Ok(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }
}

async fn run<F: Fixture>(f: &F, key: &Key, effect: &Effect) -> Result<ichido::Done<u32>, Error<String>> {
    let effect = effect.clone();
    f.once().run(key).on_doubt(OnDoubt::Repeat).work(|claim| effect.perform(claim)).await
}

/// Claims the key and dies.
async fn die_holding<F: Fixture>(f: &F, key: &Key) {
    let once = f.once();
    let run = once
        .run(key)
        .on_doubt(OnDoubt::Repeat)
        .work(|_claim| async { std::future::pending::<Result<u32, Failure<String>>>().await });
    let calls = f.calls();
    let mut run = Box::pin(run);
    for _ in 0..1000 {
        if f.calls() > calls && futures::poll!(run.as_mut()).is_pending() {
            // A dead process drops nothing.
            std::mem::forget(run);
            return;
        }
        assert!(futures::poll!(run.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    panic!("it did not claim the key");
}

async fn mark_takes_one_call_and_so_does_its_duplicate<F: Fixture>() {
    let f = F::new();
    assert_eq!(f.once().mark(&key("a")).attribute("file_id", "F1").await.unwrap(), Marked::New);
    assert_eq!(f.calls(), 1);
    assert_eq!(f.once().mark(&key("a")).await.unwrap(), Marked::Duplicate);
    assert_eq!(f.calls(), 2);
    assert_eq!(f.once().mark(&key("b")).await.unwrap(), Marked::New);
}

async fn mark_is_new_again_after_its_retention<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    once.mark(&key("a")).await.unwrap();
    f.clock().advance(RETENTION - Duration::from_millis(1));
    assert_eq!(once.mark(&key("a")).await.unwrap(), Marked::Duplicate);
    f.clock().advance(Duration::from_millis(1));
    assert_eq!(once.mark(&key("a")).await.unwrap(), Marked::New);
}

async fn a_fresh_run_takes_two_calls_and_a_duplicate_one<F: Fixture>() {
    let f = F::new();
    let effect = Effect::default();
    let done = run(&f, &key("a"), &effect).await.unwrap();
    assert_eq!((done.value, done.how, done.recorded), (1, How::Fresh, true));
    assert_eq!(f.calls(), 2);
    let done = run(&f, &key("a"), &effect).await.unwrap();
    assert_eq!((done.value, done.how, done.recorded), (1, How::Replayed, true));
    assert_eq!((f.calls(), effect.times()), (3, 1));
}

async fn a_run_in_flight_is_told_so_in_one_call<F: Fixture>() {
    let f = F::new();
    die_holding(&f, &key("a")).await;
    let calls = f.calls();
    let effect = Effect::default();
    match run(&f, &key("a"), &effect).await {
        Err(Error::InFlight { until }) => assert_eq!(until, f.now() + LEASE + ichido::MAX_CLOCK_SKEW),
        other => panic!("{other:?}"),
    }
    assert_eq!((f.calls() - calls, effect.times()), (1, 0));
}

async fn a_failed_work_gives_its_claim_back_and_the_next_call_does_it<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let failed = once
        .run(&key("a"))
        .on_doubt(OnDoubt::Repeat)
        .work(|_| async { Err::<u32, _>(Failure::Retry("503".to_owned())) })
        .await
        .unwrap_err();
    assert!(matches!(failed, Error::Work(reason) if reason == "503"));
    assert_eq!(f.calls(), 2);
    let effect = Effect::default();
    assert_eq!(run(&f, &key("a"), &effect).await.unwrap().how, How::Fresh);
}

async fn a_permanent_failure_is_told_to_duplicates<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let work = |_| async { Err::<u32, _>(Failure::Permanent("channel_not_found".to_owned())) };
    assert!(matches!(once.run(&key("a")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap_err(), Error::Work(_)));
    assert_eq!(f.calls(), 2);
    let effect = Effect::default();
    match run(&f, &key("a"), &effect).await.unwrap_err() {
        Error::Failed { reason } => assert_eq!(reason, "channel_not_found"),
        other => panic!("{other:?}"),
    }
    assert_eq!((f.calls(), effect.times()), (3, 0));
}

async fn a_run_that_waits_gets_the_outcome_of_the_other<F: Fixture>() {
    let f = F::new();
    let (once, clock) = (f.once(), f.clock().clone());
    let key = key("a");
    let slow = once.run(&key).on_doubt(OnDoubt::Repeat).work(|_| async move {
        clock.wait(Duration::from_secs(5)).await;
        Ok::<_, Failure<String>>(7)
    });
    let other = f.once();
    let waiting = async {
        // The first call is in flight.
        f.clock().wait(Duration::from_secs(1)).await;
        let effect = Effect::default();
        let deadline = f.now() + Duration::from_secs(20);
        let done = other
            .run(&key)
            .wait_until(deadline)
            .on_doubt(OnDoubt::Repeat)
            .work(|claim| effect.clone().perform(claim))
            .await;
        assert_eq!(effect.times(), 0);
        done
    };
    let (first, second) = futures::join!(slow, waiting);
    assert_eq!(first.unwrap().how, How::Fresh);
    let second = second.unwrap();
    assert_eq!((second.value, second.how), (7, How::Replayed));
}

#[tokio::test]
async fn a_run_that_waits_reads_ever_more_seldom_and_writes_nothing() {
    let f = OnDynamoDb::new();
    die_holding(&f, &key("a")).await;
    let before = f.db.calls();
    let deadline = f.now() + Duration::from_secs(4);
    let once = f.once();
    let refused = once
        .run(&key("a"))
        .wait_until(deadline)
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| Effect::default().perform(claim))
        .await;
    assert!(matches!(refused, Err(Error::InFlight { .. })), "{refused:?}");
    assert_eq!(f.now(), deadline);
    // The refused claim, then reads after 25, 50, 100, 200, 400 and 800 ms, twice after one second, and after the rest of the time.
    let reads = f.db.calls().of("GetItem") - before.of("GetItem");
    assert_eq!((f.calls() - before.total(), reads), (10, 9));
}

async fn a_run_that_waits_takes_over_when_the_lease_is_over<F: Fixture>() {
    let f = F::new();
    die_holding(&f, &key("a")).await;
    let effect = Effect::default();
    let deadline = f.now() + LEASE * 2;
    let once = f.once();
    let done = once
        .run(&key("a"))
        .wait_until(deadline)
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| effect.clone().perform(claim))
        .await
        .unwrap();
    assert_eq!(done.how, How::Fresh);
    assert!(f.now() < deadline);
}

async fn a_wait_ends_at_its_deadline<F: Fixture>() {
    let f = F::new();
    die_holding(&f, &key("a")).await;
    let deadline = f.now() + Duration::from_secs(10);
    let once = f.once();
    let waited = once
        .run(&key("a"))
        .wait_until(deadline)
        .on_doubt(OnDoubt::Repeat)
        .work(|_| async { Ok::<u32, Failure<String>>(1) })
        .await;
    assert!(matches!(waited, Err(Error::InFlight { .. })), "{waited:?}");
    assert_eq!(f.now(), deadline);
}

async fn lapse<F: Fixture>(f: &F, key: &Key) {
    die_holding(f, key).await;
    f.clock().advance(LEASE + ichido::MAX_CLOCK_SKEW);
}

async fn a_take_over_asks_the_probe_and_its_answer_is_the_outcome<F: Fixture>() {
    let f = F::new();
    lapse(&f, &key("a")).await;
    let (once, effect, calls) = (f.once(), Effect::default(), f.calls());
    let done = once
        .run(&key("a"))
        .probe(|claim: Claim| async move {
            assert_eq!(claim.fence(), 2);
            Ok(Probed::Done(99))
        })
        .work(|claim| effect.clone().perform(claim))
        .await
        .unwrap();
    assert_eq!((done.value, done.how, effect.times()), (99, How::Probed, 0));
    assert_eq!(f.calls() - calls, 2);
    assert_eq!(run(&f, &key("a"), &effect).await.unwrap().value, 99);
}

async fn a_probe_that_finds_nothing_lets_the_work_be_done<F: Fixture>() {
    let f = F::new();
    lapse(&f, &key("a")).await;
    let (once, effect) = (f.once(), Effect::default());
    let run = once.run(&key("a")).probe(|_| async { Ok(Probed::NotDone) });
    let done = run.work(|claim| effect.clone().perform(claim)).await.unwrap();
    assert_eq!((done.value, done.how), (1, How::Fresh));
}

async fn a_probe_that_fails_is_asked_again_by_the_next_call<F: Fixture>() {
    let f = F::new();
    lapse(&f, &key("a")).await;
    let (once, effect) = (f.once(), Effect::default());
    let run = once.run(&key("a")).probe(|_| async { Err("the destination does not answer".to_owned()) });
    let failed = run.work(|claim| effect.clone().perform(claim)).await.unwrap_err();
    assert!(matches!(failed, Error::Probe(_)), "{failed:?}");
    assert_eq!(effect.times(), 0);
    let run = once.run(&key("a")).probe(|_| async { Ok(Probed::Done(5)) });
    assert_eq!(run.work(|claim| effect.clone().perform(claim)).await.unwrap().value, 5);
    assert_eq!(effect.times(), 0);
}

async fn an_uncertain_failure_makes_the_next_call_ask_its_probe<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let timeout = |_| async { Err::<u32, _>(Failure::Uncertain("timeout".to_owned())) };
    once.run(&key("a")).on_doubt(OnDoubt::Repeat).work(timeout).await.unwrap_err();
    let run = once.run(&key("a")).probe(|_| async { Ok::<_, String>(Probed::Done(3)) });
    assert_eq!(run.work(timeout).await.unwrap().how, How::Probed);
}

async fn a_doubtful_run_asks_its_probe_though_nothing_is_recorded<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let run = once.run(&key("a")).doubtful(true).probe(|_| async { Ok::<_, Infallible>(Probed::Done(3)) });
    let done = run.work(|_| async { Ok::<u32, Failure<Infallible>>(4) }).await.unwrap();
    assert_eq!((done.value, done.how), (3, How::Probed));
}

async fn a_long_work_renews_its_lease<F: Fixture>() {
    let f = F::new();
    let (once, clock, other) = (f.once(), f.clock().clone(), f.once());
    let key = key("a");
    let done = once
        .run(&key)
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| {
            let (other, key) = (&other, &key);
            async move {
                for _ in 0..4 {
                    clock.advance(LEASE - Duration::from_secs(1));
                    claim.renew().await.unwrap();
                    assert_eq!(claim.deadline(), clock.now() + LEASE);
                }
                let meanwhile =
                    other.run(key).on_doubt(OnDoubt::Repeat).work(|_| async { Ok::<u32, Failure<String>>(2) }).await;
                assert!(matches!(meanwhile, Err(Error::InFlight { .. })), "{meanwhile:?}");
                Ok::<u32, Failure<String>>(1)
            }
        })
        .await
        .unwrap();
    assert_eq!((done.value, done.recorded), (1, true));
    assert_eq!(f.calls(), 2 + 4 + 1);
}

async fn a_renewal_after_a_take_over_is_refused<F: Fixture>() {
    let f = F::new();
    let (once, clock, other) = (f.once(), f.clock().clone(), f.once());
    let key = key("a");
    let late = once
        .run(&key)
        .on_doubt(OnDoubt::Repeat)
        .work(|claim| {
            let (other, key) = (&other, &key);
            async move {
                clock.advance(LEASE + ichido::MAX_CLOCK_SKEW);
                other
                    .run(key)
                    .on_doubt(OnDoubt::Repeat)
                    .work(|_| async { Ok::<u32, Failure<String>>(2) })
                    .await
                    .unwrap();
                assert!(matches!(claim.renew().await, Err(ichido::Lost::TakenOver)));
                Ok::<u32, Failure<String>>(1)
            }
        })
        .await
        .unwrap();
    assert_eq!((late.value, late.how), (2, How::Replayed), "the successor's outcome counts");
}

fn payload(amount: &str, to: &str) -> Digests {
    DigestKey::new(b"k").digests().field("amount", amount).field("to", to).build()
}

async fn a_different_payload_is_refused_and_the_fields_are_named<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let work = |_| async { Ok::<u32, Failure<String>>(1) };
    once.run(&key("a")).digests(payload("100", "bob")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap();
    match once.run(&key("a")).digests(payload("101", "bob")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap_err() {
        Error::Mismatch { fields } => assert_eq!(fields, ["amount"]),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        once.run(&key("a")).digests(payload("100", "bob")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap().how,
        How::Replayed
    );
    assert_eq!(
        once.run(&key("a")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap().how,
        How::Replayed,
        "without digests, payloads are not compared"
    );
}

async fn an_outcome_too_large_to_keep_is_done_without_its_value<F: Fixture>() {
    let f = F::new();
    let once = f.once();
    let large = "x".repeat(ichido::record::MAX_OUTCOME_BYTES);
    let work = |_| async { Ok::<_, Failure<String>>(large.clone()) };
    assert_eq!(once.run(&key("a")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap().value, large);
    let again = once.run(&key("a")).on_doubt(OnDoubt::Repeat).work(work).await.unwrap_err();
    assert!(matches!(again, Error::DoneWithoutValue(NoValue::NotKept)), "{again:?}");
}

async fn an_outcome_is_forgotten_after_its_retention<F: Fixture>() {
    let f = F::new();
    let effect = Effect::default();
    run(&f, &key("a"), &effect).await.unwrap();
    f.clock().advance(RETENTION);
    let done = run(&f, &key("a"), &effect).await.unwrap();
    assert_eq!((done.value, done.how), (2, How::Fresh));
}

// `join` exists only on DynamoDB.

struct Transfer {
    join: Join,
    from: String,
}

impl Transfer {
    fn new(key: &Key, from: &str, digests: Digests) -> Self {
        let join = Join::new(&OnDynamoDb::table(), key).digests(digests).outcome(&"tx-1").unwrap();
        Self { join, from: from.into() }
    }

    async fn attempt(&self, f: &OnDynamoDb, client: &aws_sdk_dynamodb::Client) -> Verdict {
        use aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
        let account = Put::builder()
            .table_name("records")
            .item("PK", AttributeValue::S(self.from.clone()))
            .item("SK", AttributeValue::S("BALANCE".into()))
            .condition_expression("attribute_not_exists(PK)")
            .build()
            .unwrap();
        let answer = client
            .transact_write_items()
            .transact_items(self.join.item(f.now()).unwrap())
            .transact_items(TransactWriteItem::builder().put(account).build())
            .send()
            .await;
        self.join.verdict(&answer).unwrap()
    }
}

#[tokio::test]
async fn join_takes_no_call_of_its_own_and_tells_new_replay_mismatch_and_not_ours_apart() {
    let f = OnDynamoDb::new();
    let client = f.db.client();
    let first = Transfer::new(&key("order-7"), "alice", payload("100", "bob"));
    assert!(matches!(first.attempt(&f, &client).await, Verdict::New));
    let calls = f.db.reset_calls();
    assert_eq!((calls.of("TransactWriteItems"), calls.total()), (1, 1));

    let again = Transfer::new(&key("order-7"), "alice", payload("100", "bob"));
    match again.attempt(&f, &client).await {
        Verdict::Replay(recorded) => {
            assert_eq!(recorded.outcome::<String>().unwrap(), "tx-1");
            assert_eq!(recorded.outcome_json(), Some("\"tx-1\""));
        }
        other => panic!("{other:?}"),
    }
    let other = Transfer::new(&key("order-7"), "alice", payload("100", "carol"));
    match other.attempt(&f, &client).await {
        Verdict::Mismatch { fields, .. } => assert_eq!(fields, ["to"]),
        other => panic!("{other:?}"),
    }
    let refused = Transfer::new(&key("order-8"), "alice", payload("100", "bob"));
    assert!(matches!(refused.attempt(&f, &client).await, Verdict::NotOurs), "alice's item refused it, not the record");
    assert!(refused.join.look(&client, f.now()).await.unwrap().is_none(), "nothing was recorded");
}

#[tokio::test]
async fn join_leaves_a_conflict_to_its_caller_and_recognises_its_own_lost_answer() {
    use testkit::faults::{Fault, Rule};
    let f = OnDynamoDb::new();
    let client = f.db.client_without_retries();
    let transfer = Transfer::new(&key("order-7"), "alice", payload("100", "bob"));
    f.db.faults().conflict();
    assert!(matches!(transfer.attempt(&f, &client).await, Verdict::NotOurs));
    f.db.faults().only(Rule::new(Fault::LoseAnswer).call(1));
    assert!(matches!(transfer.attempt(&f, &client).await, Verdict::NotOurs));
    assert!(matches!(transfer.attempt(&f, &client).await, Verdict::New), "it recognises its own record");
    assert!(matches!(transfer.join.look(&client, f.now()).await.unwrap(), Some(Verdict::New)));
}

#[tokio::test]
async fn join_takes_an_expired_record_for_absent() {
    let f = OnDynamoDb::new();
    let client = f.db.client();
    Transfer::new(&key("order-7"), "alice", payload("100", "bob")).attempt(&f, &client).await;
    f.clock().advance(RETENTION);
    let later = Transfer::new(&key("order-7"), "dave", payload("5", "eve"));
    assert!(matches!(later.attempt(&f, &client).await, Verdict::New));
}

#[tokio::test]
async fn a_tombstone_makes_a_refusal_final_for_every_attempt_that_does_not_know_of_it() {
    use testkit::faults::{Fault, Rule};
    let f = OnDynamoDb::new();
    let client = f.db.client_without_retries();
    let refused = Transfer::new(&key("order-7"), "alice", payload("100", "bob"));
    let under_way = refused.join.item(f.now()).unwrap();
    let late = async |item| {
        let answer = client.transact_write_items().transact_items(item).send().await;
        refused.join.verdict(&answer).unwrap()
    };
    f.db.reset_calls();
    assert!(refused.join.tombstone(&client, f.now(), "no money").await.unwrap().is_none());
    assert_eq!(f.db.reset_calls().total(), 1);
    assert!(matches!(late(under_way.clone()).await, Verdict::Tombstone(_)));

    // An attempt that has met the tombstone may replace it, but not a newer one.
    let Some(Verdict::Tombstone(tombstone)) = refused.join.look(&client, f.now()).await.unwrap() else {
        panic!("no tombstone")
    };
    let knowing = refused.join.clone().replaces(&tombstone).item(f.now()).unwrap();
    assert!(refused.join.tombstone(&client, f.now(), "still none").await.unwrap().is_none());
    assert!(matches!(late(knowing).await, Verdict::Tombstone(_)));
    let Some(Verdict::Tombstone(tombstone)) = refused.join.look(&client, f.now()).await.unwrap() else {
        panic!("no tombstone")
    };
    let knowing = refused.join.clone().replaces(&tombstone).item(f.now()).unwrap();
    assert!(matches!(late(knowing).await, Verdict::New));

    // Too late for a refusal: it tells what is recorded, even if the store does not return the record with its refusal.
    for fault in [None, Some(Fault::NoOldItem)] {
        if let Some(fault) = fault {
            f.db.faults().only(Rule::new(fault));
        }
        assert!(matches!(refused.join.tombstone(&client, f.now(), "").await.unwrap(), Some(Verdict::New)));
        let other = Transfer::new(&key("order-7"), "alice", payload("100", "carol"));
        let told = other.join.tombstone(&client, f.now(), "").await.unwrap();
        assert!(matches!(told, Some(Verdict::Mismatch { .. })), "{told:?}");
    }
    f.db.faults().heal();

    // An expired tombstone counts as absent; an error leaves things open.
    let expired = Transfer::new(&key("order-8"), "alice", payload("100", "bob"));
    expired.join.tombstone(&client, f.now(), "").await.unwrap();
    let longest_under_way = Duration::from_secs(15 * 60);
    f.clock().advance(longest_under_way);
    assert!(matches!(expired.attempt(&f, &client).await, Verdict::Tombstone(_)));
    f.clock().advance(ichido::dynamodb::TOMBSTONE_RETENTION - longest_under_way);
    assert!(expired.join.look(&client, f.now()).await.unwrap().is_none());
    assert!(matches!(expired.attempt(&f, &client).await, Verdict::New));
    f.db.faults().conflict();
    assert!(expired.join.tombstone(&client, f.now(), "").await.unwrap_err().is_transient());
}

#[tokio::test]
async fn a_tombstone_that_met_a_claim_which_is_released_meanwhile_leaves_things_open() {
    use testkit::faults::{Fault, Rule};
    let f = OnDynamoDb::new();
    let client = f.db.client_without_retries();
    let key = key("order-7");
    let (fence, _) = won(claim(&f, &key, "somebody").await);
    f.db.faults().put(Rule::new(Fault::NoOldItem).on("PutItem"));
    f.db.faults().put(Rule::new(Fault::Slow(Duration::from_secs(2))).on("GetItem"));
    let refused = Transfer::new(&key, "alice", payload("100", "bob"));
    let entombing = refused.join.tombstone(&client, f.now(), "no money");
    let giving_back = async {
        f.clock().wait(Duration::from_secs(1)).await;
        let release = Transition::Release { reason: "no".into(), uncertain: false };
        assert!(matches!(settle(&f, &key, "somebody", fence, release).await, Settled::Done));
    };
    let (entombed, ()) = futures::join!(entombing, giving_back);
    assert!(entombed.unwrap_err().is_transient());
}

// The same random requests to both stores.

const SEQUENCES: u64 = 60;
const REQUESTS: u32 = 40;

#[tokio::test]
async fn both_stores_answer_any_sequence_of_requests_alike() {
    for seed in 0..SEQUENCES {
        let mut random = fastrand::Rng::with_seed(seed);
        let (model, real) = (Memory::new(), OnDynamoDb::new());
        let store = real.store();
        let clock = real.clock().clone();
        let payloads = [payload("1", "bob"), payload("2", "bob")];
        for step in 0..REQUESTS {
            clock.advance(Duration::from_millis(random.u64(0..4000)));
            let now = clock.now();
            let key = key(["a", "b"][random.usize(0..2)]);
            let owner: Owner = ["alice", "bob", "carol"][random.usize(0..3)].into();
            let expires_at = random.bool().then(|| now + Duration::from_millis(random.u64(1..40_000)));
            let lease_until = now + Duration::from_millis(random.u64(0..15_000));
            let outcome =
                [Outcome::Nothing, Outcome::NotKept, Outcome::Value("[1]".into())][random.usize(0..3)].clone();
            let reason = "busy".to_owned();
            let (ours, theirs) = match random.u32(0..10) {
                0..=3 => {
                    let state = match random.u32(0..6) {
                        0 => State::Completed { outcome },
                        1 => State::Failed { reason },
                        _ => State::Claimed { lease_until },
                    };
                    let digests = payloads.get(random.usize(0..3));
                    let (attributes, refuses_doubt) = (&Vec::new(), random.bool());
                    let request =
                        Admit { key: &key, owner, now, state, expires_at, digests, attributes, refuses_doubt };
                    let show = |answer: Admitted| match (answer, &request.state) {
                        // The put does not ask for the record that it replaces, because nothing needs it.
                        (Admitted::Won { fence, .. }, State::Completed { .. } | State::Failed { .. }) => {
                            format!("won {fence}")
                        }
                        (answer, _) => format!("{answer:?}"),
                    };
                    (show(model.admit(&request).await.unwrap()), show(store.admit(&request).await.unwrap()))
                }
                4..=8 => {
                    let to = match random.u32(0..4) {
                        0 => Transition::Complete { outcome },
                        1 => Transition::Fail { reason },
                        2 => Transition::Release { reason, uncertain: random.bool() },
                        _ => Transition::Renew { lease_until },
                    };
                    let fence = random.u64(1..4);
                    let request = Settle { key: &key, owner, fence, now, to, expires_at };
                    let show = |answer: Settled| format!("{answer:?}");
                    (show(model.settle(&request).await.unwrap()), show(store.settle(&request).await.unwrap()))
                }
                _ => {
                    if random.bool() {
                        model.sweep(now);
                        real.sweep();
                    }
                    let show = |record: Option<Record>| format!("{record:?}");
                    (show(model.read(&key).await.unwrap()), show(store.read(&key).await.unwrap()))
                }
            };
            assert_eq!(ours, theirs, "seed {seed}, step {step}: the model first, then DynamoDB");
        }
    }
}
