//! The calls to AWS that a rollout makes: Lambda's alias, versions and invocations; CloudWatch's alarms and metrics.
//!
//! Promise: each call ends within its time limit, and its answer is one of those that the machine tells apart: done, stale,
//! never, unclear. A write without an answer is unclear, whatever error the SDK reports.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery, MetricStat};
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::get_alias::GetAliasOutput;
use aws_sdk_lambda::operation::update_alias::UpdateAliasOutput;
use aws_sdk_lambda::types::AliasRoutingConfiguration;
use jiff::Timestamp;
use serde_json::Value;

use super::alias::{Alias, Change, DEPLOYED, LIVE, Version};
use super::drive::{AlarmState, Hands, Sight};
use super::machine::{Looked, Observation};
use crate::outside::error::message;

/// The time limit of one call, with the SDK's own retries.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a health invocation: a cold start, and no work.
pub(crate) const HEALTH_TIMEOUT: Duration = Duration::from_secs(15);
/// How many alarms CloudWatch describes per call.
const ALARMS_PER_CALL: usize = 100;
/// Errors and invocations are counted per minute.
const PERIOD_SECONDS: i32 = 60;

/// Why AWS could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub String);

/// One function and the alarms that watch it.
#[derive(Debug, Clone)]
pub(crate) struct Cloud {
    pub lambda: aws_sdk_lambda::Client,
    pub cloudwatch: aws_sdk_cloudwatch::Client,
    pub function: String,
    pub alarms: Vec<String>,
    pub tick: Duration,
}

impl Cloud {
    /// The alias `live`; `None` if there is no such function or alias.
    pub(crate) async fn alias(&self) -> Result<Option<Alias>, Error> {
        self.find_alias(LIVE).await
    }

    /// The version that the last deployment published; `None` if no deployment has finished.
    pub(crate) async fn deployed(&self) -> Result<Option<Version>, Error> {
        Ok(self.find_alias(DEPLOYED).await?.map(|alias| alias.version))
    }

    async fn find_alias(&self, name: &str) -> Result<Option<Alias>, Error> {
        match self.get_alias(name).await {
            Ok(alias) => Ok(Some(alias)),
            Err(Failure::Missing) => Ok(None),
            Err(Failure::Never(error) | Failure::Unclear(error)) => Err(Error(error)),
            Err(Failure::Stale) => Err(Error("a read is never stale".to_owned())),
        }
    }

    async fn get_alias(&self, name: &str) -> Result<Alias, Failure> {
        let call = self.lambda.get_alias().function_name(&self.function).name(name).send();
        let answer = limited(CALL_TIMEOUT, call).await?;
        of_get(&answer)
    }

    async fn alarms(&self) -> Result<Vec<AlarmState>, String> {
        let mut states = Vec::new();
        for names in self.alarms.chunks(ALARMS_PER_CALL) {
            let call = self.cloudwatch.describe_alarms().set_alarm_names(Some(names.to_vec())).send();
            let answer = tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(|_| no_answer(CALL_TIMEOUT))?;
            let answer = answer.map_err(|error| message(&error))?;
            for name in names {
                let alarm = answer.metric_alarms().iter().find(|alarm| alarm.alarm_name() == Some(name));
                let state = alarm.map(|alarm| alarm.state_value().map_or("UNKNOWN", |state| state.as_str()).to_owned());
                let reason = alarm.and_then(|alarm| alarm.state_reason()).unwrap_or_default().to_owned();
                states.push(AlarmState { name: name.clone(), state, reason });
            }
        }
        Ok(states)
    }

    /// Invocations and errors of one version, through the alias.
    async fn counts(&self, version: Version, since: Timestamp) -> Result<(u64, u64), String> {
        let dimension = |name: &str, value: String| Dimension::builder().name(name).value(value).build();
        let query = |id: &str, metric: &str| {
            let metric = Metric::builder()
                .namespace("AWS/Lambda")
                .metric_name(metric)
                .dimensions(dimension("FunctionName", self.function.clone()))
                .dimensions(dimension("Resource", format!("{}:{LIVE}", self.function)))
                .dimensions(dimension("ExecutedVersion", version.to_string()))
                .build();
            let stat = MetricStat::builder().metric(metric).period(PERIOD_SECONDS).stat("Sum").build();
            MetricDataQuery::builder().id(id).metric_stat(stat).build()
        };
        let call = self
            .cloudwatch
            .get_metric_data()
            .metric_data_queries(query("invocations", "Invocations"))
            .metric_data_queries(query("errors", "Errors"))
            .start_time(aws_smithy_types::DateTime::from_secs(since.as_second()))
            .end_time(aws_smithy_types::DateTime::from_secs(self.now().as_second() + i64::from(PERIOD_SECONDS)))
            .send();
        let answer = tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(|_| no_answer(CALL_TIMEOUT))?;
        let answer = answer.map_err(|error| message(&error))?;
        let sum = |id: &str| {
            let results = answer.metric_data_results().iter().filter(|result| result.id() == Some(id));
            let sum: f64 = results.flat_map(|result| result.values()).sum();
            // CloudWatch returns counts as floating-point numbers.
            if sum.is_finite() && sum >= 0.0 { sum.round() as u64 } else { 0 }
        };
        Ok((sum("invocations"), sum("errors")))
    }
}

impl Hands for Cloud {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn read(&self) -> Observation {
        match self.get_alias(LIVE).await {
            Ok(alias) => Observation::Alias(alias),
            Err(failure) => failure.seen(),
        }
    }

