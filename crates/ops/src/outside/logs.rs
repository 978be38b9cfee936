//! The functions' log lines, from CloudWatch Logs or from the local platform, which answers the same call.

use std::ops::Range;
use std::time::Duration;

use ichido::{Clock as _, SystemClock, Timestamp};
use serde_json::Value;

use crate::context::{Context, Error, failed};

/// How far back the attempts of a dead letter are searched: it is kept for 14 days.
pub(crate) const DAYS_OF_LETTERS: Duration = Duration::from_secs(15 * 24 * 60 * 60);
/// How many lines one search of one function returns, about.
pub(crate) const MOST_LINES: usize = 1_000;
/// How many pages one search reads at most. A page may be empty although there are more.
const MOST_PAGES: usize = 50;

/// Fields that a line for people leaves out: it shows them already, or they tell an operator nothing.
const LEFT_OUT: [&str; 10] = [
    "timestamp",
    "level",
    "message",
    "function",
    "requestId",
    "traceId",
    "target",
    "strength",
    "dynamodbLatency",
    "fallbackMode",
];

/// A log line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub at: Timestamp,
    /// The line as the function wrote it.
    pub fields: Value,
}

impl Line {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields[name].as_str()
    }

    /// The time, the function, the message, and the other fields.
    pub(crate) fn for_people(&self) -> String {
        let text = |name: &str| self.text(name).unwrap_or_default();
        let level = match text("level") {
            "WARN" | "ERROR" => format!("{} ", text("level")),
            _ => String::new(),
        };
        let mut line = format!("{}  {:<18} {level}{}", text("timestamp"), text("function"), text("message"));
        if self.fields["fallbackMode"] == true {
            line.push_str("  (the store was down)");
        }
        for (name, value) in self.fields.as_object().into_iter().flatten() {
            match value {
                _ if LEFT_OUT.contains(&name.as_str()) => {}
                Value::Null => {}
                Value::String(text) => line.push_str(&format!("  {name}={text}")),
                other => line.push_str(&format!("  {name}={other}")),
            }
        }
        line
    }
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    /// Oldest first.
    pub lines: Vec<Line>,
    /// Whether these are all. If not, the newest are missing: AWS gives the oldest first.
    pub whole: bool,
}

/// The log lines of some functions that contain this text. Lines of metrics are left out.
pub(crate) async fn find(
    context: &Context<'_>,
    functions: &[&str],
    text: &str,
    within: Range<Timestamp>,
) -> Result<Found, Error> {
    let pattern = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut found = Found { lines: Vec::new(), whole: true };
    for function in functions {
        let group = format!("/aws/lambda/{function}{}", context.suffix()?);
        let of = of_group(context, &group, &pattern, &within).await?;
        found.lines.extend(of.lines);
        found.whole &= of.whole;
    }
    found.lines.sort_by_key(|line| line.at);
    Ok(found)
}

/// The time from so long ago until now, and a little longer: the clock of AWS may be ahead.
pub(crate) fn since(age: Duration) -> Range<Timestamp> {
    let now = SystemClock.now();
    now.saturating_sub(age)..now + Duration::from_secs(60)
}

async fn of_group(
    context: &Context<'_>,
    group: &str,
    pattern: &str,
    within: &Range<Timestamp>,
) -> Result<Found, Error> {
    let logs = context.logs();
    let millis = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or_default();
    let (mut lines, mut next) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let filter = logs
            .filter_log_events()
            .log_group_name(group)
            .filter_pattern(pattern)
            .start_time(millis(within.start))
            .end_time(millis(within.end))
            .set_next_token(next.take());
        let page = match filter.send().await {
            Ok(page) => page,
            // A function that never ran has no log group.
            Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) => {
                return Ok(Found { lines, whole: true });
            }
            Err(error) => {
                return Err(failed(
                    format!(
                        "could not read the log group {group}; check --env and the permission logs:FilterLogEvents"
                    ),
                    error,
                ));
            }
        };
        for event in page.events.unwrap_or_default() {
            let fields: Value = event.message().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            if fields.is_object() && fields.get("FunctionName").is_none() {
                let at =
                    Timestamp::from_millis(event.timestamp().and_then(|at| at.try_into().ok()).unwrap_or_default());
                lines.push(Line { at, fields });
            }
        }
        next = page.next_token;
        if next.is_none() {
            return Ok(Found { lines, whole: true });
        }
        if lines.len() >= MOST_LINES {
            break;
        }
    }
    Ok(Found { lines, whole: false })
}
