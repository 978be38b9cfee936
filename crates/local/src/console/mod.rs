//! The console on this machine: its back end, and the `/_local/*` API that the applications' pages and tools use. The front end and the
//! contract are in `crates/console`.

mod api;
mod backend;

use axum::Router;
use axum::routing::{get, post};

use crate::platform::Platform;

/// The console, and the API of the platform itself.
pub(crate) fn routes(platform: &Platform) -> Router {
    let local = Router::new()
        .route("/healthz", get(api::health))
        .route("/_local/config", get(api::config))
        .route("/_local/outbox", get(api::outbox))
        .route("/_local/schedules", get(api::schedules))
        .route("/_local/schedules/{name}/{action}", post(api::schedule))
        .route("/_local/faults", get(api::faults).put(api::put_faults))
        .route("/_local/metrics", get(api::metrics))
        .route("/_local/alarms", get(api::alarms))
        .route("/_local/alarms/advance", post(api::advance_alarms))
        .route("/_local/events", get(api::events))
        .route("/_local/log", get(api::log))
        .route("/_local/functions", get(api::functions))
        .route("/_local/queues", get(api::queues))
        .route("/_local/console", get(api::console));
    local.with_state(platform.clone()).merge(backend::routes(platform))
}
