//! Slack's Web API: the methods that our applications call.
//!
//! Promise: every call ends within the time that it is given. Its error says whether the call may have had its effect
//! ([`Error::may_have_happened`]); if so, the next attempt asks first. No error contains the token or anything that a user
//! typed. Of the content of a file, nothing is kept but its digest.

use std::fmt;
use std::time::{Duration, Instant};

use function::secret::Source;
use futures::future::BoxFuture;
use http_client::NoAnswer;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The longest time for one call, however much there is.
const CALL_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long to wait if Slack limits the rate and does not say for how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest time for the download of one file, however much there is.
const DOWNLOAD_WITHIN: Duration = Duration::from_secs(20);
/// Where Slack keeps files.
const FILES_HOST: &str = "files.slack.com";
/// How many messages to ask for at once. Slack may return fewer.
const PAGE_MESSAGES: u32 = 200;

/// Slack's error codes after which, it says, a part of the operation may have succeeded.
const UNCERTAIN_CODES: [&str; 4] = ["fatal_error", "internal_error", "request_timeout", "service_unavailable"];

/// Slack's error codes for a message that is not there, or that the app may not see.
const NO_MESSAGE_CODES: [&str; 2] = ["channel_not_found", "message_not_found"];

/// Slack's error codes for a file that the app has no right to read.
const NO_RIGHT_CODES: [&str; 7] = [
    "access_denied",
    "ekm_access_denied",
    "enterprise_is_restricted",
    "missing_scope",
    "no_permission",
    "not_allowed_token_type",
    "team_access_not_granted",
];

/// Slack's error codes for a file that is not there any more, or not visible to the app.
const NO_FILE_CODES: [&str; 2] = ["file_deleted", "file_not_found"];

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("Slack limits the rate; it allows the next call in {} s", .after.as_secs())]
    RateLimited { after: Duration },
    /// Slack's error code: `not_in_channel`, `invalid_auth`, …
    #[error("Slack refused the call: {code}")]
    Refused { code: String },
    #[error("could not reach Slack: {0}")]
    Unreachable(String),
    /// The request was not sent.
    #[error("could not read Slack's token: {0}; check its secret")]
    Token(String),
    /// The call may have had its effect.
    #[error("Slack did not answer ({0}); it may have performed the call")]
    Unanswered(String),
}

impl Error {
    /// Whether the call may have had its effect.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unanswered(_))
    }
}

/// `chat.postMessage`: a message in a channel, or a reply in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    pub channel: String,
    /// The first message of the thread; empty for a message in the channel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread_ts: String,
    /// With `&`, `<` and `>` escaped: see [`escape`].
    pub text: String,
    pub metadata: Metadata,
    /// `false`: nothing in the text is markup.
    pub mrkdwn: bool,
    pub unfurl_links: bool,
    pub unfurl_media: bool,
}

impl Post {
    /// A reply in plain text: Slack interprets nothing in it.
    pub fn plain(channel: &str, thread_ts: &str, text: &str, metadata: Metadata) -> Self {
        Self {
            channel: channel.to_owned(),
            thread_ts: thread_ts.to_owned(),
            text: escape(text),
            metadata,
            mrkdwn: false,
            unfurl_links: false,
            unfurl_media: false,
        }
    }

    /// A message in a channel, in plain text. Slack shows a preview of its links.
    pub fn in_channel(channel: &str, text: &str, metadata: Metadata) -> Self {
        Self { unfurl_links: true, unfurl_media: true, ..Self::plain(channel, "", text, metadata) }
    }
}

/// What a message carries beside its text. Users do not see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    pub event_type: String,
    pub event_payload: Value,
}

/// `conversations.replies`: which part of a thread to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub channel: String,
    /// The first message of the thread.
    pub thread_ts: String,
    /// Older messages are left out.
    pub oldest: String,
    pub cursor: Option<String>,
}

/// `conversations.history`: which messages of a channel to read. The newest come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub channel: String,
    /// Older messages are left out.
    pub oldest: String,
    pub cursor: Option<String>,
}

/// One page of a thread or a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub messages: Vec<Message>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// What a probe reads of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub ts: String,
    pub metadata: Option<Metadata>,
}

/// What is known of the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Its SHA-256, in hexadecimal.
    Sha256(String),
    /// The app has no right to read it.
    Forbidden,
    /// It is larger than the caller wants to read, its download takes too long, it is not kept at Slack, or it was deleted.
    NotRead,
}

