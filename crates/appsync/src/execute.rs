//! The executor: a validated operation in, an answer out.
//!
//! Promises: partial results, with `null` where a field failed and its error beside it; `null`
//! never stands where the schema says it cannot, but moves up to where it can. Fields of a query
//! run at once, those of a mutation one after the other. Every bound of [`Limits`] holds.
//!
//! [`Limits`]: crate::limits::Limits

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use apollo_compiler::ast::{OperationType, Type};
use apollo_compiler::executable::{ExecutableDocument, Field, Operation};
use apollo_compiler::introspection;
use apollo_compiler::schema::{ExtendedType, FieldDefinition};
use apollo_compiler::validation::Valid;
use apollo_compiler::{Name, Node};
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value, json};

use crate::api::Inner;
use crate::auth::{Accepted, Caller};
use crate::engine::{Invalidation, Raised};
use crate::input;
use crate::resolve::{self, Call, Outcome, Resolver, unauthorized};
use crate::response::{Data, Entry, Error, Object, RaisedParts, Response, Segment, locate};
use crate::scalars;
use crate::selection::{self, Selector};

/// Resolver calls between two pauses in which other tasks get their turn.
const CALLS_A_TURN: usize = 32;

/// A mutation's answer on its way to subscribers.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    /// The field of the subscription type.
    pub(crate) subscription: String,
    pub(crate) data: Data,
}

/// What came of an operation.
pub(crate) struct Executed {
    pub(crate) response: Response,
    pub(crate) publications: Vec<Publication>,
    pub(crate) invalidations: Vec<Invalidation>,
}

/// `null` stands where it cannot: the parent becomes `null` in its stead.
struct Propagate;

/// A place in the answer, linked to the place above it.
#[derive(Clone, Copy)]
struct Path<'a> {
    above: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a Name),
    Index(usize),
}

impl Path<'_> {
    fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut at = Some(self);
        while let Some(path) = at {
            segments.push(match path.step {
                Step::Key(key) => Segment::Key(key.to_string()),
                Step::Index(index) => Segment::Index(index),
            });
            at = path.above;
        }
        segments.reverse();
        segments
    }

    /// `/listGroups[0]/name`, as AppSync's messages have it.
    fn text(&self) -> String {
        self.segments().iter().fold(String::new(), |text, segment| match segment {
            Segment::Key(key) => format!("{text}/{key}"),
            Segment::Index(index) => format!("{text}[{index}]"),
        })
    }
}

pub(crate) struct Execution<'a> {
    pub(crate) api: &'a Inner,
    pub(crate) document: &'a Valid<ExecutableDocument>,
    pub(crate) operation: &'a Operation,
    pub(crate) variables: &'a Map<String, Value>,
    pub(crate) accepted: &'a Accepted,
    /// The members of a context that all resolvers of this request share.
    pub(crate) shared_context: String,
    errors: Mutex<Vec<Error>>,
    publications: Mutex<Vec<Publication>>,
    invalidations: Mutex<Vec<Invalidation>>,
    resolvers: AtomicUsize,
    bytes: AtomicUsize,
}

