//! The DynamoDB data source: a resolver's request in, DynamoDB's answer out, in AppSync's shapes.
//!
//! Promises: what AppSync calls an error of the request (an unknown operation, a missing key) is
//! [`Failure::Request`] and ends the resolver; what DynamoDB refuses is [`Failure::Store`] and
//! reaches the response handler as `ctx.error`, with `ctx.result` beside it where AppSync has one.
//! A failed condition is success if the stored item is what was wanted: for PutItem an equal item
//! (but for `equalsIgnore`), for DeleteItem none.

mod batch;
mod transact;
mod values;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::RequestId;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

use values::{item, item_to_json};

type Item = HashMap<String, AttributeValue>;

/// Why a request gave no plain result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Failure {
    /// The resolver's request makes no sense.
    #[error("{0}")]
    Request(String),
    /// DynamoDB, or the way to it, said no.
    #[error("{message}")]
    Store { error_type: String, message: String, result: Value },
}

impl Failure {
    fn request<T>(message: impl Into<String>) -> Result<T, Self> {
        Err(Self::Request(message.into()))
    }

    fn sdk<E, R>(error: &SdkError<E, R>) -> Self
    where
        E: ProvideErrorMetadata,
        SdkError<E, R>: RequestId,
    {
        let (code, message) = match error.as_service_error() {
            Some(service) => (
                service.code().unwrap_or("AmazonDynamoDBException").to_owned(),
                service.message().unwrap_or("DynamoDB refused the request").to_owned(),
            ),
            // No answer: what the SDK itself says may name hosts, which is nobody's business.
            None => {
                ("SdkClientException".to_owned(), "Unable to execute the request: no answer from DynamoDB".to_owned())
            }
        };
        let request_id = error.request_id().unwrap_or("local");
        Self::Store {
            message: format!("{message} (Service: DynamoDb, Status Code: 400, Request ID: {request_id})"),
            error_type: format!("DynamoDB:{code}"),
            result: Value::Null,
        }
    }

    fn with_result(self, result: Value) -> Self {
        match self {
            Self::Store { error_type, message, .. } => Self::Store { error_type, message, result },
            other => other,
        }
    }

    fn is_failed_condition(&self) -> bool {
        matches!(self, Self::Store { error_type, .. } if error_type == "DynamoDB:ConditionalCheckFailedException")
    }
}

/// An expression with its names and values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expression {
    expression: String,
    #[serde(default)]
    expression_names: Option<HashMap<String, String>>,
    #[serde(default)]
    expression_values: Option<Map<String, Value>>,
    equals_ignore: Option<Vec<String>>,
    consistent_read: Option<bool>,
    conditional_check_failed_handler: Option<Handler>,
    return_values_on_condition_check_failure: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
struct Handler {
    strategy: String,
}

impl Expression {
    /// DynamoDB refuses empty maps of names and values.
    fn names(&self) -> Option<HashMap<String, String>> {
        self.expression_names.clone().filter(|names| !names.is_empty())
    }

    fn values(&self) -> Result<Option<Item>, Failure> {
        self.expression_values.as_ref().filter(|values| !values.is_empty()).map(item).transpose()
    }

    fn check_handler(&self) -> Result<(), Failure> {
        match &self.conditional_check_failed_handler {
            Some(handler) if handler.strategy != "Reject" => Failure::request(format!(
                "The conditionalCheckFailedHandler strategy '{}' is not supported here.",
                handler.strategy
            )),
            _ => Ok(()),
        }
    }
}

/// Joins the names or values of two expressions of one call.
fn join<T>(first: Option<HashMap<String, T>>, second: Option<HashMap<String, T>>) -> Option<HashMap<String, T>> {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            first.extend(second);
            Some(first)
        }
        (first, second) => first.or(second),
    }
}

