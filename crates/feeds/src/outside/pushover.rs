//! Pushover: sends a push message. It knows no idempotency keys and cannot be asked what it has sent.
//!
//! So if an answer is lost, nobody knows whether the message was sent. By default it is sent again, because a repeated message does
//! less harm than a lost one. With [`WhenUnsure::Never`] it is not sent again but becomes a dead letter, and a person
//! decides.

use std::{sync::Arc, time::Duration};

use function::secret::Source;
use http_client::NoAnswer;
use ichido::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    destination::{Error, credential, read, reason_of, time_left},
    sender::Sender,
};
use crate::delivery::text::{self, Limit};

/// Pushover's limits, in characters.
const MAX_MESSAGE: Limit = Limit { characters: 1_024, url: usize::MAX };
/// For the text of a message: [`Message::new`] cuts what is longer because of its URLs.
pub(crate) const LIMIT: Limit = Limit { characters: 1_000, url: 23 };
const MAX_URL: usize = 512;

/// What to do if a message may or may not have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenUnsure {
    /// Send it again: it may arrive twice.
    #[default]
    Repeat,
    /// Never send it twice: it becomes a dead letter.
    Never,
}

/// A message that was sent. The library keeps it as the outcome of the delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pushed {
    /// Pushover's id of the request.
    pub id: String,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

impl Message {
    /// The title with the link beside it. A link that is too long for that goes into the text.
    pub fn new(title: &str, link: &str) -> Self {
        let fits = link.len() <= MAX_URL;
        let title = if title.trim().is_empty() { link } else { title };
        let plain = |text: &str, room| {
            // Pushover counts every character of a URL.
            let characters: Vec<char> = text.chars().collect();
            if characters.len() <= room {
                text.to_owned()
            } else {
                characters[..room - 1].iter().chain(['…'].iter()).collect()
            }
        };
        if fits {
            Message { message: plain(title, MAX_MESSAGE.characters), url: link.to_owned() }
        } else {
            Message { message: plain(&format!("{title} {link}"), MAX_MESSAGE.characters), url: String::new() }
        }
    }
}

pub struct Pushover {
    client: Sender,
    base: Url,
    token: Source,
    user: Source,
    clock: Arc<dyn Clock>,
    pub when_unsure: WhenUnsure,
}

impl std::fmt::Debug for Pushover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pushover").field("when_unsure", &self.when_unsure).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Request<'a> {
    token: &'a str,
    user: &'a str,
    #[serde(flatten)]
    message: &'a Message,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    status: i64,
    request: String,
    errors: Vec<String>,
    /// `"invalid"` if our token is.
    token: Option<String>,
    user: Option<String>,
}

impl Pushover {
    pub fn new(
        client: impl Into<Sender>,
        base: Url,
        token: Source,
        user: Source,
        when_unsure: WhenUnsure,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Pushover { client: client.into(), base, token, user, clock, when_unsure }
    }

    pub(crate) async fn send(&self, message: &Message, until: Timestamp) -> Result<Pushed, Error> {
        let left = time_left(&*self.clock, until)?;
        let url =
            self.base.join("1/messages.json").map_err(|error| Error::Misconfigured { reason: error.to_string() })?;
        let (token, user) = (credential(&self.token).await?, credential(&self.user).await?);
        let body = Request { token: token.expose(), user: user.expose(), message };
        let request = self.client.post(url).timeout(left).json(&body);
        let response = self.client.send(request).await.map_err(NoAnswer::from)?;
        let status = response.status();
        let retry_after = http_client::retry_after(response.headers(), self.clock.now());
        let body = match read(response).await {
            Ok(body) => body,
            Err(reason) if status.is_success() => return Err(Error::Unsure { reason }),
            Err(_) => String::new(),
        };
        let answer: Answer = serde_json::from_str(&body).unwrap_or_default();
        if status.is_success() && answer.status == 1 {
            return Ok(Pushed { id: answer.request });
        }
        // Only the errors that it lists, never the whole body, which may repeat the token.
        let reason = reason_of(status.as_u16(), &answer.errors.join("; "));
        let ours = [&answer.token, &answer.user].into_iter().flatten().any(|verdict| verdict == "invalid");
        Err(match status.as_u16() {
            429 => Error::NotNow { reason, retry_after: retry_after.or(Some(Duration::from_secs(3_600))) },
            _ if ours => Error::Misconfigured { reason },
            401 | 403 | 404 => Error::Misconfigured { reason },
            400..500 => Error::Refused { reason },
            // Pushover's documentation says that a 5xx was not accepted and can be tried again.
            500.. => Error::NotNow { reason, retry_after },
            _ if status.is_success() => Error::Refused { reason },
            _ => Error::Misconfigured { reason },
        })
    }
}

/// The text that a rehearsal keeps of a message.
pub(crate) fn shown(message: &Message) -> String {
    let line =
        if message.url.is_empty() { message.message.clone() } else { format!("{} {}", message.message, message.url) };
    text::shorten(&line, MAX_MESSAGE.characters, Limit { characters: MAX_MESSAGE.characters, url: 23 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_beside_the_title_and_a_long_one_into_it() {
        let message = Message::new("Title", "https://example.com/");
        assert_eq!((message.message.as_str(), message.url.as_str()), ("Title", "https://example.com/"));
        let long = format!("https://example.com/{}", "a".repeat(600));
        let message = Message::new("Title", &long);
        assert_eq!((message.message, message.url), (format!("Title {long}"), String::new()));
    }

    #[test]
    fn a_message_is_never_empty_nor_too_long() {
        assert_eq!(Message::new(" ", "https://example.com/").message, "https://example.com/");
        assert_eq!(Message::new(&"題".repeat(5_000), "https://example.com/").message.chars().count(), 1_024);
    }
}
