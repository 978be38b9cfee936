//! Invoking a function.
//!
//! A function that raised an error may have done what it was asked: it may have timed out after its last write. So its error leaves
//! that open, unless it says that it refused the event.

use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use serde_json::Value;

use crate::context::{Context, Error};
use crate::outside::error::not_changed;
use crate::rollout::alias::LIVE;

/// What our functions call the error of an event that they refuse before they change anything: it is malformed, or what it names is
/// not there (`function::Error::kind`).
const REFUSED_EVENT: &str = "Event";

/// What a function said instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Raised {
    /// With the function's name, in one line.
    pub said: String,
    /// The `errorType`.
    kind: String,
}

impl From<Raised> for Error {
    fn from(raised: Raised) -> Self {
        match raised.kind.as_str() {
            REFUSED_EVENT => Error::Refused(raised.said),
            _ => Error::Unclear { what: raised.said, source: None },
        }
    }
}

/// Invokes a function and waits for its answer.
pub(crate) async fn ask(context: &Context<'_>, function: &str, payload: &Value) -> Result<Value, Error> {
    Ok(hear(context, function, payload).await??)
}

/// The same, for a caller that wants to know what the function raised.
pub(crate) async fn hear(
    context: &Context<'_>,
    function: &str,
    payload: &Value,
) -> Result<Result<Value, Raised>, Error> {
    let invoke = context.lambda().invoke().function_name(function).qualifier(LIVE);
    let answered = invoke.payload(Blob::new(payload.to_string())).send().await.map_err(|error| {
        not_changed(format!("could not invoke {function}; check --env and the permission lambda:InvokeFunction"), error)
    })?;
    let body = answered.payload.map(Blob::into_inner).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if answered.function_error.is_none() {
        return Ok(Ok(body));
    }
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let kind = text("errorType");
    Ok(Err(Raised { said: format!("{function} answered {kind}: {}", text("errorMessage")), kind }))
}

/// Gives Lambda an event for a function, which Lambda invokes later and repeats if it fails.
pub(crate) async fn send(context: &Context<'_>, function: &str, event: &Value) -> Result<(), Error> {
    let invoke = context.lambda().invoke().function_name(function).qualifier(LIVE);
    let invoke = invoke.invocation_type(InvocationType::Event).payload(Blob::new(event.to_string()));
    invoke.send().await.map_err(|error| {
        not_changed(
            format!(
                "Lambda did not accept the event for {function}; check --env and the permission lambda:InvokeFunction"
            ),
            error,
        )
    })?;
    Ok(())
}
