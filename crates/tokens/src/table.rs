//! The table: which items there are, how they are written and under which conditions, and how they are read back.
//! Nobody else knows the name of an attribute.
//!
//! | item | `PK` | `SK` |
//! |---|---|---|
//! | idempotency record | `IDEMPOTENCY#{sender}#{key}` | `METADATA` |
//! | reversal record | `REVERSAL#{transaction}` | `METADATA` |
//! | grant record | `GRANTED#{key}` | `METADATA` |
//! | account | `ACCOUNT#{did}` | `BALANCE` |
//! | shard of an account, from 1 on | `ACCOUNT#{did}` | `BALANCE#{shard}` |
//! | shard of the treasury | `TREASURY#{shard}` | `BALANCE` |
//! | sent on a day | `LIMIT#{did}#{day}` | `SPENT` |
//! | ledger entry | `SENT#{sender}`, or `GRANT#{recipient}` | `TX#{transaction}` |
//! | what an operator did by hand | `OPERATION#{month}` | `OPERATION#{time}#…` |
//!
//! The shards of an account are in its partition, so that one query reads them all. The account itself is shard 0.
//!
//! Entries are also in the index `GSI1` under `RECEIVED#{recipient}`. Each history has a partition of its own, so no
//! partition has all transactions and grows hot. The library's keys escape a separator inside a part, so two different
//! lists of parts never share a `PK`. An item that cannot be read is an [`Error`] that names the item.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;
use aws_sdk_dynamodb::types::builders::{PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update};
pub(crate) use function::item::Item;
use function::item::{get_map, get_number, get_text, number, text};
use function::operation::{self, Operations};
use ichido::dynamodb::item::attr;
use ichido::dynamodb::{Foreign, Join, Table};
use ichido::record::StateKind;
use ichido::{Key, Namespace, Timestamp, key};
use serde::{Deserialize, Serialize};

use crate::amount::{Amount, Delta};
use crate::api::idempotency::IdempotencyKey;
use crate::identity::did::Did;
use crate::ledger::{
    ACCOUNT_SHARDS, Account, Entry, History, Kind, MAX_SHARDS, Opened, Postings, Status, TransactionId, Transfer, Used,
};
use crate::settings::Window;

const PK: &str = "PK";
const SK: &str = "SK";
const TTL: &str = "ttl";
const INDEX: &str = "GSI1";
const INDEX_PK: &str = "GSI1PK";
const INDEX_SK: &str = "GSI1SK";

const RECORD_SK: &str = "METADATA";
const BALANCE_SK: &str = "BALANCE";
/// Before the number of a shard.
const SHARD_PREFIX: &str = "BALANCE#";
const SPENT_SK: &str = "SPENT";
const ENTRY_PREFIX: &str = "TX#";

const BALANCE: &str = "balance";
/// How many entries have changed a balance. It tells `verify` that no entry is missing and none came in between.
const ENTRIES: &str = "entries";
/// How many of them were debits. A reader who sees the same number twice knows that nothing was taken in between.
const DEBITS: &str = "debits";
/// How often the shards of an account were folded. The account and its shards have the same number, because a fold writes all of
/// them. A reader who sees two numbers read in the middle of a fold. An account that was never folded has none, which is 0.
const FOLDS: &str = "folds";
const STATUS: &str = "status";
const SPENT: &str = "spent";
const POSTINGS: &str = "postings";
/// By how much each shard changed, if others than the account itself did.
const PARTS: &str = "parts";
const TRANSACTION_ID: &str = "transactionId";
/// On a record of the first design that an import has put under the key that is read. A name alone does not tell: escaped
/// once more, it would be the name of another key.
const IMPORTED_AT: &str = "importedAt";

/// How many items one page of a scan reads. A full page of DynamoDB's is a megabyte, which a slow store does not return within the
/// time of one attempt.
pub(crate) const PAGE: i32 = 1_000;

/// How long the counter of a day is kept after the day: long enough to answer a question about it.
const COUNTER_KEPT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// An item that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the item {pk:?} {sk:?} cannot be read: {attribute} is missing or malformed")]
pub struct Error {
    pub pk: String,
    pub sk: String,
    pub attribute: &'static str,
}

// Records

/// Where the library keeps its records. A record of the first design, in a table that was taken over, counts as done.
pub fn records(table_name: &str) -> Table {
    Table::new(table_name, PK).sort_key(SK, RECORD_SK).ttl(TTL).foreign(Foreign::Done)
}

/// What operators did by hand. It stays, as entries do.
pub fn operations(table_name: &str) -> Operations {
    Operations::new(table_name, PK).sort_key(SK).forever()
}

/// The records of transfers.
pub(crate) fn transfers(window: Window) -> Namespace {
    let transfers = Namespace::new("IDEMPOTENCY");
    match window {
        Window::For(window) => transfers.retention(window),
        Window::Never => transfers.forever(),
    }
}

/// The records of reversals.
pub(crate) fn reversals() -> Namespace {
    Namespace::new("REVERSAL").forever()
}

/// The key of a transfer's record.
pub(crate) fn record_key(transfers: &Namespace, sender: &Did, key: &IdempotencyKey) -> Result<Key, key::Error> {
    transfers.key([sender.as_str(), key.as_str()])
}

/// The key of a reversal's record.
pub(crate) fn reversal_key(reversals: &Namespace, reversed: TransactionId) -> Result<Key, key::Error> {
    reversals.key([reversed.to_string()])
}

/// The key of the record of an operator's grant.
pub(crate) fn grant_key(key: &IdempotencyKey) -> Result<Key, key::Error> {
    Namespace::new("GRANTED").forever().key([key.as_str()])
}

