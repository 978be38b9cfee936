//! The handler of `mesh-resolver`: a field and its arguments in, a value or a typed refusal out.
//!
//! Errors of a Lambda resolver all look alike to a client of AppSync, so a refusal is an answer here, and
//! `infra/appsync/resolvers/lambda.js` makes the GraphQL error of it.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use function::{Aws, Env, Error, Handler, Value};
use ichido::{Clock, SystemClock, Timestamp};
use serde::Deserialize;
use serde_json::json;
use telemetry::metric;

use crate::group::{Group, iso};
use crate::settings::Settings;
use crate::{create, dissolve, leave};

const SECONDS_A_DAY: u64 = 86_400;

/// What `lambda.js` sends.
#[derive(Debug, Deserialize)]
#[serde(tag = "field", content = "arguments")]
enum Request {
    #[serde(rename = "createGroup")]
    Create(create::Arguments),
    #[serde(rename = "leaveGroup")]
    Leave(leave::Arguments),
    #[serde(rename = "dissolveGroup")]
    Dissolve(dissolve::Arguments),
}

pub(crate) async fn build(env: Env, aws: Aws) -> Result<Handler, Error> {
    let settings = Settings::read(&env)?;
    aws.warm(&settings.table).await;
    Ok(handler(settings, aws.dynamodb(), Arc::new(SystemClock)))
}

/// The handler over given settings, client and clock.
pub fn handler(settings: Settings, client: Client, clock: Arc<dyn Clock>) -> Handler {
    let shared = Arc::new((settings, client, clock));
    function::handler(move |event| {
        let shared = shared.clone();
        async move {
            let (settings, client, clock) = &*shared;
            answer(settings, client, &**clock, event.payload).await
        }
    })
}

async fn answer(settings: &Settings, client: &Client, clock: &dyn Clock, payload: Value) -> Result<Value, Error> {
    let started = clock.now();
    if let Some(expires) = settings.api_key_expires {
        metric::MESH_API_KEY_DAYS_LEFT.add(expires.saturating_sub(started.as_secs()) / SECONDS_A_DAY);
    }
    let request: Request = serde_json::from_value(payload).map_err(|error| Error::failed("Event", error))?;
    let value = match request {
        Request::Create(arguments) => {
            create::create(client, settings, clock, &arguments).await.map(|group| show(settings, &group))
        }
        Request::Leave(arguments) => leave::leave(client, settings, clock, &arguments).await.map(|()| {
            json!({
                "peerId": arguments.node_id,
                "groupId": arguments.group_id,
                "domain": arguments.domain,
                "message": "The node has left the group.",
            })
        }),
        Request::Dissolve(arguments) => {
            dissolve::dissolve(client, settings, clock, &arguments).await.map(|notice| dissolved(&arguments, &notice))
        }
    };
    metric::MESH_LATENCY.took(clock.now().since(started));
    Ok(match value {
        Ok(value) => json!({ "value": value }),
        Err(refusal) => {
            metric::MESH_REFUSALS.add(1);
            tracing::info!(refusal = refusal.kind(), "refused");
            json!({ "error": { "type": refusal.kind(), "message": refusal.to_string() } })
        }
    })
}

fn show(settings: &Settings, group: &Group) -> Value {
    let Group { group_id, domain, name, host_id, created_at, expires_at, use_web_socket, .. } = group;
    json!({
        "id": group_id,
        "domain": domain,
        "fullId": format!("{group_id}@{domain}"),
        "name": name,
        "hostId": host_id,
        "createdAt": created_at,
        "expiresAt": iso(Timestamp::from_secs(*expires_at)),
        "heartbeatIntervalSeconds": settings.host_heartbeat.as_secs(),
        "useWebSocket": use_web_socket,
        "pollingIntervalSeconds": settings.polling_interval.as_secs(),
    })
}

fn dissolved(arguments: &dissolve::Arguments, notice: &dissolve::Notice) -> Value {
    let dissolve::Arguments { group_id, domain, message_id, .. } = arguments;
    let message = "The host has dissolved the group.";
    // Without group and domain a message reaches no subscriber: a repeated publish is answered, not delivered again.
    let (to_group, to_domain) = if notice.is_replay { (None, None) } else { (Some(group_id), Some(domain)) };
    json!({
        "groupId": to_group,
        "domain": to_domain,
        "sequence": notice.sequence,
        "messageId": message_id,
        "groupDissolve": { "groupId": group_id, "domain": domain, "message": message },
        "message": message,
        "timestamp": iso(notice.at),
    })
}

#[cfg(test)]
mod tests {
    use crate::group::Refusal;

    #[test]
    fn nothing_internal_is_in_a_refusal() {
        let refusals = [
            Refusal::Validation("name has 1 to 128 characters, not 0.".into()),
            Refusal::GroupNotFound,
            Refusal::NodeNotFound,
            Refusal::Unauthorized("dissolve the group"),
            Refusal::Conflict,
            Refusal::Unavailable,
        ];
        for refusal in refusals {
            let text = refusal.to_string().to_lowercase();
            assert!(["dynamodb", "table", "pk", "sdk"].iter().all(|word| !text.contains(word)), "{text}");
        }
    }
}
