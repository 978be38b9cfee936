//! As much of JSON Schema as the description (`src/api/openapi.json`) uses.

use serde_json::Value;

/// What is wrong with a value, if anything.
pub fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolve(document, schema);
    let fail = |what: &str| Err(format!("{what}: {value} against {schema}"));
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(document, part, value)?;
    }
    if let Some(choices) = schema["oneOf"].as_array()
        && choices.iter().filter(|choice| check(document, choice, value).is_ok()).count() != 1
    {
        return fail("oneOf");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !kinds.is_empty() && !kinds.contains(&kind) {
        return fail("type");
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return fail("enum");
    }
    if let Value::String(text) = value {
        let length = text.chars().count() as u64;
        if schema["maxLength"].as_u64().is_some_and(|most| length > most) {
            return fail("maxLength");
        }
        if schema["minLength"].as_u64().is_some_and(|least| length < least) {
            return fail("minLength");
        }
    }
    if let Value::Array(items) = value {
        if schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most) {
            return fail("maxItems");
        }
        for item in items {
            check(document, &schema["items"], item)?;
        }
    }
    if let Value::Object(members) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return fail(&format!("{name} is missing"));
            }
        }
        for (name, member) in members {
            match schema["properties"].get(name) {
                Some(property) => check(document, property, member)?,
                None if schema["additionalProperties"] == Value::Bool(false) => {
                    return fail(&format!("{name} is too much"));
                }
                None => {}
            }
        }
    }
    Ok(())
}

/// Follows a `$ref`.
pub fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => resolve(document, document.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"))),
        None => schema,
    }
}
