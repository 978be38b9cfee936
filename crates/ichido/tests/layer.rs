//! `OnceLayer`: what an invocation gets, whatever became of the invocations before it.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ichido::lambda::{Error, Named, OnceLayer, RESPONSE_MARGIN};
use ichido::{Claim, Clock as _, DigestKey, Failure, MAX_CLOCK_SKEW, OnDoubt, OrFailure as _, Probed};
use lambda_runtime::tower::{Layer, Service, ServiceExt as _};
use lambda_runtime::{Context, Diagnostic, LambdaEvent, service_fn};
use serde_json::{Value, json};
use support::{LEASE, TABLE, closed, dynamo, instance};
use testkit::faults::{Fault, Rule};
use testkit::{Dynamo, Outside, interrupt};

type BoxError = lambda_runtime::Error;

/// An invocation with this payload, whose deadline is [`LEASE`] from now.
fn event(db: &Dynamo, payload: &str) -> LambdaEvent<String> {
    let mut context = Context::default();
    context.request_id = "request-1".to_owned();
    context.deadline = (db.clock().now() + LEASE).as_millis();
    LambdaEvent::new(payload.to_owned(), context)
}

fn by_payload(event: &LambdaEvent<String>) -> Result<Named, ichido::key::Error> {
    Ok(closed(&event.payload).into())
}

/// What the handler did, in order.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A handler that takes its answers from a list, one per call.
fn answers<E, const N: usize>(
    calls: &Calls,
    answers: [Result<&'static str, E>; N],
) -> impl Handler<E> + 'static + use<E, N>
where
    E: Send + 'static,
{
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let calls = calls.clone();
    service_fn(move |event: LambdaEvent<String>| {
        calls.note(&event.payload);
        let answer = answers.lock().unwrap().next().expect("one more answer");
        async move { answer.map(str::to_owned) }
    })
}

trait Handler<E>: Service<LambdaEvent<String>, Response = String, Error = E, Future: Send> + Clone + Send {}
impl<E, H> Handler<E> for H where
    H: Service<LambdaEvent<String>, Response = String, Error = E, Future: Send> + Clone + Send
{
}

fn json_of(error: Error) -> Value {
    serde_json::to_value(Diagnostic::from(error)).unwrap()
}

#[tokio::test]
async fn an_existing_handler_works_unchanged_and_duplicates_get_its_response() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let handler = layer.layer(answers::<BoxError, _>(&calls, [Ok("handled")]));
    for _ in 0..3 {
        assert_eq!(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap(), "handled");
    }
    assert_eq!(calls.all(), ["Ev1"]);
}

#[tokio::test]
async fn a_permanent_failure_is_recorded_and_each_duplicate_gets_it() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let no_number = "x".parse::<u64>().map(|_| "").or_permanent::<BoxError>();
    let handler = layer.layer(answers(&calls, [no_number]));
    let first = handler.clone().oneshot(event(&db, "Ev1")).await.unwrap_err();
    assert_eq!(
        json_of(first),
        json!({"errorType": "HandlerError", "errorMessage": "invalid digit found in string"}),
        "the handler's own error"
    );
    for _ in 0..2 {
        let again = handler.clone().oneshot(event(&db, "Ev1")).await.unwrap_err();
        assert_eq!(
            json_of(again),
            json!({
                "errorType": "ichido.Failed",
                "errorMessage": "an earlier call failed permanently: invalid digit found in string"
            })
        );
    }
    assert_eq!(calls.all(), ["Ev1"], "the handler was not called again");
}

#[tokio::test]
async fn a_handler_that_says_retry_leaves_no_doubt() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let handler = layer.layer(answers(&calls, [Err(Failure::Retry("busy")), Ok("handled")]));
    assert!(handler.clone().oneshot(event(&db, "Ev1")).await.is_err());
    assert_eq!(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap(), "handled");
}

