//! Fetching a feed: politely, and without being led astray.
//!
//! Promise: at most [`MAX_BYTES`] are read (also after decompression), at most [`MAX_REDIRECTS`] redirects are
//! followed, a try takes at most [`TRY_TIMEOUT`], and there are at most [`RETRIES`] more of them, only after failures
//! that may pass. Every connection goes to an address that was checked after its name was resolved, redirects
//! included: the connection uses the very addresses that were checked. Only https, unless [`Policy::local`].
//!
//! The URL may hold a token: it is in no error and in no log. Errors say what went wrong with which host.

mod address;
mod body;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

pub use address::is_public;
use ichido::Clock;
use reqwest::{
    StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header,
};
use url::{Host, Url};

/// Largest document, compressed or not.
pub const MAX_BYTES: usize = 15 * 1024 * 1024;
pub const MAX_REDIRECTS: usize = 5;
/// How long one try may take, from the connection to the last byte.
pub const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a failed try is repeated.
pub const RETRIES: u32 = 3;
/// The pause before the first retry, at most; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A `Retry-After` up to this is waited for within the run; a longer one ends it.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longest validator that is kept.
const MAX_VALIDATOR: usize = 1_024;

pub const USER_AGENT: &str =
    concat!("ichido-feeds/", env!("CARGO_PKG_VERSION"), " (+https://github.com/ichido-rs/ichido)");

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the feed's URL cannot be read as a URL")]
    Url,
    #[error("{host}: only https is fetched")]
    NotHttps { host: String },
    #[error("{host} is, or resolves to, the address {address}, which is not of the public internet")]
    Address { host: String, address: IpAddr },
    #[error("{host} could not be resolved: {reason}")]
    Resolve { host: String, reason: String },
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("{host} redirects to nowhere")]
    RedirectWithoutLocation { host: String },
    #[error("{host} answered {status}")]
    Status { host: String, status: u16 },
    #[error("{host} asks to be left alone for {} s", .wait.as_secs())]
    Later { host: String, wait: Duration },
    #[error("{host} sent more than {MAX_BYTES} bytes")]
    TooLarge { host: String },
    #[error("{host} sent a body in the unknown coding {coding:?}")]
    Coding { host: String, coding: String },
    #[error("{host} sent a damaged body: {reason}")]
    Damaged { host: String, reason: String },
    #[error("{host} did not answer in time")]
    Timeout { host: String },
    #[error("{host}: {reason}")]
    Connection { host: String, reason: String },
    #[error("the HTTP client could not be made: {0}")]
    Client(String),
}

impl Error {
    /// May the same request succeed a moment later?
    fn is_transient(&self) -> bool {
        match self {
            Error::Status { status, .. } => *status == 429 || *status == 408 || *status >= 500,
            Error::Timeout { .. } | Error::Connection { .. } | Error::Resolve { .. } | Error::Damaged { .. } => true,
            _ => false,
        }
    }
}

/// From where feeds may be fetched.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    local: bool,
    /// Names that stand for one address, unchecked: how tests reach their own server.
    pinned: HashMap<String, IpAddr>,
}

impl Policy {
    /// https from public addresses: the only one that templates may know.
    pub fn public() -> Self {
        Policy::default()
    }

    /// Anything, also http from this machine: for local runs.
    pub fn local() -> Self {
        Policy { local: true, ..Policy::default() }
    }

    /// This name stands for this address, which is neither resolved nor checked, and may be asked over http.
    #[must_use]
    pub fn pin(mut self, name: impl Into<String>, address: IpAddr) -> Self {
        self.pinned.insert(name.into(), address);
        self
    }

