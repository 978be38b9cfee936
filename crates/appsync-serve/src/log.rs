//! The log on standard output: one line per request, and what the API itself would log.
//!
//! ```text
//! 12:03:04   2.1 ms  query note
//! 12:03:09   4.0 ms  mutation addNote
//!                    error at addNote: A note needs a text
//! ```
//!
//! A line has the kind, the name and the fields of an operation, never its arguments: they may be secrets. What comes from a caller
//! or from a file is printed without control characters.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use telemetry::terminal::one_line;

/// Errors of one answer that are shown.
const SHOWN_ERRORS: usize = 5;
/// Characters of a text from outside that are shown.
const SHOWN: usize = 300;

/// Takes lines. Clones write to the same place.
#[derive(Clone)]
pub(crate) struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    pub(crate) fn to_stdout() -> Self {
        Self(Arc::new(|text| {
            let mut out = std::io::stdout().lock();
            // If nobody reads the log, the program goes on.
            let _ = writeln!(out, "{text}").and_then(|()| out.flush());
        }))
    }

    pub(crate) fn say(&self, text: &str) {
        (self.0)(text);
    }

    /// A line that the API would write to its log group. The errors of an answer are shown with the request.
    pub(crate) fn of_api(&self, line: &str) {
        if line.starts_with("{\"errors\":") {
            return;
        }
        self.say(&format!("{INDENT}log: {}", shown(line)));
    }

    pub(crate) fn of_request(&self, took: Duration, asked: &str, answer: &Value) {
        let time = jiff::Timestamp::now().strftime("%H:%M:%S").to_string();
        self.say(&format!("{time} {:>7.1} ms  {asked}", took.as_secs_f64() * 1e3));
        let errors = answer["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        for error in errors.iter().take(SHOWN_ERRORS) {
            self.say(&format!("{INDENT}{}", of_error(error)));
        }
        if errors.len() > SHOWN_ERRORS {
            self.say(&format!("{INDENT}and {} more errors", errors.len() - SHOWN_ERRORS));
        }
    }
}

const INDENT: &str = "                     ";

fn of_error(error: &Value) -> String {
    let segments = error["path"].as_array().map(Vec::as_slice).unwrap_or_default();
    let path: Vec<String> =
        segments.iter().map(|segment| segment.as_str().map_or_else(|| segment.to_string(), str::to_owned)).collect();
    let place = if path.is_empty() { String::new() } else { format!(" at {}", path.join(".")) };
    let message = error["message"].as_str().unwrap_or("no message");
    let kind = error["errorType"].as_str().map(|kind| format!(" ({kind})")).unwrap_or_default();
    shown(&format!("error{place}: {message}{kind}"))
}

/// A text from outside, as it is printed.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", one_line(&text[..end])),
        None => one_line(text).into_owned(),
    }
}

/// A message about files, as it is printed: whole, because it may list many mistakes, and with its lines. Those after the first are
/// indented, so that none of them looks like a line of the log.
pub(crate) fn shown_whole(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(one_line).collect();
    lines.join("\n  ")
}

/// Which definition of a document a token belongs to.
#[derive(PartialEq)]
enum Definition {
    /// To none yet: it begins one.
    None,
    Fragment,
    Operation,
}

