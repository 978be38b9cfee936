//! Whatever Slack sends, now or in the future, can be read: unknown fields and types never fail.

use crate::support::{envelope, own, upload};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use slack::event::{Error, Ignored, MAX_LABEL_CHARS, Received, read};

fn received(envelope: &Value) -> Received {
    read(envelope.to_string().as_bytes(), &own()).expect("any object is read")
}

/// Any JSON, also with names that the parser looks at.
fn json_value() -> impl Strategy<Value = Value> {
    testkit::any_json(".{0,12}", name())
}

/// Names that the parser looks at.
const KNOWN: [&str; 16] = [
    "type",
    "event",
    "subtype",
    "files",
    "id",
    "ts",
    "channel",
    "user",
    "bot_id",
    "team_id",
    "event_id",
    "name",
    "size",
    "authorizations",
    "challenge",
    "thread_ts",
];

/// Names that the parser looks at, and others.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![prop::sample::select(&KNOWN[..]).prop_map(str::to_owned), "[a-z_]{1,8}"]
}

fn object(members: Vec<(String, Value)>) -> Value {
    Value::Object(members.into_iter().collect::<Map<_, _>>())
}

/// Paths of the members that decide what an envelope means.
const MEANINGFUL: [&str; 13] = [
    "/type",
    "/event",
    "/event/type",
    "/event/subtype",
    "/event/channel",
    "/event/ts",
    "/event/files",
    "/event/files/0",
    "/event/files/0/id",
    "/event/user",
    "/event_id",
    "/team_id",
    "/authorizations",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_bytes_are_judged_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, &own());
    }

    #[test]
    fn any_object_is_read(members in prop::collection::vec((name(), json_value()), 0..6)) {
        let envelope = object(members);
        let read = read(envelope.to_string().as_bytes(), &own());
        let challenge = envelope["type"] == "url_verification";
        prop_assert!(read.is_ok() || challenge, "{envelope}");
    }

    #[test]
    fn unknown_fields_change_nothing(
        outer in prop::collection::vec(("x_[a-z]{1,6}", json_value()), 0..4),
        inner in prop::collection::vec(("x_[a-z]{1,6}", json_value()), 0..4),
        of_file in prop::collection::vec(("x_[a-z]{1,6}", json_value()), 0..4),
    ) {
        let plain = envelope("Ev1", "1700000000.000100", &["F1", "F2"]);
        let mut strange = plain.clone();
        for (place, members) in [("", outer), ("/event", inner), ("/event/files/0", of_file)] {
            let place = strange.pointer_mut(place).and_then(Value::as_object_mut).expect("an object");
            place.extend(members);
        }
        prop_assert_eq!(received(&plain), received(&strange));
    }

    #[test]
    fn a_field_of_another_type_is_a_field_that_is_missing(at in prop::sample::select(&MEANINGFUL[..]), value in json_value()) {
        let mut envelope = envelope("Ev1", "1700000000.000100", &["F1", "F2"]);
        *envelope.pointer_mut(at).expect("it is there") = value;
        if let Received::Upload(upload) = received(&envelope) {
            prop_assert!(!upload.files.is_empty() && !upload.event_key.is_empty() && !upload.team.is_empty());
            prop_assert!(!upload.channel.is_empty() && !upload.ts.is_empty());
            // `slack-files` reads exactly what `slack-events` handed over.
            let again = serde_json::from_value(serde_json::to_value(&upload).expect("JSON")).expect("an upload");
            prop_assert_eq!(upload, again);
        }
    }
}

#[test]
fn only_what_is_no_object_and_a_challenge_without_one_are_errors() {
    for body in ["", "{", "[]", "null", "\"x\"", "7", "payload=%7B%7D"] {
        assert!(matches!(read(body.as_bytes(), &own()), Err(Error::NotJson(_) | Error::NotAnObject)), "{body}");
    }
    for body in [json!({"type": "url_verification"}), json!({"type": "url_verification", "challenge": 7})] {
        assert!(matches!(read(body.to_string().as_bytes(), &own()), Err(Error::NoChallenge)));
    }
}

#[test]
fn what_lacks_its_channel_timestamp_or_files_is_incomplete() {
    for (at, value) in [
        ("/event/channel", json!(null)),
        ("/event/ts", json!("")),
        ("/event/files", json!([])),
        ("/event/files", json!([{"name": "no id"}])),
    ] {
        let mut envelope = envelope("Ev1", "1700000000.000100", &["F1"]);
        *envelope.pointer_mut(at).expect("it is there") = value;
        let incomplete = Received::Ignored { why: Ignored::Incomplete, event_key: Some("Ev1".to_owned()) };
        assert_eq!(received(&envelope), incomplete, "{at}");
    }
}

#[test]
fn a_file_that_slack_tells_little_about_is_a_file() {
    // Slack Connect tells only the id of a file.
    let mut event = envelope("Ev1", "1700000000.000100", &["F1"]);
    event["event"]["files"] =
        json!([{"id": "F1", "mode": "file_access", "file_access": "check_file_info", "user": ""}]);
    let read = upload(&event);
    assert_eq!(read.files.len(), 1);
    assert_eq!((&read.files[0].name, &read.files[0].mimetype, read.files[0].size), (&None, &None, None));
}

#[test]
fn the_same_file_twice_in_one_message_is_one_file() {
    assert_eq!(upload(&envelope("Ev1", "1.2", &["F1", "F2", "F1"])).files.len(), 2);
}

#[test]
fn an_overlong_name_is_cut() {
    let mut event = envelope("Ev1", "1.2", &["F1"]);
    event["event"]["files"][0]["name"] = "あ".repeat(5_000).into();
    let name = upload(&event).files[0].name.clone().expect("a name");
    assert_eq!(name.chars().count(), MAX_LABEL_CHARS);
}

#[test]
fn the_team_is_found_wherever_slack_puts_it() {
    let mut event = envelope("Ev1", "1.2", &["F1"]);
    assert_eq!(upload(&event).team, "T0TEAM");
    event["team_id"] = Value::Null;
    assert_eq!(upload(&event).team, "T0TEAM", "from the authorization");
    event["authorizations"] = Value::Null;
    assert_eq!(upload(&event).team, "-");
    event["team_id"] = "T0TEAM".into();
    event["enterprise_id"] = "E0ORG".into();
    assert_eq!(upload(&event).team, "E0ORG", "the organisation, which all its workspaces have in common");
    event["is_ext_shared_channel"] = true.into();
    assert_eq!(upload(&event).team, "-", "a channel of several organisations");
}
