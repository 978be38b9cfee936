//! CloudWatch Logs' filter patterns, for those who read log lines and for metric filters.
//!
//! These are known: words and quoted phrases, `?` for "one of these", `-` for "none of these", and
//! `{ $.field = "value" && … }` for JSON lines. Every other pattern is an error, not an empty answer.

use serde_json::Value;

/// A filter pattern.
#[derive(Debug, PartialEq)]
pub(crate) enum Pattern {
    /// A line must contain all of `all`, none of `none`, and one of `any`, unless `any` is empty.
    Words { all: Vec<String>, none: Vec<String>, any: Vec<String> },
    /// A line must fulfil all comparisons of at least one of these lists.
    Json(Vec<Vec<Comparison>>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Comparison {
    /// `$.error.kind`
    path: Vec<String>,
    operator: &'static str,
    value: String,
}

const OPERATORS: [&str; 6] = ["!=", ">=", "<=", "=", ">", "<"];

impl Pattern {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(inside) = text.strip_prefix('{') {
            let inside = inside.strip_suffix('}')?;
            let one = |text: &str| split(text, "&&").iter().map(|each| Comparison::parse(each)).collect();
            return Some(Self::Json(split(inside, "||").iter().map(|each| one(each)).collect::<Option<_>>()?));
        }
        let (mut all, mut none, mut any) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let list = match rest.as_bytes()[0] {
                b'?' => &mut any,
                b'-' => &mut none,
                b'[' | b'%' => return None,
                _ => &mut all,
            };
            rest = rest.strip_prefix(['?', '-']).unwrap_or(rest);
            let (word, left) = match rest.strip_prefix('"') {
                Some(quoted) => quoted_text(quoted)?,
                None => {
                    let (word, left) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                    (word.to_owned(), left)
                }
            };
            list.push(word);
            rest = left.trim_start();
        }
        Some(Self::Words { all, none, any })
    }

    pub(crate) fn matches(&self, line: &str) -> bool {
        match self {
            Self::Words { all, none, any } => {
                let has = |word: &String| line.contains(word.as_str());
                all.iter().all(has) && !none.iter().any(has) && (any.is_empty() || any.iter().any(has))
            }
            Self::Json(choices) => {
                let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
                choices.iter().any(|all| all.iter().all(|comparison| comparison.matches(&line)))
            }
        }
    }
}

/// The text up to the closing quote, and the text after it.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((word, &text[at + 1..])),
            '\\' => word.push(letters.next()?.1),
            letter => word.push(letter),
        }
    }
    None
}

/// Splits at a separator that is not between quotes.
fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        quoted ^= letter == '"';
        if !quoted && at >= start && text[at..].starts_with(separator) {
            parts.push(&text[start..at]);
            start = at + separator.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

impl Comparison {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('(').trim_end_matches(')').trim();
        let rest = text.strip_prefix("$.")?;
        let at = rest.find(['=', '!', '<', '>'])?;
        let (path, rest) = rest.split_at(at);
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))?;
        let value = rest[operator.len()..].trim();
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted_text(quoted).filter(|(_, left)| left.trim().is_empty())?.0,
            None => value.to_owned(),
        };
        let path = path.trim().split('.').map(str::to_owned).collect();
        Some(Self { path, operator, value })
    }

    fn matches(&self, line: &Value) -> bool {
        let found = self.path.iter().try_fold(line, |value, name| value.get(name));
        let equals = match found {
            None => return false,
            Some(Value::String(text)) => match self.value.strip_suffix('*') {
                Some(prefix) => text.starts_with(prefix),
                None => *text == self.value,
            },
            Some(Value::Number(number)) if !["=", "!="].contains(&self.operator) => {
                let (Some(number), Ok(value)) = (number.as_f64(), self.value.parse::<f64>()) else { return false };
                return match self.operator {
                    ">" => number > value,
                    ">=" => number >= value,
                    "<" => number < value,
                    _ => number <= value,
                };
            }
            Some(other) => {
                let text = other.to_string();
                self.value.strip_suffix('*').map_or(text == self.value, |prefix| text.starts_with(prefix))
            }
        };
        match self.operator {
            "=" => equals,
            "!=" => !equals,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(pattern: &str, line: &Value) -> bool {
        Pattern::parse(pattern).expect("a pattern").matches(&line.to_string())
    }

    #[test]
    fn the_patterns_of_the_runbooks_find_what_they_mean() {
        let line = json!({"level": "ERROR", "message": "the store failed", "durationMs": 2500, "status": 503});
        for (pattern, expected) in [
            ("", true),
            ("\"the store\"", true),
            ("store ERROR", true),
            ("store WARN", false),
            ("store -ERROR", false),
            ("?\"does not start\" ?\"store failed\"", true),
            ("?\"does not start\" ?nothing", false),
            ("{ $.level = \"ERROR\" }", true),
            ("{ $.level = \"WARN\" || $.message = \"the store*\" }", true),
            ("{ $.level = \"ERROR\" && $.message = \"another\" }", false),
            ("{ $.durationMs > 2000 }", true),
            ("{ $.durationMs < 2000 }", false),
            ("{ $.status = 5* }", true),
            ("{ $.status = * }", true),
            ("{ $.nothing = * }", false),
            ("{ $.level != \"INFO\" }", true),
            ("{ $.nothing = \"x\" }", false),
        ] {
            assert_eq!(matches(pattern, &line), expected, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_is_not_understood_is_none() {
        for pattern in ["[ip, user]", "%regex%", "{ level }", "\"open", "{ $.a ~ 1 }"] {
            assert_eq!(Pattern::parse(pattern), None, "{pattern}");
        }
    }
}
