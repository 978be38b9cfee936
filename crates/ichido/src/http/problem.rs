//! What a client is told instead of a response: `application/problem+json` (RFC 9457).

use std::fmt;

use serde_json::json;

use super::header::{HEADER, KeyError};
use crate::clock::{Timestamp, whole_millis};
use crate::run::Error;

/// The content type of a problem.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// Seconds after which a client should send its request again, if nothing better is known.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// What went wrong. Each case has one status; the table in the [module's documentation](super) says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Case {
    /// The request has no key and needs one.
    KeyMissing,
    /// The key is not valid.
    KeyInvalid,
    /// The request's body could not be read.
    BodyUnreadable,
    /// The request's body is above the limit.
    BodyTooLarge,
    /// Another call holds the claim.
    InFlight,
    /// The key was used with a different request.
    Mismatch,
    /// An earlier call failed permanently.
    Failed,
    /// Nothing was done, or it is not known yet whether it was. The client should ask again.
    Unavailable,
    /// An earlier attempt may have had its effect, and nobody can be asked.
    Doubtful,
    /// It was done before, but there is no response to return.
    NoResponse,
    /// The server failed.
    Internal,
}

impl Case {
    /// The HTTP status. It never changes.
    pub const fn status(self) -> u16 {
        match self {
            Self::KeyMissing | Self::KeyInvalid | Self::BodyUnreadable => 400,
            Self::InFlight => 409,
            Self::BodyTooLarge => 413,
            Self::Mismatch | Self::Failed => 422,
            Self::Doubtful | Self::NoResponse | Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// The end of the problem's `type`. It never changes.
    pub const fn slug(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyInvalid => "key-invalid",
            Self::BodyUnreadable => "body-unreadable",
            Self::BodyTooLarge => "body-too-large",
            Self::InFlight => "in-flight",
            Self::Mismatch => "mismatch",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::Doubtful => "doubtful",
            Self::NoResponse => "no-response",
            Self::Internal => "internal",
        }
    }

    /// The problem's `title`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "The request needs an Idempotency-Key",
            Self::KeyInvalid => "The Idempotency-Key is not valid",
            Self::BodyUnreadable => "The body could not be read",
            Self::BodyTooLarge => "The body is too large",
            Self::InFlight => "A request with this Idempotency-Key is in flight",
            Self::Mismatch => "The Idempotency-Key was used for another request",
            Self::Failed => "The request failed before, for good",
            Self::Unavailable => "The request could not be completed now",
            Self::Doubtful => "The request may have been carried out before",
            Self::NoResponse => "The request was answered before, but the response is not available",
            Self::Internal => "The server failed",
        }
    }
}

/// One problem, as a client sees it. It tells nothing of the server's inside: log the error beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    case: Case,
    detail: String,
    fields: Vec<String>,
    retry_after: Option<u64>,
}

impl Problem {
    /// A problem with a sentence for the client.
    pub fn new(case: Case, detail: impl Into<String>) -> Self {
        let retry_after = matches!(case, Case::Unavailable | Case::InFlight).then_some(RETRY_AFTER_SECONDS);
        Self { case, detail: detail.into(), fields: Vec::new(), retry_after }
    }

    /// The request has no key and needs one.
    pub fn key_missing() -> Self {
        Self::new(Case::KeyMissing, format!("send the header {HEADER} with a new random key for each new request"))
    }

    /// What a client is told when a call has no outcome. `now` is the time of the clock that the call used
    /// ([`Once::now`](crate::Once::now)).
    ///
    /// [`Error::Work`] is the caller's own error: map it before, if the client should learn more than that the server
    /// failed. [`Error::Unrecorded`] also becomes [`Case::Internal`]. A caller that has the work's value should
    /// answer with it instead, because the effect happened.
    pub fn of<E>(error: &Error<E>, now: Timestamp) -> Self {
        match error {
            Error::InFlight { .. } => {
                let until_the_lease_ends = error.retry_after(now).unwrap_or_default();
                let seconds = whole_millis(until_the_lease_ends).div_ceil(1000).max(RETRY_AFTER_SECONDS);
                let detail = "another request with this key is being worked on; send this one again with the same key";
                Self { retry_after: Some(seconds), ..Self::new(Case::InFlight, detail) }
            }
            Error::Superseded => Self::new(
                Case::InFlight,
                "the request took too long, and another one with this key took over; send it again with the same key to get \
                 the outcome that counts",
            ),
            Error::Mismatch { fields } => {
                let detail = format!("this key was used for a request that differs in {}", fields.join(", "));
                Self { fields: fields.clone(), ..Self::new(Case::Mismatch, detail) }
            }
            Error::Failed { .. } => Self::new(
                Case::Failed,
                "an earlier request with this key failed and had no effect, and would fail again; use a new key to try \
                 something else",
            ),
            Error::DeadlinePassed { .. } => Self::unavailable("there was not enough time left; nothing was done"),
            Error::Cancelled(_) => Self::unavailable(
                "the request took too long and was cancelled; it is not known yet whether it was done",
            ),
            Error::Probe(_) => Self::unavailable("it is not known yet whether an earlier request was carried out"),
            Error::Store(error) if error.is_transient() => {
                Self::unavailable("the server cannot tell new requests from old ones at the moment; nothing was done")
            }
            Error::Doubtful => Self::new(
                Case::Doubtful,
                "an earlier request with this key may have been carried out, and the server cannot find out; an operator \
                 has to look. Do not send the request with another key",
            ),
            Error::DoneWithoutValue(_) => Self::no_response(),
            Error::Work(_) | Error::Unrecorded(_) | Error::Store(_) => Self::internal(),
        }
    }

