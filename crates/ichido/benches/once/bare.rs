//! The requests of `run`, written by hand with the SDK: what a call costs without the library.
//!
//! They have the same expressions and the same values, so the SDK, the network and the store do the same work for both.
//! They do nothing else: no lease is checked, no lost answer recognised, nothing remembered.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};

use crate::Any;

const CLAIM: &str = "REMOVE ichido_outcome, ichido_outcome_kept, ichido_reason, ichido_uncertain, ichido_digest_key, \
                     ichido_digests SET ichido_format = :format, ichido_state = :claimed, ichido_updated_at = :now, \
                     #ttl = :ttl, ichido_lease_until = :lease_until, ichido_owner = :owner, \
                     ichido_fence = if_not_exists(ichido_fence, :zero) + :one";
const CLAIMABLE: &str = "attribute_not_exists(#pk) OR #ttl <= :now_secs OR (ichido_format <= :format AND \
                         (ichido_state = :released OR (ichido_state = :claimed AND ichido_lease_until <= :now)))";
const COMPLETE: &str = "REMOVE ichido_lease_until, ichido_outcome_kept, ichido_reason, ichido_uncertain SET \
                        ichido_format = :format, ichido_state = :state, ichido_updated_at = :now, #ttl = :ttl, \
                        ichido_outcome = :outcome";
const HELD: &str = "ichido_owner = :owner AND ichido_fence = :fence AND ichido_state = :claimed";

/// Two calls for a new key: claim it, then complete it. One call for a duplicate: the refused claim brings the outcome.
pub(crate) async fn run(client: &Client, table: &str, key: &str, owner: &str) -> Result<serde_json::Value, Any> {
    if let Some(outcome) = claim(client, table, key, owner).await? {
        return Ok(serde_json::from_str(&outcome)?);
    }
    let value = serde_json::json!({"ok": true});
    complete(client, table, key, owner, serde_json::to_string(&value)?).await?;
    Ok(value)
}

/// The outcome, if the key is completed.
async fn claim(client: &Client, table: &str, key: &str, owner: &str) -> Result<Option<String>, Any> {
    let now = now();
    let values = HashMap::from([
        (":format".to_owned(), number(1)),
        (":claimed".to_owned(), text("claimed")),
        (":released".to_owned(), text("released")),
        (":now".to_owned(), number(now)),
        (":now_secs".to_owned(), number(now / 1000)),
        (":ttl".to_owned(), number(now / 1000 + 86_400)),
        (":lease_until".to_owned(), number(now + 62_000)),
        (":owner".to_owned(), text(owner)),
        (":zero".to_owned(), number(0)),
        (":one".to_owned(), number(1)),
    ]);
    let claimed = client
        .update_item()
        .table_name(table)
        .set_key(Some(HashMap::from([("id".to_owned(), text(key))])))
        .update_expression(CLAIM)
        .condition_expression(CLAIMABLE)
        .set_expression_attribute_names(Some(HashMap::from([
            ("#pk".to_owned(), "id".to_owned()),
            ("#ttl".to_owned(), "ttl".to_owned()),
        ])))
        .set_expression_attribute_values(Some(values))
        .return_values(ReturnValue::AllOld)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await;
    match claimed {
        Ok(_) => Ok(None),
        Err(error) => {
            let outcome = match error.as_service_error() {
                Some(aws_sdk_dynamodb::operation::update_item::UpdateItemError::ConditionalCheckFailedException(
                    refused,
                )) => refused.item().and_then(|item| item.get("ichido_outcome")),
                _ => None,
            };
            match outcome {
                Some(AttributeValue::S(outcome)) => Ok(Some(outcome.clone())),
                _ => Err(error.into()),
            }
        }
    }
}

async fn complete(client: &Client, table: &str, key: &str, owner: &str, outcome: String) -> Result<(), Any> {
    let now = now();
    let values = HashMap::from([
        (":format".to_owned(), number(1)),
        (":state".to_owned(), text("completed")),
        (":now".to_owned(), number(now)),
        (":ttl".to_owned(), number(now / 1000 + 86_400)),
        (":outcome".to_owned(), AttributeValue::S(outcome)),
        (":owner".to_owned(), text(owner)),
        (":fence".to_owned(), number(1)),
        (":claimed".to_owned(), text("claimed")),
    ]);
    client
        .update_item()
        .table_name(table)
        .set_key(Some(HashMap::from([("id".to_owned(), text(key))])))
        .update_expression(COMPLETE)
        .condition_expression(HELD)
        .set_expression_attribute_names(Some(HashMap::from([("#ttl".to_owned(), "ttl".to_owned())])))
        .set_expression_attribute_values(Some(values))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await?;
    Ok(())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