/// What the record of a grant shows beside what the library needs.
pub(crate) fn describe_grant(record: Join, entry: &Entry) -> Join {
    record
        .attribute(TRANSACTION_ID, entry.id.to_string())
        .attribute("createdAt", entry.created_at().to_string())
        .attribute("recipientDid", entry.recipient.as_str())
        .attribute("amount", entry.amount.to_string())
}

/// What the record of a transfer shows beside what the library needs.
pub(crate) fn describe_transfer(record: Join, id: TransactionId, request: &Transfer) -> Join {
    record
        .attribute(TRANSACTION_ID, id.to_string())
        .attribute("createdAt", id.created_at().to_string())
        .attribute("senderDid", request.sender.as_str())
        .attribute("recipientDid", request.recipient.as_str())
        .attribute("amount", request.amount.to_string())
}

/// What the record of a reversal shows beside what the library needs.
pub(crate) fn describe_reversal(record: Join, id: TransactionId, reversed: TransactionId) -> Join {
    record
        .attribute(TRANSACTION_ID, id.to_string())
        .attribute("createdAt", id.created_at().to_string())
        .attribute("reverses", reversed.to_string())
}

/// What the record of a grant says: how much was granted, and why. `None`: the record is a tombstone.
pub(crate) fn read_granted(item: &Item) -> Result<Option<(Amount, String)>, Error> {
    #[derive(Deserialize)]
    struct Granted {
        amount: String,
        message: String,
    }
    if is_tombstone(item) {
        return Ok(None);
    }
    let granted: Option<Granted> = serde_json::from_str(string(item, attr::OUTCOME)?).ok();
    let granted = granted.and_then(|granted| Some((granted.amount.parse().ok()?, granted.message)));
    granted.map(Some).ok_or_else(|| broken(item, attr::OUTCOME))
}

/// What a record of the first design says of its transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Earlier {
    pub(crate) transaction_id: String,
    pub(crate) recipient: String,
    pub(crate) amount: Amount,
    pub(crate) created_at: String,
}

impl Earlier {
    pub(crate) fn same_transfer(&self, other: &Earlier) -> bool {
        self.transaction_id == other.transaction_id && self.recipient == other.recipient && self.amount == other.amount
    }
}

/// Reads a record of the first design. `None`: the record is the library's.
pub(crate) fn read_earlier(item: &Item) -> Result<Option<Earlier>, Error> {
    if item.contains_key(attr::FORMAT) {
        return Ok(None);
    }
    // It wrote amounts as numbers, and its times in the way of its language.
    let written = |name| item.get(name).and_then(|value| value.as_n().or_else(|_| value.as_s()).ok());
    let amount = written("amount").and_then(|text| Amount::parse(&plain(text)?).ok());
    let created_at = written("createdAt").ok_or_else(|| broken(item, "createdAt"))?;
    Ok(Some(Earlier {
        transaction_id: string(item, TRANSACTION_ID)?.to_owned(),
        recipient: string(item, "recipientDid")?.to_owned(),
        amount: amount.ok_or_else(|| broken(item, "amount"))?,
        created_at: created_at.parse().map_or(created_at.clone(), |ms| Timestamp::from_millis(ms).to_string()),
    }))
}

/// The record of a transfer that another service made, in the form of the first design, under the key that is read.
pub(crate) fn earlier_record(used: &Used, expires_at: Option<Timestamp>) -> Result<Item, key::Error> {
    let mut item = used_name(&used.sender, &used.key)?.key();
    item.extend([
        (TRANSACTION_ID.into(), text(&used.transaction_id)),
        ("createdAt".into(), text(used.created_at.to_string())),
        ("senderDid".into(), text(used.sender.as_str())),
        ("recipientDid".into(), text(used.recipient.as_str())),
        ("amount".into(), number(used.amount)),
    ]);
    if let Some(expires_at) = expires_at {
        item.insert(TTL.into(), number(expires_at.as_secs_ceil()));
    }
    Ok(item)
}

/// Puts a record of the first design where nothing is that still counts: no record, one that has expired, or a tombstone.
pub(crate) fn put_earlier(put: PutItemFluentBuilder, mut item: Item, now: Timestamp) -> PutItemFluentBuilder {
    item.insert(IMPORTED_AT.into(), text(now.to_string()));
    put.set_item(Some(item))
        .condition_expression("attribute_not_exists(PK) OR #ttl <= :now OR #state = :released")
        .expression_attribute_names("#ttl", TTL)
        .expression_attribute_names("#state", attr::STATE)
        .expression_attribute_values(":now", number(now.as_secs()))
        .expression_attribute_values(":released", text(StateKind::Released.name()))
}

/// The same for a key that was used. A record of the same transfer that an import wrote and that ends earlier is replaced too.
pub(crate) fn put_used(put: PutItemFluentBuilder, item: Item, now: Timestamp) -> PutItemFluentBuilder {
    let (id, until) = (item.get(TRANSACTION_ID).cloned(), item.get(TTL).cloned());
    let ends_earlier = if until.is_some() { "#ttl < :until" } else { "attribute_exists(#ttl)" };
    let same = format!("attribute_exists({IMPORTED_AT}) AND {TRANSACTION_ID} = :id AND {ends_earlier}");
    let put = put_earlier(put, item, now);
    let condition = put.get_condition_expression().clone().unwrap_or_default();
    let mut values = put.get_expression_attribute_values().clone().unwrap_or_default();
    values.extend(id.map(|id| (":id".to_owned(), id)));
    values.extend(until.map(|until| (":until".to_owned(), until)));
    put.condition_expression(format!("{condition} OR ({same})")).set_expression_attribute_values(Some(values))
}

