//! Asks AWS for everything that the templates define, and compares it.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_cloudwatch::types::MetricAlarm;
use aws_sdk_dynamodb::types::{AttributeDefinition, KeySchemaElement};
use jiff::Timestamp;
use serde_json::{Value, json};
use template::Template;

use super::compare::{ANYTHING, differences, statement, unknowns_are_anything};
use super::mend::Mend;
use super::secrets::secret_findings;
use super::{Finding, KEY_WARNING_DAYS};
use crate::context::{Context, Error};
use crate::infra::Described;
use crate::outside::error::{NO_CREDENTIALS, message};
use crate::outside::logs::Logs;
use crate::outside::parameters::Parameters;
use crate::outside::roles::Roles;
use crate::rollout::alias::{DEPLOYED, LIVE, Standing};
use crate::rollout::cloud::Cloud;

/// How many names CloudWatch is asked for per call.
const NAMES_PER_CALL: usize = 10;
/// The statements that a deployment adds to a role: for a secret in Secrets Manager, for a secret that the environment's own key
/// encrypts, and for the secrets of further feeds.
const ADDED: [&str; 3] = ["SecretsManager", "SecretsKey", "ListedSecrets"];
const SECONDS_PER_DAY: i64 = 86_400;
/// How many concurrent executions AWS leaves to functions that have none reserved.
const UNRESERVED: i32 = 100;
/// The name of what belongs to no single function.
const ACCOUNT: &str = "account";
/// What one call can change of a table.
const SETTABLE: [&str; 2] = ["DeletionProtectionEnabled", "BillingMode"];

/// The clients of the services that are asked.
#[derive(Debug)]
pub(crate) struct Places {
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub lambda: aws_sdk_lambda::Client,
    pub cloudwatch: aws_sdk_cloudwatch::Client,
    pub scheduler: aws_sdk_scheduler::Client,
    pub parameters: Parameters,
    pub secretsmanager: aws_sdk_secretsmanager::Client,
    /// What the local platform does not have; `None` there.
    pub account: Option<OfAccount>,
}

/// The clients of the services that only an account has.
#[derive(Debug)]
pub(crate) struct OfAccount {
    pub roles: Roles,
    pub logs: Logs,
}

impl Places {
    pub(crate) fn of(context: &Context<'_>, described: &Described) -> Self {
        Places {
            dynamodb: context.aws.dynamodb(),
            lambda: context.lambda(),
            cloudwatch: context.cloudwatch(),
            scheduler: context.scheduler(),
            parameters: Parameters::new(context.aws.config()),
            secretsmanager: aws_sdk_secretsmanager::Client::new(context.aws.config()),
            account: (!described.on_local_platform())
                .then(|| OfAccount { roles: Roles::new(context.aws.config()), logs: context.logs() }),
        }
    }
}

