//! One line of a file: an account with its balance, or a key that was used.
//!
//! A line is one record, also in CSV: nothing that is imported can contain a line break. So a quote that is never closed
//! costs one line, not the memory for the rest of the file.

use std::collections::BTreeSet;

use ichido::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::amount::Amount;
use crate::api::idempotency::IdempotencyKey;
use crate::api::instant;
use crate::identity::did::Did;
use crate::ledger::{Opening, Used};
use crate::table;

/// The fields of an account.
pub(super) const ACCOUNT: &[&str] = &["did", "balance"];
/// The fields of a used key.
pub(super) const USED: &[&str] =
    &["senderDid", "idempotencyKey", "recipientDid", "amount", "transactionId", "createdAt"];

/// The longest id of another service's transaction, in bytes.
const MAX_TRANSACTION_ID: usize = 256;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Account(Opening),
    Used(Used),
}

/// Fields as they are written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Fields {
    did: Option<String>,
    balance: Option<String>,
    sender_did: Option<String>,
    idempotency_key: Option<String>,
    recipient_did: Option<String>,
    amount: Option<String>,
    transaction_id: Option<String>,
    #[serde(default, deserialize_with = "text_or_number")]
    created_at: Option<String>,
}

/// Milliseconds may be a number in JSON. An amount may not, because it would be a float.
fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "createdAt is neither a text nor a number of milliseconds")]
    enum Either {
        Text(String),
        Number(u64),
    }
    Ok(Some(match Either::deserialize(deserializer)? {
        Either::Text(text) => text,
        Either::Number(number) => number.to_string(),
    }))
}

impl Fields {
    /// Reads a line of JSON Lines.
    pub(super) fn of_json(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "{\"did\": \"did:key:alice\", \"balance\": \"12.5\"}";
        // A list would otherwise be read as the fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err(format!("not an object such as {EXAMPLE}"));
        }
        serde_json::from_str(text).map_err(|error| {
            let what = error.to_string();
            // It counts lines of the text that it got, which is one line of the file.
            let what = what.split(" at line ").next().unwrap_or_default();
            format!("not an object of texts such as {EXAMPLE}: {what} (column {})", error.column())
        })
    }

    /// Reads a line of CSV.
    pub(super) fn of_csv(columns: &[String], text: &str) -> Result<Self, String> {
        let cells = cells(text)?;
        if cells.len() != columns.len() {
            return Err(format!("it has {} fields, and the header has {}", cells.len(), columns.len()));
        }
        let mut fields = Fields::default();
        for (column, cell) in columns.iter().zip(cells) {
            if let Some(field) = fields.named(column) {
                *field = Some(cell);
            }
        }
        Ok(fields)
    }

    fn named(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            "did" => &mut self.did,
            "balance" => &mut self.balance,
            "senderDid" => &mut self.sender_did,
            "idempotencyKey" => &mut self.idempotency_key,
            "recipientDid" => &mut self.recipient_did,
            "amount" => &mut self.amount,
            "transactionId" => &mut self.transaction_id,
            "createdAt" => &mut self.created_at,
            _ => return None,
        })
    }
}

/// The columns of a header: those of an account, or those of a used key, in any order.
pub(super) fn columns(header: &str) -> Result<Vec<String>, String> {
    let columns = cells(header)?;
    let names: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
    let is = |shape: &[&str]| columns.len() == shape.len() && names == shape.iter().copied().collect();
    if is(ACCOUNT) || is(USED) {
        return Ok(columns);
    }
    Err(format!(
        "the header must be {} or {}; a file without a header must be JSON Lines",
        ACCOUNT.join(","),
        USED.join(",")
    ))
}

/// The cells of a line of CSV. A cell in quotes may contain commas, and quotes that are doubled.
fn cells(text: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = text;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let (cell, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if cell.contains('"') {
                    return Err("a quote stands inside a field that does not begin with one".into());
                }
                (cell.to_owned(), after)
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err("after the closing quote of a field, a comma must follow".into()),
        }
    }
}

/// The cell after an opening quote, and what is behind its closing one.
fn quoted_cell(text: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    let mut rest = text;
    loop {
        let (before, after) =
            rest.split_once('"').ok_or("a field begins with a quote that is not closed on its line")?;
        cell.push_str(before);
        match after.strip_prefix('"') {
            Some(next) => {
                cell.push('"');
                rest = next;
            }
            None => return Ok((cell, after)),
        }
    }
}

