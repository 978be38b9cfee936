//! What happens to an effect whose worker failed, died or is still at it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::dynamodb::DynamoDb;
use ichido::{Clock, Error, Failure, How, MAX_CLOCK_SKEW, OnDoubt, Once, Probed, State, store};

use crate::naive::{ABSENT_OR_LAPSED, Effects, Naive, PAYMENT, World, killed_at_every_call};
use crate::support::*;

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
async fn a_question_mark_after_the_effect_does_not_repeat_it() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let (naive, effects) = (Naive::new(&db), Effects::default());
    for _ in 0..2 {
        assert!(naive.begin("naive").await);
        effects.happen("charged");
        assert!("not a number".parse::<u32>().is_err());
        naive.delete("naive").await; // an error: so nothing was done
    }
    assert_eq!(effects.taken(), 2, "the naive form charges again");

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

/// One payment by the naive form. An event that is in progress comes again.
async fn pay_naively(world: &World, payment: &str) -> Result<(), String> {
    let naive = Naive::new(&world.db);
    if naive.try_begin_if(ABSENT_OR_LAPSED, payment, Some(LEASE)).await? {
        world.pay(payment).await;
        return if naive.complete(payment, "paid").await { Ok(()) } else { Err("not recorded".to_owned()) };
    }
    let paid = naive.try_get(payment).await?.is_some_and(|found| found.outcome.is_some());
    if paid { Ok(()) } else { Err("in progress".to_owned()) }
}

