//! The functions' log lines, wherever they are kept: CloudWatch Logs, or the local platform, which answers the same call.

use std::time::Duration;

use ichido::{Clock as _, SystemClock, Timestamp};
use serde_json::Value;

use crate::context::{Context, Error, failed};

/// Dead letters are kept for 14 days: how far back their attempts may be.
pub(crate) const DAYS_OF_LETTERS: Duration = Duration::from_secs(15 * 24 * 60 * 60);
/// Lines that one search gives at most.
pub(crate) const MOST_LINES: usize = 1_000;
/// Answers that one search asks for: each may be empty although there is more.
const MOST_PAGES: usize = 50;

/// Fields that a line for people does not repeat, or that tell an operator nothing.
const QUIET: [&str; 11] = [
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
    "storeLatency",
];

/// A log line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub at: Timestamp,
    /// The line as it was written.
    pub fields: Value,
}

impl Line {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields[name].as_str()
    }

    /// Time, function, what happened, and the fields that say more.
    pub(crate) fn for_people(&self) -> String {
        let text = |name: &str| self.text(name).unwrap_or_default();
        let level = match text("level") {
            "WARN" | "ERROR" => format!("{} ", text("level")),
            _ => String::new(),
        };
        let mut line = format!("{}  {:<18} {level}{}", text("timestamp"), text("function"), text("message"));
        if self.fields["fallbackMode"] == true {
            line.push_str("  without the store");
        }
        for (name, value) in self.fields.as_object().into_iter().flatten() {
            match value {
                _ if QUIET.contains(&name.as_str()) => {}
                Value::Null => {}
                Value::String(text) => line.push_str(&format!("  {name}={text}")),
                other => line.push_str(&format!("  {name}={other}")),
            }
        }
        line
    }
}

/// The lines of some functions that hold this text, oldest first; metrics are none.
pub(crate) async fn find(
    context: &Context<'_>,
    functions: &[&str],
    text: &str,
    since: Duration,
) -> Result<Vec<Line>, Error> {
    let start = SystemClock.now().saturating_sub(since);
    let pattern = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut lines = Vec::new();
    for function in functions {
        let group = format!("/aws/lambda/{function}{}", context.suffix()?);
        lines.extend(of_group(context, &group, &pattern, start).await?);
    }
    lines.sort_by_key(|line| line.at);
    Ok(lines)
}

async fn of_group(context: &Context<'_>, group: &str, pattern: &str, start: Timestamp) -> Result<Vec<Line>, Error> {
    let logs = context.logs();
    let (mut lines, mut next) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let filter = logs
            .filter_log_events()
            .log_group_name(group)
            .filter_pattern(pattern)
            .start_time(i64::try_from(start.as_millis()).unwrap_or_default())
            .set_next_token(next.take());
        let page = match filter.send().await {
            Ok(page) => page,
            // A function that never ran has no log.
            Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_not_found_exception()) => {
                return Ok(lines);
            }
            Err(error) => {
                return Err(failed(
                    format!("the log {group} could not be read; check --env and the permission logs:FilterLogEvents"),
                    error,
                ));
            }
        };
        for event in page.events.unwrap_or_default() {
            let fields: Value = event.message().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            if fields.is_object() && fields.get("_aws").is_none() {
                let at =
                    Timestamp::from_millis(event.timestamp().and_then(|at| at.try_into().ok()).unwrap_or_default());
                lines.push(Line { at, fields });
            }
        }
        next = page.next_token;
        if next.is_none() || lines.len() >= MOST_LINES {
            break;
        }
    }
    Ok(lines)
}
