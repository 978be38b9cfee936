//! Counts the requests that each operation makes to DynamoDB, beside those of the first design.

use appsync::Caller;
use serde_json::{Value, json};

use super::Result;
use super::server::{KEY, api};
use testkit::Dynamo;

/// An operation, its document, its variables, and the requests of the first design.
type Row = (&'static str, &'static str, Value, &'static str);

const WHERE: &str = "$groupId: ID!, $domain: String!";

/// One line per operation.
pub(crate) async fn compare() -> Result<Vec<String>> {
    let db = Dynamo::start(&["infra/templates/mesh.yaml"]).await;
    let api = api(db.client(), db.table("MeshTable"))?;
    let caller = Caller::api_key(KEY);
    let create = "mutation { createGroup(name: \"class\", hostId: \"host\", domain: \"d\") { id } }";
    let group = api.execute(create, json!({}), &caller).await.data()["createGroup"]["id"].clone();
    let here = json!({"groupId": group, "domain": "d", "nodeId": "node", "hostId": "host"});
    let with = |more: Value| {
        let mut all = here.clone();
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        all
    };
    let event = json!({"eventName": "e", "payload": "{}", "firedAt": "2026-01-01T00:00:00.000Z"});
    let events: Vec<Value> = vec![event; 10];
    let data = json!([{"key": "temperature", "value": "20"}]);
    let rows: [Row; 12] = [
        (
            "createGroup, again",
            "mutation { createGroup(name: \"class\", hostId: \"host\", domain: \"d\") { id } }",
            json!({}),
            "1 Query",
        ),
        (
            "joinGroup",
            "joinGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { id }",
            here.clone(),
            "1 Query, 1 PutItem",
        ),
        (
            "reportDataByNode",
            "reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data) { sequence }",
            with(json!({"data": data})),
            "1 Query, 1 PutItem",
        ),
        (
            "reportDataByNode, messageId",
            "reportDataByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, data: $data, messageId: \"m\") { sequence }",
            with(json!({"data": data})),
            "the same, twice if repeated",
        ),
        (
            "fireEventsByNode, 10 events",
            "fireEventsByNode(groupId: $groupId, domain: $domain, nodeId: $nodeId, events: $events) { sequence }",
            with(json!({"events": events})),
            "1 Query, 1 BatchWriteItem (10 items)",
        ),
        (
            "sendMemberHeartbeat",
            "sendMemberHeartbeat(groupId: $groupId, domain: $domain, nodeId: $nodeId) { expiresAt }",
            here.clone(),
            "1 UpdateItem",
        ),
        (
            "renewHeartbeat",
            "renewHeartbeat(groupId: $groupId, domain: $domain, hostId: $hostId) { expiresAt }",
            here.clone(),
            "1 Query, 1 UpdateItem",
        ),
        (
            "listGroupStatuses",
            "listGroupStatuses(groupId: $groupId, domain: $domain) { nodeId }",
            here.clone(),
            "1 Scan of the table",
        ),
        (
            "getMessagesSince",
            "getMessagesSince(groupId: $groupId, domain: $domain, sequence: 0) { next }",
            here.clone(),
            "there is none",
        ),
        (
            "getEventsSince, nothing new",
            "getEventsSince(groupId: $groupId, domain: $domain, since: \"000000000009:009\") { name }",
            here.clone(),
            "1 Query",
        ),
        (
            "leaveGroup",
            "leaveGroup(groupId: $groupId, domain: $domain, nodeId: $nodeId) { message }",
            here.clone(),
            "not described",
        ),
        (
            "dissolveGroup",
            "dissolveGroup(groupId: $groupId, domain: $domain, hostId: $hostId) { message }",
            here.clone(),
            "not described",
        ),
    ];
    let mut lines = vec![format!("{:<30} {:<64} {}", "", "ichido", "seed")];
    for (name, field, variables, seed) in rows {
        db.reset_calls();
        let document = document(field);
        let answer = api.execute(&document, variables, &caller).await;
        if !answer.is_ok() {
            return Err(format!("{name}: {}", answer.to_json()).into());
        }
        let calls: Vec<String> = db.calls().iter().map(|(operation, count)| format!("{count} {operation}")).collect();
        let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(", ") };
        lines.push(format!("{name:<30} {calls:<64} {seed}"));
    }
    Ok(lines)
}

/// The whole document of a field, with the variables that it uses.
fn document(field: &str) -> String {
    if field.starts_with("mutation") {
        return field.to_owned();
    }
    let kind = if field.starts_with("get") || field.starts_with("list") { "query" } else { "mutation" };
    let mut declared = WHERE.to_owned();
    for (name, declaration) in [
        ("$nodeId", ", $nodeId: ID!"),
        ("$hostId", ", $hostId: ID!"),
        ("$data", ", $data: [SensorDataInput!]!"),
        ("$events", ", $events: [EventInput!]!"),
    ] {
        if field.contains(name) {
            declared.push_str(declaration);
        }
    }
    format!("{kind} ({declared}) {{ {field} }}")
}
