//! The record format of the library: versions that differ read each other as CHANGELOG.md promises.
//!
//! The input is an item in DynamoDB's JSON. `format_1` is a reader and a writer of format 1 as its documentation describes it,
//! written apart from the library and never changed: it stands for every released version that writes this format.
//!
//! | who wrote | who reads | what must hold |
//! |---|---|---|
//! | this version | this version | the record is what it was |
//! | this version | a version with format 1 | it reads the same record; if the format is newer, it refuses |
//! | a version with format 1 | this version | it reads the same record |
//! | a later version with attributes that are not known yet | this version | it ignores them |
//! | a version with a newer format | this version | it refuses, whatever the item says |

mod format_1;

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ichido::dynamodb::item::{self, Item};
use ichido::dynamodb::{Foreign, Table};
use ichido::record::{Error, FORMAT};
use ichido::{Key, Namespace, Outcome, Record, State, Timestamp};
use serde_json::Value;

/// Deeper than DynamoDB allows (32).
const MAX_DEPTH: usize = 40;

pub(crate) fn check(data: &[u8]) {
    let Some(item) = serde_json::from_slice::<Value>(data).ok().as_ref().and_then(item_of) else { return };
    let table = Table::new("t", "PK").sort_key("SK", "RECORD");
    let read = item::read(&table, &item);
    let theirs = format_1::read(&item, "ttl");
    match (&read, &theirs) {
        (Ok(record), Ok(theirs)) => {
            assert_eq!(&format_1::Record::from(record), theirs, "versions read different records")
        }
        (Err(error), Err(attribute)) => assert_names(error, attribute),
        (ours, theirs) => panic!("this version reads {ours:?}, a version with format 1 reads {theirs:?}"),
    }
    newer_formats(&table, &item);
    foreign(&item, &read);
    if let Ok(record) = read {
        written_by_this_version(&table, &record);
        written_by_format_1(&table, &record);
        later_attributes(&table, &item, &record);
        questions(&record);
    }
}

fn key() -> Key {
    Namespace::new("N").key(["a"]).expect("a key")
}

/// What this version writes is read by itself and by a version with format 1.
fn written_by_this_version(table: &Table, record: &Record) {
    let attributes: Vec<_> = record.attributes.iter().filter(|(_, value)| !value.is_null()).cloned().collect();
    let written = item::write(table, &key(), record, &attributes).expect("the attributes of a record can be written");
    let again = item::read(table, &written).expect("what was written can be read");
    assert_eq!(without_attributes(&again), without_attributes(record));
    let names = |list: &[(String, Value)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&again.attributes), names(&attributes), "an attribute of the caller was lost");
    match format_1::read(&written, "ttl") {
        Ok(theirs) => assert!(FORMAT == 1 && theirs == format_1::Record::from(&again)),
        Err(attribute) => {
            assert!(FORMAT > 1 && attribute == item::attr::FORMAT, "a version with format 1 refuses {attribute}")
        }
    }
}

/// What a version with format 1 writes is read by this one.
fn written_by_format_1(table: &Table, record: &Record) {
    let theirs = format_1::Record::from(record);
    let written = format_1::write(&theirs, "ttl");
    let read = item::read(table, &written).expect("what a version with format 1 wrote can be read");
    assert_eq!(format_1::Record::from(&read), theirs);
}

/// A later version may add attributes of the library without a newer format. They are ignored, and are not the caller's.
fn later_attributes(table: &Table, item: &Item, record: &Record) {
    let mut later = item.clone();
    later.insert("ichido_added_later".to_owned(), AttributeValue::M(HashMap::new()));
    assert_eq!(&item::read(table, &later).expect("an attribute that is not known is ignored"), record);
    assert!(
        record
            .attributes
            .iter()
            .all(|(name, _)| !name.starts_with(item::attr::PREFIX) && name != "PK" && name != "ttl")
    );
}