#[tokio::test]
async fn a_plain_error_leaves_a_doubt_which_the_layer_refuses_or_repeats() {
    for (choice, calls_expected) in [(OnDoubt::Refuse, 1), (OnDoubt::Repeat, 2)] {
        let (db, calls) = (dynamo(), Calls::default());
        let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(choice);
        let handler = layer.layer(answers::<BoxError, _>(&calls, [Err("a lost answer".into()), Ok("handled")]));
        assert!(handler.clone().oneshot(event(&db, "Ev1")).await.is_err());
        let second = handler.clone().oneshot(event(&db, "Ev1")).await;
        match choice {
            OnDoubt::Refuse => assert_eq!(second.unwrap_err().error_type(), "ichido.Doubtful"),
            OnDoubt::Repeat => assert_eq!(second.unwrap(), "handled"),
        }
        assert_eq!(calls.all().len(), calls_expected);
    }
}

#[tokio::test]
async fn the_probe_gets_the_event_and_its_finding_is_the_response() {
    for (found, response) in [(true, "found"), (false, "handled")] {
        let (db, calls) = (dynamo(), Calls::default());
        let asked = calls.clone();
        let layer = OnceLayer::new(instance(&db), by_payload).probe(move |event: LambdaEvent<String>, claim: Claim| {
            let LambdaEvent { payload, context } = event;
            asked.note(&format!("{} asks for {payload} under fence {}", context.request_id, claim.fence()));
            async move { Ok::<_, BoxError>(if found { Probed::Done("found".to_owned()) } else { Probed::NotDone }) }
        });
        let handler = layer.layer(answers::<BoxError, _>(&calls, [Err("a lost answer".into()), Ok("handled")]));
        assert!(handler.clone().oneshot(event(&db, "Ev1")).await.is_err());
        assert_eq!(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap(), response);
        assert_eq!(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap(), response, "replayed");
        let expected = ["Ev1", "request-1 asks for Ev1 under fence 2", "Ev1"];
        assert_eq!(calls.all(), if found { &expected[..2] } else { &expected[..] });
    }
}

#[tokio::test]
async fn a_probe_that_fails_fails_the_invocation_and_the_next_one_asks_again() {
    let (db, calls) = (dynamo(), Calls::default());
    let asked = calls.clone();
    let layer = OnceLayer::new(instance(&db), by_payload).probe(move |_: LambdaEvent<String>, _| {
        asked.note("asked");
        async { Err::<Probed<String>, _>("the destination does not answer") }
    });
    let handler = layer.layer(answers::<BoxError, _>(&calls, [Err("a lost answer".into())]));
    assert!(handler.clone().oneshot(event(&db, "Ev1")).await.is_err());
    for _ in 0..2 {
        let error = handler.clone().oneshot(event(&db, "Ev1")).await.unwrap_err();
        assert_eq!(
            json_of(error),
            json!({
                "errorType": "ichido.Probe",
                "errorMessage": "could not ask the destination whether it was done: the destination does not answer"
            })
        );
    }
    assert_eq!(calls.all(), ["Ev1", "asked", "asked"]);
}

/// A handler that takes `time` of the test's clock.
fn slow(db: &Dynamo, time: Duration) -> impl Handler<BoxError> + 'static + use<> {
    let clock = db.clock().clone();
    service_fn(move |_: LambdaEvent<String>| {
        let slept = clock.wait(time);
        async move {
            slept.await;
            Ok::<_, BoxError>("handled".to_owned())
        }
    })
}

#[tokio::test]
async fn a_duplicate_waits_for_the_response_of_the_first() {
    let db = dynamo();
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse).wait(Duration::from_secs(10));
    let handler = layer.layer(slow(&db, Duration::from_secs(3)));
    let (first, second) =
        tokio::join!(handler.clone().oneshot(event(&db, "Ev1")), handler.clone().oneshot(event(&db, "Ev1")));
    assert_eq!((first.unwrap(), second.unwrap()), ("handled".to_owned(), "handled".to_owned()));
}

#[tokio::test]
async fn a_duplicate_stops_waiting_in_time_to_respond() {
    let db = dynamo();
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse).wait(Duration::from_secs(3600));
    let handler = layer.layer(slow(&db, LEASE));
    let begun = db.clock().now();
    let duplicate = async {
        let answer = handler.clone().oneshot(event(&db, "Ev1")).await;
        (answer, db.clock().now())
    };
    let (_, (duplicate, ended)) = tokio::join!(handler.clone().oneshot(event(&db, "Ev1")), duplicate);
    assert_eq!(duplicate.unwrap_err().error_type(), "ichido.InFlight");
    assert_eq!(ended, begun + (LEASE - RESPONSE_MARGIN));
}