/// Checks everything, in the order of the templates.
pub(crate) async fn look(places: &Places, described: &Described, now: Timestamp) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    let role_names = match &places.account {
        Some(OfAccount { roles, .. }) => Some(roles.names().await.map_err(|error| message(&error)).map(|mut names| {
            names.retain(|name| name.starts_with(&format!("ichido-{}-", described.settings.name)));
            names
        })),
        None => None,
    };
    // The outputs of shared.yaml are parameters of the other templates. Only AWS knows their values.
    let shared = described.templates.iter().find(|(name, _)| *name == "shared");
    let outputs: BTreeSet<String> = shared.into_iter().flat_map(|(_, shared)| shared.outputs.keys().cloned()).collect();
    for (_, template) in &described.templates {
        for table in template.of_kind("AWS::DynamoDB::Table") {
            found.extend(table_findings(places, table.1).await);
        }
        for (_, schedule) in template.of_kind("AWS::Scheduler::Schedule") {
            found.push(schedule_finding(places, &anything(template, &outputs, schedule)).await);
        }
        for function in template.functions() {
            found.push(alias_finding(places, &function.name).await);
        }
        found.extend(alarm_findings(places, template, &outputs).await);
        found.extend(secret_findings(&places.parameters, &places.secretsmanager, template).await);
        if let Some(OfAccount { roles, logs }) = &places.account {
            for function in template.functions() {
                found.push(concurrency_finding(places, described, &function.name).await);
            }
            for (_, group) in template.of_kind("AWS::Logs::LogGroup") {
                // The name of one group has an id in it that only AWS knows.
                let unknown = |name: &str| template.resources.keys().any(|id| name.contains(&format!("{id}.")));
                if !group["LogGroupName"].as_str().is_none_or(unknown) {
                    found.extend(retention_finding(logs, group).await);
                }
            }
            for (id, role) in template.of_kind("AWS::IAM::Role") {
                found.push(role_finding(roles, role_names.as_ref(), id, &anything(template, &outputs, role)).await);
            }
            for (id, permission) in template.of_kind("AWS::Lambda::Permission") {
                found.push(permission_finding(places, id, &anything(template, &outputs, permission)).await);
            }
        }
        found.extend(key_finding(template, now));
    }
    if places.account.is_some() {
        found.push(quota_finding(places, described).await);
    }
    // Without credentials nothing was asked, so nothing is known about what is deployed.
    if found.iter().any(|finding| finding.notes.iter().any(|note| note == NO_CREDENTIALS)) {
        return Err(Error::Refused(NO_CREDENTIALS.to_owned()));
    }
    Ok(found)
}

/// The properties of a resource, with [`ANYTHING`] for the values that only AWS knows.
fn anything(template: &Template, outputs: &BTreeSet<String>, properties: &Value) -> Value {
    let ids: BTreeSet<&str> = template.resources.keys().map(String::as_str).collect();
    let known = unknowns_are_anything(properties, &ids);
    let mut text = known.to_string();
    for name in outputs {
        let default = template.parameters.get(name).and_then(Value::as_str).unwrap_or_default();
        // The default of such a parameter is a whole ARN, or a word between `:` and `/`.
        if default.starts_with("arn:") {
            text = text.replace(&format!("\"{default}\""), &format!("\"{ANYTHING}\""));
        } else if !default.is_empty() {
            text = text.replace(&format!(":{default}/"), &format!(":{ANYTHING}/"));
        }
    }
    serde_json::from_str(&text).unwrap_or(known)
}

// ---------------------------------------------------------------------------------------------------------------- tables

async fn table_findings(places: &Places, properties: &Value) -> Vec<Finding> {
    let name = properties["TableName"].as_str().unwrap_or_default();
    let answer = match places.dynamodb.describe_table().table_name(name).send().await {
        Ok(answer) => answer,
        Err(error) => return vec![Finding::wrong("table", name, message(&error))],
    };
    let Some(table) = answer.table() else {
        return vec![Finding::wrong("table", name, "DynamoDB returned no description")];
    };
    let mut found = Vec::new();
    let protection = properties["DeletionProtectionEnabled"] == true;
    let expected = json!({
        "Status": "ACTIVE",
        "KeySchema": properties["KeySchema"],
        "AttributeDefinitions": properties["AttributeDefinitions"],
        "DeletionProtectionEnabled": protection,
        "BillingMode": properties["BillingMode"],
    });
    let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    let actual = json!({
        "Status": table.table_status().map(|status| status.as_str()),
        "KeySchema": keys(table.key_schema()),
        "AttributeDefinitions": attributes(table.attribute_definitions()),
        "DeletionProtectionEnabled": table.deletion_protection_enabled().unwrap_or(false),
        "BillingMode": billing.map(|billing| billing.as_str()),
    });
    let (settable, fixed): (Vec<String>, Vec<String>) = differences(&expected, &actual)
        .into_iter()
        .partition(|said| SETTABLE.iter().any(|property| said.starts_with(&format!("{property} "))));
    if settable.is_empty() || !fixed.is_empty() {
        found.push(Finding::of("table", name, fixed));
    }
    if !settable.is_empty() {
        found.push(Finding::of("table", name, settable).mended_by(Mend::Table {
            name: name.to_owned(),
            protection,
            billing: properties["BillingMode"].as_str().map(str::to_owned),
        }));
    }

    let wanted = properties["GlobalSecondaryIndexes"].as_array().cloned().unwrap_or_default();
    for index in &wanted {
        let index_name = index["IndexName"].as_str().unwrap_or_default();
        let there = table.global_secondary_indexes().iter().find(|there| there.index_name() == Some(index_name));
        let full = format!("{name}/{index_name}");
        let Some(there) = there else {
            found.push(Finding::wrong("index", full, "it does not exist"));
            continue;
        };
        let expected = json!({
            "Status": "ACTIVE",
            "KeySchema": index["KeySchema"],
            "Projection": index["Projection"]["ProjectionType"],
        });
        let projection = there.projection().and_then(|projection| projection.projection_type());
        let actual = json!({
            // Some local implementations do not return it.
            "Status": there.index_status().map_or("ACTIVE", |status| status.as_str()),
            "KeySchema": keys(there.key_schema()),
            "Projection": projection.map(|projection| projection.as_str()),
        });
        found.push(Finding::of("index", full, differences(&expected, &actual)));
    }
    for there in table.global_secondary_indexes() {
        let known = wanted.iter().any(|index| index["IndexName"].as_str() == there.index_name());
        if !known {
            let full = format!("{name}/{}", there.index_name().unwrap_or("?"));
            found.push(Finding::wrong("index", full, "it is not in the template"));
        }
    }

    if let Some(attribute) = properties["TimeToLiveSpecification"]["AttributeName"].as_str() {
        found.push(ttl_finding(places, name, attribute).await);
    }
    if properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] == true {
        found.push(recovery_finding(places, name).await);
    }
    found
}

