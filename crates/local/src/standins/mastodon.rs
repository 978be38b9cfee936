//! The part of Mastodon's API that posts and finds statuses: `POST /api/v1/statuses` with idempotency,
//! `GET /api/v1/accounts/verify_credentials`, `GET /api/v1/accounts/:id/statuses`, `GET /api/v1/statuses/:id`, `GET /api/v2/instance`.
//!
//! Like Mastodon it remembers an `Idempotency-Key` for one hour, counts characters in Mastodon's way, and refuses a text that
//! is empty or too long with status 422.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use feeds::delivery::text::{Limit, count};
use function::BoxFuture;
use serde_json::{Value, json};

use crate::platform::clock::rfc3339;
use crate::standins::{Answer, Request, StandIn, escape};
use crate::world::outbox::Entry;

/// The only account.
const ACCOUNT: &str = "109302436954721982";
/// How long an idempotency key is remembered.
const KEY_REMEMBERED_MS: u64 = 3_600_000;
/// The default and the largest number of statuses in a page.
const PAGE: usize = 20;
const MAX_PAGE: usize = 40;

/// The stand-in.
#[derive(Debug)]
pub(crate) struct Mastodon {
    token: String,
    url: String,
    /// Held while a request is answered; never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first; their ids grow.
    statuses: Vec<Status>,
    /// By idempotency key: the id of its status, and when the key was used.
    keys: HashMap<String, (u64, u64)>,
}

#[derive(Debug, Clone)]
struct Status {
    id: u64,
    text: String,
    visibility: String,
    at_ms: u64,
}

impl Mastodon {
    /// An instance at this URL whose account has this token.
    pub(crate) fn new(token: impl Into<String>, url: impl Into<String>) -> Self {
        Self { token: token.into(), url: url.into(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        telemetry::lock(&self.state)
    }

    fn post(&self, request: &Request) -> Answer {
        let text = request.parameter("status").unwrap_or_default();
        let visibility = request.parameter("visibility").unwrap_or_else(|| "public".to_owned());
        if !["public", "unlisted", "private", "direct"].contains(&visibility.as_str()) {
            return error(422, "Validation failed: Visibility is not included in the list");
        }
        if text.trim().is_empty() {
            return error(422, "Validation failed: Text can't be blank");
        }
        if count(&text, Limit::MASTODON) > Limit::MASTODON.characters {
            return error(422, "Validation failed: Text character limit of 500 exceeded");
        }
        let key = request.header("idempotency-key").map(str::to_owned);
        let mut state = self.lock();
        let known = key.as_ref().and_then(|key| state.keys.get(key)).copied();
        if let Some((id, at)) = known
            && request.now_ms.saturating_sub(at) < KEY_REMEMBERED_MS
            && let Some(status) = state.statuses.iter().find(|status| status.id == id)
        {
            return Answer::json(200, self.shown(status));
        }
        // Ids are made as Mastodon makes them: milliseconds, and 16 bits for statuses within the same millisecond.
        let last = state.statuses.last().map_or(0, |status| status.id);
        let id = (request.now_ms << 16).max(last + 1);
        let status = Status { id, text, visibility, at_ms: request.now_ms };
        let shown = self.shown(&status);
        let note = json!({"id": id, "key": key, "atMs": request.now_ms});
        if let Some(key) = key {
            state.keys.insert(key, (id, request.now_ms));
        }
        state.statuses.push(status);
        Answer::json(200, shown).with_effect(note)
    }

    fn statuses(&self, request: &Request) -> Answer {
        let number = |name| request.parameter(name).and_then(|value| value.parse::<u64>().ok());
        let before = number("max_id").unwrap_or(u64::MAX);
        let after = number("since_id").or(number("min_id")).unwrap_or(0);
        let limit = number("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE).clamp(1, MAX_PAGE);
        let state = self.lock();
        let within = |status: &&Status| status.id < before && status.id > after;
        let page: Vec<Value> = state.statuses.iter().rev().filter(within).take(limit).map(|s| self.shown(s)).collect();
        Answer::json(200, Value::from(page))
    }

    fn shown(&self, status: &Status) -> Value {
        let at = rfc3339(status.at_ms);
        json!({
            "id": status.id.to_string(),
            "created_at": at,
            "visibility": status.visibility,
            "uri": format!("{}/users/local/statuses/{}", self.url, status.id),
            "url": format!("{}/@local/{}", self.url, status.id),
            "content": html(&status.text),
            "reblog": null,
            "account": self.account(),
        })
    }

    fn account(&self) -> Value {
        json!({"id": ACCOUNT, "username": "local", "acct": "local", "display_name": "Local", "url": format!("{}/@local", self.url)})
    }
}

/// A text as Mastodon's HTML: escaped, with its links marked up.
fn html(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let escaped = escape(word);
        match word.split_once("://") {
            Some((scheme @ ("http" | "https"), _)) => {
                let rest = &escaped[scheme.len() + 3..];
                let shown: String = rest.chars().take(30).collect();
                let hidden: String = rest.chars().skip(30).collect();
                format!(
                    r#"<a href="{escaped}" target="_blank" rel="nofollow noopener"><span class="invisible">{scheme}://</span><span class="ellipsis">{shown}</span><span class="invisible">{hidden}</span></a>"#
                )
            }
            _ => escaped,
        }
    });
    format!("<p>{}</p>", words.collect::<Vec<_>>().join(" "))
}

fn error(status: u16, message: &str) -> Answer {
    Answer::json(status, json!({"error": message}))
}

impl StandIn for Mastodon {
    fn name(&self) -> &'static str {
        "mastodon"
    }

