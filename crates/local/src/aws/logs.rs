//! CloudWatch Logs' `FilterLogEvents` over the last log lines of the functions and of the mesh API: `ichidoctl trace` and the
//! runbooks use it.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::protocol;
use crate::platform::Platform;
use crate::world::live::{LAMBDA_LOGS, Line};
use crate::world::pattern::Pattern;

/// The most events in one answer, as on AWS.
const MOST_EVENTS: u64 = 10_000;

/// One operation.
pub(super) fn call(platform: &Platform, operation: &str, body: &[u8]) -> Response {
    if operation != "FilterLogEvents" {
        return protocol::refuse(&format!("Logs_20140328.{operation}"));
    }
    let request = match protocol::request(body) {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    let group = request["logGroupName"].as_str().or(request["logGroupIdentifier"].as_str()).unwrap_or_default();
    // A group may be given by its ARN.
    let group = group.find("/aws/").map_or(group, |at| &group[at..]);
    let is_of_function =
        group.strip_prefix(LAMBDA_LOGS).is_some_and(|function| platform.functions().find(function).is_some());
    if !is_of_function && !platform.has_log_group(group) {
        let message = "The specified log group does not exist.";
        return protocol::error(StatusCode::BAD_REQUEST, "ResourceNotFoundException", message);
    }
    let text = request["filterPattern"].as_str().unwrap_or_default();
    let Some(pattern) = Pattern::parse(text) else {
        let message = format!(
            "ichido-local does not understand the filter pattern {text}; it knows words, quoted phrases and {{ $.field = \"value\" }}"
        );
        return protocol::error(StatusCode::BAD_REQUEST, "InvalidParameterException", &message);
    };
    let time = |name: &str, default: u64| request[name].as_u64().unwrap_or(default);
    let (from, to) = (time("startTime", 0), time("endTime", u64::MAX));
    let after = request["nextToken"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0_u64);
    let most = usize::try_from(time("limit", MOST_EVENTS).clamp(1, MOST_EVENTS)).unwrap_or(usize::MAX);
    let matches = |line: &Line| {
        line.id > after && (from..to).contains(&line.at_ms) && line.group == group && pattern.matches(&line.text)
    };
    let found = platform.live().find_lines(matches, most + 1);
    let events: Vec<Value> = found
        .iter()
        .take(most)
        .map(|line| {
            json!({
                "logStreamName": "local", "timestamp": line.at_ms, "ingestionTime": line.at_ms, "message": line.text,
                "eventId": line.id.to_string(),
            })
        })
        .collect();
    let mut answer = json!({"events": events, "searchedLogStreams": []});
    if found.len() > most {
        answer["nextToken"] = json!(found[most - 1].id.to_string());
    }
    protocol::answer(&answer)
}
