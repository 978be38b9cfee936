//! An [`Api`]: what a program does with it, and everything that it consists of.

use std::collections::HashMap;
use std::sync::Arc;

use apollo_compiler::ast::OperationType;
use apollo_compiler::schema::FieldDefinition;
use serde_json::{Map, Value, json};

use crate::auth::{Accepted, Caller, Gate, Mode};
use crate::builder::{Builder, CodeDir};
use crate::document::Documents;
use crate::engine::{self, Engine, Evaluation};
use crate::evaluate::context;
use crate::execute::{Executed, Execution};
use crate::host::Host;
use crate::input;
use crate::limits::Limits;
use crate::realtime::{self, Hub, SubscribeError, Subscription};
use crate::resolve::Resolver;
use crate::response::{Error, Response};
use crate::schema::Schema;
use crate::server;

/// Everything that an API consists of.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) schema: Schema,
    /// By type, then by field.
    pub(crate) resolvers: HashMap<String, HashMap<String, Resolver>>,
    pub(crate) engine: Engine,
    pub(crate) gate: Gate,
    /// Whether the schema has a directive for an authorisation mode. Without one every field has the default mode.
    pub(crate) has_auth_directives: bool,
    pub(crate) introspection: bool,
    /// `ctx.env` in JSON.
    pub(crate) environment: String,
    pub(crate) limits: Limits,
    pub(crate) host: Arc<Host>,
    pub(crate) hub: Hub,
    pub(crate) code_dir: CodeDir,
    pub(crate) documents: Documents,
}

/// A GraphQL API in this process. Clones share everything and are cheap.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

impl Api {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Starts to put an API together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Executes a query or a mutation, as `POST /graphql` does.
    pub async fn execute(&self, query: &str, variables: Value, caller: &Caller) -> Response {
        let variables = match variables {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            _ => return Response::refused(vec![Error::request("Variables must be an object.")]),
        };
        match self.inner.gate.accept(caller, self.inner.host.now_ms()) {
            Ok(accepted) => self.inner.execute(query, &variables, None, &accepted, caller).await,
            Err(error) => Response::refused(vec![Error::typed(error.error_type(), error.to_string())]),
        }
    }

    /// Starts a subscription in this process.
    pub async fn subscribe(
        &self,
        query: &str,
        variables: Value,
        caller: &Caller,
    ) -> Result<Subscription, SubscribeError> {
        let variables = variables.as_object().cloned().unwrap_or_default();
        let plan = realtime::plan(&self.inner, query, &variables, None, caller)
            .await
            .map_err(|errors| SubscribeError { errors })?;
        Ok(Subscription::start(&self.inner, plan))
    }

    /// Handles the messages of one realtime client without a WebSocket. Returns what the client would get, in order. Fuzzing
    /// needs this: a WebSocket per input would take most of the time.
    #[doc(hidden)]
    pub async fn converse(&self, messages: &[&str], caller: &Caller) -> Vec<Value> {
        realtime::converse(&self.inner, messages, caller.clone()).await
    }

    /// The API over HTTP and WebSocket: `/graphql` and `/graphql/realtime`.
    pub fn router(&self) -> axum::Router {
        server::router(Arc::clone(&self.inner))
    }

    /// Runs one handler of one file with a context, for unit tests of resolvers.
    ///
    /// The file is one of the API's, or any other file below the code directory. Members that `ctx` leaves out have the values
    /// of a call without arguments.
    pub fn evaluate(&self, file: &str, function: &str, ctx: Value) -> Result<Evaluation, engine::Error> {
        let whole = context(ctx, serde_json::from_str(&self.inner.environment).unwrap_or_default());
        let mode = self.inner.gate.default_mode().description();
        if let Some(script) = self.inner.engine.find(file) {
            return self.inner.engine.call(script, function, mode, &whole.to_string());
        }
        let no_file = || engine::Error::NoFile { file: file.to_owned() };
        let (name, path) = self.inner.code_dir.find(file, &|_| {}).ok_or_else(no_file)?;
        let text = std::fs::read_to_string(path).map_err(|_| no_file())?;
        let mut engine = Engine::new(Arc::clone(&self.inner.host), self.inner.limits.clone());
        let script = engine.add(&name, &text)?;
        engine.call(script, function, mode, &whole.to_string())
    }

    /// Ends the WebSockets that are open, so that their clients connect again. For a program that replaces this API by another one:
    /// the mutations of the new one would reach nobody who subscribed to the old one.
    pub fn close(&self) {
        self.inner.hub.close();
    }

    /// How many WebSockets are open.
    pub fn connections(&self) -> usize {
        self.inner.hub.connections()
    }

    /// How many subscriptions there are, on WebSockets and in this process.
    pub fn subscriptions(&self) -> usize {
        self.inner.hub.subscriptions()
    }
}

impl Inner {
    pub(crate) fn resolver(&self, type_name: &str, field: &str) -> Option<&Resolver> {
        self.resolvers.get(type_name)?.get(field)
    }

    /// Whether a caller with this mode may read a field.
    pub(crate) fn allows(&self, mode: Mode, type_name: &str, field: &FieldDefinition) -> bool {
        let default = self.gate.default_mode();
        if !self.has_auth_directives && mode == default {
            return true;
        }
        self.schema.modes(type_name, field, default).contains(&mode)
    }

    /// Whether a type is a scalar or an enum.
    pub(crate) fn is_leaf(&self, type_name: &str) -> bool {
        self.schema.valid.types.get(type_name).is_some_and(|found| found.is_scalar() || found.is_enum())
    }

    pub(crate) async fn execute(
        self: &Arc<Self>,
        query: &str,
        variables: &Map<String, Value>,
        operation_name: Option<&str>,
        accepted: &Accepted,
        caller: &Caller,
    ) -> Response {
        let document = match self.documents.parse(&self.schema, self.limits.query_depth, query) {
            Ok(document) => document,
            Err(errors) => return Response::refused(errors),
        };
        let operation = match document.operations.get(operation_name) {
            Ok(operation) => operation,
            Err(error) => {
                return Response::refused(vec![Error::typed("BadRequestException", error.message().to_string())]);
            }
        };
        if operation.operation_type == OperationType::Subscription {
            let message = "Subscriptions are served over WebSocket.";
            return Response::refused(vec![Error::typed("UnsupportedOperation", message)]);
        }
        let variables = match input::variables(&self.schema, operation, variables) {
            Ok(variables) => variables,
            Err(error) => return Response::refused(vec![Error::request(error.message)]),
        };
        let execution = Execution::new(self, &document, operation, &variables, accepted, caller);
        let Executed { response, publications, invalidations } = execution.run().await;
        realtime::publish(self, publications, invalidations).await;
        if !response.is_ok() {
            self.host.log_error(|| json!({ "errors": response.to_json()["errors"] }).to_string());
        }
        response
    }
}
