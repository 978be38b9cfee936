//! HTTP requests that have their effect once: the header `Idempotency-Key`.
//!
//! The header follows the IETF draft
//! [`draft-ietf-httpapi-idempotency-key-header`](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/).
//! [`parse_key`] reads it, and [`Problem`] says which status a client gets. Both are plain and need no feature. With the
//! feature `http`, `IdempotencyLayer` puts the handlers of axum and `lambda_http` under `run`.
//!
//! # What a client gets
//!
//! | what happened | status | `Retry-After` | what the client should do |
//! |---|---|---|---|
//! | the handler answered | as the handler | | |
//! | it was answered before | the recorded status, chosen headers and body, with `Idempotency-Replayed: true` | | |
//! | there is no key although the route requires one | 400 | | send a key |
//! | the key is malformed, too long, or there are two | 400 | | correct the key |
//! | the body is above the limit | 413 | | |
//! | the body ended before it was complete | 400 | | send it again with the same key |
//! | the scope refuses the caller | the scope's own status | | as the status says |
//! | the scope names nobody | 500 | | |
//! | another request with this key is in flight | 409 | until its lease ends | send it again with the same key |
//! | the key was used with a different request | 422, and `fields` names the differences | | use a new key |
//! | another request with this key took over, because this one took too long | 409 | 1 s | send it again with the same key |
//! | an earlier request failed permanently | 422 | | use a new key: nothing was done |
//! | the store is down, the lease was too short, the claim was lost, the probe failed | 503 | 1 s | send it again with the same key |
//! | an earlier request may have had its effect, and nobody can be asked ([`OnDoubt::Refuse`](crate::OnDoubt::Refuse)) | 500 | | ask the operator; never use a new key |
//! | it was answered before, but the body was too large to be kept | the recorded status and chosen headers, with a problem as the body and `Idempotency-Replayed: true` | | as the status says |
//! | it was done before, but the record has no response that can be read | 500 | | look whether it was done; never use a new key |
//! | the handler panicked, or the store refuses every request | 500 | | send it again with the same key |
//!
//! Why 500 where a request may have had its effect: clients take a 4xx for "nothing happened" and may try again with a new
//! key, which would repeat the effect. A 5xx says "not known".

#[cfg(feature = "http")]
mod body;
mod header;
#[cfg(feature = "http")]
mod kept;
#[cfg(feature = "http")]
mod layer;
mod problem;
#[cfg(feature = "http")]
mod service;

#[cfg(feature = "http")]
pub use body::ReplayBody;
pub use header::{HEADER, KeyError, MAX_KEY_LENGTH, RECORDED, REPLAYED, check_key, parse_key};
#[cfg(feature = "http")]
pub use layer::{Decided, Decides, IdempotencyLayer, KEPT_HEADERS, MAX_BODY_BYTES, Meaning};
pub use problem::{Case, PROBLEM_TYPE, Problem, RETRY_AFTER_SECONDS};
#[cfg(feature = "http")]
pub use service::IdempotencyService;