/// The kind, the name and the fields of a document's first operation, for example `query Start: note, notes`. A fragment is named as it is
/// spread: `...Parts`.
pub(crate) fn summary(query: &str) -> String {
    let (mut kind, mut name, mut fields) = ("query", None, Vec::<String>::new());
    let (mut depth, mut in_arguments) = (0_usize, 0_usize);
    let mut definition = Definition::None;
    let mut before: Option<&str> = None;
    for token in tokens(query) {
        match token {
            "{" if in_arguments == 0 => {
                depth += 1;
                if definition == Definition::None {
                    definition = Definition::Operation;
                }
            }
            "}" if in_arguments == 0 => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    if definition != Definition::Fragment {
                        break;
                    }
                    definition = Definition::None;
                }
            }
            "(" => in_arguments += 1,
            ")" => in_arguments = in_arguments.saturating_sub(1),
            _ if in_arguments > 0 => {}
            _ if definition == Definition::Fragment => {}
            "fragment" if definition == Definition::None => definition = Definition::Fragment,
            "query" | "mutation" | "subscription" if definition == Definition::None => {
                (kind, definition) = (token, Definition::Operation);
            }
            word if depth == 0 && name.is_none() && is_name(word) && before != Some("@") => name = Some(word),
            // What stood before the colon was an alias.
            ":" if depth == 1 => {
                fields.pop();
            }
            word if depth == 1 && is_name(word) && before == Some(".") => fields.push(format!("...{word}")),
            // The type of a fragment without a name.
            word if depth == 1 && is_name(word) && before == Some("on") && in_fragment(&fields) => {
                if let Some(last) = fields.last_mut() {
                    *last = format!("... on {word}");
                }
            }
            word if depth == 1 && is_name(word) && before != Some("@") => fields.push(word.to_owned()),
            _ => {}
        }
        before = Some(token);
    }
    let fields = fields.join(", ");
    match name {
        Some(name) => shown(&format!("{kind} {name}: {fields}")),
        None => shown(&format!("{kind} {fields}")),
    }
}

/// Whether the last field is the beginning of `... on Type`.
fn in_fragment(fields: &[String]) -> bool {
    fields.last().is_some_and(|last| last == "...on")
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The words and signs of a document. Strings and comments are left out.
fn tokens(query: &str) -> impl Iterator<Item = &str> {
    let mut rest = query;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == '\u{FEFF}');
            let first = rest.chars().next()?;
            if first == '#' {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
                continue;
            }
            if let Some(after) = rest.strip_prefix("\"\"\"") {
                rest = after.split_once("\"\"\"").map_or("", |(_, after)| after);
                continue;
            }
            if let Some(after) = rest.strip_prefix('"') {
                rest = after_string(after);
                continue;
            }
            let end = match first {
                c if c.is_alphanumeric() || c == '_' => {
                    rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
                }
                c => c.len_utf8(),
            };
            let (token, after) = rest.split_at(end);
            rest = after;
            return Some(token);
        }
    })
}

fn after_string(text: &str) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_operation_is_named_without_its_arguments() {
        for (query, said) in [
            ("{ note(id: \"secret\") { text } }", "query note"),
            ("query Start($id: ID! = \"}\") @x { a: note(id: $id) { text } notes }", "query Start: note, notes"),
            ("# comment {\nmutation { addNote(text: \"\"\"a } \" b\"\"\") { id } }", "mutation addNote"),
            ("subscription S { onNote { text } } fragment f on Note { id }", "subscription S: onNote"),
            ("mutation { b(in: {x: {y: 1}}) { id } c }", "mutation b, c"),
            ("fragment F on Note { id } query Q { notes { ...F } }", "query Q: notes"),
            ("fragment F on Query { a } fragment G on Query { b } { ...F ...G }", "query ...F, ...G"),
            ("{ ...F @skip(if: $no) on: note ... on Query { a } ... { b } c }", "query ...F, note, ... on Query, c"),
            ("query fragment { on note }", "query fragment: on, note"),
            ("", "query "),
            ("}}}", "query "),
        ] {
            assert_eq!(summary(query), said, "{query}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\u{202E}"), "a\\u{1b}[2Jb\\nc\\u{202e}");
        assert!(shown(&"x".repeat(1_000)).ends_with("x…"));
        assert_eq!(shown_whole("a\u{1b}b\r\nc\n\u{202E}d"), "a\\u{1b}b\n  c\n  \\u{202e}d");
    }

    #[test]
    fn a_request_is_one_line_and_each_of_its_errors_another() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log(Arc::new(move |line| kept.lock().unwrap().push(line.to_owned())));
        let error = json!({"path": ["notes", 0, "text"], "message": "no\ntext", "errorType": "Bad"});
        log.of_request(Duration::from_micros(2_140), "query notes", &json!({"errors": vec![error; 7]}));
        let lines = lines.lock().unwrap();
        assert!(lines[0].ends_with(" 2.1 ms  query notes"), "{lines:?}");
        assert_eq!(lines[1].trim(), "error at notes.0.text: no\\ntext (Bad)");
        assert_eq!((lines.len(), lines[6].trim()), (7, "and 2 more errors"));
    }
}
