//! How commands print: text for people, one JSON line for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::source::files::Discovery;

/// Prints one JSON line.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// Says that there are no logs, and where they were searched.
pub(super) fn no_logs(found: &Discovery, out: &mut dyn Write) -> io::Result<()> {
    let searched: Vec<String> = found.looked.iter().map(|path| path.display().to_string()).collect();
    writeln!(out, "No logs found. Searched for *.jsonl in {}", searched.join(", "))
}

/// `3 not_json, 1 no_uuid`
pub(super) fn list<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    counts.iter().map(|(what, count)| format!("{count} {}", what.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Prints examples, one per line.
pub(super) fn examples(examples: &[String], out: &mut dyn Write) -> io::Result<()> {
    examples.iter().try_for_each(|example| writeln!(out, "    {example}"))
}

/// A number of things: `1 row`, `2 rows`.
pub(super) fn count(number: impl TryInto<u64>, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match (number, thing) {
        (1, _) => format!("1 {thing}"),
        (_, "batch") => format!("{number} batches"),
        _ => format!("{number} {thing}s"),
    }
}