/// The same with the library, and a bank that can be asked. Each delivery goes to a new process.
pub(crate) async fn pay_once(world: &World, payment: &str) -> Result<(), String> {
    let key = closed(payment);
    let probe = |_| async { Ok(world.find(payment).await) };
    let pay = |_| async { Ok::<_, Failure<String>>(world.pay(payment).await) };
    instance(&world.db).run(&key).probe(probe).work(pay).await.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_withdrawal_is_not_repeated_after_a_timeout() {
    let naive = killed_at_every_call(&[PAYMENT], async |world| pay_naively(world, PAYMENT).await).await;
    assert_eq!(naive, (1, 2), "the naive form: in progress for too long means that it is paid again");

    let asked = killed_at_every_call(&[PAYMENT], async |world| pay_once(world, PAYMENT).await).await;
    assert_eq!(asked, (1, 1));

    // Nobody can be asked. Then no payment is repeated, and some are never made until an operator has looked.
    let refused = killed_at_every_call(&[PAYMENT], async |world| {
        let pay = |_| async { Ok::<_, Failure<String>>(world.pay(PAYMENT).await) };
        match instance(&world.db).run(&closed(PAYMENT)).on_doubt(OnDoubt::Refuse).work(pay).await {
            Ok(_) | Err(Error::Doubtful) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    assert_eq!(refused.await, (0, 1));
}

/// A workflow of one step, whose result is checkpointed after its body.
async fn workflow(world: &World, body: impl AsyncFn(&World) -> Result<(), String>) -> Result<(), String> {
    if world.checkpoints.count("step") == 0 {
        body(world).await?;
        world.outside.call("checkpoint", async { world.checkpoints.happen("step") }).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_step_of_a_durable_workflow_that_is_repeated_has_its_effect_once() {
    let body = async |world: &World| {
        world.pay(PAYMENT).await;
        Ok(())
    };
    let naive = killed_at_every_call(&[PAYMENT], async |world| workflow(world, body).await).await;
    assert_eq!(naive, (1, 2), "the naive form: the body of a step that died before its checkpoint runs again");

    let body = async |world: &World| pay_once(world, PAYMENT).await;
    assert_eq!(killed_at_every_call(&[PAYMENT], async |world| workflow(world, body).await).await, (1, 1));
}

#[tokio::test]
async fn two_executions_of_one_workflow_do_not_both_perform_its_step() {
    let (db, effects) = (dynamo(), Effects::default());
    let (key, checkpoint, clock) = (closed("charge"), Mutex::new(None), db.clock());
    // The recovery starts an execution that is still running.
    let naive = async || {
        let known = checkpoint.lock().unwrap().is_some();
        if !known {
            clock.wait(Duration::from_secs(1)).await;
            effects.happen("charged");
            checkpoint.lock().unwrap().get_or_insert("receipt");
        }
    };
    tokio::join!(naive(), naive());
    assert_eq!(effects.taken(), 2, "the naive form: only the checkpoints meet");

    let (here, there) = (instance(&db), instance(&db));
    let step = async |once: &Once| {
        let effects = &effects;
        let run = once.run(&key).wait(LEASE).on_doubt(OnDoubt::Refuse);
        run.work(|claim| async move {
            clock.wait(Duration::from_secs(1)).await;
            effects.happen("charged");
            work("receipt", claim).await
        })
        .await
    };
    let (first, second) = tokio::join!(step(&here), step(&there));
    assert_eq!(first.unwrap().value, second.unwrap().value);
    assert_eq!(effects.taken(), 1);
}

#[tokio::test]
async fn a_worker_that_dies_does_not_keep_its_key_for_ever() {
    let (db, key) = (dynamo(), closed("Ev1"));
    let naive = Naive::new(&db);
    let lock = async || naive.begin_if("attribute_not_exists(event_key)", "naive", None).await;
    assert!(lock().await, "and its worker dies");
    abandon(&instance(&db), &key).await;
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    assert!(run(&instance(&db), &key, "next").await.unwrap().recorded);
    db.clock().advance(RETENTION * 1000);
    assert!(!lock().await, "the naive form: nobody ever unlocks it");
}

#[tokio::test]
async fn an_event_that_was_seen_is_not_taken_for_one_that_was_handled() {
    let naive = killed_at_every_call(&[PAYMENT], async |world| {
        if Naive::new(&world.db).try_begin_if("attribute_not_exists(event_key)", PAYMENT, None).await? {
            world.pay(PAYMENT).await;
        }
        Ok(())
    });
    assert_eq!(naive.await, (0, 1), "the naive form: noted first, then lost");

    // That is what `mark` promises, and no more.
    let marked = killed_at_every_call(&[PAYMENT], async |world| {
        if instance(&world.db).mark(&closed(PAYMENT)).await.map_err(|error| error.to_string())?.is_new() {
            world.pay(PAYMENT).await;
        }
        Ok(())
    });
    assert_eq!(marked.await, (0, 1));

    assert_eq!(killed_at_every_call(&[PAYMENT], async |world| pay_once(world, PAYMENT).await).await, (1, 1));
}

#[tokio::test]
async fn a_redelivery_whose_first_delivery_was_lost_is_handled() {
    let (db, effects) = (dynamo(), Effects::default());
    let naive = |retry_num: Option<u32>| {
        if retry_num.is_none() {
            effects.happen("handled");
        }
    };
    let here = async |_retry_num: Option<u32>| {
        let handle = |_| async { Ok::<_, Failure<String>>(effects.happen("handled")) };
        instance(&db).run(&closed("Ev1")).on_doubt(OnDoubt::Refuse).work(handle).await.unwrap();
    };
    // Slack's first delivery did not arrive.
    for retry_num in [Some(1), Some(2)] {
        naive(retry_num);
    }
    assert_eq!(effects.taken(), 0, "the naive form: what says that it is a repetition is dropped");
    for retry_num in [Some(1), Some(2), None] {
        here(retry_num).await;
    }
    assert_eq!(effects.taken(), 1);
}

#[tokio::test]
async fn a_duplicate_in_flight_is_not_acknowledged_and_comes_again_when_the_first_has_died() {
    let (db, key, effects) = (dynamo(), closed("Ev1"), Effects::default());
    let naive = async || {
        if Naive::new(&db).begin("naive").await {
            effects.happen("handled");
        }
        Ok::<_, String>(()) // somebody has it, so the queue may forget it
    };
    let here = async || {
        let handle = |_| async { Ok::<_, Failure<String>>(effects.happen("handled")) };
        let run = instance(&db).run(&key).on_doubt(OnDoubt::Repeat).work(handle).await;
        run.map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(Naive::new(&db).begin("naive").await, "the first dies at work");
    abandon(&instance(&db), &key).await;
    naive().await.unwrap();
    here().await.unwrap_err(); // so the queue keeps it
    db.clock().advance(LEASE + MAX_CLOCK_SKEW);
    assert_eq!(effects.taken(), 0, "the naive form: nobody handles it any more");
    here().await.unwrap();
    assert_eq!(effects.taken(), 1);
}
