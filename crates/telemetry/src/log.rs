//! JSON log lines: `{"timestamp", "level", "message", …fields…}`, the fields in camelCase.
//!
//! Field names are snake_case in the code and camelCase in the line (`event_key` → `eventKey`). Fields of the spans
//! around an event are added; if a name occurs twice, the innermost one wins.

use std::error::Error as StdError;
use std::fmt;

use ichido::Timestamp;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::{Error, emf, scope};

/// These crates are logged from the configured level, all others from WARN.
const OURS: [&str; 14] = [
    "ichido",
    "telemetry",
    "function",
    "http_client",
    "slack",
    "feeds",
    "tokens",
    "sessync",
    "mesh",
    "appsync",
    "local",
    "ops",
    "emulator",
    "testkit",
];

pub(crate) fn install(level: Level) -> Result<(), Error> {
    install_with(targets(level))
}

pub(crate) fn install_watching(level: Level) -> Result<(), Error> {
    install_with(
        targets(level).with_target(crate::WATCH_TARGET, LevelFilter::DEBUG.max(LevelFilter::from_level(level))),
    )
}

fn targets(level: Level) -> Targets {
    let level = LevelFilter::from_level(level);
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_targets(OURS.map(|name| (name, level)))
}

fn install_with(targets: Targets) -> Result<(), Error> {
    tracing_subscriber::registry().with(Lines.with_filter(targets)).try_init().map_err(|_| Error::AlreadyStarted)
}

struct Lines;

/// Fields in the order in which they were given. A span keeps its fields in its extensions.
#[derive(Default)]
struct Fields {
    message: Option<String>,
    rest: Vec<(String, Value)>,
}

impl<S> Layer<S> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(scope) = context.event_scope(event) {
            for span in scope {
                if let Some(outer) = span.extensions().get::<Fields>() {
                    for (name, value) in &outer.rest {
                        fields.put_if_absent(name, value);
                    }
                }
            }
        }
        scope::current(|invocation| {
            fields.put_if_absent("function", &Value::from(invocation.function.as_str()));
            fields.put_if_absent("requestId", &Value::from(invocation.request_id.as_str()));
            fields.put_if_absent("traceId", &Value::from(invocation.trace.id()));
        });
        crate::write(&line(&fields, *event.metadata().level(), event.metadata().target(), emf::now()));
    }
}

/// The line. It is written by hand, so that time, level and message come first for a person who reads it.
fn line(fields: &Fields, level: Level, target: &str, at: Timestamp) -> String {
    let mut line = String::with_capacity(256);
    let mut put = |name: &str, value: &Value| {
        line.push(if line.is_empty() { '{' } else { ',' });
        line.push_str(&Value::from(name).to_string());
        line.push(':');
        line.push_str(&value.to_string());
    };
    put("timestamp", &Value::from(at.to_string()));
    put("level", &Value::from(level.as_str()));
    put("message", &Value::from(fields.message.as_deref().unwrap_or_default()));
    for (name, value) in &fields.rest {
        put(name, value);
    }
    put("target", &Value::from(target));
    line.push('}');
    line
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = Some(match value {
                Value::String(text) => text,
                other => other.to_string(),
            });
            return;
        }
        let name = match camel_case(field.name()) {
            // The line itself has fields of these names.
            reserved if ["timestamp", "level", "target"].contains(&reserved.as_str()) => {
                format!("{reserved}_")
            }
            name => name,
        };
        match self.rest.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.rest.push((name, value)),
        }
    }

    fn put_if_absent(&mut self, name: &str, value: &Value) {
        if !self.rest.iter().any(|(known, _)| known == name) {
            self.rest.push((name.to_owned(), value.clone()));
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }

    /// An error with its causes in one string.
    fn record_error(&mut self, field: &Field, value: &(dyn StdError + 'static)) {
        self.put(field, Value::from(causes(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }
}

fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut raise = false;
    for letter in name.chars() {
        if letter == '_' && !camel.is_empty() {
            raise = true;
        } else if raise {
            camel.extend(letter.to_uppercase());
            raise = false;
        } else {
            camel.push(letter);
        }
    }
    camel
}

/// An error with its causes, down to the root, in one line. A cause that the text already contains is not repeated.
pub fn causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_written_with_its_causes_and_each_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{text}")]
        struct Layer {
            text: &'static str,
            source: Option<Box<Layer>>,
        }
        let layer = |text, source: Option<Layer>| Layer { text, source: source.map(Box::new) };
        let error = layer("no answer", Some(layer("no answer", Some(layer("connection refused", None)))));
        assert_eq!(causes(&error), "no answer: connection refused");
    }

    #[test]
    fn field_names_become_camel_case() {
        assert_eq!(camel_case("event_key"), "eventKey");
        assert_eq!(camel_case("dynamodb_latency_ms"), "dynamodbLatencyMs");
        assert_eq!(camel_case("_private"), "_private");
        assert_eq!(camel_case("plain"), "plain");
    }
}
