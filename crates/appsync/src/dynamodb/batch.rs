//! BatchGetItem, BatchPutItem and BatchDeleteItem. The request names the tables.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{DeleteRequest, KeysAndAttributes, PutRequest, WriteRequest};
use serde_json::{Map, Value, json};

use super::request::{Expression, Request, built};
use super::values::{item, item_to_json};
use super::{Failure, Item};

fn tables<'a>(request: &Request<'a>) -> Result<&'a Map<String, Value>, Failure> {
    request
        .need("tables")?
        .as_object()
        .ok_or_else(|| Failure::Request("Value for field '$[tables]' is not an object.".to_owned()))
}

fn items(value: &Value, place: &str) -> Result<Vec<Item>, Failure> {
    let wrong = || Failure::Request(format!("Value for field '{place}' is not a list of objects."));
    value.as_array().ok_or_else(wrong)?.iter().map(|value| item(value.as_object().ok_or_else(wrong)?)).collect()
}

pub(super) async fn get(client: &Client, request: &Request<'_>) -> Result<Value, Failure> {
    let mut wanted: Vec<(String, Vec<Item>)> = Vec::new();
    let mut call = client.batch_get_item();
    for (table, request) in tables(request)? {
        let request = Request::of(request, table)?;
        let keys = items(request.need("keys")?, "keys")?;
        let projection = request.expression("projection")?;
        let entry = KeysAndAttributes::builder()
            .set_keys(Some(keys.clone()))
            .set_consistent_read(request.typed("consistentRead")?)
            .set_projection_expression(projection.as_ref().map(|projection| projection.expression.clone()))
            .set_expression_attribute_names(projection.as_ref().and_then(Expression::names))
            .build();
        call = call.request_items(table, built(entry)?);
        wanted.push((table.clone(), keys));
    }
    let answer = call.send().await.map_err(|error| Failure::sdk(&error))?;
    let found = answer.responses.unwrap_or_default();
    // One value per key, in the order of the keys: null where nothing was found.
    let mut data = Map::new();
    for (table, keys) in &wanted {
        let found = found.get(table).map_or(&[][..], Vec::as_slice);
        let of = |key: &Item| found.iter().find(|item| key.iter().all(|(name, value)| item.get(name) == Some(value)));
        let list = keys.iter().map(|key| of(key).map_or(Value::Null, item_to_json)).collect();
        data.insert(table.clone(), Value::Array(list));
    }
    let left = answer.unprocessed_keys.unwrap_or_default();
    let unprocessed: Map<String, Value> = wanted
        .iter()
        .map(|(table, _)| {
            let keys = left.get(table).map_or(&[][..], KeysAndAttributes::keys);
            (table.clone(), Value::Array(keys.iter().map(item_to_json).collect()))
        })
        .collect();
    Ok(json!({"data": data, "unprocessedKeys": unprocessed}))
}

pub(super) async fn put(client: &Client, request: &Request<'_>) -> Result<Value, Failure> {
    let write = |item: Item| {
        Ok(WriteRequest::builder().put_request(built(PutRequest::builder().set_item(Some(item)).build())?).build())
    };
    let left = |request: &WriteRequest| request.put_request().map(|put| item_to_json(put.item()));
    write_all(client, request, &write, &left, "unprocessedItems").await
}

pub(super) async fn delete(client: &Client, request: &Request<'_>) -> Result<Value, Failure> {
    let write = |key: Item| {
        Ok(WriteRequest::builder().delete_request(built(DeleteRequest::builder().set_key(Some(key)).build())?).build())
    };
    let left = |request: &WriteRequest| request.delete_request().map(|delete| item_to_json(delete.key()));
    write_all(client, request, &write, &left, "unprocessedKeys").await
}

async fn write_all(
    client: &Client,
    request: &Request<'_>,
    write: &(dyn Fn(Item) -> Result<WriteRequest, Failure> + Send + Sync),
    left: &(dyn Fn(&WriteRequest) -> Option<Value> + Send + Sync),
    unprocessed_name: &str,
) -> Result<Value, Failure> {
    let mut requests: HashMap<String, Vec<WriteRequest>> = HashMap::new();
    let mut data = Map::new();
    for (table, list) in tables(request)? {
        let list = items(list, table)?;
        data.insert(table.clone(), Value::Array(list.iter().map(item_to_json).collect()));
        requests.insert(table.clone(), list.into_iter().map(write).collect::<Result<_, _>>()?);
    }
    let answer = client
        .batch_write_item()
        .set_request_items(Some(requests))
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    let remaining = answer.unprocessed_items.unwrap_or_default();
    let unprocessed: Map<String, Value> = data
        .keys()
        .map(|table| {
            let list = remaining.get(table).map_or(&[][..], Vec::as_slice);
            (table.clone(), Value::Array(list.iter().filter_map(left).collect()))
        })
        .collect();
    Ok(json!({"data": data, unprocessed_name: unprocessed}))
}