/// What a handler of uploads needs of Slack.
pub trait Slack: Send + Sync + 'static {
    /// Posts a reply and returns its timestamp.
    fn post<'a>(&'a self, post: &'a Post, within: Duration) -> BoxFuture<'a, Result<String, Error>>;
    /// Reads one page of a thread, with metadata.
    fn thread<'a>(&'a self, look: &'a Look, within: Duration) -> BoxFuture<'a, Result<Page, Error>>;
    /// Reads the content of a file, if it has at most so many bytes.
    fn content<'a>(&'a self, file: &'a str, max_bytes: u64, within: Duration) -> BoxFuture<'a, Result<Content, Error>>;
    /// The address of a message. `None`: there is no such message, or the app may not see it.
    fn permalink<'a>(
        &'a self,
        channel: &'a str,
        ts: &'a str,
        within: Duration,
    ) -> BoxFuture<'a, Result<Option<String>, Error>>;
}

/// Escapes a text, so that Slack shows it as it is: no mention, no link.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Slack's own API, over HTTPS.
pub struct WebApi {
    client: Client,
    base: String,
    token: Source,
}

impl fmt::Debug for WebApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebApi").field("base", &self.base).finish_non_exhaustive()
    }
}

impl WebApi {
    /// `base`: `https://slack.com/api`.
    pub fn new(base: String, token: Source) -> Result<Self, Error> {
        let client = http_client::builder()
            .connect_timeout(CONNECT_WITHIN)
            .redirect(reqwest::redirect::Policy::none()) // so that the token goes nowhere else
            .build()
            .map_err(|error| Error::Unreachable(http_client::reason(error)))?;
        Ok(Self { client, base, token })
    }
}

