//! Splits a resolver file into tokens.

use super::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Punctuation,
    Text,
    Number,
    Template,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Where it begins in the source, in bytes.
    pub(super) start: usize,
    /// Counted from 1.
    pub(super) line: usize,
}

pub(super) struct Lexer<'a> {
    name: &'a str,
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
    /// For each template literal with an open substitution: the depth of braces in it.
    templates: Vec<usize>,
}

const THREE: &[&str] = &[">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??="];
const TWO: &[&str] = &[
    "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "<<", ">>", "**",
];

impl<'a> Lexer<'a> {
    pub(super) fn new(name: &'a str, source: &'a str) -> Self {
        Self { name, source, at: 0, line: 1, tokens: Vec::new(), templates: Vec::new() }
    }

    fn syntax<T>(&self, what: &str) -> Result<T, Error> {
        Err(Error::Syntax { file: self.name.to_owned(), line: self.line, what: what.to_owned() })
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, Error> {
        Err(Error::Unsupported { file: self.name.to_owned(), line: self.line, what: what.to_owned() })
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let text = &self.source[self.at..self.at + length];
        self.tokens.push(Token { kind, text, start: self.at, line: self.line });
        self.line += text.bytes().filter(|byte| *byte == b'\n').count();
        self.at += length;
    }

    fn skip(&mut self, length: usize) {
        self.line += self.source[self.at..self.at + length].bytes().filter(|byte| *byte == b'\n').count();
        self.at += length;
    }

    pub(super) fn run(mut self) -> Result<Vec<Token<'a>>, Error> {
        while let Some(first) = self.rest().chars().next() {
            let rest = self.rest();
            if first.is_whitespace() || first == '\u{feff}' {
                self.skip(first.len_utf8());
            } else if rest.starts_with("//") {
                self.skip(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.skip(end + 2),
                    None => return self.syntax("a comment that is not closed"),
                }
            } else if first == '"' || first == '\'' {
                let length = self.quoted(first)?;
                self.push(Kind::Text, length);
            } else if first == '`' {
                self.template(1)?;
            } else if first == '}' && self.templates.last() == Some(&0) {
                self.templates.pop();
                self.template(1)?;
            } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
                let length =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_')).unwrap_or(rest.len());
                self.push(Kind::Number, length);
            } else if first == '_' || first == '$' || first == '#' || first.is_alphabetic() {
                let length = rest
                    .find(|c: char| {
                        !(c == '_' || c == '$' || c == '#' || c == '\u{200c}' || c == '\u{200d}' || c.is_alphanumeric())
                    })
                    .unwrap_or(rest.len());
                self.push(Kind::Word, length);
            } else if first == '\\' {
                return self.unsupported("escapes in names");
            } else if first == '/' && self.value_expected() {
                return self.unsupported("regular expression literals (use util.matches)");
            } else {
                let length =
                    THREE.iter().chain(TWO).find(|op| rest.starts_with(**op)).map_or(first.len_utf8(), |op| op.len());
                // `a ?.5 : b` is a condition and a number.
                let length = if rest.starts_with("?.") && rest[2..].starts_with(|c: char| c.is_ascii_digit()) {
                    1
                } else {
                    length
                };
                if let Some(depth) = self.templates.last_mut() {
                    match first {
                        '{' => *depth += 1,
                        '}' => *depth = depth.saturating_sub(1),
                        _ => {}
                    }
                }
                self.push(Kind::Punctuation, length);
            }
        }
        if !self.templates.is_empty() {
            return self.syntax("a template literal that is not closed");
        }
        Ok(self.tokens)
    }

    fn quoted(&self, quote: char) -> Result<usize, Error> {
        let mut escaped = false;
        for (offset, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' => break,
                c if c == quote => return Ok(offset + 1),
                _ => {}
            }
        }
        self.syntax("a string that is not closed")
    }

    /// Reads on from an opening backtick, or from the brace that closes a substitution.
    fn template(&mut self, from: usize) -> Result<(), Error> {
        let rest = self.rest();
        let mut escaped = false;
        for (offset, c) in rest.char_indices() {
            if offset < from {
                continue;
            }
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '`' => {
                    self.push(Kind::Template, offset + 1);
                    return Ok(());
                }
                '$' if rest[offset + 1..].starts_with('{') => {
                    self.push(Kind::Template, offset + 2);
                    self.templates.push(0);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.syntax("a template literal that is not closed")
    }

    /// Whether a `/` here would begin a regular expression. Otherwise it divides.
    fn value_expected(&self) -> bool {
        match self.tokens.last() {
            None => true,
            Some(token) => match token.kind {
                Kind::Text | Kind::Number => false,
                Kind::Template => token.text.ends_with("${"),
                Kind::Word => matches!(
                    token.text,
                    "return" | "typeof" | "case" | "delete" | "void" | "in" | "of" | "instanceof" | "new" | "else"
                ),
                Kind::Punctuation => !matches!(token.text, ")" | "]" | "}"),
            },
        }
    }
}
