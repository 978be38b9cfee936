//! Checks and converts the values that come in: variables, and the literals in a document.
//!
//! `null` and absent are different, as the GraphQL specification says. An argument that was not given is not in `ctx.args`. An
//! argument that was given as `null` is in it as `null`.

use apollo_compiler::Node;
use apollo_compiler::ast::{Type, Value as Literal};
use apollo_compiler::executable::{Field, Operation};
use apollo_compiler::schema::{ExtendedType, FieldDefinition};
use serde_json::{Map, Value};

use crate::limits::MAX_INPUT_DEPTH;
use crate::scalars;
use crate::schema::Schema;

/// A value that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Error {
    pub(crate) message: String,
}

fn refuse<T>(message: String) -> Result<T, Error> {
    Err(Error { message })
}

/// The variables of an operation, converted to their types. Variables that it does not declare are ignored.
pub(crate) fn variables(
    schema: &Schema,
    operation: &Operation,
    given: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let mut out = Map::new();
    for definition in &operation.variables {
        let name = definition.name.as_str();
        match given.get(name) {
            Some(value) => {
                let value = coerce(schema, &definition.ty, value, 0)
                    .map_err(|error| Error { message: format!("Variable '{name}' has an invalid value: {error}") })?;
                out.insert(name.to_owned(), value);
            }
            None => match &definition.default_value {
                Some(default) => {
                    out.insert(
                        name.to_owned(),
                        literal(schema, &definition.ty, default, &Map::new(), 0)?.unwrap_or(Value::Null),
                    );
                }
                None if definition.ty.is_non_null() => {
                    return refuse(format!(
                        "Variable '{name}' has coerced Null value for NonNull type '{}'",
                        definition.ty
                    ));
                }
                None => {}
            },
        }
    }
    Ok(out)
}

/// The arguments of a field.
pub(crate) fn arguments(
    schema: &Schema,
    definition: &FieldDefinition,
    field: &Field,
    variables: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let mut out = Map::new();
    for argument in &definition.arguments {
        let name = argument.name.as_str();
        let given = field.arguments.iter().find(|given| given.name == argument.name);
        let value = match given {
            Some(given) => literal(schema, &argument.ty, &given.value, variables, 0)
                .map_err(|error| Error { message: format!("Argument '{name}' has an invalid value: {error}") })?,
            None => None,
        };
        match (value, &argument.default_value) {
            (Some(value), _) => {
                if value.is_null() && argument.ty.is_non_null() {
                    return refuse(format!("Argument '{name}' is null, but its type '{}' forbids that", argument.ty));
                }
                out.insert(name.to_owned(), value);
            }
            (None, Some(default)) => {
                let value = literal(schema, &argument.ty, default, &Map::new(), 0)?;
                out.insert(name.to_owned(), value.unwrap_or(Value::Null));
            }
            (None, None) if argument.ty.is_non_null() => return refuse(format!("Argument '{name}' is missing")),
            (None, None) => {}
        }
    }
    Ok(out)
}

/// Converts a JSON value to a type.
pub(crate) fn coerce(schema: &Schema, ty: &Type, value: &Value, depth: usize) -> Result<Value, Error> {
    if depth > MAX_INPUT_DEPTH {
        return refuse(format!("nested deeper than {MAX_INPUT_DEPTH}"));
    }
    if value.is_null() {
        return if ty.is_non_null() { refuse(format!("null where '{ty}' is expected")) } else { Ok(Value::Null) };
    }
    let name = match ty {
        Type::List(inner) | Type::NonNullList(inner) => {
            return match value {
                Value::Array(items) => items
                    .iter()
                    .map(|item| coerce(schema, inner, item, depth + 1))
                    .collect::<Result<_, _>>()
                    .map(Value::Array),
                // A single value stands for a list with one value.
                one => Ok(Value::Array(vec![coerce(schema, inner, one, depth + 1)?])),
            };
        }
        Type::Named(name) | Type::NonNullNamed(name) => name,
    };
    match schema.valid.types.get(name) {
        Some(ExtendedType::Enum(definition)) => match value.as_str() {
            Some(text) if definition.values.contains_key(text) => Ok(value.clone()),
            _ => refuse(format!("{value} is not a '{name}'")),
        },
        Some(ExtendedType::InputObject(definition)) => {
            let Value::Object(object) = value else { return refuse(format!("{value} is not a '{name}'")) };
            if let Some(unknown) = object.keys().find(|key| !definition.fields.contains_key(key.as_str())) {
                return refuse(format!("'{name}' has no field '{unknown}'"));
            }
            let mut out = Map::new();
            for (field, field_definition) in &definition.fields {
                match object.get(field.as_str()) {
                    Some(value) => {
                        let value = coerce(schema, &field_definition.ty, value, depth + 1)
                            .map_err(|error| Error { message: format!("{field}: {error}") })?;
                        out.insert(field.to_string(), value);
                    }
                    None => missing(
                        schema,
                        field.as_str(),
                        &field_definition.ty,
                        field_definition.default_value.as_ref(),
                        &mut out,
                    )?,
                }
            }
            Ok(Value::Object(out))
        }
        Some(ExtendedType::Scalar(_)) => match scalars::from_input(name, value) {
            Some(value) => Ok(value),
            None => refuse(format!("{value} is not a '{name}'")),
        },
        _ => refuse(format!("'{name}' is not a type for input")),
    }
}