/// A resolver's request, read field by field with errors that name the field.
struct Fields<'a> {
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, place: &str) -> Result<Self, Failure> {
        match value {
            Value::Object(map) => Ok(Self { map }),
            _ => Failure::request(format!("Value for field '{place}' is not an object.")),
        }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn need(&self, name: &str) -> Result<&'a Value, Failure> {
        self.get(name).ok_or_else(|| Failure::Request(format!("Value for field '$[{name}]' not found.")))
    }

    fn typed<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.get(name)
            .map(|value| T::deserialize(value))
            .transpose()
            .map_err(|error| Failure::Request(format!("Value for field '$[{name}]' is not valid: {error}")))
    }

    fn text(&self, name: &str) -> Result<String, Failure> {
        match self.need(name)? {
            Value::String(text) => Ok(text.clone()),
            _ => Failure::request(format!("Value for field '$[{name}]' is not a string.")),
        }
    }

    fn item(&self, name: &str) -> Result<Item, Failure> {
        match self.need(name)? {
            Value::Object(map) => item(map),
            _ => Failure::request(format!("Value for field '$[{name}]' is not an object.")),
        }
    }

    fn optional_item(&self, name: &str) -> Result<Item, Failure> {
        if self.get(name).is_some() { self.item(name) } else { Ok(Item::new()) }
    }

    fn expression(&self, name: &str) -> Result<Option<Expression>, Failure> {
        self.typed(name)
    }
}

/// Performs a resolver's request on `table`.
pub(crate) async fn perform(client: &Client, table: &str, request: &Value) -> Result<Value, Failure> {
    let fields = Fields::of(request, "$")?;
    for name in ["_version", "customPartitionKey", "populateIndexFields"] {
        if fields.get(name).is_some() {
            return Failure::request(format!("'{name}' (a versioned data source) is not supported here."));
        }
    }
    match fields.text("operation")?.as_str() {
        "GetItem" => get(client, table, &fields).await,
        "PutItem" => put(client, table, &fields).await,
        "UpdateItem" => update(client, table, &fields).await,
        "DeleteItem" => delete(client, table, &fields).await,
        "Query" => query(client, table, &fields).await,
        "Scan" => scan(client, table, &fields).await,
        "BatchGetItem" => batch::get(client, &fields).await,
        "BatchPutItem" => batch::put(client, &fields).await,
        "BatchDeleteItem" => batch::delete(client, &fields).await,
        "TransactGetItems" => transact::get(client, &fields).await,
        "TransactWriteItems" => transact::write(client, &fields).await,
        other => Failure::request(format!("Unsupported operation '{other}'.")),
    }
}

async fn get(client: &Client, table: &str, fields: &Fields<'_>) -> Result<Value, Failure> {
    let projection = fields.expression("projection")?;
    let answer = client
        .get_item()
        .table_name(table)
        .set_key(Some(fields.item("key")?))
        .set_consistent_read(fields.typed("consistentRead")?)
        .set_projection_expression(projection.as_ref().map(|projection| projection.expression.clone()))
        .set_expression_attribute_names(projection.as_ref().and_then(Expression::names))
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    Ok(answer.item.as_ref().map_or(Value::Null, item_to_json))
}

async fn put(client: &Client, table: &str, fields: &Fields<'_>) -> Result<Value, Failure> {
    let key = fields.item("key")?;
    let mut wanted = fields.optional_item("attributeValues")?;
    wanted.extend(key.clone());
    let condition = fields.expression("condition")?;
    let mut call = client.put_item().table_name(table).set_item(Some(wanted.clone()));
    if let Some(condition) = &condition {
        condition.check_handler()?;
        call = call
            .condition_expression(&condition.expression)
            .set_expression_attribute_names(condition.names())
            .set_expression_attribute_values(condition.values()?);
    }
    match call.send().await {
        Ok(_) => Ok(item_to_json(&wanted)),
        Err(error) => {
            let failure = Failure::sdk(&error);
            let (true, Some(condition)) = (failure.is_failed_condition(), condition) else { return Err(failure) };
            let stored = current(client, table, key, &condition).await?;
            let ignored = condition.equals_ignore.unwrap_or_default();
            let same = stored.as_ref().is_some_and(|stored| values::same_item(stored, &wanted, &ignored));
            let stored = stored.as_ref().map_or(Value::Null, item_to_json);
            // AppSync's habit: what is wanted is there, so the write counts as done.
            if same { Ok(stored) } else { Err(failure.with_result(stored)) }
        }
    }
}