    fn unavailable(detail: &str) -> Self {
        Self::new(Case::Unavailable, format!("{detail}; send the request again with the same key"))
    }

    /// The server failed, and the client learns nothing more than what it can do.
    pub(super) fn internal() -> Self {
        Self::new(
            Case::Internal,
            "the server failed, and it is not known whether the request was carried out; send it again with the same key",
        )
    }

    /// It was done before, but there is no response to return.
    pub(super) fn no_response() -> Self {
        Self::new(
            Case::NoResponse,
            "a request with this key was answered before, but its response is not available. Do not send the request with \
             another key",
        )
    }

    /// What went wrong.
    pub fn case(&self) -> Case {
        self.case
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.case.status()
    }

    /// The sentence for the client.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The fields in which the request differs from the one that the key was used for.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The value of the header `Retry-After`, in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// The body: RFC 9457's members, and `fields` if there are any.
    pub fn to_json(&self) -> String {
        let mut body = json!({
            "type": format!("urn:ichido:http:{}", self.case.slug()),
            "title": self.case.title(),
            "status": self.status(),
            "detail": self.detail,
        });
        if !self.fields.is_empty() {
            body["fields"] = json!(self.fields);
        }
        body.to_string()
    }
}

/// In place of a body that was too large to be kept. The status is the recorded one.
#[cfg(feature = "http")]
pub(super) fn body_not_kept(status: u16) -> String {
    json!({
        "type": "urn:ichido:http:body-not-kept",
        "title": "The request was answered before",
        "status": status,
        "detail": "this is the status of the first answer; its body was too large to be kept",
    })
    .to_string()
}

/// For a status that says everything.
#[cfg(feature = "http")]
pub(super) fn of_status(status: u16) -> String {
    json!({ "type": "about:blank", "status": status }).to_string()
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        Self::new(Case::KeyInvalid, error.to_string())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case.title(), self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Lost;
    use crate::record::NoValue;
    use crate::store;

    fn of(error: Error<String>) -> (u16, Option<u64>) {
        let problem = Problem::of(&error, Timestamp::from_secs(100));
        (problem.status(), problem.retry_after())
    }

    #[test]
    fn every_error_has_its_status() {
        let source = || "down".into();
        let at = Timestamp::from_secs(100);
        assert_eq!(of(Error::DeadlinePassed { deadline: at }), (503, Some(1)));
        assert_eq!(of(Error::Store(store::Error::Transient(source()))), (503, Some(1)));
        assert_eq!(of(Error::Probe("timeout".into())), (503, Some(1)));
        assert_eq!(of(Error::Superseded), (409, Some(1)));
        assert_eq!(of(Error::Cancelled(Lost::TakenOver)), (503, Some(1)));
        assert_eq!(of(Error::Mismatch { fields: vec!["amount".into()] }), (422, None));
        assert_eq!(of(Error::Failed { reason: "closed".into() }), (422, None));
        assert_eq!(of(Error::Doubtful), (500, None));
        assert_eq!(of(Error::DoneWithoutValue(NoValue::NotKept)), (500, None));
        assert_eq!(of(Error::Store(store::Error::Configuration(source()))), (500, None));
        assert_eq!(of(Error::Unrecorded(store::Error::Transient(source()))), (500, None));
        assert_eq!(of(Error::Work("no".into())), (500, None));
    }

    #[test]
    fn in_flight_says_when_the_lease_ends_and_never_less_than_a_second() {
        let in_flight = |millis| of(Error::InFlight { until: Timestamp::from_millis(millis) });
        assert_eq!(in_flight(130_000), (409, Some(30)));
        assert_eq!(in_flight(130_001), (409, Some(31)));
        assert_eq!(in_flight(100_000), (409, Some(1)));
        assert_eq!(in_flight(7), (409, Some(1)));
    }

    #[test]
    fn a_mismatch_names_the_fields_and_no_other_problem_has_the_member() {
        let now = Timestamp::default();
        let mismatch = Problem::of(&Error::<String>::Mismatch { fields: vec!["amount".into(), "to".into()] }, now);
        let body: serde_json::Value = serde_json::from_str(&mismatch.to_json()).unwrap();
        assert_eq!(body["fields"], json!(["amount", "to"]));
        assert_eq!((&body["type"], &body["status"]), (&json!("urn:ichido:http:mismatch"), &json!(422)));
        let doubtful = Problem::of(&Error::<String>::Doubtful, now);
        assert!(!doubtful.to_json().contains("fields"));
    }

    #[test]
    fn a_client_learns_nothing_of_the_inside() {
        let secret = "table payments in account 123";
        for error in [
            Error::Work(secret.to_owned()),
            Error::Probe(secret.to_owned()),
            Error::Failed { reason: secret.to_owned() },
            Error::Store(store::Error::Configuration(secret.into())),
            Error::Unrecorded(store::Error::Transient(secret.into())),
        ] {
            assert!(!Problem::of(&error, Timestamp::default()).to_json().contains(secret), "{error}");
        }
    }
}
