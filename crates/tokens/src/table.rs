//! The table: which items there are, what they are called, and how they are read back.
//!
//! | item | `PK` | `SK` |
//! |---|---|---|
//! | idempotency record | `IDEMPOTENCY#{sender}#{key}` | `METADATA` |
//! | reversal record | `REVERSAL#{transaction}` | `METADATA` |
//! | account | `ACCOUNT#{did}` | `BALANCE` |
//! | shard of the treasury | `TREASURY#{shard}` | `BALANCE` |
//! | sent on a day | `LIMIT#{did}#{day}` | `SPENT` |
//! | ledger entry | `SENT#{sender}`, or `GRANT#{recipient}` | `TX#{transaction}` |
//!
//! Entries are also in the index [`INDEX`] under `RECEIVED#{recipient}`. There is no partition of all transactions:
//! each history has its own, so none grows hot. Separators inside a part are escaped by the library's keys, so no two
//! different lists of parts share a `PK`. An item that cannot be read is an [`Error`] that names it, never a guess.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use ichido::{Key, Namespace, Timestamp, key};

use crate::amount::{Amount, Delta};
use crate::did::Did;
use crate::entry::{Account, Entry, Kind, Postings};
use crate::instant;
use crate::transaction::TransactionId;

pub const PK: &str = "PK";
pub const SK: &str = "SK";
pub const TTL: &str = "ttl";
pub const INDEX: &str = "GSI1";
pub const INDEX_PK: &str = "GSI1PK";
pub const INDEX_SK: &str = "GSI1SK";

pub const RECORD_SK: &str = "METADATA";
pub const BALANCE_SK: &str = "BALANCE";
pub const SPENT_SK: &str = "SPENT";
pub const ENTRY_PREFIX: &str = "TX#";

pub const BALANCE: &str = "balance";
/// How many entries have changed a balance: tells `verify` that none is missing and none came in between.
pub const ENTRIES: &str = "entries";
pub const STATUS: &str = "status";
pub const OPEN: &str = "open";
pub const FROZEN: &str = "frozen";
pub const SPENT: &str = "spent";

/// How a record of the library is told from other items.
pub const IDEMPOTENCY: &str = "IDEMPOTENCY";
pub const REVERSAL: &str = "REVERSAL";

pub type Item = HashMap<String, AttributeValue>;

/// An item that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the item {pk:?} {sk:?} cannot be read: {attribute} is missing or malformed")]
pub struct Error {
    pub pk: String,
    pub sk: String,
    pub attribute: &'static str,
}

fn key_of<const N: usize>(namespace: &str, parts: [&str; N]) -> Result<Key, key::Error> {
    Namespace::new(namespace).key(parts)
}

pub fn account_pk(account: &Account) -> Result<String, key::Error> {
    let key = match account {
        Account::Of(did) => key_of("ACCOUNT", [did.as_str()])?,
        Account::Treasury(shard) => key_of("TREASURY", [shard.to_string().as_str()])?,
    };
    Ok(key.as_str().to_owned())
}

pub fn limit_pk(did: &Did, at: Timestamp) -> Result<String, key::Error> {
    Ok(key_of("LIMIT", [did.as_str(), instant::day(at).as_str()])?.as_str().to_owned())
}

pub fn sent_pk(did: &Did) -> Result<String, key::Error> {
    Ok(key_of("SENT", [did.as_str()])?.as_str().to_owned())
}

pub fn received_pk(did: &Did) -> Result<String, key::Error> {
    Ok(key_of("RECEIVED", [did.as_str()])?.as_str().to_owned())
}

pub fn entry_pk(entry: &Entry) -> Result<String, key::Error> {
    match &entry.sender {
        Some(sender) => sent_pk(sender),
        None => Ok(key_of("GRANT", [entry.recipient.as_str()])?.as_str().to_owned()),
    }
}

pub fn entry_sk(id: TransactionId) -> String {
    format!("{ENTRY_PREFIX}{id}")
}

pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

// Entries

