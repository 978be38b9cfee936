//! Logs Insights, as far as this project asks it: `filter ispresent(FunctionName) | stats sum(coalesce(FIELD, 0)) as NAME, … by bin(1m)`.
//! Only lines with the numbers of an invocation have a `FunctionName`, so only these are searched.
//!
//! AWS answers a query later, by its id. Here the id is the query itself, so nothing is kept.

use std::collections::BTreeMap;

use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Value, json};

use super::{logs, protocol};
use crate::platform::Platform;
use crate::platform::clock::rfc3339;

const MS_PER_MINUTE: u64 = 60_000;

/// A query that is understood.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    /// What is added up, and the name of the sum.
    sums: Vec<(String, String)>,
}

impl Query {
    fn parse(text: &str) -> Option<Self> {
        let (filter, stats) = text.split_once('|')?;
        if filter.trim() != "filter ispresent(FunctionName)" {
            return None;
        }
        let sums = between(stats.trim(), "stats ", " by bin(1m)")?;
        let sums = sums.split(" as ").collect::<Vec<_>>();
        // `sum(coalesce(A, 0)) as a, sum(coalesce(B, 0)) as b` falls into [sum, "a, sum", "b"].
        let mut found = Vec::new();
        let mut field = between(sums.first()?, "sum(coalesce(", ", 0))")?;
        for part in sums.get(1..)? {
            let (name, next) = part.split_once(", ").map_or((*part, None), |(name, next)| (name, Some(next)));
            found.push((field.to_owned(), name.trim().to_owned()));
            match next {
                Some(next) => field = between(next, "sum(coalesce(", ", 0))")?,
                None => return (found.len() == sums.len() - 1).then_some(Query { sums: found }),
            }
        }
        None
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.strip_suffix(after)
}

/// `StartQuery`
pub(super) fn start(platform: &Platform, request: &Value) -> Response {
    let text = request["queryString"].as_str().unwrap_or_default();
    if Query::parse(text).is_none() {
        let message = format!(
            "ichido-local does not understand the query {text}; it knows filter ispresent(FunctionName) | stats sum(coalesce(FIELD, 0)) as NAME by bin(1m)"
        );
        return protocol::error(StatusCode::BAD_REQUEST, "MalformedQueryException", &message);
    }
    let groups = request["logGroupNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // As on AWS, one group that does not exist fails the whole query.
    let Some(groups) = groups.map(|group| logs::find_group(platform, group)).collect::<Option<Vec<_>>>() else {
        return logs::no_group();
    };
    let asked = json!([groups, request["startTime"], request["endTime"], text]);
    protocol::answer(&json!({"queryId": BASE64_URL_SAFE_NO_PAD.encode(asked.to_string())}))
}

/// `GetQueryResults`
pub(super) fn results(platform: &Platform, request: &Value) -> Response {
    let id = request["queryId"].as_str().unwrap_or_default();
    let asked: Option<(Vec<String>, u64, u64, String)> =
        BASE64_URL_SAFE_NO_PAD.decode(id).ok().and_then(|asked| serde_json::from_slice(&asked).ok());
    let Some((groups, from, to, text)) = asked else {
        return protocol::error(StatusCode::BAD_REQUEST, "ResourceNotFoundException", "There is no such query.");
    };
    let Some(query) = Query::parse(&text) else {
        return protocol::error(StatusCode::BAD_REQUEST, "MalformedQueryException", &text);
    };
    let within = (from * 1_000)..=(to * 1_000);
    let lines = platform.live().find_numbers(|line| groups.contains(&line.group) && within.contains(&line.at_ms));
    let mut minutes: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for line in &lines {
        let read: Value = serde_json::from_str(&line.text).unwrap_or_default();
        let sums = minutes.entry(line.at_ms / MS_PER_MINUTE).or_insert_with(|| vec![0.0; query.sums.len()]);
        for (sum, (field, _)) in sums.iter_mut().zip(&query.sums) {
            *sum += read[field].as_f64().unwrap_or_default();
        }
    }
    let row = |(minute, sums): (&u64, &Vec<f64>)| {
        // `2026-11-17 12:00:00.000`
        let at = rfc3339(minute * MS_PER_MINUTE).replace('T', " ").trim_end_matches('Z').to_owned();
        let named =
            query.sums.iter().zip(sums).map(|((_, name), sum)| json!({"field": name, "value": sum.to_string()}));
        std::iter::once(json!({"field": "bin(1m)", "value": at})).chain(named).collect::<Vec<Value>>()
    };
    let rows: Vec<Vec<Value>> = minutes.iter().map(row).collect();
    protocol::answer(&json!({
        "results": rows, "status": "Complete",
        "statistics": {"recordsMatched": rows.len(), "recordsScanned": lines.len(), "bytesScanned": 0},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queries_of_this_project_are_understood_and_no_others() {
        let one = Query::parse(
            "filter ispresent(FunctionName) | stats sum(coalesce(A, 0)) as a, sum(coalesce(B, 0)) as b by bin(1m)",
        );
        let pair = |field: &str, name: &str| (field.to_owned(), name.to_owned());
        assert_eq!(one, Some(Query { sums: vec![pair("A", "a"), pair("B", "b")] }));
        for other in [
            "",
            "fields @message",
            "filter ispresent(FunctionName)",
            "filter ispresent(Other) | stats sum(coalesce(A, 0)) as a by bin(1m)",
            "filter ispresent(FunctionName) | stats count(*) by bin(1m)",
            "filter ispresent(FunctionName) | stats sum(coalesce(A, 0)) as a by bin(5m)",
            "filter ispresent(FunctionName) | stats sum(coalesce(A, 0)) by bin(1m)",
        ] {
            assert_eq!(Query::parse(other), None, "{other}");
        }
    }
}
