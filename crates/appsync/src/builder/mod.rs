//! Builds an [`Api`]: reads the schema, the template and the resolver files, and checks that they fit together.

mod code;

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Map, Value, json};

use crate::api::{Api, Inner};
use crate::auth::{ApiKey, Gate, IamCaller, Mode};
use crate::document::Documents;
use crate::engine::{self, Engine, ScriptId};
use crate::host::{Clock, Host, Log};
use crate::limits::Limits;
use crate::realtime::Hub;
use crate::resolve::{Lambda, LambdaError, Resolver, Source, Step};
use crate::schema::{self, Schema};
use crate::wiring::{self, Code, Wiring};
pub(crate) use code::CodeDir;

/// Why an API cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The schema is refused.
    #[error(transparent)]
    Schema(#[from] schema::Error),
    /// The template is refused.
    #[error(transparent)]
    Template(#[from] wiring::Error),
    /// A resolver file is refused.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Neither the builder nor the template has a schema.
    #[error("there is no schema: call `schema`, or add an AWS::AppSync::GraphQLSchema to the template")]
    NoSchema,
    /// A file that the template names is not in the code directory.
    #[error("the code directory has no file for `{0}`; set the directory with `code_dir`")]
    NoFile(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A resolver for a field that the schema does not have.
    #[error("the template has a resolver for {0}, but the schema has no such field")]
    NoField(String),
    /// A step on a data source that the template does not have.
    #[error("{step} uses the data source `{source_name}`, which the template does not have")]
    NoDataSource {
        /// The resolver or function.
        step: String,
        /// The data source.
        source_name: String,
    },
    /// There is a DynamoDB data source but no client for it.
    #[error("the data source `{0}` needs a DynamoDB client; set one with `dynamodb`")]
    NoClient(String),
    /// There is a Lambda data source but no such function.
    #[error(
        "the data source `{source_name}` needs a Lambda function; add it with `lambda` under one of these names: {names:?}"
    )]
    NoFunction {
        /// The data source.
        source_name: String,
        /// The names that it may have.
        names: Vec<String>,
    },
    /// A resolver has no code, and its data source is not a Lambda function.
    #[error("{0} has no code; only a resolver with a Lambda function can do without")]
    NoCode(String),
}

/// Is told where a build looks for a file.
type Looking = Arc<dyn Fn(&Path) + Send + Sync>;

/// Builds an [`Api`].
#[derive(Default)]
pub struct Builder {
    schema: Option<String>,
    template: Option<(String, Vec<(String, String)>)>,
    code_dir: CodeDir,
    looking: Option<Looking>,
    dynamodb: Option<aws_sdk_dynamodb::Client>,
    lambdas: HashMap<String, Lambda>,
    keys: Vec<ApiKey>,
    access_keys: Vec<(String, IamCaller)>,
    environment: Vec<(String, String)>,
    limits: Option<Limits>,
    clock: Option<Clock>,
    seed: Option<u64>,
    log: Option<Log>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("code_dir", &self.code_dir).finish_non_exhaustive()
    }
}

impl Builder {
    /// The schema, in SDL. Without this the schema of the template is used.
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

