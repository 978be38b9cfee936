//! Mastodon: posts a status once, and can be asked whether it has one.
//!
//! A status is posted with an `Idempotency-Key`, under which Mastodon gives back the status it has already made, for
//! an hour. After that hour the account's own recent statuses are read ([`Mastodon::find`]). A 4xx is a
//! definite no; anything that is not an answer of Mastodon's (a timeout, a 5xx of some proxy) leaves it open.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ichido::{Clock, Timestamp};
use reqwest::{StatusCode, header};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    destination::{Credential, Error, REQUEST_TIMEOUT, said, unanswered},
    html,
    text::{Limit, SEPARATOR},
};

/// For how long a repeated request with the same key is trusted to be recognised. Mastodon's own hour, with a margin
/// for the time that a request takes and for clocks.
pub const KEY_REMEMBERED: Duration = Duration::from_secs(50 * 60);
/// How often the instance's limit is read.
pub const LIMIT_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Statuses in a page; Mastodon gives 40 at most.
const PAGE: usize = 40;
/// Pages that are read to find a status. An account that posts more than that in the time in question is not searched to the end.
const MAX_PAGES: usize = 25;
/// Clocks differ: statuses from a little before the time in question are looked at as well.
const SLACK: Duration = Duration::from_secs(300);
/// Largest answer that is read.
const MAX_ANSWER: usize = 4 * 1024 * 1024;
/// So many equal characters in front of an ellipsis, and the same link, are the same post.
const SURE: usize = 20;
/// A limit outside of this is not believed.
const SANE_LIMIT: std::ops::RangeInclusive<usize> = 50..=100_000;

/// Who sees a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    Public,
    Unlisted,
    Private,
    Direct,
}

/// A status that was posted: the outcome of the delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    pub id: String,
    #[serde(default)]
    pub url: Option<String>,
}

/// A status as the account's list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub id: String,
    pub url: Option<String>,
    pub created_at: Option<Timestamp>,
    /// As plain text, links in full.
    pub text: String,
    pub links: HashSet<String>,
}

#[derive(Clone)]
pub struct Mastodon {
    client: reqwest::Client,
    base: Url,
    token: Credential,
    visibility: Visibility,
    clock: Arc<dyn Clock>,
    /// The account's id never changes; held for moments.
    account: Arc<Mutex<Option<String>>>,
}

impl std::fmt::Debug for Mastodon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mastodon").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct NewStatus<'a> {
    status: &'a str,
    visibility: Visibility,
}

#[derive(Deserialize)]
struct StatusAnswer {
    id: String,
    url: Option<String>,
    created_at: Option<String>,
    #[serde(default)]
    content: String,
}

impl Mastodon {
    pub fn new(
        client: reqwest::Client,
        base: Url,
        token: Credential,
        visibility: Visibility,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Mastodon { client, base, token, visibility, clock, account: Arc::default() }
    }

    /// Posts a status. With the same key within the hour, the status that is there already is the answer.
    pub async fn post(&self, text: &str, idempotency_key: &str, until: Timestamp) -> Result<Posted, Error> {
        let request = self
            .client
            .post(self.url("api/v1/statuses")?)
            .bearer_auth(self.token.get().await?.expose())
            .header("Idempotency-Key", idempotency_key)
            .timeout(self.time_left(until)?)
            .json(&NewStatus { status: text, visibility: self.visibility });
        let response = request.send().await.map_err(unanswered)?;
        let status = response.status();
        if status.is_success() {
            let body = read(response).await.map_err(|reason| Error::Unsure { reason })?;
            let posted: Posted = serde_json::from_str(&body)
                .map_err(|_| Error::Unsure { reason: said(status.as_u16(), "an answer without an id") })?;
            return Ok(posted);
        }
        Err(self.refusal(response).await)
    }

