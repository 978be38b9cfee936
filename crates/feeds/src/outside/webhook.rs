//! A webhook: posts an entry as JSON to an address of the user's own, signed.
//!
//! The receiver cannot be asked what it has. Every attempt at a delivery carries the same `Idempotency-Key`, so a receiver that remembers
//! keys takes each entry once. After a lost answer the entry is posted again: a receiver that ignores the key may get it twice.
//!
//! `X-Ichido-Signature` is `v1=` and the HMAC-SHA256, in hex, of `v1:`, the value of `X-Ichido-Timestamp`, `:` and the body. A receiver compares
//! it in constant time and refuses timestamps that are more than five minutes old.

use std::{sync::Arc, time::Duration};

use function::{Secret, secret::Source};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_client::NoAnswer;
use ichido::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use url::Url;

use super::{
    destination::{Error, credential, read, reason_of, time_left},
    fetch::{self, Policy},
};
use crate::delivery::text::Limit;

/// The text is for people. The entry's own fields are beside it in full.
pub(crate) const LIMIT: Limit = Limit { characters: 10_000, url: 23 };
const TIMESTAMP: &str = "x-ichido-timestamp";
const SIGNATURE: &str = "x-ichido-signature";
/// How much of the receiver's id is kept, in bytes.
const MAX_ID: usize = 200;

/// What is posted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Body<'a> {
    pub feed: &'a str,
    pub id: &'a str,
    pub title: &'a str,
    pub link: &'a str,
    pub author: &'a str,
    pub content: &'a str,
    pub categories: &'a [String],
    pub enclosure: &'a str,
    /// RFC 3339; empty if the feed does not say.
    pub published: &'a str,
    /// The feed's template, filled.
    pub text: &'a str,
}

/// What the receiver accepted. The library keeps it as the outcome of the delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The member `id` of the receiver's answer, or the status.
    pub id: String,
}

/// Posts webhooks; one per process.
pub struct Webhook {
    client: reqwest::Client,
    policy: Arc<Policy>,
    key: Source,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Webhook {
    /// `key` signs. Only addresses that the policy allows are posted to.
    pub fn new(policy: Policy, key: Source, clock: Arc<dyn Clock>) -> Result<Self, fetch::Error> {
        let policy = Arc::new(policy);
        Ok(Webhook { client: policy.client()?, policy, key, clock })
    }

    pub(crate) async fn post(
        &self,
        url: &Source,
        body: &Body<'_>,
        idempotency_key: &str,
        until: Timestamp,
    ) -> Result<Accepted, Error> {
        let misconfigured = |error: fetch::Error| Error::Misconfigured { reason: error.to_string() };
        let url = credential(url).await?;
        let url: Url = url
            .expose()
            .trim()
            .parse()
            .map_err(|_| Error::Misconfigured { reason: "the address of the webhook is not a URL".to_owned() })?;
        self.policy.check_url(&url).map_err(misconfigured)?;
        let key = credential(&self.key).await?;
        let left = time_left(&*self.clock, until)?;
        let body = serde_json::to_vec(body).map_err(|error| Error::Refused { reason: error.to_string() })?;
        let now = self.clock.now().as_secs();
        let request = self
            .client
            .post(url)
            .timeout(left)
            .header("content-type", "application/json")
            .header("idempotency-key", idempotency_key)
            .header(TIMESTAMP, now)
            .header(SIGNATURE, signature(&key, now, &body))
            .body(body);
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                return Err(match fetch::refused(&error) {
                    Some(refused) => misconfigured(refused),
                    None => NoAnswer::from(error).into(),
                });
            }
        };
        let status = response.status();
        let retry_after = http_client::retry_after(response.headers(), self.clock.now());
        let answer = read(response).await;
        if status.is_success() {
            // The status says that it was accepted; the body is only asked for an id.
            return Ok(Accepted { id: id_of(status.as_u16(), &answer.unwrap_or_default()) });
        }
        // What the receiver answers may repeat what we sent, so only the status is kept.
        let reason = reason_of(status.as_u16(), "");
        Err(match status.as_u16() {
            // 409: another request with this key is under way. 425: too early.
            409 | 425 | 429 => Error::NotNow { reason, retry_after: retry_after.or(Some(Duration::from_secs(60))) },
            408 | 500.. => Error::Unsure { reason },
            401 | 403 | 404 | 405 | 407 | 410 => Error::Misconfigured { reason },
            400..500 => Error::Refused { reason },
            _ => Error::Misconfigured { reason },
        })
    }
}

/// The receiver's id of what it accepted, if it gives one.
fn id_of(status: u16, answer: &str) -> String {
    #[derive(Deserialize)]
    struct Answer {
        id: String,
    }
    match serde_json::from_str::<Answer>(answer) {
        Ok(Answer { id }) if id.len() <= MAX_ID => id,
        _ => format!("status {status}"),
    }
}

/// The value of the signature's header.
pub fn signature(key: &Secret, timestamp: u64, body: &[u8]) -> String {
    // HMAC takes a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes()) else { return String::new() };
    mac.update(format!("v1:{timestamp}:").as_bytes());
    mac.update(body);
    format!("v1={}", hex::encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `printf 'v1:1700000000:{"a":1}' | openssl dgst -sha256 -hmac key`.
    const KNOWN: &str = "v1=d9557872749208eb6fd1b4949933064d21edc4f53ab77a187f5569f605c14ec1";

    #[test]
    fn the_signature_is_the_documented_one() {
        let of = |key: &str, at, body: &str| signature(&Secret::new(key), at, body.as_bytes());
        assert_eq!(of("key", 1_700_000_000, r#"{"a":1}"#), KNOWN);
        for other in [
            of("kez", 1_700_000_000, r#"{"a":1}"#),
            of("key", 1_700_000_001, r#"{"a":1}"#),
            of("key", 1_700_000_000, "{}"),
        ] {
            assert_ne!(other, KNOWN);
        }
    }

    #[test]
    fn an_answer_may_give_an_id_and_need_not() {
        assert_eq!(id_of(201, r#"{"id": "m-1"}"#), "m-1");
        for answer in ["", "ok", r#"{"id": 7}"#, &format!(r#"{{"id": "{}"}}"#, "x".repeat(201))] {
            assert_eq!(id_of(204, answer), "status 204");
        }
    }
}
