//! Slack: posts an entry into a channel, and can be asked whether it was posted.
//!
//! A message carries metadata that users do not see: a key that is the same for every attempt at this delivery. After a lost answer the
//! channel's messages since then are searched for it ([`Slack::find`]), so no entry is posted twice. For that the bot needs
//! `channels:history` (`groups:history` in a private channel).

use std::sync::Arc;

use ichido::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;
use slack_api::{History, Metadata, Post, Slack as _, WebApi};

use super::{
    CLOCK_TOLERANCE,
    destination::{Error, time_left},
};
use crate::delivery::text::Limit;

/// Slack takes 40,000 characters and advises against more than 4,000. A URL has at most 4,000 here.
pub(crate) const LIMIT: Limit = Limit { characters: 3_000, url: 23 };
/// The type of our messages' metadata.
const METADATA_TYPE: &str = "ichido_feed_entry";
/// Most pages that are read to find a message. If the channel has more messages since then, the search is incomplete.
const MAX_PAGES: usize = 10;

/// Slack's error codes that are about our token or the channel: a person has to look.
const MISCONFIGURED: [&str; 19] = [
    "HTTP 401",
    "HTTP 403",
    "access_denied",
    "account_inactive",
    "channel_not_found",
    "ekm_access_denied",
    "enterprise_is_restricted",
    "invalid_auth",
    "is_archived",
    "missing_scope",
    "no_permission",
    "not_allowed_token_type",
    "not_authed",
    "not_in_channel",
    "org_login_required",
    "restricted_action",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
];

/// A message that was posted. The library keeps it as the outcome of the delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Slack's timestamp of the message, which is its id in the channel.
    pub ts: String,
}

/// A workspace, by its bot's token.
pub struct Slack {
    api: WebApi,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Slack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slack").field("api", &self.api).finish_non_exhaustive()
    }
}

impl Slack {
    pub fn new(api: WebApi, clock: Arc<dyn Clock>) -> Self {
        Slack { api, clock }
    }

    pub(crate) async fn post(&self, channel: &str, text: &str, key: &str, until: Timestamp) -> Result<Sent, Error> {
        let within = time_left(&*self.clock, until)?;
        let ts = self.api.post(&Post::in_channel(channel, text, metadata(key)), within).await?;
        Ok(Sent { ts })
    }

    /// Looks for the message with this key among those posted since `since`.
    ///
    /// It is an error if the message was not found and the search was incomplete, because then nobody knows.
    pub(crate) async fn find(
        &self,
        channel: &str,
        key: &str,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Sent>, Error> {
        let (wanted, oldest) = (metadata(key), since.saturating_sub(CLOCK_TOLERANCE).as_millis());
        let oldest = format!("{}.{:03}000", oldest / 1_000, oldest % 1_000);
        let mut history = History { channel: channel.to_owned(), oldest, cursor: None };
        for _ in 0..MAX_PAGES {
            let within = time_left(&*self.clock, until)?;
            // Reading has no effect, so a failure is never unsure.
            let page = self.api.history(&history, within).await.map_err(|error| match Error::from(error) {
                Error::Refused { reason } | Error::Unsure { reason } => Error::NotNow { reason, retry_after: None },
                other => other,
            })?;
            if let Some(found) = page.messages.iter().find(|message| message.metadata.as_ref() == Some(&wanted)) {
                return Ok(Some(Sent { ts: found.ts.clone() }));
            }
            match page.next {
                Some(next) => history.cursor = Some(next),
                None => return Ok(None),
            }
        }
        Err(Error::Unsure {
            reason: format!("{MAX_PAGES} pages of the channel do not have it, and more are not searched"),
        })
    }
}

fn metadata(key: &str) -> Metadata {
    Metadata { event_type: METADATA_TYPE.to_owned(), event_payload: json!({ "key": key }) }
}

impl From<slack_api::Error> for Error {
    fn from(error: slack_api::Error) -> Self {
        let reason = error.to_string();
        match error {
            slack_api::Error::RateLimited { after } => Error::NotNow { reason, retry_after: Some(after) },
            slack_api::Error::Unreachable(_) | slack_api::Error::Token(_) => {
                Error::NotNow { reason, retry_after: None }
            }
            slack_api::Error::Unanswered(_) => Error::Unsure { reason },
            slack_api::Error::Refused { code } if MISCONFIGURED.contains(&code.as_str()) => {
                Error::Misconfigured { reason }
            }
            slack_api::Error::Refused { .. } => Error::Refused { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_revoked_is_told_apart_from_a_text_that_is_refused() {
        let of = |code: &str| Error::from(slack_api::Error::Refused { code: code.to_owned() });
        assert!(matches!(of("token_revoked"), Error::Misconfigured { .. }));
        assert!(matches!(of("HTTP 401"), Error::Misconfigured { .. }), "from a proxy");
        assert!(matches!(of("not_in_channel"), Error::Misconfigured { .. }));
        assert!(matches!(of("msg_too_long"), Error::Refused { .. }));
        assert!(MISCONFIGURED.is_sorted());
    }
}
