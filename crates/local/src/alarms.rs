//! The templates' alarms, evaluated over what CloudWatch would have been sent.
//!
//! A pure function of the alarm, its datapoints and the time: the last N periods, M of which must breach, missing ones
//! treated as the alarm says. The period under way counts, so that an alarm is seen to ring while one watches.

use std::time::Duration;

use serde_json::{Value, json};
use template::Alarm;

use crate::metrics::{Id, Metrics, Minute, percentile};

const SECONDS_PER_MINUTE: u64 = 60;

/// What an alarm says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ok,
    Alarm,
    InsufficientData,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Alarm => "ALARM",
            Self::InsufficientData => "INSUFFICIENT_DATA",
        }
    }
}

/// The state of an alarm whose datapoints, newest first, are these; `None` is a period without data. `before` is its state until now.
pub fn evaluate(alarm: &Alarm, datapoints: &[Option<f64>], before: State) -> State {
    let present = datapoints.iter().flatten().count();
    if present == 0 {
        match alarm.missing_data.as_str() {
            "breaching" => return State::Alarm,
            "notBreaching" => return State::Ok,
            "ignore" => return before,
            _ => return State::InsufficientData,
        }
    }
    let breaching = datapoints.iter().filter(|point| match point {
        Some(value) => breaches(alarm, *value),
        None => alarm.missing_data == "breaching",
    });
    let needed = usize::try_from(alarm.datapoints_to_alarm).unwrap_or(usize::MAX);
    if breaching.count() >= needed { State::Alarm } else { State::Ok }
}

fn breaches(alarm: &Alarm, value: f64) -> bool {
    match alarm.comparison.as_str() {
        "GreaterThanThreshold" => value > alarm.threshold,
        "GreaterThanOrEqualToThreshold" => value >= alarm.threshold,
        "LessThanThreshold" => value < alarm.threshold,
        "LessThanOrEqualToThreshold" => value <= alarm.threshold,
        _ => false,
    }
}

/// The value of one period; `None` without data.
fn datapoint(statistic: &str, minutes: &[Minute]) -> Option<f64> {
    let count: u64 = minutes.iter().map(|minute| minute.count).sum();
    if count == 0 {
        return None;
    }
    let sum: f64 = minutes.iter().map(|minute| minute.sum).sum();
    match statistic {
        "Sum" => Some(sum),
        "SampleCount" => Some(count as f64),
        "Average" => Some(sum / count as f64),
        "Minimum" => minutes.iter().map(|minute| minute.min).reduce(f64::min),
        "Maximum" => minutes.iter().map(|minute| minute.max).reduce(f64::max),
        extended => {
            let percent = extended.strip_prefix('p')?.parse().ok()?;
            let mut values: Vec<f64> = minutes.iter().flat_map(|minute| minute.values.iter().copied()).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, percent)
        }
    }
}

/// The datapoints that an alarm looks at, newest first.
pub fn datapoints(alarm: &Alarm, metrics: &Metrics, now_ms: u64) -> Vec<Option<f64>> {
    let id =
        Id { namespace: alarm.namespace.clone(), name: alarm.metric.clone(), dimensions: alarm.dimensions.clone() };
    let period = (alarm.period.as_secs() / SECONDS_PER_MINUTE).max(1);
    let end = now_ms / 60_000 + 1;
    (0..u64::from(alarm.evaluation_periods))
        .map(|back| {
            let to = end.saturating_sub(back * period);
            datapoint(&alarm.statistic, &metrics.minutes(&id, to.saturating_sub(period), to))
        })
        .collect()
}

