//! The calls that set back what somebody changed by hand, each with the values of the template.

use aws_sdk_cloudwatch::types::{ComparisonOperator, Dimension, MetricAlarm, Statistic};
use aws_sdk_dynamodb::types::{BillingMode, PointInTimeRecoverySpecification, TimeToLiveSpecification};
use aws_sdk_scheduler::types::{DeadLetterConfig, RetryPolicy, ScheduleState};
use serde_json::Value;

use super::Places;
use super::compare::{ANYTHING, placed};
use crate::infra::Described;
use crate::outside::error::message;
use crate::outside::schedule::unchanged;
use crate::rollout::alias::LIVE;

/// A call that makes one thing as its template says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mend {
    Table {
        name: String,
        protection: bool,
        billing: Option<String>,
    },
    Ttl {
        table: String,
        attribute: String,
    },
    Recovery {
        table: String,
    },
    /// The properties of the template, with `*` for what only AWS knows.
    Schedule(Value),
    /// The same.
    Alarm(Value),
    Concurrency {
        function: String,
        reserved: Option<i32>,
    },
    Retention {
        group: String,
        days: i32,
    },
}

/// What to do about a finding that `mend` does not set back.
pub(crate) fn instead(kind: &str) -> &'static str {
    match kind {
        "table" => {
            "keys cannot be changed; a table that is UPDATING becomes ACTIVE by itself; if the table is gone, see docs/restoring.md"
        }
        "index" => "add or remove the index with `aws dynamodb update-table`; that takes long",
        "alias" => "`ichidoctl rollout` and `ichidoctl rollback` move aliases, nothing else does",
        "secret" => "`make secrets` sets it",
        "role" | "permission" => "an administrator changes it back; this tool changes no permissions",
        "key" => "see docs/runbooks/mesh-api-key.md",
        _ => "take it out of the template, deploy, put it back and deploy again",
    }
}

/// What only AWS knows of the environment's account.
#[derive(Debug)]
pub(crate) struct Account {
    /// The ARN of an alias: its partition, region and account are those of everything here.
    like: String,
    /// Whom alarms notify.
    topic: String,
}

impl Account {
    pub(crate) async fn of(places: &Places, described: &Described) -> Result<Self, String> {
        let functions = described.functions();
        let function = functions.first().ok_or("the templates have no function")?;
        let alias = places.lambda.get_alias().function_name(function).name(LIVE).send().await;
        let alias = alias.map_err(|error| format!("could not read {function}:{LIVE}: {}", message(&error)))?;
        let like = alias.alias_arn().unwrap_or_default().to_owned();
        let mut topics = described.templates.iter().flat_map(|(_, template)| template.of_kind("AWS::SNS::Topic"));
        let topic = topics.find_map(|(_, topic)| topic["TopicName"].as_str()).ok_or("the templates have no topic")?;
        Ok(Account { topic: placed(&template::arn("sns", topic), &like), like })
    }
}

impl Mend {
    /// The function that the schedule starts, if it is one that is set back.
    pub(crate) fn function_of_schedule(&self) -> Option<String> {
        match self {
            Mend::Schedule(properties) => Some(template::function_name(&properties["Target"]["Arn"])),
            _ => None,
        }
    }

    /// Makes the call. The error says why it could not be made.
    pub(crate) async fn apply(&self, places: &Places, account: &Account) -> Result<(), String> {
        match self {
            Mend::Table { name, protection, billing } => {
                let update = places.dynamodb.update_table().table_name(name).deletion_protection_enabled(*protection);
                let update = update.set_billing_mode(billing.as_deref().map(BillingMode::from));
                update.send().await.map(drop).map_err(|error| message(&error))
            }
            Mend::Ttl { table, attribute } => {
                let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute).build();
                let ttl = ttl.map_err(|error| error.to_string())?;
                let update = places.dynamodb.update_time_to_live().table_name(table).time_to_live_specification(ttl);
                update.send().await.map(drop).map_err(|error| message(&error))
            }
            Mend::Recovery { table } => {
                let recovery = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true);
                let recovery = recovery.build().map_err(|error| error.to_string())?;
                let update = places.dynamodb.update_continuous_backups().table_name(table);
                let update = update.point_in_time_recovery_specification(recovery);
                update.send().await.map(drop).map_err(|error| message(&error))
            }
            Mend::Schedule(properties) => schedule(places, account, properties).await,
            Mend::Alarm(properties) => alarm(places, account, properties).await,
            Mend::Concurrency { function, reserved: Some(reserved) } => {
                let put = places.lambda.put_function_concurrency().function_name(function);
                let put = put.reserved_concurrent_executions(*reserved);
                put.send().await.map(drop).map_err(|error| message(&error))
            }
            Mend::Concurrency { function, reserved: None } => {
                let delete = places.lambda.delete_function_concurrency().function_name(function);
                delete.send().await.map(drop).map_err(|error| message(&error))
            }
            Mend::Retention { group, days } => {
                let Some(of_account) = &places.account else { return Err("there are no log groups here".to_owned()) };
                of_account.logs.keep(group, *days).await.map_err(|error| message(&error))
            }
        }
    }
}

