//! The page `/duel`: its files, and the JSON that it asks for. Both the demonstration in the terminal and the console serve it.

use serde_json::{Value, json};

use crate::Progress;

/// The page loads nothing from another host.
pub const POLICY: &str =
    "default-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file of the page: its type and its text.
#[must_use]
pub fn file(path: &str) -> Option<(&'static str, &'static str)> {
    Some(match path {
        "/duel" => ("text/html; charset=utf-8", include_str!("../web/duel.html")),
        "/duel/page.js" => ("text/javascript; charset=utf-8", include_str!("../web/page.js")),
        "/duel/page.css" => ("text/css; charset=utf-8", include_str!("../web/page.css")),
        "/duel/duel.js" => ("text/javascript; charset=utf-8", include_str!("../web/duel.js")),
        "/duel/duel.css" => ("text/css; charset=utf-8", include_str!("../web/duel.css")),
        _ => return None,
    })
}

/// What `GET /_local/duel` answers. `startable`: can the page start a duel? `failed`: why the last one has no result.
#[must_use]
pub fn state(duel: Option<&Progress>, running: bool, startable: bool, failed: Option<&str>) -> Value {
    json!({"running": running, "startable": startable, "duel": duel, "failed": failed})
}