async fn update(client: &Client, table: &str, fields: &Fields<'_>) -> Result<Value, Failure> {
    let key = fields.item("key")?;
    let update = fields
        .expression("update")?
        .ok_or_else(|| Failure::Request("Value for field '$[update]' not found.".to_owned()))?;
    let condition = fields.expression("condition")?;
    let mut names = update.names();
    let mut values = update.values()?;
    if let Some(condition) = &condition {
        condition.check_handler()?;
        names = join(names, condition.names());
        values = join(values, condition.values()?);
    }
    let answer = client
        .update_item()
        .table_name(table)
        .set_key(Some(key.clone()))
        .update_expression(&update.expression)
        .set_condition_expression(condition.as_ref().map(|condition| condition.expression.clone()))
        .set_expression_attribute_names(names)
        .set_expression_attribute_values(values)
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None)
        .send()
        .await;
    match answer {
        Ok(answer) => Ok(answer.attributes.as_ref().map_or(Value::Null, item_to_json)),
        Err(error) => rejected(client, table, key, condition, Failure::sdk(&error)).await,
    }
}

async fn delete(client: &Client, table: &str, fields: &Fields<'_>) -> Result<Value, Failure> {
    let key = fields.item("key")?;
    let condition = fields.expression("condition")?;
    let mut call = client.delete_item().table_name(table).set_key(Some(key.clone())).return_values(ReturnValue::AllOld);
    if let Some(condition) = &condition {
        condition.check_handler()?;
        call = call
            .condition_expression(&condition.expression)
            .set_expression_attribute_names(condition.names())
            .set_expression_attribute_values(condition.values()?);
    }
    match call.send().await {
        Ok(answer) => Ok(answer.attributes.as_ref().map_or(Value::Null, item_to_json)),
        Err(error) => match rejected(client, table, key, condition, Failure::sdk(&error)).await {
            // Nothing is there: what was wanted.
            Err(failure @ Failure::Store { .. })
                if failure.is_failed_condition() && failure_result(&failure).is_null() =>
            {
                Ok(Value::Null)
            }
            other => other,
        },
    }
}

fn failure_result(failure: &Failure) -> &Value {
    match failure {
        Failure::Store { result, .. } => result,
        Failure::Request(_) => &Value::Null,
    }
}

/// A failed condition carries the item as it is now.
async fn rejected(
    client: &Client,
    table: &str,
    key: Item,
    condition: Option<Expression>,
    failure: Failure,
) -> Result<Value, Failure> {
    match condition {
        Some(condition) if failure.is_failed_condition() => {
            let stored = current(client, table, key, &condition).await?;
            Err(failure.with_result(stored.as_ref().map_or(Value::Null, item_to_json)))
        }
        _ => Err(failure),
    }
}

async fn current(client: &Client, table: &str, key: Item, condition: &Expression) -> Result<Option<Item>, Failure> {
    let answer = client
        .get_item()
        .table_name(table)
        .set_key(Some(key))
        .consistent_read(condition.consistent_read.unwrap_or(true))
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    Ok(answer.item)
}

async fn query(client: &Client, table: &str, fields: &Fields<'_>) -> Result<Value, Failure> {
    let query = fields
        .expression("query")?
        .ok_or_else(|| Failure::Request("Value for field '$[query]' not found.".to_owned()))?;
    let page = Page::read(fields)?;
    let answer = client
        .query()
        .table_name(table)
        .set_index_name(page.index)
        .key_condition_expression(&query.expression)
        .set_filter_expression(page.filter.as_ref().map(|filter| filter.expression.clone()))
        .set_projection_expression(page.projection.as_ref().map(|projection| projection.expression.clone()))
        .set_expression_attribute_names(join(
            join(query.names(), page.filter.as_ref().and_then(Expression::names)),
            page.projection.as_ref().and_then(Expression::names),
        ))
        .set_expression_attribute_values(join(
            query.values()?,
            page.filter.as_ref().map(Expression::values).transpose()?.flatten(),
        ))
        .set_limit(page.limit)
        .set_consistent_read(page.consistent_read)
        .set_exclusive_start_key(page.start)
        .set_scan_index_forward(fields.typed("scanIndexForward")?)
        .set_select(page.select)
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    Ok(paged(answer.items.as_deref(), answer.last_evaluated_key.as_ref(), answer.scanned_count))
}

