//! Hands an upload over to `slack-files` by invoking it.
//!
//! Promise: `Ok` means that Lambda has the upload and keeps it until it is handled or in the on-failure queue. Handing an
//! upload over twice does no harm, because each of its files has a key of its own.

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use function::aws::Invoker;
use futures::future::BoxFuture;

use crate::event::Upload;

/// One try of the invocation. Lambda answers as soon as the event is queued, after some ten milliseconds.
const ATTEMPT: Duration = Duration::from_millis(500);
/// All tries together.
const WITHIN: Duration = Duration::from_millis(900);
const ATTEMPTS: u32 = 2;
const FIRST_BACKOFF: Duration = Duration::from_millis(25);

/// Why an upload was not handed over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Lambda refused the invocation: {0}")]
    Refused(String),
    /// It may have been accepted.
    #[error("Lambda did not answer ({0}); it may have accepted the invocation")]
    Unanswered(String),
}

/// Takes uploads to be handled.
pub trait HandOver: Send + Sync + 'static {
    fn hand_over<'a>(&'a self, upload: &'a Upload) -> BoxFuture<'a, Result<(), Error>>;
}

/// Asynchronous invocation: Lambda queues the event, retries it, and gives up on it into the on-failure queue.
#[derive(Debug, Clone)]
pub struct AsyncInvoke {
    invoker: Invoker,
    function: String,
}

impl AsyncInvoke {
    /// `function`: a name or an ARN, with or without an alias.
    pub fn new(invoker: &Invoker, function: String) -> Self {
        let retries = RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(FIRST_BACKOFF);
        let limits = TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT).operation_timeout(WITHIN).build();
        Self { invoker: invoker.with(retries, Some(limits)), function }
    }
}

impl HandOver for AsyncInvoke {
    fn hand_over<'a>(&'a self, upload: &'a Upload) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let payload = serde_json::to_vec(upload).map_err(|error| Error::Refused(error.to_string()))?;
            match self.invoker.queue(&self.function, payload).await {
                Ok(()) => Ok(()),
                Err(error @ (SdkError::ServiceError(_) | SdkError::ConstructionFailure(_))) => {
                    Err(Error::Refused(DisplayErrorContext(&error).to_string()))
                }
                Err(error) => Err(Error::Unanswered(DisplayErrorContext(&error).to_string())),
            }
        })
    }
}
