//! The environment's alarms with their last values.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::types::{Metric, MetricAlarm, MetricDataQuery, MetricStat};
use aws_smithy_types::DateTime;
use console::contract::{Alarm, Series};
use console::runbooks;
use ichido::{Clock as _, SystemClock, Timestamp};

use crate::context::{Context, Environment, Error, failed};
use crate::outside::alarms;

/// How many values of an alarm are shown.
const POINTS: i64 = 30;
/// What the description of each of our alarms says before the path of its runbook.
const RUNBOOK: &str = "Runbook ";

/// Our alarms in this environment. They have a runbook, and their names end as all names of the environment do.
pub(super) async fn ours(context: &Context<'_>) -> Result<Vec<MetricAlarm>, Error> {
    let suffix = context.suffix()?;
    let mut found = alarms::all(context).await?;
    found.retain(|alarm| {
        let description = alarm.alarm_description().unwrap_or_default();
        is_of(alarm.alarm_name().unwrap_or_default(), suffix) && description.contains("Runbook docs/runbooks/")
    });
    Ok(found)
}

/// Whether a name belongs to the environment with this suffix. Production has none, so a name with another's suffix is not its own.
fn is_of(name: &str, suffix: &str) -> bool {
    let others = [Environment::Local, Environment::Dev, Environment::Staging];
    match suffix {
        "" => !others.iter().any(|other| name.ends_with(other.suffix())),
        suffix => name.ends_with(suffix),
    }
}

/// The alarms as the page shows them, the ringing ones first.
pub(super) async fn read(context: &Context<'_>) -> Result<Vec<Alarm>, Error> {
    let found = ours(context).await?;
    let mut points = points(context, &found).await?;
    let mut shown: Vec<Alarm> = found
        .iter()
        .enumerate()
        .map(|(index, alarm)| {
            let points = points.remove(&index).unwrap_or_default();
            shown(alarm, points)
        })
        .collect();
    let order = |alarm: &Alarm| match alarm.state.as_str() {
        "ALARM" => 0,
        "INSUFFICIENT_DATA" => 1,
        _ => 2,
    };
    shown.sort_by(|one, other| order(one).cmp(&order(other)).then_with(|| one.name.cmp(&other.name)));
    Ok(shown)
}

fn shown(alarm: &MetricAlarm, points: Series) -> Alarm {
    let description = alarm.alarm_description().unwrap_or_default();
    let (meaning, runbook) = description.split_once(RUNBOOK).unwrap_or((description, ""));
    let positive = |number: Option<i32>| u32::try_from(number.unwrap_or(1)).unwrap_or(1);
    let since = alarm.state_transitioned_timestamp().or(alarm.state_updated_timestamp());
    let periods = positive(alarm.evaluation_periods());
    Alarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        state: alarm.state_value().map_or("INSUFFICIENT_DATA", |state| state.as_str()).to_owned(),
        since: since.and_then(timestamp).map(|at| at.to_string()),
        reason: alarm.state_reason().unwrap_or_default().to_owned(),
        meaning: meaning.trim().to_owned(),
        runbook: Some(runbooks::name_of(runbook.trim_end_matches('.')).to_owned()).filter(|name| !name.is_empty()),
        metric: alarm.metric_name().unwrap_or("a calculation").to_owned(),
        statistic: statistic(alarm),
        period_seconds: u64::try_from(alarm.period().unwrap_or_default()).unwrap_or_default(),
        evaluation_periods: periods,
        datapoints_to_alarm: alarm.datapoints_to_alarm().map_or(periods, |number| positive(Some(number))),
        comparison: alarm.comparison_operator().map_or("", |comparison| comparison.as_str()).to_owned(),
        threshold: alarm.threshold().unwrap_or_default(),
        points,
        actions_enabled: alarm.actions_enabled().unwrap_or(true),
    }
}

fn statistic(alarm: &MetricAlarm) -> String {
    let extended = alarm.extended_statistic().map(str::to_owned);
    extended.or_else(|| alarm.statistic().map(|statistic| statistic.as_str().to_owned())).unwrap_or_default()
}

fn timestamp(at: &DateTime) -> Option<Timestamp> {
    at.to_millis().ok().and_then(|ms| u64::try_from(ms).ok()).map(Timestamp::from_millis)
}

/// The last values of each alarm's metric, by the alarm's place in the list. An alarm on a calculation has none. Alarms with the same period
/// are asked for together.
async fn points(context: &Context<'_>, alarms: &[MetricAlarm]) -> Result<BTreeMap<usize, Series>, Error> {
    let mut by_period: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for (index, alarm) in alarms.iter().enumerate().filter(|(_, alarm)| alarm.metric_name().is_some()) {
        by_period.entry(alarm.period().unwrap_or(60).max(60)).or_default().push(index);
    }
    let now = i64::try_from(SystemClock.now().as_secs()).unwrap_or_default();
    let mut found = BTreeMap::new();
    for (period, members) in by_period {
        let seconds = i64::from(period);
        let end = (now / seconds + 1) * seconds;
        let start = end - POINTS * seconds;
        let queries = members.iter().map(|index| query(*index, &alarms[*index], period));
        let values = super::overview::ask(context, queries.collect(), start, end).await?;
        for index in members {
            let mut series: Series = vec![None; usize::try_from(POINTS).unwrap_or_default()];
            for (at, value) in values.get(&id(index)).into_iter().flatten() {
                if let Some(point) = usize::try_from((at - start) / seconds).ok().and_then(|at| series.get_mut(at)) {
                    *point = Some(*value);
                }
            }
            found.insert(index, series);
        }
    }
    Ok(found)
}

fn id(index: usize) -> String {
    format!("alarm{index}")
}

fn query(index: usize, alarm: &MetricAlarm, period: i32) -> MetricDataQuery {
    let metric = Metric::builder()
        .set_namespace(alarm.namespace.clone())
        .set_metric_name(alarm.metric_name.clone())
        .set_dimensions(alarm.dimensions.clone())
        .build();
    let stat = MetricStat::builder().metric(metric).period(period).stat(statistic(alarm)).build();
    MetricDataQuery::builder().id(id(index)).metric_stat(stat).build()
}

/// The error of a call to CloudWatch's metrics.
pub(super) fn unmeasured(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    failed("could not read CloudWatch's metrics; check the permission cloudwatch:GetMetricData", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_does_not_show_the_alarms_of_other_environments() {
        assert!(is_of("slack-events-errors", "") && !is_of("slack-events-errors-dev", ""));
        assert!(is_of("slack-events-errors-dev", "-dev") && !is_of("slack-events-errors", "-dev"));
        assert!(!is_of("slack-events-errors-staging", "-dev"));
    }

    #[test]
    fn an_alarm_is_shown_with_its_meaning_and_its_runbook() {
        let alarm = MetricAlarm::builder()
            .alarm_name("slack-events-errors")
            .alarm_description("Slack gets errors. Runbook docs/runbooks/slack-events-errors.md")
            .metric_name("Errors")
            .extended_statistic("p99")
            .evaluation_periods(3)
            .build();
        let shown = shown(&alarm, Vec::new());
        assert_eq!(
            (shown.meaning.as_str(), shown.runbook.as_deref()),
            ("Slack gets errors.", Some("slack-events-errors"))
        );
        assert_eq!((shown.statistic.as_str(), shown.datapoints_to_alarm), ("p99", 3));
    }
}
