//! The calls of EventBridge Scheduler that the operator's tool makes: list, read, and change the state, the rate or the target.
//!
//! As on AWS, `UpdateSchedule` replaces the whole schedule: a property that the request leaves out is removed. Properties that
//! cannot change here, such as the target's input, must be sent unchanged. So a tool that forgets to read the
//! schedule first fails here, before it does damage on AWS.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{plain, protocol};
use crate::platform::Platform;
use crate::world::schedules::{Error, Schedule};

/// Properties that an update must send unchanged, with Scheduler's default for those that a template leaves out.
const FIXED: [(&str, Option<&str>); 5] = [
    ("FlexibleTimeWindow", None),
    ("Description", None),
    ("ScheduleExpressionTimezone", Some("UTC")),
    ("KmsKeyArn", None),
    ("ActionAfterCompletion", Some("NONE")),
];

/// The parts of a target that an update may change.
const CHANGEABLE: [&str; 3] = ["Arn", "RetryPolicy", "DeadLetterConfig"];

/// One call, by its method and path.
pub(super) fn call(platform: &Platform, method: &Method, path: &str, query: &str, body: &[u8]) -> Response {
    let query: BTreeMap<String, String> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    match (method.as_str(), path.strip_prefix("/schedules")) {
        ("GET", Some("" | "/")) => list(platform, &query),
        ("GET", Some(name)) => match find(platform, name, query.get("groupName")) {
            Ok(schedule) => answer(&shown(&schedule)),
            Err(refusal) => refusal,
        },
        ("PUT", Some(name)) => update(platform, name, body),
        _ => protocol::refuse(&format!("scheduler: {method} {path}")),
    }
}

fn list(platform: &Platform, query: &BTreeMap<String, String>) -> Response {
    let matches = |name: &str, value: &str| query.get(name).is_none_or(|wanted| wanted == value);
    let prefix = query.get("NamePrefix").map_or("", String::as_str);
    let schedules: Vec<Value> = platform
        .schedules()
        .list()
        .iter()
        .filter(|schedule| schedule.declared.name.starts_with(prefix))
        .filter(|schedule| matches("ScheduleGroup", &schedule.declared.group) && matches("State", state(schedule)))
        .map(|schedule| {
            let whole = shown(schedule);
            let mut summary = json!({"Target": {"Arn": whole["Target"]["Arn"]}});
            for name in ["Arn", "CreationDate", "GroupName", "LastModificationDate", "Name", "State"] {
                summary[name] = whole[name].clone();
            }
            summary
        })
        .collect();
    answer(&json!({ "Schedules": schedules }))
}

fn update(platform: &Platform, name: &str, body: &[u8]) -> Response {
    let wanted: Value = match serde_json::from_slice(body) {
        Ok(wanted) => wanted,
        Err(_) => return invalid("the request is not JSON"),
    };
    let schedule = match find(platform, name, wanted["GroupName"].as_str().map(str::to_owned).as_ref()) {
        Ok(schedule) => schedule,
        Err(refusal) => return refusal,
    };
    let Some(expression) = wanted["ScheduleExpression"].as_str() else {
        return invalid("ScheduleExpression is required, because an update replaces the whole schedule");
    };
    let before = shown(&schedule);
    if !wanted["Target"]["Arn"].is_string() || fixed(&wanted["Target"]) != fixed(&before["Target"]) {
        return changed_too_much("Target");
    }
    for (name, default) in FIXED {
        let of = |value: &Value| if value.is_null() { default.map_or(Value::Null, Value::from) } else { value.clone() };
        if of(&wanted[name]) != of(&before[name]) {
            return changed_too_much(name);
        }
    }
    let enabled = wanted["State"].as_str().unwrap_or("ENABLED") == "ENABLED";
    match platform.schedules().change(&schedule.declared.name, Some(enabled), Some(expression), Some(&wanted["Target"]))
    {
        Ok(changed) => answer(&json!({ "ScheduleArn": changed.arn() })),
        Err(error) => invalid(&error.to_string()),
    }
}

/// What of a target must be sent unchanged.
fn fixed(target: &Value) -> Value {
    let mut fixed = target.clone();
    if let Value::Object(members) = &mut fixed {
        members.retain(|name, value| !value.is_null() && !CHANGEABLE.contains(&name.as_str()));
    }
    fixed
}

fn changed_too_much(name: &str) -> Response {
    invalid(&format!(
        "{name} is not as it was; an update replaces the whole schedule, and ichido-local can change only State, ScheduleExpression, and {} of the target",
        CHANGEABLE.join(", ")
    ))
}

#[expect(clippy::result_large_err, reason = "the refusal is the response itself")]
fn find(platform: &Platform, path: &str, group: Option<&String>) -> Result<Schedule, Response> {
    let name = plain(path.trim_start_matches('/'));
    let schedules = platform.schedules().list();
    let mut named = schedules.into_iter().filter(|schedule| schedule.declared.name == name);
    let found = named.find(|schedule| group.is_none_or(|group| *group == schedule.declared.group));
    found.ok_or_else(|| {
        let message = Error::Unknown(name.to_owned()).to_string();
        refused(StatusCode::NOT_FOUND, "ResourceNotFoundException", &message)
    })
}

fn state(schedule: &Schedule) -> &'static str {
    if schedule.enabled { "ENABLED" } else { "DISABLED" }
}

/// What `GetSchedule` answers: the properties of the template, with the changes that were made since.
fn shown(schedule: &Schedule) -> Value {
    let mut shown = schedule.declared.properties.clone();
    for (name, value) in [
        ("Arn", Value::from(schedule.arn())),
        ("Target", schedule.target.clone()),
        ("Name", Value::from(schedule.declared.name.as_str())),
        ("GroupName", Value::from(schedule.declared.group.as_str())),
        ("ScheduleExpression", Value::from(schedule.expression.as_str())),
        ("State", Value::from(state(schedule))),
        ("CreationDate", Value::from(0)),
        ("LastModificationDate", Value::from(0)),
    ] {
        shown[name] = value;
    }
    for (name, default) in FIXED {
        if let (Value::Null, Some(default)) = (&shown[name], default) {
            shown[name] = Value::from(default);
        }
    }
    // Indexing above adds a null for a missing property; Scheduler leaves it out.
    if let Value::Object(members) = &mut shown {
        members.retain(|_, value| !value.is_null());
    }
    shown
}

fn answer(body: &Value) -> Response {
    (StatusCode::OK, [("content-type", "application/json")], body.to_string()).into_response()
}

fn invalid(message: &str) -> Response {
    refused(StatusCode::BAD_REQUEST, "ValidationException", message)
}

fn refused(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({ "Message": message });
    (status, [("content-type", "application/json"), ("x-amzn-errortype", kind)], body.to_string()).into_response()
}
