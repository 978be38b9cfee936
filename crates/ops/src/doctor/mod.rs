//! Compares what is deployed with the templates. There is one finding per table, index, TTL, schedule, alias, reserved
//! concurrency, log group, alarm, secret, role and permission. A finding that one call can correct carries that call ([`Mend`]).
//!
//! Promise: what cannot be read is never reported as correct. What the templates do not say is not compared: names that AWS makes
//! (API ids, role names) are accepted as they are.

mod compare;
mod look;
mod mend;
mod secrets;

use serde::Serialize;

pub(crate) use look::{Places, look};
pub(crate) use mend::{Account, Mend, instead};

/// An API key that ends within this many days is reported.
const KEY_WARNING_DAYS: i64 = 30;

/// What was found out about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub kind: &'static str,
    pub name: String,
    pub ok: bool,
    /// What is wrong, or, if nothing is, what an operator may want to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How it is set back, if it can be.
    #[serde(skip)]
    pub mend: Option<Mend>,
}

impl Finding {
    pub(crate) fn well(kind: &'static str, name: impl Into<String>) -> Self {
        Finding { kind, name: name.into(), ok: true, notes: Vec::new(), mend: None }
    }

    pub(crate) fn wrong(kind: &'static str, name: impl Into<String>, what: impl Into<String>) -> Self {
        Finding { kind, name: name.into(), ok: false, notes: vec![what.into()], mend: None }
    }

    /// Well if there are no differences.
    pub(crate) fn of(kind: &'static str, name: impl Into<String>, differences: Vec<String>) -> Self {
        Finding { kind, name: name.into(), ok: differences.is_empty(), notes: differences, mend: None }
    }

    /// Says how it is set back, should it be wrong.
    #[must_use]
    pub(crate) fn mended_by(mut self, mend: Mend) -> Self {
        self.mend = (!self.ok).then_some(mend);
        self
    }

    #[must_use]
    pub(crate) fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// A finding in one line.
pub(crate) fn line(finding: &Finding) -> String {
    let mark = if finding.ok { "ok " } else { "BAD" };
    let line = format!("{mark} {:<10} {}  {}", finding.kind, finding.name, finding.notes.join("; "));
    line.trim_end().to_owned()
}