impl Slack for WebApi {
    fn post<'a>(&'a self, post: &'a Post, within: Duration) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            let request = self.client.post(self.url("chat.postMessage")).json(post);
            let answer = self.call(request, within).await?;
            Ok(answer["ts"].as_str().unwrap_or_default().to_owned())
        })
    }

    fn thread<'a>(&'a self, look: &'a Look, within: Duration) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let limit = PAGE_MESSAGES.to_string();
            let mut query = vec![
                ("channel", look.channel.as_str()),
                ("ts", &look.thread_ts),
                ("oldest", &look.oldest),
                ("inclusive", "true"),
                ("include_all_metadata", "true"),
                ("limit", &limit),
            ];
            query.extend(look.cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let request = self.client.get(self.url("conversations.replies")).query(&query);
            Ok(page(&self.call(request, within).await?))
        })
    }

    fn content<'a>(&'a self, file: &'a str, max_bytes: u64, within: Duration) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            let begun = Instant::now();
            let request = self.client.get(self.url("files.info")).query(&[("file", file)]);
            let info = match self.call(request, within).await {
                Ok(mut info) => info["file"].take(),
                Err(Error::Refused { code }) if NO_RIGHT_CODES.contains(&code.as_str()) => {
                    return Ok(Content::Forbidden);
                }
                Err(Error::Refused { code }) if NO_FILE_CODES.contains(&code.as_str()) => return Ok(Content::NotRead),
                Err(error) => return Err(error),
            };
            let address = info["url_private_download"].as_str().or_else(|| info["url_private"].as_str());
            let address = address.and_then(|address| self.address_of_a_file(address));
            let (Some(address), Some(bytes)) = (address, info["size"].as_u64()) else { return Ok(Content::NotRead) };
            if bytes > max_bytes {
                return Ok(Content::NotRead);
            }
            let kind = info["mimetype"].as_str().unwrap_or_default();
            let within = within.saturating_sub(begun.elapsed()).min(DOWNLOAD_WITHIN);
            let read = tokio::time::timeout(within, self.download(address, bytes, kind)).await;
            read.unwrap_or(Ok(Content::NotRead))
        })
    }

    fn permalink<'a>(
        &'a self,
        channel: &'a str,
        ts: &'a str,
        within: Duration,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let query = [("channel", channel), ("message_ts", ts)];
            match self.call(self.client.get(self.url("chat.getPermalink")).query(&query), within).await {
                Ok(answer) => Ok(answer["permalink"].as_str().map(str::to_owned)),
                Err(Error::Refused { code }) if NO_MESSAGE_CODES.contains(&code.as_str()) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

impl WebApi {
    /// Reads one page of a channel, with metadata. The bot must be in the channel.
    pub async fn history(&self, history: &History, within: Duration) -> Result<Page, Error> {
        let limit = PAGE_MESSAGES.to_string();
        let mut query = vec![
            ("channel", history.channel.as_str()),
            ("oldest", &history.oldest),
            ("inclusive", "true"),
            ("include_all_metadata", "true"),
            ("limit", &limit),
        ];
        query.extend(history.cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let request = self.client.get(self.url("conversations.history")).query(&query);
        Ok(page(&self.call(request, within).await?))
    }

    /// The address of a file, if it is one of Slack's. The token goes nowhere else, whatever a file says of itself.
    fn address_of_a_file(&self, address: &str) -> Option<Url> {
        let address = Url::parse(address).ok()?;
        let is_slacks = address.scheme() == "https" && address.host_str() == Some(FILES_HOST);
        let own = || Url::parse(&self.base).is_ok_and(|base| base.origin() == address.origin());
        (is_slacks || own()).then_some(address)
    }

    /// Reads a file of so many bytes piece by piece, and keeps its digest.
    async fn download(&self, address: Url, bytes: u64, kind: &str) -> Result<Content, Error> {
        let response = self.send(self.client.get(address), 2 * DOWNLOAD_WITHIN).await?;
        let status = response.status();
        if status.is_server_error() {
            return Err(Error::Unanswered(format!("HTTP {}", status.as_u16())));
        }
        // Without the right to read the file, Slack redirects to a page for signing in, or answers 200 with that page.
        let is_page = response.headers().get(CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"text/html"));
        if !status.is_success() || (is_page && kind != "text/html") {
            return Ok(Content::Forbidden);
        }
        let (mut response, mut digest, mut left) = (response, Sha256::new(), bytes);
        while let Some(piece) = response.chunk().await.map_err(|error| Error::Unanswered(http_client::reason(error)))? {
            match left.checked_sub(piece.len() as u64) {
                Some(less) => left = less,
                None => return Ok(Content::NotRead), // it is not the file of which Slack told the size
            }
            digest.update(&piece);
        }
        Ok(if left == 0 { Content::Sha256(hex::encode(digest.finalize())) } else { Content::NotRead })
    }

    fn url(&self, method: &str) -> String {
        format!("{}/{method}", self.base)
    }

    /// Sends a request with the token. A rate limit is an error, whatever else the answer says is not.
    async fn send(&self, request: RequestBuilder, within: Duration) -> Result<Response, Error> {
        let begun = Instant::now();
        let token = tokio::time::timeout(within, self.token.get()).await;
        let token = token.map_err(|_| Error::Token(format!("no answer within {within:?}")))?;
        let token = token.map_err(|error| Error::Token(error.to_string()))?;
        let within = within.saturating_sub(begun.elapsed());
        let sent = request.bearer_auth(token.expose()).timeout(within).send().await;
        let response = sent.map_err(|error| match NoAnswer::from(error) {
            NoAnswer { may_have_arrived: true, reason } => Error::Unanswered(reason),
            NoAnswer { may_have_arrived: false, reason } => Error::Unreachable(reason),
        })?;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            return Err(Error::RateLimited { after: retry_after(&response) });
        }
        Ok(response)
    }

    async fn call(&self, request: RequestBuilder, within: Duration) -> Result<Value, Error> {
        let response = self.send(request, within.min(CALL_WITHIN)).await?;
        let status = response.status();
        if status.is_server_error() {
            return Err(Error::Unanswered(format!("HTTP {}", status.as_u16())));
        }
        let limited = retry_after(&response);
        let text = response
            .bytes()
            .await
            .map_err(|_| Error::Unanswered("the connection broke during the answer".to_owned()))?;
        let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
        match (answer["ok"].as_bool(), answer["error"].as_str()) {
            (Some(true), _) => Ok(answer),
            (_, Some("ratelimited" | "rate_limited")) => Err(Error::RateLimited { after: limited }),
            (_, Some(code)) if UNCERTAIN_CODES.contains(&code) => Err(Error::Unanswered(code.to_owned())),
            (_, Some(code)) => Err(Error::Refused { code: code.to_owned() }),
            (_, None) if status.is_success() => {
                Err(Error::Unanswered("the answer does not come from Slack".to_owned()))
            }
            (_, None) => Err(Error::Refused { code: format!("HTTP {}", status.as_u16()) }),
        }
    }
}

fn page(answer: &Value) -> Page {
    let messages = answer["messages"].as_array().into_iter().flatten();
    let next = answer["response_metadata"]["next_cursor"].as_str().filter(|cursor| !cursor.is_empty());
    Page {
        messages: messages
            .map(|message| Message {
                ts: message["ts"].as_str().unwrap_or_default().to_owned(),
                metadata: serde_json::from_value(message["metadata"].clone()).ok(),
            })
            .collect(),
        next: next.map(str::to_owned),
    }
}

fn retry_after(response: &Response) -> Duration {
    http_client::retry_after_seconds(response.headers()).unwrap_or(DEFAULT_RETRY_AFTER)
}
