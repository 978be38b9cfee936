//! Reading and writing attributes by hand: items here are looser than a type, and a reader should see their names.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

pub(super) type Item = HashMap<String, AttributeValue>;

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(super) fn get_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub(super) fn get_number(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

pub(super) fn get_map<'a>(item: &'a Item, name: &str) -> Option<&'a Item> {
    item.get(name)?.as_m().ok()
}
