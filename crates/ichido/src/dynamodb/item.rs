//! A record as a DynamoDB item.
//!
//! | attribute | type | what |
//! |---|---|---|
//! | the table's keys | S | the text of the key; the fixed value of the sort key |
//! | `ttl`, or the table's name for it | N | when it expires: seconds since the epoch, rounded up; absent: never |
//! | `ichido_format` | N | [the format](crate::record::FORMAT) |
//! | `ichido_state` | S | `claimed`, `completed`, `failed`, `released` |
//! | `ichido_owner` | S | the token of the call that holds or held the claim |
//! | `ichido_fence` | N | counts the claims |
//! | `ichido_updated_at` | N | when the state last changed: milliseconds since the epoch |
//! | `ichido_lease_until` | N | claimed: when another call may take over, in milliseconds since the epoch |
//! | `ichido_outcome` | S | completed: the outcome as JSON; absent if there is none |
//! | `ichido_outcome_kept` | BOOL | completed: false if there was an outcome that was too large to keep |
//! | `ichido_reason` | S | failed, released: why |
//! | `ichido_uncertain` | BOOL | released: the effect may have happened |
//! | `ichido_digest_key`, `ichido_digests` | S, M of S | the id of the digest key, and one digest per field |
//!
//! The constants of [`attr`] are the names that begin with `ichido_`.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::Value;

use super::{Foreign, Table};
use crate::clock::Timestamp;
use crate::digest::Digests;
use crate::key::Key;
use crate::record::{Error, FORMAT, Outcome, Owner, Record, State, StateKind};
use crate::store::{Admit, Attributes, Settle};

/// An item, or the key of one.
pub type Item = HashMap<String, AttributeValue>;

/// The names of the library's attributes.
#[expect(missing_docs, reason = "the table above says what they are")]
pub mod attr {
    pub const PREFIX: &str = "ichido_";
    pub const FORMAT: &str = "ichido_format";
    pub const STATE: &str = "ichido_state";
    pub const OWNER: &str = "ichido_owner";
    pub const FENCE: &str = "ichido_fence";
    pub const UPDATED_AT: &str = "ichido_updated_at";
    pub const LEASE_UNTIL: &str = "ichido_lease_until";
    pub const OUTCOME: &str = "ichido_outcome";
    pub const OUTCOME_KEPT: &str = "ichido_outcome_kept";
    pub const REASON: &str = "ichido_reason";
    pub const UNCERTAIN: &str = "ichido_uncertain";
    pub const DIGEST_KEY: &str = "ichido_digest_key";
    pub const DIGESTS: &str = "ichido_digests";
}

/// Attributes that only some states have.
const OF_STATES: &[&str] = &[attr::LEASE_UNTIL, attr::OUTCOME, attr::OUTCOME_KEPT, attr::REASON, attr::UNCERTAIN];

/// An item's keys and library's attributes are at most so many. Maps are made large enough at once.
const LIBRARY_ATTRIBUTES: usize = 12;

pub(crate) fn new_record(request: &Admit<'_>, fence: u64) -> Record {
    Record {
        state: request.state.clone(),
        owner: request.owner.clone(),
        fence,
        updated_at: request.now,
        expires_at: request.expires_at,
        digests: request.digests.cloned(),
        attributes: Vec::new(),
    }
}

/// The whole item of a record: keys, library's attributes, caller's attributes.
pub fn write(table: &Table, key: &Key, record: &Record, attributes: &Attributes) -> Result<Item, Error> {
    let callers = caller_attributes(table, attributes)?;
    let mut item = Item::with_capacity(LIBRARY_ATTRIBUTES + callers.len());
    item.extend(table.primary_key(key));
    item.extend(callers);
    item.extend(record_attributes(table, record));
    Ok(item)
}

/// The library's attributes of a record, without the key: for an application whose record has a key of its own form.
pub fn record_attributes(table: &Table, record: &Record) -> Item {
    let mut item = Item::with_capacity(LIBRARY_ATTRIBUTES);
    item.extend(library_attributes(table, record).map(|(name, value)| (name.to_owned(), value)));
    item.insert(attr::FENCE.into(), number(record.fence));
    item
}