async fn ttl_finding(places: &Places, table: &str, attribute: &str) -> Finding {
    match places.dynamodb.describe_time_to_live().table_name(table).send().await {
        Err(error) => Finding::wrong("ttl", table, message(&error)),
        Ok(answer) => {
            let there = answer.time_to_live_description();
            let status = there.and_then(|ttl| ttl.time_to_live_status()).map_or("DISABLED", |status| status.as_str());
            // It may still be on its way.
            let on = matches!(status, "ENABLED" | "ENABLING");
            let expected = json!({"AttributeName": attribute, "Status": "ENABLED"});
            let actual = json!({
                "AttributeName": there.and_then(|ttl| ttl.attribute_name()),
                "Status": if on { "ENABLED" } else { status },
            });
            let mend = Mend::Ttl { table: table.to_owned(), attribute: attribute.to_owned() };
            Finding::of("ttl", table, differences(&expected, &actual)).mended_by(mend)
        }
    }
}

async fn recovery_finding(places: &Places, table: &str) -> Finding {
    match places.dynamodb.describe_continuous_backups().table_name(table).send().await {
        Err(error) => Finding::wrong("recovery", table, message(&error)),
        Ok(answer) => {
            let recovery = answer
                .continuous_backups_description()
                .and_then(|backups| backups.point_in_time_recovery_description())
                .and_then(|recovery| recovery.point_in_time_recovery_status());
            let actual = json!({"PointInTimeRecovery": recovery.map_or("DISABLED", |status| status.as_str())});
            let expected = json!({"PointInTimeRecovery": "ENABLED"});
            let mend = Mend::Recovery { table: table.to_owned() };
            Finding::of("recovery", table, differences(&expected, &actual)).mended_by(mend)
        }
    }
}

fn keys(schema: &[KeySchemaElement]) -> Value {
    let key =
        |key: &KeySchemaElement| json!({"AttributeName": key.attribute_name(), "KeyType": key.key_type().as_str()});
    schema.iter().map(key).collect()
}

fn attributes(definitions: &[AttributeDefinition]) -> Value {
    let attribute = |attribute: &AttributeDefinition| json!({"AttributeName": attribute.attribute_name(), "AttributeType": attribute.attribute_type().as_str()});
    definitions.iter().map(attribute).collect()
}

// ------------------------------------------------------------------------------------------------- schedules, aliases, alarms