    fn check_url(&self, url: &Url) -> Result<(), Error> {
        let host = host_of(url);
        let pinned = self.pinned.contains_key(&host);
        match url.scheme() {
            "https" => {}
            "http" if self.local || pinned => {}
            _ => return Err(Error::NotHttps { host }),
        }
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) => None,
            None => return Err(Error::Url),
        };
        match literal {
            Some(address) => self.check(&host, address),
            None => Ok(()),
        }
    }

    fn check(&self, host: &str, address: IpAddr) -> Result<(), Error> {
        if self.local || is_public(address) { Ok(()) } else { Err(Error::Address { host: host.to_owned(), address }) }
    }

    /// All the addresses of a name; one bad one spoils them all, because which of them is used is not ours to say.
    async fn resolve(&self, host: &str) -> Result<Vec<SocketAddr>, Error> {
        if let Some(address) = self.pinned.get(host) {
            return Ok(vec![SocketAddr::new(*address, 0)]);
        }
        let found = tokio::net::lookup_host((host, 0))
            .await
            .map_err(|error| Error::Resolve { host: host.to_owned(), reason: error.kind().to_string() })?;
        let found: Vec<SocketAddr> = found.collect();
        for address in &found {
            self.check(host, address.ip())?;
        }
        Ok(found)
    }
}

/// Resolves names for the HTTP client, under the policy.
#[derive(Debug)]
struct Resolver(Arc<Policy>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let found = policy.resolve(name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// What the feed said of the version that we have: sent back as it was, never looked into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

impl Validators {
    fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

#[derive(Debug)]
pub enum Fetched {
    /// 304: nothing has changed since the validators were given out.
    Unchanged {
        fresh_for: Option<Duration>,
    },
    Changed(Document),
}

#[derive(Debug)]
pub struct Document {
    pub body: Vec<u8>,
    pub charset: Option<String>,
    /// Where it was found in the end. May hold a token.
    pub url: Url,
    pub validators: Validators,
    pub fresh_for: Option<Duration>,
}

/// Fetches feeds; one per process.
#[derive(Clone)]
pub struct Fetcher {
    client: reqwest::Client,
    policy: Arc<Policy>,
    clock: Arc<dyn Clock>,
    try_timeout: Duration,
    /// A number below one, drawn for each pause.
    jitter: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Fetcher {
    pub fn new(
        policy: Policy,
        clock: Arc<dyn Clock>,
        jitter: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let policy = Arc::new(policy);
        let client = crate::http::builder()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Arc::new(Resolver(policy.clone())))
            .build()
            .map_err(|error| Error::Client(error.to_string()))?;
        Ok(Fetcher { client, policy, clock, try_timeout: TRY_TIMEOUT, jitter: Arc::new(jitter) })
    }

    /// With another time for a try: for tests, which have none to lose.
    #[must_use]
    pub fn with_try_timeout(mut self, timeout: Duration) -> Self {
        self.try_timeout = timeout;
        self
    }

    /// Fetches a feed unless it is unchanged. `deadline_in` is how long there is for it altogether.
    pub async fn fetch(&self, url: &Url, validators: &Validators, deadline_in: Duration) -> Result<Fetched, Error> {
        let started = self.clock.now();
        let mut pause = FIRST_PAUSE;
        let mut retries = 0;
        loop {
            let host = host_of(url);
            let tried = tokio::time::timeout(self.try_timeout, self.follow(url, validators)).await;
            let error = match tried.unwrap_or(Err(Failed::new(Error::Timeout { host: host.clone() }))) {
                Ok(fetched) => return Ok(fetched),
                Err(error) => error,
            };
            let jittered = pause.mul_f64(0.5 + (self.jitter)() / 2.0);
            let wait = error.retry_after.unwrap_or(jittered).max(jittered);
            let spent = self.clock.now().since(started);
            let fits = wait <= LONGEST_PAUSE && spent + wait + self.try_timeout <= deadline_in;
            if let Some(wait) = error.retry_after.filter(|wait| *wait > LONGEST_PAUSE) {
                return Err(Error::Later { host, wait });
            }
            if !error.error.is_transient() || retries == RETRIES || !fits {
                return Err(error.error);
            }
            tracing::debug!(error = %error.error, retry = retries + 1, pause_ms = wait.as_millis() as u64, "fetching again");
            self.clock.sleep(wait).await;
            retries += 1;
            pause *= 2;
        }
    }

    /// One try: the request and what it is redirected to.
    async fn follow(&self, url: &Url, validators: &Validators) -> Result<Fetched, Failed> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.policy.check_url(&url)?;
            let response = self.request(&url, validators).await?;
            let host = host_of(&url);
            let status = response.status();
            if status == StatusCode::NOT_MODIFIED && !validators.is_empty() {
                return Ok(Fetched::Unchanged { fresh_for: fresh_for(response.headers()) });
            }
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                let next = location.and_then(|location| url.join(location).ok());
                url = next.ok_or(Error::RedirectWithoutLocation { host })?;
                continue;
            }
            if status != StatusCode::OK {
                let retry_after = retry_after(response.headers(), self.clock.now());
                return Err(Failed { error: Error::Status { host, status: status.as_u16() }, retry_after });
            }
            let headers = response.headers();
            let text = |name| {
                let value = headers.get(name).and_then(|value| value.to_str().ok())?;
                (value.len() <= MAX_VALIDATOR).then(|| value.to_owned())
            };
            let validators = Validators { etag: text(header::ETAG), last_modified: text(header::LAST_MODIFIED) };
            let charset = text(header::CONTENT_TYPE).as_deref().and_then(charset_of);
            let fresh_for = fresh_for(headers);
            let body = body::read(response, &host).await?;
            return Ok(Fetched::Changed(Document { body, charset, url, validators, fresh_for }));
        }
        Err(Error::Redirects.into())
    }

    async fn request(&self, url: &Url, validators: &Validators) -> Result<reqwest::Response, Error> {
        let host = host_of(url);
        let mut request = self
            .client
            .get(url.clone())
            .header(
                header::ACCEPT,
                "application/atom+xml, application/rdf+xml, application/rss+xml, application/xml;q=0.9, */*;q=0.1",
            )
            .header(header::ACCEPT_ENCODING, "gzip");
        if let Some(etag) = &validators.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        if let Some(at) = &validators.last_modified {
            request = request.header(header::IF_MODIFIED_SINCE, at);
        }
        match request.send().await {
            Ok(response) => Ok(response),
            Err(error) => {
                Err(refused(&error).unwrap_or_else(|| Error::Connection { host, reason: crate::http::reason(error) }))
            }
        }
    }
}

