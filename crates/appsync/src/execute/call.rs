//! Calls the resolver of a field.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use apollo_compiler::executable::Field;
use apollo_compiler::schema::FieldDefinition;
use apollo_compiler::{Name, Node};
use serde_json::{Value, json};

use super::Execution;
use super::path::Path;
use crate::engine::Invalidation;
use crate::input;
use crate::limits::MAX_INVALIDATIONS;
use crate::lock::lock;
use crate::resolve::{self, Call, Resolved, Resolver};

/// After this many resolver calls the request pauses, so that other tasks get their turn.
const CALLS_PER_TURN: usize = 32;

impl<'a> Execution<'a> {
    /// Calls a resolver. Returns `None` if it failed; its error is then recorded.
    pub(super) async fn invoke(
        &self,
        type_name: &Name,
        definition: &FieldDefinition,
        resolver: &Resolver,
        nodes: &[&'a Node<Field>],
        source: &Value,
        path: &Path<'_>,
    ) -> Option<Value> {
        let first = nodes.first().copied()?;
        // Held for the call, not for the fields below it: they need permits of their own.
        let permit = self.permits.acquire().await.ok()?;
        if self.is_too_large() {
            return None;
        }
        let calls = self.resolvers.fetch_add(1, Ordering::Relaxed) + 1;
        if calls > self.api.limits.resolvers {
            // One error is enough: the other calls that are left out would all have the same one.
            if calls == self.api.limits.resolvers + 1 {
                let message = self.too_many_resolvers().message;
                self.raise_typed("ResolverCountLimitReached", message, path, first);
            }
            return None;
        }
        if calls.is_multiple_of(CALLS_PER_TURN) {
            tokio::task::yield_now().await;
        }
        let arguments = match input::arguments(&self.api.schema, definition, first, self.variables) {
            Ok(arguments) => arguments,
            Err(error) => {
                self.raise_typed("ValidationError", error.message, path, first);
                return None;
            }
        };
        let resolved = self.call(type_name, resolver, nodes, &Value::Object(arguments), source).await;
        drop(permit);
        let Resolved { value, errors, invalidations, failed, .. } = resolved;
        for raised in errors {
            self.raise(raised, path, first, nodes);
        }
        self.invalidate(invalidations, path, first);
        (!failed).then_some(value)
    }

    /// Collects the subscriptions to end. Beyond [`MAX_INVALIDATIONS`] different ones the request gets an error, and the others are left
    /// out.
    fn invalidate(&self, invalidations: Vec<Invalidation>, path: &Path<'_>, field: &Node<Field>) {
        let mut all = lock(&self.invalidations);
        for invalidation in invalidations {
            if all.contains(&invalidation) {
                continue;
            }
            if all.len() >= MAX_INVALIDATIONS {
                drop(all);
                let message = format!("The request invalidates subscriptions in more than {MAX_INVALIDATIONS} ways.");
                self.raise_typed("TooManyInvalidations", message, path, field);
                return;
            }
            all.push(invalidation);
        }
    }

    /// Calls a resolver with a context for this field.
    pub(crate) async fn call(
        &self,
        type_name: &Name,
        resolver: &Resolver,
        nodes: &[&'a Node<Field>],
        arguments: &Value,
        source: &Value,
    ) -> Resolved {
        let name = nodes.first().map_or("", |field| field.name.as_str());
        let context = format!(
            "{},\"arguments\":{arguments},\"source\":{source},\"info\":{{\"fieldName\":\"{name}\",\"parentTypeName\":\"{type_name}\",\"variables\":{},{}}}",
            self.shared_context,
            self.variables_json,
            self.described(nodes),
        );
        let call = Call { api: self.api, accepted: self.accepted, type_name, field: name, context, given: &self.given };
        resolve::resolve(&call, resolver).await
    }

    /// The members `selectionSetList` and `selectionSetGraphQL` of `ctx.info`. A field below a list is called once per element, so they
    /// are made once per field of the document.
    fn described(&self, nodes: &[&'a Node<Field>]) -> Arc<str> {
        let key: Vec<usize> = nodes.iter().map(|node| std::ptr::from_ref::<Field>(node).addr()).collect();
        let mut described = lock(&self.described);
        let made = described.entry(key).or_insert_with(|| {
            let (list, text) = self.selector().describe(nodes);
            format!("\"selectionSetList\":{},\"selectionSetGraphQL\":{}", json!(list), json!(text)).into()
        });
        Arc::clone(made)
    }
}
