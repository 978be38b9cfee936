//! What every function does, whatever its handler.

use std::sync::{Arc, Mutex};

use function::{Aws, Context, Definition, Env, Error, LambdaEvent, Value};
use serde_json::json;
use telemetry::{Level, Sink};

const ECHO: Definition = Definition {
    name: "echo",
    variables: &["TABLE"],
    build: |env, _aws| {
        Box::pin(async move {
            let mut vars = env.reader();
            vars.required("TABLE");
            vars.finish()?;
            Ok(function::handler(|event| async move {
                if event.payload == "fail" {
                    return Err(Error::failed("InFlight", "claimed until 12:00"));
                }
                Ok(json!({ "trace": telemetry::trace::current().map(|trace| trace.id().to_owned()) }))
            }))
        })
    },
};

fn event(payload: Value, trace: Option<&str>) -> LambdaEvent<Value> {
    let mut context = Context::default();
    context.request_id = "req-1".into();
    context.xray_trace_id = trace.map(str::to_owned);
    LambdaEvent::new(payload, context)
}

async fn started() -> function::Handler {
    let env: Env = [("TABLE", "events")].into_iter().collect();
    ECHO.start(env, Aws::at("http://127.0.0.1:9")).await.expect("it starts")
}

#[tokio::test]
async fn health_is_answered_without_the_handler_and_only_for_its_very_payload() {
    let handler = started().await;
    let payload = serde_json::from_str(function::HEALTH).expect("JSON");
    let answer = handler(event(payload, None)).await.expect("an answer");
    assert_eq!((&answer["ok"], &answer["function"]), (&json!(true), &json!("echo")));
    assert_eq!(answer.get("trace"), None, "the handler itself was not asked");
    assert!(!function::is_health(&json!({"ichido": "health", "rawPath": "/"})));
    assert!(!function::is_health(&json!({"ichido": "else"})));
}

#[tokio::test]
async fn an_incomplete_environment_keeps_the_function_from_starting() {
    let error = ECHO.start(Env::default(), Aws::at("http://127.0.0.1:9")).await.err().expect("an error");
    assert_eq!(error.to_string(), "the function's variables are not right: TABLE is missing");
}

#[tokio::test]
async fn the_trace_of_the_caller_is_the_trace_of_the_invocation() {
    let handler = started().await;
    let answer = handler(event(json!(1), Some("Root=1-2-3;Sampled=1"))).await.expect("an answer");
    assert_eq!(answer, json!({"trace": "1-2-3"}));
    let alone = handler(event(json!(1), None)).await.expect("an answer");
    assert_eq!(alone, json!({"trace": "req-1"}));
}

#[tokio::test]
async fn a_failure_is_logged_once() {
    telemetry::init_scoped(Level::INFO);
    let lines = Arc::new(Mutex::new(Vec::<Value>::new()));
    let into = lines.clone();
    let sink: Sink = Arc::new(move |line| into.lock().expect("lines").push(serde_json::from_str(line).expect("JSON")));
    let handler = started().await;
    let error = telemetry::scoped(sink, handler(event(json!("fail"), None))).await.expect_err("it fails");
    let told = function::Diagnostic::from(error);
    assert_eq!((told.error_type.as_str(), told.error_message.as_str()), ("InFlight", "claimed until 12:00"));
    let lines = lines.lock().expect("lines");
    let errors: Vec<&Value> = lines.iter().filter(|line| line["level"] == "ERROR").collect();
    assert_eq!(errors.len(), 1);
    assert_eq!((&errors[0]["kind"], &errors[0]["requestId"]), (&json!("InFlight"), &json!("req-1")));
}
