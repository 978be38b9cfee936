//! CloudWatch Logs over the last log lines of the functions and of the mesh API: `FilterLogEvents`, which `ichidoctl trace` and the
//! runbooks use, and the queries of Logs Insights that the console of an environment makes ([`super::insights`]).

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::{insights, protocol};
use crate::platform::Platform;
use crate::world::live::{LAMBDA_LOGS, Line};
use crate::world::pattern::Pattern;

/// The most events in one answer, as on AWS.
const MOST_EVENTS: u64 = 10_000;

/// One operation.
pub(super) fn call(platform: &Platform, operation: &str, body: &[u8]) -> Response {
    let request = match protocol::request(body) {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    match operation {
        "FilterLogEvents" => filter(platform, &request),
        "DescribeLogGroups" => groups(platform, &request),
        "StartQuery" => insights::start(platform, &request),
        "GetQueryResults" => insights::results(platform, &request),
        _ => protocol::refuse(&format!("Logs_20140328.{operation}")),
    }
}

/// The groups of the functions.
fn groups(platform: &Platform, request: &Value) -> Response {
    let prefix = request["logGroupNamePrefix"].as_str().unwrap_or_default();
    let names = platform.functions().iter().map(|function| format!("{LAMBDA_LOGS}{}", function.declared.name));
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    let groups: Vec<Value> = names
        .iter()
        .map(|name| json!({"logGroupName": name, "arn": template::arn("logs", &format!("log-group:{name}:*")), "storedBytes": 0}))
        .collect();
    protocol::answer(&json!({ "logGroups": groups }))
}

/// The group of this name, which may end in `-local`.
pub(super) fn find_group(platform: &Platform, group: &str) -> Option<String> {
    match group.strip_prefix(LAMBDA_LOGS).and_then(|function| platform.functions().find(function)) {
        Some(function) => Some(format!("{LAMBDA_LOGS}{}", function.declared.name)),
        None => platform.has_log_group(group).then(|| group.to_owned()),
    }
}

/// CloudWatch's answer about a group that is not there.
pub(super) fn no_group() -> Response {
    let message = "The specified log group does not exist.";
    protocol::error(StatusCode::BAD_REQUEST, "ResourceNotFoundException", message)
}

fn filter(platform: &Platform, request: &Value) -> Response {
    let group = request["logGroupName"].as_str().or(request["logGroupIdentifier"].as_str()).unwrap_or_default();
    // A group may be given by its ARN.
    let group = group.find("/aws/").map_or(group, |at| &group[at..]);
    let Some(group) = find_group(platform, group) else { return no_group() };
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
