//! A tenant whose functions misbehave on purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use function::{Aws, BoxFuture, Definition, Env, Error, Handler, LambdaEvent, Value};
use local::standins::StandIn;
use local::tenants::{Ground, Tenant};
use serde_json::{Map, json};

const TEMPLATE: &str = include_str!("workshop.yaml");

/// Answers with its event and its context.
const ECHO: Definition = Definition {
    name: "workshop-echo",
    variables: &["GREETING"],
    build: |env, _aws| {
        Box::pin(async move {
            let mut vars = env.reader();
            let greeting = vars.required("GREETING");
            vars.finish()?;
            Ok(function::handler(move |event: LambdaEvent<Value>| {
                let greeting = greeting.clone();
                async move {
                    let context = event.context;
                    Ok(json!({
                        "greeting": greeting, "event": event.payload, "requestId": context.request_id,
                        "deadline": context.deadline, "arn": context.invoked_function_arn,
                        "function": context.env_config.function_name, "memory": context.env_config.memory,
                        "trace": telemetry::trace::current().map(|trace| trace.id().to_owned()),
                    }))
                }
            }))
        })
    },
};

/// Writes a note to the table, counts it, and says whether it was new.
const NOTE: Definition =
    Definition { name: "workshop-note", variables: &["TABLE_NAME"], build: |env, aws| Box::pin(note(env, aws)) };

async fn note(env: Env, aws: Aws) -> Result<Handler, Error> {
    let mut vars = env.reader();
    let table = vars.required("TABLE_NAME");
    vars.finish()?;
    Ok(function::handler(move |event: LambdaEvent<Value>| {
        let (table, dynamodb) = (table.clone(), aws.dynamodb());
        async move {
            let id = event.payload["id"].as_str().unwrap_or("none").to_owned();
            let put = dynamodb.put_item().table_name(&table).item("id", AttributeValue::S(id.clone()));
            let written = put.condition_expression("attribute_not_exists(id)").send().await;
            let result = match written {
                Ok(_) => "new",
                Err(error) => match error.into_service_error() {
                    refused if refused.is_conditional_check_failed_exception() => "duplicate",
                    other => return Err(Error::failed("Store", other)),
                },
            };
            telemetry::metric::FALLBACK_ADMISSIONS.add(u64::from(result == "new"));
            telemetry::metric::NEW_KEYS.add(1);
            tracing::info!(target: "local::workshop", event_key = id, result, "checked {id}: {result}");
            Ok(json!({ "result": result }))
        }
    }))
}

/// Misbehaves as the event says.
const MISCHIEF: Definition = Definition {
    name: "workshop-mischief",
    variables: &[],
    build: |_env, _aws| {
        Box::pin(async {
            // Counts the calls of this instance. A panic or a timeout starts a new instance.
            let calls = Arc::new(AtomicU64::new(0));
            Ok(function::handler(move |event: LambdaEvent<Value>| {
                let calls = calls.clone();
                async move {
                    let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
                    match event.payload["do"].as_str() {
                        Some("fail") => Err(Error::failed("Mischief", "as told")),
                        Some("panic") => panic!("as told"),
                        Some("hang") => std::future::pending().await,
                        Some("large") => Ok(json!("x".repeat(6 * 1024 * 1024))),
                        _ => Ok(json!({ "call": call })),
                    }
                }
            }))
        })
    },
};

/// Takes longer than its route allows.
const NAP: Definition = Definition {
    name: "workshop-nap",
    variables: &[],
    build: |_env, _aws| {
        Box::pin(async {
            Ok(function::handler(|_event| async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                Ok(json!({"slept": true}))
            }))
        })
    },
};

pub(crate) struct Workshop;

impl Tenant for Workshop {
    fn name(&self) -> &'static str {
        "workshop"
    }

    fn templates(&self) -> Vec<&'static str> {
        vec![TEMPLATE]
    }

    fn functions(&self) -> Vec<Definition> {
        vec![ECHO, NOTE, MISCHIEF, NAP]
    }

    fn secrets(&self, ground: &Ground) -> Vec<(String, String)> {
        vec![("/ichido/local/workshop/token".to_owned(), ground.secrets.get("workshop-token"))]
    }

    fn config(&self, ground: &Ground) -> Map<String, Value> {
        [("workshopToken".to_owned(), Value::from(ground.secrets.get("workshop-token")))].into_iter().collect()
    }

    fn stand_ins(&self, ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        vec![Arc::new(local::standins::slack::Slack::new(ground.secrets.get("workshop-token"), "B1", "U1"))]
    }

    fn demo(&self, platform: local::platform::Platform) -> BoxFuture<'static, ()> {
        Box::pin(async move { platform.live().tell("workshop", json!({"says": "the demo runs"})) })
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        Some(format!("curl {}/echo/hello", ground.url))
    }
}
