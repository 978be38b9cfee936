//! The line with the numbers of an invocation. Those that an alarm watches are also declared in CloudWatch's embedded metric
//! format, so that CloudWatch Logs makes metrics of them.

use std::time::SystemTime;

use ichido::Timestamp;
use serde_json::{Map, Value, json};

use crate::metric::Metric;
use crate::scope::Invocation;

/// The namespace of all our metrics.
const NAMESPACE: &str = "Ichido";
/// The dimension that every metric has. No other line has a field of this name.
const FUNCTION: &str = "FunctionName";
/// The function's name outside an invocation.
const NO_FUNCTION: &str = "none";

/// Numbers that are written together. Each is the sum of what was added.
#[derive(Default)]
pub(crate) struct Batch {
    sums: Vec<(Metric, f64)>,
}

impl Batch {
    pub(crate) fn of(metric: Metric, value: f64) -> Self {
        let mut batch = Self::default();
        batch.add(metric, value);
        batch
    }

    pub(crate) fn add(&mut self, metric: Metric, value: f64) {
        // A number that is zero says nothing, and CloudWatch would charge for it.
        if value == 0.0 {
            return;
        }
        match self.sums.iter_mut().find(|(known, _)| known.name() == metric.name()) {
            Some((_, sum)) => *sum += value,
            None => self.sums.push((metric, value)),
        }
    }
}

/// Writes a batch, if there is anything in it.
pub(crate) fn write(batch: &Batch, invocation: Option<&Invocation>) {
    if !batch.sums.is_empty() {
        crate::write(&line(batch, invocation, now()));
    }
}

fn line(batch: &Batch, invocation: Option<&Invocation>, at: Timestamp) -> String {
    let mut members = Map::new();
    let mut alarmed = Vec::new();
    for (metric, sum) in &batch.sums {
        members.insert(metric.name().to_owned(), number(*sum));
        if metric.is_alarmed() {
            alarmed.push(json!({"Name": metric.name(), "Unit": "Count"}));
        }
    }
    if !alarmed.is_empty() {
        let directive = json!({"Namespace": NAMESPACE, "Dimensions": [[FUNCTION]], "Metrics": alarmed});
        members.insert("_aws".to_owned(), json!({"Timestamp": at.as_millis(), "CloudWatchMetrics": [directive]}));
    }
    let function = invocation.map_or(NO_FUNCTION, |invocation| &invocation.function);
    members.insert(FUNCTION.to_owned(), Value::from(function));
    if let Some(invocation) = invocation {
        members.insert("requestId".to_owned(), Value::from(invocation.request_id.as_str()));
        members.insert("traceId".to_owned(), Value::from(invocation.trace.id()));
    }
    Value::Object(members).to_string()
}

/// Writes whole numbers without `.0`, and others without the noise of a sum of floats.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value = (value * 1e3).round() / 1e3;
    if value.fract() == 0.0 && value.abs() < EXACT { Value::from(value as i64) } else { Value::from(value) }
}

pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric;
    use crate::trace::Trace;

    fn read(batch: &Batch) -> Value {
        let trace = Trace::of_request("req-1");
        let invocation = Invocation { function: "slack-events".into(), request_id: "req-1".into(), trace };
        let line = line(batch, Some(&invocation), Timestamp::from_millis(1_700_000_000_000));
        serde_json::from_str(&line).expect("JSON")
    }

    #[test]
    fn numbers_are_fields_of_a_line_and_cloudwatch_gets_none_of_them_as_a_metric() {
        let mut batch = Batch::of(metric::DUPLICATES, 1.0);
        batch.add(metric::DUPLICATES, 2.0);
        batch.add(metric::STORE_LATENCY, 3.5);
        batch.add(metric::NEW_KEYS, 0.0);
        assert_eq!(
            read(&batch),
            json!({
                "FunctionName": "slack-events", "Duplicates": 3, "StoreLatency": 3.5, "requestId": "req-1", "traceId": "req-1",
            })
        );
    }

    #[test]
    fn a_number_that_an_alarm_watches_is_a_metric_of_cloudwatch() {
        let mut batch = Batch::of(metric::DUPLICATES, 1.0);
        batch.add(metric::FALLBACK_ADMISSIONS, 2.0);
        let line = read(&batch);
        assert_eq!(
            line["_aws"],
            json!({
                "Timestamp": 1_700_000_000_000_u64,
                "CloudWatchMetrics": [{
                    "Namespace": "Ichido",
                    "Dimensions": [["FunctionName"]],
                    "Metrics": [{"Name": "FallbackAdmissions", "Unit": "Count"}],
                }],
            })
        );
        assert_eq!((&line["FallbackAdmissions"], &line["Duplicates"]), (&json!(2), &json!(1)));
    }
}
