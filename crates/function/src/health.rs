//! The health payload: how a rollout checks that a new version works.
//!
//! Every handler answers it without side effects. An answer proves that the version's code starts and
//! that its configuration is complete, because the configuration is checked before the first invocation.
//! A payload with an id (`{"ichido": "health", "id": "…"}`) is logged too, so that a caller who gets no answer,
//! such as a schedule, can be shown to have reached the function.

use serde_json::{Value, json};

/// The payload, as JSON: `{"ichido": "health"}`.
pub const HEALTH: &str = r#"{"ichido":"health"}"#;
/// The longest id that is logged.
const MAX_ID_CHARS: usize = 64;

/// Whether this event is the health payload: it has these members and no others, so no real event is mistaken for it.
pub fn is_health(event: &Value) -> bool {
    event.as_object().is_some_and(|members| {
        members.get("ichido").is_some_and(|asked| asked == "health")
            && members.keys().all(|name| name == "ichido" || name == "id")
    })
}

/// The id of the payload, if it has one that can be logged as it is.
pub(crate) fn id(event: &Value) -> Option<&str> {
    let id = event.get("id")?.as_str()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!id.is_empty() && id.len() <= MAX_ID_CHARS && id.chars().all(plain)).then_some(id)
}

pub(crate) fn answer(function: &str, version: &str) -> Value {
    json!({ "ichido": "health", "ok": true, "function": function, "version": version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_payload_itself_is_health() {
        for payload in [json!({ "ichido": "health" }), json!({ "ichido": "health", "id": "accept-1" })] {
            assert!(is_health(&payload), "{payload}");
        }
        for payload in [
            json!({}),
            json!(null),
            json!({ "id": "x" }),
            json!({ "ichido": "other" }),
            json!({ "ichido": "health", "body": "x" }),
        ] {
            assert!(!is_health(&payload), "{payload}");
        }
    }

    #[test]
    fn an_id_is_logged_only_if_it_is_short_and_plain() {
        assert_eq!(id(&json!({ "id": "accept-0a1b" })), Some("accept-0a1b"));
        for bad in [json!(""), json!(7), json!("a\nb"), json!("\u{1b}[31m"), json!("x".repeat(MAX_ID_CHARS + 1))] {
            assert_eq!(id(&json!({ "id": bad })), None, "{bad}");
        }
    }
}