/// Whether an import wrote this record, with an end before the given one. `None`: it shall never end.
pub(crate) fn ends_too_early(item: &Item, expires_at: Option<Timestamp>) -> bool {
    let ends = get_number::<u64>(item, TTL);
    item.contains_key(IMPORTED_AT)
        && ends.is_some_and(|ends| expires_at.is_none_or(|expires_at| ends < expires_at.as_secs_ceil()))
}

/// Whether nothing counts any more where this record is: it has expired, or is a tombstone.
pub(crate) fn is_over(item: &Item, now: Timestamp) -> bool {
    let expired = get_number::<u64>(item, TTL).is_some_and(|ttl| ttl <= now.as_secs());
    expired || is_tombstone(item)
}

fn is_tombstone(item: &Item) -> bool {
    get_text(item, attr::STATE) == Some(StateKind::Released.name())
}

/// Asks for the records of the first design that no import has written, page by page, from `start` on.
pub(crate) fn earlier_records(scan: ScanFluentBuilder, start: Option<Item>) -> ScanFluentBuilder {
    const OURS_ARE_NOT: &str = "attribute_not_exists(#format) AND attribute_not_exists(#imported)";
    scan.filter_expression(format!("begins_with(PK, :records) AND SK = :sk AND {OURS_ARE_NOT}"))
        .expression_attribute_names("#format", attr::FORMAT)
        .expression_attribute_names("#imported", IMPORTED_AT)
        .expression_attribute_values(":records", text("IDEMPOTENCY#"))
        .expression_attribute_values(":sk", text(RECORD_SK))
        .set_exclusive_start_key(start)
}

/// Sender and key of a record of the first design, which escaped neither. A DID contains no separator, so it ends at the
/// first one. `None`: no client of this service can name the record.
pub(crate) fn earlier_owner(name: &Name) -> Option<(Did, IdempotencyKey)> {
    let (sender, key) = name.0.strip_prefix("IDEMPOTENCY#")?.split_once('#')?;
    Some((sender.parse().ok()?, key.parse().ok()?))
}

/// Where a record of the first design would have to be to be read, if it is elsewhere and still counts.
pub(crate) fn read_under(item: &Item, now: Timestamp) -> Option<Name> {
    if item.contains_key(IMPORTED_AT) || is_over(item, now) {
        return None;
    }
    let found = Name::of(item);
    let (sender, key) = earlier_owner(&found)?;
    used_name(&sender, &key).ok().filter(|name| *name != found)
}

/// The same record under another name.
pub(crate) fn renamed(mut item: Item, name: &Name) -> Item {
    item.extend(name.key());
    item
}

/// A decimal number without an exponent: `1.25E-7` is `0.000000125`. Zeros at its end are left out.
fn plain(number: &str) -> Option<String> {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 =
        exponent.trim_start_matches('+').parse().ok().filter(|exponent| (-40..=40).contains(exponent))?;
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = "0".repeat(usize::try_from(exponent.unsigned_abs()).ok()?);
    let (before, after) = (format!("{zeros}{whole}"), format!("{places}{zeros}"));
    let all = format!("{before}{after}");
    let point = i32::try_from(before.len()).ok()? + exponent;
    let (whole, places) = all.split_at_checked(usize::try_from(point).ok()?)?;
    let (whole, places) = (whole.trim_start_matches('0'), places.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if places.is_empty() { whole.to_owned() } else { format!("{whole}.{places}") })
}

// Accounts

/// An account, or a shard of it or of the treasury, as it is in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) account: Account,
    pub(crate) balance: Delta,
    pub(crate) entries: u64,
    pub(crate) debits: u64,
    pub(crate) folds: u64,
    pub(crate) status: Status,
}

pub(crate) fn account_key(account: &Account) -> Result<Item, key::Error> {
    let (pk, sk) = match account {
        Account::Of(did) => (account_pk(did)?, BALANCE_SK.to_owned()),
        Account::Shard(did, shard) => (account_pk(did)?, format!("{SHARD_PREFIX}{shard}")),
        Account::Treasury(shard) => (treasury_pk(*shard)?, BALANCE_SK.to_owned()),
    };
    Ok(primary_key(pk, &sk))
}

/// Asks for an account and all its shards.
pub(crate) fn balances(query: QueryFluentBuilder, did: &Did) -> Result<QueryFluentBuilder, key::Error> {
    Ok(query
        .consistent_read(true)
        .key_condition_expression("PK = :pk AND begins_with(SK, :balance)")
        .expression_attribute_values(":pk", text(account_pk(did)?))
        .expression_attribute_values(":balance", text(BALANCE_SK)))
}

/// The keys of every shard that there can be.
pub(crate) fn shard_keys() -> Result<Vec<Item>, key::Error> {
    (0..MAX_SHARDS).map(|shard| account_key(&Account::Treasury(shard))).collect()
}

/// Creates an account with its first entry counted. If the account is there, the failed condition shows it.
pub(crate) fn new_account(table: &str, opened: &Opened) -> Result<TransactWriteItem, key::Error> {
    let mut item = account_key(&Account::Of(opened.did.clone()))?;
    item.extend([
        ("did".into(), text(opened.did.as_str())),
        (BALANCE.into(), number(opened.grant.units())),
        (ENTRIES.into(), number(1)),
        (STATUS.into(), text(Status::Open.as_str())),
        ("grant".into(), number(opened.grant.units())),
        ("grantTransactionId".into(), text(opened.transaction_id.to_string())),
        ("openedAt".into(), text(&opened.opened_at)),
    ]);
    Ok(put_item(
        new_item(table, item).return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld),
    ))
}