/// An error of the resolver comes back wrapped in the client's.
fn refused(error: &reqwest::Error) -> Option<Error> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(Error::Address { host, address }) = error.downcast_ref() {
            return Some(Error::Address { host: host.clone(), address: *address });
        }
        source = error.source();
    }
    None
}

struct Failed {
    error: Error,
    retry_after: Option<Duration>,
}

impl Failed {
    fn new(error: Error) -> Self {
        Failed { error, retry_after: None }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::new(error)
    }
}

/// Only the host of a URL is ever shown.
fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or("(no host)").to_owned()
}

fn charset_of(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// `Retry-After`: seconds, or a date.
pub(crate) fn retry_after(headers: &header::HeaderMap, now: ichido::Timestamp) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let at = jiff::fmt::rfc2822::parse(value).ok()?.timestamp().as_millisecond();
    u64::try_from(at).ok().map(|at| ichido::Timestamp::from_millis(at).since(now))
}

/// `Cache-Control: max-age`, unless the answer must be asked for again anyway.
fn fresh_for(headers: &header::HeaderMap) -> Option<Duration> {
    let value = headers.get(header::CACHE_CONTROL)?.to_str().ok()?.to_ascii_lowercase();
    let directives = || value.split(',').map(str::trim);
    if directives().any(|directive| directive == "no-cache" || directive == "no-store") {
        return None;
    }
    let seconds =
        directives().find_map(|directive| directive.strip_prefix("max-age=")?.trim_matches('"').parse::<u32>().ok())?;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}
