//! The library's own share of `run`: with a connector that answers at once, only the SDK and the library run.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, StalledStreamProtectionConfig};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, Namespace, OnDoubt, Once};

use crate::{Any, bare, micros};

/// Blocks are short, so that most of them are not interrupted, and take turns.
const BLOCKS: u32 = 1500;
const CALLS_PER_BLOCK: u32 = 10;

/// The answer to a claim of a new key and to its completion.
const FREE: (u16, &str) = (200, "{}");
/// The answer to a claim of a completed key.
const COMPLETED: (u16, &str) = (
    400,
    r##"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"id":{"S":"bench#1"},"ttl":{"N":"1794960000"},"ichido_format":{"N":"1"},"ichido_state":{"S":"completed"},"ichido_owner":{"S":"00000000000000000000000000000001"},"ichido_fence":{"N":"1"},"ichido_updated_at":{"N":"1794873600000"},"ichido_outcome":{"S":"{\"ok\":true}"}}}"##,
);

#[derive(Debug)]
struct Canned {
    status: u16,
    body: &'static str,
}

impl HttpConnector for Canned {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let answer = StatusCode::try_from(self.status).map_err(|error| ConnectorError::user(error.into()));
        HttpConnectorFuture::ready(answer.map(|status| {
            let mut response = HttpResponse::new(status, self.body.into());
            response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
            response
        }))
    }
}

fn client((status, body): (u16, &'static str), protection: StalledStreamProtectionConfig) -> Client {
    let connector = SharedHttpConnector::new(Canned { status, body });
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("ap-northeast-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .stalled_stream_protection(protection)
        .http_client(http_client_fn(move |_, _| connector.clone()));
    Client::from_conf(config.build())
}

pub(crate) async fn own_share_of_run() -> Result<(), Any> {
    println!(
        "run against the same requests with the bare SDK, a connector that answers at once, time per call ({} calls each)",
        BLOCKS * CALLS_PER_BLOCK
    );
    let off = StalledStreamProtectionConfig::disabled;
    let on = || StalledStreamProtectionConfig::enabled().build();
    // The last line shows what the SDK's default costs. `bounded` and our functions switch it off (crates/function).
    for (name, answer, protection) in
        [("fresh", FREE, off()), ("duplicate", COMPLETED, off()), ("fresh, with stalled-stream protection", FREE, on())]
    {
        let [ours, bare] = in_turns(&client(answer, protection)).await?;
        println!(
            "  {name:<38} bare SDK {bare:6.1} µs   run {ours:6.1} µs   the library's own {:5.1} µs (goal: under 15)",
            ours - bare
        );
    }
    Ok(())
}

async fn in_turns(client: &Client) -> Result<[f64; 2], Any> {
    let once = Once::new(DynamoDb::new(client.clone(), Table::new("bench", "id")));
    let namespace = Namespace::new("bench");
    let mut taken = [Vec::new(), Vec::new()];
    for block in 0..BLOCKS {
        for contestant in if block % 2 == 0 { [0, 1] } else { [1, 0] } {
            let started = Instant::now();
            for call in 0..CALLS_PER_BLOCK {
                let n = block * CALLS_PER_BLOCK + call;
                if contestant == 0 {
                    let key = namespace.key([n.to_string()])?;
                    let work = |_| async { Ok::<_, Failure<String>>(serde_json::json!({"ok": true})) };
                    drop(once.run(&key).on_doubt(OnDoubt::Repeat).work(work).await?.value);
                } else {
                    drop(bare::run(client, "bench", &format!("bench#{n}"), &format!("{n:032x}")).await?);
                }
            }
            taken[contestant].push(started.elapsed());
        }
    }
    Ok(taken.map(|blocks| micros(undisturbed(blocks), CALLS_PER_BLOCK)))
}

/// A block that the machine did not interrupt: the quickest quarter ends with it.
fn undisturbed(mut blocks: Vec<Duration>) -> Duration {
    blocks.sort();
    blocks.get(blocks.len() / 4).copied().unwrap_or_default()
}
