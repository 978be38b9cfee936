//! What happened in the last minutes: from the metrics that AWS sends by itself, and on demand from the logs.
//!
//! Lambda sends how often a function ran, failed, and how long it took. SQS is asked how many messages a queue has. What became of keys is in
//! the logs alone: one line per invocation has the numbers (`telemetry::metric`), which Logs Insights adds up.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery, MetricStat};
use aws_smithy_types::DateTime;
use console::contract::{Latency, Overview, Rates, Series, StoreCalls};
use ichido::{Clock as _, SystemClock, Timestamp};
use telemetry::metric;

use super::alarms::{ours, unmeasured};
use crate::applications::Application;
use crate::context::{Context, Error, failed};
use crate::dead_letter;

/// CloudWatch keeps one value per minute.
const STEP: i64 = 60;
/// How often the answer of Logs Insights is asked for, and how long it is waited for.
const ASK_EVERY: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_secs(60);
/// CloudWatch Logs' groups of functions.
const GROUPS: &str = "/aws/lambda/";
/// How many groups one query of Logs Insights takes.
const MOST_GROUPS: usize = 50;

/// Values by time (epoch seconds), by the id of their query.
pub(super) type Values = BTreeMap<String, BTreeMap<i64, f64>>;

pub(super) async fn read(context: &Context<'_>, minutes: u32, logs: bool) -> Result<Overview, Error> {
    let now = SystemClock.now();
    let seconds = i64::try_from(now.as_secs()).unwrap_or_default();
    let end = (seconds / STEP + 1) * STEP;
    let steps = usize::try_from(minutes).unwrap_or(1);
    let window = Window { start: end - i64::from(minutes) * STEP, steps };
    let suffix = context.suffix()?;
    let functions: Vec<String> =
        Application::ALL.iter().flat_map(|of| of.functions()).map(|name| format!("{name}{suffix}")).collect();
    let measured = ask(context, queries(&functions), window.start, end).await?;
    let mut overview = Overview {
        at: now.to_string(),
        from: window.from(),
        step_seconds: STEP as u32,
        rates: Rates {
            arrived: window.sum(&measured, "invocations", functions.len()),
            failures: window.sum(&measured, "errors", functions.len()),
            ..Rates::default()
        },
        latency: functions.iter().enumerate().filter_map(|(at, name)| latency(&window, &measured, at, name)).collect(),
        // Not from the metrics: those of a queue that was idle come many minutes late.
        dead_letters: Some(dead_letter::in_queues(context).await? as u64),
        ..Overview::default()
    };
    for alarm in ours(context).await? {
        let state = alarm.state_value().map_or("INSUFFICIENT_DATA", |state| state.as_str());
        *overview.alarms.entry(state.to_owned()).or_default() += 1;
    }
    if logs {
        add_logs(context, &functions, &window, seconds, &mut overview).await?;
    }
    Ok(overview)
}

/// How many minutes AWS may be late with what it counts.
const LATE_MINUTES: usize = 3;

/// The minutes that are shown.
struct Window {
    /// Epoch seconds.
    start: i64,
    steps: usize,
}

impl Window {
    fn from(&self) -> String {
        Timestamp::from_secs(u64::try_from(self.start).unwrap_or_default()).to_string()
    }

    fn series(&self, value: impl Fn(i64) -> Option<f64>) -> Series {
        (self.start..).step_by(STEP as usize).take(self.steps).map(value).collect()
    }

    /// The sums of `count` series. A minute without a value is one in which nothing happened. The last ones may only be late.
    fn sum(&self, measured: &Values, name: &str, count: usize) -> Series {
        let mut sums = self.series(|at| {
            let values = (0..count).filter_map(|index| measured.get(&format!("{name}{index}"))?.get(&at));
            values.copied().reduce(|sum, value| sum + value)
        });
        self.nothing_happened(&mut sums);
        sums
    }

    /// Fills the minutes without a value, except those whose value may still come.
    fn nothing_happened(&self, series: &mut Series) {
        let past = series.len().saturating_sub(LATE_MINUTES);
        for value in &mut series[..past] {
            value.get_or_insert(0.0);
        }
    }
}

