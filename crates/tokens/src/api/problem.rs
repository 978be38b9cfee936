//! What goes wrong, as a client sees it: `application/problem+json` (RFC 9457) with a stable code.
//!
//! A code is part of the interface: it never changes its meaning or its status. The sentences may change. What concerns
//! idempotency keys has the status that the library gives it.

use function::http::Response;
use ichido::http::{Case, PROBLEM_TYPE, RETRY_AFTER_SECONDS};
use serde_json::{Map, Value, json};
use telemetry::{causes, metric};

use crate::identity::jwt;
use crate::ledger::{self, Obstacle};

/// Every code there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    InvalidRequest,
    InvalidAmount,
    InvalidDid,
    InvalidIdempotencyKey,
    InvalidCursor,
    SelfTransfer,
    Unauthorized,
    Forbidden,
    AccountFrozen,
    AccountNotFound,
    RecipientNotFound,
    TransactionNotFound,
    NotFound,
    MethodNotAllowed,
    InsufficientBalance,
    RecipientFrozen,
    NotReversible,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyMismatch,
    LimitExceeded,
    Internal,
    Unavailable,
}

impl Code {
    pub const ALL: [Code; 23] = [
        Code::InvalidRequest,
        Code::InvalidAmount,
        Code::InvalidDid,
        Code::InvalidIdempotencyKey,
        Code::InvalidCursor,
        Code::SelfTransfer,
        Code::Unauthorized,
        Code::Forbidden,
        Code::AccountFrozen,
        Code::AccountNotFound,
        Code::RecipientNotFound,
        Code::TransactionNotFound,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::InsufficientBalance,
        Code::RecipientFrozen,
        Code::NotReversible,
        Code::PayloadTooLarge,
        Code::UnsupportedMediaType,
        Code::IdempotencyMismatch,
        Code::LimitExceeded,
        Code::Internal,
        Code::Unavailable,
    ];

    pub fn as_str(self) -> &'static str {
        self.facts().0
    }

    pub fn status(self) -> u16 {
        self.facts().1
    }

    fn facts(self) -> (&'static str, u16, &'static str) {
        match self {
            Code::InvalidRequest => ("INVALID_REQUEST", 400, "The request is not valid"),
            Code::InvalidAmount => ("INVALID_AMOUNT", 400, "The amount is not valid"),
            Code::InvalidDid => ("INVALID_DID", 400, "The DID is not valid"),
            Code::InvalidIdempotencyKey => {
                ("INVALID_IDEMPOTENCY_KEY", Case::KeyInvalid.status(), "The idempotency key is not valid")
            }
            Code::InvalidCursor => ("INVALID_CURSOR", 400, "The cursor is not valid"),
            Code::SelfTransfer => ("SELF_TRANSFER", 400, "Sender and recipient are the same"),
            Code::Unauthorized => ("UNAUTHORIZED", 401, "The caller is not authenticated"),
            Code::Forbidden => ("FORBIDDEN", 403, "The caller may not do this"),
            Code::AccountFrozen => ("ACCOUNT_FROZEN", 403, "The account is frozen"),
            Code::AccountNotFound => ("ACCOUNT_NOT_FOUND", 404, "There is no such account"),
            Code::RecipientNotFound => ("RECIPIENT_NOT_FOUND", 404, "The recipient has no account"),
            Code::TransactionNotFound => ("TRANSACTION_NOT_FOUND", 404, "There is no such transaction"),
            Code::NotFound => ("NOT_FOUND", 404, "There is no such path"),
            Code::MethodNotAllowed => ("METHOD_NOT_ALLOWED", 405, "The path does not take this method"),
            Code::InsufficientBalance => ("INSUFFICIENT_BALANCE", 409, "The balance is too low"),
            Code::RecipientFrozen => ("RECIPIENT_FROZEN", 409, "The recipient's account is frozen"),
            Code::NotReversible => ("NOT_REVERSIBLE", 409, "This transaction cannot be reversed"),
            Code::PayloadTooLarge => ("PAYLOAD_TOO_LARGE", 413, "The body is too large"),
            Code::UnsupportedMediaType => ("UNSUPPORTED_MEDIA_TYPE", 415, "The body is not JSON"),
            Code::IdempotencyMismatch => {
                ("IDEMPOTENCY_MISMATCH", Case::Mismatch.status(), "The key was used for another request")
            }
            Code::LimitExceeded => ("LIMIT_EXCEEDED", 422, "The transfer is above a limit"),
            Code::Internal => ("INTERNAL", 500, "The service failed"),
            Code::Unavailable => {
                let title = "It is not known yet whether the request was carried out";
                ("UNAVAILABLE", Case::Unavailable.status(), title)
            }
        }
    }
}