/// The item of an entry.
pub fn entry_item(entry: &Entry) -> Result<Item, key::Error> {
    let postings = entry.postings.iter().map(|(account, delta)| Ok((account_pk(account)?, number(delta.0))));
    let mut item = Item::from([
        (PK.into(), text(entry_pk(entry)?)),
        (SK.into(), text(entry_sk(entry.id))),
        (INDEX_PK.into(), text(received_pk(&entry.recipient)?)),
        (INDEX_SK.into(), text(entry_sk(entry.id))),
        ("transactionId".into(), text(entry.id.to_string())),
        ("kind".into(), text(entry.kind.as_str())),
        ("recipientDid".into(), text(entry.recipient.as_str())),
        ("amount".into(), number(entry.amount.units())),
        ("fee".into(), number(entry.fee.units())),
        ("message".into(), text(&entry.message)),
        ("status".into(), text("completed")),
        ("createdAt".into(), text(instant::format(entry.created_at()))),
        ("postings".into(), AttributeValue::M(postings.collect::<Result<_, key::Error>>()?)),
    ]);
    if let Some(sender) = &entry.sender {
        item.insert("senderDid".into(), text(sender.as_str()));
    }
    if let Some(reverses) = entry.reverses {
        item.insert("reverses".into(), text(reverses.to_string()));
    }
    Ok(item)
}

/// Reads an entry back.
pub fn read_entry(item: &Item) -> Result<Entry, Error> {
    let id: TransactionId = parsed(item, "transactionId")?;
    let kind = Kind::parse(string(item, "kind")?).ok_or_else(|| broken(item, "kind"))?;
    let Some(AttributeValue::M(map)) = item.get("postings") else { return Err(broken(item, "postings")) };
    let mut postings = Postings::new();
    for (pk, value) in map {
        let account = read_account_pk(pk).ok_or_else(|| broken(item, "postings"))?;
        let delta = value.as_n().ok().and_then(|n| n.parse().ok()).ok_or_else(|| broken(item, "postings"))?;
        postings.insert(account, Delta(delta));
    }
    Ok(Entry {
        id,
        kind,
        sender: if item.contains_key("senderDid") { Some(parsed(item, "senderDid")?) } else { None },
        recipient: parsed(item, "recipientDid")?,
        amount: units(item, "amount")?,
        fee: units(item, "fee")?,
        message: string(item, "message")?.to_owned(),
        reverses: if item.contains_key("reverses") { Some(parsed(item, "reverses")?) } else { None },
        postings,
    })
}

/// Which account an item's `PK` is of.
pub fn read_account_pk(pk: &str) -> Option<Account> {
    if let Some(shard) = pk.strip_prefix("TREASURY#") {
        return shard.parse().ok().map(Account::Treasury);
    }
    let did = pk.strip_prefix("ACCOUNT#")?;
    // the only separator that a DID can hold is the escape character itself
    did.replace("%25", "%").parse().ok().map(Account::Of)
}

// Accounts

/// An account as it is in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    pub account: Account,
    pub balance: Delta,
    pub entries: u64,
    pub frozen: bool,
}

/// Reads an account or a shard back.
pub fn read_balance(item: &Item) -> Result<Balance, Error> {
    let account = string(item, PK).ok().and_then(read_account_pk).ok_or_else(|| broken(item, PK))?;
    Ok(Balance {
        account,
        balance: Delta(int(item, BALANCE)?),
        entries: u64::try_from(int(item, ENTRIES)?).map_err(|_| broken(item, ENTRIES))?,
        frozen: item.get(STATUS).and_then(|status| status.as_s().ok()).is_some_and(|status| status == FROZEN),
    })
}

// Attributes

pub fn string<'a>(item: &'a Item, name: &'static str) -> Result<&'a str, Error> {
    item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str).ok_or_else(|| broken(item, name))
}

pub fn int(item: &Item, name: &'static str) -> Result<i128, Error> {
    item.get(name).and_then(|value| value.as_n().ok()).and_then(|n| n.parse().ok()).ok_or_else(|| broken(item, name))
}

pub fn units(item: &Item, name: &'static str) -> Result<Amount, Error> {
    u64::try_from(int(item, name)?).map(Amount::from_units).map_err(|_| broken(item, name))
}

pub fn parsed<T: std::str::FromStr>(item: &Item, name: &'static str) -> Result<T, Error> {
    string(item, name)?.parse().map_err(|_| broken(item, name))
}

pub fn broken(item: &Item, attribute: &'static str) -> Error {
    let key = |name| item.get(name).and_then(|value| value.as_s().ok()).cloned().unwrap_or_default();
    Error { pk: key(PK), sk: key(SK), attribute }
}
