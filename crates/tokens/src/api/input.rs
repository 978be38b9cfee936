//! Reads requests strictly. A request that is not valid is refused with a sentence that says what is wrong.
//!
//! An unknown field is an error, because a misspelt `idempotencyKey` that is silently ignored would cost money.

use function::http::Request;
use ichido::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::idempotency::IdempotencyKey;
use super::problem::{Code, Problem};
use super::{cursor, instant};
use crate::amount::{self, Amount};
use crate::identity::did::Did;
use crate::ledger::{History, Place, Places, TransactionId, Transfer};

/// The largest body that is read.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// The longest message or reason, in characters.
pub const MAX_MESSAGE_CHARS: usize = 500;

/// Entries per page, if the request does not say.
pub const PAGE: usize = 20;

/// The most entries per page.
pub const MAX_PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TransferBody {
    #[serde(default, deserialize_with = "present")]
    recipient_did: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    amount: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    message: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    idempotency_key: Option<Value>,
}

/// A transfer as it was asked for.
#[derive(Debug)]
pub(crate) struct TransferInput {
    recipient: Did,
    amount: Amount,
    message: String,
    key: Option<IdempotencyKey>,
}

impl TransferInput {
    pub(crate) fn read(request: &Request) -> Result<Self, Problem> {
        let body: TransferBody = body(request)?;
        let amount = match body.amount {
            None => return Err(missing("amount")),
            Some(Value::String(text)) => Amount::parse_positive(&text),
            Some(other) => Err(amount::Error::NotText(kind(&other))),
        };
        let amount = amount.map_err(|error| Problem::new(Code::InvalidAmount, error))?;
        let recipient = did("recipientDid", body.recipient_did)?;
        let message = message("message", body.message)?;
        let named = text("idempotencyKey", body.idempotency_key)?;
        let key = IdempotencyKey::of_request(request.header(ichido::http::HEADER), named.as_deref());
        let key = key.map_err(|error| Problem::new(Code::InvalidIdempotencyKey, error))?;
        Ok(TransferInput { recipient, amount, message, key })
    }

    pub(crate) fn into_transfer(
        self,
        sender: Did,
        new_key: impl FnOnce() -> IdempotencyKey,
    ) -> Result<Transfer, Problem> {
        if self.recipient == sender {
            return Err(Problem::new(Code::SelfTransfer, "sender and recipient are the same account"));
        }
        let TransferInput { recipient, amount, message, key } = self;
        Ok(Transfer { sender, recipient, amount, message, key: key.unwrap_or_else(new_key) })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReversalBody {
    #[serde(default, deserialize_with = "present")]
    sender_did: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    transaction_id: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    reason: Option<Value>,
}

/// A reversal as it was asked for.
#[derive(Debug)]
pub(crate) struct ReversalInput {
    pub(crate) sender: Did,
    pub(crate) id: TransactionId,
    pub(crate) reason: String,
}

impl ReversalInput {
    pub(crate) fn read(request: &Request) -> Result<Self, Problem> {
        let body: ReversalBody = body(request)?;
        let id = text("transactionId", body.transaction_id)?.ok_or_else(|| missing("transactionId"))?;
        Ok(ReversalInput {
            sender: did("senderDid", body.sender_did)?,
            id: id.parse().map_err(|error| Problem::new(Code::InvalidRequest, error))?,
            reason: message("reason", body.reason)?,
        })
    }
}

/// Which page of a history.
#[derive(Debug)]
pub(crate) struct Paging {
    pub(crate) limit: usize,
    /// `None`: the history can have nothing there.
    pub(crate) places: Option<Places>,
}

impl Paging {
    pub(crate) fn read(request: &Request, history: History, did: &Did) -> Result<Self, Problem> {
        let limit = limit(request)?;
        let start = instant_parameter(request, "startDate")?;
        let end = instant_parameter(request, "endDate")?;
        let mut places = Places::between(start, end);
        if let Some(text) = parameter(request, "cursor")? {
            let last = cursor::decode(history, did, &text).map_err(|error| Problem::new(Code::InvalidCursor, error))?;
            places = places.and_then(|places| places.after(last));
        }
        Ok(Paging { limit, places })
    }
}

/// Which page of a statement.
#[derive(Debug)]
pub(crate) struct StatementPaging {
    pub(crate) limit: usize,
    pub(crate) from: Option<Place>,
}

impl StatementPaging {
    pub(crate) fn read(request: &Request, did: &Did) -> Result<Self, Problem> {
        let limit = limit(request)?;
        let from = parameter(request, "cursor")?.map(|text| cursor::decode_statement(did, &text)).transpose();
        Ok(StatementPaging { limit, from: from.map_err(|error| Problem::new(Code::InvalidCursor, error))? })
    }
}

// Bodies

/// Refuses a body that is too large. It needs no caller, so it is asked before the signature of a token is verified.
pub(crate) fn within_limit(request: &Request) -> Result<(), Problem> {
    if request.body.len() > MAX_BODY_BYTES {
        return Err(Problem::new(Code::PayloadTooLarge, format!("a body has at most {MAX_BODY_BYTES} bytes")));
    }
    Ok(())
}

fn body<T: for<'de> Deserialize<'de>>(request: &Request) -> Result<T, Problem> {
    if let Some(content_type) = request.header("content-type") {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(Code::UnsupportedMediaType, "the body must be application/json"));
        }
    }
    // serde_json would also accept a list instead of an object.
    if request.body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::new(Code::InvalidRequest, "the body must be a JSON object"));
    }
    request.json().map_err(|error| Problem::new(Code::InvalidRequest, format!("the body cannot be read: {error}")))
}