/// Reads a record. Any item gives a record or an error, never a panic.
pub fn read(table: &Table, item: &Item) -> Result<Record, Error> {
    let format = match item.get(attr::FORMAT) {
        None if table.foreign == Foreign::Done => return Ok(read_foreign(table, item)),
        None => return Err(Error::Missing(attr::FORMAT)),
        Some(_) => required_number(item, attr::FORMAT)?,
    };
    if format > FORMAT {
        return Err(Error::NewerFormat { found: format });
    }
    let state = match StateKind::named(required_text(item, attr::STATE)?) {
        Some(StateKind::Claimed) => {
            State::Claimed { lease_until: Timestamp::from_millis(required_number(item, attr::LEASE_UNTIL)?) }
        }
        Some(StateKind::Completed) => State::Completed {
            outcome: match text(item, attr::OUTCOME)? {
                Some(json) => Outcome::Value(json.into()),
                None if flag(item, attr::OUTCOME_KEPT)? == Some(false) => Outcome::NotKept,
                None => Outcome::Nothing,
            },
        },
        Some(StateKind::Failed) => State::Failed { reason: text(item, attr::REASON)?.unwrap_or_default().to_owned() },
        Some(StateKind::Released) => State::Released {
            reason: text(item, attr::REASON)?.unwrap_or_default().to_owned(),
            uncertain: flag(item, attr::UNCERTAIN)?.unwrap_or(false),
        },
        None => return Err(malformed(attr::STATE, "a state of this format")),
    };
    Ok(Record {
        state,
        owner: Owner::from(required_text(item, attr::OWNER)?),
        fence: required_number(item, attr::FENCE)?,
        updated_at: Timestamp::from_millis(required_number(item, attr::UPDATED_AT)?),
        expires_at: optional_number(item, &table.ttl)?.map(Timestamp::from_secs),
        digests: read_digests(item)?,
        attributes: own_attributes(table, item),
    })
}

/// The record that a claim has replaced. One that cannot be read leaves a doubt, unless it had expired.
pub(super) fn replaced(table: &Table, item: &Item, now: Timestamp) -> Option<Record> {
    let unreadable = || {
        let expiry = optional_number(item, &table.ttl).ok().flatten().map(Timestamp::from_secs);
        let doubt = State::Released { reason: String::new(), uncertain: true };
        let over = !item.contains_key(attr::STATE) || expiry.is_some_and(|expiry| expiry <= now);
        (!over).then(|| Record::new(doubt, Owner::from(""), fence(item), now))
    };
    read(table, item).ok().or_else(unreadable)
}

/// The fence of an item, also of one that cannot be read as a record. Zero if it has none.
pub(super) fn fence(item: &Item) -> u64 {
    optional_number(item, attr::FENCE).ok().flatten().unwrap_or_default()
}

/// An item of an earlier system, in a table that says that such items mean "done". Its expiry is believed if it is a number.
fn read_foreign(table: &Table, item: &Item) -> Record {
    let done = State::Completed { outcome: Outcome::Foreign };
    Record {
        expires_at: optional_number(item, &table.ttl).ok().flatten().map(Timestamp::from_secs),
        attributes: own_attributes(table, item),
        ..Record::new(done, Owner::from(""), 0, Timestamp::default())
    }
}

/// The attributes that belong neither to the library nor to the table, in alphabetical order.
pub(super) fn own_attributes(table: &Table, item: &Item) -> Attributes {
    let own = item.iter().filter(|(name, _)| !table.is_reserved(name));
    let mut list: Attributes = own.map(|(name, value)| (name.clone(), json(value))).collect();
    list.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    list
}

/// An attribute value as JSON. A number that `serde_json` cannot hold becomes text, and a binary value becomes its size.
fn json(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::from(text.as_str()),
        AttributeValue::N(digits) => serde_json::from_str(digits).unwrap_or_else(|_| Value::from(digits.as_str())),
        AttributeValue::Bool(flag) => Value::from(*flag),
        AttributeValue::L(list) => list.iter().map(json).collect(),
        AttributeValue::M(map) => Value::Object(map.iter().map(|(name, value)| (name.clone(), json(value))).collect()),
        AttributeValue::Ss(list) | AttributeValue::Ns(list) => list.iter().map(String::as_str).collect(),
        AttributeValue::B(bytes) => Value::from(format!("{} bytes", bytes.as_ref().len())),
        _ => Value::Null,
    }
}

/// An update expression with its names and values. The condition of the same request may use them too.
///
/// The expression is written into one string, from front to back: `REMOVE` first, because `SET` is open-ended.
pub(crate) struct Update {
    pub(crate) expression: String,
    pub(crate) names: HashMap<String, String>,
    pub(crate) values: Item,
}

/// Larger than the expression of a claim without attributes of the caller.
const EXPRESSION_BYTES: usize = 512;
/// The values of a claim and its condition are at most so many, without attributes of the caller.
const VALUES: usize = 14;