fn guarded<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            errors: Mutex::default(),
            publications: Mutex::default(),
            invalidations: Mutex::default(),
            resolvers: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn selector(&self) -> Selector<'a> {
        Selector { schema: &self.api.schema, document: self.document, variables: self.variables }
    }

    /// Runs a query or a mutation.
    pub(crate) async fn run(self) -> Executed {
        let limit = self.api.limits.query_depth;
        if selection::depth(self.document, &self.operation.selection_set) > limit {
            let error = Error::typed("QueryDepthLimitReached", format!("The query is nested deeper than {limit}."));
            return self.finish(None, Some(error));
        }
        match tokio::time::timeout(self.api.limits.execution_time, self.root()).await {
            Ok(data) => self.finish(Some(data), None),
            Err(_) => {
                let error = Error::typed("ExecutionTimeout", "Request took longer than it may.".to_owned());
                self.finish(None, Some(error))
            }
        }
    }

    fn finish(self, data: Option<Data>, refused: Option<Error>) -> Executed {
        let mut errors = self.errors.into_inner().unwrap_or_else(PoisonError::into_inner);
        errors.extend(refused);
        let over = self.bytes.into_inner() > self.api.limits.response_bytes;
        let data = data.filter(|data| !over && *data != Data::Null);
        if over {
            errors = vec![Error::typed("ResponseSizeLimitReached", "The answer is larger than it may be.".to_owned())];
        }
        Executed {
            response: Response { data, errors },
            publications: self.publications.into_inner().unwrap_or_else(PoisonError::into_inner),
            invalidations: self.invalidations.into_inner().unwrap_or_else(PoisonError::into_inner),
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

    /// An object's fields.
    async fn object(
        &self,
        type_name: &Name,
        sets: &[&'a apollo_compiler::executable::SelectionSet],
        source: &Value,
        path: Option<&Path<'_>>,
        serial: bool,
    ) -> Result<Object, Propagate> {
        let fields = self.selector().fields(type_name, sets.iter().copied());
        let mut entries: Vec<Option<Entry>> = Vec::with_capacity(fields.len());
        let mut waiting: Vec<(usize, BoxFuture<'_, Result<Data, Propagate>>)> = Vec::new();
        let introspected = if path.is_none() { self.introspect() } else { None };
        for (index, (key, nodes)) in fields.iter().enumerate() {
            let Some(first) = nodes.first() else { continue };
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
            let allowed = self.allowed(type_name, definition);
            if allowed && resolver.is_none() && self.api.is_leaf(definition.ty.inner_named_type()) {
                // Most fields: a leaf that the parent already holds.
                let here = Path { above: path, step: Step::Key(key) };
                let value = source.get(first.name.as_str()).cloned().unwrap_or(Value::Null);
                let data = self.leaf(type_name, &definition.ty, first, value, &here);
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

    fn allowed(&self, type_name: &str, definition: &FieldDefinition) -> bool {
        let default = self.api.gate.default_mode();
        if !self.api.has_auth_directives && self.accepted.mode == default {
            return true;
        }
        self.api.schema.modes(type_name, definition, default).contains(&self.accepted.mode)
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
        let path = Path { above, step: Step::Key(key) };
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

    /// Calls a resolver; nothing if it failed, in which case its error is recorded.
    async fn invoke(
        &self,
        type_name: &Name,
        definition: &FieldDefinition,
        resolver: &Resolver,
        nodes: &[&'a Node<Field>],
        source: &Value,
        path: &Path<'_>,
    ) -> Option<Value> {
        let first = nodes.first().copied()?;
        let calls = self.resolvers.fetch_add(1, Ordering::Relaxed) + 1;
        if calls > self.api.limits.resolvers {
            // Said once: ten thousand equal errors help nobody.
            if calls == self.api.limits.resolvers + 1 {
                let message = format!("The request needs more than {} resolver calls.", self.api.limits.resolvers);
                self.raise_typed("ResolverCountLimitReached", message, path, first);
            }
            return None;
        }
        if calls.is_multiple_of(CALLS_A_TURN) {
            tokio::task::yield_now().await;
        }
        let arguments = match input::arguments(&self.api.schema, definition, first, self.variables) {
            Ok(arguments) => arguments,
            Err(error) => {
                self.raise_typed("ValidationError", error.message, path, first);
                return None;
            }
        };
        let outcome = self.call(type_name, resolver, nodes, &Value::Object(arguments), source).await;
        let Outcome { value, errors, invalidations, failed, .. } = outcome;
        for raised in errors {
            self.raise(raised, path, first, nodes);
        }
        guarded(&self.invalidations).extend(invalidations);
        (!failed).then_some(value)
    }

    /// Calls a resolver with a context for this field.
    pub(crate) async fn call(
        &self,
        type_name: &Name,
        resolver: &Resolver,
        nodes: &[&'a Node<Field>],
        arguments: &Value,
        source: &Value,
    ) -> Outcome {
        let name = nodes.first().map_or("", |field| field.name.as_str());
        let (list, text) = self.selector().describe(nodes);
        let info = json!({
            "fieldName": name,
            "parentTypeName": type_name.as_str(),
            "variables": self.variables,
            "selectionSetList": list,
            "selectionSetGraphQL": text,
        });
        let context = format!("{},\"arguments\":{arguments},\"source\":{source},\"info\":{info}", self.shared_context);
        let call = Call { api: self.api, accepted: self.accepted, type_name, field: name, context };
        resolve::resolve(&call, resolver).await
    }

    /// A value against its type.
    fn complete<'s>(
        &'s self,
        parent: &'s Name,
        ty: &'s Type,
        nodes: &'s [&'a Node<Field>],
        value: Value,
        path: &'s Path<'s>,
    ) -> BoxFuture<'s, Result<Data, Propagate>> {
        async move {
            let Some(first) = nodes.first().copied() else { return Ok(Data::Null) };
            if self.api.is_leaf(ty.inner_named_type()) {
                return self.leaf(parent, ty, first, value, path);
            }
            if value.is_null() {
                return self.null(parent, ty, first, path);
            }
            let mismatch = |expected: &str| {
                let message =
                    format!("Can't resolve value ({}) : type mismatch error, expected type {expected}", path.text());
                self.raise_plain(message, path, first);
                Err(Propagate)
            };
            match ty {
                Type::List(inner) | Type::NonNullList(inner) => {
                    let Value::Array(items) = value else { return mismatch("LIST") };
                    let paths: Vec<Path<'_>> =
                        (0..items.len()).map(|index| Path { above: Some(path), step: Step::Index(index) }).collect();
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
                                self.raise_plain(message, path, first);
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

    /// The object type that a value of an interface or union says it is.
    fn concrete(&self, abstract_type: &Name, value: &Value) -> Option<&'a Name> {
        let name = value.get("__typename")?.as_str()?;
        let (found, kind) = self.api.schema.valid.types.get_key_value(name)?;
        (kind.is_object() && self.api.schema.valid.is_subtype(abstract_type, found)).then_some(found)
    }

    /// A leaf, or a list of leaves.
    fn leaf(
        &self,
        parent: &Name,
        ty: &Type,
        field: &Node<Field>,
        value: Value,
        path: &Path<'_>,
    ) -> Result<Data, Propagate> {
        if value.is_null() {
            return self.null(parent, ty, field, path);
        }
        match ty {
            Type::List(inner) | Type::NonNullList(inner) => {
                let Value::Array(items) = value else {
                    self.raise_plain(
                        format!("Can't resolve value ({}) : type mismatch error, expected type LIST", path.text()),
                        path,
                        field,
                    );
                    return Err(Propagate);
                };
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.into_iter().enumerate() {
                    let here = Path { above: Some(path), step: Step::Index(index) };
                    list.push(absorb(self.leaf(parent, inner, field, item, &here), inner)?);
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
                    self.raise_plain(message, path, field);
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

    fn null(&self, parent: &Name, ty: &Type, field: &Node<Field>, path: &Path<'_>) -> Result<Data, Propagate> {
        if !ty.is_non_null() {
            return Ok(Data::Null);
        }
        let message = format!(
            "Cannot return null for non-nullable type: '{}' within parent '{parent}' ({})",
            ty.inner_named_type(),
            path.text()
        );
        self.raise_plain(message, path, field);
        Err(Propagate)
    }

    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn publish(&self, mutation: &Name, data: &Data) {
        if !matches!(data, Data::Object(_)) {
            return;
        }
        let Some(subscriptions) = self.api.schema.subscribers.get(mutation.as_str()) else { return };
        let mut publications = guarded(&self.publications);
        for subscription in subscriptions.iter().filter(|name| self.api.hub.has_subscribers(name)) {
            publications.push(Publication { subscription: subscription.clone(), data: data.clone() });
        }
    }

    // ---- errors ---------------------------------------------------------------------------------

    fn push(&self, error: Error) {
        guarded(&self.errors).push(error);
    }

    /// An error of GraphQL itself: it has a path and no type, and, as on AppSync, no location.
    fn raise_plain(&self, message: String, path: &Path<'_>, _field: &Node<Field>) {
        self.push(Error { message, path: path.segments(), locations: Vec::new(), raised: None });
    }

    fn raise_typed(&self, error_type: &str, message: String, path: &Path<'_>, field: &Node<Field>) {
        let raised =
            Raised { message, error_type: Some(error_type.to_owned()), data: Value::Null, error_info: Value::Null };
        self.raise(raised, path, field, &[]);
    }

    fn raise(&self, raised: Raised, path: &Path<'_>, field: &Node<Field>, nodes: &[&'a Node<Field>]) {
        let data = self.filtered(&raised.data, nodes);
        self.push(Error {
            message: raised.message,
            path: path.segments(),
            locations: locate(field.location(), &self.document.sources),
            raised: Some(RaisedParts { error_type: raised.error_type, data, error_info: raised.error_info }),
        });
    }

    /// An error's data shows only what the selection asks for.
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

    // ---- introspection --------------------------------------------------------------------------

    fn introspect(&self) -> Option<Value> {
        let asks = self
            .operation
            .root_fields(self.document)
            .any(|field| field.name.starts_with("__") && field.name != "__typename");
        if !asks {
            return None;
        }
        if !self.api.introspection {
            self.push(Error::typed("ValidationError", "Introspection is disabled for this API.".to_owned()));
            return None;
        }
        let variables = serde_json::to_value(self.variables)
            .ok()
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default();
        let executed = introspection::check_max_depth(self.document, self.operation).and_then(|()| {
            introspection::partial_execute(
                &self.api.schema.valid,
                &self.api.schema.implementers,
                self.document,
                self.operation,
                &Valid::assume_valid(variables),
            )
        });
        match executed {
            Ok(response) => {
                for error in response.errors {
                    self.push(Error::request(error.message));
                }
                let value = serde_json::to_value(response.data).unwrap_or(Value::Null);
                self.count(value.to_string().len());
                Some(value)
            }
            Err(error) => {
                self.push(Error::typed("ValidationError", error.message().to_string()));
                None
            }
        }
    }
}

/// A `null` that may stay here stays; one that may not goes on up.
fn absorb(data: Result<Data, Propagate>, ty: &Type) -> Result<Data, Propagate> {
    match data {
        Err(Propagate) if !ty.is_non_null() => Ok(Data::Null),
        other => other,
    }
}