async fn schedule_finding(places: &Places, properties: &Value) -> Finding {
    let name = properties["Name"].as_str().unwrap_or_default();
    let answer = match places.scheduler.get_schedule().name(name).send().await {
        Ok(answer) => answer,
        Err(error) => return Finding::wrong("schedule", name, message(&error)),
    };
    let target = &properties["Target"];
    let state = properties["State"].as_str().unwrap_or("ENABLED");
    let mut expected = json!({
        "ScheduleExpression": properties["ScheduleExpression"],
        "State": state,
        "EndDate": "none",
        "Target": {"Arn": target["Arn"], "Input": target["Input"].as_str().unwrap_or_default()},
    });
    for part in ["RetryPolicy", "DeadLetterConfig"] {
        if let Some(wanted) = target.get(part) {
            expected["Target"][part] = wanted.clone();
        }
    }
    if let Some(zone) = properties.get("ScheduleExpressionTimezone") {
        expected["ScheduleExpressionTimezone"] = zone.clone();
    }
    let there = answer.target();
    let retry = there.and_then(|target| target.retry_policy());
    let actual = json!({
        "ScheduleExpression": answer.schedule_expression(),
        "ScheduleExpressionTimezone": answer.schedule_expression_timezone(),
        "State": answer.state().map(|state| state.as_str()),
        "EndDate": answer.end_date().map_or_else(|| "none".to_owned(), ToString::to_string),
        "Target": {
            "Arn": there.map(|target| target.arn()),
            "Input": there.and_then(|target| target.input()).unwrap_or_default(),
            "RetryPolicy": {
                "MaximumRetryAttempts": retry.and_then(|retry| retry.maximum_retry_attempts()),
                "MaximumEventAgeInSeconds": retry.and_then(|retry| retry.maximum_event_age_in_seconds()),
            },
            "DeadLetterConfig": {"Arn": there.and_then(|target| target.dead_letter_config()?.arn())},
        },
    });
    Finding::of("schedule", name, differences(&expected, &actual)).mended_by(Mend::Schedule(properties.clone()))
}

async fn concurrency_finding(places: &Places, described: &Described, function: &str) -> Finding {
    let short = function.strip_suffix(described.settings.suffix.as_str()).unwrap_or(function);
    let reserved = described.settings.reserved_concurrency.get(short).copied();
    match places.lambda.get_function_concurrency().function_name(function).send().await {
        Err(error) => Finding::wrong("concurrency", function, message(&error)),
        Ok(answer) => {
            let said = |reserved: Option<i32>| reserved.map_or_else(|| "not reserved".to_owned(), |n| n.to_string());
            let expected = json!({"reserved concurrency": said(reserved)});
            let actual = json!({"reserved concurrency": said(answer.reserved_concurrent_executions())});
            let mend = Mend::Concurrency { function: function.to_owned(), reserved };
            Finding::of("concurrency", function, differences(&expected, &actual)).mended_by(mend)
        }
    }
}

async fn quota_finding(places: &Places, described: &Described) -> Finding {
    let reserved = described.settings.reserved_concurrency.values().sum();
    match places.lambda.get_account_settings().send().await {
        Err(error) => Finding::wrong("concurrency", ACCOUNT, message(&error)),
        Ok(answer) => quota(answer.account_limit().map(|limit| limit.concurrent_executions()), reserved),
    }
}

/// Whether the account's quota of concurrent executions leaves room for what the environment reserves.
fn quota(limit: Option<i32>, reserved: i32) -> Finding {
    let Some(limit) = limit else {
        return Finding::wrong("concurrency", ACCOUNT, "AWS does not say how many executions the account allows");
    };
    if reserved > 0 && reserved + UNRESERVED > limit {
        return Finding::wrong(
            "concurrency",
            ACCOUNT,
            format!(
                "the environment reserves {reserved} executions and AWS keeps {UNRESERVED} unreserved, but the account allows {limit}; ask AWS for a higher quota"
            ),
        );
    }
    let found = Finding::well("concurrency", ACCOUNT);
    match reserved {
        0 => found.noted(format!(
            "no function has executions of its own, so one that is flooded can use up all {limit} of the account (reservedConcurrency in infra/environments.ts)"
        )),
        _ => found.noted(format!("{reserved} of {limit} executions are reserved")),
    }
}

