//! The executor: takes a validated operation and returns an answer.
//!
//! Promises:
//! - An answer may be partial. A field that failed is `null`, and its error stands beside the data.
//! - `null` never stands where the schema forbids it ([`null`](crate::null)).
//! - The fields of a query run concurrently, those of a mutation one after the other.
//! - Every bound of [`Limits`](crate::limits::Limits) holds. A query that certainly exceeds one is refused before the first resolver is
//!   called. When the answer becomes too large, no further resolver is called.
//!
//! This file walks through objects and their fields. `call` calls a field's resolver, `complete` checks the resolver's value
//! against the type of the field, `error` records what failed, and `introspection` answers questions about the schema. `cost` counts
//! beforehand what a query asks for, with the help of `schema_size` where it asks about the schema.

mod call;
mod complete;
mod cost;
mod error;
mod introspection;
mod path;
mod schema_size;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use apollo_compiler::ast::OperationType;
use apollo_compiler::executable::{ExecutableDocument, Field, Operation, SelectionSet};
use apollo_compiler::schema::FieldDefinition;
use apollo_compiler::validation::Valid;
use apollo_compiler::{Name, Node};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::api::Inner;
use crate::auth::{Accepted, Caller};
use crate::engine::Invalidation;
use crate::limits::{CONCURRENT_RESOLVERS, MAX_VISITED_SELECTIONS};
use crate::lock::{into_inner, lock};
use crate::null::{Propagate, absorb};
use crate::resolve::{Resolver, unauthorized};
use crate::response::{Data, Entry, Error, Object, Response};
use crate::selection::{self, Selector};
use path::{Path, Place};

/// The answer to a mutation, for the subscribers of one field of the subscription type.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    /// The field of the subscription type.
    pub(crate) subscription: String,
    pub(crate) data: Data,
}

/// What executing an operation produced.
pub(crate) struct Executed {
    pub(crate) response: Response,
    pub(crate) publications: Vec<Publication>,
    pub(crate) invalidations: Vec<Invalidation>,
}

