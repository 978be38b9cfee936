//! CloudFormation templates.

use std::collections::BTreeMap;

use serde_json::Value;
use template::{Document, Error, Template};

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parameters = BTreeMap::from([("Environment".to_owned(), Value::from("dev"))]);
    if let Ok(document) = Document::read(text, &parameters) {
        for kind in ["AWS::Lambda::Function", "AWS::DynamoDB::Table"] {
            for id in document.of_kind(kind).unwrap_or_default() {
                document.properties(&id).map_or_else(|error| assert_says_where(&error, text), drop);
            }
        }
        document.function_names("f").map_or_else(|error| assert_says_where(&error, text), drop);
    }
    match Template::read(text, &parameters) {
        Ok(template) => read(&template, text),
        Err(error) => assert_says_where(&error, text),
    }
}

fn read(template: &Template, text: &str) {
    let _ = (template.functions(), template.queues(), template.tables());
    let outcomes = [
        template.alarms().map(drop),
        template.routes().map(drop),
        template.schedules().map(drop),
        template.metric_filters().map(drop),
    ];
    for outcome in outcomes {
        outcome.unwrap_or_else(|error| assert_says_where(&error, text));
    }
}

/// An error names the part of the template that is wrong.
fn assert_says_where(error: &Error, text: &str) {
    let message = error.to_string();
    let template: Value = serde_yaml_ng::from_str(text).unwrap_or_default();
    let named = |at: &str| {
        ["Parameters", "Resources", "Outputs", "Conditions"].iter().any(|part| template[part].get(at).is_some())
    };
    match error {
        Error::Yaml(_) => {}
        Error::NoValue(at)
        | Error::Unknown { at, .. }
        | Error::NotUnderstood { at, .. }
        | Error::Missing { at, .. } => {
            assert!(named(at), "the error names {at:?}, which is no part of the template: {message}");
            assert!(message.contains(at.as_str()), "{message}");
        }
        Error::File { .. } => panic!("no file was asked for: {message}"),
    }
}
