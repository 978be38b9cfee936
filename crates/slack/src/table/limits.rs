//! Slack's rate limits, as far as they were met: one item per method (and channel) in the table of processed events, so that
//! an invocation knows what another one was told.
//!
//! While no limit was met, there is no item, and a call costs one read per instance and five seconds. When Slack answers 429, the
//! item says when the next call may be made. From then on, for a minute, calls take turns: each takes the next moment of the
//! item, or the present one if that is over, and moves it on by the method's interval. Then the item expires.
//!
//! Limits protect nobody from a second effect, so they never fail a call: if the table does not answer, this instance goes by
//! what it knows itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use ichido::dynamodb::bounded;
use ichido::{Clock, Timestamp};
use telemetry::lock;

use super::{Item, LIMIT_PREFIX, PARTITION_KEY, number, read_number};

/// The longest time that is believed. Slack asks for a minute or so; a header that asks for years must not silence every instance.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How long calls take turns after the time that Slack asked for.
const TURNS_FOR: Duration = Duration::from_secs(60);
/// How long an instance believes that there is no limit.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// One call to the table. It is not worth more.
const WITHIN: Duration = Duration::from_millis(300);
/// When the next call may be made, in milliseconds.
const NEXT_AT: &str = "next_at";
/// How many limits an instance remembers. A workspace has more channels than this only if they are never limited together.
const MAX_REMEMBERED: usize = 1_000;

/// What Slack limits together: a method, or a method in one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// `chat.postMessage#C1`
    pub name: String,
    /// How far apart calls are while they take turns: the tier of the method.
    pub interval: Duration,
}

/// What one instance knows without asking.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// There was no limit; believed until then.
    Free { until: Timestamp },
    /// Slack told this instance.
    Limited { until: Timestamp },
}

/// The limits that were met. Each process has one.
pub struct Limits {
    client: Client,
    table: String,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<String, Known>>,
}

impl Limits {
    pub fn new(client: &Client, table: &str, clock: Arc<dyn Clock>) -> Self {
        Self { client: bounded(client, 1, WITHIN), table: table.to_owned(), clock, known: Mutex::default() }
    }

    /// When a call may be made: now or later, but not after `latest`. `Err`: not before that, so it was given no turn.
    pub async fn turn(&self, limit: &Limit, latest: Timestamp) -> Result<Timestamp, Timestamp> {
        let now = self.clock.now();
        let known = lock(&self.known).get(&limit.name).copied();
        if matches!(known, Some(Known::Free { until }) if now < until) {
            return Ok(now);
        }
        match self.shared_turn(limit, now, latest).await {
            Ok(Some(turn)) => turn.map(|at| at.max(now)),
            Ok(None) => {
                self.remember(&limit.name, Known::Free { until: now + BELIEVED_FOR });
                Ok(now)
            }
            // The table does not answer. What Slack told this instance still holds.
            Err(Unknown) => match known {
                Some(Known::Limited { until }) if until > latest => Err(until),
                Some(Known::Limited { until }) => Ok(until.max(now)),
                _ => Ok(now),
            },
        }
    }

    /// Slack allows the next call after this time. More than [`LONGEST`] is not believed.
    pub async fn met(&self, limit: &Limit, after: Duration) {
        let now = self.clock.now();
        let until = now + after.min(LONGEST);
        self.remember(&limit.name, Known::Limited { until });
        let ttl = number((until + TURNS_FOR).as_secs_ceil());
        let update = self
            .update(limit, now)
            .update_expression(format!("SET {NEXT_AT} = :until, #ttl = :ttl"))
            // Another invocation may have been told a later time, or have given out turns after this one.
            .condition_expression(format!("attribute_not_exists({NEXT_AT}) OR {NEXT_AT} < :until OR #ttl <= :now_secs"))
            .expression_attribute_values(":until", number(until.as_millis()))
            .expression_attribute_values(":ttl", ttl);
        if let Err(error) = update.send().await
            && !matches!(error.as_service_error(), Some(UpdateItemError::ConditionalCheckFailedException(_)))
        {
            let name = &limit.name;
            tracing::warn!(limit = name, "could not tell other invocations that Slack limits {name}");
        }
    }

    /// The turn that the table gives. `None`: no limit was met lately.
    async fn shared_turn(
        &self,
        limit: &Limit,
        now: Timestamp,
        latest: Timestamp,
    ) -> Result<Option<Result<Timestamp, Timestamp>>, Unknown> {
        let get = self.client.get_item().table_name(&self.table).key(PARTITION_KEY, key(limit)).consistent_read(true);
        let found = get.send().await.map_err(|_| Unknown)?.item;
        let Some(next) = found.as_ref().and_then(|item| next_at(item, now)) else { return Ok(None) };
        // Turns that nobody took are not made up for.
        if next < now && self.turn_now(limit, now).await? {
            return Ok(Some(Ok(now)));
        }
        let update = self
            .update(limit, now)
            .update_expression(format!("SET {NEXT_AT} = {NEXT_AT} + :interval"))
            .condition_expression(format!("{NEXT_AT} <= :latest AND #ttl > :now_secs"))
            .expression_attribute_values(":interval", number(limit.interval.as_millis() as u64))
            .expression_attribute_values(":latest", number(latest.as_millis()))
            .return_values(ReturnValue::UpdatedOld)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match update.send().await {
            Ok(output) => {
                let taken = output.attributes.as_ref().and_then(|item| read_number(item, NEXT_AT));
                Ok(Some(Ok(taken.map_or(now, Timestamp::from_millis))))
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(refusal)) => {
                    Ok(refusal.item().and_then(|item| next_at(item, now)).map(Err))
                }
                _ => Err(Unknown),
            },
        }
    }

    /// Takes the present moment, if the next one of the item is over. False: somebody else has taken a turn since it was read.
    async fn turn_now(&self, limit: &Limit, now: Timestamp) -> Result<bool, Unknown> {
        let update = self
            .update(limit, now)
            .update_expression(format!("SET {NEXT_AT} = :next"))
            .condition_expression(format!("{NEXT_AT} < :now AND #ttl > :now_secs"))
            .expression_attribute_values(":next", number((now + limit.interval).as_millis()))
            .expression_attribute_values(":now", number(now.as_millis()));
        match update.send().await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
                _ => Err(Unknown),
            },
        }
    }

    /// Begins an update of the item. Each has a condition on the expiry.
    fn update(&self, limit: &Limit, now: Timestamp) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.table)
            .key(PARTITION_KEY, key(limit))
            .expression_attribute_names("#ttl", super::TTL)
            .expression_attribute_values(":now_secs", number(now.as_secs()))
    }

    fn remember(&self, name: &str, known: Known) {
        let mut all = lock(&self.known);
        if all.len() >= MAX_REMEMBERED {
            all.clear();
        }
        all.insert(name.to_owned(), known);
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("table", &self.table).field("known", &self.known).finish_non_exhaustive()
    }
}

/// The table did not answer.
struct Unknown;

fn key(limit: &Limit) -> AttributeValue {
    AttributeValue::S(format!("{LIMIT_PREFIX}{}", limit.name))
}

/// When the next call may be made, unless the item has expired.
fn next_at(item: &Item, now: Timestamp) -> Option<Timestamp> {
    let expires_at = Timestamp::from_secs(read_number(item, super::TTL)?);
    let next_at = Timestamp::from_millis(read_number(item, NEXT_AT)?);
    (expires_at > now).then_some(next_at)
}
