//! Invoking a function.

use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use serde_json::Value;

use crate::context::{Context, Error, failed};
use crate::rollout::alias::LIVE;

/// Invokes a function and waits for its answer.
pub(crate) async fn ask(context: &Context<'_>, function: &str, payload: &Value) -> Result<Value, Error> {
    let invoke = context.lambda().invoke().function_name(function).qualifier(LIVE);
    let answered = invoke.payload(Blob::new(payload.to_string())).send().await.map_err(|error| {
        failed(format!("could not invoke {function}; check --env and the permission lambda:InvokeFunction"), error)
    })?;
    let body = answered.payload.map(Blob::into_inner).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answered.function_error {
        None => Ok(body),
        Some(_) => {
            let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
            Err(Error::Refused(format!("{function} answered {}: {}", text("errorType"), text("errorMessage"))))
        }
    }
}

/// Gives Lambda an event for a function, which Lambda invokes later and repeats if it fails.
pub(crate) async fn send(context: &Context<'_>, function: &str, event: &Value) -> Result<(), Error> {
    let invoke = context.lambda().invoke().function_name(function).qualifier(LIVE);
    let invoke = invoke.invocation_type(InvocationType::Event).payload(Blob::new(event.to_string()));
    invoke.send().await.map_err(|error| {
        failed(
            format!(
                "Lambda did not accept the event for {function}; check --env and the permission lambda:InvokeFunction"
            ),
            error,
        )
    })?;
    Ok(())
}
