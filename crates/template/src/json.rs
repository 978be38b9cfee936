//! Members of JSON values, as CloudFormation reads them: a number or a boolean may also be text.

use serde_json::Value;

pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

pub(crate) fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(crate) fn name_of(id: &str, name: &Value) -> String {
    text_of(name).unwrap_or_else(|| id.to_owned())
}

/// As CloudFormation would write it into a string.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(crate) fn is_true(value: &Value) -> bool {
    value == true || value == "true"
}

pub(crate) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

pub(crate) fn small(value: &Value) -> Option<u32> {
    number(value).and_then(|number| u32::try_from(number).ok())
}

pub(crate) fn decimal(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}
