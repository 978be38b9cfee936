//! `/healthz` and `/_local/*`: what the console, tests and people ask the platform itself.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::platform::Platform;
use crate::world::alarms::Status;
use crate::world::functions::Invoked;
use crate::world::live;
use crate::world::schedules::Error;

/// How far the time of alarms can move in one step: one day.
const MOST_MINUTES: u64 = 24 * 60;

pub(super) async fn health(State(platform): State<Platform>) -> Response {
    if platform.is_ready() {
        (StatusCode::OK, Json(json!({"status": "ok"}))).into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "starting"}))).into_response()
    }
}

pub(super) async fn config(State(platform): State<Platform>) -> Json<Value> {
    Json(Value::Object(platform.config().clone()))
}

pub(super) async fn outbox(
    State(platform): State<Platform>,
    Query(query): Query<HashMap<String, String>>,
) -> Json<Value> {
    let all = query.get("all").is_some_and(|all| all == "1" || all == "true");
    let entries = platform.outbox().list(query.get("sink").map(String::as_str), all);
    Json(entries.iter().map(crate::world::outbox::Entry::public).collect())
}

pub(super) async fn schedules(State(platform): State<Platform>) -> Json<Value> {
    Json(platform.schedules().list().iter().map(crate::world::schedules::Schedule::shown).collect())
}

/// `POST /_local/schedules/NAME/ACTION`, where the action is `run`, `pause` or `resume`.
pub(super) async fn schedule(
    State(platform): State<Platform>,
    Path((name, action)): Path<(String, String)>,
) -> Response {
    let done = match action.as_str() {
        "run" => platform.run_schedule(&name).await.map(|invoked| ran(&name, &invoked)),
        "pause" => platform.schedules().change(&name, Some(false), None, None).map(|schedule| schedule.shown()),
        "resume" => platform.schedules().change(&name, Some(true), None, None).map(|schedule| schedule.shown()),
        _ => return refused(StatusCode::NOT_FOUND, "unknown action; a schedule has the actions run, pause and resume"),
    };
    match done {
        Ok(body) => Json(body).into_response(),
        Err(error @ Error::Unknown(_)) => refused(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error) => refused(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

fn ran(name: &str, invoked: &Invoked) -> Value {
    let ms = invoked.duration.as_millis();
    match &invoked.outcome {
        Ok(result) => json!({"name": name, "ok": true, "requestId": invoked.request_id, "ms": ms, "result": result}),
        Err(failure) => {
            json!({"name": name, "ok": false, "requestId": invoked.request_id, "ms": ms, "error": failure.body()})
        }
    }
}

pub(super) async fn faults(State(platform): State<Platform>) -> Json<Value> {
    Json(platform.faults().shown())
}

pub(super) async fn put_faults(State(platform): State<Platform>, body: axum::body::Bytes) -> Response {
    let Ok(wanted) = serde_json::from_slice::<Value>(&body) else {
        return refused(StatusCode::BAD_REQUEST, "the body is not JSON; faults are a JSON object");
    };
    match platform.faults().put(&wanted) {
        Ok(()) => {
            let shown = platform.faults().shown();
            platform.live().tell("faults", json!({ "faults": shown }));
            Json(shown).into_response()
        }
        Err(error) => refused(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

pub(super) async fn metrics(State(platform): State<Platform>) -> Json<Value> {
    platform.measure_queues();
    Json(platform.metrics().shown())
}

pub(super) async fn alarms(State(platform): State<Platform>) -> Json<Value> {
    Json(platform.evaluate_alarms().iter().map(Status::shown).collect())
}

/// `POST /_local/alarms/advance?minutes=5`: moves only the time of metrics and alarms forward.
pub(super) async fn advance_alarms(
    State(platform): State<Platform>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let minutes = query.get("minutes").and_then(|minutes| minutes.parse::<u64>().ok());
    let Some(minutes) = minutes.filter(|minutes| (1..=MOST_MINUTES).contains(minutes)) else {
        let message = format!("minutes is missing or wrong; use ?minutes=5, with a number from 1 to {MOST_MINUTES}");
        return refused(StatusCode::BAD_REQUEST, &message);
    };
    // Evaluate first: an alarm that ignores missing data must know its state from before the move.
    platform.evaluate_alarms();
    let ahead = platform.metrics().advance(Duration::from_secs(minutes * 60));
    let alarms: Value = platform.evaluate_alarms().iter().map(Status::shown).collect();
    Json(json!({"aheadSeconds": ahead.as_secs(), "alarms": alarms})).into_response()
}

/// The log lines that contain `?text=`, oldest first. The text can be a key, a trace id or a function's name.
pub(super) async fn log(State(platform): State<Platform>, Query(query): Query<HashMap<String, String>>) -> Json<Value> {
    Json(platform.live().lines(query.get("text").map_or("", String::as_str)).into())
}

pub(super) async fn functions(State(platform): State<Platform>) -> Json<Value> {
    let shown = |function: &std::sync::Arc<crate::world::functions::Function>| {
        let declared = &function.declared;
        json!({
            "name": declared.name, "timeoutSeconds": declared.timeout.as_secs(), "memoryMb": declared.memory_mb,
            "onFailure": declared.on_failure,
        })
    };
    Json(platform.functions().iter().map(shown).collect())
}

pub(super) async fn queues(State(platform): State<Platform>) -> Json<Value> {
    let queues = platform.queues();
    let shown = |name: &str| {
        let (visible, held) = queues.count(name);
        json!({"name": name, "visible": visible, "inFlight": held})
    };
    Json(queues.names().map(shown).collect())
}

/// What the console needs to draw itself.
pub(super) async fn console(State(platform): State<Platform>) -> Json<Value> {
    let panels = platform.panels().into_iter().map(|(name, panel)| json!({"name": name, "title": panel.title}));
    let ground = platform.ground();
    Json(json!({
        "panels": panels.collect::<Vec<_>>(), "sinks": platform.stand_ins().names(), "url": ground.url,
        "dynamodbUrl": ground.dynamodb_url, "tlsUrl": ground.tls_url,
    }))
}

/// The stream of events: first the kept ones, then each new one. With `Last-Event-ID` it continues after that event.
pub(super) async fn events(
    State(platform): State<Platform>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let given = headers.get("last-event-id").and_then(|id| id.to_str().ok()).or(query.get("after").map(String::as_str));
    let after = given.and_then(|id| id.parse().ok()).unwrap_or(0);
    let (past, receiver) = platform.live().follow(after);
    let past = stream::iter(past.into_iter().map(|event| Ok::<_, Infallible>(told(&event))));
    let mut stopped = platform.stopped();
    let until = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let stream = past.chain(rest(receiver)).take_until(until);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

fn rest(receiver: tokio::sync::broadcast::Receiver<live::Event>) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Ok(event) => Some((Ok(told(&event)), receiver)),
            Err(RecvError::Lagged(missed)) => {
                let event = Event::default().event("missed").data(json!({ "missed": missed }).to_string());
                Some((Ok(event), receiver))
            }
            Err(RecvError::Closed) => None,
        }
    })
}

fn told(event: &live::Event) -> Event {
    let data = serde_json::to_string(event).unwrap_or_default();
    Event::default().id(event.id.to_string()).data(data)
}

fn refused(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}
