//! The alarms of the templates, evaluated over the metrics that CloudWatch would have received.
//!
//! [`evaluate`] decides from an alarm, the datapoints in its evaluation range and its previous state. It follows
//! CloudWatch's documentation:
//! - More datapoints are fetched than the alarm has evaluation periods. If there is data for at least that many periods, the
//!   newest datapoints decide, and the treatment of missing data does not matter.
//! - Otherwise all existing datapoints count, and the missing periods are filled in as the alarm says.
//! - `missing` rings before there are enough datapoints if all existing ones breach and the oldest is old enough.
//! - `ignore` keeps the previous state in that case, and also when there is no data at all. [`Alarms`] remembers the state
//!   between evaluations. Every alarm on a metric of DynamoDB behaves like this, whatever it declares.
//!
//! Two things differ from CloudWatch. CloudWatch does not document how many datapoints it fetches; here it is [`EXTRA`] more
//! than the evaluation periods, as in its own examples. And the current minute counts, so that a person sees an alarm ring
//! at once; windows move by the minute.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};
use template::Alarm;

use crate::platform::clock::rfc3339;
use crate::world::metrics::{Id, Metrics, Minute, percentile};

const SECONDS_PER_MINUTE: u64 = 60;
const MS_PER_MINUTE: u64 = 60_000;
/// Datapoints that are fetched beyond the evaluation periods, in case some of those are missing.
const EXTRA: u32 = 2;

/// The state of an alarm.
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

/// How an alarm treats a period without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Breaching,
    NotBreaching,
    Ignore,
    Unknown,
}

impl Silence {
    fn of(alarm: &Alarm) -> Self {
        match alarm.missing_data.as_str() {
            // CloudWatch's own rule, because these metrics are not always sent.
            _ if alarm.namespace == "AWS/DynamoDB" => Self::Ignore,
            "breaching" => Self::Breaching,
            "notBreaching" => Self::NotBreaching,
            "ignore" => Self::Ignore,
            _ => Self::Unknown,
        }
    }
}

/// How many datapoints are fetched for an alarm.
pub fn evaluation_range(alarm: &Alarm) -> u32 {
    alarm.evaluation_periods.saturating_add(EXTRA)
}

