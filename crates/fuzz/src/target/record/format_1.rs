//! Format 1, read and written as the table in `crates/ichido/src/dynamodb/item.rs` describes it. It does not use the library's code
//! and is not changed when the library is. A newer format gets a file of its own beside this one.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

type Item = HashMap<String, AttributeValue>;

/// A record. Times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    state: State,
    owner: String,
    fence: u64,
    updated_at: u64,
    /// In seconds.
    expires_at: Option<u64>,
    digests: Option<(String, BTreeMap<String, String>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Claimed { lease_until: u64 },
    Completed { outcome: Option<String>, kept: bool },
    Failed { reason: String },
    Released { reason: String, uncertain: bool },
}

/// Reads an item. The error is the name of the attribute that is missing or wrong.
pub(super) fn read(item: &Item, ttl: &'static str) -> Result<Record, &'static str> {
    let text = |name: &'static str| match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::S(text)) => Ok(Some(text.clone())),
        Some(_) => Err(name),
    };
    let number = |name: &'static str| match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(digits)) => digits.parse::<u64>().map(Some).map_err(|_| name),
        Some(_) => Err(name),
    };
    let flag = |name: &'static str| match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(name),
    };
    if number("ichido_format")?.is_none_or(|format| format > 1) {
        return Err("ichido_format");
    }
    let state = match text("ichido_state")?.ok_or("ichido_state")?.as_str() {
        "claimed" => State::Claimed { lease_until: number("ichido_lease_until")?.ok_or("ichido_lease_until")? },
        "completed" => match text("ichido_outcome")? {
            Some(outcome) => State::Completed { outcome: Some(outcome), kept: true },
            None => State::Completed { outcome: None, kept: flag("ichido_outcome_kept")?.unwrap_or(true) },
        },
        "failed" => State::Failed { reason: text("ichido_reason")?.unwrap_or_default() },
        "released" => State::Released {
            reason: text("ichido_reason")?.unwrap_or_default(),
            uncertain: flag("ichido_uncertain")?.unwrap_or(false),
        },
        _ => return Err("ichido_state"),
    };
    let owner = text("ichido_owner")?.ok_or("ichido_owner")?;
    let fence = number("ichido_fence")?.ok_or("ichido_fence")?;
    let updated_at = number("ichido_updated_at")?.ok_or("ichido_updated_at")?;
    let expires_at = number(ttl)?;
    let digests = match (text("ichido_digest_key")?, item.get("ichido_digests")) {
        (None, _) => None,
        (Some(key), Some(AttributeValue::M(fields))) => {
            let field = |(name, digest): (&String, &AttributeValue)| Some((name.clone(), digest.as_s().ok()?.clone()));
            Some((key, fields.iter().map(field).collect::<Option<_>>().ok_or("ichido_digests")?))
        }
        (Some(_), _) => return Err("ichido_digests"),
    };
    // The library's times end where milliseconds do.
    let expires_at = expires_at.map(|seconds| seconds.min(u64::MAX / 1000 + 1));
    Ok(Record { state, owner, fence, updated_at, expires_at, digests })
}

/// The item of a record, without its key.
pub(super) fn write(record: &Record, ttl: &str) -> Item {
    let number = |value: u64| AttributeValue::N(value.to_string());
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let mut item = Item::new();
    let mut set = |name: &str, value: AttributeValue| {
        item.insert(name.to_owned(), value);
    };
    set("ichido_format", number(1));
    set("ichido_owner", text(&record.owner));
    set("ichido_fence", number(record.fence));
    set("ichido_updated_at", number(record.updated_at));
    let name = match &record.state {
        State::Claimed { lease_until } => {
            set("ichido_lease_until", number(*lease_until));
            "claimed"
        }
        State::Completed { outcome, kept } => {
            if let Some(outcome) = outcome {
                set("ichido_outcome", text(outcome));
            } else if !kept {
                set("ichido_outcome_kept", AttributeValue::Bool(false));
            }
            "completed"
        }
        State::Failed { reason } => {
            set("ichido_reason", text(reason));
            "failed"
        }
        State::Released { reason, uncertain } => {
            set("ichido_reason", text(reason));
            set("ichido_uncertain", AttributeValue::Bool(*uncertain));
            "released"
        }
    };
    set("ichido_state", text(name));
    if let Some(seconds) = record.expires_at {
        set(ttl, number(seconds));
    }
    if let Some((key, fields)) = &record.digests {
        set("ichido_digest_key", text(key));
        set(
            "ichido_digests",
            AttributeValue::M(fields.iter().map(|(name, digest)| (name.clone(), text(digest))).collect()),
        );
    }
    item
}

impl From<&ichido::Record> for Record {
    fn from(record: &ichido::Record) -> Self {
        use ichido::{Outcome, State as Theirs};
        let state = match &record.state {
            Theirs::Claimed { lease_until } => State::Claimed { lease_until: lease_until.as_millis() },
            Theirs::Completed { outcome: Outcome::Value(json) } => {
                State::Completed { outcome: Some(json.to_string()), kept: true }
            }
            Theirs::Completed { outcome: Outcome::NotKept } => State::Completed { outcome: None, kept: false },
            Theirs::Completed { .. } => State::Completed { outcome: None, kept: true },
            Theirs::Failed { reason } => State::Failed { reason: reason.clone() },
            Theirs::Released { reason, uncertain } => State::Released { reason: reason.clone(), uncertain: *uncertain },
        };
        let digests = record.digests.as_ref().map(|digests| {
            let fields = digests.fields().map(|(name, digest)| (name.to_owned(), digest.to_owned()));
            (digests.key_id().to_owned(), fields.collect())
        });
        Self {
            state,
            owner: record.owner.as_str().to_owned(),
            fence: record.fence,
            updated_at: record.updated_at.as_millis(),
            expires_at: record.expires_at.map(|at| at.as_millis().div_ceil(1000)),
            digests,
        }
    }
}
