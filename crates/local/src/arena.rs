//! `/_local/duel` and the files of the page `/duel`: the duel of `crates/duel`, started from the console. One at a time.

use std::sync::{Arc, Mutex};

use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use duel::{Options, Progress, web};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The duel that runs, or the last one.
#[derive(Clone, Default)]
struct Arena(Arc<Mutex<Last>>);

#[derive(Default)]
struct Last {
    progress: Option<watch::Receiver<Progress>>,
    /// While it runs.
    running: Option<AbortHandle>,
    /// The number of the duel, so that a task that ends late changes nothing of the next one.
    number: u64,
    /// Why it has no result.
    failed: Option<String>,
}

/// Held by the task of a duel. However the task ends, the duel runs no longer.
struct Running {
    arena: Arena,
    number: u64,
    /// Why there is no result.
    failed: Option<String>,
}

impl Running {
    fn new(arena: Arena, number: u64) -> Self {
        Self { arena, number, failed: Some("the duel ended unexpectedly; the log says why".to_owned()) }
    }

    /// The duel has ended by itself.
    fn end(mut self, failed: Option<String>) {
        self.failed = failed;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut last = telemetry::lock(&self.arena.0);
        // Who stopped the duel has said so already.
        if last.number == self.number && last.running.take().is_some() {
            last.failed = self.failed.take();
        }
    }
}

/// What `POST /_local/duel` takes; everything may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    seed: Option<u64>,
    seconds: Option<u64>,
    without: Option<Without>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Without {
    Powertools,
}

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/duel/{file}", get(file))
        .route("/_local/duel", get(shown).post(start).delete(stop))
        .with_state(Arena::default())
}

async fn file(OriginalUri(uri): OriginalUri) -> Response {
    match web::file(uri.path()) {
        Some((kind, text)) => {
            let headers =
                [("content-type", kind), ("content-security-policy", web::POLICY), ("cache-control", "no-cache")];
            (headers, text).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn shown(State(arena): State<Arena>) -> Response {
    let last = telemetry::lock(&arena.0);
    let progress = last.progress.as_ref().map(|progress| progress.borrow().clone());
    Json(web::state(progress.as_ref(), last.running.is_some(), true, last.failed.as_deref())).into_response()
}

async fn start(State(arena): State<Arena>, body: axum::body::Bytes) -> Response {
    let wanted = match serde_json::from_slice::<Wanted>(if body.is_empty() { b"{}" } else { &body }) {
        Ok(wanted) => wanted,
        Err(error) => {
            let message = format!("the body is not understood ({error}); it may have seed, seconds and without");
            return refused(StatusCode::BAD_REQUEST, &message);
        }
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return refused(StatusCode::INTERNAL_SERVER_ERROR, &format!("no program for workers: {error}")),
    };
    let mut options = Options::new(wanted.seed.unwrap_or_else(|| fastrand::u64(1..10_000)), program);
    options.seconds = wanted.seconds.unwrap_or(options.seconds);
    options.without_powertools = wanted.without.is_some();
    if let Err(error) = options.check() {
        return refused(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let mut last = telemetry::lock(&arena.0);
    if last.running.is_some() {
        return refused(StatusCode::CONFLICT, "a duel is running; wait for its end, or stop it");
    }
    let seed = options.seed;
    let (sender, receiver) = watch::channel(Progress { seed, seconds: options.seconds, ..Progress::default() });
    let number = last.number + 1;
    let running = Running::new(arena.clone(), number);
    let task = tokio::spawn(async move {
        let ended = duel::run(options, sender).await;
        running.end(ended.err().map(|error| telemetry::causes(&error)));
    });
    *last = Last { progress: Some(receiver), running: Some(task.abort_handle()), number, failed: None };
    (StatusCode::ACCEPTED, Json(json!({ "seed": seed }))).into_response()
}

/// Ends the duel and its workers.
async fn stop(State(arena): State<Arena>) -> Response {
    let mut last = telemetry::lock(&arena.0);
    match last.running.take() {
        Some(task) => {
            task.abort();
            last.failed = Some("the duel was stopped".to_owned());
            Json(json!({"stopped": true})).into_response()
        }
        None => refused(StatusCode::CONFLICT, "no duel is running"),
    }
}

fn refused(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An arena in which duel `number` runs.
    fn arena(number: u64) -> Arena {
        let arena = Arena::default();
        let task = tokio::spawn(std::future::pending::<()>());
        *telemetry::lock(&arena.0) = Last { running: Some(task.abort_handle()), number, ..Last::default() };
        arena
    }

    #[tokio::test]
    async fn a_task_that_ends_late_does_not_end_the_next_duel() {
        let arena = arena(2);
        drop(Running::new(arena.clone(), 1));
        assert!(telemetry::lock(&arena.0).running.is_some());
        Running::new(arena.clone(), 2).end(None);
        let last = telemetry::lock(&arena.0);
        assert!(last.running.is_none() && last.failed.is_none());
    }

    #[tokio::test]
    async fn a_duel_that_panics_runs_no_longer_and_says_so() {
        let arena = arena(1);
        let running = Running::new(arena.clone(), 1);
        let ended = tokio::spawn(async move {
            let _running = running;
            panic!("a part of the duel failed");
        });
        assert!(ended.await.is_err());
        let last = telemetry::lock(&arena.0);
        assert!(last.running.is_none());
        assert_eq!(last.failed.as_deref(), Some("the duel ended unexpectedly; the log says why"));
    }
}
