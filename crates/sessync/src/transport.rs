//! HTTP to BigQuery: one call, and whether it can have had an effect.
//!
//! What matters about a call that failed is whether the other side may have acted on it. A connection that was
//! never made did nothing; everything else that went wrong without an answer is uncertain.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::auth::{self, Credentials};

/// A call.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    /// Path and query, from `/bigquery/v2` on.
    pub path: String,
    pub body: Option<String>,
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
    /// It did not reach the other side.
    #[error("no connection: {0}")]
    NotSent(String),
    /// It may have reached the other side.
    #[error("no answer: {0}")]
    Lost(String),
    #[error(transparent)]
    Credentials(#[from] auth::Error),
}

/// The way to BigQuery.
pub trait Transport: Sync {
    fn call(&self, request: Request, timeout: Duration) -> impl Future<Output = Result<Response, Error>> + Send;
}

/// The way over the network.
#[derive(Debug)]
pub struct Http {
    client: reqwest::Client,
    base: String,
    credentials: Option<Credentials>,
}

/// BigQuery itself.
const GOOGLE: &str = "https://bigquery.googleapis.com";

impl Http {
    /// To BigQuery, with credentials.
    pub fn google(client: reqwest::Client, credentials: Credentials) -> Http {
        Http { client, base: GOOGLE.to_owned(), credentials: Some(credentials) }
    }

    /// To a stand-in, without. `host` is what `BIGQUERY_EMULATOR_HOST` holds: a host and port, or a URL.
    pub fn emulator(client: reqwest::Client, host: &str) -> Http {
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
        let answer = call.timeout(timeout).send().await.map_err(no_answer)?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = answer.bytes().await.map_err(no_answer)?.to_vec();
        Ok(Response { status, retry_after, body })
    }
}

impl Transport for Http {
    async fn call(&self, request: Request, timeout: Duration) -> Result<Response, Error> {
        let answer = self.once(&request, timeout).await?;
        match &self.credentials {
            // A token may expire, or be taken back, before its time: one new one, then it is the caller's.
            Some(credentials) if answer.status == 401 => {
                credentials.forget_token().await;
                self.once(&request, timeout).await
            }
            _ => Ok(answer),
        }
    }
}

fn no_answer(error: reqwest::Error) -> Error {
    let not_sent = error.is_connect() || error.is_builder();
    let text = describe(&error.without_url());
    if not_sent { Error::NotSent(text) } else { Error::Lost(text) }
}

/// An error and its causes in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A client with ring underneath. Made only when there is something to send: it loads the root certificates.
pub fn client() -> Result<reqwest::Client, Error> {
    // Someone else may have installed a provider already; theirs is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("sessync/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::NotSent(describe(&error)))
}
