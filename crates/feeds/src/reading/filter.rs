//! Which entries are ignored, and which are pushed.
//!
//! A pattern is a regular expression that may match anywhere in a text. An empty one is off. With an invalid one the function does not
//! start, and the error shows the pattern. The regular expressions are those of `regex-lite`, whose classes and `(?i)` know only
//! ASCII: the tables for all of Unicode would be a tenth of the function.

use regex_lite::{Regex, RegexBuilder};

use crate::entry::Entry;

/// Largest compiled pattern in bytes, so that a careless one fails at the start instead of using up the memory.
const MAX_COMPILED: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
#[error("{variable} is not a valid regular expression: {pattern:?}: {reason}")]
pub struct Error {
    pub variable: &'static str,
    pub pattern: String,
    pub reason: String,
}

/// A pattern. It may be off.
#[derive(Debug, Clone, Default)]
pub struct Pattern(Option<Regex>);

impl Pattern {
    pub fn parse(variable: &'static str, pattern: &str) -> Result<Self, Error> {
        if pattern.trim().is_empty() {
            return Ok(Pattern(None));
        }
        match RegexBuilder::new(pattern).size_limit(MAX_COMPILED).build() {
            Ok(regex) => Ok(Pattern(Some(regex))),
            Err(reason) => Err(Error { variable, pattern: pattern.to_owned(), reason: reason.to_string() }),
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the pattern is on and matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Which entries are recorded but not delivered.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub ignore_title: Pattern,
    pub ignore_link: Pattern,
    pub only_title: Pattern,
    pub only_link: Pattern,
}

impl Filter {
    /// Why the entry is not delivered, if it is not.
    pub fn reason(&self, entry: &Entry) -> Option<&'static str> {
        let says_nothing = entry.title.is_empty() && entry.link.is_empty();
        if says_nothing && entry.content.text().is_empty() && entry.enclosure.is_empty() {
            Some("it has neither a title nor a link nor content")
        } else if self.ignore_title.matches(&entry.title) {
            Some("its title matches the filter ignore_title")
        } else if self.ignore_link.matches(&entry.link) {
            Some("its link matches the filter ignore_link")
        } else if !self.only_title.is_off() && !self.only_title.matches(&entry.title) {
            Some("its title does not match the filter only_title")
        } else if !self.only_link.is_off() && !self.only_link.matches(&entry.link) {
            Some("its link does not match the filter only_link")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryId;

    fn entry(title: &str, link: &str) -> Entry {
        Entry {
            id: EntryId::from_table("1"),
            title: title.into(),
            link: link.into(),
            published: None,
            author: String::new(),
            content: "".into(),
            categories: vec![],
            enclosure: String::new(),
        }
    }

    #[test]
    fn an_empty_pattern_is_off_and_ignores_nothing() {
        let ignore = Filter { ignore_title: Pattern::parse("IGNORE_TITLE", " ").unwrap(), ..Filter::default() };
        assert_eq!(ignore.reason(&entry("", "https://x/")), None);
        assert_eq!(ignore.reason(&entry("T", "")), None);
    }

    #[test]
    fn an_entry_that_says_nothing_is_ignored() {
        assert!(Filter::default().reason(&entry("", "")).is_some());
    }

    #[test]
    fn title_and_link_are_matched_apart() {
        let ignore = Filter {
            ignore_title: Pattern::parse("IGNORE_TITLE", "^dependabot").unwrap(),
            ignore_link: Pattern::parse("IGNORE_LINK", "/secret/").unwrap(),
            ..Filter::default()
        };
        assert!(ignore.reason(&entry("dependabot[bot] pushed", "https://x/")).is_some());
        assert!(ignore.reason(&entry("a", "https://x/secret/1")).is_some());
        assert!(ignore.reason(&entry("/secret/", "https://dependabot")).is_none());
    }

    #[test]
    fn only_what_matches_is_delivered_and_what_is_ignored_is_not() {
        let filter = Filter {
            only_title: Pattern::parse("only_title", "Rust").unwrap(),
            only_link: Pattern::parse("only_link", "/en/").unwrap(),
            ignore_title: Pattern::parse("ignore_title", "^Ad").unwrap(),
            ..Filter::default()
        };
        assert_eq!(filter.reason(&entry("Rust 2", "https://x/en/2")), None);
        for (title, link) in [("Go", "https://x/en/"), ("Rust", "https://x/ja/"), ("Ad: Rust", "https://x/en/")] {
            assert!(filter.reason(&entry(title, link)).is_some(), "{title} {link}");
        }
    }

    #[test]
    fn an_invalid_pattern_is_shown() {
        let error = Pattern::parse("IGNORE_TITLE", "(unclosed").unwrap_err().to_string();
        assert!(error.contains("IGNORE_TITLE") && error.contains("(unclosed"), "{error}");
    }
}
