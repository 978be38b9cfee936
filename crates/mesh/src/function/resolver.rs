//! `mesh-resolver`: gets a GraphQL field and its arguments, returns a value or a typed error.
//!
//! To a client of AppSync, all failures of a Lambda function look alike. So an error that a client should understand is
//! an answer here, and `infra/appsync/resolvers/lambda.js` makes a GraphQL error of it. If the table fails, the function
//! fails: Lambda counts it, an alarm rings, a rollout goes back. `lambda.js` makes `Unavailable` of that for the client.
//!
//! A schedule asks once a day how long the API key lasts (`checkApiKey`). The answer is a log line, of which a metric filter
//! makes a metric. AppSync has none, and clients cannot be relied on: after the holidays nobody calls.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use function::{Aws, Env, Error, Handler, Value};
use ichido::{Clock, SystemClock, Timestamp};
use serde::Deserialize;
use serde_json::json;
use telemetry::{causes, metric};
use uuid::Uuid;

use crate::group::{self, Group, Random, Secret};
use crate::settings::Settings;
use crate::table::Table;
use crate::{create, dissolve, domain, leave};

const SECONDS_PER_DAY: u64 = 86_400;
/// How many days before the end of the API key somebody has to act. The alarm has the same number.
const DAYS_TO_RENEW: u64 = 30;

/// What `lambda.js` and the schedule send.
#[derive(Debug, Deserialize)]
struct Call {
    #[serde(flatten)]
    request: Request,
    /// The caller's address, as AppSync saw it. The schedule has none.
    #[serde(default)]
    address: String,
    /// The caller's identity, or its address if it has none.
    #[serde(default)]
    caller: String,
}

/// What a call returns: its value, and whose subscriptions end with it.
struct Answer {
    value: Value,
    ended: Value,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        Self { value, ended: Value::Null }
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "field", content = "arguments")]
enum Request {
    #[serde(rename = "createDomain")]
    Domain {},
    #[serde(rename = "createGroup")]
    Create(create::Arguments),
    #[serde(rename = "leaveGroup")]
    Leave(leave::Arguments),
    #[serde(rename = "dissolveGroup")]
    Dissolve(dissolve::Arguments),
    /// Not a field of the schema, so no client can send it. `expires` is in seconds since the epoch.
    #[serde(rename = "checkApiKey")]
    CheckApiKey { expires: u64 },
}

/// What a call needs besides its arguments.
struct Resolver {
    settings: Settings,
    table: Table,
    clock: Arc<dyn Clock>,
    random: Arc<Random>,
}

pub(crate) async fn build(env: Env, aws: Aws) -> Result<Handler, Error> {
    let settings = Settings::read(&env)?;
    aws.warm(&settings.table).await;
    Ok(handler(settings, aws.dynamodb(), Arc::new(SystemClock), Arc::new(Uuid::new_v4)))
}

/// The handler over given settings, client, clock and source of random ids.
pub fn handler(settings: Settings, client: Client, clock: Arc<dyn Clock>, random: Arc<Random>) -> Handler {
    let table = Table::new(client, &settings.table);
    let resolver = Arc::new(Resolver { settings, table, clock, random });
    function::handler(move |event| {
        let resolver = resolver.clone();
        async move { resolver.answer(event.payload).await }
    })
}

impl Resolver {
    async fn answer(&self, payload: Value) -> Result<Value, Error> {
        let started = self.clock.now();
        let call: Call = serde_json::from_value(payload).map_err(|error| Error::failed("Event", error))?;
        let result = self.call(&call).await;
        let Call { request, .. } = call;
        metric::MESH_LATENCY.took(self.clock.now().since(started));
        match result {
            Ok(Answer { value, ended: Value::Null }) => Ok(json!({ "value": value })),
            Ok(Answer { value, ended }) => Ok(json!({ "value": value, "ended": ended })),
            Err(group::Error::Unavailable(cause)) => {
                let what = what(&request);
                Err(Error::failed("Store", format!("could not carry out {what}: {}", causes(&cause))))
            }
            Err(refusal) => {
                metric::MESH_REFUSALS.add(1);
                report(&request, &refusal);
                Ok(json!({ "error": { "type": refusal.kind(), "message": refusal.to_string() } }))
            }
        }
    }

    async fn call(&self, call: &Call) -> Result<Answer, group::Error> {
        let Call { request, address, caller } = call;
        let Self { settings, table, clock, random } = self;
        let (clock, random) = (&**clock, &**random);
        match request {
            Request::Domain {} => Ok(Value::from(domain::name(table, random, address).await?).into()),
            Request::Create(arguments) => {
                let made = create::create(table, settings, clock, random, arguments, caller).await?;
                let create::Arguments { domain, host_id, .. } = arguments;
                let ended = made.left.map_or(Value::Null, |left| node_of(&left, domain, host_id));
                Ok(Answer { value: created(settings, &made.group), ended })
            }
            Request::Leave(arguments) => {
                let is_secured = leave::leave(table, clock, arguments).await?;
                let leave::Arguments { group_id, domain, node_id, .. } = arguments;
                let ended = if is_secured { node_of(group_id, domain, node_id) } else { Value::Null };
                Ok(Answer { value: left(arguments), ended })
            }
            Request::Dissolve(arguments) => {
                let notice = dissolve::dissolve(table, settings, clock, random, arguments).await?;
                let dissolve::Arguments { group_id, domain, .. } = arguments;
                let everybody = json!({ "groupId": group_id, "domain": domain, "everybody": true });
                let ended = if notice.secret.is_some() { everybody } else { Value::Null };
                Ok(Answer { value: dissolved(arguments, &notice), ended })
            }
            Request::CheckApiKey { expires } => Ok(check_api_key(*expires, clock.now()).into()),
        }
    }
}

