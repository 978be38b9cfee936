//! The Lambda functions: how each is built from its settings, and how it answers an event.

pub mod listed;
pub mod notifier;
pub mod subscriber;

use std::time::Duration;

use function::{Error, LambdaEvent, Value};
use ichido::Timestamp;

use crate::{entry::Source, list::FeedName, table::Table};

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

/// The name of the list's feed that a command is about, if it names one: `{"feed": {"name": …}}`.
fn feed_name(event: &LambdaEvent<Value>) -> Result<Option<FeedName>, Error> {
    let Some(feed) = event.payload.get("feed") else { return Ok(None) };
    let name = feed["name"].as_str().and_then(FeedName::listed);
    name.map(Some).ok_or_else(|| Error::failed("Event", "the event's feed has no name that a feed may have"))
}

/// The state of the feed that a command is about.
fn table_of(source: Source, table: &Table, event: &LambdaEvent<Value>) -> Result<Table, Error> {
    match (source, feed_name(event)?) {
        (Source::Listed, Some(feed)) => Ok(table.of_feed(feed)),
        (Source::Listed, None) => Err(Error::failed("Event", "name the feed: {\"feed\": {\"name\": …}}")),
        (Source::Github | Source::Hatebu, _) => Ok(table.clone()),
    }
}
