//! An API put together: [`Api`] and its [`Builder`].

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use apollo_compiler::ast::OperationType;
use apollo_compiler::executable::ExecutableDocument;
use apollo_compiler::parser::Parser;
use apollo_compiler::validation::{DiagnosticList, Valid};
use futures::FutureExt as _;
use serde_json::{Map, Value, json};

use crate::auth::{Accepted, ApiKey, Caller, Gate, IamCaller, Mode};
use crate::engine::{self, Engine, Evaluation, ScriptId};
use crate::execute::{Executed, Execution};
use crate::host::{Clock, Host};
use crate::input;
use crate::limits::{CACHED_DOCUMENT_BYTES, CACHED_DOCUMENTS, Limits, MAX_QUERY_TOKENS, MAX_REQUEST_BYTES};
use crate::realtime::{self, Hub, Refused, Subscription};
use crate::resolve::{Lambda, LambdaError, Resolver, Source, Step};
use crate::response::{Error as ResponseError, Location, Response};
use crate::schema::{self, Schema};
use crate::server;
use crate::template::{self, Code, Template};

/// Why an API cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The schema is refused.
    #[error(transparent)]
    Schema(#[from] schema::Error),
    /// The template is refused.
    #[error(transparent)]
    Template(#[from] template::Error),
    /// A resolver file is refused.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// No schema, neither given nor in the template.
    #[error("there is no schema")]
    NoSchema,
    /// A file that the template names is not in the code directory.
    #[error("no file in the code directory is the end of `{0}`")]
    NoFile(String),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A resolver for a field that the schema does not have.
    #[error("there is a resolver for {0}, which is not in the schema")]
    NoField(String),
    /// A step on a data source that the template does not have.
    #[error("{step}: there is no data source `{source_name}`")]
    NoDataSource {
        /// The resolver or function.
        step: String,
        /// What it names.
        source_name: String,
    },
    /// A DynamoDB data source, and no client for it.
    #[error("the data source `{0}` needs a DynamoDB client")]
    NoClient(String),
    /// A Lambda data source, and no such function.
    #[error("the data source `{source_name}` needs a function; it may be registered as {names:?}")]
    NoFunction {
        /// The data source.
        source_name: String,
        /// What it may be called.
        names: Vec<String>,
    },
    /// A resolver without code on a data source that needs some.
    #[error("{0}: only a Lambda function can do without code")]
    NoCode(String),
}

/// Everything an API is made of.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) schema: Schema,
    pub(crate) resolvers: HashMap<String, HashMap<String, Resolver>>,
    pub(crate) engine: Engine,
    pub(crate) gate: Gate,
    pub(crate) has_auth_directives: bool,
    pub(crate) introspection: bool,
    /// `ctx.env` in JSON.
    pub(crate) environment: String,
    pub(crate) limits: Limits,
    pub(crate) host: Arc<Host>,
    pub(crate) hub: Hub,
    code_dir: Option<PathBuf>,
    /// Documents that were found valid, by their text.
    documents: Mutex<HashMap<String, Arc<Valid<ExecutableDocument>>>>,
}

/// A GraphQL API in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

/// Puts an [`Api`] together.
#[derive(Default)]
pub struct Builder {
    schema: Option<String>,
    template: Option<(String, Vec<(String, String)>)>,
    code_dir: Option<PathBuf>,
    dynamodb: Option<aws_sdk_dynamodb::Client>,
    lambdas: HashMap<String, Lambda>,
    keys: Vec<ApiKey>,
    access_keys: Vec<(String, IamCaller)>,
    environment: Vec<(String, String)>,
    limits: Option<Limits>,
    clock: Option<Clock>,
    seed: Option<u64>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("code_dir", &self.code_dir).finish_non_exhaustive()
    }
}

impl Builder {
    /// The schema, in SDL. Without one, the template's is taken.
    #[must_use]
    pub fn schema(mut self, sdl: impl Into<String>) -> Self {
        self.schema = Some(sdl.into());
        self
    }

    /// The CloudFormation template and values for its parameters.
    #[must_use]
    pub fn template(mut self, yaml: impl Into<String>, parameters: &[(&str, &str)]) -> Self {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.template = Some((yaml.into(), parameters));
        self
    }

