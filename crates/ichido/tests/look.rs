//! Reads a table as an operator's tool does: one key, or a list of keys.

mod support;

use ichido::dynamodb::{DynamoDb, Listing, Table, Wanted};
use ichido::{Key, Marked, State, StateKind, record};
use serde_json::{Value, json};
use support::*;
use testkit::Dynamo;

/// Items in the same table that are not records: more than two pages of a scan.
const OTHERS: usize = 1_100;

fn store(db: &Dynamo) -> DynamoDb {
    let table = Table::new(TABLE, "event_key");
    assert_eq!(table.name(), TABLE);
    DynamoDb::new(db.client(), table)
}

fn put(db: &Dynamo, item: Value) {
    db.must("PutItem", &json!({"TableName": TABLE, "Item": item}));
}

#[tokio::test]
async fn a_record_is_shown_with_what_its_caller_put_beside_it() {
    let db = dynamo();
    let key = closed("Ev1");
    assert!(store(&db).look(&key).await.unwrap().is_none());
    let mark = instance(&db).mark(&key).attribute("file", "F1").attribute("size", 7).attribute("bot", true).await;
    assert_eq!(mark.unwrap(), Marked::New);
    let found = store(&db).look(&key).await.unwrap().unwrap();
    assert_eq!(found.key.as_str(), key.as_str());
    assert!(matches!(found.record.unwrap().state, State::Completed { .. }));
    assert_eq!(json!(found.attributes), json!({"file": "F1", "size": 7, "bot": true}));
}

#[tokio::test]
async fn what_is_no_record_is_shown_too_and_said_to_be_none() {
    let db = dynamo();
    put(
        &db,
        json!({
            "event_key": {"S": "Ev1"}, "ttl": {"N": "5"}, "text": {"S": "x"}, "number": {"N": "1.5"}, "flag": {"BOOL": false}, "none": {"NULL": true},
            "list": {"L": [{"N": "1"}, {"S": "a"}]}, "map": {"M": {"a": {"N": "2"}}}, "names": {"SS": ["one"]}, "numbers": {"NS": ["3"]},
            "bytes": {"B": "AAAA"},
        }),
    );
    let found = store(&db).look(&closed("Ev1")).await.unwrap().unwrap();
    assert!(matches!(found.record, Err(record::Error::Missing(_))), "{:?}", found.record);
    let shown = json!({
        "text": "x", "number": 1.5, "flag": false, "none": null, "list": [1, "a"], "map": {"a": 2}, "names": ["one"], "numbers": ["3"],
        "bytes": "3 bytes",
    });
    assert_eq!(json!(found.attributes), shown);
}

#[tokio::test]
async fn a_look_through_a_table_finds_what_is_wanted_within_its_bounds() {
    let db = dynamo();
    for n in 0..OTHERS {
        put(&db, json!({"event_key": {"S": format!("other-{n}")}}));
    }
    let once = instance(&db);
    for name in ["a-1", "a-2", "a-3", "b-1"] {
        once.mark(&closed(name)).await.unwrap();
    }
    abandon(&once, &closed("a-4")).await;
    let everything = OTHERS + 5;

    let look = async |wanted: Wanted<'_>, most: usize, examine: usize| {
        let Listing { items, examined, whole } = store(&db).look_through(wanted, most, examine).await.unwrap();
        let mut keys: Vec<Key> = items.into_iter().map(|item| item.key).collect();
        keys.sort_by_key(|key| key.as_str().to_owned());
        (keys.iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>(), examined, whole)
    };
    let all = look(Wanted::default(), 100, 10_000).await;
    assert_eq!(all, (["a-1", "a-2", "a-3", "a-4", "b-1"].map(String::from).to_vec(), everything, true));
    let some = look(Wanted { prefix: "a-", state: None }, 100, 10_000).await;
    assert_eq!(some, (["a-1", "a-2", "a-3", "a-4"].map(String::from).to_vec(), everything, true));
    let claimed = look(Wanted { prefix: "", state: Some(StateKind::Claimed) }, 100, 10_000).await;
    assert_eq!(claimed, (vec!["a-4".to_owned()], everything, true));
    let (few, _, whole) = look(Wanted::default(), 2, 10_000).await;
    assert_eq!((few.len(), whole), (2, false));
    assert_eq!(look(Wanted::default(), 0, 10_000).await, (vec![], 0, false));
    let (_, examined, whole) = look(Wanted::default(), 100, 500).await;
    assert_eq!((examined, whole), (500, false));
}
