//! Mastodon: posts a status, and can be asked whether a status was posted.
//!
//! A status is posted with an `Idempotency-Key`. For an hour Mastodon answers a second request with the same key with the status
//! that it already has. We rely on that for 50 minutes. After that the account's own recent statuses are searched
//! ([`Mastodon::find`]). After an outage many posts are in doubt at the same time, and Mastodon takes 300 requests of an account in five
//! minutes. So the list of statuses is read once for all of them: it tells what was posted before it was read, and Mastodon recognises the
//! keys of what was posted after that. A 4xx other than 408 means that nothing was posted. Without an answer of Mastodon's own (a timeout, a 408,
//! a proxy's 5xx) nobody knows whether it was.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use function::secret::Source;
use http_client::NoAnswer;
use ichido::{Clock, Timestamp};
use reqwest::{StatusCode, header};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    CLOCK_TOLERANCE,
    destination::{Error, credential, read, reason_of, time_left},
    moment,
    sender::Sender,
};
use crate::{
    delivery::text::{self, Limit, SEPARATOR},
    parse::html,
};

/// How long we rely on Mastodon to recognise a repeated key. It is Mastodon's own hour less a margin for the time that a request
/// takes and for clocks that differ.
pub(crate) const KEY_REMEMBERED: Duration = Duration::from_secs(50 * 60);
/// How long the instance's limit is used before it is read again.
pub(crate) const LIMIT_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How long a list of statuses is searched instead of reading it again. What was posted meanwhile is not in the list: Mastodon has to
/// recognise its key, so this is less than [`KEY_REMEMBERED`].
pub(crate) const LIST_KEPT: Duration = Duration::from_secs(40 * 60);
/// Statuses per page: Mastodon gives at most 40.
const PAGE: usize = 40;
/// Most pages that are read to find a status. If the account has posted more than that since, the search is incomplete.
const MAX_PAGES: usize = 25;
/// Two posts with the same link are the same if at least this many characters before an ellipsis are equal.
const SURE: usize = 20;
/// A limit outside of this range is taken for an error of the instance.
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

/// A status that was posted. The library keeps it as the outcome of the delivery.
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

pub struct Mastodon {
    client: Sender,
    base: Url,
    token: Source,
    visibility: Visibility,
    clock: Arc<dyn Clock>,
    /// The account's id, which never changes. The lock is held for a copy, never across an await.
    account: Mutex<Option<String>>,
    /// What was last read of the account's statuses. The lock is held while it is read, so that others do not read it too.
    list: tokio::sync::Mutex<Option<List>>,
}

/// The account's statuses, newest first, as far as they were read. A search that needs older ones goes on where the last one ended, also
/// if that was by an error.
struct List {
    /// What was posted since then is not in the list.
    read_at: Timestamp,
    statuses: Vec<Status>,
    pages: usize,
    is_whole: bool,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Search {
    Found(Posted),
    /// It is not among what was posted before `read_at`.
    NotThere {
        read_at: Timestamp,
    },
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

/// How much of the wanted statuses was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// All of them.
    Complete,
    /// There are older ones that were not read.
    CutShort,
}

impl Mastodon {
    pub fn new(
        client: impl Into<Sender>,
        base: Url,
        token: Source,
        visibility: Visibility,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Mastodon {
            client: client.into(),
            base,
            token,
            visibility,
            clock,
            account: Mutex::default(),
            list: tokio::sync::Mutex::default(),
        }
    }

