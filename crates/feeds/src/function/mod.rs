//! The Lambda functions: how each is built from its settings, and how it answers an event.

pub(crate) mod notifier;
pub mod subscriber;

use std::time::Duration;

use function::{LambdaEvent, Value};
use ichido::Timestamp;

/// How long an invocation may take that does not say when it ends.
const DEFAULT_TIME: Duration = Duration::from_secs(60);

/// When the invocation ends.
fn deadline(event: &LambdaEvent<Value>, now: Timestamp) -> Timestamp {
    function::deadline(&event.context).unwrap_or(now + DEFAULT_TIME)
}

/// The command that an event asks for, if it is not the ordinary event.
fn command(event: &LambdaEvent<Value>) -> Option<&str> {
    event.payload.get("command").and_then(Value::as_str)
}
