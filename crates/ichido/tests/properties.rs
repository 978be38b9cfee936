//! Properties for any input: keys never collide, and any item of a table is read or refused, without a panic.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use ichido::dynamodb::{Table, item};
use ichido::{Namespace, Outcome, Record, State, Timestamp};
use proptest::prelude::*;

/// `PROPTEST_CASES` sets another number of cases.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 1000 };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

/// Parts made mostly of characters that could confuse the encoding.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[#%235a]{1,6}", 1 => "\\PC{1,8}"]
}

fn namespace() -> impl Strategy<Value = (bool, String)> {
    (any::<bool>(), prop_oneof!["[#%23A]{1,4}", Just("IDEMPOTENCY".to_owned())])
}

fn stored(namespace: &(bool, String), parts: &[String]) -> Option<String> {
    let (prefixed, name) = namespace;
    let namespace = if *prefixed { Namespace::new(name) } else { Namespace::unprefixed(name) };
    namespace.key(parts).ok().map(|key| key.as_str().to_owned())
}

mod prop_keys {
    use super::*;

    proptest! {
        #![proptest_config(config())]

        /// Different namespaces or different parts give different keys. All unprefixed namespaces are one space by design.
        #[test]
        fn no_two_different_part_lists_become_the_same_key(
            one in (namespace(), prop::collection::vec(part(), 1..4)),
            other in (namespace(), prop::collection::vec(part(), 1..4)),
        ) {
            if let (Some(a), Some(b)) = (stored(&one.0, &one.1), stored(&other.0, &other.1)) {
                let same_space = one.0.0 == other.0.0 && (!one.0.0 || one.0.1 == other.0.1);
                prop_assert_eq!(a == b, same_space && one.1 == other.1, "{:?} {:?}", one, other);
            }
        }

        /// The borders between the parts matter, not only their text together.
        #[test]
        fn moving_the_border_between_two_parts_makes_another_key(text in "[#%23ab]{3,8}") {
            let namespace = Namespace::new("N");
            let mut keys: Vec<String> = (1..text.len())
                .map(|cut| namespace.key([&text[..cut], &text[cut..]]).unwrap().as_str().to_owned())
                .collect();
            let cuts = keys.len();
            keys.sort();
            keys.dedup();
            prop_assert_eq!(keys.len(), cuts);
        }

        /// Ordinary parts stay readable.
        #[test]
        fn ordinary_parts_are_stored_as_they_are(parts in prop::collection::vec("[A-Za-z0-9:._/-]{1,12}", 1..4)) {
            let key = Namespace::new("IDEMPOTENCY").key(&parts).unwrap();
            prop_assert_eq!(key.as_str(), format!("IDEMPOTENCY#{}", parts.join("#")));
        }
    }
}

fn value() -> impl Strategy<Value = AttributeValue> {
    let text = prop_oneof![
        Just("claimed".to_owned()),
        Just("completed".to_owned()),
        Just("failed".to_owned()),
        Just("released".to_owned()),
        "\\PC{0,12}",
    ];
    let number = prop_oneof![
        Just("1".to_owned()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[0-9]{1,40}",
        "-?[0-9]{0,3}\\.?[0-9]{0,3}(E[0-9]{1,3})?",
    ];
    let leaf = prop_oneof![
        4 => text.prop_map(AttributeValue::S),
        4 => number.prop_map(AttributeValue::N),
        1 => any::<bool>().prop_map(AttributeValue::Bool),
        1 => Just(AttributeValue::Null(true)),
        1 => prop::collection::vec(any::<u8>(), 0..4).prop_map(|b| AttributeValue::B(Blob::new(b))),
        1 => prop::collection::vec("\\PC{0,3}", 1..3).prop_map(AttributeValue::Ss),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(AttributeValue::L),
            prop::collection::hash_map("[a-z]{0,3}", inner, 0..3).prop_map(AttributeValue::M),
        ]
    })
}

/// Items that look like records in some attributes.
fn any_item() -> impl Strategy<Value = HashMap<String, AttributeValue>> {
    let names = prop::sample::select(vec![
        "PK",
        "ttl",
        "ichido_format",
        "ichido_state",
        "ichido_owner",
        "ichido_fence",
        "ichido_updated_at",
        "ichido_lease_until",
        "ichido_outcome",
        "ichido_outcome_kept",
        "ichido_reason",
        "ichido_uncertain",
        "ichido_digest_key",
        "ichido_digests",
        "file_id",
    ]);
    prop::collection::hash_map(names.prop_map(str::to_owned), value(), 0..15)
}

/// A record with one attribute replaced or removed.
fn damaged() -> impl Strategy<Value = HashMap<String, AttributeValue>> {
    (any_record(), any::<prop::sample::Index>(), prop::option::of(value())).prop_map(|(record, index, damage)| {
        let mut item = write(&record);
        let mut names: Vec<String> = item.keys().cloned().collect();
        names.sort();
        let name = names[index.index(names.len())].clone();
        match damage {
            Some(value) => item.insert(name, value),
            None => item.remove(&name),
        };
        item
    })
}

fn table() -> Table {
    Table::new("t", "PK")
}

fn any_record() -> impl Strategy<Value = Record> {
    let at = || (0u64..4_000_000_000_000).prop_map(Timestamp::from_millis);
    let outcome = prop_oneof![
        Just(Outcome::Nothing),
        Just(Outcome::NotKept),
        "\\PC{0,20}".prop_map(|json| Outcome::Value(json.into())),
    ];
    let state = prop_oneof![
        at().prop_map(|lease_until| State::Claimed { lease_until }),
        outcome.prop_map(|outcome| State::Completed { outcome }),
        "\\PC{0,20}".prop_map(|reason| State::Failed { reason }),
        ("\\PC{0,20}", any::<bool>()).prop_map(|(reason, uncertain)| State::Released { reason, uncertain }),
    ];
    let expiry = prop::option::of((0u64..4_000_000_000).prop_map(Timestamp::from_secs));
    let digests = prop::option::of(prop::collection::vec(("[a-z]{1,5}", "\\PC{0,5}"), 0..3)).prop_map(|fields| {
        let key = ichido::DigestKey::new(b"k");
        fields.map(|fields| fields.into_iter().fold(key.digests(), |all, (name, value)| all.field(name, value)).build())
    });
    (state, "[0-9a-f]{1,32}", any::<u64>(), at(), expiry, digests).prop_map(
        |(state, owner, fence, updated_at, expires_at, digests)| {
            let mut record = Record::new(state, owner.as_str().into(), fence, updated_at);
            (record.expires_at, record.digests) = (expires_at, digests);
            record
        },
    )
}

fn write(record: &Record) -> HashMap<String, AttributeValue> {
    let key = Namespace::new("N").retention(Duration::from_secs(1)).key(["a"]).unwrap();
    item::write(&table(), &key, record, &Vec::new()).unwrap()
}

mod prop_records {
    use super::*;

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn any_item_whatever_gives_a_record_or_an_error(item in any_item()) {
            // Whatever was read as a record must answer every question.
            if let Ok(record) = item::read(&table(), &item) {
                let _ = (record.is_claimable(Timestamp::from_millis(1)), record.is_expired(Timestamp::from_millis(u64::MAX)));
            }
        }

        #[test]
        fn a_damaged_record_gives_a_record_or_an_error(item in damaged()) {
            let _ = item::read(&table(), &item);
        }

        #[test]
        fn a_record_that_was_written_is_read_as_it_was(record in any_record()) {
            prop_assert_eq!(item::read(&table(), &write(&record)).unwrap(), record);
        }
    }
}
