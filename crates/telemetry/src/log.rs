//! JSON log lines: `{"timestamp", "level", "message", …fields…}`, the fields in camelCase.
//!
//! Field names are snake_case in the code and camelCase in the line (`event_key` → `eventKey`). Fields of the spans
//! around an event come along; where a name occurs twice, the innermost wins.

use std::error::Error as StdError;
use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::{Error, emf, scope};

/// Whose lines are logged from the configured level; everybody else's from WARN.
const OURS: [&str; 12] = [
    "ichido",
    "telemetry",
    "function",
    "slack",
    "feeds",
    "tokens",
    "sessync",
    "mesh",
    "appsync",
    "local",
    "ops",
    "testkit",
];

pub(crate) fn install(level: Level) -> Result<(), Error> {
    let level = LevelFilter::from_level(level);
    let targets =
        Targets::new().with_default(level.min(LevelFilter::WARN)).with_targets(OURS.map(|name| (name, level)));
    tracing_subscriber::registry().with(Lines.with_filter(targets)).try_init().map_err(|_| Error::AlreadyStarted)
}

struct Lines;

/// Fields in the order in which they were given; a span keeps its own in its extensions.
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
        crate::write(&line(&fields, *event.metadata().level(), event.metadata().target(), emf::now_ms()));
    }
}

/// The line itself. Written by hand because the order is for people: time, level and message come first.
fn line(fields: &Fields, level: Level, target: &str, at_ms: u64) -> String {
    let mut line = String::with_capacity(256);
    let mut put = |name: &str, value: &Value| {
        line.push(if line.is_empty() { '{' } else { ',' });
        line.push_str(&Value::from(name).to_string());
        line.push(':');
        line.push_str(&value.to_string());
    };
    put("timestamp", &Value::from(rfc3339(at_ms)));
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
            // These three are the line's own.
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

    /// An error with what caused it, down to the root, in one string.
    fn record_error(&mut self, field: &Field, value: &(dyn StdError + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.put(field, Value::from(text));
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

/// `2026-11-16T02:07:52.123Z` of epoch milliseconds. Written here, because a calendar crate would be most of a cold start's code.
pub fn rfc3339(ms: u64) -> String {
    const MS_PER_DAY: u64 = 86_400_000;
    let (days, of_day) = (ms / MS_PER_DAY, ms % MS_PER_DAY);
    // Days to civil date, after Howard Hinnant: years begin in March, eras have 400 years.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_and_cloudwatch_read_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
    }

    #[test]
    fn field_names_become_camel_case() {
        assert_eq!(camel_case("event_key"), "eventKey");
        assert_eq!(camel_case("dynamodb_latency_ms"), "dynamodbLatencyMs");
        assert_eq!(camel_case("_private"), "_private");
        assert_eq!(camel_case("plain"), "plain");
    }
}