async fn retention_finding(logs: &Logs, properties: &Value) -> Option<Finding> {
    let name = properties["LogGroupName"].as_str()?;
    let days =
        properties["RetentionInDays"].as_i64().or_else(|| properties["RetentionInDays"].as_str()?.parse().ok())?;
    Some(match logs.groups(name).await {
        Err(error) => Finding::wrong("logs", name, message(&error)),
        Ok(groups) => match groups.iter().find(|group| group.name == name) {
            None => Finding::wrong("logs", name, "it does not exist"),
            Some(group) => {
                let actual = json!({"RetentionInDays": group.retention_in_days});
                let mend = Mend::Retention { group: name.to_owned(), days: i32::try_from(days).ok()? };
                Finding::of("logs", name, differences(&json!({"RetentionInDays": days}), &actual)).mended_by(mend)
            }
        },
    })
}

async fn alias_finding(places: &Places, function: &str) -> Finding {
    let cloud = Cloud {
        lambda: places.lambda.clone(),
        cloudwatch: places.cloudwatch.clone(),
        function: function.to_owned(),
        alarms: Vec::new(),
        tick: std::time::Duration::ZERO,
    };
    let name = format!("{function}:{LIVE}");
    let (alias, deployed) = futures::join!(cloud.alias(), cloud.deployed());
    let (alias, deployed) = match (alias, deployed) {
        (Ok(Some(alias)), Ok(Some(deployed))) => (alias, deployed),
        (Ok(Some(_)), Ok(None)) => {
            let unfinished = format!("there is no alias {DEPLOYED}, so no deployment has finished; repeat make deploy");
            return Finding::wrong("alias", name, unfinished);
        }
        (Ok(None), _) => return Finding::wrong("alias", name, "it does not exist"),
        (Err(error), _) | (_, Err(error)) => return Finding::wrong("alias", name, error.to_string()),
    };
    match Standing::of(&alias) {
        Standing::Settled { live, .. } => {
            let found = Finding::well("alias", name).noted(format!("version {live}"));
            if deployed == live { found } else { found.noted(format!("version {deployed} waits for a rollout")) }
        }
        Standing::Moving { old, new, percent, .. } => Finding::wrong(
            "alias",
            name,
            format!(
                "a rollout from version {old} to {new} stopped at {percent} %; finish it with `ichidoctl rollout` or go back with `ichidoctl rollout --abort`"
            ),
        ),
        Standing::Foreign { main, other, percent } => Finding::wrong(
            "alias",
            name,
            format!(
                "somebody sent {percent} % of the traffic to version {other} without a rollout; `ichidoctl rollout --abort` returns it to version {main}"
            ),
        ),
    }
}

async fn alarm_findings(places: &Places, template: &Template, outputs: &BTreeSet<String>) -> Vec<Finding> {
    let wanted: Vec<Value> =
        template.of_kind("AWS::CloudWatch::Alarm").map(|(_, alarm)| anything(template, outputs, alarm)).collect();
    let mut found = Vec::new();
    for some in wanted.chunks(NAMES_PER_CALL) {
        let names: Vec<String> =
            some.iter().filter_map(|alarm| alarm["AlarmName"].as_str().map(str::to_owned)).collect();
        let answer = places.cloudwatch.describe_alarms().set_alarm_names(Some(names.clone())).send().await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                found.extend(names.into_iter().map(|name| Finding::wrong("alarm", name, message(&error))));
                continue;
            }
        };
        for (alarm, name) in some.iter().zip(names) {
            let there = answer.metric_alarms().iter().find(|there| there.alarm_name() == Some(&name));
            found.push(match there {
                None => Finding::wrong("alarm", name, "it does not exist").mended_by(Mend::Alarm(alarm.clone())),
                Some(there) => alarm_finding(alarm, name, there),
            });
        }
    }
    found
}

fn alarm_finding(wanted: &Value, name: String, there: &MetricAlarm) -> Finding {
    let found = Finding::of("alarm", name, alarm_differences(wanted, there)).mended_by(Mend::Alarm(wanted.clone()));
    // A ringing alarm is not a difference from the template.
    let rings = there.state_value().is_some_and(|state| state.as_str() == "ALARM");
    if rings { found.noted("it is RINGING") } else { found }
}