impl Line {
    pub(super) fn of(fields: Fields, treasury: &Did) -> Result<Self, String> {
        let account = fields.did.is_some() || fields.balance.is_some();
        let used = [&fields.sender_did, &fields.idempotency_key, &fields.recipient_did, &fields.amount];
        let used = used.into_iter().chain([&fields.transaction_id, &fields.created_at]).any(Option::is_some);
        match (account, used) {
            (true, false) => account_of(fields, treasury).map(Line::Account),
            (false, true) => used_of(fields).map(Line::Used),
            _ => Err(format!(
                "it must have either {}, for an account, or {}, for a used key",
                ACCOUNT.join(" and "),
                USED.join(", ")
            )),
        }
    }
}

fn account_of(fields: Fields, treasury: &Did) -> Result<Opening, String> {
    let did = did("did", fields.did)?;
    if did == *treasury {
        return Err(format!("did: {treasury} is the treasury of this service, which is no account"));
    }
    let balance = present("balance", fields.balance)?;
    // The words of an amount are about an amount that is sent.
    let balance = balance.parse::<Amount>().map_err(|error| format!("balance {balance:?}: {error}"))?;
    table::account_name(&did).map_err(|error| format!("did: {error}"))?;
    Ok(Opening { did, balance })
}

fn used_of(fields: Fields) -> Result<Used, String> {
    let sender = did("senderDid", fields.sender_did)?;
    let key = present("idempotencyKey", fields.idempotency_key)?;
    let key = key.parse::<IdempotencyKey>().map_err(|error| format!("idempotencyKey {key:?}: {error}"))?;
    let recipient = did("recipientDid", fields.recipient_did)?;
    let amount = present("amount", fields.amount)?;
    let amount = Amount::parse_positive(&amount).map_err(|error| format!("amount {amount:?}: {error}"))?;
    let transaction_id = present("transactionId", fields.transaction_id)?;
    if transaction_id.len() > MAX_TRANSACTION_ID || transaction_id.chars().any(char::is_control) {
        return Err(format!("transactionId must be at most {MAX_TRANSACTION_ID} bytes without control characters"));
    }
    let created_at = time(&present("createdAt", fields.created_at)?)?;
    table::used_name(&sender, &key).map_err(|error| format!("senderDid and idempotencyKey together: {error}"))?;
    Ok(Used { sender, key, recipient, amount, transaction_id, created_at })
}

fn present(name: &str, field: Option<String>) -> Result<String, String> {
    field.filter(|text| !text.is_empty()).ok_or_else(|| format!("{name} is missing"))
}

fn did(name: &str, field: Option<String>) -> Result<Did, String> {
    let text = present(name, field)?;
    text.parse::<Did>().map_err(|error| format!("{name} {text:?}: {error}"))
}

