//! Reads a subscription. Everything that may be refused is refused here.

use std::sync::Arc;

use apollo_compiler::ast::OperationType;
use apollo_compiler::executable::ExecutableDocument;
use apollo_compiler::validation::Valid;
use serde_json::{Map, Value, json};

use super::filter::{self, Filter};
use super::project;
use crate::api::Inner;
use crate::auth::{Accepted, Caller};
use crate::engine::Raised;
use crate::execute::Execution;
use crate::input;
use crate::limits::MAX_SUBSCRIPTION_PAYLOAD;
use crate::resolve::unauthorized;
use crate::response::{Data, Error, RaisedParts};
use crate::selection;

/// What a subscription asks for.
pub(crate) struct Plan {
    pub(super) document: Arc<Valid<ExecutableDocument>>,
    pub(super) operation: Option<String>,
    pub(super) variables: Map<String, Value>,
    arguments: Map<String, Value>,
    pub(super) field: String,
    pub(super) accepted: Accepted,
    filter: Option<Filter>,
    pub(super) invalidation: Option<Filter>,
    /// Plans with equal keys ask for the same.
    pub(super) key: String,
}

/// Reads a subscription, or says why it is refused.
pub(crate) async fn plan(
    api: &Arc<Inner>,
    query: &str,
    variables: &Map<String, Value>,
    operation_name: Option<&str>,
    caller: &Caller,
) -> Result<Plan, Vec<Error>> {
    let refuse = |error_type: &str, message: String| Err(vec![Error::typed(error_type, message)]);
    let accepted = match api.gate.accept(caller, api.host.now_ms()) {
        Ok(accepted) => accepted,
        Err(error) => return refuse(error.error_type(), error.to_string()),
    };
    let document = api.documents.parse(&api.schema, api.limits.query_depth, query)?;
    let operation = match document.operations.get(operation_name) {
        Ok(operation) => operation,
        Err(error) => return refuse("BadRequestException", error.message().to_string()),
    };
    if operation.operation_type != OperationType::Subscription {
        return refuse(
            "UnsupportedOperation",
            format!("{} not supported through the realtime channel", operation.operation_type.name()),
        );
    }
    if selection::depth(&document, &operation.selection_set) > api.limits.query_depth {
        return refuse(
            "QueryDepthLimitReached",
            format!("The query is nested deeper than {} levels.", api.limits.query_depth),
        );
    }
    let coerced = match input::variables(&api.schema, operation, variables) {
        Ok(variables) => variables,
        Err(error) => return refuse("ValidationError", error.message),
    };
    let execution = Execution::new(api, &document, operation, &coerced, &accepted, caller);
    // The fields are made anew for every message.
    if let Err(error) = execution.affordable() {
        return Err(vec![*error]);
    }
    let Some(root) = api.schema.root(OperationType::Subscription) else {
        return refuse("ValidationError", "The schema has no subscriptions.".to_owned());
    };
    let selector = selection::Selector { schema: &api.schema, document: &document, variables: &coerced };
    let fields = selector.fields(root, [&operation.selection_set]);
    let Some((nodes, first)) = fields.values().next().and_then(|nodes| Some((nodes, *nodes.first()?))) else {
        return refuse("ValidationError", "The subscription selects nothing.".to_owned());
    };
    let Some(definition) = api.schema.field(root, &first.name) else {
        return refuse("ValidationError", format!("There is no subscription '{}'.", first.name));
    };
    if !api.allows(accepted.mode, root, definition) {
        let raised = unauthorized(root, &first.name);
        return refuse("Unauthorized", raised.message);
    }
    let arguments = match input::arguments(&api.schema, definition, first, &coerced) {
        Ok(arguments) => arguments,
        Err(error) => return refuse("ValidationError", error.message),
    };
    let mut filters = (None, None);
    if let Some(resolver) = api.resolver(root, &first.name) {
        let resolved = execution.call(root, resolver, nodes, &Value::Object(arguments.clone()), &Value::Null).await;
        if resolved.failed || !resolved.errors.is_empty() {
            let of = |raised: Raised| Error {
                raised: Some(RaisedParts {
                    error_type: raised.error_type,
                    data: Value::Null,
                    error_info: raised.error_info,
                }),
                ..Error::request(raised.message)
            };
            return Err(resolved.errors.into_iter().map(of).collect());
        }
        filters = (resolved.filter, resolved.invalidation_filter);
    }
    let read = |value: &Option<Value>| value.as_ref().map(Filter::read).transpose();
    let (filter, invalidation) = match (read(&filters.0), read(&filters.1)) {
        (Ok(filter), Ok(invalidation)) => (filter, invalidation),
        (Err(error), _) | (_, Err(error)) => return refuse("ValidationError", error.to_string()),
    };
    let field = first.name.to_string();
    drop(execution);
    let key = json!([query, operation_name, coerced, filters.0, filters.1, accepted.mode.directive()]).to_string();
    Ok(Plan {
        document: Arc::clone(&document),
        operation: operation_name.map(ToOwned::to_owned),
        variables: coerced,
        arguments,
        field,
        accepted,
        filter,
        invalidation,
        key,
    })
}

impl Plan {
    /// Whether the answer to a mutation is for this subscription.
    pub(super) fn wants(&self, data: &Data) -> bool {
        match &self.filter {
            // A filter that the resolver set replaces the arguments.
            Some(filter) => filter.matches(data),
            None => filter::arguments_match(&self.arguments, data),
        }
    }

    /// The names and the values of the arguments, if they decide what this subscription wants.
    pub(super) fn arguments(&self) -> Option<(Vec<String>, String)> {
        let names = || self.arguments.keys().cloned().collect();
        self.filter.is_none().then(|| (names(), filter::wanted(&self.arguments)))
    }

    /// A plan that wants what these arguments choose, or this filter.
    #[cfg(test)]
    pub(super) fn sample(
        document: Arc<Valid<ExecutableDocument>>,
        field: &str,
        arguments: Value,
        filter: Option<&Value>,
    ) -> Self {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        Plan {
            key: json!([arguments, filter]).to_string(),
            document,
            operation: None,
            variables: Map::new(),
            arguments,
            field: field.to_owned(),
            accepted: Accepted { mode: crate::auth::Mode::ApiKey, identity: Value::Null },
            filter: filter.map(|filter| Filter::read(filter).expect("a filter")),
            invalidation: None,
        }
    }

    /// `{"data": …}` for this subscription. `None` if it is larger than a message may be.
    pub(super) fn payload(&self, api: &Inner, data: &Data) -> Option<String> {
        let response = project::project(api, self, data)?;
        let payload = serde_json::to_string(&response).unwrap_or_else(|_| "{\"data\":null}".to_owned());
        (payload.len() <= MAX_SUBSCRIPTION_PAYLOAD).then_some(payload)
    }
}
