//! Reads a resolver's request, member by member, with errors that name the member.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::values::item;
use super::{Failure, Item};

/// An expression with its names and values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expression {
    pub(super) expression: String,
    #[serde(default)]
    expression_names: Option<HashMap<String, String>>,
    #[serde(default)]
    expression_values: Option<Map<String, Value>>,
    pub(super) equals_ignore: Option<Vec<String>>,
    pub(super) consistent_read: Option<bool>,
    conditional_check_failed_handler: Option<Handler>,
    pub(super) return_values_on_condition_check_failure: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
struct Handler {
    strategy: String,
}

impl Expression {
    /// The names, unless there are none: DynamoDB refuses an empty map.
    pub(super) fn names(&self) -> Option<HashMap<String, String>> {
        self.expression_names.clone().filter(|names| !names.is_empty())
    }

    /// The values, unless there are none.
    pub(super) fn values(&self) -> Result<Option<Item>, Failure> {
        self.expression_values.as_ref().filter(|values| !values.is_empty()).map(item).transpose()
    }

    pub(super) fn check_handler(&self) -> Result<(), Failure> {
        match &self.conditional_check_failed_handler {
            Some(handler) if handler.strategy != "Reject" => Failure::request(format!(
                "The conditionalCheckFailedHandler strategy '{}' is not supported.",
                handler.strategy
            )),
            _ => Ok(()),
        }
    }
}

/// Joins the names or values of two expressions of one call.
pub(super) fn join<T>(
    first: Option<HashMap<String, T>>,
    second: Option<HashMap<String, T>>,
) -> Option<HashMap<String, T>> {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            first.extend(second);
            Some(first)
        }
        (first, second) => first.or(second),
    }
}

/// What the SDK built of a request, or its complaint.
pub(super) fn built<T, E: std::fmt::Display>(built: Result<T, E>) -> Result<T, Failure> {
    built.map_err(|error| Failure::Request(error.to_string()))
}

/// A request, or an object in it.
pub(super) struct Request<'a> {
    map: &'a Map<String, Value>,
}

impl<'a> Request<'a> {
    pub(super) fn of(value: &'a Value, place: &str) -> Result<Self, Failure> {
        match value {
            Value::Object(map) => Ok(Self { map }),
            _ => Failure::request(format!("Value for field '{place}' is not an object.")),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn need(&self, name: &str) -> Result<&'a Value, Failure> {
        self.get(name).ok_or_else(|| Failure::Request(format!("Value for field '$[{name}]' not found.")))
    }

    pub(super) fn typed<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        self.get(name)
            .map(|value| T::deserialize(value))
            .transpose()
            .map_err(|error| Failure::Request(format!("Value for field '$[{name}]' is not valid: {error}")))
    }

    pub(super) fn text(&self, name: &str) -> Result<String, Failure> {
        match self.need(name)? {
            Value::String(text) => Ok(text.clone()),
            _ => Failure::request(format!("Value for field '$[{name}]' is not a string.")),
        }
    }

    pub(super) fn item(&self, name: &str) -> Result<Item, Failure> {
        match self.need(name)? {
            Value::Object(map) => item(map),
            _ => Failure::request(format!("Value for field '$[{name}]' is not an object.")),
        }
    }

    pub(super) fn optional_item(&self, name: &str) -> Result<Item, Failure> {
        if self.get(name).is_some() { self.item(name) } else { Ok(Item::new()) }
    }

    pub(super) fn expression(&self, name: &str) -> Result<Option<Expression>, Failure> {
        self.typed(name)
    }
}
