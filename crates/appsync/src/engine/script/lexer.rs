//! Splits a resolver file into tokens.

use super::CodeError;

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
    /// Whether a `{` begins a block and not an object, and whether a `:` ends a label or a case.
    pub(super) statement: bool,
}

/// What ends a line.
pub(super) const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

/// A bracket that is open.
struct Open {
    /// Whether it is the `{` of a block, or the `(` after `if`, `for` or `while`.
    statement: bool,
    /// Whether it is the `{` of a block.
    block: bool,
    /// How many conditions (`a ? b : c`) in it wait for their `:`.
    conditions: usize,
}

pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
    /// For each template literal with an open substitution: the depth of braces in it.
    templates: Vec<usize>,
    open: Vec<Open>,
    /// How many conditions outside of all brackets wait for their `:`.
    conditions: usize,
    /// Whether the bracket that was closed last was one of a statement.
    closed_statement: bool,
}

const THREE: &[&str] = &[">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??="];
const TWO: &[&str] = &[
    "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "<<", ">>", "**",
];

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            line: 1,
            tokens: Vec::new(),
            templates: Vec::new(),
            open: Vec::new(),
            conditions: 0,
            closed_statement: false,
        }
    }

    /// The token that would begin here, as the place of an error.
    fn here(&self) -> Token<'a> {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        Token {
            kind: Kind::Punctuation,
            text: &self.rest()[..length],
            start: self.at,
            line: self.line,
            statement: false,
        }
    }

    fn syntax<T>(&self, what: &str) -> Result<T, CodeError> {
        Err(CodeError::parser(self.source, &self.here(), what))
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, CodeError> {
        Err(CodeError::lint(self.source, &self.here(), what))
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let text = &self.source[self.at..self.at + length];
        let statement = kind == Kind::Punctuation && self.bracket(text);
        self.tokens.push(Token { kind, text, start: self.at, line: self.line, statement });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        let (text, after) = self.rest().split_at(length);
        // A carriage return and a line feed end one line.
        let pairs = text.matches("\r\n").count() + usize::from(text.ends_with('\r') && after.starts_with('\n'));
        self.line += text.matches(LINE_ENDS).count() - pairs;
        self.at += length;
    }

    /// Keeps account of brackets and conditions. Says whether the token is one of a statement (see [`Token::statement`]).
    fn bracket(&mut self, text: &str) -> bool {
        match text {
            "(" => {
                let word = self.tokens.last().filter(|token| token.kind == Kind::Word && !self.is_member());
                let statement = word.is_some_and(|word| matches!(word.text, "if" | "for" | "while" | "with"));
                self.open.push(Open { statement, block: false, conditions: 0 });
            }
            "[" => self.open.push(Open { statement: false, block: false, conditions: 0 }),
            "{" => {
                let block = self.begins_block();
                self.open.push(Open { statement: block, block, conditions: 0 });
                return block;
            }
            ")" | "]" | "}" => self.closed_statement = self.open.pop().is_some_and(|open| open.statement),
            "?" => *self.waiting() += 1,
            ":" if *self.waiting() > 0 => *self.waiting() -= 1,
            ":" => return self.open.last().is_none_or(|open| open.block),
            ";" => *self.waiting() = 0,
            _ => {}
        }
        false
    }

    /// How many conditions wait for their `:` here.
    fn waiting(&mut self) -> &mut usize {
        self.open.last_mut().map_or(&mut self.conditions, |open| &mut open.conditions)
    }

    /// Whether the last token is the name of a member: `.name`.
    fn is_member(&self) -> bool {
        let before = self.tokens.len().checked_sub(2).and_then(|before| self.tokens.get(before));
        before.is_some_and(|before| matches!(before.text, "." | "?."))
    }

    /// Whether a `{` here begins a block. Otherwise it begins an object or a pattern.
    fn begins_block(&self) -> bool {
        let Some(last) = self.tokens.last() else { return true };
        match last.kind {
            Kind::Text | Kind::Number => true,
            Kind::Template => !last.text.ends_with("${"),
            Kind::Word if self.is_member() => true,
            Kind::Word => match last.text {
                "return" => last.line < self.line,
                "typeof" | "case" | "delete" | "void" | "in" | "of" | "instanceof" | "new" | "throw" | "await"
                | "yield" | "default" | "import" | "export" | "const" | "let" | "var" => false,
                _ => true,
            },
            Kind::Punctuation => match last.text {
                ")" | "]" | "}" | ";" | "=>" => true,
                "{" | ":" => last.statement,
                _ => false,
            },
        }
    }

    pub(super) fn run(mut self) -> Result<Vec<Token<'a>>, CodeError> {
        while let Some(first) = self.rest().chars().next() {
            let rest = self.rest();
            if first.is_whitespace() || first == '\u{feff}' {
                self.skip(first.len_utf8());
            } else if rest.starts_with("//") {
                self.skip(rest.find(LINE_ENDS).unwrap_or(rest.len()));
            } else if let Some(comment) = rest.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(end) => self.skip(end + 4),
                    None => return self.syntax("'*/' expected"),
                }
            } else if rest.starts_with("<!--") || rest.starts_with("-->") {
                // An engine may take the rest of the line for a comment.
                return self.syntax("HTML comments are not allowed");
            } else if first == '"' || first == '\'' {
                let length = self.quoted(first)?;
                self.push(Kind::Text, length);
            } else if first == '`' {
                self.template(1)?;
            } else if first == '}' && self.templates.last() == Some(&0) {
                self.templates.pop();
                self.template(1)?;
            } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
                self.push(Kind::Number, number(rest));
            } else if first == '_' || first == '$' || first == '#' || first.is_alphabetic() {
                let length = rest
                    .find(|c: char| {
                        !(c == '_' || c == '$' || c == '#' || c == '\u{200c}' || c == '\u{200d}' || c.is_alphanumeric())
                    })
                    .unwrap_or(rest.len());
                self.push(Kind::Word, length);
            } else if first == '\\' {
                return self.unsupported("Escapes in names are not supported.");
            } else if first == '/' && self.value_expected() {
                return self.unsupported("Regex literals are not supported.");
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
            return self.syntax("Unterminated template literal");
        }
        Ok(self.tokens)
    }

    fn quoted(&self, quote: char) -> Result<usize, CodeError> {
        let (mut escaped, mut before) = (false, quote);
        for (offset, c) in self.rest().char_indices().skip(1) {
            let continued = before == '\r' && c == '\n';
            before = c;
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' if continued => {}
                '\n' | '\r' => break,
                c if c == quote => return Ok(offset + 1),
                _ => {}
            }
        }
        self.syntax("Unterminated string literal")
    }

    /// Reads on from an opening backtick, or from the brace that closes a substitution.
    fn template(&mut self, from: usize) -> Result<(), CodeError> {
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
        self.syntax("Unterminated template literal")
    }

    /// Whether a `/` here would begin a regular expression. Otherwise it divides.
    fn value_expected(&self) -> bool {
        match self.tokens.last() {
            None => true,
            Some(token) => match token.kind {
                Kind::Text | Kind::Number => false,
                Kind::Template => token.text.ends_with("${"),
                Kind::Word if self.is_member() => false,
                Kind::Word => matches!(
                    token.text,
                    "return"
                        | "typeof"
                        | "case"
                        | "delete"
                        | "void"
                        | "in"
                        | "of"
                        | "instanceof"
                        | "new"
                        | "else"
                        | "do"
                        | "throw"
                        | "await"
                        | "yield"
                ),
                Kind::Punctuation if matches!(token.text, ")" | "}") => self.closed_statement,
                Kind::Punctuation => token.text != "]",
            },
        }
    }
}

/// How long the number is that begins here.
fn number(text: &str) -> usize {
    let after = |from: usize, is: fn(char) -> bool| {
        text[from..].find(|c: char| !(is(c) || c == '_')).map_or(text.len(), |length| from + length)
    };
    let digit = |c: char| c.is_ascii_digit();
    if text.starts_with('0') && text[1..].starts_with(['x', 'X', 'o', 'O', 'b', 'B']) {
        return after(2, |c| c.is_ascii_alphanumeric());
    }
    let mut end = after(0, digit);
    if text[end..].starts_with('.') {
        end = after(end + 1, digit);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        if text[end + 1 + sign..].starts_with(digit) {
            end = after(end + 1 + sign, digit);
        }
    }
    end + usize::from(text[end..].starts_with('n'))
}
