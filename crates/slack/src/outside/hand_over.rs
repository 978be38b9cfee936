//! Hands an upload over to `slack-files` by invoking it.
//!
//! Promise: `Ok` means that Lambda has the upload and keeps it until it is handled or in the on-failure queue. Handing an
//! upload over twice does no harm, because each of its files has a key of its own.

use std::time::Duration;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::error::{DisplayErrorContext, SdkError};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
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
    client: Client,
    function: String,
}

impl AsyncInvoke {
    /// `function`: a name or an ARN, with or without an alias.
    pub fn new(client: &Client, function: String) -> Self {
        let config = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS).with_initial_backoff(FIRST_BACKOFF))
            .timeout_config(
                TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT).operation_timeout(WITHIN).build(),
            );
        Self { client: Client::from_conf(config.build()), function }
    }
}

impl HandOver for AsyncInvoke {
    fn hand_over<'a>(&'a self, upload: &'a Upload) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let payload = serde_json::to_vec(upload).map_err(|error| Error::Refused(error.to_string()))?;
            let call = self
                .client
                .invoke()
                .function_name(&self.function)
                .invocation_type(InvocationType::Event)
                .payload(Blob::new(payload));
            match call.send().await {
                Ok(_) => Ok(()),
                Err(error @ (SdkError::ServiceError(_) | SdkError::ConstructionFailure(_))) => {
                    Err(Error::Refused(DisplayErrorContext(&error).to_string()))
                }
                Err(error) => Err(Error::Unanswered(DisplayErrorContext(&error).to_string())),
            }
        })
    }
}
