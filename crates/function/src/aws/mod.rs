//! AWS clients of a function: made when first used, shared, TLS by ring.
//!
//! Promise: no connection is opened and no secret fetched before it is needed, because that would slow down cold starts. Every
//! endpoint can be changed with `AWS_ENDPOINT_URL`. Secrets are fetched by name, kept for [`SECRET_KEPT`], and print as
//! `…`. Invocations carry the trace of the running one.
//!
//! Failure: a secret that cannot be read is an [`Error`] with the name of the secret, never its value. If a refresh
//! fails and a cached value exists, the cached value is used.

pub mod call;
mod invoke;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider, StalledStreamProtectionConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_types::error::display::DisplayErrorContext;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use tokio::time::Instant;

pub use call::{Error as CallError, Refusal};
pub use invoke::{Answered, Invoker};

/// How long a secret is used before it is fetched again. A rotated secret is noticed after this time at the latest.
pub const SECRET_KEPT: Duration = Duration::from_secs(300);
/// How long a cached secret is used after SSM did not give a newer one. Without this pause, instances whose secret is old would ask again
/// with every request, and a busy SSM would stay busy.
const REFRESH_PAUSE: Duration = Duration::from_secs(30);
/// How many parameters SSM returns per call.
const PARAMETERS_PER_CALL: usize = 10;
/// How often the first read of a secret is tried. SSM answers 40 reads per second, and hundreds of instances may start in the same second;
/// with the SDK's three tries, those at the end of the queue failed. A refresh is not tried so often, because the cached value will do.
const FIRST_READS: u32 = 14;
/// The pause after the first try, at most. It doubles with every try, up to the longest pause. All pauses together are six seconds on
/// average, in which SSM answers 280 instances, and hardly ever reach the ten seconds that a function has for its start.
const FIRST_READ_BACKOFF: Duration = Duration::from_millis(250);
const FIRST_READ_LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The prefix under which SSM shows secrets of Secrets Manager.
pub const SECRETS_MANAGER: &str = "/aws/reference/secretsmanager/";
/// The time limit for a connection. A store in the same region answers sooner, or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// The time limit of one attempt of a call to DynamoDB. Answers take milliseconds, so an attempt that takes longer was lost.
const DYNAMODB_ATTEMPT: Duration = Duration::from_millis(1_500);

const GET_PARAMETERS: call::Name = call::Name { service: "ssm", operation: "GetParameters" };

/// Why AWS did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SSM does not know the parameter, or the role may not read it.
    #[error("could not read the secret {name}: {reason}")]
    Secret { name: String, reason: String },
}

/// The AWS clients of one function. Cheap to clone.
#[derive(Clone)]
pub struct Aws(Arc<Inner>);

struct Inner {
    config: SdkConfig,
    dynamodb: OnceLock<aws_sdk_dynamodb::Client>,
    invoker: OnceLock<Invoker>,
    /// SSM's GetParameters, for a first read and for a refresh.
    first_read: OnceLock<call::Call>,
    refresh: OnceLock<call::Call>,
    /// Each secret, and until when it is used without asking for it again. Held for look-ups only, never across a call.
    secrets: Mutex<HashMap<String, (Instant, Secret)>>,
}

impl fmt::Debug for Aws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aws").field("region", &self.0.config.region()).finish_non_exhaustive()
    }
}