#[tokio::test]
async fn without_wait_a_duplicate_in_flight_is_an_error_at_once() {
    let db = dynamo();
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let handler = layer.layer(slow(&db, Duration::from_secs(3)));
    let (_, second) =
        tokio::join!(handler.clone().oneshot(event(&db, "Ev1")), handler.clone().oneshot(event(&db, "Ev1")));
    assert_eq!(
        json_of(second.unwrap_err()),
        json!({
            "errorType": "ichido.InFlight",
            "errorMessage": "another call is working on it; its lease ends at 2026-01-01T00:00:32.000Z"
        })
    );
}

#[tokio::test]
async fn an_invocation_whose_deadline_has_passed_does_nothing_and_says_so() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let handler = layer.layer(answers::<BoxError, _>(&calls, []));
    let late = LambdaEvent::new("Ev1".to_owned(), Context::default());
    assert_eq!(
        json_of(handler.clone().oneshot(late).await.unwrap_err()),
        json!({
            "errorType": "ichido.DeadlinePassed",
            "errorMessage": "the deadline 1970-01-01T00:00:00.000Z passed before the work could begin; nothing was done"
        })
    );
    assert!(db.items(TABLE).is_empty() && calls.all().is_empty());
}

#[tokio::test]
async fn an_event_without_a_key_is_an_error_with_its_cause() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), |event: &LambdaEvent<String>| {
        ichido::Namespace::new("order").key([&event.payload])
    });
    let handler = layer.on_doubt(OnDoubt::Refuse).layer(answers::<BoxError, _>(&calls, []));
    assert_eq!(
        json_of(handler.clone().oneshot(event(&db, "")).await.unwrap_err()),
        json!({
            "errorType": "ichido.NoKey",
            "errorMessage": "the event has no key: part 0 (counted from 0) of a key of namespace \"order\" is empty"
        })
    );
}

#[tokio::test]
async fn a_response_that_was_not_kept_is_an_error_of_its_own_on_a_replay() {
    let (db, calls) = (dynamo(), Calls::default());
    let large: &'static str = Box::leak("x".repeat(70_000).into_boxed_str());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Repeat);
    let handler = layer.layer(answers::<BoxError, _>(&calls, [Ok(large)]));
    assert_eq!(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap().len(), 70_000);
    let again = json_of(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap_err());
    assert_eq!(again["errorType"], "ichido.DoneWithoutValue");
    assert!(again["errorMessage"].as_str().unwrap().starts_with("it was done before, but its value was not kept"));
    assert_eq!(calls.all(), ["Ev1"], "it is not done again");
}

#[tokio::test]
async fn a_key_that_was_used_with_another_payload_is_refused_and_the_fields_are_named() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), |event: &LambdaEvent<String>| {
        let digests = DigestKey::new(b"secret").digests().field("amount", &event.payload).build();
        Ok::<_, BoxError>(Named::from(closed("order-7")).digests(digests).attribute("amount", event.payload.as_str()))
    });
    let handler = layer.on_doubt(OnDoubt::Repeat).layer(answers::<BoxError, _>(&calls, [Ok("handled")]));
    assert!(handler.clone().oneshot(event(&db, "100")).await.is_ok());
    let other = json_of(handler.clone().oneshot(event(&db, "200")).await.unwrap_err());
    assert_eq!(other["errorType"], "ichido.Mismatch");
    assert!(other["errorMessage"].as_str().unwrap().contains("amount"), "{other}");
    assert_eq!(db.items(TABLE)[0]["amount"], json!({"S": "100"}));
}

#[tokio::test]
async fn a_store_that_fails_is_reported_with_its_cause() {
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Repeat);
    let handler = layer.layer(answers::<BoxError, _>(&calls, [Ok("handled")]));
    db.faults().down();
    let down = handler.clone().oneshot(event(&db, "Ev1")).await.unwrap_err();
    assert_eq!(down.error_type(), "ichido.Store");

    db.faults().only(Rule::new(Fault::Down).call(2));
    let unrecorded = json_of(handler.clone().oneshot(event(&db, "Ev1")).await.unwrap_err());
    assert_eq!(unrecorded["errorType"], "ichido.Unrecorded");
    let text = unrecorded["errorMessage"].as_str().unwrap();
    let (what, why) = text.split_once(": ").expect("a cause");
    assert_eq!(what, "the work was done, but its outcome could not be recorded");
    assert!(!why.is_empty());
}

