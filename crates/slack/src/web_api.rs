//! Slack's Web API: the two methods that we call.
//!
//! Promise: every call ends within the time that it is given, and its error says whether the call can have had its
//! effect ([`Error::may_have_happened`]): that decides whether the next try has to ask first. No error holds the token
//! or anything that a user typed.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::describe;
use crate::secrets::Source;

/// The longest that one call takes, however much time there is.
const CALL_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long to leave Slack alone when it limits the rate without saying for how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many messages of a thread to ask for at once. Slack gives less where it wants to.
const PAGE_MESSAGES: u32 = 200;

/// Errors of Slack's after which, it says, some of the operation may have succeeded.
const UNCERTAIN_CODES: [&str; 4] = ["fatal_error", "internal_error", "request_timeout", "service_unavailable"];

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("Slack limits the rate: try again in {} s", .after.as_secs())]
    RateLimited { after: Duration },
    /// Slack's error code: `not_in_channel`, `invalid_auth`, …
    #[error("Slack refused: {code}")]
    Refused { code: String },
    #[error("Slack could not be reached: {0}")]
    Unreachable(String),
    /// It may have been done.
    #[error("Slack did not answer: {0}")]
    Unanswered(String),
}

impl Error {
    /// Did the call perhaps have its effect?
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unanswered(_))
    }
}

/// `chat.postMessage`: a reply in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Post {
    pub channel: String,
    pub thread_ts: String,
    /// With `&`, `<` and `>` escaped: see [`escape`].
    pub text: String,
    pub metadata: Metadata,
    /// Names of files are no markup.
    pub mrkdwn: bool,
    pub unfurl_links: bool,
    pub unfurl_media: bool,
}

impl Post {
    /// Plain text: nothing in it is interpreted.
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
}

/// What a message carries beside its text, invisibly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    pub event_type: String,
    pub event_payload: Value,
}

/// `conversations.replies`: where to look in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub channel: String,
    /// The message that begins the thread.
    pub thread_ts: String,
    /// Older messages are of no interest.
    pub oldest: String,
    pub cursor: Option<String>,
}

/// A part of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    pub messages: Vec<Message>,
    /// Where the next part begins, if there is one.
    pub next: Option<String>,
}

/// A message of a thread, as far as a probe looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub ts: String,
    pub metadata: Option<Metadata>,
}

/// Slack, as far as we need it.
pub trait Slack: Send + Sync + 'static {
    /// Posts a reply and returns its timestamp.
    fn post<'a>(&'a self, post: &'a Post, within: Duration) -> BoxFuture<'a, Result<String, Error>>;
    /// Reads a part of a thread, metadata included.
    fn thread<'a>(&'a self, look: &'a Look, within: Duration) -> BoxFuture<'a, Result<Page, Error>>;
}

/// Makes a text that Slack shows as it is: no mention, no link.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The real thing, over HTTPS.
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
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may be quicker; whose provider it is then does not matter.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = Client::builder()
            .connect_timeout(CONNECT_WITHIN)
            .redirect(reqwest::redirect::Policy::none()) // the token goes nowhere else
            .build()
            .map_err(|error| Error::Unreachable(describe(&error)))?;
        Ok(Self { client, base, token })
    }

    fn url(&self, method: &str) -> String {
        format!("{}/{method}", self.base)
    }

    async fn call(&self, request: RequestBuilder, within: Duration) -> Result<Value, Error> {
        let token = self.token.get().await;
        let sent = request.bearer_auth(token.expose()).timeout(within.min(CALL_WITHIN)).send().await;
        let response = sent.map_err(|error| {
            let not_sent = error.is_connect() || error.is_builder();
            let text = describe(&error.without_url());
            if not_sent { Error::Unreachable(text) } else { Error::Unanswered(text) }
        })?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Error::RateLimited { after: retry_after(&response) });
        }
        if status.is_server_error() {
            return Err(Error::Unanswered(format!("HTTP {}", status.as_u16())));
        }
        let limited = retry_after(&response);
        let text = response.bytes().await.map_err(|_| Error::Unanswered("the answer broke off".to_owned()))?;
        let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
        match (answer["ok"].as_bool(), answer["error"].as_str()) {
            (Some(true), _) => Ok(answer),
            (_, Some("ratelimited" | "rate_limited")) => Err(Error::RateLimited { after: limited }),
            (_, Some(code)) if UNCERTAIN_CODES.contains(&code) => Err(Error::Unanswered(code.to_owned())),
            (_, Some(code)) => Err(Error::Refused { code: code.to_owned() }),
            (_, None) if status.is_success() => Err(Error::Unanswered("the answer is not Slack's".to_owned())),
            (_, None) => Err(Error::Refused { code: format!("HTTP {}", status.as_u16()) }),
        }
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
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(DEFAULT_RETRY_AFTER, Duration::from_secs)
}