/// The update that makes a claim. It sets what a claim has, removes what other states have, and increments the fence.
pub(crate) fn claim_update(table: &Table, request: &Admit<'_>) -> Result<Update, Error> {
    let callers = caller_attributes(table, request.attributes)?;
    let digest_attributes: &[&str] = if request.digests.is_none() { &[attr::DIGEST_KEY, attr::DIGESTS] } else { &[] };
    let mut update = Update::to(table, &request.state, request.now, request.expires_at, digest_attributes);
    update.set(attr::OWNER, ":owner", AttributeValue::S(request.owner.as_str().to_owned()));
    if let Some(digests) = request.digests {
        let (key, digests) = self::digests(digests);
        update.set(attr::DIGEST_KEY, ":digest_key", key);
        update.set(attr::DIGESTS, ":digests", digests);
    }
    let fence = attr::FENCE;
    update.expression.extend([", ", fence, " = if_not_exists(", fence, ", :zero) + :one"]);
    update.value(":zero", number(0));
    update.value(":one", number(1));
    for (index, (name, value)) in callers.into_iter().enumerate() {
        // The caller's names may be reserved words or contain any character.
        let (name_of, value_of) = (format!("#a{index}"), format!(":a{index}"));
        update.set(&name_of, &value_of, value);
        update.names.insert(name_of, name);
    }
    Ok(update)
}

/// The update that settles or renews a claim. Its condition compares the owner, so that one need not be set.
pub(crate) fn settle_update(table: &Table, request: &Settle<'_>) -> Update {
    let state = request.to.clone().into_state();
    let mut update = Update::to(table, &state, request.now, request.expires_at, &[]);
    update.value(":owner", AttributeValue::S(request.owner.as_str().to_owned()));
    update.value(":fence", number(request.fence));
    update.value(":claimed", self::state(StateKind::Claimed));
    update
}

impl Update {
    /// Sets what every record has and what this state has. Removes what only other states have, and `removed`.
    fn to(table: &Table, state: &State, now: Timestamp, expires_at: Option<Timestamp>, removed: &[&str]) -> Self {
        let mut update = Self {
            expression: String::with_capacity(EXPRESSION_BYTES),
            names: HashMap::with_capacity(2),
            values: Item::with_capacity(VALUES),
        };
        update.names.insert("#ttl".into(), table.ttl.clone());
        let own = of_state(state);
        let expiry: &[&str] = if expires_at.is_none() { &["#ttl"] } else { &[] };
        let others = OF_STATES.iter().filter(|name| !own.iter().flatten().any(|(own, _, _)| own == *name));
        // No state has all of them, so something is removed.
        for (index, name) in others.chain(removed).chain(expiry).enumerate() {
            update.expression.push_str(if index == 0 { "REMOVE " } else { ", " });
            update.expression.push_str(name);
        }
        update.expression.extend([" SET ", attr::FORMAT, " = :format"]);
        update.value(":format", number(FORMAT));
        let named = state_placeholder(state);
        update.set(attr::STATE, named, self::state(state.kind()));
        update.set(attr::UPDATED_AT, ":now", number(now.as_millis()));
        if let Some(expiry) = expires_at {
            update.set("#ttl", ":ttl", number(expiry.as_secs_ceil()));
        }
        for (name, placeholder, value) in own.into_iter().flatten() {
            update.set(name, placeholder, value);
        }
        update
    }

    fn set(&mut self, name: &str, placeholder: &str, value: AttributeValue) {
        self.expression.extend([", ", name, " = ", placeholder]);
        self.value(placeholder, value);
    }

    fn value(&mut self, placeholder: &str, value: AttributeValue) {
        self.values.insert(placeholder.to_owned(), value);
    }
}

/// The conditions compare with `:claimed`, so an update to that state uses the same value.
fn state_placeholder(state: &State) -> &'static str {
    match state {
        State::Claimed { .. } => ":claimed",
        _ => ":state",
    }
}

/// The attributes that a record has because of its state: name, placeholder and value.
fn of_state(state: &State) -> [Option<(&'static str, &'static str, AttributeValue)>; 2] {
    match state {
        State::Claimed { lease_until } => {
            [Some((attr::LEASE_UNTIL, ":lease_until", number(lease_until.as_millis()))), None]
        }
        State::Completed { outcome: Outcome::Value(json) } => {
            [Some((attr::OUTCOME, ":outcome", AttributeValue::S(json.to_string()))), None]
        }
        State::Completed { outcome: Outcome::NotKept } => {
            [Some((attr::OUTCOME_KEPT, ":outcome_kept", AttributeValue::Bool(false))), None]
        }
        State::Completed { outcome: Outcome::Nothing | Outcome::Foreign } => [None, None],
        State::Failed { reason } => [Some((attr::REASON, ":reason", AttributeValue::S(reason.clone()))), None],
        State::Released { reason, uncertain } => [
            Some((attr::REASON, ":reason", AttributeValue::S(reason.clone()))),
            Some((attr::UNCERTAIN, ":uncertain", AttributeValue::Bool(*uncertain))),
        ],
    }
}

