//! DynamoDB's typed values: read from a resolver's request, and turned into plain JSON for its result.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};

use super::{Failure, Item};
use crate::limits::MAX_INPUT_DEPTH;

pub(super) fn item(map: &Map<String, Value>) -> Result<Item, Failure> {
    map.iter().map(|(name, value)| Ok((name.clone(), attribute(value)?))).collect()
}

/// A typed value such as `{"S": "text"}`.
fn attribute(value: &Value) -> Result<AttributeValue, Failure> {
    nested(value, 0)
}

fn nested(value: &Value, depth: usize) -> Result<AttributeValue, Failure> {
    let wrong = || Failure::Request(format!("{value} is not a typed value of DynamoDB."));
    let object = value.as_object().filter(|map| map.len() == 1 && depth <= MAX_INPUT_DEPTH).ok_or_else(wrong)?;
    let (kind, content) = object.iter().next().ok_or_else(wrong)?;
    let number = |value: &Value| match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let bytes = |value: &Value| value.as_str().and_then(|text| STANDARD.decode(text).ok()).map(Blob::new);
    let list = || content.as_array().ok_or_else(wrong);
    Ok(match kind.as_str() {
        "S" => AttributeValue::S(content.as_str().ok_or_else(wrong)?.to_owned()),
        "N" => AttributeValue::N(number(content).ok_or_else(wrong)?),
        "B" => AttributeValue::B(bytes(content).ok_or_else(wrong)?),
        "BOOL" => AttributeValue::Bool(content.as_bool().ok_or_else(wrong)?),
        "NULL" => AttributeValue::Null(true),
        "SS" => AttributeValue::Ss(
            list()?
                .iter()
                .map(|value| value.as_str().map(ToOwned::to_owned).ok_or_else(wrong))
                .collect::<Result<_, _>>()?,
        ),
        "NS" => {
            AttributeValue::Ns(list()?.iter().map(|value| number(value).ok_or_else(wrong)).collect::<Result<_, _>>()?)
        }
        "BS" => {
            AttributeValue::Bs(list()?.iter().map(|value| bytes(value).ok_or_else(wrong)).collect::<Result<_, _>>()?)
        }
        "L" => AttributeValue::L(list()?.iter().map(|value| nested(value, depth + 1)).collect::<Result<_, _>>()?),
        "M" => AttributeValue::M(
            content
                .as_object()
                .ok_or_else(wrong)?
                .iter()
                .map(|(name, value)| Ok((name.clone(), nested(value, depth + 1)?)))
                .collect::<Result<_, Failure>>()?,
        ),
        _ => return Err(wrong()),
    })
}

pub(super) fn item_to_json(item: &Item) -> Value {
    Value::Object(item.iter().map(|(name, value)| (name.clone(), value_to_json(value))).collect())
}

/// A value as resolvers see it: numbers are JSON numbers, sets are lists, bytes are base64.
fn value_to_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::String(text.clone()),
        AttributeValue::N(text) => number(text),
        AttributeValue::Bool(flag) => Value::Bool(*flag),
        AttributeValue::B(bytes) => Value::String(STANDARD.encode(bytes.as_ref())),
        AttributeValue::Ss(list) => json!(list),
        AttributeValue::Ns(list) => Value::Array(list.iter().map(|text| number(text)).collect()),
        AttributeValue::Bs(list) => {
            Value::Array(list.iter().map(|bytes| Value::String(STANDARD.encode(bytes.as_ref()))).collect())
        }
        AttributeValue::L(list) => Value::Array(list.iter().map(value_to_json).collect()),
        AttributeValue::M(map) => item_to_json(map),
        _ => Value::Null,
    }
}

/// The typed form, for paging tokens.
pub(super) fn typed_json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::N(text) => json!({"N": text}),
        AttributeValue::B(bytes) => json!({"B": STANDARD.encode(bytes.as_ref())}),
        // Keys have only these three types.
        other => json!({"S": other.as_s().map_or("", String::as_str)}),
    }
}

fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return Value::from(whole);
    }
    text.parse::<f64>().ok().and_then(Number::from_f64).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// Whether two items are equal, except for the attributes `ignored`. Neither the order of a set nor the spelling of a number matters.
pub(super) fn same_item(a: &Item, b: &Item, ignored: &[String]) -> bool {
    let compared = |item: &Item| item.keys().filter(|name| !ignored.contains(name)).count();
    compared(a) == compared(b)
        && a.iter()
            .filter(|(name, _)| !ignored.contains(name))
            .all(|(name, value)| b.get(name).is_some_and(|other| same(value, other)))
}

fn same(a: &AttributeValue, b: &AttributeValue) -> bool {
    use AttributeValue as V;
    let same_number =
        |a: &str, b: &str| a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b);
    match (a, b) {
        (V::N(a), V::N(b)) => same_number(a, b),
        (V::Ss(a), V::Ss(b)) => a.len() == b.len() && a.iter().all(|value| b.contains(value)),
        (V::Ns(a), V::Ns(b)) => {
            a.len() == b.len() && a.iter().all(|value| b.iter().any(|other| same_number(value, other)))
        }
        (V::Bs(a), V::Bs(b)) => a.len() == b.len() && a.iter().all(|value| b.contains(value)),
        (V::L(a), V::L(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (V::M(a), V::M(b)) => same_item(a, b, &[]),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_are_equal_however_they_are_written() {
        let of = |value: Value| item(value.as_object().expect("an object")).expect("typed");
        let a = of(
            json!({"n": {"N": "1.0"}, "s": {"SS": ["a", "b"]}, "m": {"M": {"l": {"L": [{"NS": [1, 2]}]}}}, "v": {"N": 1}}),
        );
        let b = of(
            json!({"n": {"N": 1}, "s": {"SS": ["b", "a"]}, "m": {"M": {"l": {"L": [{"NS": [2, 1]}]}}}, "v": {"N": 2}}),
        );
        assert!(same_item(&a, &b, &["v".to_owned()]));
        assert!(!same_item(&a, &b, &[]));
        assert!(!same_item(&a, &of(json!({"n": {"N": 1}})), &["v".to_owned()]));
    }

    #[test]
    fn what_is_no_typed_value_is_refused() {
        for value in [
            json!("a"),
            json!({}),
            json!({"S": 1}),
            json!({"S": "a", "N": 1}),
            json!({"X": 1}),
            json!({"B": "!"}),
            json!({"L": [1]}),
        ] {
            assert!(attribute(&value).is_err(), "{value}");
        }
    }
}