    /// Looks for a status with this text and link among those posted since `since`.
    ///
    /// An error if it was not found and there was more to look at: then nobody knows.
    pub async fn find(
        &self,
        text: &str,
        link: &str,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Posted>, Error> {
        let mut found = None;
        let complete = self
            .recent(since, until, |status| {
                let has_link = link.is_empty() || status.links.contains(link) || status.text.contains(link);
                if has_link && same_text(&status.text, text) {
                    found = Some(Posted { id: status.id.clone(), url: status.url.clone() });
                }
                found.is_some()
            })
            .await?;
        match (found, complete) {
            (Some(found), _) => Ok(Some(found)),
            (None, true) => Ok(None),
            (None, false) => {
                Err(Error::Unsure { reason: format!("it is not among the last {} statuses", MAX_PAGES * PAGE) })
            }
        }
    }

    /// Shows the account's statuses since `since`, newest first, until `enough` says so. False if there were more
    /// than are read.
    pub async fn recent(
        &self,
        since: Timestamp,
        until: Timestamp,
        mut enough: impl FnMut(&Status) -> bool,
    ) -> Result<bool, Error> {
        let account = self.account(until).await?;
        let oldest = since.saturating_sub(SLACK);
        let mut before: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut url = self.url(&format!("api/v1/accounts/{account}/statuses"))?;
            url.query_pairs_mut().append_pair("limit", &PAGE.to_string()).append_pair("exclude_reblogs", "true");
            if let Some(before) = &before {
                url.query_pairs_mut().append_pair("max_id", before);
            }
            let page: Vec<StatusAnswer> = self.get(url, until).await?;
            if page.is_empty() {
                return Ok(true);
            }
            for status in page {
                let status = Status::from(status);
                if status.created_at.is_some_and(|at| at < oldest) {
                    return Ok(true);
                }
                before = Some(status.id.clone());
                if enough(&status) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// How long a status may be here.
    pub async fn limit(&self, until: Timestamp) -> Result<Limit, Error> {
        #[derive(Deserialize)]
        struct Instance {
            configuration: Configuration,
        }
        #[derive(Deserialize)]
        struct Configuration {
            statuses: Statuses,
        }
        #[derive(Deserialize)]
        struct Statuses {
            max_characters: usize,
            characters_reserved_per_url: Option<usize>,
        }
        let instance: Instance = self.get(self.url("api/v2/instance")?, until).await?;
        let Statuses { max_characters, characters_reserved_per_url } = instance.configuration.statuses;
        if !SANE_LIMIT.contains(&max_characters) {
            return Err(Error::Misconfigured { reason: format!("the instance allows {max_characters} characters") });
        }
        let url = characters_reserved_per_url.filter(|url| *url <= max_characters);
        Ok(Limit { characters: max_characters, url: url.unwrap_or(Limit::MASTODON.url) })
    }

    async fn account(&self, until: Timestamp) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Account {
            id: String,
        }
        let known = self.account.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(account) = known {
            return Ok(account);
        }
        let Account { id } = self.get(self.url("api/v1/accounts/verify_credentials")?, until).await?;
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.clone());
        Ok(id)
    }

    /// Reads something: nothing is done by it, so nothing is unsure.
    async fn get<T: serde::de::DeserializeOwned>(&self, url: Url, until: Timestamp) -> Result<T, Error> {
        let not_now = |reason| Error::NotNow { reason, retry_after: None };
        let request =
            self.client.get(url).bearer_auth(self.token.get().await?.expose()).timeout(self.time_left(until)?);
        let response = request.send().await.map_err(|error| not_now(crate::http::reason(error)))?;
        if !response.status().is_success() {
            return Err(match self.refusal(response).await {
                Error::Refused { reason } | Error::Unsure { reason } => not_now(reason),
                other => other,
            });
        }
        let body = read(response).await.map_err(not_now)?;
        serde_json::from_str(&body).map_err(|error| not_now(format!("an answer that cannot be read: {error}")))
    }

    async fn refusal(&self, response: reqwest::Response) -> Error {
        let status = response.status();
        let retry_after = self.retry_after(response.headers());
        let body = read(response).await.unwrap_or_default();
        let reason = said(status.as_u16(), &body);
        match status {
            StatusCode::TOO_MANY_REQUESTS => Error::NotNow { reason, retry_after },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Error::Misconfigured { reason },
            StatusCode::REQUEST_TIMEOUT => Error::Unsure { reason },
            status if status.is_client_error() => Error::Refused { reason },
            status if status.is_redirection() => Error::Misconfigured { reason },
            _ => Error::Unsure { reason },
        }
    }

    /// `Retry-After`, or Mastodon's own `X-RateLimit-Reset`.
    fn retry_after(&self, headers: &header::HeaderMap) -> Option<Duration> {
        let now = self.clock.now();
        crate::fetch::retry_after(headers, now).or_else(|| {
            let at = headers.get("x-ratelimit-reset")?.to_str().ok()?.parse::<jiff::Timestamp>().ok()?;
            u64::try_from(at.as_millisecond()).ok().map(|at| Timestamp::from_millis(at).since(now))
        })
    }

    fn url(&self, path: &str) -> Result<Url, Error> {
        self.base.join(path).map_err(|error| Error::Misconfigured { reason: format!("MASTODON_URL: {error}") })
    }

    /// Nothing is begun that cannot end within the claim.
    fn time_left(&self, until: Timestamp) -> Result<Duration, Error> {
        let left = until.since(self.clock.now());
        if left.is_zero() {
            return Err(Error::NotNow { reason: "no time is left in this invocation".into(), retry_after: None });
        }
        Ok(left.min(REQUEST_TIMEOUT))
    }
}

impl From<StatusAnswer> for Status {
    fn from(answer: StatusAnswer) -> Self {
        let created_at = answer.created_at.and_then(|at| at.parse::<jiff::Timestamp>().ok());
        let created_at = created_at.and_then(|at| u64::try_from(at.as_millisecond()).ok()).map(Timestamp::from_millis);
        Status {
            id: answer.id,
            url: answer.url,
            created_at,
            text: html::to_text(&answer.content),
            links: links(&answer.content),
        }
    }
}

/// Where the links in a status lead.
fn links(html_text: &str) -> HashSet<String> {
    let values = html_text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    values.map(html::to_text).collect()
}

/// What is compared: the characters that a reader sees, without white space.
pub(crate) fn normalised(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != SEPARATOR && !c.is_control()).collect()
}

