//! Invokes the notifier synchronously, with two retries. An answer that says `FunctionError` counts as a failure, unless it
//! says what became of each delivery ([`MISCONFIGURED`], [`UNDELIVERED`]).

use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use function::aws::Invoker;
use futures::future::BoxFuture;
use ichido::{Clock, Timestamp};

use crate::delivery::message::{MISCONFIGURED, Request, Response, UNDELIVERED};

/// How often a failed invocation is repeated.
const RETRIES: u32 = 2;
/// The pause before the first retry; the second is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("could not invoke the notifier: {0}")]
    Invoke(String),
    #[error("the notifier failed ({kind}): {message}")]
    Function { kind: String, message: String },
    #[error("could not read the notifier's answer: {0}")]
    Answer(String),
    #[error("the notifier did not answer in time")]
    Timeout,
}

/// Somebody who delivers an entry: the notifier's function, or a test's.
pub trait Invoke: Send + Sync {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, Error>>;
}

/// The Lambda function of the notifier.
#[derive(Debug, Clone)]
pub struct Lambda {
    invoker: Invoker,
    function: String,
}

impl Lambda {
    pub fn new(invoker: &Invoker, function: impl Into<String>) -> Self {
        // `invoke` retries. With the SDK's own retries as well, one delivery could take nine invocations.
        Lambda { invoker: invoker.with(RetryConfig::disabled(), None), function: function.into() }
    }
}

impl Invoke for Lambda {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let payload = serde_json::to_vec(request).map_err(|error| Error::Invoke(error.to_string()))?;
            let answer = self
                .invoker
                .ask(&self.function, payload)
                .await
                .map_err(|error| Error::Invoke(DisplayErrorContext(&error).to_string()))?;
            if let Some(kind) = answer.function_error {
                return function_error(kind, &answer.payload);
            }
            serde_json::from_slice(&answer.payload).map_err(|error| Error::Answer(error.to_string()))
        })
    }
}

/// What the notifier's error says. It is an answer all the same if it says what became of each delivery.
fn function_error(kind: String, payload: &[u8]) -> Result<Response, Error> {
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Failure {
        error_type: Option<String>,
        error_message: String,
    }
    let failure: Failure = serde_json::from_slice(payload).unwrap_or_default();
    let (kind, message) = (failure.error_type.unwrap_or(kind), failure.error_message);
    match serde_json::from_str(&message) {
        Ok(response) if kind == MISCONFIGURED || kind == UNDELIVERED => Ok(response),
        _ => Err(Error::Function { kind, message }),
    }
}

/// Invokes the notifier until it answers, [`RETRIES`] are used up, or the time is over.
pub(crate) async fn invoke(
    notifier: &dyn Invoke,
    request: &Request,
    clock: &Arc<dyn Clock>,
    until: Timestamp,
) -> Result<Response, Error> {
    let mut pause = PAUSE;
    for retry in 0.. {
        let left = until.since(clock.now());
        let answer = tokio::time::timeout(left, notifier.invoke(request)).await.unwrap_or(Err(Error::Timeout));
        match answer {
            Ok(response) => return Ok(response),
            Err(error) if retry == RETRIES || clock.now() + pause >= until => return Err(error),
            Err(error) => {
                let (entry_id, retry) = (&request.entry_id, retry + 1);
                tracing::debug!(entry_id, error = %error, retry, "retry {retry} of the delivery of {entry_id}: {error}");
                clock.sleep(pause).await;
                pause *= 2;
            }
        }
    }
    Err(Error::Timeout)
}
