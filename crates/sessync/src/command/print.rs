//! How commands print: text for people, one JSON line for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::source::files::Discovery;

/// Writes to a terminal. Names of files, directories and models are somebody else's text: a control character in one of
/// them is written as its escape and does nothing.
#[derive(Debug)]
pub(super) struct Plain<W>(pub(super) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // 0xc2 begins the control characters from U+0080 to U+009F.
        let is_harmless = |byte: &u8| !byte.is_ascii_control() && *byte != 0xc2 || matches!(byte, b'\n' | b'\t');
        if bytes.iter().all(is_harmless) {
            self.0.write_all(bytes)?;
        } else {
            self.0.write_all(plain(&String::from_utf8_lossy(bytes)).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A text whose control characters are written as their escapes.
pub(crate) fn plain(text: &str) -> String {
    let is_harmless = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
    text.chars()
        .map(|char| if is_harmless(char) { char.to_string() } else { char.escape_default().to_string() })
        .collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_is_written_as_its_escape() {
        let mut out = Vec::new();
        write!(Plain(&mut out), "a\u{1b}[2Jc\u{9b}31mü\n\tb\r").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\u{1b}[2Jc\\u{9b}31mü\n\tb\\r");
    }
}