impl Aws {
    /// Configured as Lambda configures a function: region, credentials and endpoint are variables. The SDK's own search
    /// would also read files and ask other services, which have nothing for a function and would slow down every cold start.
    pub fn of_function() -> Self {
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(variable).map(Region::new);
        let mut config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(region)
            .credentials_provider(SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()))
            .http_client(https());
        config.set_endpoint_url(variable("AWS_ENDPOINT_URL"));
        Self::new(config.build())
    }

    /// Configured as the SDK finds it, with this endpoint, and with `region` if the process names none. For the operator's tool.
    pub async fn of_process_at(endpoint: Option<&str>, region: &'static str) -> Self {
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(https());
        if let Some(endpoint) = endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        let config = loader.load().await;
        match config.region() {
            Some(_) => Self::new(config),
            None => Self::new(config.into_builder().region(Region::new(region)).build()),
        }
    }

    /// At one endpoint with made-up credentials: for the local platform and for the servers of tests.
    pub fn at(endpoint: &str) -> Self {
        let credentials = Credentials::new("local", "local", None, None, "local");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("ap-northeast-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(endpoint)
            .http_client(http())
            .build();
        Self::new(config)
    }

    /// With the caller's configuration.
    pub fn new(config: SdkConfig) -> Self {
        Self(Arc::new(Inner {
            config,
            dynamodb: OnceLock::new(),
            invoker: OnceLock::new(),
            first_read: OnceLock::new(),
            refresh: OnceLock::new(),
            secrets: Mutex::default(),
        }))
    }

    /// The configuration, for clients that no function needs but the operator's tool does.
    pub fn config(&self) -> &SdkConfig {
        &self.0.config
    }

    /// The same clients, but with this one for DynamoDB, which may inject faults or count. Cached secrets are not copied.
    #[must_use]
    pub fn with_dynamodb(&self, client: aws_sdk_dynamodb::Client) -> Self {
        let other = Self::new(self.0.config.clone());
        let _ = other.0.dynamodb.set(client);
        other
    }

    /// The same clients, but DynamoDB is reached through `http`, with the timeouts that it always has.
    #[must_use]
    pub fn with_dynamodb_http(&self, http: SharedHttpClient) -> Self {
        let config = self.dynamodb_config().http_client(http).build();
        self.with_dynamodb(aws_sdk_dynamodb::Client::from_conf(config))
    }

    fn dynamodb_config(&self) -> aws_sdk_dynamodb::config::Builder {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(DYNAMODB_ATTEMPT)
            .build();
        aws_sdk_dynamodb::config::Builder::from(&self.0.config)
            .timeout_config(timeouts)
            .retry_partition(call::own_retries("dynamodb"))
            // The time limit of an attempt ends slow streams sooner, and this protection costs CPU.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
    }

    /// The DynamoDB client.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let make = || aws_sdk_dynamodb::Client::from_conf(self.dynamodb_config().build());
        self.0.dynamodb.get_or_init(make).clone()
    }

    /// Invokes other functions; its calls carry the running invocation's trace.
    pub fn invoker(&self) -> Invoker {
        self.0.invoker.get_or_init(|| Invoker::new(self.0.config.clone())).clone()
    }

    /// SSM's GetParameters. `is_first`: nothing is cached, so the caller fails without an answer.
    fn parameters(&self, is_first: bool) -> &call::Call {
        let make = |retries| call::Call::new(&self.0.config, GET_PARAMETERS, retries, None);
        if is_first {
            let patient = RetryConfig::standard()
                .with_max_attempts(FIRST_READS)
                .with_initial_backoff(FIRST_READ_BACKOFF)
                .with_max_backoff(FIRST_READ_LONGEST_PAUSE);
            self.0.first_read.get_or_init(|| make(Some(patient)))
        } else {
            self.0.refresh.get_or_init(|| make(None))
        }
    }

    /// Opens the connection to DynamoDB while the function starts, when Lambda gives it a whole core. A failure does not
    /// matter: a store that is down now may be back at the first request.
    pub async fn warm(&self, table: &str) {
        if let Err(error) = self.dynamodb().describe_table().table_name(table).send().await {
            tracing::debug!(table, error = %DisplayErrorContext(&error), "could not open a connection to table {table} in advance; the first request opens it");
        }
    }

    /// A secret by name: an SSM SecureString (`/slack/prod/token`), or a secret of Secrets Manager as SSM shows it
    /// (`/aws/reference/secretsmanager/NAME`).
    pub async fn secret(&self, name: &str) -> Result<Secret, Error> {
        let mut found = self.secrets(&[name]).await?;
        found.pop().ok_or_else(|| Error::Secret {
            name: name.to_owned(),
            reason: "SSM did not return a value for it".to_owned(),
        })
    }

    /// Several secrets with as few calls as possible, in the order of `names`.
    pub async fn secrets(&self, names: &[&str]) -> Result<Vec<Secret>, Error> {
        let stale: Vec<&str> = {
            let kept = self.kept();
            let fresh = |name: &&str| kept.get(*name).is_some_and(|(until, _)| Instant::now() < *until);
            names.iter().copied().filter(|name| !fresh(name)).collect()
        };
        for call in stale.chunks(PARAMETERS_PER_CALL) {
            let is_first = call.iter().any(|name| !self.kept().contains_key(*name));
            let fetched = fetch(self.parameters(is_first), call).await;
            let mut kept = self.kept();
            match fetched {
                Ok(values) => {
                    let until = Instant::now() + SECRET_KEPT;
                    kept.extend(values.into_iter().map(|(name, secret)| (name, (until, secret))));
                }
                // Without a cached value the caller gets the error, which names the secret.
                Err(error) if call.iter().any(|name| !kept.contains_key(*name)) => {
                    return Err(error);
                }
                Err(error) => {
                    for name in call {
                        kept.entry((*name).to_owned()).and_modify(|(until, _)| *until = Instant::now() + REFRESH_PAUSE);
                    }
                    let secrets = call.join(", ");
                    let error = &error as &(dyn std::error::Error + 'static);
                    tracing::warn!(secrets, error, "could not refresh secrets {secrets}; using the cached ones");
                }
            }
        }
        let kept = self.kept();
        let found = names.iter().map(|name| match kept.get(*name) {
            Some((_, secret)) => Ok(secret.clone()),
            None => {
                Err(Error::Secret { name: (*name).to_owned(), reason: "SSM has no parameter of this name".to_owned() })
            }
        });
        found.collect()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, Secret)>> {
        telemetry::lock(&self.0.secrets)
    }
}