fn missing(
    schema: &Schema,
    name: &str,
    ty: &Type,
    default: Option<&Node<Literal>>,
    out: &mut Map<String, Value>,
) -> Result<(), Error> {
    match default {
        Some(default) => {
            out.insert(name.to_owned(), literal(schema, ty, default, &Map::new(), 0)?.unwrap_or(Value::Null));
            Ok(())
        }
        None if ty.is_non_null() => refuse(format!("{name} is missing")),
        None => Ok(()),
    }
}

/// Converts a literal to a type. Returns `None` for a variable that was not given.
fn literal(
    schema: &Schema,
    ty: &Type,
    value: &Literal,
    variables: &Map<String, Value>,
    depth: usize,
) -> Result<Option<Value>, Error> {
    if depth > MAX_INPUT_DEPTH {
        return refuse(format!("nested deeper than {MAX_INPUT_DEPTH}"));
    }
    if let Literal::Variable(name) = value {
        // It is already converted, to a type that validation has found to fit.
        return Ok(variables.get(name.as_str()).cloned());
    }
    if value.is_null() {
        return if ty.is_non_null() { refuse(format!("null where '{ty}' is expected")) } else { Ok(Some(Value::Null)) };
    }
    let name = match ty {
        Type::List(inner) | Type::NonNullList(inner) => {
            let items = match value {
                Literal::List(items) => items
                    .iter()
                    .map(|item| Ok(literal(schema, inner, item, variables, depth + 1)?.unwrap_or(Value::Null)))
                    .collect::<Result<_, _>>()?,
                one => vec![literal(schema, inner, one, variables, depth + 1)?.unwrap_or(Value::Null)],
            };
            return Ok(Some(Value::Array(items)));
        }
        Type::Named(name) | Type::NonNullNamed(name) => name,
    };
    match (schema.valid.types.get(name), value) {
        (Some(ExtendedType::InputObject(definition)), Literal::Object(given)) => {
            let mut out = Map::new();
            for (field, field_definition) in &definition.fields {
                let given = given.iter().find(|(name, _)| name == field).map(|(_, value)| value);
                let value = match given {
                    Some(given) => literal(schema, &field_definition.ty, given, variables, depth + 1)
                        .map_err(|error| Error { message: format!("{field}: {error}") })?,
                    None => None,
                };
                match value {
                    Some(value) => {
                        if value.is_null() && field_definition.ty.is_non_null() {
                            return refuse(format!("{field}: null where '{}' is expected", field_definition.ty));
                        }
                        out.insert(field.to_string(), value);
                    }
                    None => missing(
                        schema,
                        field.as_str(),
                        &field_definition.ty,
                        field_definition.default_value.as_ref(),
                        &mut out,
                    )?,
                }
            }
            Ok(Some(Value::Object(out)))
        }
        (Some(ExtendedType::Enum(_)), Literal::Enum(text)) => Ok(Some(Value::String(text.to_string()))),
        (Some(ExtendedType::Scalar(_)), value) => {
            let json = plain(value, variables, depth)?;
            match scalars::from_input(name, &json) {
                Some(value) => Ok(Some(value)),
                None => refuse(format!("{json} is not a '{name}'")),
            }
        }
        _ => refuse(format!("{value} is not a '{name}'")),
    }
}

/// Converts a literal to JSON, for scalars.
fn plain(value: &Literal, variables: &Map<String, Value>, depth: usize) -> Result<Value, Error> {
    if depth > MAX_INPUT_DEPTH {
        return refuse(format!("nested deeper than {MAX_INPUT_DEPTH}"));
    }
    let number = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|_| Error { message: format!("the number {text} is too large") })
    };
    Ok(match value {
        Literal::Null => Value::Null,
        Literal::Variable(name) => variables.get(name.as_str()).cloned().unwrap_or(Value::Null),
        Literal::Enum(name) => Value::String(name.to_string()),
        Literal::String(text) => Value::String(text.clone()),
        Literal::Boolean(flag) => Value::Bool(*flag),
        Literal::Int(text) => number(text.as_str())?,
        Literal::Float(text) => number(text.as_str())?,
        Literal::List(items) => {
            Value::Array(items.iter().map(|item| plain(item, variables, depth + 1)).collect::<Result<_, _>>()?)
        }
        Literal::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, value)| Ok((name.to_string(), plain(value, variables, depth + 1)?)))
                .collect::<Result<_, Error>>()?,
        ),
    })
}