    /// Where the files are that the template's `CodeS3Location`s end with.
    #[must_use]
    pub fn code_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.code_dir = Some(path.into());
        self
    }

    /// What DynamoDB data sources talk to.
    #[must_use]
    pub fn dynamodb(mut self, client: aws_sdk_dynamodb::Client) -> Self {
        self.dynamodb = Some(client);
        self
    }

    /// A Lambda function, by its name or its logical id in the template.
    #[must_use]
    pub fn lambda<F, R>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, LambdaError>> + Send + 'static,
    {
        self.lambdas.insert(name.into(), Arc::new(move |payload| function(payload).boxed()));
        self
    }

    /// Keys that callers may present.
    #[must_use]
    pub fn api_keys<K: Into<ApiKey>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys.extend(keys.into_iter().map(Into::into));
        self
    }

    /// A caller for IAM, known by an access key.
    #[must_use]
    pub fn access_key(mut self, access_key: impl Into<String>, caller: IamCaller) -> Self {
        self.access_keys.push((access_key.into(), caller));
        self
    }

    /// A variable in `ctx.env`, beside (and before) the template's.
    #[must_use]
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Other bounds than AppSync's.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Milliseconds since 1970, for `util.time` and the expiry of keys.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Ids and random numbers that are the same in every run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Reads everything and checks that it fits together; nothing is left for the first request to find.
    pub fn build(self) -> Result<Api, Error> {
        let template = match &self.template {
            Some((yaml, parameters)) => {
                let parameters: Vec<(&str, &str)> =
                    parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                Template::read(yaml, &parameters)?
            }
            None => Template { modes: vec![Mode::ApiKey], introspection: true, ..Template::default() },
        };
        let sdl = match (&self.schema, &template.schema) {
            (Some(sdl), _) => sdl.clone(),
            (None, Some(code)) => self.read(code)?.1,
            (None, None) => return Err(Error::NoSchema),
        };
        let schema = Schema::read(&sdl)?;
        let mut limits = self.limits.clone().unwrap_or_default();
        if self.limits.is_none() {
            limits.query_depth = template.query_depth.unwrap_or(limits.query_depth).min(limits.query_depth);
            limits.resolvers = template.resolver_count.unwrap_or(limits.resolvers).min(limits.resolvers);
        }
        let host = Arc::new(Host::new(self.clock.clone(), self.seed));
        let mut engine = Engine::new(Arc::clone(&host), limits.clone());
        let mut resolvers: HashMap<String, HashMap<String, Resolver>> = HashMap::new();
        for resolver in &template.resolvers {
            if schema.field(&resolver.type_name, &resolver.field).is_none() {
                return Err(Error::NoField(format!("{}.{}", resolver.type_name, resolver.field)));
            }
            let made = match &resolver.kind {
                template::Kind::Unit(step) => Resolver::Unit(self.step(step, &template, &mut engine)?),
                template::Kind::Pipeline { code, functions } => Resolver::Pipeline {
                    script: self.script(code, &format!("{}.{}", resolver.type_name, resolver.field), &mut engine)?,
                    functions: functions
                        .iter()
                        .map(|step| self.step(step, &template, &mut engine))
                        .collect::<Result<_, _>>()?,
                },
            };
            resolvers.entry(resolver.type_name.clone()).or_default().insert(resolver.field.clone(), made);
        }
        engine.check()?;
        let mut gate = Gate::new(template.modes.clone());
        self.keys.iter().for_each(|key| gate.add_key(key));
        for (access_key, caller) in self.access_keys {
            gate.add_access_key(access_key, caller);
        }
        let environment: Map<String, Value> = template
            .environment
            .into_iter()
            .chain(self.environment)
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        let has_auth_directives = Mode::ALL.iter().any(|mode| sdl.contains(&format!("@{}", mode.directive())));
        let inner = Inner {
            schema,
            resolvers,
            engine,
            gate,
            has_auth_directives,
            introspection: template.introspection,
            environment: json!(environment).to_string(),
            limits,
            host,
            hub: Hub::default(),
            code_dir: self.code_dir,
            documents: Mutex::default(),
        };
        Ok(Api { inner: Arc::new(inner) })
    }

    fn step(&self, step: &template::Step, template: &Template, engine: &mut Engine) -> Result<Step, Error> {
        let no_source = || Error::NoDataSource { step: step.name.clone(), source_name: step.source.clone() };
        let source = match template.sources.get(&step.source).ok_or_else(no_source)? {
            template::Source::None => Source::None,
            template::Source::DynamoDb { table } => {
                let client = self.dynamodb.clone().ok_or_else(|| Error::NoClient(step.source.clone()))?;
                Source::DynamoDb { client, table: table.clone() }
            }
            template::Source::Lambda { names } => {
                let found = names.iter().find_map(|name| self.lambdas.get(name));
                let no_function = || Error::NoFunction { source_name: step.source.clone(), names: names.clone() };
                Source::Lambda(Arc::clone(found.ok_or_else(no_function)?))
            }
        };
        let script = match &step.code {
            Some(code) => Some(self.script(code, &step.name, engine)?),
            None if matches!(source, Source::Lambda(_)) => None,
            None => return Err(Error::NoCode(step.name.clone())),
        };
        Ok(Step { source, script })
    }

    fn script(&self, code: &Code, name: &str, engine: &mut Engine) -> Result<ScriptId, Error> {
        let (path, text) = self.read(code)?;
        let id = engine.add(&path.unwrap_or_else(|| name.to_owned()), &text)?;
        engine.script(id).needs_handlers().map_err(engine::Error::from)?;
        Ok(id)
    }

    fn is_file(&self, text: &str) -> bool {
        let path_like = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '{');
        path_like && self.code_dir.as_deref().is_some_and(|dir| find(dir, text).is_some())
    }

    /// The text, and the path in the code directory if it is a file's.
    fn read(&self, code: &Code) -> Result<(Option<String>, String), Error> {
        let location = match code {
            Code::Path(location) => location,
            // Templates may take code as a parameter that deployments fill with the text and whose
            // default is the file's path: a text that is the path of a file stands for the file.
            Code::Inline(text) if self.is_file(text) => text,
            Code::Inline(text) => return Ok((None, text.clone())),
        };
        let dir = self.code_dir.as_deref().ok_or_else(|| Error::NoFile(location.clone()))?;
        let (path, file) = find(dir, location).ok_or_else(|| Error::NoFile(location.clone()))?;
        let text = std::fs::read_to_string(&file).map_err(|source| Error::Read { path: file, source })?;
        Ok((Some(path), text))
    }
}

