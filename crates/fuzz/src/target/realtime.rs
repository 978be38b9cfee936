//! The messages of a client in AppSync's realtime protocol, one per line.

use std::collections::BTreeSet;

use serde_json::Value;

use super::graphql::{api, caller, run};

/// An answer says what was wrong with a message, and a document can have a mistake in every token.
const MAX_ANSWER_BYTES: usize = 100_000;

pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let messages: Vec<&str> = text.lines().collect();
    let answers = run(api().converse(&messages, &caller()));
    assert_eq!(api().subscriptions(), 0, "a subscription outlives its connection");
    // At most a greeting has two answers.
    assert!(answers.len() <= 2 * messages.len());
    let mut open = BTreeSet::new();
    for answer in &answers {
        assert!(answer.to_string().len() <= MAX_ANSWER_BYTES + 20 * text.len(), "an answer is too large");
        let id = answer["id"].as_str();
        match answer["type"].as_str() {
            Some("connection_ack") => assert!(answer["payload"]["connectionTimeoutMs"].is_u64()),
            Some("ka") => {}
            Some("start_ack") => assert!(open.insert(id.expect("an id")), "one id has two subscriptions"),
            Some("complete") => assert!(open.remove(id.expect("an id")), "a subscription ends that was not there"),
            Some("error" | "connection_error") => assert_explains(answer),
            other => panic!("the protocol has no message of type {other:?}"),
        }
    }
}

fn assert_explains(answer: &Value) {
    let errors = answer["payload"]["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(!errors.is_empty(), "{answer}");
    for error in errors {
        assert!(error["errorType"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    }
}
