//! TransactGetItems and TransactWriteItems. A cancelled transaction is `ctx.error`. Its reasons, one per item and in the
//! order of the items, are in `ctx.result.cancellationReasons`.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    CancellationReason, ConditionCheck, Delete, Get, Put, ReturnValuesOnConditionCheckFailure, TransactGetItem,
    TransactWriteItem, Update,
};
use serde_json::{Value, json};

use super::request::{Expression, Request, built, join};
use super::values::item_to_json;
use super::{Failure, Item};

fn entries<'a>(request: &Request<'a>) -> Result<&'a Vec<Value>, Failure> {
    request
        .need("transactItems")?
        .as_array()
        .ok_or_else(|| Failure::Request("Value for field '$[transactItems]' is not a list.".to_owned()))
}

fn reasons(list: &[CancellationReason]) -> Value {
    list.iter()
        .map(|reason| {
            let code = reason.code().unwrap_or("None");
            let mut out = json!({"type": code, "message": reason.message().unwrap_or("None")});
            if let Some(item) = reason.item() {
                out["item"] = item_to_json(item);
            }
            out
        })
        .collect()
}

pub(super) async fn get(client: &Client, request: &Request<'_>) -> Result<Value, Failure> {
    let mut call = client.transact_get_items();
    for entry in entries(request)? {
        let entry = Request::of(entry, "$[transactItems]")?;
        let projection = entry.expression("projection")?;
        let get = Get::builder()
            .table_name(entry.text("table")?)
            .set_key(Some(entry.item("key")?))
            .set_projection_expression(projection.as_ref().map(|projection| projection.expression.clone()))
            .set_expression_attribute_names(projection.as_ref().and_then(Expression::names))
            .build();
        call = call.transact_items(TransactGetItem::builder().get(built(get)?).build());
    }
    match call.send().await {
        Ok(answer) => {
            let items: Vec<Value> = answer
                .responses
                .unwrap_or_default()
                .iter()
                .map(|response| response.item().filter(|item| !item.is_empty()).map_or(Value::Null, item_to_json))
                .collect();
            Ok(json!({"items": items, "cancellationReasons": null}))
        }
        Err(error) => {
            let result = error
                .as_service_error()
                .and_then(|service| match service {
                    aws_sdk_dynamodb::operation::transact_get_items::TransactGetItemsError::TransactionCanceledException(cancelled) => {
                        Some(json!({"items": null, "cancellationReasons": reasons(cancelled.cancellation_reasons())}))
                    }
                    _ => None,
                })
                .unwrap_or(Value::Null);
            Err(Failure::sdk(&error).with_result(result))
        }
    }
}

pub(super) async fn write(client: &Client, request: &Request<'_>) -> Result<Value, Failure> {
    let mut call = client.transact_write_items();
    let mut keys: Vec<Value> = Vec::new();
    for entry in entries(request)? {
        let entry = Request::of(entry, "$[transactItems]")?;
        let key = entry.item("key")?;
        keys.push(item_to_json(&key));
        call = call.transact_items(write_item(&entry, key)?);
    }
    match call.send().await {
        Ok(_) => Ok(json!({"keys": keys, "cancellationReasons": null})),
        Err(error) => {
            let result = error
                .as_service_error()
                .and_then(|service| match service {
                    aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                        Some(json!({"keys": null, "cancellationReasons": reasons(cancelled.cancellation_reasons())}))
                    }
                    _ => None,
                })
                .unwrap_or(Value::Null);
            Err(Failure::sdk(&error).with_result(result))
        }
    }
}

fn write_item(entry: &Request<'_>, key: Item) -> Result<TransactWriteItem, Failure> {
    let table = entry.text("table")?;
    let condition = entry.expression("condition")?;
    let expression = condition.as_ref().map(|condition| condition.expression.clone());
    let names = condition.as_ref().and_then(Expression::names);
    let values = condition.as_ref().map(Expression::values).transpose()?.flatten();
    // AppSync returns the item that made a condition fail unless the request says otherwise.
    let old =
        match condition.as_ref().map(|condition| condition.return_values_on_condition_check_failure.unwrap_or(true)) {
            Some(true) => Some(ReturnValuesOnConditionCheckFailure::AllOld),
            _ => None,
        };
    let item = TransactWriteItem::builder();
    Ok(match entry.text("operation")?.as_str() {
        "PutItem" => {
            let mut wanted = entry.optional_item("attributeValues")?;
            wanted.extend(key);
            let put = Put::builder()
                .table_name(table)
                .set_item(Some(wanted))
                .set_condition_expression(expression)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(old);
            item.put(built(put.build())?)
        }
        "UpdateItem" => {
            let update = entry
                .expression("update")?
                .ok_or_else(|| Failure::Request("Value for field '$[update]' not found.".to_owned()))?;
            let update = Update::builder()
                .table_name(table)
                .set_key(Some(key))
                .update_expression(&update.expression)
                .set_condition_expression(expression)
                .set_expression_attribute_names(join(update.names(), names))
                .set_expression_attribute_values(join(update.values()?, values))
                .set_return_values_on_condition_check_failure(old);
            item.update(built(update.build())?)
        }
        "DeleteItem" => {
            let delete = Delete::builder()
                .table_name(table)
                .set_key(Some(key))
                .set_condition_expression(expression)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(old);
            item.delete(built(delete.build())?)
        }
        "ConditionCheck" => {
            let check = ConditionCheck::builder()
                .table_name(table)
                .set_key(Some(key))
                .set_condition_expression(expression)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .set_return_values_on_condition_check_failure(old);
            item.condition_check(built(check.build())?)
        }
        other => return Failure::request(format!("Unsupported operation '{other}' in a transaction.")),
    }
    .build())
}
