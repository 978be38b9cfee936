//! What a back end implements.

use std::future::Future;

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures::stream::{self, BoxStream, StreamExt};
use http::StatusCode;
use serde_json::json;

use crate::contract::{
    Alarm, Change, Changed, Cost, DeadLetters, Event, Frame, History, KeyQuery, Keys, Life, Metric, Overview, Rollouts,
    Schedule,
};
use crate::pages::Page;

/// Why there is no answer. Each message is a sentence that stands alone; the front end shows it.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("this console has no {0}")]
    Lacks(&'static str),
    #[error("{0}")]
    NotFound(String),
    /// The request is wrong.
    #[error("{0}")]
    Refused(String),
    /// Changes are not allowed here.
    #[error("{0}")]
    Forbidden(String),
    /// What was shown is no longer true, so nothing was changed.
    #[error("{0}")]
    Changed(String),
    /// What the back end asked did not answer.
    #[error("{0}")]
    Failed(String),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Lacks(_) | Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Changed(_) => StatusCode::CONFLICT,
            Self::Failed(_) => StatusCode::BAD_GATEWAY,
        };
        (status, Json(json!({"message": self.to_string()}))).into_response()
    }
}

/// An answer to come.
pub trait Answer<T>: Future<Output = Result<T, Failure>> + Send {}
impl<T, F: Future<Output = Result<T, Failure>> + Send> Answer<T> for F {}

/// Where the console's data comes from. Only the frame has no default; what a back end does not implement, it does not list among
/// its capabilities.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Who this is, and what it has. The router adds the pages.
    fn frame(&self) -> Frame;

    /// Pages of its own, after the console's.
    fn pages(&self) -> Vec<Page> {
        Vec::new()
    }

    /// The last `minutes`. `logs`: the logs are asked too (the capability `insights`).
    fn overview(&self, _minutes: u32, _logs: bool) -> impl Answer<Overview> {
        async { Err(Failure::Lacks("overview")) }
    }

    fn keys(&self, _query: KeyQuery) -> impl Answer<Keys> {
        async { Err(Failure::Lacks("list of keys")) }
    }

    /// The life of a key. `namespace` is the library's namespace, an application's name, or `_` if nobody knows. `key` is the key as it
    /// is stored; see [`crate::life::spellings`].
    fn life(&self, _namespace: String, _key: String) -> impl Answer<Life> {
        async { Err(Failure::Lacks("life of a key")) }
    }

    fn dead_letters(&self) -> impl Answer<DeadLetters> {
        async { Err(Failure::Lacks("dead letters")) }
    }

    fn schedules(&self) -> impl Answer<Vec<Schedule>> {
        async { Err(Failure::Lacks("schedules")) }
    }

    fn alarms(&self) -> impl Answer<Vec<Alarm>> {
        async { Err(Failure::Lacks("alarms")) }
    }

    fn metrics(&self) -> impl Answer<Vec<Metric>> {
        async { Err(Failure::Lacks("metrics")) }
    }

    fn rollouts(&self) -> impl Answer<Rollouts> {
        async { Err(Failure::Lacks("rollouts")) }
    }

    fn cost(&self) -> impl Answer<Cost> {
        async { Err(Failure::Lacks("cost")) }
    }

    /// What happened to Slack's events in the last days.
    fn history(&self, _days: u32) -> impl Answer<History> {
        async { Err(Failure::Lacks("history")) }
    }

    fn change(&self, _change: Change) -> impl Answer<Changed> {
        async { Err(Failure::Forbidden("this console only reads; nothing was changed".to_owned())) }
    }

    /// What happens: kept events after the id `after`, then every new one. It ends when the console stops.
    fn events(&self, _after: u64) -> BoxStream<'static, Event> {
        stream::empty().boxed()
    }
}
