//! Reads the files and builds the API.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use appsync::{Api, LambdaError};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_smithy_http_client::Builder as HttpClient;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use emulator::Outside;
use emulator::dynamodb::{self, Engine, faults::Faulty};
use template::Template;

use crate::lambda::Functions;
use crate::log::Log;
use crate::options::Serve;
use crate::watch::Seen;

/// Why there is no API. Each message is for the person who started the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("could not read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Template { path: PathBuf, source: template::Error },
    #[error(transparent)]
    Build(#[from] appsync::Error),
    #[error(transparent)]
    Store(#[from] dynamodb::Error),
    #[error(
        "--dynamodb {url} is not on this machine: every program on this machine could do with its tables what your credentials may; if you want that, add --allow-remote"
    )]
    Remote { url: String },
    #[error("--lambda: {0}")]
    Lambda(#[from] reqwest::Error),
}

/// Everything that outlives a change of a file.
pub(crate) struct Loader {
    options: Serve,
    store: Store,
    functions: Functions,
    log: Log,
}

/// An API that was just built.
pub(crate) struct Loaded {
    pub(crate) api: Api,
    pub(crate) tables: Vec<String>,
    /// The functions that the template names and nobody serves.
    pub(crate) missing: BTreeSet<String>,
}

enum Store {
    Embedded { engine: Engine, client: Client },
    At { client: Client },
}

impl Loader {
    pub(crate) fn new(options: Serve, log: Log) -> Result<Self, Error> {
        if let Some(url) =
            options.dynamodb.as_ref().filter(|url| !options.allow_remote && !loopback::is_this_machine(url))
        {
            return Err(Error::Remote { url: url.clone() });
        }
        let store = match (&options.dynamodb, &options.data) {
            (Some(url), _) => Store::At { client: at(url) },
            (None, Some(file)) => embedded(Engine::open(file)?),
            (None, None) => embedded(Engine::in_memory()?),
        };
        let functions = Functions::new(options.lambda.clone())?;
        Ok(Self { options, store, functions, log })
    }

    /// Reads all files and builds the API. Also returns what each file looked like, and which were looked for in vain.
    pub(crate) fn load(&self) -> (Result<Loaded, Error>, Seen) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let loaded = self.load_and_see(&seen);
        let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        (loaded, seen)
    }

    fn load_and_see(&self, seen: &Arc<Mutex<Seen>>) -> Result<Loaded, Error> {
        let look = |path: &Path| seen.lock().unwrap_or_else(PoisonError::into_inner).look(path);
        let read = |path: &Path| {
            look(path);
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
        };
        let path = &self.options.template;
        let yaml = read(path)?;
        let schema = self.options.schema.as_deref().map(read).transpose()?;
        let parameters: BTreeMap<String, serde_json::Value> =
            self.options.parameters.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let of_template = |source| Error::Template { path: path.clone(), source };
        let template = Template::read(&yaml, &parameters).map_err(of_template)?;
        let given: Vec<(&str, &str)> =
            self.options.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let client = match &self.store {
            Store::Embedded { client, .. } | Store::At { client } => client.clone(),
        };
        let mut functions: BTreeSet<String> = BTreeSet::new();
        let api = loop {
            let (log, seen) = (self.log.clone(), Arc::clone(seen));
            let mut builder = Api::builder()
                .template(yaml.as_str(), &given)
                .code_dir(self.options.code_dir())
                .looking(move |place| seen.lock().unwrap_or_else(PoisonError::into_inner).look(place))
                .dynamodb(client.clone())
                .log(move |line| log.of_api(line))
                .api_keys([self.options.api_key.as_str()]);
            if let Some(schema) = &schema {
                builder = builder.schema(schema.as_str());
            }
            for name in &functions {
                builder = builder.lambda(name.as_str(), self.functions.function(name));
            }
            match builder.build() {
                // The builder tells which functions the template needs, one at a time.
                Err(appsync::Error::NoFunction { names, source_name }) => match names.into_iter().next() {
                    Some(name) if functions.insert(name.clone()) => {}
                    _ => return Err(appsync::Error::NoFunction { names: Vec::new(), source_name }.into()),
                },
                built => break built?,
            }
        };
        // After everything was read, so that a mistake changes nothing.
        let tables = template.tables();
        if let Store::Embedded { engine, .. } = &self.store {
            for table in &tables {
                engine.ensure_table(table)?;
            }
        }
        let missing = if self.options.lambda.is_some() { BTreeSet::new() } else { functions };
        Ok(Loaded { api, tables: tables.into_iter().map(|table| table.name).collect(), missing })
    }

    pub(crate) fn options(&self) -> &Serve {
        &self.options
    }
}

fn embedded(engine: Engine) -> Store {
    let faulty = Faulty::new(engine.clone(), ichido::SystemClock, 0);
    let client = client("http://127.0.0.1", dynamodb::http_client(faulty, Outside::new()));
    Store::Embedded { engine, client }
}

/// A DynamoDB at an address, with the region and the credentials of the environment if there are any.
fn at(url: &str) -> Client {
    let http = if url.starts_with("https://") {
        HttpClient::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
    } else {
        HttpClient::new().build_http()
    };
    client(url, http)
}

fn client(url: &str, http: SharedHttpClient) -> Client {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let credentials = match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => Credentials::new(id, secret, variable("AWS_SESSION_TOKEN"), None, "environment"),
        _ => Credentials::new("local", "local", None, None, "appsync serve"),
    };
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(region.unwrap_or_else(|| "us-east-1".to_owned())))
        .credentials_provider(credentials)
        .endpoint_url(url)
        .http_client(http)
        .build();
    Client::from_conf(config)
}

/// The answer for a function that nobody serves.
pub(crate) fn no_function(name: &str) -> LambdaError {
    LambdaError::new(format!(
        "there is no function {name} here; start it and name its Invoke API with --lambda, for example --lambda http://127.0.0.1:9000"
    ))
}