/// The longest end of a location that is a file in the directory.
fn find(dir: &Path, location: &str) -> Option<(String, PathBuf)> {
    let location = location.split_once("://").map_or(location, |(_, rest)| rest);
    let parts: Vec<&str> = location.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
    (0..parts.len()).find_map(|from| {
        let path = parts[from..].join("/");
        let file = dir.join(&path);
        file.is_file().then_some((path, file))
    })
}

impl Api {
    /// Begins an API.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Executes a query or a mutation, as `POST /graphql` does.
    pub async fn execute(&self, query: &str, variables: Value, caller: &Caller) -> Response {
        let variables = match variables {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            _ => return Response::refused(vec![ResponseError::request("Variables must be an object.")]),
        };
        match self.inner.gate.accept(caller, self.inner.host.now_ms()) {
            Ok(accepted) => self.inner.execute(query, &variables, None, &accepted, caller).await,
            Err(error) => Response::refused(vec![ResponseError::typed(error.error_type(), error.to_string())]),
        }
    }

    /// Begins a subscription in this process.
    pub async fn subscribe(&self, query: &str, variables: Value, caller: &Caller) -> Result<Subscription, Refused> {
        let variables = variables.as_object().cloned().unwrap_or_default();
        let plan =
            realtime::plan(&self.inner, query, &variables, None, caller).await.map_err(|errors| Refused { errors })?;
        Ok(Subscription::start(&self.inner, plan))
    }

    /// The API over HTTP and WebSocket: `/graphql` and `/graphql/realtime`.
    pub fn router(&self) -> axum::Router {
        server::router(Arc::clone(&self.inner))
    }

    /// Runs one handler of one file with a context: what a unit test of a resolver needs.
    ///
    /// The file is one of the API's, or any other below the code directory. Members that `ctx`
    /// leaves out get the values of a call without arguments.
    pub fn evaluate(&self, file: &str, function: &str, ctx: Value) -> Result<Evaluation, engine::Error> {
        let mut whole = json!({
            "arguments": {}, "source": null, "identity": null, "request": {"headers": {}, "domainName": null},
            "info": {"fieldName": "", "parentTypeName": "", "variables": {}, "selectionSetList": [], "selectionSetGraphQL": ""},
            "env": null, "stash": {}, "prev": null, "result": null, "error": null,
        });
        whole["env"] = serde_json::from_str(&self.inner.environment).unwrap_or_default();
        if let (Value::Object(whole), Value::Object(given)) = (&mut whole, ctx) {
            for (name, value) in given {
                whole.insert(if name == "args" { "arguments".to_owned() } else { name }, value);
            }
        }
        let mode = self.inner.gate.default_mode().description();
        if let Some(script) = self.inner.engine.find(file) {
            return self.inner.engine.call(script, function, mode, &whole.to_string());
        }
        let no_file = || engine::Error::NoFile { file: file.to_owned() };
        let dir = self.inner.code_dir.as_deref().ok_or_else(no_file)?;
        let (name, path) = find(dir, file).ok_or_else(no_file)?;
        let text = std::fs::read_to_string(path).map_err(|_| no_file())?;
        let mut engine = Engine::new(Arc::clone(&self.inner.host), self.inner.limits.clone());
        let script = engine.add(&name, &text)?;
        engine.call(script, function, mode, &whole.to_string())
    }

