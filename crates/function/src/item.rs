//! Attributes of DynamoDB items, written and read by name.
//!
//! Reading returns `None` both for an attribute that is absent and for one of another type. An application that must tell
//! the two apart does so in its own `table` module.

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;

use aws_sdk_dynamodb::types::AttributeValue;

/// An item, a part of one, or the key of one.
pub type Item = HashMap<String, AttributeValue>;

/// A string attribute.
pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A number attribute.
pub fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Reads a string attribute.
pub fn get_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// Reads a number attribute; `None` also if it does not fit into a `T`.
pub fn get_number<T: FromStr>(item: &Item, name: &str) -> Option<T> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// Reads a boolean attribute.
pub fn get_bool(item: &Item, name: &str) -> Option<bool> {
    item.get(name)?.as_bool().ok().copied()
}

/// Reads a map attribute.
pub fn get_map<'a>(item: &'a Item, name: &str) -> Option<&'a Item> {
    item.get(name)?.as_m().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_of_another_type_counts_as_absent() {
        let item = Item::from([("name".to_owned(), text("a")), ("count".to_owned(), number(300))]);
        assert_eq!(get_text(&item, "name"), Some("a"));
        assert_eq!(get_text(&item, "count"), None);
        assert_eq!(get_number::<u64>(&item, "count"), Some(300));
        assert_eq!(get_number::<u8>(&item, "count"), None);
        assert_eq!(get_bool(&item, "name"), None);
        assert_eq!(get_map(&item, "absent"), None);
    }
}