pub(crate) fn read_opened(item: &Item) -> Result<Opened, Error> {
    Ok(Opened {
        did: parsed(item, "did")?,
        grant: units(item, "grant")?,
        transaction_id: parsed(item, "grantTransactionId")?,
        opened_at: string(item, "openedAt")?.to_owned(),
    })
}

pub(crate) fn read_balance(item: &Item) -> Result<Balance, Error> {
    let account = account_of(&Name::of(item)).ok_or_else(|| broken(item, PK))?;
    Ok(Balance {
        account,
        balance: Delta(int(item, BALANCE)?),
        entries: get_number(item, ENTRIES).ok_or_else(|| broken(item, ENTRIES))?,
        debits: get_number(item, DEBITS).unwrap_or(0),
        folds: get_number(item, FOLDS).unwrap_or(0),
        status: status(item),
    })
}

/// What a shard of the treasury holds: its number and its balance. `None`: the item is not a shard.
pub(crate) fn read_shard(item: &Item) -> Result<Option<(u8, Amount)>, Error> {
    match read_balance(item)?.account {
        Account::Treasury(shard) => Ok(Some((shard, units(item, BALANCE)?))),
        Account::Of(_) | Account::Shard(..) => Ok(None),
    }
}

/// Whether an item is an account, or a shard of one, that is frozen. The treasury and counters have no status.
pub(crate) fn status(item: &Item) -> Status {
    match get_text(item, STATUS) {
        Some(status) if status == Status::Frozen.as_str() => Status::Frozen,
        _ => Status::Open,
    }
}

/// Takes `amount` from a balance. Conditions: there is enough in it and, if `unfrozen` is asked, the account is open.
pub(crate) fn debit(
    table: &str,
    account: &Account,
    amount: Amount,
    unfrozen: bool,
) -> Result<TransactWriteItem, key::Error> {
    let update = balance_update(table, account, amount)?;
    let update = update.update_expression("SET balance = balance - :amount ADD entries :one, debits :one");
    // The treasury has no status, because it cannot be frozen.
    let unfrozen = unfrozen && account.owner().is_some();
    Ok(update_item(with_condition(update, "balance >= :amount", unfrozen)))
}

/// Adds `amount` to a balance. Conditions: the account exists and, if `unfrozen` is asked, is open. A shard of the
/// treasury need not exist: its first fee creates it.
pub(crate) fn credit(
    table: &str,
    account: &Account,
    amount: Amount,
    unfrozen: bool,
) -> Result<TransactWriteItem, key::Error> {
    let update = balance_update(table, account, amount)?;
    Ok(update_item(match account {
        Account::Treasury(_) => update.update_expression("ADD balance :amount, entries :one"),
        Account::Of(_) | Account::Shard(..) => {
            let update = update.update_expression("SET balance = balance + :amount ADD entries :one");
            with_condition(update, "attribute_exists(PK)", unfrozen)
        }
    }))
}

/// Changes an account, or a shard of it, by `delta` in a fold of them all, the one after `folds` others. Conditions: what is taken is in
/// it, there was no other fold and, if `unfrozen` is asked, the account is open.
pub(crate) fn fold(
    table: &str,
    account: &Account,
    delta: Delta,
    folds: u64,
    unfrozen: bool,
) -> Result<TransactWriteItem, key::Error> {
    let taken = Delta(-delta.0.min(0));
    let update = Update::builder()
        .table_name(table)
        .set_key(Some(account_key(account)?))
        .update_expression("SET balance = balance + :delta, folds = :folds ADD entries :entries, debits :one")
        .expression_attribute_values(":delta", number(delta.0))
        .expression_attribute_values(":taken", number(taken.0))
        .expression_attribute_values(":before", number(folds))
        .expression_attribute_values(":folds", number(folds + 1))
        // An entry that does not change a balance is not among its entries.
        .expression_attribute_values(":entries", number(u8::from(delta.0 != 0)))
        .expression_attribute_values(":one", number(1))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let condition = match account {
        Account::Of(_) if folds == 0 => "balance >= :taken AND (attribute_not_exists(folds) OR folds = :before)",
        _ => "balance >= :taken AND folds = :before",
    };
    Ok(update_item(with_condition(update, condition, unfrozen)))
}

/// Makes the shards of an account that is open, all of them empty. Condition: there are none. They are not made together with a
/// write of the account itself, because that one is always in use when shards are needed. So [`set_status`] writes all of them.
pub(crate) fn new_shards(table: &str, did: &Did) -> Result<Vec<TransactWriteItem>, key::Error> {
    let shard = |shard| {
        let mut item = account_key(&Account::Shard(did.clone(), shard))?;
        item.extend([
            (BALANCE.into(), number(0)),
            (ENTRIES.into(), number(0)),
            (FOLDS.into(), number(0)),
            (STATUS.into(), text(Status::Open.as_str())),
        ]);
        Ok(put_item(new_item(table, item)))
    };
    (1..=ACCOUNT_SHARDS).map(shard).collect()
}