/// The new state of an alarm. `range` has the datapoints of its evaluation range, newest first; `None` is a period without
/// data. `before` is the previous state.
pub fn evaluate(alarm: &Alarm, range: &[Option<f64>], before: State) -> State {
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let (periods, to_alarm) = (count(alarm.evaluation_periods), count(alarm.datapoints_to_alarm));
    let decided = |rings: bool| if rings { State::Alarm } else { State::Ok };
    let silence = Silence::of(alarm);
    let real: Vec<bool> = range.iter().flatten().map(|value| breaches(alarm, *value)).collect();
    if real.is_empty() {
        return match silence {
            Silence::Breaching => State::Alarm,
            Silence::NotBreaching => State::Ok,
            Silence::Ignore => before,
            Silence::Unknown => State::InsufficientData,
        };
    }
    let breaching = real.iter().take(periods).filter(|breaches| **breaches).count();
    if real.len() >= periods {
        return decided(breaching >= to_alarm);
    }
    let filled = periods - real.len();
    match silence {
        Silence::Breaching => decided(breaching + filled >= to_alarm),
        Silence::NotBreaching => decided(breaching >= to_alarm),
        _ if breaching >= to_alarm || breaching < real.len() => decided(breaching >= to_alarm),
        // There are too few datapoints, and all of them breach.
        Silence::Ignore => before,
        Silence::Unknown => {
            // The age of the oldest datapoint in periods; the newest period counts as one.
            let age = range.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
            decided(age >= to_alarm)
        }
    }
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

/// The value of one period; `None` if it has no data.
pub(crate) fn datapoint(statistic: &str, minutes: &[Minute]) -> Option<f64> {
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

/// The datapoints in the evaluation range of an alarm, newest first. Only the series with exactly its dimensions counts.
pub fn datapoints(alarm: &Alarm, metrics: &Metrics, now_ms: u64) -> Vec<Option<f64>> {
    newest(alarm, metrics, now_ms, evaluation_range(alarm))
}

/// The newest datapoints, newest first.
fn newest(alarm: &Alarm, metrics: &Metrics, now_ms: u64, periods: u32) -> Vec<Option<f64>> {
    let id =
        Id { namespace: alarm.namespace.clone(), name: alarm.metric.clone(), dimensions: alarm.dimensions.clone() };
    let period = (alarm.period.as_secs() / SECONDS_PER_MINUTE).max(1);
    let end = now_ms / MS_PER_MINUTE + 1;
    (0..u64::from(periods))
        .map(|back| {
            let to = end.saturating_sub(back * period);
            datapoint(&alarm.statistic, &metrics.minutes(&id, to.saturating_sub(period), to))
        })
        .collect()
}

/// The datapoints of the last `periods`, oldest first.
pub fn history(alarm: &Alarm, metrics: &Metrics, now_ms: u64, periods: u32) -> Vec<Option<f64>> {
    let mut points = newest(alarm, metrics, now_ms, periods);
    points.reverse();
    points
}

/// Whether a notification of a budget is sent when `actual` was spent and `forecast` is forecast for the month.
pub fn budget_rings(budget: &Value, notification: &Value, actual: f64, forecast: f64) -> bool {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(f64::NAN);
    let spent = if notification["NotificationType"] == "FORECASTED" { forecast } else { actual };
    let threshold = number(&notification["Threshold"]);
    let threshold = match notification["ThresholdType"].as_str() {
        Some("ABSOLUTE_VALUE") => threshold,
        _ => number(&budget["BudgetLimit"]["Amount"]) * threshold / 100.0,
    };
    match notification["ComparisonOperator"].as_str() {
        Some("GREATER_THAN") => spent > threshold,
        Some("LESS_THAN") => spent < threshold,
        _ => spent == threshold,
    }
}

/// An alarm and its present state.
#[derive(Clone, Debug)]
pub struct Status {
    pub alarm: Alarm,
    pub state: State,
    /// When it entered this state, in the time of metrics.
    pub since_ms: u64,
    /// The datapoints of its evaluation range, newest first.
    pub datapoints: Vec<Option<f64>>,
    /// The previous state, if this evaluation changed it.
    pub was: Option<State>,
    /// Whether a change of state is told to anybody.
    pub actions_enabled: bool,
}

/// All alarms, with the state of each.
#[derive(Debug)]
pub struct Alarms {
    alarms: Vec<Alarm>,
    /// State and start of the state, by name. Locked during an evaluation, so that each change is reported once.
    states: Mutex<BTreeMap<String, (State, u64)>>,
    /// The alarms whose actions are disabled.
    silent: Mutex<BTreeSet<String>>,
}

impl Alarms {
    pub fn new(alarms: Vec<Alarm>) -> Self {
        let silent = alarms.iter().filter(|alarm| alarm.properties["ActionsEnabled"] == false);
        let silent = Mutex::new(silent.map(|alarm| alarm.name.clone()).collect());
        Self { alarms, states: Mutex::default(), silent }
    }

    /// Enables or disables the actions of an alarm. An unknown name is not an error, as in CloudWatch.
    pub fn enable_actions(&self, name: &str, enabled: bool) {
        let mut silent = telemetry::lock(&self.silent);
        if enabled {
            silent.remove(name);
        } else {
            silent.insert(name.to_owned());
        }
    }

    /// Evaluates all alarms at `now_ms` and remembers their states.
    pub fn evaluate_all(&self, metrics: &Metrics, now_ms: u64) -> Vec<Status> {
        let mut states = self.lock();
        let silent = telemetry::lock(&self.silent);
        let evaluate_one = |alarm: &Alarm| {
            let datapoints = datapoints(alarm, metrics, now_ms);
            // As on AWS, a new alarm begins without data.
            let known = states.get(&alarm.name).copied();
            let before = known.map_or(State::InsufficientData, |(state, _)| state);
            let state = evaluate(alarm, &datapoints, before);
            let since_ms = known.filter(|_| state == before).map_or(now_ms, |(_, since)| since);
            let was = (state != before).then_some(before);
            states.insert(alarm.name.clone(), (state, since_ms));
            let actions_enabled = !silent.contains(&alarm.name);
            Status { alarm: alarm.clone(), state, since_ms, datapoints, was, actions_enabled }
        };
        self.alarms.iter().map(evaluate_one).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (State, u64)>> {
        telemetry::lock(&self.states)
    }
}

impl Status {
    /// The path of its runbook.
    pub fn runbook(&self) -> Option<&str> {
        self.alarm.description.split_once("Runbook ").map(|(_, path)| path.trim_end_matches('.'))
    }

    /// Why it is in this state, for people.
    pub fn reason(&self) -> String {
        let real = self.datapoints.iter().flatten().count();
        let shown: Vec<String> = self
            .datapoints
            .iter()
            .map(|point| point.map_or_else(|| "-".to_owned(), |value| format!("{}", (value * 100.0).round() / 100.0)))
            .collect();
        let Alarm { datapoints_to_alarm, evaluation_periods, comparison, threshold, missing_data, .. } = &self.alarm;
        format!(
            "{real} datapoints, newest first: [{}]; the alarm rings when {datapoints_to_alarm} of {evaluation_periods} are \
             {comparison} {threshold}; missing data: {missing_data}",
            shown.join(" ")
        )
    }

    /// What `/_local/alarms` shows.
    pub fn shown(&self) -> Value {
        let alarm = &self.alarm;
        json!({
            "name": alarm.name, "state": self.state.as_str(), "since": rfc3339(self.since_ms),
            "reason": self.reason(), "description": alarm.description, "runbook": self.runbook(),
            "namespace": alarm.namespace, "metric": alarm.metric, "dimensions": alarm.dimensions,
            "statistic": alarm.statistic, "periodSeconds": alarm.period.as_secs(),
            "evaluationPeriods": alarm.evaluation_periods, "datapointsToAlarm": alarm.datapoints_to_alarm,
            "comparison": alarm.comparison, "threshold": alarm.threshold, "treatMissingData": alarm.missing_data,
            "datapoints": self.datapoints, "actionsEnabled": self.actions_enabled,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: u64 = MS_PER_MINUTE;

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

    fn id(dimensions: &[(&str, &str)]) -> Id {
        let dimensions = dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Id { namespace: "N".into(), name: "M".into(), dimensions }
    }

    /// `0 - X`, oldest first, as CloudWatch's documentation writes it.
    fn range(text: &str) -> Vec<Option<f64>> {
        let point = |letter| match letter {
            "0" => Some(0.0),
            "X" => Some(3.0),
            _ => None,
        };
        let mut points: Vec<Option<f64>> = text.split_whitespace().map(point).collect();
        points.reverse();
        points
    }

    /// The states under the four treatments of missing data. The previous state is `InsufficientData`, so that a retained state
    /// is visible.
    fn all_four(to_alarm: u32, points: &str) -> [State; 4] {
        ["missing", "ignore", "breaching", "notBreaching"]
            .map(|missing| evaluate(&alarm(3, to_alarm, missing), &range(points), State::InsufficientData))
    }

    const OK: State = State::Ok;
    const ALARM: State = State::Alarm;
    const RETAINED: State = State::InsufficientData;

    #[test]
    fn three_of_three_is_cloudwatchs_own_table() {
        for (points, expected) in [
            ("0 - X - X", [OK, OK, OK, OK]),
            ("0 - - - -", [OK, OK, OK, OK]),
            ("- - - - -", [State::InsufficientData, RETAINED, ALARM, OK]),
            ("0 X X - X", [ALARM, ALARM, ALARM, ALARM]),
            ("- - X - -", [ALARM, RETAINED, ALARM, OK]),
            // "Avoiding premature transitions": the next one may be fine.
            ("- - - X -", [OK, RETAINED, ALARM, OK]),
            ("- - X - 0", [OK, OK, OK, OK]),
        ] {
            assert_eq!(all_four(3, points), expected, "{points}");
        }
    }

    #[test]
    fn two_of_three_is_cloudwatchs_own_table() {
        for (points, expected) in [
            ("0 - X - X", [ALARM, ALARM, ALARM, ALARM]),
            ("0 0 X 0 X", [ALARM, ALARM, ALARM, ALARM]),
            ("0 - X - -", [OK, OK, ALARM, OK]),
            ("- - - - 0", [OK, OK, ALARM, OK]),
            ("- - - X -", [ALARM, RETAINED, ALARM, OK]),
            ("X X 0 0 0", [OK, OK, OK, OK]),
        ] {
            assert_eq!(all_four(2, points), expected, "{points}");
        }
    }

    #[test]
    fn every_comparison_is_what_its_name_says() {
        for (comparison, at_2, at_3, at_4) in [
            ("GreaterThanThreshold", OK, OK, ALARM),
            ("GreaterThanOrEqualToThreshold", OK, ALARM, ALARM),
            ("LessThanThreshold", ALARM, OK, OK),
            ("LessThanOrEqualToThreshold", ALARM, ALARM, OK),
        ] {
            let alarm = Alarm { comparison: comparison.into(), ..alarm(1, 1, "missing") };
            let state = |value| evaluate(&alarm, &[Some(value), None, None], OK);
            assert_eq!([state(2.0), state(3.0), state(4.0)], [at_2, at_3, at_4], "{comparison}");
        }
    }

    #[test]
    fn an_alarm_rings_and_stops_as_time_passes() {
        let (metrics, alarms) = (Metrics::default(), Alarms::new(vec![alarm(3, 2, "notBreaching")]));
        let state = |minute| alarms.evaluate_all(&metrics, minute * MINUTE)[0].state;
        metrics.put(&id(&[]), "Count", 100 * MINUTE, Some(3.0));
        assert_eq!(state(100), OK, "one period does not ring");
        metrics.put(&id(&[]), "Count", 106 * MINUTE, Some(3.0));
        assert_eq!(state(106), ALARM);
        assert_eq!(state(124), ALARM, "both are still in the evaluation range of 25 minutes");
        assert_eq!(state(125), OK, "the first one has left it");
    }

    #[test]
    fn ignored_silence_keeps_the_state_that_was_remembered() {
        let (metrics, alarms) = (Metrics::default(), Alarms::new(vec![alarm(1, 1, "ignore")]));
        let look = |minute| alarms.evaluate_all(&metrics, minute * MINUTE).remove(0);
        assert_eq!(look(1).state, State::InsufficientData, "nothing is known of a new alarm");
        metrics.put(&id(&[]), "Count", 10 * MINUTE, Some(3.0));
        let rings = look(10);
        assert_eq!((rings.state, rings.was), (ALARM, Some(State::InsufficientData)));
        let later = look(100);
        assert_eq!((later.state, later.was, later.since_ms), (ALARM, None, 10 * MINUTE), "no data, and it rings on");
        metrics.put(&id(&[]), "Count", 101 * MINUTE, Some(0.0));
        assert_eq!((look(101).state, look(101).was), (OK, None), "a change is told once");
    }

    #[test]
    fn dynamodbs_own_metrics_ignore_silence_whatever_the_alarm_says() {
        let alarm = Alarm { namespace: "AWS/DynamoDB".into(), ..alarm(1, 1, "breaching") };
        assert_eq!(evaluate(&alarm, &[None, None, None], OK), OK);
    }

    #[test]
    fn only_the_series_with_exactly_the_alarms_dimensions_counts() {
        let metrics = Metrics::default();
        let alarm = Alarm { dimensions: id(&[("FunctionName", "f")]).dimensions, ..alarm(1, 1, "notBreaching") };
        let other = [vec![], vec![("FunctionName", "g")], vec![("FunctionName", "f"), ("Resource", "f:live")]];
        for dimensions in &other {
            metrics.put(&id(dimensions), "Count", MINUTE, Some(9.0));
        }
        assert_eq!(datapoints(&alarm, &metrics, MINUTE), [None, None, None]);
        metrics.put(&id(&[("FunctionName", "f")]), "Count", MINUTE, Some(9.0));
        assert_eq!(datapoints(&alarm, &metrics, MINUTE), [Some(9.0), None, None]);
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