fn latency(window: &Window, measured: &Values, at: usize, function: &str) -> Option<Latency> {
    let series = |name: &str| {
        let values = measured.get(&format!("{name}{at}"));
        window.series(|at| values.and_then(|values| values.get(&at)).copied())
    };
    let count: f64 = series("invocations").into_iter().flatten().sum();
    if count <= 0.0 {
        return None;
    }
    let (p50_by_step, p99_by_step) = (series("median"), series("slow"));
    let mut medians: Vec<f64> = p50_by_step.iter().flatten().copied().collect();
    medians.sort_by(f64::total_cmp);
    Some(Latency {
        function: function.to_owned(),
        count: count.round() as u64,
        // Percentiles of minutes cannot be added up: the middle minute, and the slowest one.
        p50: medians.get(medians.len() / 2).copied(),
        p99: p99_by_step.iter().flatten().copied().reduce(f64::max),
        p50_by_step,
        p99_by_step,
    })
}

fn queries(functions: &[String]) -> Vec<MetricDataQuery> {
    let query = |id: String, namespace: &str, metric: &str, dimension: (&str, &str), stat: &str| {
        let dimension = Dimension::builder().name(dimension.0).value(dimension.1).build();
        let metric = Metric::builder().namespace(namespace).metric_name(metric).dimensions(dimension).build();
        let stat = MetricStat::builder().metric(metric).period(STEP as i32).stat(stat).build();
        MetricDataQuery::builder().id(id).metric_stat(stat).build()
    };
    let mut all = Vec::new();
    for (at, function) in functions.iter().enumerate() {
        let of = |name: &str, metric: &str, stat: &str| {
            query(format!("{name}{at}"), "AWS/Lambda", metric, ("FunctionName", function), stat)
        };
        all.push(of("invocations", "Invocations", "Sum"));
        all.push(of("errors", "Errors", "Sum"));
        all.push(of("median", "Duration", "p50"));
        all.push(of("slow", "Duration", "p99"));
    }
    all
}

/// Asks CloudWatch for values from `start` to `end` (epoch seconds).
pub(super) async fn ask(
    context: &Context<'_>,
    queries: Vec<MetricDataQuery>,
    start: i64,
    end: i64,
) -> Result<Values, Error> {
    let mut found = Values::new();
    let mut pages = context
        .cloudwatch()
        .get_metric_data()
        .set_metric_data_queries(Some(queries))
        .start_time(DateTime::from_secs(start))
        .end_time(DateTime::from_secs(end))
        .into_paginator()
        .send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(unmeasured)?;
        for result in page.metric_data_results() {
            let values = found.entry(result.id().unwrap_or_default().to_owned()).or_default();
            values.extend(result.timestamps().iter().map(DateTime::secs).zip(result.values().iter().copied()));
        }
    }
    Ok(found)
}

/// The numbers of the lines that are added up, by the name of the sum.
const SUMS: [(&str, metric::Metric); 8] = [
    ("new", metric::NEW_KEYS),
    ("duplicate", metric::DUPLICATES),
    ("inFlight", metric::IN_FLIGHT),
    ("calls", metric::STORE_CALLS),
    ("failed", metric::STORE_ERRORS),
    ("replies", metric::SLACK_REPLIES),
    ("deliveries", metric::DELIVERIES),
    ("transfers", metric::TRANSFERS),
];
/// Those of them that are effects that left the system.
const EFFECTS: [&str; 3] = ["replies", "deliveries", "transfers"];

/// The query for Logs Insights. Only the lines with the numbers of an invocation have a `FunctionName`.
fn insights() -> String {
    let sum = |(name, metric): &(&str, metric::Metric)| format!("sum(coalesce({}, 0)) as {name}", metric.name());
    let sums: Vec<String> = SUMS.iter().map(sum).collect();
    format!("filter ispresent(FunctionName) | stats {} by bin(1m)", sums.join(", "))
}

async fn add_logs(
    context: &Context<'_>,
    functions: &[String],
    window: &Window,
    now: i64,
    overview: &mut Overview,
) -> Result<(), Error> {
    let groups = groups(context, functions).await?;
    // Up to the end of this second.
    let found = if groups.is_empty() { Values::new() } else { sums(context, groups, window.start, now + 1).await? };
    let series = |name: &str| {
        let values = found.get(name);
        let mut series = window.series(|at| values.and_then(|values| values.get(&at)).copied());
        window.nothing_happened(&mut series);
        series
    };
    let rates = &mut overview.rates;
    (rates.new, rates.duplicate, rates.in_flight) = (series("new"), series("duplicate"), series("inFlight"));
    let effects = EFFECTS.map(series);
    let sum = |step: usize| effects.iter().filter_map(|of| of[step]).reduce(|sum, value| sum + value);
    rates.effects = (0..window.steps).map(sum).collect();
    overview.store = Some(StoreCalls { calls: series("calls"), errors: series("failed"), p50: None, p99: None });
    Ok(())
}

