//! CloudWatch's embedded metric format: a log line that is also metrics.
//!
//! One line holds one set of dimensions. The values of one metric form an array, which may have at most 100 values; a
//! batch is written before it grows beyond that.

use std::time::SystemTime;

use ichido::Timestamp;
use serde_json::{Map, Value, json};

use crate::metric::{Dimension, Metric};
use crate::scope::Invocation;

/// The namespace of all our metrics.
pub(crate) const NAMESPACE: &str = "Ichido";
/// The dimension that every metric has.
pub(crate) const FUNCTION: &str = "FunctionName";
/// How many values of one metric the format allows per line.
const MAX_VALUES: usize = 100;
/// The function's name outside an invocation.
const NO_FUNCTION: &str = "none";

/// One value of one metric.
pub(crate) struct Measurement {
    pub(crate) metric: Metric,
    pub(crate) dimension: Option<Dimension>,
    pub(crate) value: f64,
}

/// Values that are written together, in as few lines as the format allows.
#[derive(Default)]
pub(crate) struct Batch {
    series: Vec<Series>,
}

struct Series {
    metric: Metric,
    dimension: Option<Dimension>,
    values: Vec<f64>,
}

impl Batch {
    pub(crate) fn of(measurement: Measurement) -> Self {
        let mut batch = Self::default();
        batch.push(measurement);
        batch
    }

    pub(crate) fn push(&mut self, measurement: Measurement) {
        let Measurement { metric, dimension, value } = measurement;
        let known = self
            .series
            .iter_mut()
            .find(|series| series.metric.name() == metric.name() && series.dimension == dimension);
        match known {
            Some(series) => series.values.push(value),
            None => self.series.push(Series { metric, dimension, values: vec![value] }),
        }
    }

    /// Whether the next value could be one too many for a line.
    pub(crate) fn is_full(&self) -> bool {
        self.series.len() >= MAX_VALUES || self.series.iter().any(|series| series.values.len() >= MAX_VALUES)
    }
}

/// Writes a batch, one line per set of dimensions.
pub(crate) fn write(batch: &Batch, invocation: Option<&Invocation>) {
    let mut sets: Vec<&Option<Dimension>> = Vec::new();
    for series in &batch.series {
        if !sets.contains(&&series.dimension) {
            sets.push(&series.dimension);
        }
    }
    for set in sets {
        let of_set = batch.series.iter().filter(|series| &series.dimension == set);
        crate::write(&line(of_set, set.as_ref(), invocation, now()));
    }
}

fn line<'a>(
    all: impl Iterator<Item = &'a Series>,
    dimension: Option<&Dimension>,
    invocation: Option<&Invocation>,
    at: Timestamp,
) -> String {
    let mut members = Map::new();
    let mut metrics = Vec::new();
    for series in all {
        metrics.push(json!({"Name": series.metric.name(), "Unit": series.metric.unit().as_str()}));
        members.insert(series.metric.name().to_owned(), values(&series.values));
    }
    // With a second dimension the metric is published with it and without it, so that an alarm can watch the whole.
    let dimensions = match dimension {
        None => json!([[FUNCTION]]),
        Some(dimension) => json!([[FUNCTION], [FUNCTION, dimension.name]]),
    };
    members.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": at.as_millis(),
            "CloudWatchMetrics": [{"Namespace": NAMESPACE, "Dimensions": dimensions, "Metrics": metrics}],
        }),
    );
    if let Some(dimension) = dimension {
        members.insert(dimension.name.to_owned(), Value::from(dimension.value.as_str()));
    }
    let function = invocation.map_or(NO_FUNCTION, |invocation| &invocation.function);
    members.insert(FUNCTION.to_owned(), Value::from(function));
    if let Some(invocation) = invocation {
        members.insert("requestId".to_owned(), Value::from(invocation.request_id.as_str()));
        members.insert("traceId".to_owned(), Value::from(invocation.trace.id()));
    }
    Value::Object(members).to_string()
}

fn values(values: &[f64]) -> Value {
    match values {
        [one] => number(*one),
        many => many.iter().copied().map(number).collect(),
    }
}

/// Writes whole numbers without `.0`.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
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

    fn invocation() -> Invocation {
        Invocation { function: "slack-events".into(), request_id: "req-1".into(), trace: Trace::of_request("req-1") }
    }

    fn measured(metric: Metric, value: f64) -> Measurement {
        Measurement { metric, dimension: None, value }
    }

    #[test]
    fn a_line_is_what_cloudwatch_reads() {
        let mut batch = Batch::of(measured(metric::DUPLICATES, 1.0));
        batch.push(measured(metric::DUPLICATES, 2.0));
        batch.push(measured(metric::STORE_LATENCY, 3.5));
        let line = line(batch.series.iter(), None, Some(&invocation()), Timestamp::from_millis(1_700_000_000_000));
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            read,
            json!({
                "_aws": {
                    "Timestamp": 1_700_000_000_000_u64,
                    "CloudWatchMetrics": [{
                        "Namespace": "Ichido",
                        "Dimensions": [["FunctionName"]],
                        "Metrics": [
                            {"Name": "Duplicates", "Unit": "Count"},
                            {"Name": "StoreLatency", "Unit": "Milliseconds"},
                        ],
                    }],
                },
                "FunctionName": "slack-events",
                "Duplicates": [1, 2],
                "StoreLatency": 3.5,
                "requestId": "req-1",
                "traceId": "req-1",
            })
        );
    }

    #[test]
    fn a_second_dimension_is_published_with_and_without() {
        let dimension = Some(Dimension { name: "Destination", value: "mastodon".into() });
        let batch = Batch::of(Measurement { metric: metric::DELIVERIES, dimension: dimension.clone(), value: 1.0 });
        let line = line(batch.series.iter(), dimension.as_ref(), None, Timestamp::default());
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            read["_aws"]["CloudWatchMetrics"][0]["Dimensions"],
            json!([["FunctionName"], ["FunctionName", "Destination"]])
        );
        assert_eq!(read["Destination"], "mastodon");
    }

    #[test]
    fn a_batch_is_full_before_it_exceeds_what_a_line_takes() {
        let mut batch = Batch::default();
        for _ in 0..MAX_VALUES - 1 {
            batch.push(measured(metric::DUPLICATES, 1.0));
        }
        assert!(!batch.is_full());
        batch.push(measured(metric::DUPLICATES, 1.0));
        assert!(batch.is_full());
    }
}