async fn scan(client: &Client, table: &str, fields: &Fields<'_>) -> Result<Value, Failure> {
    let page = Page::read(fields)?;
    let answer = client
        .scan()
        .table_name(table)
        .set_index_name(page.index)
        .set_filter_expression(page.filter.as_ref().map(|filter| filter.expression.clone()))
        .set_projection_expression(page.projection.as_ref().map(|projection| projection.expression.clone()))
        .set_expression_attribute_names(join(
            page.filter.as_ref().and_then(Expression::names),
            page.projection.as_ref().and_then(Expression::names),
        ))
        .set_expression_attribute_values(page.filter.as_ref().map(Expression::values).transpose()?.flatten())
        .set_limit(page.limit)
        .set_consistent_read(page.consistent_read)
        .set_exclusive_start_key(page.start)
        .set_total_segments(fields.typed("totalSegments")?)
        .set_segment(fields.typed("segment")?)
        .set_select(page.select)
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    Ok(paged(answer.items.as_deref(), answer.last_evaluated_key.as_ref(), answer.scanned_count))
}

/// What a query and a scan have in common.
struct Page {
    index: Option<String>,
    limit: Option<i32>,
    consistent_read: Option<bool>,
    start: Option<Item>,
    filter: Option<Expression>,
    projection: Option<Expression>,
    select: Option<Select>,
}

impl Page {
    fn read(fields: &Fields<'_>) -> Result<Self, Failure> {
        let select = match fields.typed::<String>("select")?.as_deref() {
            None => None,
            Some("ALL_ATTRIBUTES") => Some(Select::AllAttributes),
            Some("ALL_PROJECTED_ATTRIBUTES") => Some(Select::AllProjectedAttributes),
            Some("SPECIFIC_ATTRIBUTES") => Some(Select::SpecificAttributes),
            Some(other) => return Failure::request(format!("Unsupported value '{other}' for field '$[select]'.")),
        };
        Ok(Self {
            index: fields.typed("index")?,
            limit: fields.typed("limit")?,
            consistent_read: fields.typed("consistentRead")?,
            start: fields.typed::<String>("nextToken")?.map(|token| read_token(&token)).transpose()?,
            filter: fields.expression("filter")?.filter(|filter: &Expression| !filter.expression.is_empty()),
            projection: fields.expression("projection")?,
            select,
        })
    }
}

fn paged(items: Option<&[Item]>, last: Option<&Item>, scanned: i32) -> Value {
    json!({
        "items": items.unwrap_or_default().iter().map(item_to_json).collect::<Vec<_>>(),
        "nextToken": last.map(write_token),
        "scannedCount": scanned,
    })
}

/// A key as a token that means nothing to its holder.
fn write_token(key: &Item) -> String {
    let key: Map<String, Value> = key.iter().map(|(name, value)| (name.clone(), values::typed_json(value))).collect();
    URL_SAFE_NO_PAD.encode(json!({"version": 1, "token": key}).to_string())
}

fn read_token(token: &str) -> Result<Item, Failure> {
    let read = || {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        item(value.get("token")?.as_object()?).ok()
    };
    read().ok_or_else(|| Failure::Request("Invalid pagination token given.".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paging_token_is_its_key_and_nothing_else_is() {
        let key = Item::from([
            ("pk".to_owned(), AttributeValue::S("a#%".to_owned())),
            ("sk".to_owned(), AttributeValue::N("12.5".to_owned())),
        ]);
        assert_eq!(read_token(&write_token(&key)).expect("reads"), key);
        for token in ["", "x", "e30", "bm90IGpzb24", "eyJ0b2tlbiI6MX0"] {
            assert!(matches!(read_token(token), Err(Failure::Request(_))), "{token}");
        }
    }
}
