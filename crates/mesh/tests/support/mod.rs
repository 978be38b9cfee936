//! The deployed files (schema, resolvers, template) on an embedded DynamoDB and a clock that the test owns.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use appsync::{Api, Caller, Response};
use mesh::settings::Settings;
use serde_json::{Value, json};
use testkit::{Dynamo, ManualClock, Outside};
use uuid::Uuid;

pub const KEY: &str = "key-of-the-test";
pub const DOMAIN: &str = "192.0.2.7";

pub struct Mesh {
    pub api: Api,
    /// The function `mesh-resolver`.
    pub resolver: function::Handler,
    /// The log of the API.
    pub log: Arc<Mutex<Vec<String>>>,
    pub db: Dynamo,
    pub clock: ManualClock,
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Random ids that are the same in every run.
fn random_ids(seed: u64) -> Arc<dyn Fn() -> Uuid + Send + Sync> {
    let random = Mutex::new(fastrand::Rng::with_seed(seed));
    Arc::new(move || {
        let bytes = random.lock().expect("not poisoned").u128(..).to_le_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    })
}

impl Mesh {
    pub async fn start() -> Self {
        Self::within(Outside::new()).await
    }

    /// A mesh with random ids of its own.
    pub async fn seeded(seed: u64) -> Self {
        Self::with(Outside::new(), seed).await
    }

    /// A mesh whose every call to the store goes through `outside`.
    pub async fn within(outside: Outside) -> Self {
        Self::with(outside, 5).await
    }

    async fn with(outside: Outside, seed: u64) -> Self {
        let clock = ManualClock::new();
        let db = Dynamo::start(&["infra/templates/mesh.yaml"]).await.with_clock(&clock).with_outside(outside);
        let settings = Settings {
            table: db.table("MeshTable").to_owned(),
            longest: Duration::from_secs(600),
            host_heartbeat: Duration::from_secs(15),
            polling_interval: Duration::from_secs(2),
            retention: Duration::from_secs(120),
            groups_per_caller: 50,
        };
        let handler =
            mesh::function::resolver::handler(settings, db.client(), Arc::new(clock.clone()), random_ids(seed));
        let yaml = std::fs::read_to_string(workspace().join("infra/templates/mesh.yaml")).expect("the template");
        let now = clock.clone();
        let resolver = handler.clone();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = log.clone();
        let api = Api::builder()
            .log(move |line| lines.lock().expect("not poisoned").push(line.to_owned()))
            .template(yaml, &[])
            .code_dir(workspace().join("infra/appsync"))
            .dynamodb(db.client())
            .lambda("mesh-resolver", move |payload| {
                let handler = handler.clone();
                async move {
                    let event = function::LambdaEvent::new(payload, function::Context::default());
                    handler(event).await.map_err(|error| appsync::LambdaError::new(error.to_string()))
                }
            })
            .api_keys([KEY])
            .seed(5)
            .clock(move || i64::try_from(now.now_ms()).unwrap_or(i64::MAX))
            .build()
            .expect("an API");
        Self { api, resolver, log, db, clock }
    }

    pub async fn execute(&self, query: &str, variables: Value) -> Response {
        self.api.execute(query, variables, &Caller::api_key(KEY)).await
    }

    /// The same from an address of its own.
    pub async fn execute_from(&self, n: u32, query: &str, variables: Value) -> Response {
        let caller = Caller::api_key(KEY).header("x-forwarded-for", format!("198.51.100.{n}, 10.0.0.1"));
        self.api.execute(query, variables, &caller).await
    }

    /// The value of the one field of an operation that must succeed.
    pub async fn ok(&self, query: &str, variables: Value) -> Value {
        let response = self.execute(query, variables).await;
        assert!(response.is_ok(), "{query}: {}", response.to_json());
        response.data().as_object().and_then(|fields| fields.values().next().cloned()).unwrap_or_default()
    }

    /// The type and message of the one error of an operation that must fail.
    pub async fn refused(&self, query: &str, variables: Value) -> (String, String) {
        let json = self.execute(query, variables).await.to_json();
        let error = &json["errors"][0];
        assert!(error.is_object(), "{query} was not refused: {json}");
        (error["errorType"].as_str().unwrap_or_default().into(), error["message"].as_str().unwrap_or_default().into())
    }

    /// What the function answers to a field, as AppSync invokes it.
    pub async fn invoke(&self, field: &str, arguments: Value) -> Result<Value, function::Error> {
        let payload = json!({"field": field, "arguments": arguments});
        (self.resolver)(function::LambdaEvent::new(payload, function::Context::default())).await
    }

    pub async fn create_group(&self, host: &str) -> String {
        let group = self.ok(CREATE, json!({"name": "class", "hostId": host, "domain": DOMAIN})).await;
        group["id"].as_str().expect("an id").to_owned()
    }

    pub async fn join(&self, group: &str, node: &str) {
        self.ok(JOIN, json!({"groupId": group, "domain": DOMAIN, "nodeId": node})).await;
    }

    pub async fn report(&self, group: &str, node: &str, value: &str) -> Value {
        self.ok(REPORT, report(group, node, value)).await
    }