#[derive(Debug)]
struct Declined(u32);

impl From<Declined> for Diagnostic {
    fn from(Declined(code): Declined) -> Self {
        Self { error_type: "CardDeclined".into(), error_message: format!("the card was declined with code {code}") }
    }
}

/// What Lambda shows of a handler that fails with this error.
async fn shown<E>(error: E) -> Value
where
    E: ichido::lambda::IntoFailure + Send + 'static,
{
    let (db, calls) = (dynamo(), Calls::default());
    let layer = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Repeat);
    json_of(layer.layer(answers(&calls, [Err(error)])).oneshot(event(&db, "Ev1")).await.unwrap_err())
}

#[tokio::test]
async fn the_error_type_of_a_handlers_error_can_be_read() {
    let declined = json!({"errorType": "CardDeclined", "errorMessage": "the card was declined with code 51"});
    assert_eq!(shown(Declined(51)).await, declined);
    assert_eq!(shown(Failure::Permanent(Declined(51))).await, declined);
    let plain = json!({"errorType": "HandlerError", "errorMessage": "no"});
    assert_eq!(shown::<BoxError>("no".into()).await, plain);
    assert_eq!(shown(Failure::Retry(BoxError::from("no"))).await, plain);
    assert_eq!(shown("no").await, plain);
    assert_eq!(shown("no".to_owned()).await, plain);
    assert_eq!(
        shown(std::io::Error::other("no")).await,
        json!({"errorType": "std::io::error::Error", "errorMessage": "no"})
    );
}

/// What `lambda_runtime` demands of a handler.
#[test]
fn a_handler_under_the_layer_is_one_that_lambda_runtime_accepts() {
    let db = dynamo();
    let refusing = OnceLayer::new(instance(&db), by_payload).on_doubt(OnDoubt::Refuse);
    let asking = OnceLayer::new(instance(&db), by_payload)
        .probe(async |_: LambdaEvent<String>, _: Claim| Ok::<_, BoxError>(Probed::<String>::NotDone));
    let handler = || service_fn(async |event: LambdaEvent<String>| Ok::<_, BoxError>(event.payload));
    drop(lambda_runtime::run(refusing.layer(handler())));
    let concurrent = refusing.layer(handler()).call(event(&db, "Ev1"));
    fn is_send_and_static<T: Send + 'static>(_: &T) {}
    is_send_and_static(&concurrent);
    drop(lambda_runtime::run(asking.layer(handler())));
}

#[tokio::test]
async fn an_invocation_that_dies_at_any_call_loses_nothing_and_doubles_nothing() {
    struct World {
        db: Dynamo,
        outside: Outside,
        charges: Calls,
    }
    let report = interrupt::at_every_call(
        async |outside| World { db: dynamo().with_outside(outside.clone()), outside, charges: Calls::default() },
        async |world| {
            let (outside, charges) = (world.outside.clone(), world.charges.clone());
            let probe = move |event: LambdaEvent<String>, _: Claim| {
                let (outside, charges) = (outside.clone(), charges.clone());
                async move {
                    let found = outside.call("find", async { charges.all().contains(&event.payload) }).await;
                    Ok::<_, BoxError>(if found { Probed::Done("charged".to_owned()) } else { Probed::NotDone })
                }
            };
            let (outside, charges) = (world.outside.clone(), world.charges.clone());
            let charge = service_fn(move |event: LambdaEvent<String>| {
                let (outside, charges) = (outside.clone(), charges.clone());
                async move {
                    outside.call("charge", async { charges.note(&event.payload) }).await;
                    Ok::<_, BoxError>("charged".to_owned())
                }
            });
            // Each run is a new process.
            let handler = OnceLayer::new(instance(&world.db), by_payload).probe(probe).layer(charge);
            handler.oneshot(event(&world.db, "order-7")).await.map(|response| assert_eq!(response, "charged"))
        },
        async |world| world.db.clock().advance(LEASE + MAX_CLOCK_SKEW),
        async |world| assert_eq!(world.charges.all(), ["order-7"]),
    )
    .await;
    // The claim, the charge and the completion, each on both sides.
    assert_eq!(report.stops, 6);
}
