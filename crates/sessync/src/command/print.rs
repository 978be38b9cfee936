//! How commands print: text for people, one JSON line for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use serde::Serialize;
use telemetry::terminal::{harmless, harmless_json, one_line};

use crate::source::files::Discovery;

/// Writes to a terminal. Names of files, directories and models are somebody else's text: a control character in one of
/// them is written as its escape and does nothing. What `write!` or `writeln!` formats is one line, so that no name looks like two.
/// Our own text of several lines is written with `write_all`.
#[derive(Debug)]
pub(super) struct Plain<W>(pub(super) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(harmless(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn write_fmt(&mut self, line: fmt::Arguments<'_>) -> io::Result<()> {
        let line = line.to_string();
        let (text, end) = line.strip_suffix('\n').map_or((line.as_str(), ""), |text| (text, "\n"));
        self.0.write_all(one_line(text).as_bytes())?;
        self.0.write_all(end.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints one JSON line.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    // Escaped as JSON escapes it, so that it stays JSON.
    writeln!(out, "{}", harmless_json(&serde_json::to_string(value)?))
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
        Plain(&mut out).write_all("a\u{1b}[2Jc\u{9b}31mü\n\tb\r\u{202e}d".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\u{1b}[2Jc\\u{9b}31mü\n\tb\\r\\u{202e}d");
    }

    #[test]
    fn a_name_cannot_look_like_two_lines() {
        let mut out = Vec::new();
        // As commands have it.
        let dynamic: &mut dyn Write = &mut Plain(&mut out);
        writeln!(dynamic, "Wrote {}.", std::path::Path::new("a\nUploaded 3 rows\u{200b}").display()).unwrap();
        let cause = "x\n";
        write!(dynamic, "sessync: {cause}").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "Wrote a\\nUploaded 3 rows\\u{200b}.\nsessync: x\n");
    }

    #[test]
    fn json_stays_json_on_a_terminal() {
        let (mut out, name) = (Vec::new(), "a\u{7f}\u{9b}\u{202e}b");
        json(&[name], &mut Plain(&mut out)).unwrap();
        assert!(out.is_ascii(), "nothing is left to obey");
        assert_eq!(serde_json::from_slice::<Vec<String>>(&out).unwrap(), [name]);
    }
}
