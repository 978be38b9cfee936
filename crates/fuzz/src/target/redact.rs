//! The redactor: secrets go, JSON stays JSON.

use std::sync::LazyLock;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sessync::redact::{Counts, Redactor};

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&[]).expect("the patterns compile"));

/// How often a text may change when it is redacted again and again.
const MAX_PASSES: usize = 4;

/// What looks like a secret: `~a` in an input stands for the first, `~b` for the second, and so on. They are made of pieces, and
/// inputs have only the short form, so that no file contains anything that looks like a secret.
static SECRETS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let fake = |prefix: &str, length: usize| -> String {
        prefix.chars().chain("A1b2C3d4E5f6G7h8J9k0".chars().cycle().take(length)).collect()
    };
    let three = |one: String, two: String, three: String| format!("{one}.{two}.{three}");
    vec![
        fake("", 20).to_ascii_uppercase().replacen("A1B2", "AKIA", 1),
        fake("gh\x70_", 36),
        fake("glpat-", 20),
        fake("xox\x62-", 24),
        fake("sk-ant-", 40),
        fake("sk-proj-", 48),
        fake("AI\x7aa", 35),
        fake("ya29.", 40),
        fake("sk_live_", 24),
        fake("npm_", 36),
        fake("pypi-", 60),
        fake("hf_", 34),
        format!("{}.{}", fake("SG.", 22), fake("", 43)),
        three(fake("eyJ", 20), fake("eyJ", 20), fake("", 30)),
        format!("-----BEGIN RSA {0} KEY-----\n{1}\n-----END RSA {0} KEY-----", "PRIVATE", fake("", 64)),
    ]
});

/// The input with its secrets.
fn with_secrets(text: &str) -> String {
    let mut out = text.to_owned();
    for (secret, letter) in SECRETS.iter().zip('a'..='z') {
        let short = format!("~{letter}");
        if out.contains(&short) {
            out = out.replace(&short, secret);
        }
    }
    out
}

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    texts(&with_secrets(text));
    // A line break is escaped in JSON.
    json(&with_secrets(text).replace("KEY-----\n", "KEY-----\\n").replace("\n-----END", "\\n-----END"));
    let secret = &SECRETS[data.len() % SECRETS.len()];
    let mut counts = Counts::new();
    let planted = format!("{text} {secret} there");
    assert!(!REDACTOR.text(&planted, &mut counts).contains(secret), "a secret is left in a text");
    assert!(!counts.is_empty(), "a secret is not counted");
    let planted = json!({"n": 1, "deep": [{ "text": planted }]}).to_string();
    let encoded = secret.replace('\n', "\\n");
    assert!(!REDACTOR.json(&planted, &mut Counts::new()).contains(&encoded), "a secret is left in JSON");
}

fn texts(text: &str) {
    let redacted = |text: &str| REDACTOR.text(text, &mut Counts::new()).into_owned();
    assert_settles(text, redacted);
}

fn json(text: &str) {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        // It is not JSON, so nothing is promised but an answer.
        let _ = REDACTOR.json(text, &mut Counts::new());
        return;
    }
    let redacted = |text: &str| {
        let json = REDACTOR.json(text, &mut Counts::new()).into_owned();
        assert!(serde_json::from_str::<IgnoredAny>(&json).is_ok(), "JSON became {json}");
        json
    };
    assert_settles(text, redacted);
    if let (Ok(before), Ok(after)) = (serde_json::from_str(text), serde_json::from_str(&redacted(text))) {
        assert_same_shape(&before, &after);
    }
}

/// What was redacted hardly changes if it is redacted again: a marker may look like a password in a URL, but then its marker does not.
fn assert_settles(text: &str, redacted: impl Fn(&str) -> String) {
    let mut last = redacted(text);
    for _ in 0..MAX_PASSES {
        let next = redacted(&last);
        if next == last {
            return;
        }
        last = next;
    }
    panic!("redacting it again and again always changes it: {last:?}");
}

/// Only strings change. Names of members may, if they look like a secret.
fn assert_same_shape(before: &Value, after: &Value) {
    match (before, after) {
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len());
            before.iter().zip(after).for_each(|(before, after)| assert_same_shape(before, after));
        }
        (Value::Object(before), Value::Object(after)) => {
            assert!(after.len() <= before.len());
            for (name, value) in before {
                if let Some(after) = after.get(name) {
                    assert_same_shape(value, after);
                }
            }
        }
        (Value::String(_), Value::String(_)) => {}
        (before, after) => assert_eq!(before, after, "the redactor changed something that is not a string"),
    }
}