/// What an alarm has that its template does not say.
pub(super) fn alarm_differences(wanted: &Value, there: &MetricAlarm) -> Vec<String> {
    const COMPARED: [&str; 11] = [
        "Namespace",
        "MetricName",
        "Dimensions",
        "Statistic",
        "ExtendedStatistic",
        "Period",
        "EvaluationPeriods",
        "DatapointsToAlarm",
        "ComparisonOperator",
        "Threshold",
        "TreatMissingData",
    ];
    let mut expected: serde_json::Map<String, Value> = COMPARED
        .iter()
        .filter_map(|property| wanted.get(*property).map(|value| ((*property).to_owned(), value.clone())))
        .collect();
    expected.insert("ActionsEnabled".to_owned(), Value::from(wanted["ActionsEnabled"] != false));
    // Only AWS knows whom an alarm notifies. Whether it notifies anybody can be compared.
    let notifies = |actions: &Value| actions.as_array().is_some_and(|actions| !actions.is_empty());
    expected.insert("notifies somebody".to_owned(), Value::from(notifies(&wanted["AlarmActions"])));
    let dimensions = there.dimensions().iter().map(|each| json!({"Name": each.name(), "Value": each.value()}));
    let actual = json!({
        "Namespace": there.namespace(),
        "MetricName": there.metric_name(),
        "Dimensions": dimensions.collect::<Vec<_>>(),
        "Statistic": there.statistic().map(|statistic| statistic.as_str()),
        "ExtendedStatistic": there.extended_statistic(),
        "Period": there.period(),
        "EvaluationPeriods": there.evaluation_periods(),
        "DatapointsToAlarm": there.datapoints_to_alarm(),
        "ComparisonOperator": there.comparison_operator().map(|operator| operator.as_str()),
        "Threshold": there.threshold(),
        "TreatMissingData": there.treat_missing_data(),
        "ActionsEnabled": there.actions_enabled().unwrap_or(true),
        "notifies somebody": !there.alarm_actions().is_empty(),
    });
    differences(&Value::Object(expected), &actual)
}

// ---------------------------------------------------------------------------------------------------------------- permissions

async fn role_finding(
    roles: &Roles,
    names: Option<&Result<Vec<String>, String>>,
    id: &str,
    properties: &Value,
) -> Finding {
    let part = format!("-{id}-");
    let role = match names {
        Some(Ok(names)) => names.iter().find(|name| name.contains(&part)),
        Some(Err(error)) => return Finding::wrong("role", id, error.clone()),
        None => None,
    };
    let Some(role) = role else { return Finding::wrong("role", id, "it does not exist") };
    let mut problems = Vec::new();
    let mut wanted = BTreeMap::new();
    for policy in properties["Policies"].as_array().into_iter().flatten() {
        wanted.insert(policy["PolicyName"].as_str().unwrap_or_default(), &policy["PolicyDocument"]["Statement"]);
    }
    for (name, statements) in &wanted {
        match roles.policy(role, name).await {
            Err(error) => problems.push(format!("the policy {name}: {}", message(&error))),
            Ok(document) => {
                let document: Value = serde_json::from_str(&document).unwrap_or_default();
                let there = document["Statement"].as_array().cloned().unwrap_or_default();
                let there = there
                    .iter()
                    .filter(|each| !ADDED.iter().any(|added| each["Sid"] == *added))
                    .filter_map(statement)
                    .collect::<Vec<_>>();
                let statements = statements.as_array().into_iter().flatten().filter_map(statement).collect::<Vec<_>>();
                problems.extend(differences(&json!({*name: statements}), &json!({*name: there})));
            }
        }
    }
    match roles.policies(role).await {
        Err(error) => problems.push(message(&error)),
        Ok(there) => {
            let more = there.iter().filter(|name| !wanted.contains_key(name.as_str()));
            problems.extend(more.map(|name| format!("it has the policy {name}, which is not in the template")));
        }
    }
    Finding::of("role", id, problems)
}