/// The library's attributes of a record, except the fence: a claim increments it in the store.
fn library_attributes<'a>(
    table: &'a Table,
    record: &Record,
) -> impl Iterator<Item = (&'a str, AttributeValue)> + use<'a> {
    let mut list = Vec::with_capacity(LIBRARY_ATTRIBUTES);
    list.extend([
        (attr::FORMAT, number(FORMAT)),
        (attr::STATE, state(record.state.kind())),
        (attr::OWNER, AttributeValue::S(record.owner.as_str().into())),
        (attr::UPDATED_AT, number(record.updated_at.as_millis())),
    ]);
    list.extend(of_state(&record.state).into_iter().flatten().map(|(name, _, value)| (name, value)));
    if let Some(expiry) = record.expires_at {
        list.push((&table.ttl, number(expiry.as_secs_ceil())));
    }
    if let Some(digests) = &record.digests {
        let (key, digests) = self::digests(digests);
        list.push((attr::DIGEST_KEY, key));
        list.push((attr::DIGESTS, digests));
    }
    list.into_iter()
}

/// The digest key's name and the digests, as attributes.
pub(crate) fn digests(Digests { key_id, fields }: &Digests) -> (AttributeValue, AttributeValue) {
    let fields = fields.iter().map(|(name, digest)| (name.clone(), AttributeValue::S(digest.clone()))).collect();
    (AttributeValue::S(key_id.clone()), AttributeValue::M(fields))
}

/// If a name occurs twice, the later value counts.
fn caller_attributes(table: &Table, attributes: &Attributes) -> Result<BTreeMap<String, AttributeValue>, Error> {
    attributes
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            if table.is_reserved(name) {
                return Err(Error::ReservedAttribute(name.clone()));
            }
            Ok((name.clone(), attribute(value)))
        })
        .collect()
}

/// JSON as an attribute value.
pub fn attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Bool(flag) => AttributeValue::Bool(*flag),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::String(text) => AttributeValue::S(text.clone()),
        Value::Array(list) => AttributeValue::L(list.iter().map(attribute).collect()),
        Value::Object(map) => {
            AttributeValue::M(map.iter().map(|(name, value)| (name.clone(), attribute(value))).collect())
        }
    }
}

fn read_digests(item: &Item) -> Result<Option<Digests>, Error> {
    let Some(key_id) = text(item, attr::DIGEST_KEY)? else { return Ok(None) };
    let map = match item.get(attr::DIGESTS) {
        Some(AttributeValue::M(map)) => map,
        _ => return Err(malformed(attr::DIGESTS, "a map")),
    };
    let mut fields = BTreeMap::new();
    for (name, digest) in map {
        match digest {
            AttributeValue::S(digest) => fields.insert(name.clone(), digest.clone()),
            _ => return Err(malformed(attr::DIGESTS, "a map of strings")),
        };
    }
    Ok(Some(Digests { key_id: key_id.to_owned(), fields }))
}

pub(super) fn state(kind: StateKind) -> AttributeValue {
    AttributeValue::S(kind.name().into())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

fn text<'i>(item: &'i Item, name: &str) -> Result<Option<&'i str>, Error> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::S(text)) => Ok(Some(text)),
        Some(_) => Err(malformed(name, "a string")),
    }
}

fn required_text<'i>(item: &'i Item, name: &'static str) -> Result<&'i str, Error> {
    text(item, name)?.ok_or(Error::Missing(name))
}

fn optional_number(item: &Item, name: &str) -> Result<Option<u64>, Error> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::N(digits)) => digits.parse().map(Some).map_err(|_| malformed(name, "a whole number")),
        Some(_) => Err(malformed(name, "a number")),
    }
}

fn required_number(item: &Item, name: &'static str) -> Result<u64, Error> {
    optional_number(item, name)?.ok_or(Error::Missing(name))
}

fn flag(item: &Item, name: &str) -> Result<Option<bool>, Error> {
    match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(malformed(name, "true or false")),
    }
}

fn malformed(name: &str, expected: &'static str) -> Error {
    Error::Malformed { name: name.to_owned(), expected }
}
