//! GetItem, PutItem, UpdateItem and DeleteItem.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use serde_json::Value;

use super::request::{Expression, Request, join};
use super::values::{self, item_to_json};
use super::{Failure, Item};

pub(super) async fn get(client: &Client, table: &str, request: &Request<'_>) -> Result<Value, Failure> {
    let projection = request.expression("projection")?;
    let answer = client
        .get_item()
        .table_name(table)
        .set_key(Some(request.item("key")?))
        .set_consistent_read(request.typed("consistentRead")?)
        .set_projection_expression(projection.as_ref().map(|projection| projection.expression.clone()))
        .set_expression_attribute_names(projection.as_ref().and_then(Expression::names))
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    Ok(answer.item.as_ref().map_or(Value::Null, item_to_json))
}

/// The condition of a write as the SDK takes it; nothing if there is no condition.
#[derive(Default)]
struct Checked {
    expression: Option<String>,
    names: Option<HashMap<String, String>>,
    values: Option<Item>,
}

impl Checked {
    fn new(condition: Option<&Expression>) -> Result<Self, Failure> {
        let Some(condition) = condition else { return Ok(Self::default()) };
        condition.check_handler()?;
        let (names, values) = (condition.names(), condition.values()?);
        Ok(Self { expression: Some(condition.expression.clone()), names, values })
    }
}

pub(super) async fn put(client: &Client, table: &str, request: &Request<'_>) -> Result<Value, Failure> {
    let key = request.item("key")?;
    let mut wanted = request.optional_item("attributeValues")?;
    wanted.extend(key.clone());
    let condition = request.expression("condition")?;
    let checked = Checked::new(condition.as_ref())?;
    let answer = client
        .put_item()
        .table_name(table)
        .set_item(Some(wanted.clone()))
        .set_condition_expression(checked.expression)
        .set_expression_attribute_names(checked.names)
        .set_expression_attribute_values(checked.values)
        .send()
        .await;
    match answer {
        Ok(_) => Ok(item_to_json(&wanted)),
        Err(error) => {
            let failure = Failure::sdk(&error);
            let (true, Some(condition)) = (failure.is_failed_condition(), condition) else { return Err(failure) };
            let stored = current(client, table, key, &condition).await?;
            let ignored = condition.equals_ignore.unwrap_or_default();
            let same = stored.as_ref().is_some_and(|stored| values::same_item(stored, &wanted, &ignored));
            let stored = stored.as_ref().map_or(Value::Null, item_to_json);
            // As on AppSync: the stored item is the wanted one, so the write counts as done.
            if same { Ok(stored) } else { Err(failure.with_result(stored)) }
        }
    }
}

pub(super) async fn update(client: &Client, table: &str, request: &Request<'_>) -> Result<Value, Failure> {
    let key = request.item("key")?;
    let update = request
        .expression("update")?
        .ok_or_else(|| Failure::Request("Value for field '$[update]' not found.".to_owned()))?;
    let condition = request.expression("condition")?;
    let (names, values) = (update.names(), update.values()?);
    let checked = Checked::new(condition.as_ref())?;
    let answer = client
        .update_item()
        .table_name(table)
        .set_key(Some(key.clone()))
        .update_expression(&update.expression)
        .set_condition_expression(checked.expression)
        .set_expression_attribute_names(join(names, checked.names))
        .set_expression_attribute_values(join(values, checked.values))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None)
        .send()
        .await;
    match answer {
        Ok(answer) => Ok(answer.attributes.as_ref().map_or(Value::Null, item_to_json)),
        Err(error) => rejected(client, table, key, condition, Failure::sdk(&error)).await,
    }
}

pub(super) async fn delete(client: &Client, table: &str, request: &Request<'_>) -> Result<Value, Failure> {
    let key = request.item("key")?;
    let condition = request.expression("condition")?;
    let checked = Checked::new(condition.as_ref())?;
    let answer = client
        .delete_item()
        .table_name(table)
        .set_key(Some(key.clone()))
        .return_values(ReturnValue::AllOld)
        .set_condition_expression(checked.expression)
        .set_expression_attribute_names(checked.names)
        .set_expression_attribute_values(checked.values)
        .send()
        .await;
    match answer {
        Ok(answer) => Ok(answer.attributes.as_ref().map_or(Value::Null, item_to_json)),
        Err(error) => match rejected(client, table, key, condition, Failure::sdk(&error)).await {
            // There is no such item, which is what the request wanted.
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

/// Adds the item as it is now to a failed condition.
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

/// The item that made a condition fail.
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