/// One operation while it is executed. Resolvers run concurrently, so what they add is behind locks and in atomics.
pub(crate) struct Execution<'a> {
    api: &'a Inner,
    document: &'a Valid<ExecutableDocument>,
    operation: &'a Operation,
    variables: &'a Map<String, Value>,
    accepted: &'a Accepted,
    /// The members of `ctx` that all resolvers of this request share, as JSON.
    shared_context: String,
    /// `ctx.info.variables`, as JSON.
    variables_json: String,
    /// The part of `ctx.info` that depends on the selection, as JSON, by the addresses of the fields that select.
    described: Mutex<HashMap<Vec<usize>, Arc<str>>>,
    /// A call of a resolver takes one, so that the contexts and results of only so many are in memory.
    permits: Semaphore,
    errors: Mutex<Vec<Error>>,
    publications: Mutex<Vec<Publication>>,
    invalidations: Mutex<Vec<Invalidation>>,
    /// Resolver calls so far.
    resolvers: AtomicUsize,
    /// The size of the answer so far.
    bytes: AtomicUsize,
    /// Selections that were looked at so far.
    visited: AtomicUsize,
    /// How many bytes of context handlers have been given.
    given: AtomicUsize,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(
        api: &'a Inner,
        document: &'a Valid<ExecutableDocument>,
        operation: &'a Operation,
        variables: &'a Map<String, Value>,
        accepted: &'a Accepted,
        caller: &'a Caller,
    ) -> Self {
        let shared_context = format!(
            "\"identity\":{},\"request\":{},\"env\":{}",
            accepted.identity,
            json!({"headers": caller.headers, "domainName": null}),
            api.environment,
        );
        Self {
            api,
            document,
            operation,
            variables,
            accepted,
            shared_context,
            variables_json: json!(variables).to_string(),
            described: Mutex::default(),
            permits: Semaphore::new(CONCURRENT_RESOLVERS),
            errors: Mutex::default(),
            publications: Mutex::default(),
            invalidations: Mutex::default(),
            resolvers: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            visited: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
        }
    }

    fn selector(&self) -> Selector<'a> {
        Selector { schema: &self.api.schema, document: self.document, variables: self.variables }
    }

    /// Runs a query or a mutation.
    pub(crate) async fn run(self) -> Executed {
        let limit = self.api.limits.query_depth;
        if selection::depth(self.document, &self.operation.selection_set) > limit {
            let error =
                Error::typed("QueryDepthLimitReached", format!("The query is nested deeper than {limit} levels."));
            return self.finish(None, Some(error));
        }
        if let Err(error) = self.affordable() {
            return self.finish(None, Some(*error));
        }
        match tokio::time::timeout(self.api.limits.execution_time, self.root()).await {
            Ok(data) => self.finish(Some(data), None),
            Err(_) => {
                let limit = self.api.limits.execution_time;
                let error =
                    Error::typed("ExecutionTimeout", format!("The request exceeded its time limit of {limit:?}."));
                self.finish(None, Some(error))
            }
        }
    }

    fn finish(self, data: Option<Data>, error: Option<Error>) -> Executed {
        let (too_large, too_complex) = (self.is_too_large(), self.is_too_complex());
        let mut errors = into_inner(self.errors);
        errors.extend(error);
        let data = data.filter(|data| !too_large && !too_complex && *data != Data::Null);
        if too_large {
            let limit = self.api.limits.response_bytes;
            errors =
                vec![Error::typed("ResponseSizeLimitReached", format!("The answer is larger than {limit} bytes."))];
        } else if too_complex {
            let message = format!(
                "Executing the query means looking at more than {MAX_VISITED_SELECTIONS} selections; select each field once."
            );
            errors = vec![Error::typed("QueryComplexityLimitReached", message)];
        }
        Executed {
            response: Response { data, errors },
            publications: into_inner(self.publications),
            invalidations: into_inner(self.invalidations),
        }
    }

    async fn root(&self) -> Data {
        let Some(type_name) = self.api.schema.root(self.operation.operation_type) else { return Data::Null };
        let serial = self.operation.operation_type == OperationType::Mutation;
        let sets = [&self.operation.selection_set];
        match self.object(type_name, &sets, &Value::Null, None, serial).await {
            Ok(object) => Data::Object(object),
            Err(Propagate) => Data::Null,
        }
    }

    /// Resolves the fields of an object. `serial` is true for the fields of a mutation.
    async fn object(
        &self,
        type_name: &Name,
        sets: &[&'a SelectionSet],
        source: &Value,
        path: Option<&Path<'_>>,
        serial: bool,
    ) -> Result<Object, Propagate> {
        if self.is_too_complex() {
            return Err(Propagate);
        }
        let (fields, visited) = self.selector().counted(type_name, sets.iter().copied());
        self.visited.fetch_add(visited, Ordering::Relaxed);
        let mut entries: Vec<Option<Entry>> = Vec::with_capacity(fields.len());
        let mut waiting: Vec<(usize, BoxFuture<'_, Result<Data, Propagate>>)> = Vec::new();
        let introspected = if path.is_none() { self.introspect() } else { None };
        for (index, (key, nodes)) in fields.iter().enumerate() {
            let Some(first) = nodes.first() else { continue };
            if self.is_too_large() {
                return Err(Propagate);
            }
            self.count(key.len() + 4);
            let entry = |data| Some(Entry { key: (*key).clone(), field: first.name.clone(), data });
            if first.name == "__typename" {
                entries.push(entry(Data::Leaf(Value::String(type_name.to_string()))));
                continue;
            }
            if first.name.starts_with("__") {
                let value = introspected.as_ref().and_then(|value| value.get(key.as_str())).cloned();
                entries.push(entry(value.filter(|value| !value.is_null()).map_or(Data::Null, Data::Leaf)));
                continue;
            }
            let Some(definition) = self.api.schema.field(type_name, &first.name) else {
                entries.push(None);
                continue;
            };
            let resolver = self.api.resolver(type_name, &first.name);
            let allowed = self.api.allows(self.accepted.mode, type_name, definition);
            if allowed && resolver.is_none() && self.api.is_leaf(definition.ty.inner_named_type()) {
                // Most fields are like this: a leaf that the parent already holds. It needs no future of its own.
                let here = Path { above: path, place: Place::Key(key) };
                let value = source.get(first.name.as_str()).cloned().unwrap_or(Value::Null);
                let data = self.leaf(type_name, &definition.ty, value, &here);
                entries.push(entry(absorb(data, &definition.ty)?));
                continue;
            }
            let future = self.field(type_name, definition, resolver, allowed, key, nodes.clone(), source, path).boxed();
            if serial {
                entries.push(entry(future.await?));
            } else {
                entries.push(None);
                waiting.push((index, future));
            }
        }
        let (indexes, futures): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        for (index, data) in indexes.into_iter().zip(join_all(futures).await) {
            if let Some((key, nodes)) = fields.get_index(index)
                && let (Some(first), Some(place)) = (nodes.first(), entries.get_mut(index))
            {
                *place = Some(Entry { key: (*key).clone(), field: first.name.clone(), data: data? });
            }
        }
        Ok(Object { type_name: type_name.clone(), entries: entries.into_iter().flatten().collect() })
    }

    #[expect(clippy::too_many_arguments, reason = "what identifies a field in the schema, the document and the answer")]
    async fn field(
        &self,
        type_name: &Name,
        definition: &FieldDefinition,
        resolver: Option<&Resolver>,
        allowed: bool,
        key: &Name,
        nodes: Vec<&'a Node<Field>>,
        source: &Value,
        above: Option<&Path<'_>>,
    ) -> Result<Data, Propagate> {
        let path = Path { above, place: Place::Key(key) };
        let Some(first) = nodes.first().copied() else { return Ok(Data::Null) };
        if !allowed {
            self.raise(unauthorized(type_name, &first.name), &path, first, &nodes);
            return absorb(Err(Propagate), &definition.ty);
        }
        let value = match resolver {
            None => source.get(first.name.as_str()).cloned().unwrap_or(Value::Null),
            Some(resolver) => match self.invoke(type_name, definition, resolver, &nodes, source, &path).await {
                Some(value) => value,
                None => return absorb(Err(Propagate), &definition.ty),
            },
        };
        let data = self.complete(type_name, &definition.ty, &nodes, value, &path).await;
        let data = absorb(data, &definition.ty)?;
        if above.is_none() && self.operation.operation_type == OperationType::Mutation {
            self.publish(&first.name, &data);
        }
        Ok(data)
    }

    /// Whether the answer is larger than it may be. Nobody will see it, so nothing more is added to it.
    fn is_too_large(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.api.limits.response_bytes
    }

    /// Whether the selections of lists were looked at too often.
    fn is_too_complex(&self) -> bool {
        self.visited.load(Ordering::Relaxed) > MAX_VISITED_SELECTIONS
    }

    /// Adds to the size of the answer.
    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Keeps what a mutation returned for its subscribers.
    fn publish(&self, mutation: &Name, data: &Data) {
        if !matches!(data, Data::Object(_)) {
            return;
        }
        let Some(subscriptions) = self.api.schema.subscribers.get(mutation.as_str()) else { return };
        let mut publications = lock(&self.publications);
        for subscription in subscriptions.iter().filter(|name| self.api.hub.has_subscribers(name)) {
            publications.push(Publication { subscription: subscription.clone(), data: data.clone() });
        }
    }
}
