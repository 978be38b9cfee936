//! Decides which answers a subscriber gets: by its arguments, or by a filter that its resolver set.
//!
//! Both look at what the mutation selected. A field that it did not select counts as `null`.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::limits::{MAX_FILTER_GROUPS, MAX_FILTER_VALUES, MAX_FILTERS, MAX_IN_VALUES};
use crate::response::{Data, Entry, Object};

/// Why a filter is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("the subscription filter cannot be read: {0}")]
    Shape(String),
    #[error("the subscription filter operator '{0}' does not exist")]
    Operator(String),
    #[error("the subscription filter has more than {0}")]
    TooMany(&'static str),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    filter_group: Vec<Group>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Group {
    filters: Vec<Test>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    field_name: String,
    operator: String,
    value: Value,
}

const OPERATORS: [&str; 13] = [
    "eq",
    "ne",
    "le",
    "lt",
    "ge",
    "gt",
    "contains",
    "notContains",
    "beginsWith",
    "in",
    "notIn",
    "between",
    "containsAny",
];

impl Filter {
    pub(crate) fn read(value: &Value) -> Result<Self, Error> {
        let filter = Self::deserialize(value).map_err(|error| Error::Shape(error.to_string()))?;
        if filter.filter_group.len() > MAX_FILTER_GROUPS {
            return Err(Error::TooMany("10 groups"));
        }
        for group in &filter.filter_group {
            if group.filters.len() > MAX_FILTERS {
                return Err(Error::TooMany("5 filters in a group"));
            }
            for test in &group.filters {
                if !OPERATORS.contains(&test.operator.as_str()) {
                    return Err(Error::Operator(test.operator.clone()));
                }
                let values = test.value.as_array().map_or(0, Vec::len);
                if values > MAX_IN_VALUES && ["in", "notIn"].contains(&test.operator.as_str()) {
                    return Err(Error::TooMany("5 values in an `in` or `notIn`"));
                }
                if values > MAX_FILTER_VALUES {
                    return Err(Error::TooMany("20 values in a list"));
                }
            }
        }
        Ok(filter)
    }

    /// Whether all tests of some group hold. A filter without groups matches everything.
    pub(crate) fn matches(&self, data: &Data) -> bool {
        self.filter_group.is_empty()
            || self.filter_group.iter().any(|group| group.filters.iter().all(|test| test.holds(data)))
    }
}

