//! Query and Scan, page by page.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::Select;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::request::{Expression, Request, join};
use super::values::{self, item, item_to_json};
use super::{Failure, Item};

pub(super) async fn query(client: &Client, table: &str, request: &Request<'_>) -> Result<Value, Failure> {
    let query = request
        .expression("query")?
        .ok_or_else(|| Failure::Request("Value for field '$[query]' not found.".to_owned()))?;
    let page = Page::read(request)?;
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
        .set_scan_index_forward(request.typed("scanIndexForward")?)
        .set_select(page.select)
        .send()
        .await
        .map_err(|error| Failure::sdk(&error))?;
    Ok(paged(answer.items.as_deref(), answer.last_evaluated_key.as_ref(), answer.scanned_count))
}

pub(super) async fn scan(client: &Client, table: &str, request: &Request<'_>) -> Result<Value, Failure> {
    let page = Page::read(request)?;
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
        .set_total_segments(request.typed("totalSegments")?)
        .set_segment(request.typed("segment")?)
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
    fn read(request: &Request<'_>) -> Result<Self, Failure> {
        let select = match request.typed::<String>("select")?.as_deref() {
            None => None,
            Some("ALL_ATTRIBUTES") => Some(Select::AllAttributes),
            Some("ALL_PROJECTED_ATTRIBUTES") => Some(Select::AllProjectedAttributes),
            Some("SPECIFIC_ATTRIBUTES") => Some(Select::SpecificAttributes),
            Some(other) => return Failure::request(format!("Unsupported value '{other}' for field '$[select]'.")),
        };
        Ok(Self {
            index: request.typed("index")?,
            limit: request.typed("limit")?,
            consistent_read: request.typed("consistentRead")?,
            start: request.typed::<String>("nextToken")?.map(|token| read_token(&token)).transpose()?,
            filter: request.expression("filter")?.filter(|filter: &Expression| !filter.expression.is_empty()),
            projection: request.expression("projection")?,
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

/// A key as a token. Clients must not look into it.
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
    use aws_sdk_dynamodb::types::AttributeValue;

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
