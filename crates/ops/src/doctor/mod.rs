//! Is what is deployed as the templates say? One finding a thing: a table, an index, a TTL, a schedule, an alias, an alarm, a
//! secret, the permissions of a role.
//!
//! Promise: what cannot be asked is not called well. What the templates do not say is not looked at: names that AWS makes
//! (API ids, role names) are taken as they come.

pub mod compare;
mod look;

use serde::Serialize;

pub use look::{Places, look};

/// A day before which a key that ends is spoken of.
pub const KEY_WARNING_DAYS: i64 = 30;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: &'static str,
    pub name: String,
    pub ok: bool,
    /// What is worth knowing of a thing that is well; what is wrong with one that is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Finding {
    pub fn well(kind: &'static str, name: impl Into<String>) -> Self {
        Finding { kind, name: name.into(), ok: true, notes: Vec::new() }
    }

    pub fn wrong(kind: &'static str, name: impl Into<String>, what: impl Into<String>) -> Self {
        Finding { kind, name: name.into(), ok: false, notes: vec![what.into()] }
    }

    /// Well if nothing differs.
    pub fn of(kind: &'static str, name: impl Into<String>, differences: Vec<String>) -> Self {
        Finding { kind, name: name.into(), ok: differences.is_empty(), notes: differences }
    }

    #[must_use]
    pub fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// A line.
pub fn line(finding: &Finding) -> String {
    let verdict = if finding.ok { "ok " } else { "BAD" };
    let line = format!("{verdict} {:<10} {}  {}", finding.kind, finding.name, finding.notes.join("; "));
    line.trim_end().to_owned()
}
