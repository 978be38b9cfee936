//! The servers that are measured, and their DynamoDB.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use appsync::Api;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, StalledStreamProtectionConfig};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use serde_json::json;

use super::Result;

pub(crate) const KEY: &str = "bench-key";
pub(crate) const TABLE: &str = "bench";

const SDL: &str = "
type Query { a: Int }
type Mutation { send(groupId: ID!, text: String!): Message }
type Subscription { onSend(groupId: ID!): Message @aws_subscribe(mutations: [\"send\"]) }
type Message { groupId: ID!  id: ID!  text: String!  at: AWSDateTime! }";

const CHECK: &str = "
import { util } from '@aws-appsync/utils'
import { get } from '@aws-appsync/utils/dynamodb'
export function request(ctx) { return get({ key: { pk: `GROUP#${ctx.args.groupId}` } }) }
export function response(ctx) {
  if (ctx.error) util.error(ctx.error.message, ctx.error.type)
  if (!ctx.result) util.error('no such group', 'GroupNotFound')
  return ctx.result
}";

const STORE: &str = "
import { util } from '@aws-appsync/utils'
import { put } from '@aws-appsync/utils/dynamodb'
export function request(ctx) {
  const { groupId, text } = ctx.args
  const item = { groupId, text, id: util.autoId(), at: util.time.nowISO8601() }
  return put({ key: { pk: `MESSAGE#${item.id}` }, item })
}
export function response(ctx) {
  if (ctx.error) util.error(ctx.error.message, ctx.error.type)
  return ctx.result
}";

const PIPELINE: &str =
    "export function request() { return {} }\nexport function response(ctx) { return ctx.prev.result }";

fn api(client: Client) -> Result<Api> {
    let runtime = json!({"Name": "APPSYNC_JS", "RuntimeVersion": "1.0.0"});
    let function = |name: &str, code: &str| {
        json!({"Type": "AWS::AppSync::FunctionConfiguration",
               "Properties": {"Name": name, "DataSourceName": "table", "Runtime": runtime, "Code": code}})
    };
    let template = json!({"Resources": {
        "Api": {"Type": "AWS::AppSync::GraphQLApi", "Properties": {"Name": "bench", "AuthenticationType": "API_KEY"}},
        "Table": {"Type": "AWS::AppSync::DataSource",
                  "Properties": {"Name": "table", "Type": "AMAZON_DYNAMODB", "DynamoDBConfig": {"TableName": TABLE}}},
        "Check": function("check", CHECK),
        "Store": function("store", STORE),
        "Send": {"Type": "AWS::AppSync::Resolver", "Properties": {
            "TypeName": "Mutation", "FieldName": "send", "Kind": "PIPELINE", "Runtime": runtime, "Code": PIPELINE,
            "PipelineConfig": {"Functions": [{"Fn::GetAtt": ["Check", "FunctionId"]}, {"Fn::GetAtt": ["Store", "FunctionId"]}]},
        }},
    }});
    Ok(Api::builder().schema(SDL).template(template.to_string(), &[]).dynamodb(client).api_keys([KEY]).build()?)
}

fn client(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(endpoint)
        // As on the local platform (see `crates/function`).
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

/// An embedded DynamoDB with the table and the group.
pub(crate) async fn dynamodb() -> Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let database = dynoxide::Database::memory().map_err(|error| error.to_string())?;
    tokio::spawn(dynoxide::server::serve_with_shutdown(listener, database, std::future::pending()));
    let client = client(&endpoint);
    client
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(
            AttributeDefinition::builder().attribute_name("pk").attribute_type(ScalarAttributeType::S).build()?,
        )
        .key_schema(KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash).build()?)
        .send()
        .await?;
    client.put_item().table_name(TABLE).item("pk", AttributeValue::S("GROUP#g".to_owned())).send().await?;
    Ok(endpoint)
}

/// Prints its address and serves until it is killed.
pub(crate) async fn serve(endpoint: &str) -> Result<()> {
    let api = api(client(endpoint))?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    axum::serve(listener, api.router()).await?;
    Ok(())
}

/// How many microseconds the request handler and the response handler of a unit resolver take.
pub(crate) fn evaluate(times: u32) -> Result<(f64, f64)> {
    let api = api(client("http://127.0.0.1:9"))?;
    let request = json!({"arguments": {"groupId": "g", "text": "hello"}});
    let response = json!({"arguments": {"groupId": "g", "text": "hello"},
        "result": {"pk": "MESSAGE#1", "groupId": "g", "text": "hello", "id": "1", "at": "2026-01-01T00:00:00.000Z"}});
    let mut took = [0.0; 2];
    for (index, (handler, ctx)) in [("request", request), ("response", response)].into_iter().enumerate() {
        for _ in 0..times / 10 {
            api.evaluate("store", handler, ctx.clone())?;
        }
        let start = Instant::now();
        for _ in 0..times {
            api.evaluate("store", handler, ctx.clone())?;
        }
        took[index] = start.elapsed().as_secs_f64() * 1e6 / f64::from(times);
    }
    Ok((took[0], took[1]))
}

/// A server in a process of its own. Dropping this ends it.
pub(crate) struct Child {
    process: std::process::Child,
    pub(crate) address: SocketAddr,
}

impl Child {
    /// Starts a command that prints its address as its first line.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().ok_or("no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse()?, process })
    }

    /// The resident memory of the process, on systems that report it.
    pub(crate) fn resident_kilobytes(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
