//! HTTP to BigQuery: one call, and whether it can have had an effect.
//!
//! A call that failed before it was sent had no effect. After every other failure without an answer it is uncertain
//! whether BigQuery acted on it.
//!
//! `Network` connects when the first call is made. A run with nothing to send opens no connection, loads no
//! certificate and reads no key.

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http_client::NoAnswer;

use super::auth::{self, Credentials, KeyFile, Places};

/// A call.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    /// Path and query, from `/bigquery/v2` on.
    pub path: String,
    /// A copy of it costs nothing: a request can be as large as a batch.
    pub body: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Get => "GET",
            Method::Post => "POST",
        })
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// The header's text.
    pub retry_after: Option<String>,
    pub body: Vec<u8>,
}

/// No answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// BigQuery did not get the request.
    #[error("no connection: {0}")]
    NotSent(String),
    /// BigQuery may have got the request.
    #[error("no answer: {0}")]
    Lost(String),
    #[error(transparent)]
    Credentials(#[from] auth::Error),
}

impl From<NoAnswer> for Error {
    fn from(NoAnswer { may_have_arrived, reason }: NoAnswer) -> Self {
        if may_have_arrived { Error::Lost(reason) } else { Error::NotSent(reason) }
    }
}

/// Makes calls to BigQuery.
pub trait Transport: Sync {
    fn call(&self, request: Request, timeout: Duration) -> impl Future<Output = Result<Response, Error>> + Send;
}

/// Where BigQuery is, and with which credentials it is called.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The value of `BIGQUERY_EMULATOR_HOST`. No credentials are needed.
    Emulator(String),
    Google {
        key: Option<KeyFile>,
        places: Places,
    },
}

/// Calls over the network.
#[derive(Debug)]
pub(crate) struct Network {
    target: Target,
    http: OnceLock<Http>,
}

impl Network {
    pub(crate) fn new(target: Target) -> Network {
        Network { target, http: OnceLock::new() }
    }

    fn http(&self) -> Result<&Http, Error> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let client = client()?;
        let http = match &self.target {
            Target::Emulator(host) => Http::emulator(client, host),
            Target::Google { key: Some(key), .. } => Http::google(client, Credentials::from_key(key)?),
            Target::Google { key: None, places } => Http::google(client, Credentials::default_from(places)?),
        };
        Ok(self.http.get_or_init(|| http))
    }
}

impl Transport for Network {
    async fn call(&self, request: Request, timeout: Duration) -> Result<Response, Error> {
        self.http()?.call(&request, timeout).await
    }
}

/// A client. It loads the root certificates, so it is made only when there is something to send. It honours the
/// usual proxy variables.
fn client() -> Result<reqwest::Client, Error> {
    http_client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("sessync/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::NotSent(http_client::reason(error)))
}

/// A client and where it calls.
#[derive(Debug)]
struct Http {
    client: reqwest::Client,
    base: String,
    credentials: Option<Credentials>,
}

/// The base URL of BigQuery itself.
const GOOGLE: &str = "https://bigquery.googleapis.com";
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Http {
    fn google(client: reqwest::Client, credentials: Credentials) -> Http {
        Http { client, base: GOOGLE.to_owned(), credentials: Some(credentials) }
    }

    /// `host` is a host and port, or a URL.
    fn emulator(client: reqwest::Client, host: &str) -> Http {
        let host = host.trim().trim_end_matches('/');
        let base = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
        Http { client, base, credentials: None }
    }

    async fn once(&self, request: &Request, timeout: Duration) -> Result<Response, Error> {
        let url = format!("{}{}", self.base, request.path);
        let mut call = match request.method {
            Method::Get => self.client.get(url),
            Method::Post => self.client.post(url),
        };
        if let Some(credentials) = &self.credentials {
            call = call.bearer_auth(credentials.token(&self.client, timeout).await?);
        }
        if let Some(body) = &request.body {
            call = call.header("content-type", "application/json").body(body.clone());
        }
        let answer = call.timeout(timeout).send().await.map_err(NoAnswer::from)?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = answer.bytes().await.map_err(NoAnswer::from)?.to_vec();
        Ok(Response { status, retry_after, body })
    }

    async fn call(&self, request: &Request, timeout: Duration) -> Result<Response, Error> {
        let answer = self.once(request, timeout).await?;
        match &self.credentials {
            // A token can end before its time. Try one new token; a second 401 is the caller's.
            Some(credentials) if answer.status == 401 => {
                credentials.forget_token().await;
                self.once(request, timeout).await
            }
            _ => Ok(answer),
        }
    }
}
