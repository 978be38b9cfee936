//! Records what failed, in AppSync's form.

use apollo_compiler::Node;
use apollo_compiler::executable::Field;
use serde_json::{Map, Value};

use super::Execution;
use super::path::Path;
use crate::engine::Raised;
use crate::lock::lock;
use crate::response::{Error, RaisedParts, locate};

impl<'a> Execution<'a> {
    pub(super) fn push(&self, error: Error) {
        lock(&self.errors).push(error);
    }

    /// Records an error of GraphQL itself: it has a path but no type and, as on AppSync, no location.
    pub(super) fn raise_plain(&self, message: String, path: &Path<'_>) {
        self.push(Error { message, path: path.segments(), locations: Vec::new(), raised: None });
    }

    pub(super) fn raise_typed(&self, error_type: &str, message: String, path: &Path<'_>, field: &Node<Field>) {
        let raised =
            Raised { message, error_type: Some(error_type.to_owned()), data: Value::Null, error_info: Value::Null };
        self.raise(raised, path, field, &[]);
    }

    pub(super) fn raise(&self, raised: Raised, path: &Path<'_>, field: &Node<Field>, nodes: &[&'a Node<Field>]) {
        let data = self.filtered(&raised.data, nodes);
        self.push(Error {
            message: raised.message,
            path: path.segments(),
            locations: locate(field.location(), &self.document.sources),
            raised: Some(RaisedParts { error_type: raised.error_type, data, error_info: raised.error_info }),
        });
    }

    /// The part of an error's data that the selection asks for.
    fn filtered(&self, data: &Value, nodes: &[&Node<Field>]) -> Value {
        match data {
            Value::Object(map) => {
                let mut out = Map::new();
                for node in nodes {
                    let type_name = node.selection_set.ty.clone();
                    for (key, inner) in self.selector().fields(&type_name, [&node.selection_set]) {
                        let Some(first) = inner.first() else { continue };
                        if let Some(value) = map.get(first.name.as_str()) {
                            let value = if first.selection_set.is_empty() {
                                value.clone()
                            } else {
                                self.filtered(value, &inner)
                            };
                            out.insert(key.to_string(), value);
                        }
                    }
                }
                Value::Object(out)
            }
            Value::Array(items) => Value::Array(items.iter().map(|item| self.filtered(item, nodes)).collect()),
            other => other.clone(),
        }
    }
}
