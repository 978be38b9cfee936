//! DynamoDB for tools: the store's own answers, without faults.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};
use serde_json::{Map, Value};

use super::{plain, protocol};
use crate::platform::Platform;
use crate::platform::router::read;

/// The largest request that DynamoDB takes.
const MAX_CALL: usize = 16 * 1024 * 1024;

/// One operation.
pub(super) async fn call(platform: &Platform, operation: &str, body: Bytes) -> Response {
    let renamed = Renamed::of(body, |table| platform.store().declares(table));
    let mut answer = platform.store().call(operation.to_owned(), renamed.body.clone()).await;
    renamed.undo(&mut answer.body);
    let id = uuid::Uuid::new_v4().simple().to_string().to_uppercase();
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [("content-type", "application/x-amz-json-1.0"), ("x-amzn-requestid", id.as_str())];
    (status, headers, answer.body).into_response()
}

/// Answers at the DynamoDB port.
pub(crate) async fn endpoint(State(platform): State<Platform>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    let body = match read(body, MAX_CALL).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match target.strip_prefix("DynamoDB_20120810.") {
        Some(operation) => call(&platform, operation, body).await,
        None if target.is_empty() => {
            (StatusCode::OK, "healthy: this is the DynamoDB endpoint of ichido-local\n").into_response()
        }
        None => protocol::refuse(target),
    }
}

/// What names a table's items in the answer to a batch.
const BY_TABLE: [&str; 3] = ["Responses", "UnprocessedKeys", "UnprocessedItems"];

/// A request in which tables have the names of their templates, though it names them with the ending of the environment `local`.
struct Renamed {
    body: Bytes,
    /// The tables of a batch that were asked for with the ending. The answer has them by that name.
    batch: Vec<String>,
}

impl Renamed {
    /// `declares`: whether there is a table of this name. Others keep their names: a tool may have made them.
    fn of(body: Bytes, declares: impl Fn(&str) -> bool) -> Self {
        let unchanged = |body| Self { body, batch: Vec::new() };
        if !body.windows(b"-local\"".len()).any(|part| part == b"-local\"") {
            return unchanged(body);
        }
        let Ok(mut request) = serde_json::from_slice::<Value>(&body) else { return unchanged(body) };
        let own = |table: &str| Some(plain(table)).filter(|own| *own != table && declares(own)).map(str::to_owned);
        let rename = |of: &mut Value| {
            if let Some(name) = of["TableName"].as_str().and_then(own) {
                of["TableName"] = Value::from(name);
            }
        };
        rename(&mut request);
        let actions = request.get_mut("TransactItems").and_then(Value::as_array_mut);
        for action in actions.into_iter().flatten() {
            action.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(rename);
        }
        let mut batch = Vec::new();
        if let Some(items) = request.get_mut("RequestItems").and_then(Value::as_object_mut) {
            let asked: Vec<(String, String)> =
                items.keys().filter_map(|table| Some((table.clone(), own(table)?))).collect();
            for (table, own) in asked {
                if let Some(of) = items.remove(&table) {
                    items.insert(own, of);
                    batch.push(table);
                }
            }
        }
        Self { body: Bytes::from(request.to_string()), batch }
    }

    fn undo(&self, answer: &mut Bytes) {
        if self.batch.is_empty() {
            return;
        }
        let Ok(mut read) = serde_json::from_slice::<Value>(answer) else { return };
        for part in BY_TABLE {
            let Some(tables) = read.get_mut(part).and_then(Value::as_object_mut) else { continue };
            for asked in &self.batch {
                if let Some(of) = tables.remove(plain(asked)) {
                    tables.insert(asked.clone(), of);
                }
            }
        }
        *answer = Bytes::from(read.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn renamed(request: &Value) -> (Value, Renamed) {
        let renamed = Renamed::of(Bytes::from(request.to_string()), |table| table == "ledger");
        (serde_json::from_slice(&renamed.body).expect("JSON"), renamed)
    }

    #[test]
    fn a_table_answers_to_its_name_with_the_ending_of_the_environment() {
        let (read, _) = renamed(&json!({"TableName": "ledger-local", "Key": {"TableName": {"S": "ledger-local"}}}));
        assert_eq!(read, json!({"TableName": "ledger", "Key": {"TableName": {"S": "ledger-local"}}}), "values stay");
        let items =
            json!([{"Put": {"TableName": "ledger-local", "Item": {}}}, {"Delete": {"TableName": "other-local"}}]);
        let (read, _) = renamed(&json!({ "TransactItems": items }));
        assert_eq!(read["TransactItems"][0]["Put"]["TableName"], "ledger");
        assert_eq!(read["TransactItems"][1]["Delete"]["TableName"], "other-local", "somebody's own table");
    }

    #[test]
    fn the_answer_to_a_batch_has_the_names_that_were_asked_for() {
        let (read, renamed) = renamed(&json!({"RequestItems": {"ledger-local": {"Keys": []}}}));
        assert_eq!(read, json!({"RequestItems": {"ledger": {"Keys": []}}}));
        let mut answer = Bytes::from(json!({"Responses": {"ledger": [1]}, "UnprocessedKeys": {}}).to_string());
        renamed.undo(&mut answer);
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer, json!({"Responses": {"ledger-local": [1]}, "UnprocessedKeys": {}}));
    }
}