    async fn update(&self, change: &Change, revision: &str) -> Observation {
        let weights: HashMap<String, f64> =
            change.other.iter().map(|(version, percent)| (version.to_string(), f64::from(*percent) / 100.0)).collect();
        let routing = AliasRoutingConfiguration::builder().set_additional_version_weights(Some(weights)).build();
        let call = self
            .lambda
            .update_alias()
            .function_name(&self.function)
            .name(LIVE)
            .function_version(change.version.to_string())
            .routing_config(routing)
            .description(change.note.to_string())
            .revision_id(revision)
            .send();
        match limited(CALL_TIMEOUT, call).await.and_then(|answer| of_update(&answer)) {
            Ok(alias) => Observation::Updated(alias),
            Err(failure) => failure.seen(),
        }
    }

    async fn health(&self, version: Version) -> Observation {
        let call = self
            .lambda
            .invoke()
            .function_name(&self.function)
            .qualifier(version.to_string())
            .payload(function::HEALTH.as_bytes().to_vec().into())
            .send();
        let Ok(answer) = tokio::time::timeout(HEALTH_TIMEOUT, call).await else {
            return Observation::Unhealthy(no_answer(HEALTH_TIMEOUT));
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return sort(&error).seen(),
        };
        let payload = answer.payload().map(|payload| payload.as_ref()).unwrap_or_default();
        let text = String::from_utf8_lossy(payload);
        if answer.function_error().is_some() {
            return Observation::Unhealthy(crate::show::one_line(&text, 200));
        }
        let ok = serde_json::from_slice::<Value>(payload).is_ok_and(|answer| answer["ok"] == true);
        let executed = answer.executed_version().is_none_or(|executed| executed == version.to_string());
        match (ok, executed) {
            (true, true) => Observation::Healthy,
            (true, false) => {
                Observation::Unhealthy(format!("version {} answered instead", answer.executed_version().unwrap_or("?")))
            }
            (false, _) => Observation::Unhealthy(format!("it answered {}", crate::show::one_line(&text, 200))),
        }
    }

    async fn look(&self, new: Version, since: Timestamp) -> (Observation, Sight) {
        let (alarms, counts) = futures::join!(self.alarms(), self.counts(new, since));
        let (alarms, (invocations, errors)) = match (alarms, counts) {
            (Ok(alarms), Ok(counts)) => (alarms, counts),
            (Err(error), _) | (_, Err(error)) => return (Observation::Unclear(error), Sight::default()),
        };
        let named = |wanted: fn(&AlarmState) -> bool| {
            alarms.iter().filter(|alarm| wanted(alarm)).map(|alarm| alarm.name.clone()).collect()
        };
        let looked =
            Looked { ringing: named(AlarmState::rings), missing: named(AlarmState::is_missing), errors, invocations };
        (Observation::Looked(looked), Sight { alarms, invocations, errors })
    }

    async fn wait(&self) {
        tokio::time::sleep(self.tick).await;
    }
}

/// How a call failed.
#[derive(Debug)]
enum Failure {
    Missing,
    Stale,
    Never(String),
    Unclear(String),
}

impl Failure {
    fn seen(self) -> Observation {
        match self {
            Failure::Missing => Observation::Never("there is no such function, version or alias".to_owned()),
            Failure::Stale => Observation::Stale,
            Failure::Never(error) => Observation::Never(error),
            Failure::Unclear(error) => Observation::Unclear(error),
        }
    }
}

async fn limited<T, E>(limit: Duration, call: impl Future<Output = Result<T, SdkError<E>>>) -> Result<T, Failure>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match tokio::time::timeout(limit, call).await {
        Err(_) => Err(Failure::Unclear(no_answer(limit))),
        Ok(answer) => answer.map_err(|error| sort(&error)),
    }
}

/// What an error says about the call.
fn sort<E>(error: &SdkError<E>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    const CONFLICT: u16 = 409;
    const TOO_MANY: u16 = 429;
    let text = message(error);
    let status = error.raw_response().map(|response| response.status().as_u16());
    match (error.as_service_error().and_then(|service| service.code()), status) {
        (Some("PreconditionFailedException"), _) => Failure::Stale,
        (Some("ResourceNotFoundException"), _) => Failure::Missing,
        (_, Some(CONFLICT | TOO_MANY)) => Failure::Unclear(text),
        // The session may be renewed before the next try.
        (Some("ExpiredTokenException"), _) => Failure::Unclear(text),
        (Some(_), Some(400..=499)) => Failure::Never(text),
        _ if matches!(error, SdkError::ConstructionFailure(_)) => Failure::Never(text),
        _ => Failure::Unclear(text),
    }
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}

fn of_get(answer: &GetAliasOutput) -> Result<Alias, Failure> {
    alias(answer.function_version(), answer.routing_config(), answer.description(), answer.revision_id())
}

fn of_update(answer: &UpdateAliasOutput) -> Result<Alias, Failure> {
    alias(answer.function_version(), answer.routing_config(), answer.description(), answer.revision_id())
}

fn alias(
    version: Option<&str>,
    routing: Option<&AliasRoutingConfiguration>,
    description: Option<&str>,
    revision: Option<&str>,
) -> Result<Alias, Failure> {
    let parse = |text: &str| {
        let unpublished = |_| Failure::Never(format!("the alias points at {text}, which is not a published version"));
        text.parse::<Version>().map_err(unpublished)
    };
    let weights = routing.and_then(|routing| routing.additional_version_weights());
    let other = weights.and_then(|weights| weights.iter().next());
    let other = match other {
        // Rounded, because Lambda keeps 0.1 as a floating-point number.
        Some((version, weight)) => Some((parse(version)?, (weight * 100.0).round().clamp(0.0, 100.0) as u8)),
        None => None,
    };
    Ok(Alias {
        version: parse(version.unwrap_or("$LATEST"))?,
        other,
        description: description.unwrap_or_default().to_owned(),
        revision: revision.unwrap_or_default().to_owned(),
    })
}
