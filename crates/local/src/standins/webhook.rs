//! A receiver of webhooks as their documentation asks for one: it verifies the signature, refuses old timestamps, and takes each
//! `Idempotency-Key` once. Any path below it is a webhook.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use function::{BoxFuture, Secret};
use serde_json::json;

use crate::standins::{Answer, Request, StandIn};
use crate::world::outbox::Entry;

/// How old a timestamp may be, in seconds.
const MAX_AGE: u64 = 300;

/// The stand-in.
#[derive(Debug)]
pub(crate) struct Webhook {
    key: Secret,
    /// The keys that were accepted. Held while a request is answered; never across an await.
    seen: Mutex<BTreeSet<String>>,
}

impl Webhook {
    /// A receiver that knows this key.
    pub(crate) fn new(key: impl Into<String>) -> Self {
        Self { key: Secret::new(key.into()), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeSet<String>> {
        telemetry::lock(&self.seen)
    }

    fn take(&self, request: &Request) -> Answer {
        let refused = |status, why: &str| Answer::json(status, json!({ "error": why }));
        let timestamp = request.header("x-ichido-timestamp").and_then(|at| at.parse::<u64>().ok());
        let Some(timestamp) = timestamp.filter(|at| at.abs_diff(request.now_ms / 1_000) <= MAX_AGE) else {
            return refused(401, "the timestamp is missing or too old");
        };
        let signature = feeds::outside::webhook::signature(&self.key, timestamp, &request.raw);
        if request.header("x-ichido-signature") != Some(signature.as_str()) {
            return refused(401, "the signature is wrong");
        }
        let Some(key) = request.header("idempotency-key").filter(|key| !key.is_empty()) else {
            return refused(400, "the Idempotency-Key is missing");
        };
        let answer = Answer::json(202, json!({ "id": key }));
        if self.seen().insert(key.to_owned()) { answer.with_effect(json!({ "key": key })) } else { answer }
    }
}

impl StandIn for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn asks_for_effect(&self, request: &Request) -> bool {
        request.method == http::Method::POST
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            match request.method.as_str() {
                "POST" => self.take(&request),
                _ => Answer::json(405, json!({"error": "a webhook takes POST"})),
            }
        })
    }

    fn restore(&self, accepted: &[Entry]) {
        let keys = accepted.iter().filter_map(|entry| entry.note["key"].as_str().map(str::to_owned));
        self.seen().extend(keys);
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use serde_json::Value;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    async fn post(webhook: &Webhook, key: &str, signed_with: &str, at: u64) -> Answer {
        let raw = json!({"feed": "blog"}).to_string();
        let signature = feeds::outside::webhook::signature(&Secret::new(signed_with), at, raw.as_bytes());
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("idempotency-key", key), ("x-ichido-timestamp", &at.to_string()), ("x-ichido-signature", &signature)]
        {
            headers.insert(http::HeaderName::try_from(name).expect("a name"), value.parse().expect("a value"));
        }
        let (path, query, body) = ("/blog".to_owned(), Vec::new(), Value::Null);
        webhook
            .answer(Request { method: Method::POST, path, query, headers, body, raw: raw.into(), now_ms: NOW * 1_000 })
            .await
    }

    #[tokio::test]
    async fn each_key_is_taken_once_and_what_is_not_signed_never() {
        let webhook = Webhook::new("key");
        let first = post(&webhook, "1", "key", NOW).await;
        assert_eq!((first.status, first.effect.is_some()), (202, true));
        let again = post(&webhook, "1", "key", NOW - 10).await;
        assert_eq!((again.status, again.effect.is_some()), (202, false));
        assert_eq!(post(&webhook, "2", "other", NOW).await.status, 401);
        assert_eq!(post(&webhook, "2", "key", NOW - 301).await.status, 401);
        assert_eq!(post(&webhook, "", "key", NOW).await.status, 400);
    }
}