impl Test {
    fn holds(&self, data: &Data) -> bool {
        let Some(found) = path(data, &self.field_name) else { return self.operator == "ne" && !self.value.is_null() };
        let found = plain(found);
        let list = || self.value.as_array().map_or(&[][..], Vec::as_slice);
        let order = |other: &Value| compare(&found, other);
        match self.operator.as_str() {
            "eq" => same(&found, &self.value),
            "ne" => !same(&found, &self.value),
            "lt" => order(&self.value).is_some_and(std::cmp::Ordering::is_lt),
            "le" => order(&self.value).is_some_and(std::cmp::Ordering::is_le),
            "gt" => order(&self.value).is_some_and(std::cmp::Ordering::is_gt),
            "ge" => order(&self.value).is_some_and(std::cmp::Ordering::is_ge),
            "in" => list().iter().any(|value| same(&found, value)),
            "notIn" => !list().iter().any(|value| same(&found, value)),
            "contains" => contains(&found, &self.value),
            "notContains" => !contains(&found, &self.value),
            "containsAny" => list().iter().any(|value| contains(&found, value)),
            "beginsWith" => {
                matches!((found.as_str(), self.value.as_str()), (Some(text), Some(prefix)) if text.starts_with(prefix))
            }
            "between" => match list() {
                [low, high] => {
                    order(low).is_some_and(std::cmp::Ordering::is_ge)
                        && order(high).is_some_and(std::cmp::Ordering::is_le)
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// Whether every argument equals the field with its name.
pub(crate) fn arguments_match(arguments: &Map<String, Value>, data: &Data) -> bool {
    arguments.iter().all(|(name, wanted)| match path(data, name) {
        Some(found) => same(&plain(found), wanted),
        None => wanted.is_null(),
    })
}

/// The values of arguments as one text. If the arguments match an answer, then its [`values`] of the same names are this text.
pub(crate) fn wanted(arguments: &Map<String, Value>) -> String {
    joined(arguments.values().map(text))
}

/// The values that an answer has under these names, as one text.
pub(crate) fn values(names: &[String], data: &Data) -> String {
    joined(names.iter().map(|name| text(&path(data, name).map_or(Value::Null, plain))))
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    // In JSON, a line break is never a part of a value.
    texts.collect::<Vec<_>>().join("\n")
}

/// The same text for values that are the [`same`].
fn text(value: &Value) -> String {
    match value.as_f64() {
        // The sum makes zero of minus zero.
        Some(number) => (number + 0.0).to_string(),
        None => value.to_string(),
    }
}

/// The payload of an invalidation, as the data of an answer.
pub(crate) fn plain_object(value: &Value) -> Data {
    let name = |text: &str| apollo_compiler::Name::new(text).ok();
    match (value, name("Payload")) {
        (Value::Object(map), Some(type_name)) => Data::Object(Object {
            type_name,
            entries: map
                .iter()
                .filter_map(|(key, value)| {
                    Some(Entry { key: name(key)?, field: name(key)?, data: plain_object(value) })
                })
                .collect(),
        }),
        (Value::Null, _) => Data::Null,
        (other, _) => Data::Leaf(other.clone()),
    }
}

/// The field with a name. Dots separate levels.
fn path<'a>(data: &'a Data, name: &str) -> Option<&'a Data> {
    name.split('.').try_fold(data, |data, step| match data {
        Data::Object(object) => object.entries.iter().find(|entry| entry.field == step).map(|entry| &entry.data),
        _ => None,
    })
}

fn plain(data: &Data) -> Value {
    match data {
        Data::Null | Data::Object(_) => Value::Null,
        Data::Leaf(value) => value.clone(),
        Data::List(items) => Value::Array(items.iter().map(plain).collect()),
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn compare(a: &Value, b: &Value) -> Option<std::cmp::Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), wanted) => items.iter().any(|item| same(item, wanted)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filter(value: &Value) -> Filter {
        Filter::read(value).expect("reads")
    }

    fn holds(operator: &str, value: Value) -> bool {
        let data = plain_object(&json!({"severity": 7, "name": "incident", "tags": ["a", "b"], "owner": {"id": "x"}}));
        let field = match operator {
            "contains" | "notContains" | "containsAny" => "tags",
            "beginsWith" => "name",
            _ => "severity",
        };
        filter(&json!({"filterGroup": [{"filters": [{"fieldName": field, "operator": operator, "value": value}]}]}))
            .matches(&data)
    }

    #[test]
    fn each_operator_means_what_it_says() {
        for (operator, yes, no) in [
            ("eq", json!(7), json!(8)),
            ("ne", json!(8), json!(7)),
            ("lt", json!(8), json!(7)),
            ("le", json!(7), json!(6)),
            ("gt", json!(6), json!(7)),
            ("ge", json!(7), json!(8)),
            ("in", json!([1, 7]), json!([1])),
            ("notIn", json!([1]), json!([7])),
            ("between", json!([5, 9]), json!([8, 9])),
            ("contains", json!("a"), json!("z")),
            ("notContains", json!("z"), json!("a")),
            ("containsAny", json!(["z", "b"]), json!(["z"])),
            ("beginsWith", json!("inc"), json!("dent")),
        ] {
            assert!(holds(operator, yes), "{operator} holds");
            assert!(!holds(operator, no), "{operator} does not hold");
        }
    }

    #[test]
    fn groups_are_alternatives_and_their_filters_all_hold() {
        let both = filter(&json!({"filterGroup": [
            {"filters": [{"fieldName": "a", "operator": "eq", "value": 1}, {"fieldName": "b.c", "operator": "eq", "value": 2}]},
            {"filters": [{"fieldName": "a", "operator": "eq", "value": 9}]},
        ]}));
        assert!(both.matches(&plain_object(&json!({"a": 1, "b": {"c": 2}}))));
        assert!(!both.matches(&plain_object(&json!({"a": 1, "b": {"c": 3}}))));
        assert!(both.matches(&plain_object(&json!({"a": 9}))));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        assert!(matches!(Filter::read(&json!({"filterGroup": 1})), Err(Error::Shape(_))));
        let unknown = json!({"filterGroup": [{"filters": [{"fieldName": "a", "operator": "like", "value": 1}]}]});
        assert_eq!(Filter::read(&unknown).expect_err("unknown"), Error::Operator("like".to_owned()));
        let many = |operator: &str, count: usize| {
            let value: Vec<usize> = (0..count).collect();
            Filter::read(
                &json!({"filterGroup": [{"filters": [{"fieldName": "a", "operator": operator, "value": value}]}]}),
            )
        };
        assert!(many("in", 5).is_ok() && many("containsAny", 20).is_ok());
        for (operator, count) in [("in", 6), ("notIn", 6), ("containsAny", 21)] {
            assert!(matches!(many(operator, count), Err(Error::TooMany(_))), "{operator}");
        }
    }
}