    /// How many sockets are open.
    pub fn connections(&self) -> usize {
        self.inner.hub.connections()
    }

    /// How many subscriptions there are.
    pub fn subscriptions(&self) -> usize {
        self.inner.hub.subscriptions()
    }
}

impl Inner {
    pub(crate) fn resolver(&self, type_name: &str, field: &str) -> Option<&Resolver> {
        self.resolvers.get(type_name)?.get(field)
    }

    pub(crate) fn is_leaf(&self, type_name: &str) -> bool {
        self.schema.valid.types.get(type_name).is_some_and(|found| found.is_scalar() || found.is_enum())
    }

    /// A document, parsed and validated.
    pub(crate) fn parse(&self, query: &str) -> Result<Arc<Valid<ExecutableDocument>>, Vec<ResponseError>> {
        let known = || self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = known().get(query) {
            return Ok(Arc::clone(document));
        }
        if query.len() > MAX_REQUEST_BYTES {
            return Err(vec![ResponseError::typed("QuerySizeLimitReached", "The query is too large.")]);
        }
        let mut parser = Parser::new().token_limit(MAX_QUERY_TOKENS).recursion_limit(self.limits.query_depth * 4 + 20);
        let parsed = parser.parse_executable(&self.schema.valid, query, "query.graphql");
        let document = parsed
            .map_err(|error| refusals(&error.errors))?
            .validate(&self.schema.valid)
            .map_err(|error| refusals(&error.errors))?;
        let document = Arc::new(document);
        if query.len() <= CACHED_DOCUMENT_BYTES {
            let mut documents = known();
            if documents.len() >= CACHED_DOCUMENTS {
                documents.clear();
            }
            documents.insert(query.to_owned(), Arc::clone(&document));
        }
        Ok(document)
    }

    pub(crate) async fn execute(
        self: &Arc<Self>,
        query: &str,
        variables: &Map<String, Value>,
        operation_name: Option<&str>,
        accepted: &Accepted,
        caller: &Caller,
    ) -> Response {
        let document = match self.parse(query) {
            Ok(document) => document,
            Err(errors) => return Response::refused(errors),
        };
        let operation = match document.operations.get(operation_name) {
            Ok(operation) => operation,
            Err(error) => {
                return Response::refused(vec![ResponseError::typed(
                    "BadRequestException",
                    error.message().to_string(),
                )]);
            }
        };
        if operation.operation_type == OperationType::Subscription {
            let message = "Subscriptions are served over WebSocket.";
            return Response::refused(vec![ResponseError::typed("UnsupportedOperation", message)]);
        }
        let variables = match input::variables(&self.schema, operation, variables) {
            Ok(variables) => variables,
            Err(error) => return Response::refused(vec![ResponseError::request(error.message)]),
        };
        let execution = Execution::new(self, &document, operation, &variables, accepted, caller);
        let Executed { response, publications, invalidations } = execution.run().await;
        realtime::publish(self, publications, invalidations).await;
        response
    }
}

/// What validation found, as AppSync words it where it does.
fn refusals(errors: &DiagnosticList) -> Vec<ResponseError> {
    errors
        .iter()
        .map(|diagnostic| {
            let kind = diagnostic.error.unstable_error_name();
            let message = diagnostic.error.unstable_compat_message().unwrap_or_else(|| diagnostic.error.to_string());
            let message = match kind {
                Some("UndefinedField") => format!("Validation error of type FieldUndefined: {message}"),
                Some(kind) => format!("Validation error of type {kind}: {message}"),
                None => format!("Validation error: {message}"),
            };
            let locations: Vec<Location> =
                diagnostic.line_column_range().map(|range| range.start.into()).into_iter().collect();
            ResponseError { locations, ..ResponseError::request(message) }
        })
        .collect()
}
