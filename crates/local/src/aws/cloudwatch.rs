//! CloudWatch's `DescribeAlarms`: the alarms of the templates and their present states. `EnableAlarmActions` and
//! `DisableAlarmActions` say whether anybody is told when an alarm rings. `GetMetricData` answers the series that were measured.
//!
//! The SDK uses Smithy's RPC protocol with CBOR, other clients use AWS's JSON protocol. Both get the same answer.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, StatusCode};
use serde_json::{Value, json};

use super::{cbor, plain, protocol};
use crate::platform::Platform;
use crate::world::alarms::{Status, datapoint};
use crate::world::metrics::Id;

/// The most alarms in one answer.
const MOST_RECORDS: u64 = 100;
const PROTOCOL: HeaderName = HeaderName::from_static("smithy-protocol");

/// `POST /service/GraniteServiceVersion20100801/operation/…`
pub(super) fn call_cbor(platform: &Platform, operation: &str, body: &[u8]) -> Response {
    let answered = |status: StatusCode, body: &Value| {
        let headers = [(http::header::CONTENT_TYPE, "application/cbor"), (PROTOCOL, "rpc-v2-cbor")];
        (status, headers, cbor::write(body)).into_response()
    };
    let Some(request) = cbor::read(body) else {
        return answered(
            StatusCode::BAD_REQUEST,
            &json!({"__type": "InvalidFormat", "message": "the request is not CBOR"}),
        );
    };
    match perform(platform, operation, &request, cbor::time) {
        Some(answer) => answered(StatusCode::OK, &answer),
        None => {
            let message = format!("ichido-local does not serve monitoring: {operation}");
            let body = json!({"__type": "UnknownOperationException", "message": message});
            answered(StatusCode::NOT_IMPLEMENTED, &body)
        }
    }
}

