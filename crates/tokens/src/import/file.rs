//! Reads a file line by line, as often as needed, in memory that does not grow with it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::line::{Fields, Line, columns};
use crate::identity::did::Did;

/// The longest line, in bytes. The longest that can be valid has a few thousand.
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024;

/// What a file may begin with, and what is not part of it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A line and its number, which begins at 1, or what is wrong with the line.
pub(super) type Numbered = (u64, Result<Line, String>);

/// How the lines of a file are written. The first one tells.
enum Format {
    Unknown,
    JsonLines,
    /// CSV with these columns.
    Csv(Vec<String>),
    /// CSV whose header cannot be used, so that no line can be read.
    NoHeader,
}

/// An open file.
pub(super) struct Lines<'a> {
    reader: BufReader<File>,
    treasury: &'a Did,
    format: Format,
    number: u64,
    digest: Sha256,
}

impl<'a> Lines<'a> {
    pub(super) fn open(path: &Path, treasury: &'a Did) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file; it has to be read several times",
            ));
        }
        Ok(Lines { reader: BufReader::new(file), treasury, format: Format::Unknown, number: 0, digest: Sha256::new() })
    }

    /// The next line that is not empty. `None`: the file has ended.
    pub(super) fn next(&mut self) -> io::Result<Option<Numbered>> {
        while let Some(text) = self.next_text()? {
            let text = match text {
                Ok(text) if text.trim().is_empty() => continue,
                Ok(text) => text,
                Err(problem) => return Ok(Some((self.number, Err(problem)))),
            };
            if matches!(self.format, Format::Unknown) {
                if text.trim_start().starts_with('{') {
                    self.format = Format::JsonLines;
                } else {
                    match columns(&text) {
                        Ok(columns) => self.format = Format::Csv(columns),
                        Err(problem) => {
                            self.format = Format::NoHeader;
                            return Ok(Some((self.number, Err(problem))));
                        }
                    }
                    continue;
                }
            }
            let fields = match &self.format {
                Format::JsonLines => Fields::of_json(&text),
                Format::Csv(columns) => Fields::of_csv(columns, &text),
                Format::Unknown | Format::NoHeader => return Ok(None),
            };
            return Ok(Some((self.number, fields.and_then(|fields| Line::of(fields, self.treasury)))));
        }
        Ok(None)
    }

    /// Whether it is CSV whose header has been read.
    pub(super) fn have_a_header(&self) -> bool {
        matches!(self.format, Format::Csv(_))
    }

    /// How many lines have been read.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What was read, in a few bytes. The same file has the same digest.
    pub(super) fn digest(self) -> [u8; 32] {
        self.digest.finalize().into()
    }

    /// The next line without its end, or why it is not a text. A line that is too long is skipped to its end.
    fn next_text(&mut self) -> io::Result<Option<Result<String, String>>> {
        let mut bytes = Vec::new();
        let mut too_long = false;
        loop {
            bytes.clear();
            let most = MAX_LINE_BYTES as u64 + 1;
            let read = self.reader.by_ref().take(most).read_until(b'\n', &mut bytes)?;
            self.digest.update(&bytes);
            let whole = read <= MAX_LINE_BYTES || bytes.ends_with(b"\n");
            if read == 0 && !too_long {
                return Ok(None);
            }
            if whole {
                break;
            }
            too_long = true;
        }
        self.number += 1;
        if too_long || bytes.len() > MAX_LINE_BYTES {
            return Ok(Some(Err(format!("the line is longer than {MAX_LINE_BYTES} bytes"))));
        }
        let Ok(text) = str::from_utf8(&bytes) else { return Ok(Some(Err("the line is not UTF-8".into()))) };
        let text = if self.number == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
        let text = text.strip_suffix('\n').unwrap_or(text);
        Ok(Some(Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, bytes: &[u8]) -> Vec<(u64, Result<String, String>)> {
        let path = std::env::temp_dir().join(format!("tokens-import-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let treasury = "did:ichido:treasury".parse().unwrap();
        let mut lines = Lines::open(&path, &treasury).unwrap();
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            let shown = line.map(|line| match line {
                Line::Account(opening) => format!("{} {}", opening.did, opening.balance),
                Line::Used(used) => format!("{} {}", used.sender, used.key),
            });
            found.push((number, shown));
        }
        let whole: [u8; 32] = Sha256::digest(bytes).into();
        let header_only = found.len() == 1 && found[0].1.as_ref().is_err_and(|problem| problem.contains("header"));
        assert!(header_only || lines.digest() == whole, "every byte counts");
        std::fs::remove_file(path).unwrap();
        found
    }

    fn ok(number: u64, text: &str) -> (u64, Result<String, String>) {
        (number, Ok(text.into()))
    }

    #[test]
    fn csv_and_json_lines_are_told_apart_by_the_first_line() {
        let alice = ok(2, "did:key:alice 1.5");
        assert_eq!(read("csv", b"did,balance\ndid:key:alice,1.5\n"), std::slice::from_ref(&alice));
        assert_eq!(read("order", b"balance,did\n1.5,did:key:alice"), std::slice::from_ref(&alice));
        assert_eq!(read("crlf", b"\xef\xbb\xbf\"did\",\"balance\"\r\n\"did:key:alice\",\"1.5\"\r\n\r\n"), [alice]);
        let json = b"\xef\xbb\xbf{\"did\":\"did:key:alice\",\"balance\":\"1\"}\r\n\n {\"did\":\"did:key:bob\",\"balance\":\"2\"}";
        assert_eq!(read("jsonl", json), [ok(1, "did:key:alice 1"), ok(3, "did:key:bob 2")]);
        let used = b"createdAt,senderDid,idempotencyKey,recipientDid,amount,transactionId\n1,did:key:a,\"k,\"\"1\"\"\",did:key:b,1,t\n";
        assert_eq!(read("used", used), [ok(2, "did:key:a k,\"1\"")]);
    }

    #[test]
    fn a_file_without_lines_has_none() {
        for (name, bytes) in [("empty", &b""[..]), ("blank", b"\n\r\n  \n"), ("header", b"did,balance\n")] {
            assert_eq!(read(name, bytes), []);
        }
    }

    #[test]
    fn a_wrong_header_is_one_problem_and_not_one_per_line() {
        let found = read("wrong", b"account,amount\ndid:key:alice,1\ndid:key:bob,2\n");
        assert!(matches!(&found[..], [(1, Err(problem))] if problem.contains("the header must be")), "{found:?}");
    }

    #[test]
    fn each_bad_line_is_named_and_the_next_one_is_read() {
        let long = "x".repeat(5 * MAX_LINE_BYTES);
        let text = format!("did,balance\n{long}\ndid:key:bob,2\n\"did:key:carol,3\ndid:key:dave\n");
        let mut bytes = text.into_bytes();
        bytes.extend(b"did:key:\xff,3\ndid:key:erin,4");
        let found = read("bad", &bytes);
        let problems = [(2, "longer than"), (4, "not closed"), (5, "1 fields"), (6, "UTF-8")];
        for (number, said) in problems {
            let there = |(at, line): &(u64, Result<String, String>)| {
                *at == number && line.as_ref().is_err_and(|problem| problem.contains(said))
            };
            assert!(found.iter().any(there), "line {number}: {found:?}");
        }
        assert_eq!(found.len(), 6);
        assert!(found.contains(&ok(3, "did:key:bob 2")) && found.contains(&ok(7, "did:key:erin 4")), "{found:?}");
    }

    #[test]
    fn a_line_of_exactly_the_longest_length_is_read() {
        for (extra, fits) in [(0, true), (1, false)] {
            let padding = " ".repeat(MAX_LINE_BYTES - b"{\"did\":\"did:key:alice\",\"balance\":\"1\"}\n".len() + extra);
            let text = format!(
                "{{\"did\":\"did:key:alice\",\"balance\":\"1\"}}{padding}\n{{\"did\":\"did:key:bob\",\"balance\":\"1\"}}"
            );
            let found = read("exact", text.as_bytes());
            assert_eq!((found.len(), found[0].1.is_ok(), found[1].1.is_ok()), (2, fits, true), "{found:?}");
        }
    }
}