/// Reads the schedule and writes it back with the template's values.
async fn schedule(places: &Places, account: &Account, properties: &Value) -> Result<(), String> {
    let name = properties["Name"].as_str().unwrap_or_default();
    let before = places.scheduler.get_schedule().name(name).send().await;
    let before = before.map_err(|error| format!("could not read it: {}", message(&error)))?;
    let wanted = &properties["Target"];
    let mut target = before.target.clone().ok_or("Scheduler returned no target")?;
    let number = |value: &Value| value.as_i64().and_then(|value| i32::try_from(value).ok());
    if let Some(arn) = wanted["Arn"].as_str() {
        target.arn = placed(arn, &account.like);
    }
    if let Some(retry) = wanted.get("RetryPolicy") {
        let policy = RetryPolicy::builder()
            .set_maximum_retry_attempts(number(&retry["MaximumRetryAttempts"]))
            .set_maximum_event_age_in_seconds(number(&retry["MaximumEventAgeInSeconds"]));
        target.retry_policy = Some(policy.build());
    }
    if let Some(queue) = wanted["DeadLetterConfig"]["Arn"].as_str() {
        target.dead_letter_config = Some(DeadLetterConfig::builder().arn(placed(queue, &account.like)).build());
    }
    target.input = wanted["Input"].as_str().map(str::to_owned);
    let text = |property: &str| properties[property].as_str().map(str::to_owned);
    let update = unchanged(&places.scheduler, &before)
        .set_schedule_expression(text("ScheduleExpression").or(before.schedule_expression))
        .set_schedule_expression_timezone(text("ScheduleExpressionTimezone").or(before.schedule_expression_timezone))
        .set_description(text("Description").or(before.description))
        .set_end_date(None)
        .state(ScheduleState::from(properties["State"].as_str().unwrap_or("ENABLED")))
        .target(target);
    update.send().await.map(drop).map_err(|error| message(&error))
}

/// Writes an alarm as its template says. What only AWS knows of its dimensions is taken from the alarm that is there. If nothing
/// but its actions differ, only they are enabled or disabled, which no other property of the alarm can suffer from.
async fn alarm(places: &Places, account: &Account, properties: &Value) -> Result<(), String> {
    let name = properties["AlarmName"].as_str().unwrap_or_default();
    let answer = places.cloudwatch.describe_alarms().alarm_names(name).send().await;
    let answer = answer.map_err(|error| format!("could not read it: {}", message(&error)))?;
    let there = answer.metric_alarms().first();
    let enabled = properties["ActionsEnabled"] != false;
    if let Some(there) = there
        && super::look::alarm_differences(properties, there).iter().all(|said| said.starts_with("ActionsEnabled "))
    {
        return if enabled {
            let enable = places.cloudwatch.enable_alarm_actions().alarm_names(name);
            enable.send().await.map(drop).map_err(|error| message(&error))
        } else {
            let disable = places.cloudwatch.disable_alarm_actions().alarm_names(name);
            disable.send().await.map(drop).map_err(|error| message(&error))
        };
    }
    if properties.get("Metrics").is_some() {
        return Err("it calculates with several metrics, which this tool does not write".to_owned());
    }
    let text = |property: &str| properties[property].as_str().map(str::to_owned);
    let number = |property: &str| properties[property].as_i64().and_then(|value| i32::try_from(value).ok());
    let actions = |property: &str| -> Vec<String> {
        let actions = properties[property].as_array().into_iter().flatten().filter_map(Value::as_str);
        actions.map(|arn| if arn == ANYTHING { account.topic.clone() } else { placed(arn, &account.like) }).collect()
    };
    let put = places
        .cloudwatch
        .put_metric_alarm()
        .alarm_name(name)
        .set_alarm_description(text("AlarmDescription"))
        .actions_enabled(enabled)
        .set_alarm_actions(Some(actions("AlarmActions")))
        .set_ok_actions(Some(actions("OKActions")))
        .set_namespace(text("Namespace"))
        .set_metric_name(text("MetricName"))
        .set_dimensions(Some(dimensions(properties, there)?))
        .set_statistic(text("Statistic").map(|statistic| Statistic::from(statistic.as_str())))
        .set_extended_statistic(text("ExtendedStatistic"))
        .set_period(number("Period"))
        .set_evaluation_periods(number("EvaluationPeriods"))
        .set_datapoints_to_alarm(number("DatapointsToAlarm"))
        .set_comparison_operator(text("ComparisonOperator").map(|operator| ComparisonOperator::from(operator.as_str())))
        .set_threshold(properties["Threshold"].as_f64())
        .set_treat_missing_data(text("TreatMissingData"));
    put.send().await.map(drop).map_err(|error| message(&error))
}

fn dimensions(properties: &Value, there: Option<&MetricAlarm>) -> Result<Vec<Dimension>, String> {
    let wanted = properties["Dimensions"].as_array().into_iter().flatten();
    let of = |wanted: &Value| {
        let name = wanted["Name"].as_str().unwrap_or_default();
        let value = match wanted["Value"].as_str().unwrap_or_default() {
            ANYTHING => {
                let known = there.and_then(|there| there.dimensions().iter().find(|each| each.name() == Some(name)));
                let known = known.and_then(|known| known.value());
                known.ok_or_else(|| format!("only AWS knows its dimension {name}; {}", instead("alarm")))?
            }
            value => value,
        };
        Ok(Dimension::builder().name(name).value(value).build())
    };
    wanted.map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_aws_knows_of_an_alarm_is_kept_and_otherwise_asked_for() {
        let properties =
            json!({"Dimensions": [{"Name": "GraphQLAPIId", "Value": "*"}, {"Name": "Kind", "Value": "a"}]});
        let known = Dimension::builder().name("GraphQLAPIId").value("abc").build();
        let there = MetricAlarm::builder().dimensions(known).build();
        let kept = dimensions(&properties, Some(&there)).unwrap();
        let values: Vec<_> = kept.iter().map(|each| (each.name().unwrap(), each.value().unwrap())).collect();
        assert_eq!(values, [("GraphQLAPIId", "abc"), ("Kind", "a")]);
        assert!(dimensions(&properties, None).unwrap_err().contains("GraphQLAPIId"));
    }
}
