//! The health payload: how a rollout checks that a new version works.
//!
//! Every handler answers it without side effects. An answer proves that the version's code starts and
//! that its configuration is complete, because the configuration is checked before the first invocation.

use serde_json::{Value, json};

/// The payload, as JSON: `{"ichido": "health"}`.
pub const HEALTH: &str = r#"{"ichido":"health"}"#;

/// Whether this event is the health payload: it has this member and no other, so no real event is mistaken for it.
pub fn is_health(event: &Value) -> bool {
    event
        .as_object()
        .is_some_and(|members| members.len() == 1 && members.get("ichido").is_some_and(|asked| asked == "health"))
}

pub(crate) fn answer(function: &str, version: &str) -> Value {
    json!({ "ichido": "health", "ok": true, "function": function, "version": version })
}
