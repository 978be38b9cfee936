//! What goes wrong, as a client sees it: `application/problem+json` (RFC 9457) with a stable code.
//!
//! A code is part of the interface and never changes its meaning or its status; the sentences may improve.

use function::http::Response;
use serde_json::{Map, Value, json};

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
            Code::InvalidIdempotencyKey => ("INVALID_IDEMPOTENCY_KEY", 400, "The idempotency key is not valid"),
            Code::InvalidCursor => ("INVALID_CURSOR", 400, "The cursor is not valid"),
            Code::SelfTransfer => ("SELF_TRANSFER", 400, "Sender and recipient are the same"),
            Code::Unauthorized => ("UNAUTHORIZED", 401, "The caller is not known"),
            Code::Forbidden => ("FORBIDDEN", 403, "The caller may not do this"),
            Code::AccountFrozen => ("ACCOUNT_FROZEN", 403, "The account is frozen"),
            Code::AccountNotFound => ("ACCOUNT_NOT_FOUND", 404, "There is no such account"),
            Code::RecipientNotFound => ("RECIPIENT_NOT_FOUND", 404, "The recipient has no account"),
            Code::TransactionNotFound => ("TRANSACTION_NOT_FOUND", 404, "There is no such transaction"),
            Code::NotFound => ("NOT_FOUND", 404, "There is nothing here"),
            Code::MethodNotAllowed => ("METHOD_NOT_ALLOWED", 405, "The method is not possible here"),
            Code::InsufficientBalance => ("INSUFFICIENT_BALANCE", 409, "The balance is too low"),
            Code::RecipientFrozen => ("RECIPIENT_FROZEN", 409, "The recipient's account is frozen"),
            Code::NotReversible => ("NOT_REVERSIBLE", 409, "This transaction cannot be reversed"),
            Code::PayloadTooLarge => ("PAYLOAD_TOO_LARGE", 413, "The body is too large"),
            Code::UnsupportedMediaType => ("UNSUPPORTED_MEDIA_TYPE", 415, "The body is not JSON"),
            Code::IdempotencyMismatch => ("IDEMPOTENCY_MISMATCH", 422, "The key was used for another request"),
            Code::LimitExceeded => ("LIMIT_EXCEEDED", 422, "The transfer is above a limit"),
            Code::Internal => ("INTERNAL", 500, "Something is wrong on our side"),
            Code::Unavailable => ("UNAVAILABLE", 503, "The outcome is not known yet"),
        }
    }
}

/// One problem: a code, a sentence, and whatever else the code carries.
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
        let response = Response::json(status, &body).header("content-type", "application/problem+json");
        self.headers.iter().fold(response, |response, (name, value)| response.header(name, value.as_str()))
    }
}