/// A newer format is refused whatever else the item says, and is not taken for an item of another system.
fn newer_formats(table: &Table, item: &Item) {
    for found in [FORMAT + 1, u64::MAX] {
        let mut newer = item.clone();
        newer.insert(item::attr::FORMAT.to_owned(), AttributeValue::N(found.to_string()));
        for table in [table.clone(), table.clone().foreign(Foreign::Done)] {
            let read = item::read(&table, &newer);
            assert!(matches!(read, Err(Error::NewerFormat { found: named }) if named == found), "{read:?}");
        }
    }
}

/// In a table that was taken over, an item without the library's attributes is done. All others mean the same as elsewhere.
fn foreign(item: &Item, read: &Result<Record, Error>) {
    let table = Table::new("t", "PK").sort_key("SK", "RECORD").foreign(Foreign::Done);
    match (item::read(&table, item), read) {
        (Ok(done), _) if !item.contains_key(item::attr::FORMAT) => {
            assert_eq!(done.state, State::Completed { outcome: Outcome::Foreign });
        }
        (Ok(ours), Ok(record)) => assert_eq!(&ours, record),
        (Err(ours), Err(error)) => assert_eq!(ours.to_string(), error.to_string()),
        (ours, theirs) => panic!("{ours:?}, but {theirs:?}"),
    }
}

/// An expired record is free. One that is done or failed is not, until then.
fn questions(record: &Record) {
    for now in [0, 1, 1_700_000_000_000, u64::MAX].map(Timestamp::from_millis) {
        let free = match &record.state {
            State::Claimed { lease_until } => *lease_until <= now,
            State::Released { .. } => true,
            State::Completed { .. } | State::Failed { .. } => false,
        };
        assert_eq!(record.is_claimable(now), free || record.is_expired(now));
        assert_eq!(record.is_expired(now), record.expires_at.is_some_and(|expiry| expiry <= now));
    }
}

fn without_attributes(record: &Record) -> Record {
    let mut record = record.clone();
    record.attributes.clear();
    record
}

fn assert_names(error: &Error, attribute: &str) {
    let ours = match error {
        Error::Missing(name) => name,
        Error::Malformed { name, .. } => name.as_str(),
        Error::NewerFormat { .. } => item::attr::FORMAT,
        other => panic!("not an error of reading: {other}"),
    };
    assert_eq!(ours, attribute, "{error}");
    assert!(error.to_string().contains(if matches!(error, Error::NewerFormat { .. }) { "format" } else { ours }));
}

/// An item from DynamoDB's JSON.
fn item_of(json: &Value) -> Option<Item> {
    json.as_object()?.iter().map(|(name, value)| Some((name.clone(), value_of(value, 0)?))).collect()
}

fn value_of(json: &Value, depth: usize) -> Option<AttributeValue> {
    let (kind, value) = json.as_object().filter(|object| object.len() == 1 && depth < MAX_DEPTH)?.iter().next()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = || value.as_array()?.iter().map(text).collect::<Option<Vec<_>>>();
    Some(match kind.as_str() {
        "S" => AttributeValue::S(text(value)?),
        "N" => AttributeValue::N(text(value)?),
        "B" => AttributeValue::B(Blob::new(BASE64.decode(value.as_str()?).ok()?)),
        "BOOL" => AttributeValue::Bool(value.as_bool()?),
        "NULL" => AttributeValue::Null(true),
        "SS" => AttributeValue::Ss(texts()?),
        "NS" => AttributeValue::Ns(texts()?),
        "L" => {
            AttributeValue::L(value.as_array()?.iter().map(|value| value_of(value, depth + 1)).collect::<Option<_>>()?)
        }
        "M" => {
            let members = value.as_object()?.iter();
            AttributeValue::M(
                members
                    .map(|(name, value)| Some((name.clone(), value_of(value, depth + 1)?)))
                    .collect::<Option<_>>()?,
            )
        }
        _ => return None,
    })
}