/// An instant, or the milliseconds since 1970 as the first design's language counts them.
fn time(text: &str) -> Result<Timestamp, String> {
    if !text.is_empty() && text.len() <= 14 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Timestamp::from_millis).map_err(|_| "createdAt is not a time".into());
    }
    instant::parse("createdAt", text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str) -> Result<Line, String> {
        let treasury = "did:ichido:treasury".parse().unwrap();
        Fields::of_json(text).and_then(|fields| Line::of(fields, &treasury))
    }

    #[test]
    fn a_line_is_an_account_or_a_used_key() {
        let Ok(Line::Account(account)) = line(r#"{"did": "did:key:alice", "balance": "0"}"#) else { panic!() };
        assert_eq!((account.did.as_str(), account.balance), ("did:key:alice", Amount::ZERO));
        let used = r#"{"senderDid": "did:web:localhost%3A8443", "idempotencyKey": "order#7", "recipientDid": "did:key:bob",
            "amount": "12.50", "transactionId": "tx_01HZX", "createdAt": "1767225599000"}"#;
        let Ok(Line::Used(used)) = line(used) else { panic!() };
        assert_eq!((used.key.as_str(), used.amount.to_string().as_str()), ("order#7", "12.5"));
        assert_eq!(used.created_at.to_string(), "2025-12-31T23:59:59.000Z");
        let number = r#"{"senderDid": "did:key:a", "idempotencyKey": "k", "recipientDid": "did:key:b", "amount": "1",
            "transactionId": "t", "createdAt": 1767225599000}"#;
        assert!(matches!(line(number), Ok(Line::Used(number)) if number.created_at == used.created_at));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (text, said) in [
            ("", "not an object"),
            (r#"{"did": "did:key:alice""#, "EOF"),
            (r#"["did:key:alice", "1", null, null, null, null, null, null]"#, "not an object"),
            (r#"{"did": "did:key:alice"}"#, "balance is missing"),
            (r#"{"did": "did:key:alice", "balance": ""}"#, "balance is missing"),
            (r#"{"balance": "1"}"#, "did is missing"),
            (r#"{}"#, "either did and balance"),
            (r#"{"did": "did:key:alice", "balance": "1", "amount": "1"}"#, "either did and balance"),
            (r#"{"did": "did:key:alice", "balance": 1}"#, "invalid type"),
            (r#"{"did": "did:key:alice", "balance": "1", "did": "did:key:bob"}"#, "duplicate field"),
            (r#"{"did": "did:key:alice", "balance": "1", "ballance": "1"}"#, "unknown field"),
            (r#"{"did": "alice", "balance": "1"}"#, "did \"alice\": a DID is"),
            (r#"{"did": "did:ichido:treasury", "balance": "1"}"#, "is the treasury"),
            (r#"{"did": "did:key:alice", "balance": "-1"}"#, "must not have a sign"),
            (r#"{"did": "did:key:alice", "balance": "10000000000.00000001"}"#, "larger than"),
            (r#"{"did": "did:key:alice", "balance": "1e3"}"#, "'e' is not allowed"),
        ] {
            let error = line(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let used = |name: &str, value: &str| {
            let mut fields = serde_json::json!({ "senderDid": "did:key:alice", "idempotencyKey": "k", "recipientDid": "did:key:bob",
                "amount": "1", "transactionId": "t", "createdAt": "2026-01-31T09:00:00Z" });
            fields[name] = value.into();
            line(&fields.to_string())
        };
        assert!(used("amount", "1").is_ok());
        for (name, value, said) in [
            ("senderDid", "alice", "senderDid \"alice\""),
            ("idempotencyKey", "a b", "idempotencyKey \"a b\""),
            ("idempotencyKey", "", "idempotencyKey is missing"),
            ("recipientDid", "did:", "recipientDid \"did:\""),
            ("amount", "0", "greater than zero"),
            ("transactionId", "a\nb", "control characters"),
            ("createdAt", "yesterday", "createdAt must be an instant"),
            ("createdAt", "2026-01-31", "createdAt must be an instant"),
        ] {
            let error = used(name, value).unwrap_err();
            assert!(error.contains(said), "{name} {value:?}: {error}");
        }
    }

    #[test]
    fn cells_may_be_quoted() {
        let of = |text| cells(text).map_err(|error| error.len() > 10);
        let list = |cells: &[&str]| Ok(cells.iter().map(|cell| (*cell).to_owned()).collect());
        assert_eq!(of("a,b"), list(&["a", "b"]));
        assert_eq!(of("\"a,\"\"b\"\"\",c"), list(&["a,\"b\"", "c"]));
        assert_eq!(of("a,"), list(&["a", ""]));
        assert_eq!(of(""), list(&[""]));
        assert_eq!(of("\"\",\"\""), list(&["", ""]));
        for wrong in ["\"a", "a\"b,c", "\"a\"b,c", "\"a\"\""] {
            assert_eq!(of(wrong), Err(true), "{wrong}");
        }
    }

    #[test]
    fn a_header_names_the_fields_of_one_kind() {
        assert_eq!(columns("balance,did").unwrap(), ["balance", "did"]);
        assert!(columns("\"did\",\"balance\"").is_ok());
        assert!(columns(&USED.join(",")).is_ok());
        for wrong in
            ["", "did", "did,balance,balance", "did,did", "did,balance,amount", "DID,Balance", "did:key:alice,5"]
        {
            assert!(columns(wrong).unwrap_err().contains("the header must be did,balance or senderDid,"), "{wrong}");
        }
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn cells_that_are_written_with_quotes_are_read_again(texts in prop::collection::vec("[^\r\n]{0,12}", 1..5)) {
                let quoted: Vec<String> = texts.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).collect();
                prop_assert_eq!(cells(&quoted.join(",")), Ok(texts));
            }

            #[test]
            fn any_text_is_a_line_or_an_error(text in any::<String>()) {
                let _ = line(&text);
                if let Ok(cells) = cells(&text) {
                    prop_assert!(!cells.is_empty());
                }
            }
        }
    }
}