    /// The directory with the files that the template's `CodeS3Location`s name.
    #[must_use]
    pub fn code_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.code_dir = CodeDir::at(path.into());
        self
    }

    /// Is told each place in the code directory before it is looked at, whether there is a file or not. Another build gives another
    /// API only if one of these files has changed, is gone or is new.
    #[must_use]
    pub fn looking(mut self, looking: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        self.looking = Some(Arc::new(looking));
        self
    }

    /// The client for all DynamoDB data sources.
    #[must_use]
    pub fn dynamodb(mut self, client: aws_sdk_dynamodb::Client) -> Self {
        self.dynamodb = Some(client);
        self
    }

    /// A Lambda function, under its name or its logical id in the template.
    #[must_use]
    pub fn lambda<F, R>(mut self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, LambdaError>> + Send + 'static,
    {
        self.lambdas.insert(name.into(), Arc::new(move |payload| function(payload).boxed()));
        self
    }

    /// API keys that callers may use.
    #[must_use]
    pub fn api_keys<K: Into<ApiKey>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys.extend(keys.into_iter().map(Into::into));
        self
    }

    /// An IAM caller and its access key.
    #[must_use]
    pub fn access_key(mut self, access_key: impl Into<String>, caller: IamCaller) -> Self {
        self.access_keys.push((access_key.into(), caller));
        self
    }

    /// A variable in `ctx.env`. It replaces a variable of the template with the same name.
    #[must_use]
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Other bounds than AppSync's. They also replace the bounds in the template.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// The clock for `util.time` and the expiry of keys: milliseconds since 1970.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Makes ids and random numbers the same in every run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes the lines that AppSync would write to the API's log: what handlers say with `console.error`, and the errors of each
    /// answer. There are none unless the template's `FieldLogLevel` asks for them.
    #[must_use]
    pub fn log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// Reads and compiles everything, and checks that it fits together, so that mistakes are found before the first request.
    pub fn build(self) -> Result<Api, Error> {
        let wiring = match &self.template {
            Some((yaml, parameters)) => {
                let parameters: Vec<(&str, &str)> =
                    parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                Wiring::read(yaml, &parameters)?
            }
            None => Wiring { modes: vec![Mode::ApiKey], introspection: true, ..Wiring::default() },
        };
        let sdl = match (&self.schema, &wiring.schema) {
            (Some(sdl), _) => sdl.clone(),
            (None, Some(code)) => self.read(code)?.1,
            (None, None) => return Err(Error::NoSchema),
        };
        let schema = Schema::read(&sdl)?;
        let mut limits = self.limits.clone().unwrap_or_default();
        if self.limits.is_none() {
            limits.query_depth = wiring.query_depth.unwrap_or(limits.query_depth).min(limits.query_depth);
            limits.resolvers = wiring.resolver_count.unwrap_or(limits.resolvers).min(limits.resolvers);
        }
        let host = Arc::new(Host::new(self.clock.clone(), self.seed, self.log.clone().filter(|_| wiring.logs_errors)));
        let mut engine = Engine::new(Arc::clone(&host), limits.clone());
        let mut resolvers: HashMap<String, HashMap<String, Resolver>> = HashMap::new();
        for resolver in &wiring.resolvers {
            if schema.field(&resolver.type_name, &resolver.field).is_none() {
                return Err(Error::NoField(format!("{}.{}", resolver.type_name, resolver.field)));
            }
            let made = match &resolver.kind {
                wiring::Kind::Unit(step) => Resolver::Unit(self.step(step, &wiring, &mut engine)?),
                wiring::Kind::Pipeline { code, functions } => Resolver::Pipeline {
                    script: self.script(code, &format!("{}.{}", resolver.type_name, resolver.field), &mut engine)?,
                    functions: functions
                        .iter()
                        .map(|step| self.step(step, &wiring, &mut engine))
                        .collect::<Result<_, _>>()?,
                },
            };
            resolvers.entry(resolver.type_name.clone()).or_default().insert(resolver.field.clone(), made);
        }
        engine.check()?;
        let mut gate = Gate::new(wiring.modes.clone());
        self.keys.iter().for_each(|key| gate.add_key(key));
        for (access_key, caller) in self.access_keys {
            gate.add_access_key(access_key, caller);
        }
        let environment: Map<String, Value> = wiring
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
            introspection: wiring.introspection,
            environment: json!(environment).to_string(),
            limits,
            host,
            hub: Hub::default(),
            code_dir: self.code_dir,
            documents: Documents::default(),
        };
        Ok(Api::new(inner))
    }

    fn step(&self, step: &wiring::Step, wiring: &Wiring, engine: &mut Engine) -> Result<Step, Error> {
        let no_source = || Error::NoDataSource { step: step.name.clone(), source_name: step.source.clone() };
        let source = match wiring.sources.get(&step.source).ok_or_else(no_source)? {
            wiring::Source::None => Source::None,
            wiring::Source::DynamoDb { table } => {
                let client = self.dynamodb.clone().ok_or_else(|| Error::NoClient(step.source.clone()))?;
                Source::DynamoDb { client, table: table.clone() }
            }
            wiring::Source::Lambda { names } => {
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

    fn read(&self, code: &Code) -> Result<(Option<String>, String), Error> {
        self.code_dir.read(code, &|place| {
            if let Some(looking) = &self.looking {
                looking(place);
            }
        })
    }

    fn script(&self, code: &Code, name: &str, engine: &mut Engine) -> Result<ScriptId, Error> {
        let (path, text) = self.read(code)?;
        let id = engine.add(&path.unwrap_or_else(|| name.to_owned()), &text)?;
        engine.script(id).needs_handlers().map_err(engine::Error::from)?;
        Ok(id)
    }
}
