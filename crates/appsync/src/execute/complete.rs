//! Checks a value against the type of its field, and resolves the fields below it.

use apollo_compiler::ast::Type;
use apollo_compiler::executable::Field;
use apollo_compiler::schema::ExtendedType;
use apollo_compiler::{Name, Node};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use serde_json::Value;

use super::Execution;
use super::path::{Path, Place};
use crate::null::{self, Propagate, absorb};
use crate::response::Data;
use crate::scalars;

impl<'a> Execution<'a> {
    /// Checks a value against its type.
    pub(super) fn complete<'s>(
        &'s self,
        parent: &'s Name,
        ty: &'s Type,
        nodes: &'s [&'a Node<Field>],
        value: Value,
        path: &'s Path<'s>,
    ) -> BoxFuture<'s, Result<Data, Propagate>> {
        async move {
            if self.api.is_leaf(ty.inner_named_type()) {
                return self.leaf(parent, ty, value, path);
            }
            if value.is_null() {
                return self.null(parent, ty, path);
            }
            let mismatch = |expected: &str| {
                let message =
                    format!("Can't resolve value ({}) : type mismatch error, expected type {expected}", path.text());
                self.raise_plain(message, path);
                Err(Propagate)
            };
            match ty {
                Type::List(inner) | Type::NonNullList(inner) => {
                    let Value::Array(items) = value else { return mismatch("LIST") };
                    let paths: Vec<Path<'_>> =
                        (0..items.len()).map(|index| Path { above: Some(path), place: Place::Index(index) }).collect();
                    let futures = items
                        .into_iter()
                        .zip(&paths)
                        .map(|(item, path)| self.complete(parent, inner, nodes, item, path));
                    let mut list = Vec::new();
                    for data in join_all(futures).await {
                        self.count(1);
                        list.push(absorb(data, inner)?);
                    }
                    Ok(Data::List(list))
                }
                Type::Named(name) | Type::NonNullNamed(name) => {
                    if !value.is_object() {
                        return mismatch("OBJECT");
                    }
                    let type_name = match self.api.schema.valid.types.get(name) {
                        Some(ExtendedType::Object(_)) => name,
                        _ => match self.concrete(name, &value) {
                            Some(found) => found,
                            None => {
                                let message = format!(
                                    "Can't resolve value ({}) : Abstract type '{name}' needs a valid __typename",
                                    path.text()
                                );
                                self.raise_plain(message, path);
                                return Err(Propagate);
                            }
                        },
                    };
                    let sets: Vec<_> = nodes.iter().map(|field| &field.selection_set).collect();
                    self.object(type_name, &sets, &value, Some(path), false).await.map(Data::Object)
                }
            }
        }
        .boxed()
    }

    /// The object type that a value of an interface or a union names in `__typename`.
    fn concrete(&self, abstract_type: &Name, value: &Value) -> Option<&'a Name> {
        let name = value.get("__typename")?.as_str()?;
        let (found, kind) = self.api.schema.valid.types.get_key_value(name)?;
        (kind.is_object() && self.api.schema.valid.is_subtype(abstract_type, found)).then_some(found)
    }

    /// Checks a leaf or a list of leaves.
    pub(super) fn leaf(&self, parent: &Name, ty: &Type, value: Value, path: &Path<'_>) -> Result<Data, Propagate> {
        if value.is_null() {
            return self.null(parent, ty, path);
        }
        match ty {
            Type::List(inner) | Type::NonNullList(inner) => {
                let Value::Array(items) = value else {
                    self.raise_plain(
                        format!("Can't resolve value ({}) : type mismatch error, expected type LIST", path.text()),
                        path,
                    );
                    return Err(Propagate);
                };
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    if self.is_too_large() {
                        return Err(Propagate);
                    }
                    let here = Path { above: Some(path), place: Place::Index(index) };
                    list.push(absorb(self.leaf(parent, inner, item, &here), inner)?);
                }
                Ok(Data::List(list))
            }
            Type::Named(name) | Type::NonNullNamed(name) => {
                let fits = match self.api.schema.valid.types.get(name) {
                    Some(ExtendedType::Enum(definition)) => {
                        value.as_str().is_some_and(|text| definition.values.contains_key(text)).then_some(value)
                    }
                    _ => scalars::to_output(name, value),
                };
                let Some(value) = fits else {
                    let message =
                        format!("Can't serialize value ({}) : the value is not a valid '{name}'", path.text());
                    self.raise_plain(message, path);
                    return Err(Propagate);
                };
                self.count(match &value {
                    Value::String(text) => text.len() + 2,
                    Value::Number(_) | Value::Bool(_) | Value::Null => 4,
                    other => other.to_string().len(),
                });
                Ok(Data::Leaf(value))
            }
        }
    }

    fn null(&self, parent: &Name, ty: &Type, path: &Path<'_>) -> Result<Data, Propagate> {
        if !ty.is_non_null() {
            return Ok(Data::Null);
        }
        self.raise_plain(null::forbidden(ty, parent, &path.text()), path);
        Err(Propagate)
    }
}