/// All alarms as `/_local/alarms` shows them.
pub fn shown(alarms: &[Alarm], metrics: &Metrics, now_ms: u64) -> Value {
    alarms
        .iter()
        .map(|alarm| {
            let points = datapoints(alarm, metrics, now_ms);
            let state = evaluate(alarm, &points, State::Ok);
            let runbook = alarm.description.split_once("Runbook ").map(|(_, path)| path.trim_end_matches('.'));
            json!({
                "name": alarm.name, "state": state.as_str(), "description": alarm.description, "runbook": runbook,
                "namespace": alarm.namespace, "metric": alarm.metric, "dimensions": alarm.dimensions,
                "statistic": alarm.statistic, "periodSeconds": alarm.period.as_secs(),
                "evaluationPeriods": alarm.evaluation_periods, "datapointsToAlarm": alarm.datapoints_to_alarm,
                "comparison": alarm.comparison, "threshold": alarm.threshold, "treatMissingData": alarm.missing_data,
                "datapoints": points,
            })
        })
        .collect()
}

/// How far back alarms look at most.
pub fn longest(alarms: &[Alarm]) -> Duration {
    alarms.iter().map(|alarm| alarm.period * alarm.evaluation_periods).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn alarm(periods: u32, to_alarm: u32, missing: &str) -> Alarm {
        Alarm {
            name: "a".into(),
            description: "It hurts. Runbook docs/runbooks/a.md".into(),
            namespace: "N".into(),
            metric: "M".into(),
            dimensions: BTreeMap::new(),
            statistic: "Sum".into(),
            period: Duration::from_secs(300),
            evaluation_periods: periods,
            datapoints_to_alarm: to_alarm,
            comparison: "GreaterThanOrEqualToThreshold".into(),
            threshold: 3.0,
            missing_data: missing.into(),
            properties: Value::Null,
        }
    }

    #[test]
    fn m_of_n_periods_must_breach() {
        let two_of_three = alarm(3, 2, "notBreaching");
        for (points, expected) in [
            ([Some(3.0), Some(0.0), Some(5.0)], State::Alarm),
            ([Some(3.0), Some(0.0), Some(1.0)], State::Ok),
            ([Some(3.0), None, Some(3.0)], State::Alarm),
            ([Some(9.0), None, None], State::Ok),
            ([None, None, None], State::Ok),
        ] {
            assert_eq!(evaluate(&two_of_three, &points, State::Ok), expected, "{points:?}");
        }
    }

    #[test]
    fn missing_data_is_what_the_alarm_says_it_is() {
        let nothing = [None];
        assert_eq!(evaluate(&alarm(1, 1, "breaching"), &nothing, State::Ok), State::Alarm);
        assert_eq!(evaluate(&alarm(1, 1, "missing"), &nothing, State::Ok), State::InsufficientData);
        assert_eq!(evaluate(&alarm(1, 1, "ignore"), &nothing, State::Alarm), State::Alarm);
        assert_eq!(evaluate(&alarm(2, 2, "breaching"), &[None, Some(3.0)], State::Ok), State::Alarm);
    }

    #[test]
    fn an_alarm_rings_and_stops_as_time_passes() {
        let (metrics, alarm) = (Metrics::default(), alarm(3, 2, "notBreaching"));
        let id = Id { namespace: "N".into(), name: "M".into(), dimensions: BTreeMap::new() };
        let minute = 60_000;
        let state = |now| shown(std::slice::from_ref(&alarm), &metrics, now)[0]["state"].clone();
        metrics.put(&id, "Count", 100 * minute, Some(3.0));
        assert_eq!(state(100 * minute), "OK", "one period does not ring");
        metrics.put(&id, "Count", 106 * minute, Some(3.0));
        assert_eq!(state(106 * minute), "ALARM");
        assert_eq!(state(116 * minute), "OK", "the first period is out of sight");
    }

    #[test]
    fn percentiles_look_at_the_values_of_the_whole_period() {
        let minutes = [
            Minute { minute: 1, count: 2, sum: 3.0, min: 1.0, max: 2.0, values: vec![2.0, 1.0] },
            Minute { minute: 2, count: 1, sum: 9.0, min: 9.0, max: 9.0, values: vec![9.0] },
        ];
        assert_eq!(datapoint("p50", &minutes), Some(2.0));
        assert_eq!(datapoint("Maximum", &minutes), Some(9.0));
        assert_eq!(datapoint("Average", &minutes), Some(4.0));
        assert_eq!(datapoint("Sum", &[]), None);
    }
}