/// Counts `amount` as sent by `sender` on the UTC day of `at`. Condition: the day's sum stays within `limit`.
pub(crate) fn count_as_sent(
    table: &str,
    sender: &Did,
    at: Timestamp,
    amount: Amount,
    limit: Amount,
) -> Result<TransactWriteItem, key::Error> {
    let room = limit.checked_sub(amount).unwrap_or_default();
    let kept_until = at + left_of_day(at) + COUNTER_KEPT;
    let pk = stored("LIMIT", [sender.as_str(), day(at).as_str()])?;
    let update = Update::builder()
        .table_name(table)
        .set_key(Some(primary_key(pk, SPENT_SK)))
        .update_expression("SET #ttl = :ttl ADD spent :amount")
        .condition_expression("attribute_not_exists(spent) OR spent <= :room")
        .expression_attribute_names("#ttl", TTL)
        .expression_attribute_values(":ttl", number(kept_until.as_secs_ceil()))
        .expression_attribute_values(":amount", number(amount.units()))
        .expression_attribute_values(":room", number(room.units()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    Ok(update_item(update))
}

/// Sets the status of an account and of all its shards. Condition: the account exists. Shards that do not exist are made: somebody who saw
/// that the account was open might otherwise make open ones afterwards.
pub(crate) fn set_status(
    table: &str,
    did: &Did,
    status: Status,
    at: Timestamp,
    by: &str,
) -> Result<Vec<TransactWriteItem>, key::Error> {
    let update = |account: Account| {
        Ok::<_, key::Error>(
            Update::builder()
                .table_name(table)
                .set_key(Some(account_key(&account)?))
                .expression_attribute_names("#status", STATUS)
                .expression_attribute_values(":status", text(status.as_str())),
        )
    };
    let account = update(Account::Of(did.clone()))?
        .update_expression("SET #status = :status, statusAt = :at, statusBy = :by")
        .condition_expression("attribute_exists(PK)")
        .expression_attribute_values(":at", text(at.to_string()))
        .expression_attribute_values(":by", text(by));
    let mut items = vec![update_item(account)];
    for shard in 1..=ACCOUNT_SHARDS {
        let shard = update(Account::Shard(did.clone(), shard))?
            .update_expression("SET #status = :status ADD balance :none, entries :none, folds :none")
            .expression_attribute_values(":none", number(0));
        items.push(update_item(shard));
    }
    Ok(items)
}

// Entries

/// Writes an entry that must not be there yet.
pub(crate) fn new_entry(table: &str, entry: &Entry) -> Result<TransactWriteItem, key::Error> {
    Ok(put_item(new_item(table, entry_item(entry)?)))
}

pub(crate) fn sent_entry_key(sender: &Did, id: TransactionId) -> Result<Item, key::Error> {
    Ok(primary_key(sent_pk(sender)?, &entry_sk(id)))
}

/// Asks for the entries of a history between two ids, both included, newest first.
pub(crate) fn history(
    query: QueryFluentBuilder,
    history: History,
    did: &Did,
    (first, last): &(String, String),
) -> Result<QueryFluentBuilder, key::Error> {
    let (query, pk_name, sk_name, pk) = match history {
        History::Sent => (query.consistent_read(true), PK, SK, sent_pk(did)?),
        // An index cannot be read consistently.
        History::Received => (query.index_name(INDEX), INDEX_PK, INDEX_SK, received_pk(did)?),
    };
    Ok(query
        .key_condition_expression("#pk = :pk AND #sk BETWEEN :first AND :last")
        .expression_attribute_names("#pk", pk_name)
        .expression_attribute_names("#sk", sk_name)
        .expression_attribute_values(":pk", text(pk))
        .expression_attribute_values(":first", text(format!("{ENTRY_PREFIX}{first}")))
        .expression_attribute_values(":last", text(format!("{ENTRY_PREFIX}{last}")))
        .scan_index_forward(false))
}

/// Asks for every entry of a history, in any order, from `start` on.
pub(crate) fn whole_history(
    query: QueryFluentBuilder,
    history: History,
    did: &Did,
    start: Option<Item>,
) -> Result<QueryFluentBuilder, key::Error> {
    let (query, pk_name, pk) = match history {
        History::Sent => (query.consistent_read(true), PK, sent_pk(did)?),
        History::Received => (query.index_name(INDEX), INDEX_PK, received_pk(did)?),
    };
    Ok(query
        .key_condition_expression("#pk = :pk")
        .expression_attribute_names("#pk", pk_name)
        .expression_attribute_values(":pk", text(pk))
        .set_exclusive_start_key(start))
}

/// The postings per account, and per shard for the accounts of which a shard was changed. A reader who does not know of shards
/// still sees by how much each account changed.
fn posted(postings: &Postings) -> Result<(Item, Item), key::Error> {
    let mut of_accounts: BTreeMap<String, Delta> = BTreeMap::new();
    let mut parts = Item::new();
    for (account, delta) in postings {
        let pk = match account {
            Account::Of(did) | Account::Shard(did, _) => account_pk(did)?,
            Account::Treasury(shard) => treasury_pk(*shard)?,
        };
        let in_parts = |other: &Account| matches!(other, Account::Shard(..)) && other.owner() == account.owner();
        if postings.keys().any(in_parts) {
            let shard = if let Account::Shard(_, shard) = account { *shard } else { 0 };
            parts.insert(format!("{pk}#{shard}"), number(delta.0));
        }
        *of_accounts.entry(pk).or_default() += *delta;
    }
    Ok((of_accounts.into_iter().map(|(pk, delta)| (pk, number(delta.0))).collect(), parts))
}

/// What [`posted`] wrote. `None`: it is malformed, or the parts of an account are not what the account changed by.
fn read_postings(item: &Item) -> Option<Postings> {
    let map = get_map(item, POSTINGS)?;
    let mut postings = Postings::new();
    for pk in map.keys() {
        postings.insert(read_account_pk(pk)?, Delta(get_number(map, pk)?));
    }
    if !item.contains_key(PARTS) {
        return Some(postings);
    }
    let map = get_map(item, PARTS)?;
    let mut parts = Postings::new();
    let mut sums: BTreeMap<Account, Delta> = BTreeMap::new();
    for name in map.keys() {
        let (pk, shard) = name.rsplit_once('#')?;
        let account = read_account_pk(pk)?;
        let delta = Delta(get_number(map, name)?);
        *sums.entry(account.clone()).or_default() += delta;
        parts.insert(Account::shard(account.owner()?, shard.parse().ok()?), delta);
    }
    for (account, sum) in sums {
        if postings.remove(&account)? != sum {
            return None;
        }
    }
    postings.extend(parts);
    Some(postings)
}

fn entry_item(entry: &Entry) -> Result<Item, key::Error> {
    let (postings, parts) = posted(&entry.postings)?;
    let pk = match &entry.sender {
        Some(sender) => sent_pk(sender)?,
        None => granted_pk(&entry.recipient)?,
    };
    let mut item = primary_key(pk, &entry_sk(entry.id));
    item.extend([
        (INDEX_PK.into(), text(received_pk(&entry.recipient)?)),
        (INDEX_SK.into(), text(entry_sk(entry.id))),
        (TRANSACTION_ID.into(), text(entry.id.to_string())),
        ("kind".into(), text(entry.kind.as_str())),
        ("recipientDid".into(), text(entry.recipient.as_str())),
        ("amount".into(), number(entry.amount.units())),
        ("fee".into(), number(entry.fee.units())),
        ("message".into(), text(&entry.message)),
        (STATUS.into(), text("completed")),
        ("createdAt".into(), text(entry.created_at().to_string())),
        (POSTINGS.into(), AttributeValue::M(postings)),
    ]);
    if !parts.is_empty() {
        item.insert(PARTS.into(), AttributeValue::M(parts));
    }
    if let Some(sender) = &entry.sender {
        item.insert("senderDid".into(), text(sender.as_str()));
    }
    if let Some(reverses) = entry.reverses {
        item.insert("reverses".into(), text(reverses.to_string()));
    }
    Ok(item)
}

pub(crate) fn read_entry(item: &Item) -> Result<Entry, Error> {
    let kind = Kind::parse(string(item, "kind")?).ok_or_else(|| broken(item, "kind"))?;
    let postings = read_postings(item).ok_or_else(|| broken(item, POSTINGS))?;
    Ok(Entry {
        id: parsed(item, TRANSACTION_ID)?,
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

// Any item

/// The name of an item: its `PK` and its `SK`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Name(pub(crate) String, pub(crate) String);

impl Name {
    pub(crate) fn of(item: &Item) -> Self {
        let key = |name| get_text(item, name).unwrap_or_default().to_owned();
        Name(key(PK), key(SK))
    }

    pub(crate) fn key(&self) -> Item {
        primary_key(self.0.clone(), &self.1)
    }
}

/// The name of the record of a transfer.
pub(crate) fn used_name(sender: &Did, key: &IdempotencyKey) -> Result<Name, key::Error> {
    let key = record_key(&transfers(Window::Never), sender, key)?;
    Ok(Name(key.as_str().to_owned(), RECORD_SK.to_owned()))
}

/// The name of the record of a grant.
pub(crate) fn granted_name(key: &IdempotencyKey) -> Result<Name, key::Error> {
    Ok(Name(grant_key(key)?.as_str().to_owned(), RECORD_SK.to_owned()))
}

/// The name of an account.
pub(crate) fn account_name(did: &Did) -> Result<Name, key::Error> {
    Ok(Name::of(&account_key(&Account::Of(did.clone()))?))
}

/// The account, or the shard of one, under this name.
pub(crate) fn account_of(name: &Name) -> Option<Account> {
    let account = read_account_pk(&name.0)?;
    if name.1 == BALANCE_SK {
        return Some(account);
    }
    let shard: u8 = name.1.strip_prefix(SHARD_PREFIX)?.parse().ok().filter(|shard| *shard > 0)?;
    Some(Account::shard(account.owner()?, shard))
}

/// The record that the reversal of a transfer must have.
pub(crate) fn reversal_record(reversed: TransactionId) -> Result<Name, key::Error> {
    Ok(Name(reversal_key(&reversals(), reversed)?.as_str().to_owned(), RECORD_SK.to_owned()))
}

/// An item of the table, whichever it is.
#[derive(Debug)]
pub(crate) enum Row {
    Entry(Entry),
    Balance(Balance),
    /// The record of a transfer or of a reversal, the transaction that it names, and where that transaction's entry is.
    Record {
        transaction_id: String,
        entry: Name,
    },
    /// A record of the first design. Its transaction was made in another ledger.
    Earlier,
    /// What a refusal leaves where a record would be. It stands for no transaction.
    Tombstone,
    /// What somebody has sent on one day.
    Spent,
    /// What an operator did by hand.
    Operation,
}

pub(crate) fn read(item: &Item) -> Result<Row, Error> {
    let key = |name| get_text(item, name).unwrap_or_default();
    match key(SK) {
        sk if sk.starts_with(ENTRY_PREFIX) => read_entry(item).map(Row::Entry),
        sk if sk == BALANCE_SK || sk.starts_with(SHARD_PREFIX) => read_balance(item).map(Row::Balance),
        RECORD_SK if is_tombstone(item) => Ok(Row::Tombstone),
        RECORD_SK if !item.contains_key(attr::FORMAT) => read_earlier(item).map(|_| Row::Earlier),
        RECORD_SK => {
            let transaction_id = string(item, TRANSACTION_ID)?.to_owned();
            Ok(Row::Record { entry: entry_of_record(item, &transaction_id)?, transaction_id })
        }
        SPENT_SK => int(item, SPENT).map(|_| Row::Spent),
        // The name of the table does not matter here.
        _ if operations("").has(item) => {
            operation::read(item).map(|_| Row::Operation).ok_or_else(|| broken(item, "an attribute of the operation"))
        }
        _ => Err(broken(item, SK)),
    }
}

/// The entry of the transaction that a record stands for. The record's outcome says who sent it, or who was granted it.
fn entry_of_record(item: &Item, transaction_id: &str) -> Result<Name, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parties {
        sender_did: Option<String>,
        recipient_did: String,
    }
    let outcome = string(item, attr::OUTCOME)?;
    let parties: Parties = serde_json::from_str(outcome).map_err(|_| broken(item, attr::OUTCOME))?;
    let party = |text: String| text.parse::<Did>().map_err(|_| broken(item, attr::OUTCOME));
    let pk = match parties.sender_did {
        Some(sender) => sent_pk(&party(sender)?),
        None => granted_pk(&party(parties.recipient_did)?),
    };
    let pk = pk.map_err(|_| broken(item, attr::OUTCOME))?;
    Ok(Name(pk, format!("{ENTRY_PREFIX}{transaction_id}")))
}

// Keys

fn primary_key(pk: String, sk: &str) -> Item {
    Item::from([(PK.into(), text(pk)), (SK.into(), text(sk))])
}

/// The stored text of a key of these parts.
fn stored<const N: usize>(namespace: &str, parts: [&str; N]) -> Result<String, key::Error> {
    Ok(Namespace::new(namespace).key(parts)?.as_str().to_owned())
}

fn account_pk(did: &Did) -> Result<String, key::Error> {
    stored("ACCOUNT", [did.as_str()])
}

fn treasury_pk(shard: u8) -> Result<String, key::Error> {
    stored("TREASURY", [shard.to_string().as_str()])
}

fn read_account_pk(pk: &str) -> Option<Account> {
    if let Some(shard) = pk.strip_prefix("TREASURY#") {
        return shard.parse().ok().map(Account::Treasury);
    }
    let did = pk.strip_prefix("ACCOUNT#")?;
    // A DID cannot contain a separator. The only character of it that a key escapes is the escape character itself.
    did.replace("%25", "%").parse().ok().map(Account::Of)
}

fn sent_pk(did: &Did) -> Result<String, key::Error> {
    stored("SENT", [did.as_str()])
}

fn granted_pk(did: &Did) -> Result<String, key::Error> {
    stored("GRANT", [did.as_str()])
}

fn received_pk(did: &Did) -> Result<String, key::Error> {
    stored("RECEIVED", [did.as_str()])
}

fn entry_sk(id: TransactionId) -> String {
    format!("{ENTRY_PREFIX}{id}")
}

/// The UTC day of an instant: `2026-01-31`.
fn day(at: Timestamp) -> String {
    let mut text = at.to_string();
    text.truncate("2026-01-31".len());
    text
}

/// From an instant to the end of its UTC day.
fn left_of_day(at: Timestamp) -> Duration {
    Duration::from_millis(DAY_MS - at.as_millis() % DAY_MS)
}

// Writes

/// A write of an item that must not be there yet.
fn new_item(table: &str, item: Item) -> PutBuilder {
    Put::builder().table_name(table).set_item(Some(item)).condition_expression("attribute_not_exists(PK)")
}

fn balance_update(table: &str, account: &Account, amount: Amount) -> Result<UpdateBuilder, key::Error> {
    Ok(Update::builder()
        .table_name(table)
        .set_key(Some(account_key(account)?))
        .expression_attribute_values(":amount", number(amount.units()))
        .expression_attribute_values(":one", number(1))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld))
}

fn with_condition(update: UpdateBuilder, condition: &str, unfrozen: bool) -> UpdateBuilder {
    if !unfrozen {
        return update.condition_expression(condition);
    }
    update
        .condition_expression(format!("{condition} AND #status = :open"))
        .expression_attribute_names("#status", STATUS)
        .expression_attribute_values(":open", text(Status::Open.as_str()))
}

fn update_item(update: UpdateBuilder) -> TransactWriteItem {
    TransactWriteItem::builder().set_update(update.build().ok()).build()
}

fn put_item(put: PutBuilder) -> TransactWriteItem {
    TransactWriteItem::builder().set_put(put.build().ok()).build()
}

// Attributes that must be there

fn string<'a>(item: &'a Item, name: &'static str) -> Result<&'a str, Error> {
    get_text(item, name).ok_or_else(|| broken(item, name))
}

fn int(item: &Item, name: &'static str) -> Result<i128, Error> {
    get_number(item, name).ok_or_else(|| broken(item, name))
}

fn units(item: &Item, name: &'static str) -> Result<Amount, Error> {
    get_number(item, name).map(Amount::from_units).ok_or_else(|| broken(item, name))
}

fn parsed<T: FromStr>(item: &Item, name: &'static str) -> Result<T, Error> {
    string(item, name)?.parse().map_err(|_| broken(item, name))
}

fn broken(item: &Item, attribute: &'static str) -> Error {
    let key = |name| get_text(item, name).unwrap_or_default().to_owned();
    Error { pk: key(PK), sk: key(SK), attribute }
}

/// Items for a table that exists only in a test.
#[cfg(test)]
pub(crate) mod sample {
    use super::*;

    pub(crate) fn balance(account: &Account, balance: i128, entries: u64, folds: u64) -> Item {
        let mut item = account_key(account).unwrap();
        item.extend([(BALANCE.into(), number(balance)), (ENTRIES.into(), number(entries))]);
        if account.owner().is_some() {
            item.insert(STATUS.into(), text(Status::Open.as_str()));
        }
        if folds > 0 || matches!(account, Account::Shard(..)) {
            item.insert(FOLDS.into(), number(folds));
        }
        item
    }

    pub(crate) fn entry(entry: &Entry) -> Item {
        entry_item(entry).unwrap()
    }

    /// The record of an entry: of a reversal, or of a transfer under a key that is the transaction's id.
    pub(crate) fn record(entry: &Entry) -> Item {
        let pk = match (entry.reverses, &entry.sender) {
            (Some(reversed), _) => reversal_record(reversed).unwrap().0,
            (None, Some(sender)) => stored("IDEMPOTENCY", [sender.as_str(), &entry.id.to_string()]).unwrap(),
            (None, None) => panic!("the first grant of an account has no record"),
        };
        let mut item = primary_key(pk, RECORD_SK);
        item.extend([
            (attr::FORMAT.into(), number(1)),
            (TRANSACTION_ID.into(), text(entry.id.to_string())),
            (attr::OUTCOME.into(), text(serde_json::to_string(&entry.view()).unwrap())),
        ]);
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_utc_days() {
        let instant = crate::api::instant::parse("t", "2026-02-01T08:59:59.999+09:00").unwrap();
        assert_eq!(instant.to_string(), "2026-01-31T23:59:59.999Z");
        assert_eq!(day(instant), "2026-01-31");
        assert_eq!(left_of_day(instant).as_millis(), 1);
    }

    #[test]
    fn numbers_of_the_first_design_are_read_in_every_spelling() {
        for (number, expected) in [
            ("12.5", "12.5"),
            ("12.50", "12.5"),
            ("100", "100"),
            ("1E+2", "100"),
            ("1e-7", "0.0000001"),
            ("1.25E-7", "0.000000125"),
            ("12.5e1", "125"),
            ("0", "0"),
        ] {
            assert_eq!(plain(number).as_deref(), Some(expected), "{number}");
        }
        assert_eq!(plain("1e999"), None);
    }

    #[test]
    fn an_entry_survives_the_table_whichever_shards_it_changed() {
        let [alice, bob]: [Did; 2] = ["did:key:alice", "did:web:localhost%3A8443"].map(|did| did.parse().unwrap());
        let id = TransactionId::new(Timestamp::from_millis(1), [1; 10]);
        let entry = |postings: Postings| Entry {
            id,
            kind: Kind::Transfer,
            sender: Some(alice.clone()),
            recipient: bob.clone(),
            amount: Amount::from_units(5),
            fee: Amount::ZERO,
            message: String::new(),
            reverses: None,
            postings,
        };
        let of = Account::shard;
        for (postings, parts) in [
            (vec![(of(&alice, 0), -5), (of(&bob, 0), 5)], 0),
            (vec![(of(&alice, 0), -5), (of(&bob, 12), 5)], 1),
            (vec![(of(&alice, 0), 2), (of(&alice, 3), -7), (of(&bob, 0), 5)], 2),
            (vec![(of(&alice, 3), -4), (of(&alice, 4), -1), (of(&bob, 1), 3), (Account::Treasury(1), 2)], 3),
        ] {
            let entry = entry(postings.into_iter().map(|(account, delta)| (account, Delta(delta))).collect());
            let mut item = entry_item(&entry).unwrap();
            assert_eq!(read_entry(&item).unwrap(), entry);
            assert_eq!(get_map(&item, PARTS).map_or(0, Item::len), parts);
            // What a version that knows nothing of shards reads.
            let whole = get_map(&item, POSTINGS).unwrap();
            assert_eq!(get_number::<i128>(whole, "ACCOUNT#did:key:alice"), Some(-5));
            if parts > 0 {
                item.insert(POSTINGS.into(), AttributeValue::M(Item::from([("TREASURY#0".into(), number(1))])));
                assert!(read_entry(&item).is_err(), "parts without their account");
            }
        }
    }

    #[test]
    fn a_shard_and_its_account_have_names_of_their_own() {
        let did: Did = "did:web:localhost%3A8443".parse().unwrap();
        for account in
            [Account::shard(&did, 0), Account::shard(&did, 1), Account::shard(&did, 15), Account::Treasury(3)]
        {
            let name = Name::of(&account_key(&account).unwrap());
            assert_eq!(account_of(&name), Some(account), "{name:?}");
        }
        for (pk, sk) in
            [("ACCOUNT#did:key:a", "BALANCE#0"), ("ACCOUNT#did:key:a", "BALANCES"), ("TREASURY#1", "BALANCE#1")]
        {
            assert_eq!(account_of(&Name(pk.into(), sk.into())), None, "{pk} {sk}");
        }
    }

    #[test]
    fn separators_in_a_did_and_in_a_key_are_escaped_in_the_record_key() {
        let (sender, key) = ("did:web:localhost%3A8443".parse().unwrap(), "order#7".parse().unwrap());
        let record = record_key(&transfers(Window::Never), &sender, &key).unwrap();
        assert_eq!(record.as_str(), "IDEMPOTENCY#did:web:localhost%253A8443#order%237");
    }
}
