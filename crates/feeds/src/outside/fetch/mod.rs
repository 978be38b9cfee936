//! Fetches a feed, politely, and only from the public internet.
//!
//! Promise: it reads at most [`MAX_BYTES`] (also after decompression) and follows at most [`MAX_REDIRECTS`] redirects. A try takes at
//! most [`TRY_TIMEOUT`], and there are at most [`RETRIES`] retries, only after failures that may pass. Every address is
//! checked after its name was resolved, also after a redirect, and the connection uses exactly the addresses that were checked.
//! Only https is fetched; under [`Policy::local`] also http from this machine.
//!
//! The URL may contain a token, so it is in no error and in no log. Errors name the host.

mod address;
mod body;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ichido::Clock;
use reqwest::{
    StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header,
};
use url::{Host, Url};

use super::sender::Sender;
use address::is_public;

/// Largest document, compressed or not.
pub const MAX_BYTES: usize = 15 * 1024 * 1024;
const MAX_REDIRECTS: usize = 5;
/// How long one try may take, from the connection to the last byte.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a failed try is repeated.
const RETRIES: u32 = 3;
/// Longest pause before the first retry. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A `Retry-After` up to this is waited for within the run. A longer one ends the read.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longest validator that is kept.
const MAX_VALIDATOR: usize = 1_024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the feed's address is not a URL; correct the secret that holds it")]
    Url,
    #[error("{host} was not asked, because only https is allowed")]
    NotHttps { host: String },
    #[error("{host} was not asked, because its address {address} is not on the public internet")]
    Address { host: String, address: IpAddr },
    #[error("could not resolve {host}: {reason}")]
    Resolve { host: String, reason: String },
    #[error("stopped after {MAX_REDIRECTS} redirects, the first of them from {host}")]
    Redirects { host: String },
    #[error("{host} sent a redirect without a usable Location")]
    RedirectWithoutLocation { host: String },
    #[error("{host} answered {status}")]
    Status { host: String, status: u16 },
    #[error("{host} asked to be left alone for {} s", .wait.as_secs())]
    Later { host: String, wait: Duration },
    #[error("{host} sent more than {MAX_BYTES} bytes")]
    TooLarge { host: String },
    #[error("{host} sent a body in the unknown content coding {coding:?}")]
    Coding { host: String, coding: String },
    #[error("{host} sent a damaged body: {reason}")]
    Damaged { host: String, reason: String },
    #[error("{host} did not answer in time")]
    Timeout { host: String },
    #[error("{host}: {reason}")]
    Connection { host: String, reason: String },
    #[error("could not make the HTTP client: {0}")]
    Client(String),
}

impl Error {
    /// Whether the same request may succeed a moment later.
    fn is_transient(&self) -> bool {
        match self {
            Error::Status { status, .. } => *status == 429 || *status == 408 || *status >= 500,
            Error::Timeout { .. } | Error::Connection { .. } | Error::Resolve { .. } | Error::Damaged { .. } => true,
            _ => false,
        }
    }
}

/// Where feeds may be fetched from.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Whether this machine itself may be asked, over http.
    loopback: bool,
    /// Names with a fixed address that is not checked: this is how tests reach their own server.
    pinned: HashMap<String, IpAddr>,
}

impl Policy {
    /// https from public addresses. This is the only policy that templates may use.
    pub fn public() -> Self {
        Policy::default()
    }

    /// As [`Policy::public`], and also http from this machine: for local runs.
    pub fn local() -> Self {
        Policy { loopback: true, ..Policy::default() }
    }

    /// Gives a name a fixed address, which is neither resolved nor checked and may be asked over http.
    #[must_use]
    pub fn pin(mut self, name: impl Into<String>, address: IpAddr) -> Self {
        self.pinned.insert(name.into(), address);
        self
    }