/// The groups that exist: one that does not would fail the whole query. A function that never ran has none.
async fn groups(context: &Context<'_>, functions: &[String]) -> Result<Vec<String>, Error> {
    let all =
        context.logs().groups(GROUPS).await.map_err(|error| {
            failed("could not list the log groups; check the permission logs:DescribeLogGroups", error)
        })?;
    let ours = |name: &String| functions.iter().any(|function| name.strip_prefix(GROUPS) == Some(function.as_str()));
    Ok(all.into_iter().map(|group| group.name).filter(ours).take(MOST_GROUPS).collect())
}

async fn sums(context: &Context<'_>, groups: Vec<String>, start: i64, end: i64) -> Result<Values, Error> {
    let logs = context.logs();
    let refused = |error| {
        failed("Logs Insights did not answer; check the permissions logs:StartQuery and logs:GetQueryResults", error)
    };
    let id = logs.start_query(&groups, &insights(), start..end).await.map_err(refused)?;
    let answered = async {
        loop {
            let answer = logs.query_results(&id).await.map_err(refused)?;
            match answer.status.as_deref() {
                Some("Complete") => return Ok(answer.rows()),
                Some("Running" | "Scheduled") => tokio::time::sleep(ASK_EVERY).await,
                other => {
                    let how = other.unwrap_or("without a status");
                    return Err(Error::Refused(format!("the query of Logs Insights ended: {how}; try again")));
                }
            }
        }
    };
    let rows = tokio::time::timeout(WAIT, answered).await.map_err(|_| {
        Error::Refused(format!("Logs Insights did not answer within {} s; try again", WAIT.as_secs()))
    })??;
    let mut found = Values::new();
    for row in rows {
        let Some(at) = row.value("bin(1m)").and_then(minute) else { continue };
        for (name, _) in SUMS {
            let value = row.value(name).and_then(|value| value.parse().ok()).unwrap_or(0.0);
            found.entry(name.to_owned()).or_default().insert(at, value);
        }
    }
    Ok(found)
}

/// `2026-11-17 12:00:00.000`, in UTC, as epoch seconds.
fn minute(text: &str) -> Option<i64> {
    let at: jiff::Timestamp = format!("{}Z", text.replace(' ', "T")).parse().ok()?;
    Some(at.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_without_a_value_is_one_without_invocations_but_the_last_ones_may_be_late() {
        let window = Window { start: 600, steps: 5 };
        let measured = Values::from([
            ("invocations0".to_owned(), BTreeMap::from([(600, 2.0), (780, 1.0)])),
            ("invocations1".to_owned(), BTreeMap::from([(600, 3.0)])),
        ]);
        assert_eq!(window.sum(&measured, "invocations", 2), [Some(5.0), Some(0.0), None, Some(1.0), None]);
    }

    #[test]
    fn a_functions_latency_is_that_of_its_middle_and_its_slowest_minute() {
        let window = Window { start: 600, steps: 3 };
        let of = |values: [f64; 3]| BTreeMap::from([(600, values[0]), (660, values[1]), (720, values[2])]);
        let measured = Values::from([
            ("invocations0".to_owned(), of([1.0, 2.0, 3.0])),
            ("median0".to_owned(), of([9.0, 4.0, 5.0])),
            ("slow0".to_owned(), of([10.0, 90.0, 20.0])),
        ]);
        let found = latency(&window, &measured, 0, "slack-events").expect("it ran");
        assert_eq!((found.count, found.p50, found.p99), (6, Some(5.0), Some(90.0)));
        assert!(latency(&window, &measured, 1, "slack-files").is_none(), "it did not run");
    }

    #[test]
    fn the_logs_are_asked_for_the_numbers_that_functions_write() {
        let query = insights();
        assert!(
            query.starts_with("filter ispresent(FunctionName) | stats sum(coalesce(NewKeys, 0)) as new, "),
            "{query}"
        );
        assert!(query.ends_with("sum(coalesce(Transfers, 0)) as transfers by bin(1m)"), "{query}");
        assert_eq!(minute("1970-01-01 00:10:00.000"), Some(600));
    }
}