    fn asks_for_effect(&self, request: &Request) -> bool {
        request.method == http::Method::POST && request.path == "/api/v1/statuses"
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let segments = request.segments();
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            if let ["api", "v2", "instance"] = segments.as_slice() {
                return Answer::json(
                    200,
                    json!({
                        "domain": "mastodon.local", "title": "A Mastodon on this machine", "version": "4.3.0",
                        "configuration": {"statuses": {"max_characters": Limit::MASTODON.characters, "characters_reserved_per_url": Limit::MASTODON.url}},
                    }),
                );
            }
            if request.bearer() != Some(self.token.as_str()) {
                return error(401, "The access token is invalid");
            }
            match (request.method.as_str(), segments.as_slice()) {
                ("POST", ["api", "v1", "statuses"]) => self.post(&request),
                ("GET", ["api", "v1", "accounts", "verify_credentials"]) => Answer::json(200, self.account()),
                ("GET", ["api", "v1", "accounts", account, "statuses"]) if *account == ACCOUNT => {
                    self.statuses(&request)
                }
                ("GET", ["api", "v1", "statuses", id]) => {
                    let state = self.lock();
                    match state.statuses.iter().find(|status| status.id.to_string() == *id) {
                        Some(status) => Answer::json(200, self.shown(status)),
                        None => error(404, "Record not found"),
                    }
                }
                _ => error(404, "Record not found"),
            }
        })
    }

    fn refusal(&self, status: u16) -> Answer {
        match status {
            429 => error(429, "Too many requests").header("retry-after", "2"),
            422 => error(422, "Validation failed: refused by a fault switch"),
            _ => Answer::of(status, "text/html", "<html>upstream error</html>"),
        }
    }

    fn restore(&self, accepted: &[Entry]) {
        let mut state = self.lock();
        for entry in accepted {
            let (Some(id), Some(at_ms)) = (entry.note["id"].as_u64(), entry.note["atMs"].as_u64()) else { continue };
            let text = |name: &str| entry.request[name].as_str().map(str::to_owned);
            if let Some(key) = entry.note["key"].as_str() {
                state.keys.insert(key.to_owned(), (id, at_ms));
            }
            state.statuses.push(Status {
                id,
                text: text("status").unwrap_or_default(),
                visibility: text("visibility").unwrap_or_else(|| "public".to_owned()),
                at_ms,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    fn request(method: Method, path: &str, key: Option<&str>, body: Value, now_ms: u64) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer token".parse().expect("a header"));
        if let Some(key) = key {
            headers.insert("idempotency-key", key.parse().expect("a header"));
        }
        Request {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            headers,
            raw: body.to_string().into(),
            body,
            now_ms,
        }
    }

    fn json_of(answer: &Answer) -> Value {
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    async fn post(mastodon: &Mastodon, text: &str, key: &str, now_ms: u64) -> Answer {
        mastodon.answer(request(Method::POST, "/api/v1/statuses", Some(key), json!({"status": text}), now_ms)).await
    }

    #[tokio::test]
    async fn a_key_gives_the_same_status_for_an_hour_and_a_new_one_after_it() {
        let mastodon = Mastodon::new("token", "http://m");
        let first = post(&mastodon, "hello", "k", NOW).await;
        let again = post(&mastodon, "hello", "k", NOW + KEY_REMEMBERED_MS - 1).await;
        let later = post(&mastodon, "hello", "k", NOW + KEY_REMEMBERED_MS).await;
        assert!(first.effect.is_some() && again.effect.is_none() && later.effect.is_some());
        assert_eq!(json_of(&first)["id"], json_of(&again)["id"]);
        assert_ne!(json_of(&first)["id"], json_of(&later)["id"]);
    }

    #[tokio::test]
    async fn statuses_are_listed_newest_first_page_by_page_and_survive_a_restart() {
        let (first, second) = (Mastodon::new("token", "http://m"), Mastodon::new("token", "http://m"));
        for n in 0..5 {
            let answer =
                post(&first, &format!("post {n} https://example.com/{n}?a=1&b=2"), &n.to_string(), NOW + n).await;
            second.restore(&[Entry {
                id: n,
                at: String::new(),
                sink: "mastodon".into(),
                path: "/api/v1/statuses".into(),
                request: json!({"status": format!("post {n} https://example.com/{n}?a=1&b=2")}),
                status: 200,
                accepted: true,
                note: answer.effect.expect("an effect"),
            }]);
        }
        let path = format!("/api/v1/accounts/{ACCOUNT}/statuses");
        let page = json_of(&second.answer(request(Method::GET, &path, None, json!({"limit": "2"}), NOW)).await);
        let texts: Vec<String> = page
            .as_array()
            .expect("a list")
            .iter()
            .map(|s| feeds::parse::html::to_text(s["content"].as_str().expect("text")))
            .collect();
        assert_eq!(texts, ["post 4 https://example.com/4?a=1&b=2", "post 3 https://example.com/3?a=1&b=2"]);
        let before = page[1]["id"].as_str().expect("an id");
        let page = json_of(&second.answer(request(Method::GET, &path, None, json!({"max_id": before}), NOW)).await);
        assert_eq!(page.as_array().map(Vec::len), Some(3));
    }

    #[tokio::test]
    async fn what_is_too_long_or_empty_or_foreign_is_refused() {
        let mastodon = Mastodon::new("token", "http://m");
        assert_eq!(post(&mastodon, " ", "a", NOW).await.status, 422);
        assert_eq!(post(&mastodon, &"x".repeat(501), "b", NOW).await.status, 422);
        assert_eq!(post(&mastodon, &"x".repeat(500), "c", NOW).await.status, 200);
        let mut foreign = request(Method::POST, "/api/v1/statuses", None, json!({"status": "x"}), NOW);
        foreign.headers.clear();
        assert_eq!(mastodon.answer(foreign).await.status, 401);
    }
}
