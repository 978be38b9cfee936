//! The alarms of the account: those that watch a function, and whether they page somebody.

use aws_sdk_cloudwatch::types::{Dimension, MetricAlarm, StateValue};

use crate::context::{Context, Error, failed};

/// Alarms that watch one function.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    pub names: Vec<String>,
    /// Those of them that ring.
    pub ringing: Vec<String>,
}

/// All alarms of the account in this region.
pub(crate) async fn all(context: &Context<'_>) -> Result<Vec<MetricAlarm>, Error> {
    let mut found = Vec::new();
    let mut pages = context.cloudwatch().describe_alarms().into_paginator().send();
    while let Some(answer) = pages.next().await {
        let answer = answer.map_err(|error| {
            failed("could not list the alarms; check the permission cloudwatch:DescribeAlarms", error)
        })?;
        found.extend(answer.metric_alarms.unwrap_or_default());
    }
    Ok(found)
}

/// Enables or disables the actions of every alarm that watches `function`. Disabled, an alarm rings and nobody is told.
pub(crate) async fn page(context: &Context<'_>, function: &str, enabled: bool) -> Result<Watching, Error> {
    let client = context.cloudwatch();
    let mut found = Watching::default();
    for alarm in all(context).await?.iter().filter(|alarm| watches(alarm, function)) {
        let name = alarm.alarm_name().unwrap_or_default().to_owned();
        if alarm.state_value() == Some(&StateValue::Alarm) {
            found.ringing.push(name.clone());
        }
        found.names.push(name);
    }
    if found.names.is_empty() {
        return Ok(found);
    }
    let names = Some(found.names.clone());
    if enabled {
        client.enable_alarm_actions().set_alarm_names(names).send().await.map_err(|error| {
            failed("its alarms still page nobody; check the permission cloudwatch:EnableAlarmActions", error)
        })?;
    } else {
        client.disable_alarm_actions().set_alarm_names(names).send().await.map_err(|error| {
            failed("its alarms still page somebody; check the permission cloudwatch:DisableAlarmActions", error)
        })?;
    }
    Ok(found)
}

/// Whether an alarm watches a metric of this function.
fn watches(alarm: &MetricAlarm, function: &str) -> bool {
    let of_function =
        |dimension: &Dimension| dimension.name() == Some("FunctionName") && dimension.value() == Some(function);
    let calculated = alarm.metrics().iter().filter_map(|query| query.metric_stat()?.metric());
    alarm.dimensions().iter().any(of_function)
        || calculated.into_iter().any(|metric| metric.dimensions().iter().any(of_function))
}

#[cfg(test)]
mod tests {
    use aws_sdk_cloudwatch::types::{Metric, MetricDataQuery, MetricStat};

    use super::*;

    #[test]
    fn an_alarm_watches_the_function_of_its_metric_or_of_one_that_it_calculates_with() {
        let of = |function: &str| Dimension::builder().name("FunctionName").value(function).build();
        let plain = MetricAlarm::builder().dimensions(of("github-subscriber")).build();
        assert!(watches(&plain, "github-subscriber") && !watches(&plain, "github-subscriber-dev"));
        let stat = MetricStat::builder().metric(Metric::builder().dimensions(of("github-subscriber")).build());
        let query = MetricDataQuery::builder().id("m1").metric_stat(stat.period(60).stat("Sum").build()).build();
        let calculated = MetricAlarm::builder().metrics(query).build();
        assert!(watches(&calculated, "github-subscriber") && !watches(&calculated, "github-notifier"));
    }
}