    /// Whether a URL may be asked at all. The addresses of a name are checked when it is resolved.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), Error> {
        let host = host_of(url);
        let pinned = self.pinned.contains_key(&host);
        match url.scheme() {
            "https" => {}
            "http" if pinned || (self.loopback && names_loopback(url)) => {}
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

    /// An HTTP client that connects only to addresses that the policy allows.
    pub(crate) fn client(self: &Arc<Self>) -> Result<reqwest::Client, Error> {
        let client = super::client().dns_resolver(Arc::new(Resolver(self.clone())));
        client.build().map_err(|error| Error::Client(error.to_string()))
    }

    fn check(&self, host: &str, address: IpAddr) -> Result<(), Error> {
        let allowed = is_public(address) || (self.loopback && address.is_loopback());
        if allowed { Ok(()) } else { Err(Error::Address { host: host.to_owned(), address }) }
    }

    /// All addresses of a name. One that is not allowed rules out all, because we do not choose which of them is used.
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

/// What the server sent to identify the version that we have. It is sent back unchanged.
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
    /// 304: nothing has changed since we got the validators.
    Unchanged {
        fresh_for: Option<Duration>,
        moved: Option<Url>,
    },
    Changed(Document),
}

#[derive(Debug)]
pub struct Document {
    pub body: Vec<u8>,
    pub charset: Option<String>,
    /// The URL after all redirects. It may contain a token.
    pub url: Url,
    pub validators: Validators,
    pub fresh_for: Option<Duration>,
    /// Where the feed redirects permanently (301, 308). It may contain a token.
    pub moved: Option<Url>,
}

/// Fetches feeds; one per process.
#[derive(Clone)]
pub struct Fetcher {
    client: Sender,
    policy: Arc<Policy>,
    clock: Arc<dyn Clock>,
    try_timeout: Duration,
    /// Draws a number from 0 to 1 for each pause.
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
        let client = policy.client()?.into();
        Ok(Fetcher { client, policy, clock, try_timeout: TRY_TIMEOUT, jitter: Arc::new(jitter) })
    }

    /// With another time limit per try: for tests.
    #[must_use]
    pub fn with_try_timeout(mut self, timeout: Duration) -> Self {
        self.try_timeout = timeout;
        self
    }

    /// With another way to send requests: for tests.
    #[must_use]
    pub fn with_sender(mut self, sender: Sender) -> Self {
        self.client = sender;
        self
    }

    /// Fetches a feed unless it is unchanged. A retry begins only if it can end within `deadline_in`.
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
            retries += 1;
            let error = error.error;
            let pause_ms = wait.as_millis() as u64;
            tracing::debug!(host, error = %error, retry = retries, pause_ms, "retry {retries} of {host} in {pause_ms} ms: {error}");
            self.clock.sleep(wait).await;
            pause *= 2;
        }
    }

    /// One try: the request, and the redirects that follow.
    async fn follow(&self, url: &Url, validators: &Validators) -> Result<Fetched, Failed> {
        let first = host_of(url);
        let mut url = url.clone();
        // A permanent redirect that follows a temporary one says nothing about the feed's own address.
        let (mut moved, mut for_ever) = (None, true);
        for _ in 0..=MAX_REDIRECTS {
            self.policy.check_url(&url)?;
            let response = self.request(&url, validators).await?;
            let host = host_of(&url);
            let status = response.status();
            if status == StatusCode::NOT_MODIFIED && !validators.is_empty() {
                return Ok(Fetched::Unchanged { fresh_for: fresh_for(response.headers()), moved });
            }
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                let next = location.and_then(|location| url.join(location).ok());
                url = next.ok_or(Error::RedirectWithoutLocation { host })?;
                for_ever &= matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::PERMANENT_REDIRECT);
                if for_ever {
                    moved = Some(url.clone());
                }
                continue;
            }
            if status != StatusCode::OK {
                let retry_after = http_client::retry_after(response.headers(), self.clock.now());
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
            return Ok(Fetched::Changed(Document { body, charset, url, validators, fresh_for, moved }));
        }
        Err(Error::Redirects { host: first }.into())
    }

    async fn request(&self, url: &Url, validators: &Validators) -> Result<reqwest::Response, Error> {
        let host = host_of(url);
        let mut request = self
            .client
            .get(url.clone())
            .header(
                header::ACCEPT,
                "application/atom+xml, application/rdf+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, \
                 application/json;q=0.9, */*;q=0.1",
            )
            .header(header::ACCEPT_ENCODING, "gzip");
        if let Some(etag) = &validators.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        if let Some(at) = &validators.last_modified {
            request = request.header(header::IF_MODIFIED_SINCE, at);
        }
        match self.client.send(request).await {
            Ok(response) => Ok(response),
            Err(error) => {
                Err(refused(&error).unwrap_or_else(|| Error::Connection { host, reason: http_client::reason(error) }))
            }
        }
    }
}

/// The resolver's error, which the client wraps in its own.
pub(crate) fn refused(error: &reqwest::Error) -> Option<Error> {
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

/// Whether a URL names this machine.
fn names_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The only part of a URL that is shown.
pub(crate) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or("(no host)").to_owned()
}

fn charset_of(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// `Cache-Control: max-age`, unless the server wants to be asked every time.
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
