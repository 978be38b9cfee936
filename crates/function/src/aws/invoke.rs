//! Lambda's Invoke API: how one function gives work to another.

use std::sync::Arc;

use aws_config::SdkConfig;
use aws_smithy_http::label::{EncodingStrategy, fmt_string};
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;

use super::call::{Answer, Call, Error, Name, Request};

const INVOKE: Name = Name { service: "lambda", operation: "Invoke" };

/// Invokes functions. Its calls carry the running invocation's trace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Invoker {
    config: Arc<SdkConfig>,
    call: Call,
}

/// What a function answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    pub payload: Vec<u8>,
    /// The kind of error (`Unhandled`) if the function failed; the payload then describes it.
    pub function_error: Option<String>,
}

impl Invoker {
    /// With the configuration's credentials, region and endpoint, and with the SDK's retries.
    pub(crate) fn new(config: SdkConfig) -> Self {
        let call = Call::new(&config, INVOKE, None, None);
        Self { config: Arc::new(config), call }
    }

    /// The same, with these retries and time limits.
    #[must_use]
    pub fn with(&self, retries: RetryConfig, limits: Option<TimeoutConfig>) -> Self {
        let call = Call::new(&self.config, INVOKE, Some(retries), limits);
        Self { config: self.config.clone(), call }
    }

    /// Invokes a function, by its name or ARN with or without an alias, and waits for its answer.
    pub async fn ask(&self, function: &str, payload: Vec<u8>) -> Result<Answered, Error> {
        let answer = self.send(function, "RequestResponse", payload).await?;
        let function_error = answer.header("x-amz-function-error").map(ToOwned::to_owned);
        Ok(Answered { payload: answer.body, function_error })
    }

    /// Gives Lambda an event for a function. `Ok` means that Lambda has queued it, and will repeat it if the function fails.
    pub async fn queue(&self, function: &str, payload: Vec<u8>) -> Result<(), Error> {
        self.send(function, "Event", payload).await.map(|_| ())
    }

    async fn send(&self, function: &str, kind: &str, payload: Vec<u8>) -> Result<Answer, Error> {
        let path = format!("/2015-03-31/functions/{}/invocations", fmt_string(function, EncodingStrategy::Default));
        let mut headers =
            vec![("content-type", "application/octet-stream".to_owned()), ("x-amz-invocation-type", kind.to_owned())];
        if let Some(trace) = telemetry::trace::current() {
            headers.push((telemetry::trace::HEADER, trace.header().to_owned()));
        }
        self.call.send(Request { path, headers, body: payload }).await
    }
}