    /// Everything in the table whose partition or sort key contains this.
    pub fn items_of(&self, part: &str) -> Vec<Value> {
        let items = self.db.items(self.db.table("MeshTable"));
        items
            .into_iter()
            .filter(|item| item["pk"].to_string().contains(part) || item["sk"].to_string().contains(part))
            .collect()
    }
}

pub fn report(group: &str, node: &str, value: &str) -> Value {
    json!({"groupId": group, "domain": DOMAIN, "nodeId": node, "data": [{"key": "temperature", "value": value}]})
}

pub fn of(group: &str) -> Value {
    json!({"groupId": group, "domain": DOMAIN})
}

pub fn node(group: &str, node: &str) -> Value {
    json!({"groupId": group, "domain": DOMAIN, "nodeId": node})
}

pub fn host(group: &str, host: &str) -> Value {
    json!({"groupId": group, "domain": DOMAIN, "hostId": host})
}

pub fn events(group: &str, node: &str, names: &[&str]) -> Value {
    let events: Vec<_> = names
        .iter()
        .map(|name| json!({"eventName": name, "payload": "{}", "firedAt": "2026-01-01T00:00:00.123Z"}))
        .collect();
    json!({"groupId": group, "domain": DOMAIN, "nodeId": node, "events": events})
}

pub const CREATE: &str = "mutation ($name: String!, $hostId: ID!, $domain: String!, $seconds: Int, $ws: Boolean) {
  createGroup(name: $name, hostId: $hostId, domain: $domain, maxConnectionTimeSeconds: $seconds, useWebSocket: $ws) {
    id domain fullId name hostId createdAt expiresAt heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds } }";
pub const JOIN: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $nodeName: String) {
  joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId, nodeName: $nodeName) {
    id name groupId domain expiresAt heartbeatIntervalSeconds useWebSocket pollingIntervalSeconds } }";
pub const LEAVE: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) {
  leaveGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { peerId groupId domain message } }";
pub const DISSOLVE: &str = "mutation ($groupId: ID!, $domain: String!, $hostId: ID!, $messageId: ID) {
  dissolveGroup(groupId: $groupId, domain: $domain, hostId: $hostId, messageId: $messageId) { groupId domain sequence messageId message groupDissolve { groupId domain message } } }";
pub const RENEW: &str = "mutation ($groupId: ID!, $domain: String!, $hostId: ID!) {
  renewHeartbeat(groupId: $groupId, domain: $domain, hostId: $hostId) { groupId domain expiresAt intervalSeconds heartbeatIntervalSeconds } }";
pub const BEAT: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!) {
  sendMemberHeartbeat(groupId: $groupId, domain: $domain, nodeId: $nodeId) { nodeId groupId domain expiresAt intervalSeconds heartbeatIntervalSeconds } }";
pub const REPORT: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $data: [SensorDataInput!]!, $messageId: ID) {
  reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data, messageId: $messageId) {
    groupId domain sequence messageId nodeId timestamp data { key value } nodeStatus { nodeId groupId domain timestamp data { key value } } } }";
pub const FIRE: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $events: [EventInput!]!, $messageId: ID) {
  fireEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $events, messageId: $messageId) {
    groupId domain sequence messageId firedByNodeId timestamp events { name payload cursor } batchEvent { firedByNodeId events { name firedByNodeId groupId domain payload timestamp } } } }";
pub const RECORD: &str = "mutation ($groupId: ID!, $domain: String!, $nodeId: ID!, $events: [EventInput!]!, $messageId: ID) {
  recordEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $events, messageId: $messageId) { groupId domain recordedCount nextSince } }";
pub const GET_GROUP: &str = "query ($groupId: ID!, $domain: String!) { getGroup(groupId: $groupId, domain: $domain) { id fullId hostId expiresAt useWebSocket } }";
pub const LIST_GROUPS: &str = "query ($domain: String!) { listGroupsByDomain(domain: $domain) { id name hostId } }";
pub const LIST_NODES: &str = "query ($groupId: ID!, $domain: String!) { listNodesInGroup(groupId: $groupId, domain: $domain) { id name groupId expiresAt } }";
pub const LIST_STATUSES: &str = "query ($groupId: ID!, $domain: String!) { listGroupStatuses(groupId: $groupId, domain: $domain) { nodeId groupId domain timestamp data { key value } } }";
pub const GET_STATUS: &str = "query ($nodeId: ID!, $domain: String!, $groupId: ID) { getNodeStatus(nodeId: $nodeId, domain: $domain, groupId: $groupId) { nodeId groupId data { key value } } }";
pub const EVENTS_SINCE: &str = "query ($groupId: ID!, $domain: String!, $since: String!) { getEventsSince(groupId: $groupId, domain: $domain, since: $since) { name firedByNodeId payload timestamp cursor } }";
pub const MESSAGES_SINCE: &str = "query ($groupId: ID!, $domain: String!, $sequence: Int!) { getMessagesSince(groupId: $groupId, domain: $domain, sequence: $sequence) { messages { sequence nodeId firedByNodeId data { value } events { name } } voids next head } }";
