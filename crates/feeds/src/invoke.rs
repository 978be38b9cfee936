//! Invoking the notifier: synchronously, with 2 retries. An answer that says `FunctionError` is not an answer.

use std::{sync::Arc, time::Duration};

use aws_sdk_lambda::{error::DisplayErrorContext, primitives::Blob, types::InvocationType};
use futures::future::BoxFuture;
use ichido::{Clock, Timestamp};

use crate::message::{Request, Response};

/// How often a failed invocation is repeated.
pub const RETRIES: u32 = 2;
/// The pause before the first retry; the second is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the notifier could not be invoked: {0}")]
    Invoke(String),
    #[error("the notifier failed ({kind}): {message}")]
    Function { kind: String, message: String },
    #[error("the notifier's answer cannot be read: {0}")]
    Answer(String),
    #[error("the notifier did not answer in time")]
    Timeout,
}

/// Whoever delivers an entry.
pub trait Invoke: Send + Sync {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, Error>>;
}

/// The Lambda function of the notifier.
#[derive(Debug, Clone)]
pub struct Lambda {
    client: aws_sdk_lambda::Client,
    function: String,
}

impl Lambda {
    pub fn new(client: &aws_sdk_lambda::Client, function: impl Into<String>) -> Self {
        // Retries are counted here, as the plan says, and not multiplied by the SDK's.
        let config = client.config().to_builder().retry_config(aws_sdk_lambda::config::retry::RetryConfig::disabled());
        Lambda { client: aws_sdk_lambda::Client::from_conf(config.build()), function: function.into() }
    }
}

impl Invoke for Lambda {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let payload = serde_json::to_vec(request).map_err(|error| Error::Invoke(error.to_string()))?;
            let answer = self
                .client
                .invoke()
                .function_name(&self.function)
                .invocation_type(InvocationType::RequestResponse)
                .payload(Blob::new(payload))
                .send()
                .await
                .map_err(|error| Error::Invoke(DisplayErrorContext(&error).to_string()))?;
            let payload = answer.payload.unwrap_or_else(|| Blob::new([]));
            if let Some(kind) = answer.function_error {
                return Err(function_error(kind, payload.as_ref()));
            }
            serde_json::from_slice(payload.as_ref()).map_err(|error| Error::Answer(error.to_string()))
        })
    }
}

fn function_error(kind: String, payload: &[u8]) -> Error {
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Failure {
        error_type: Option<String>,
        error_message: String,
    }
    let failure: Failure = serde_json::from_slice(payload).unwrap_or_default();
    Error::Function { kind: failure.error_type.unwrap_or(kind), message: failure.error_message }
}

/// Invokes until there is an answer, there were [`RETRIES`], or the time is over.
pub async fn invoke(
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
                tracing::debug!(entry_id = request.entry_id, error = %error, retry = retry + 1, "invoking again");
                clock.sleep(pause).await;
                pause *= 2;
            }
        }
    }
    Err(Error::Timeout)
}