/// A member that is there. `null` is not the same as absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn missing(name: &str) -> Problem {
    let code = if name == "amount" { Code::InvalidAmount } else { Code::InvalidRequest };
    Problem::new(code, format!("{name} is missing"))
}

fn text(name: &str, value: Option<Value>) -> Result<Option<String>, Problem> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            Err(Problem::new(Code::InvalidRequest, format!("{name} must be a string, not a JSON {}", kind(&other))))
        }
    }
}

fn did(name: &str, value: Option<Value>) -> Result<Did, Problem> {
    let text = text(name, value)?.ok_or_else(|| missing(name))?;
    text.parse().map_err(|error| Problem::new(Code::InvalidDid, format!("{name}: {error}")))
}

fn message(name: &str, value: Option<Value>) -> Result<String, Problem> {
    let text = text(name, value)?.unwrap_or_default();
    if text.chars().count() > MAX_MESSAGE_CHARS {
        return Err(Problem::new(Code::InvalidRequest, format!("{name} has at most {MAX_MESSAGE_CHARS} characters")));
    }
    Ok(text)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

// Queries

fn parameter(request: &Request, name: &str) -> Result<Option<String>, Problem> {
    let mut found = request.query_pairs().into_iter().filter(|(known, _)| known == name).map(|(_, value)| value);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(Problem::new(Code::InvalidRequest, format!("{name} is given twice"))),
        (first, None) => Ok(first),
    }
}

fn limit(request: &Request) -> Result<usize, Problem> {
    let Some(text) = parameter(request, "limit")? else { return Ok(PAGE) };
    whole_number(&text)
        .filter(|limit| (1..=MAX_PAGE).contains(limit))
        .ok_or_else(|| Problem::new(Code::InvalidRequest, format!("limit must be a whole number from 1 to {MAX_PAGE}")))
}

fn instant_parameter(request: &Request, name: &'static str) -> Result<Option<Timestamp>, Problem> {
    let text = parameter(request, name)?;
    text.map(|text| instant::parse(name, &text)).transpose().map_err(|error| Problem::new(Code::InvalidRequest, error))
}

/// Digits only. The parser of `usize` would also accept a sign.
fn whole_number(text: &str) -> Option<usize> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}