/// Are these the same post? An instance's limit may have changed in between, and with it where a text was shortened:
/// up to the place where either was, they must agree.
fn same_text(one: &str, other: &str) -> bool {
    const ELLIPSIS: char = '…';
    let (one, other) = (normalised(one), normalised(other));
    if one == other {
        return true;
    }
    let begin = |text: &str| text.split(ELLIPSIS).next().unwrap_or_default().to_owned();
    let was_cut = one.contains(ELLIPSIS) || other.contains(ELLIPSIS);
    let (one, other) = (begin(&one), begin(&other));
    was_cut
        && one.chars().count().min(other.chars().count()) >= SURE
        && (one.starts_with(&other) || other.starts_with(&one))
}

/// The body of an answer, bounded.
pub(crate) async fn read(mut response: reqwest::Response) -> Result<String, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(crate::http::reason)? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err("the answer is too large".into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_as_it_was_written_however_mastodon_dresses_it() {
        let status = Status::from(StatusAnswer {
            id: "1".into(),
            url: None,
            created_at: Some("2026-01-01T00:00:00.000Z".into()),
            content: r#"<p>[GH] a &lt;b&gt; <a href="https://github.com/x/y?a=1&amp;b=2" rel="nofollow"><span class="invisible">https://</span><span class="ellipsis">github.com/x/y?a=</span><span class="invisible">1&amp;b=2</span></a></p>"#.into(),
        });
        assert_eq!(status.text, "[GH] a <b> https://github.com/x/y?a=1&b=2");
        assert!(status.links.contains("https://github.com/x/y?a=1&b=2"));
        assert!(same_text(
            "[GH] a long title about things… https://x/",
            "[GH] a long title about things that matter https://x/"
        ));
        assert!(!same_text(
            "[GH] a long title about things… https://x/",
            "[GH] another title about things that matter https://x/"
        ));
        assert!(!same_text("[GH] one https://x/", "[GH] two https://x/"));
        assert_eq!(normalised("[GH] a <\u{200B}b> https://github.com/x/y?a=1&b=2\n"), normalised(&status.text));
    }
}