    /// Posts a status. If the same key was used within the hour, Mastodon answers with the status that it already has.
    pub(crate) async fn post(&self, text: &str, idempotency_key: &str, until: Timestamp) -> Result<Posted, Error> {
        let request = self
            .client
            .post(self.url("api/v1/statuses")?)
            .bearer_auth(credential(&self.token).await?.expose())
            .header("Idempotency-Key", idempotency_key)
            .timeout(time_left(&*self.clock, until)?)
            .json(&NewStatus { status: text, visibility: self.visibility });
        let response = self.client.send(request).await.map_err(NoAnswer::from)?;
        let status = response.status();
        if status.is_success() {
            let body = read(response).await.map_err(|reason| Error::Unsure { reason })?;
            let posted: Posted = serde_json::from_str(&body)
                .map_err(|_| Error::Unsure { reason: reason_of(status.as_u16(), "an answer without an id") })?;
            return Ok(posted);
        }
        Err(self.refusal(response).await)
    }

    /// Looks for a status with this text and link among those posted since `since`, in a list that was not read before `not_before`.
    ///
    /// It is an error if the status was not found and the search was incomplete, because then nobody knows.
    pub(crate) async fn find(
        &self,
        text: &str,
        link: &str,
        since: Timestamp,
        not_before: Timestamp,
        until: Timestamp,
    ) -> Result<Search, Error> {
        let account = self.account(until).await?;
        let oldest = since.saturating_sub(CLOCK_TOLERANCE);
        let mut list = self.list.lock().await;
        if list.as_ref().is_some_and(|list| list.read_at < not_before) {
            *list = None;
        }
        let list = list.get_or_insert_with(|| List {
            read_at: self.clock.now(),
            statuses: Vec::new(),
            pages: 0,
            is_whole: false,
        });
        let mut looked_at = 0;
        loop {
            for status in list.statuses.iter().skip(looked_at) {
                if status.created_at.is_some_and(|at| at < oldest) {
                    return Ok(Search::NotThere { read_at: list.read_at });
                }
                if (link.is_empty() || status.has_link(link)) && same_text(&status.text, text) {
                    return Ok(Search::Found(Posted { id: status.id.clone(), url: status.url.clone() }));
                }
            }
            if list.is_whole {
                return Ok(Search::NotThere { read_at: list.read_at });
            }
            if list.pages == MAX_PAGES {
                let searched = MAX_PAGES * PAGE;
                let reason = format!("the last {searched} statuses do not have it, and older ones are not searched");
                return Err(Error::Unsure { reason });
            }
            looked_at = list.statuses.len();
            let page = self.page(&account, list.statuses.last(), until).await?;
            list.pages += 1;
            list.is_whole = page.is_empty();
            list.statuses.extend(page);
        }
    }

    /// Hands the account's statuses since `since` to `read`, newest first.
    pub(crate) async fn recent(
        &self,
        since: Timestamp,
        until: Timestamp,
        mut read: impl FnMut(&Status),
    ) -> Result<Coverage, Error> {
        let account = self.account(until).await?;
        let oldest = since.saturating_sub(CLOCK_TOLERANCE);
        let mut last: Option<Status> = None;
        for _ in 0..MAX_PAGES {
            let page = self.page(&account, last.as_ref(), until).await?;
            if page.is_empty() {
                return Ok(Coverage::Complete);
            }
            for status in page {
                if status.created_at.is_some_and(|at| at < oldest) {
                    return Ok(Coverage::Complete);
                }
                read(&status);
                last = Some(status);
            }
        }
        Ok(Coverage::CutShort)
    }

    /// The statuses before that one, newest first.
    async fn page(&self, account: &str, before: Option<&Status>, until: Timestamp) -> Result<Vec<Status>, Error> {
        let mut url = self.url(&format!("api/v1/accounts/{account}/statuses"))?;
        url.query_pairs_mut().append_pair("limit", &PAGE.to_string()).append_pair("exclude_reblogs", "true");
        if let Some(before) = before {
            url.query_pairs_mut().append_pair("max_id", &before.id);
        }
        let page: Vec<StatusAnswer> = self.get(url, until).await?;
        Ok(page.into_iter().map(Status::from).collect())
    }

