//! What must hold for any input, one module per reader of other people's data.
//!
//! A target takes bytes and panics if a promise is broken. `make fuzz` runs the targets under libFuzzer, which keeps the inputs
//! that reach new code. The test `tests/corpus.rs` runs every kept input through its target, without libFuzzer.

mod target;

use target::{feed, graphql, html, journal, jwt, realtime, record, redact, slack, template};

/// One thing that is fuzzed.
#[derive(Debug)]
pub struct Target {
    /// The name of the directory in `corpus/` and of the file in `dictionary/`.
    pub name: &'static str,
    /// Panics if a promise does not hold for this input.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "feed", check: feed::check },
    Target { name: "graphql", check: graphql::check },
    Target { name: "html", check: html::check },
    Target { name: "journal", check: journal::check },
    Target { name: "jwt", check: jwt::check },
    Target { name: "realtime", check: realtime::check },
    Target { name: "record", check: record::check },
    Target { name: "redact", check: redact::check },
    Target { name: "slack", check: slack::check },
    Target { name: "template", check: template::check },
];

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
