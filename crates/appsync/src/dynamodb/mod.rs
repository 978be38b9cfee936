//! The DynamoDB data source: takes a resolver's request and returns DynamoDB's answer, in AppSync's shapes.
//!
//! Promises:
//! - What AppSync calls an error of the request (an unknown operation, a missing key) is [`Failure::Request`]. It ends the
//!   resolver.
//! - What DynamoDB refuses is [`Failure::Store`]. The response handler gets it as `ctx.error`, and `ctx.result` where AppSync
//!   has one.
//! - A failed condition counts as success if the stored item is what the request wanted: for PutItem an equal item (except for
//!   `equalsIgnore`), for DeleteItem no item.

mod batch;
mod failure;
mod item;
mod page;
mod request;
mod transact;
mod values;

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

pub(crate) use failure::Failure;
use request::Request;

type Item = HashMap<String, AttributeValue>;

/// Performs a resolver's request on `table`.
pub(crate) async fn perform(client: &Client, table: &str, request: &Value) -> Result<Value, Failure> {
    let request = Request::of(request, "$")?;
    for name in ["_version", "customPartitionKey", "populateIndexFields"] {
        if request.get(name).is_some() {
            return Failure::request(format!("'{name}' (a versioned data source) is not supported."));
        }
    }
    match request.text("operation")?.as_str() {
        "GetItem" => item::get(client, table, &request).await,
        "PutItem" => item::put(client, table, &request).await,
        "UpdateItem" => item::update(client, table, &request).await,
        "DeleteItem" => item::delete(client, table, &request).await,
        "Query" => page::query(client, table, &request).await,
        "Scan" => page::scan(client, table, &request).await,
        "BatchGetItem" => batch::get(client, &request).await,
        "BatchPutItem" => batch::put(client, &request).await,
        "BatchDeleteItem" => batch::delete(client, &request).await,
        "TransactGetItems" => transact::get(client, &request).await,
        "TransactWriteItems" => transact::write(client, &request).await,
        other => Failure::request(format!("Unsupported operation '{other}'.")),
    }
}