/// Whose subscriptions end, as `infra/appsync/resolvers/subscribe.js` compares it.
fn node_of(group_id: &str, domain: &str, node_id: &str) -> Value {
    json!({ "groupId": group_id, "domain": domain, "nodeId": node_id })
}

/// The field and the group of a request, for log messages. What a user typed is in neither; a group's id was made here.
fn subject(request: &Request) -> (&'static str, &str) {
    match request {
        Request::Domain {} => ("createDomain", ""),
        Request::Create(_) => ("createGroup", ""),
        Request::Leave(leave::Arguments { group_id, .. }) => ("leaveGroup", group_id),
        Request::Dissolve(dissolve::Arguments { group_id, .. }) => ("dissolveGroup", group_id),
        Request::CheckApiKey { .. } => ("checkApiKey", ""),
    }
}

fn what(request: &Request) -> String {
    match subject(request) {
        (field, "") => field.to_owned(),
        (field, group_id) => format!("{field} of group {group_id}"),
    }
}

/// Logs why a call was refused.
fn report(request: &Request, refusal: &group::Error) {
    let (field, group_id) = subject(request);
    tracing::info!(field, group_id, refusal = refusal.kind(), "refused {}: {refusal}", what(request));
}

/// Says how many days the API key still lasts. The metric filter `MeshApiKeyDaysLeft` reads `apiKeyDaysLeft` in the line.
fn check_api_key(expires: u64, now: Timestamp) -> Value {
    let days = expires.saturating_sub(now.as_secs()) / SECONDS_PER_DAY;
    if days < DAYS_TO_RENEW {
        tracing::warn!(api_key_days_left = days, "the API key of the mesh expires in {days} days; renew it");
    } else {
        tracing::info!(api_key_days_left = days, "the API key of the mesh expires in {days} days");
    }
    json!({ "daysLeft": days })
}

fn created(settings: &Settings, group: &Group) -> Value {
    let Group { group_id, domain, name, host_id, created_at, expires_at, use_web_socket, host_secret, .. } = group;
    json!({
        "id": group_id,
        "domain": domain,
        "fullId": format!("{group_id}@{domain}"),
        "name": name,
        "hostId": host_id,
        "createdAt": created_at,
        "expiresAt": Timestamp::from_secs(*expires_at).to_string(),
        "heartbeatIntervalSeconds": settings.host_heartbeat.as_secs(),
        "useWebSocket": use_web_socket,
        "pollingIntervalSeconds": settings.polling_interval.as_secs(),
        "secured": host_secret.is_some(),
        "hostSecret": host_secret.as_ref().map(Secret::expose),
    })
}

fn left(arguments: &leave::Arguments) -> Value {
    let leave::Arguments { group_id, domain, node_id, .. } = arguments;
    json!({ "peerId": node_id, "groupId": group_id, "domain": domain, "message": "The node has left the group." })
}

fn dissolved(arguments: &dissolve::Arguments, notice: &dissolve::Notice) -> Value {
    let dissolve::Arguments { group_id, domain, message_id, .. } = arguments;
    let message = "The host has dissolved the group.";
    // Also a repeated notice is delivered: nobody knows whether the first one was. It has the same number, so clients recognise it.
    json!({
        "groupId": group_id,
        "domain": domain,
        "sequence": notice.sequence,
        "messageId": message_id,
        "groupDissolve": { "groupId": group_id, "domain": domain, "message": message },
        "message": message,
        "timestamp": notice.at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ichido::store;

    #[test]
    fn nothing_internal_is_in_a_refusal() {
        let refusals = [
            group::check_length("name", "", 128).unwrap_err(),
            group::Error::no_group("d", "g", None, Timestamp::from_secs(0)),
            group::Error::NodeNotFound,
            group::Error::Unauthorized("Only the host can dissolve the group."),
            group::Error::Conflict,
            group::Error::Unavailable(store::Error::Transient("DynamoDB throttled the table".into())),
        ];
        for refusal in refusals {
            let text = refusal.to_string().to_lowercase();
            assert!(["dynamodb", "table", "pk", "sdk"].iter().all(|word| !text.contains(word)), "{text}");
        }
    }

    #[test]
    fn times_are_shown_with_milliseconds() {
        let arguments = dissolve::Arguments {
            group_id: "g".into(),
            domain: "d".into(),
            host_id: "h".into(),
            message_id: None,
            secret: None,
        };
        let at = Timestamp::from_millis(1_700_000_000_123);
        let shown = dissolved(&arguments, &dissolve::Notice { sequence: 1, at, secret: None });
        assert_eq!(shown["timestamp"], "2023-11-14T22:13:20.123Z");
    }
}