/// One problem: a code, a sentence, and what else the code needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub code: Code,
    detail: String,
    members: Map<String, Value>,
    headers: Vec<(&'static str, String)>,
}

impl Problem {
    pub fn new(code: Code, detail: impl ToString) -> Self {
        Problem { code, detail: detail.to_string(), members: Map::new(), headers: Vec::new() }
    }

    /// With another member beside the standard ones.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    pub fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub fn response(&self) -> Response {
        let (code, status, title) = self.code.facts();
        let slug = code.to_ascii_lowercase().replace('_', "-");
        let mut body = json!({
            "type": format!("urn:ichido:tokens:{slug}"),
            "title": title,
            "status": status,
            "detail": self.detail,
            "code": code,
        });
        if let Some(object) = body.as_object_mut() {
            object.extend(self.members.clone());
        }
        let response = Response::json(status, &body).header("content-type", PROBLEM_TYPE);
        self.headers.iter().fold(response, |response, (name, value)| response.header(name, value.as_str()))
    }
}

// What went wrong elsewhere, as a problem

impl Problem {
    /// It is not known whether something was done. The client should ask again.
    pub(crate) fn unavailable(detail: &str) -> Self {
        Problem::new(Code::Unavailable, detail).header("retry-after", RETRY_AFTER_SECONDS)
    }

    /// The request has no token.
    pub(crate) fn no_token() -> Self {
        jwt::Error::Missing.into()
    }
}

impl From<jwt::Error> for Problem {
    fn from(error: jwt::Error) -> Self {
        let challenge = match error {
            jwt::Error::Missing => "Bearer",
            _ => "Bearer error=\"invalid_token\"",
        };
        Problem::new(Code::Unauthorized, error).header("www-authenticate", challenge)
    }
}

impl From<ledger::Error> for Problem {
    fn from(error: ledger::Error) -> Self {
        use ledger::Error;
        match error {
            Error::Refused(obstacle) => obstacle.into(),
            Error::Mismatch { fields } => {
                let detail = format!("this key was used for a transfer that differs in {}", fields.join(", "));
                Problem::new(Code::IdempotencyMismatch, detail).with("fields", fields)
            }
            Error::Unresolved => Problem::unavailable(
                "it is not known yet whether the request was carried out; send it again with the same key",
            ),
            Error::Key(error) => Problem::new(Code::InvalidIdempotencyKey, error),
            Error::TransactionNotFound => Problem::new(Code::TransactionNotFound, error),
            Error::NotReversible => Problem::new(Code::NotReversible, error),
            Error::AccountNotFound | Error::NoStatement => Problem::new(Code::AccountNotFound, error),
            Error::StatementChanged => Problem::new(Code::InvalidCursor, error),
            Error::Store(_) | Error::Item(_) | Error::Record(_) => {
                // The client learns nothing of our inside. The log does, once, here.
                let cause = causes(&error);
                tracing::error!(
                    error = &error as &(dyn std::error::Error + 'static),
                    "answered 500, because the ledger failed: {cause}"
                );
                metric::FAILURES.add(1);
                Problem::new(Code::Internal, "the service failed and logged the cause; the request is not at fault")
            }
        }
    }
}

impl From<Obstacle> for Problem {
    fn from(obstacle: Obstacle) -> Self {
        let code = match obstacle {
            Obstacle::SenderNotFound => {
                let detail = format!("{obstacle}; POST /tokens/accounts opens one");
                return Problem::new(Code::AccountNotFound, detail);
            }
            Obstacle::SenderFrozen => Code::AccountFrozen,
            Obstacle::RecipientNotFound => Code::RecipientNotFound,
            Obstacle::RecipientFrozen => Code::RecipientFrozen,
            Obstacle::InsufficientBalance => Code::InsufficientBalance,
            Obstacle::LimitExceeded => Code::LimitExceeded,
        };
        Problem::new(code, obstacle)
    }
}
