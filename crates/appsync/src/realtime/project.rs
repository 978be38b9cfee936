//! Makes the message for a subscriber from the answer to a mutation.
//!
//! The message has the fields that the subscriber selected, under its own names. A field that the mutation did not select is
//! `null`. A message that becomes larger than it may be is not finished: the hub is locked meanwhile.

use std::collections::HashMap;

use apollo_compiler::ast::Type;
use apollo_compiler::executable::Field;
use apollo_compiler::{Name, Node};
use serde_json::Value;

use super::plan::Plan;
use crate::api::Inner;
use crate::limits::{MAX_SELECTED_FIELDS, MAX_SUBSCRIPTION_PAYLOAD};
use crate::null::{self, Propagate, absorb};
use crate::resolve::unauthorized;
use crate::response::{self, Data, Entry, Error, Object, Response, Segment};
use crate::selection::Selector;

struct Projection<'a> {
    api: &'a Inner,
    plan: &'a Plan,
    selector: Selector<'a>,
    errors: Vec<Error>,
    /// The size of what was made so far, roughly.
    bytes: usize,
    /// Selections that were looked at so far.
    visited: usize,
}

/// The message for a plan. `None` if it is larger than a message may be.
pub(super) fn project(api: &Inner, plan: &Plan, data: &Data) -> Option<Response> {
    let Ok(operation) = plan.document.operations.get(plan.operation.as_deref()) else {
        let gone = Error::request("The subscription's document no longer has its operation.");
        return Some(Response::refused(vec![gone]));
    };
    let selector = Selector { schema: &api.schema, document: &plan.document, variables: &plan.variables };
    let mut projection = Projection { api, plan, selector, errors: Vec::new(), bytes: 0, visited: 0 };
    let root = operation.object_type();
    let mut entries = Vec::new();
    for (key, nodes) in selector.fields(root, [&operation.selection_set]) {
        let (Some(first), Some(definition)) =
            (nodes.first(), nodes.first().and_then(|field| api.schema.field(root, &field.name)))
        else {
            continue;
        };
        let mut path = vec![Segment::Key(key.to_string())];
        let value = projection.value(root, &definition.ty, &nodes, Some(data), &mut path).unwrap_or(Data::Null);
        entries.push(Entry { key: key.clone(), field: first.name.clone(), data: value });
    }
    let data = Data::Object(Object { type_name: root.clone(), entries });
    (!projection.is_too_large()).then_some(Response { data: Some(data), errors: projection.errors })
}

impl Projection<'_> {
    /// Whether nobody will see the message. A message of the largest size needs fewer selections than a subscription may have.
    fn is_too_large(&self) -> bool {
        self.bytes > MAX_SUBSCRIPTION_PAYLOAD || self.visited > MAX_SELECTED_FIELDS
    }

    fn fail(&mut self, error: Error) {
        self.bytes += error.message.len();
        self.errors.push(error);
    }

    fn value(
        &mut self,
        parent: &Name,
        ty: &Type,
        nodes: &[&Node<Field>],
        data: Option<&Data>,
        path: &mut Vec<Segment>,
    ) -> Result<Data, Propagate> {
        if self.is_too_large() {
            return Err(Propagate);
        }
        match (data, ty) {
            (None | Some(Data::Null), _) => self.null(parent, ty, path),
            (Some(Data::List(items)), Type::List(inner) | Type::NonNullList(inner)) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    path.push(Segment::Index(index));
                    let value = self.value(parent, inner, nodes, Some(item), path);
                    path.pop();
                    list.push(absorb(value, inner)?);
                }
                Ok(Data::List(list))
            }
            (Some(Data::Object(object)), _) => self.object(object, nodes, path).map(Data::Object),
            (Some(other), _) => {
                if let Data::Leaf(Value::String(text)) = other {
                    self.bytes += text.len();
                }
                Ok(other.clone())
            }
        }
    }

    fn object(
        &mut self,
        object: &Object,
        nodes: &[&Node<Field>],
        path: &mut Vec<Segment>,
    ) -> Result<Object, Propagate> {
        let sets = nodes.iter().map(|field| &field.selection_set);
        let (fields, visited) = self.selector.counted(&object.type_name, sets);
        self.visited += visited;
        // If the mutation selected a field several times, the first one is taken.
        let published: HashMap<&Name, &Data> =
            object.entries.iter().rev().map(|entry| (&entry.field, &entry.data)).collect();
        let mut entries = Vec::with_capacity(fields.len());
        for (key, nodes) in fields {
            let Some(first) = nodes.first() else { continue };
            self.bytes += key.len() + 4;
            let entry = |data| Entry { key: key.clone(), field: first.name.clone(), data };
            if first.name == "__typename" {
                entries.push(entry(Data::Leaf(Value::String(object.type_name.to_string()))));
                continue;
            }
            let Some(definition) = self.api.schema.field(&object.type_name, &first.name) else { continue };
            path.push(Segment::Key(key.to_string()));
            let value = if self.api.allows(self.plan.accepted.mode, &object.type_name, definition) {
                let found = published.get(&first.name).copied();
                self.value(&object.type_name, &definition.ty, &nodes, found, path)
            } else {
                let raised = unauthorized(&object.type_name, &first.name);
                self.fail(Error { path: path.clone(), ..Error::typed("Unauthorized", raised.message) });
                Err(Propagate)
            };
            path.pop();
            entries.push(entry(absorb(value, &definition.ty)?));
        }
        Ok(Object { type_name: object.type_name.clone(), entries })
    }

    fn null(&mut self, parent: &Name, ty: &Type, path: &[Segment]) -> Result<Data, Propagate> {
        if !ty.is_non_null() {
            return Ok(Data::Null);
        }
        let message = null::forbidden(ty, parent, &response::place(path));
        self.fail(Error { path: path.to_vec(), ..Error::request(message) });
        Err(Propagate)
    }
}