    /// How long a status may be on this instance.
    pub(crate) async fn limit(&self, until: Timestamp) -> Result<Limit, Error> {
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
        let known = telemetry::lock(&self.account).clone();
        if let Some(account) = known {
            return Ok(account);
        }
        let Account { id } = self.get(self.url("api/v1/accounts/verify_credentials")?, until).await?;
        *telemetry::lock(&self.account) = Some(id.clone());
        Ok(id)
    }

    /// Reads something. That has no effect, so a failure is never unsure.
    async fn get<T: serde::de::DeserializeOwned>(&self, url: Url, until: Timestamp) -> Result<T, Error> {
        let not_now = |reason| Error::NotNow { reason, retry_after: None };
        let token = credential(&self.token).await?;
        let request = self.client.get(url).bearer_auth(token.expose()).timeout(time_left(&*self.clock, until)?);
        let response = self.client.send(request).await.map_err(|error| not_now(http_client::reason(error)))?;
        if !response.status().is_success() {
            return Err(match self.refusal(response).await {
                Error::Refused { reason } | Error::Unsure { reason } => not_now(reason),
                other => other,
            });
        }
        let body = read(response).await.map_err(not_now)?;
        serde_json::from_str(&body).map_err(|error| not_now(format!("could not read Mastodon's answer: {error}")))
    }

    async fn refusal(&self, response: reqwest::Response) -> Error {
        let status = response.status();
        let retry_after = self.retry_after(response.headers());
        let body = read(response).await.unwrap_or_default();
        let reason = reason_of(status.as_u16(), &body);
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
        http_client::retry_after(headers, now).or_else(|| {
            let at = headers.get("x-ratelimit-reset")?.to_str().ok()?.parse().ok()?;
            moment(at).map(|at| at.since(now))
        })
    }

    fn url(&self, path: &str) -> Result<Url, Error> {
        self.base.join(path).map_err(|error| Error::Misconfigured { reason: format!("MASTODON_URL: {error}") })
    }
}

impl From<StatusAnswer> for Status {
    fn from(answer: StatusAnswer) -> Self {
        let created_at = answer.created_at.and_then(|at| at.parse().ok()).and_then(moment);
        Status {
            id: answer.id,
            url: answer.url,
            created_at,
            text: html::to_text(&answer.content),
            links: links(&answer.content),
        }
    }
}

impl Status {
    /// Whether it has this link of a feed, as we post it ([`text::posted_url`]) or as somebody else would.
    pub(crate) fn has_link(&self, link: &str) -> bool {
        let link = text::decode_at(&text::posted_url(link));
        self.links.iter().any(|there| text::decode_at(&text::posted_url(there)) == link)
            || text::decode_at(&self.text).contains(&link)
    }
}

/// Where the links in a status lead.
fn links(html_text: &str) -> HashSet<String> {
    let values = html_text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    values.map(html::to_text).collect()
}

/// What two texts are compared by: the characters that a reader sees, without white space.
pub(crate) fn normalised(text: &str) -> String {
    text::decode_at(text).chars().filter(|c| !c.is_whitespace() && *c != SEPARATOR && !c.is_control()).collect()
}

/// Whether two texts are the same post. The instance's limit may have changed between them, and with it the place where a text was
/// shortened. Up to that place they must be equal.
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
        let of = |link: &str| {
            let content = format!(r#"<p>[GH] a <a href="{link}">{link}</a></p>"#);
            Status::from(StatusAnswer { id: "2".into(), url: None, created_at: None, content })
        };
        for posted in ["https://x.example/%40name/1", "https://x.example/@name/1"] {
            assert!(of(posted).has_link("https://x.example/@name/1"), "{posted}");
            assert!(same_text(&of(posted).text, "[GH] a https://x.example/%40name/1"), "{posted}");
        }
        assert!(!of("https://x.example/%40other/1").has_link("https://x.example/@name/1"));
        assert_eq!(normalised("[GH] a <\u{200B}b> https://github.com/x/y?a=1&b=2\n"), normalised(&status.text));
    }
}