async fn permission_finding(places: &Places, id: &str, properties: &Value) -> Finding {
    let function = template::function_name(&properties["FunctionName"]);
    let answer = places.lambda.get_policy().function_name(&function).qualifier(LIVE).send().await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Finding::wrong("permission", id, message(&error)),
    };
    let policy: Value = serde_json::from_str(answer.policy().unwrap_or_default()).unwrap_or_default();
    let expected = json!({"Principal": properties["Principal"], "Action": properties["Action"], "Source": properties["SourceArn"]});
    let allowed = policy["Statement"].as_array().into_iter().flatten().any(|there| {
        let principal = there["Principal"].get("Service").unwrap_or(&there["Principal"]);
        let conditions = there["Condition"].as_object().into_iter().flatten();
        let mut sources = conditions.flat_map(|(_, keys)| keys.as_object().into_iter().flatten());
        let source = sources.find(|(key, _)| key.eq_ignore_ascii_case("aws:SourceArn")).map(|(_, value)| value.clone());
        let actual = json!({"Principal": principal, "Action": there["Action"], "Source": source});
        differences(&expected, &actual).is_empty()
    });
    let caller = properties["Principal"].as_str().unwrap_or("?");
    if allowed {
        Finding::well("permission", id)
    } else {
        Finding::wrong(
            "permission",
            id,
            format!("{caller} may not invoke {function}:{LIVE}, although the template allows it"),
        )
    }
}

/// Reports the mesh API key before it ends.
fn key_finding(template: &Template, now: Timestamp) -> Option<Finding> {
    let expires = template.parameters.get("MeshApiKeyExpires")?;
    let expires = expires.as_i64().or_else(|| expires.as_str()?.parse().ok())?;
    let days = (expires - now.as_second()).div_euclid(SECONDS_PER_DAY);
    let name = "MeshApiKeyExpires";
    Some(if days < KEY_WARNING_DAYS {
        Finding::wrong(
            "key",
            name,
            format!("the key of the mesh API ends in {days} days; see docs/runbooks/mesh-api-key.md"),
        )
    } else {
        Finding::well("key", name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::with_suffix;

    #[test]
    fn values_that_only_aws_knows_fit_anything() {
        let templates = with_suffix("").unwrap();
        let outputs: BTreeSet<String> = templates[0].1.outputs.keys().cloned().collect();
        assert!(outputs.contains("HttpApiId") && outputs.contains("AlarmTopicArn"));
        let of = |template: &str, id: &str| {
            let (_, template) = templates.iter().find(|(name, _)| *name == template).unwrap();
            anything(template, &outputs, &template.resources[id].properties)
        };
        assert_eq!(of("slack", "SlackEventsErrorsAlarm")["AlarmActions"], json!(["*"]));
        let source = of("slack", "SlackEventsPermission")["SourceArn"].as_str().unwrap().to_owned();
        assert_eq!(source, "arn:aws:execute-api:ap-northeast-1:000000000000:*/*/POST/slack/events");
        assert_eq!(of("mesh", "MeshErrorsAlarm")["Dimensions"][0]["Value"], "*");
    }

    #[test]
    fn a_quota_that_is_too_small_for_what_is_reserved_is_reported() {
        assert!(quota(Some(1_000), 900).ok && !quota(Some(1_000), 901).ok);
        assert!(!quota(Some(10), 1).ok && !quota(None, 0).ok);
        let small = quota(Some(10), 0);
        assert!(small.ok && small.notes[0].contains("use up all 10"), "{small:?}");
    }

    #[test]
    fn a_key_that_ends_soon_is_reported() {
        let template = |expires: i64| {
            let text = format!("Parameters:\n  MeshApiKeyExpires: {{ Type: Number, Default: {expires} }}\n");
            Template::read(&text, &BTreeMap::new()).unwrap()
        };
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let in_days = |days: i64| key_finding(&template(1_800_000_000 + days * SECONDS_PER_DAY), now).unwrap();
        assert!(in_days(30).ok && !in_days(29).ok && !in_days(-1).ok);
    }
}