async fn fetch(parameters: &call::Call, names: &[&str]) -> Result<Vec<(String, Secret)>, Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Found {
        #[serde(default)]
        parameters: Vec<Parameter>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Parameter {
        name: Option<String>,
        value: Option<String>,
    }
    let failed = |reason: String| Error::Secret { name: names.join(", "), reason };
    let body = serde_json::json!({ "Names": names, "WithDecryption": true });
    let request = call::Request::json("AmazonSSM.GetParameters", &body);
    let answer = parameters.send(request).await.map_err(|error| failed(DisplayErrorContext(&error).to_string()))?;
    // serde_json's errors name a place in the text, but may quote a part of it, which could be a secret.
    let answer: Found = serde_json::from_slice(&answer.body).map_err(|error| {
        failed(format!("SSM's answer cannot be read at line {}, column {}", error.line(), error.column()))
    })?;
    let mut found = Vec::new();
    for parameter in answer.parameters {
        let (Some(name), Some(value)) = (parameter.name, parameter.value) else {
            continue;
        };
        // For a secret of Secrets Manager, SSM may return the name without the prefix.
        let asked = names.iter().find(|asked| **asked == name || asked.strip_prefix(SECRETS_MANAGER) == Some(&name));
        found.push((asked.map_or(name, |asked| (*asked).to_owned()), Secret::new(value)));
    }
    Ok(found)
}

/// A value that is never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A variable of the process, unless it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// TLS by ring: aws-lc adds 43 ms to every cold start for its entropy.
fn https() -> SharedHttpClient {
    Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}

/// Plain HTTP for loopback.
fn http() -> SharedHttpClient {
    Builder::new().build_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself() {
        let secret = Secret::new("hush");
        assert!(!format!("{secret:?}").contains("hush"));
        assert_eq!(secret.expose(), "hush");
    }
}