/// `X-Amz-Target: GraniteServiceVersion20100801.…`
pub(super) fn call_json(platform: &Platform, operation: &str, body: &[u8]) -> Response {
    let request = match protocol::request(body) {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    match perform(platform, operation, &request, |ms| json!(ms as f64 / 1e3)) {
        Some(answer) => protocol::answer(&answer),
        None => protocol::refuse(&format!("monitoring: {operation}")),
    }
}

/// The answer to an operation; `None` if it is not served.
fn perform(platform: &Platform, operation: &str, request: &Value, time: fn(u64) -> Value) -> Option<Value> {
    match operation {
        "DescribeAlarms" => Some(describe(platform, request, time)),
        "GetMetricData" => Some(metric_data(platform, request, time)),
        "EnableAlarmActions" | "DisableAlarmActions" => {
            for name in request["AlarmNames"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                platform.alarms().enable_actions(plain(name), operation == "EnableAlarmActions");
            }
            Some(json!({}))
        }
        _ => None,
    }
}

fn describe(platform: &Platform, request: &Value, time: fn(u64) -> Value) -> Value {
    let prefix = request["AlarmNamePrefix"].as_str().unwrap_or_default();
    let asked: Vec<&str> = request["AlarmNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let named = |name: &str| asked.is_empty() || asked.iter().any(|wanted| plain(wanted) == name);
    let shown = |status: &Status| {
        let mut shown = shown(status, time);
        // Whoever asks for an alarm by name looks for that name in the answer.
        if let Some(name) = asked.iter().find(|wanted| plain(wanted) == status.alarm.name) {
            shown["AlarmName"] = json!(name);
        }
        shown
    };
    let in_state = |state: &str| request["StateValue"].as_str().is_none_or(|wanted| wanted == state);
    let all = platform.evaluate_alarms();
    let mut found: Vec<&Status> = all
        .iter()
        .filter(|status| {
            status.alarm.name.starts_with(prefix) && named(&status.alarm.name) && in_state(status.state.as_str())
        })
        .collect();
    found.sort_by(|a, b| a.alarm.name.cmp(&b.alarm.name));
    let after = request["NextToken"].as_str().unwrap_or_default();
    let most = request["MaxRecords"].as_u64().unwrap_or(50).clamp(1, MOST_RECORDS);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    found.retain(|status| status.alarm.name.as_str() > after);
    let mut answer = json!({"CompositeAlarms": []});
    if found.len() > most {
        found.truncate(most);
        answer["NextToken"] = json!(found.last().map(|status| status.alarm.name.clone()));
    }
    answer["MetricAlarms"] = found.iter().map(|status| shown(status)).collect();
    answer
}

/// The value of a dimension as it is measured here: `slack-events-local:live` is `slack-events:live`.
fn own(value: &str) -> String {
    match value.split_once(':') {
        Some((name, alias)) => format!("{}:{alias}", plain(name)),
        None => plain(value).to_owned(),
    }
}

/// The values of some series, newest first, as CloudWatch sorts them. Calculations are not served: such a query gets no values.
fn metric_data(platform: &Platform, request: &Value, time: fn(u64) -> Value) -> Value {
    platform.measure_queues();
    let minute = |name: &str| (request[name].as_f64().unwrap_or_default() / 60.0).max(0.0);
    let (from, to) = (minute("StartTime").floor() as u64, minute("EndTime").ceil() as u64);
    let answer = |query: &Value| {
        let (stat, metric) = (&query["MetricStat"], &query["MetricStat"]["Metric"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let dimensions = metric["Dimensions"].as_array().into_iter().flatten();
        let id = Id {
            namespace: text(&metric["Namespace"]),
            name: text(&metric["MetricName"]),
            dimensions: dimensions.map(|each| (text(&each["Name"]), own(&text(&each["Value"])))).collect(),
        };
        let period = (stat["Period"].as_u64().unwrap_or(60) / 60).max(1);
        let first = from / period * period;
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let starts: Vec<u64> = (first..to).step_by(usize::try_from(period).unwrap_or(1)).collect();
        for start in starts.into_iter().rev() {
            let minutes = platform.metrics().minutes(&id, start, start + period);
            if let Some(value) = datapoint(stat["Stat"].as_str().unwrap_or_default(), &minutes) {
                times.push(time(start * 60_000));
                values.push(json!(value));
            }
        }
        json!({
            "Id": query["Id"], "Label": id.name, "Timestamps": times, "Values": values, "StatusCode": "Complete",
            "Messages": [],
        })
    };
    let queries = request["MetricDataQueries"].as_array().into_iter().flatten();
    json!({"MetricDataResults": queries.map(answer).collect::<Vec<_>>(), "Messages": []})
}

fn shown(status: &Status, time: fn(u64) -> Value) -> Value {
    let alarm = &status.alarm;
    let dimensions: Vec<Value> =
        alarm.dimensions.iter().map(|(name, value)| json!({"Name": name, "Value": value})).collect();
    let mut shown = json!({
        "AlarmName": alarm.name, "AlarmArn": template::arn("cloudwatch", &format!("alarm:{}", alarm.name)),
        "AlarmDescription": alarm.description, "ActionsEnabled": status.actions_enabled, "OKActions": [], "AlarmActions": [],
        "InsufficientDataActions": [], "StateValue": status.state.as_str(), "StateReason": status.reason(),
        "StateUpdatedTimestamp": time(status.since_ms), "StateTransitionedTimestamp": time(status.since_ms),
        "AlarmConfigurationUpdatedTimestamp": time(0),
        "MetricName": alarm.metric, "Namespace": alarm.namespace, "Dimensions": dimensions,
        "Period": alarm.period.as_secs(), "EvaluationPeriods": alarm.evaluation_periods,
        "DatapointsToAlarm": alarm.datapoints_to_alarm, "Threshold": alarm.threshold,
        "ComparisonOperator": alarm.comparison, "TreatMissingData": alarm.missing_data,
    });
    for actions in ["AlarmActions", "OKActions"] {
        if let Some(list @ Value::Array(_)) = alarm.properties.get(actions) {
            shown[actions] = list.clone();
        }
    }
    let statistic = if alarm.statistic.starts_with('p') { "ExtendedStatistic" } else { "Statistic" };
    shown[statistic] = json!(alarm.statistic);
    shown
}
