//! Reads a resolver file: refuses what APPSYNC_JS does not have, by name and line, and rewrites
//! the module into a factory.
//!
//! A module keeps its state for as long as its context lives. A factory is a function whose body
//! is the module's: calling it makes fresh variables, so two calls of a resolver share nothing,
//! and the file is still parsed only once. Lines stay where they were.

use crate::limits::MAX_CODE_BYTES;

/// The main module of APPSYNC_JS.
pub(crate) const UTILS: &str = "@aws-appsync/utils";
/// Its helpers for DynamoDB.
pub(crate) const DYNAMODB: &str = "@aws-appsync/utils/dynamodb";

const UTILS_EXPORTS: &[&str] = &["util", "runtime", "extensions"];
const DYNAMODB_EXPORTS: &[&str] = &[
    "get",
    "put",
    "update",
    "remove",
    "query",
    "scan",
    "batchGet",
    "batchPut",
    "batchDelete",
    "transactGet",
    "transactWrite",
    "operations",
    "toStringSet",
    "toNumberSet",
    "toBinarySet",
];

/// Why a resolver file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that JavaScript has and APPSYNC_JS has not.
    #[error("{file}:{line}: APPSYNC_JS does not support {what}")]
    Unsupported {
        /// The file's name.
        file: String,
        /// Where, counted from 1.
        line: usize,
        /// What, in the words of the language.
        what: String,
    },
    /// Text that is not JavaScript.
    #[error("{file}:{line}: {what}")]
    Syntax {
        /// The file's name.
        file: String,
        /// Where, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// More than AppSync takes.
    #[error("{file}: {bytes} bytes of code, of which AppSync takes {MAX_CODE_BYTES}")]
    TooLarge {
        /// The file's name.
        file: String,
        /// Its size.
        bytes: usize,
    },
    /// A file without a handler that its place needs.
    #[error("{file}: has no exported function `{handler}`")]
    NoHandler {
        /// The file's name.
        file: String,
        /// `request` or `response`.
        handler: &'static str,
    },
}

/// A resolver file, ready for an engine.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// The file's name, as errors show it.
    pub(crate) name: String,
    /// An expression whose value is the factory.
    pub(crate) factory: String,
    /// What the module exports.
    pub(crate) exports: Vec<String>,
}

impl Script {
    /// Reads `source`; nothing is run.
    pub(crate) fn read(name: &str, source: &str) -> Result<Self, Error> {
        if source.len() > MAX_CODE_BYTES {
            return Err(Error::TooLarge { file: name.to_owned(), bytes: source.len() });
        }
        let tokens = Lexer::new(name, source).run()?;
        Reader { name, source, tokens: &tokens, at: 0, edits: Vec::new(), exports: Vec::new() }.read()
    }

    pub(crate) fn has(&self, handler: &str) -> bool {
        self.exports.iter().any(|name| name == handler)
    }

    /// The file must export both handlers.
    pub(crate) fn needs_handlers(&self) -> Result<(), Error> {
        for handler in ["request", "response"] {
            if !self.has(handler) {
                return Err(Error::NoHandler { file: self.name.clone(), handler });
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Punctuation,
    Text,
    Number,
    Template,
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    start: usize,
    line: usize,
}

struct Lexer<'a> {
    name: &'a str,
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
    /// For each open template literal with a substitution open: the brace depth inside it.
    templates: Vec<usize>,
}

const THREE: &[&str] = &[">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??="];
const TWO: &[&str] = &[
    "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "<<", ">>", "**",
];

impl<'a> Lexer<'a> {
    fn new(name: &'a str, source: &'a str) -> Self {
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

    fn run(mut self) -> Result<Vec<Token<'a>>, Error> {
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

    /// From an opening backtick, or from the brace that closes a substitution.
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

    /// Whether a `/` here would begin a regular expression rather than divide.
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

struct Reader<'a> {
    name: &'a str,
    source: &'a str,
    tokens: &'a [Token<'a>],
    at: usize,
    /// Replacements of source text, in order.
    edits: Vec<(usize, usize, String)>,
    /// What is exported: the outer name and the inner one.
    exports: Vec<(String, String)>,
}

/// Methods that the engine would run and AppSync does not have, after AWS's own linter (`no-disallowed-methods`); of those only the
/// ones whose names nothing else bears.
const UNKNOWN_METHODS: [&str; 24] = [
    "charCodeAt",
    "copyWithin",
    "defineProperties",
    "defineProperty",
    "fromCharCode",
    "fromCodePoint",
    "getOwnPropertyDescriptor",
    "getOwnPropertyDescriptors",
    "getOwnPropertyNames",
    "getOwnPropertySymbols",
    "getPrototypeOf",
    "isExtensible",
    "isFrozen",
    "isSealed",
    "localeCompare",
    "matchAll",
    "padEnd",
    "padStart",
    "preventExtensions",
    "propertyIsEnumerable",
    "setPrototypeOf",
    "toLocaleLowerCase",
    "toLocaleString",
    "toLocaleUpperCase",
];

impl<'a> Reader<'a> {
    fn token(&self, index: usize) -> Option<&'a Token<'a>> {
        self.tokens.get(index)
    }

    fn text(&self, index: usize) -> &'a str {
        self.token(index).map_or("", |token| token.text)
    }

    fn line(&self, index: usize) -> usize {
        self.token(index).or_else(|| self.tokens.last()).map_or(1, |token| token.line)
    }

    fn unsupported<T>(&self, index: usize, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Unsupported { file: self.name.to_owned(), line: self.line(index), what: what.into() })
    }

    fn syntax<T>(&self, index: usize, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Syntax { file: self.name.to_owned(), line: self.line(index), what: what.into() })
    }

    /// A word that is the name of a property, not a keyword: `.catch`, `{ in: … }`, `{ try() … }`.
    fn is_property(&self, index: usize) -> bool {
        let before = if index == 0 { "" } else { self.text(index - 1) };
        if before == "." || before == "?." {
            return true;
        }
        let after = self.text(index + 1);
        matches!(before, "{" | ",") && (after == ":" || after == ",")
    }

    /// `.padStart(`: a method of the language that APPSYNC_JS has not.
    fn is_unknown_method(&self, index: usize) -> bool {
        self.text(index + 1) == "(" && UNKNOWN_METHODS.contains(&self.text(index))
    }

    fn read(mut self) -> Result<Script, Error> {
        let mut depth = 0usize;
        while let Some(token) = self.token(self.at) {
            let index = self.at;
            self.at += 1;
            match token.kind {
                Kind::Punctuation => match token.text {
                    "{" | "(" | "[" => depth += 1,
                    "}" | ")" | "]" => depth = depth.saturating_sub(1),
                    "++" | "--" | "~" => return self.unsupported(index, format!("the operator {}", token.text)),
                    "@" => return self.unsupported(index, "decorators"),
                    _ => {}
                },
                Kind::Word if !self.is_property(index) => self.word(index, depth)?,
                Kind::Word if self.is_unknown_method(index) => {
                    return self.unsupported(index, format!("the method {}", token.text));
                }
                _ => {}
            }
        }
        let mut factory = String::with_capacity(self.source.len() + 128);
        factory.push_str("(function(__appsync_modules){\"use strict\";");
        let mut from = 0;
        for (start, end, text) in &self.edits {
            factory.push_str(&self.source[from..*start]);
            factory.push_str(text);
            // Lines stay where they were.
            factory.extend(self.source[*start..*end].chars().filter(|c| *c == '\n'));
            from = *end;
        }
        factory.push_str(&self.source[from..]);
        factory.push_str("\n;return{");
        for (outer, inner) in &self.exports {
            factory.push_str(outer);
            factory.push(':');
            factory.push_str(inner);
            factory.push(',');
        }
        factory.push_str("}})");
        Ok(Script {
            name: self.name.to_owned(),
            factory,
            exports: self.exports.into_iter().map(|(outer, _)| outer).collect(),
        })
    }

    fn word(&mut self, index: usize, depth: usize) -> Result<(), Error> {
        let text = self.text(index);
        match text {
            "import" => match self.text(index + 1) {
                "(" => self.unsupported(index, "dynamic import()"),
                "." => self.unsupported(index, "import.meta"),
                _ if depth == 0 => self.import(index),
                _ => self.syntax(index, "an import that is not at the top of the module"),
            },
            "export" if depth == 0 => self.export(index),
            "async" if matches!(self.text(index + 1), "function" | "(") || self.is_arrow_parameter(index + 1) => {
                self.unsupported(index, "async functions")
            }
            "await" => self.unsupported(index, "await"),
            "class" => self.unsupported(index, "classes"),
            "super" => self.unsupported(index, "super"),
            "try" => self.unsupported(index, "try, catch and finally"),
            "throw" => self.unsupported(index, "throw (use util.error)"),
            "while" => self.unsupported(index, "while loops"),
            "do" => self.unsupported(index, "do loops"),
            "continue" => self.unsupported(index, "continue"),
            "yield" => self.unsupported(index, "generators"),
            "function" if self.text(index + 1) == "*" => self.unsupported(index, "generators"),
            "this" => self.unsupported(index, "this"),
            "with" => self.unsupported(index, "with"),
            "debugger" => self.unsupported(index, "debugger"),
            "instanceof" => self.unsupported(index, "the operator instanceof"),
            "eval" => self.unsupported(index, "eval"),
            "in" if !self.in_for_head(index) => self.unsupported(index, "the operator in (use Object.hasOwn)"),
            "for" => self.check_for(index),
            _ => {
                if text.starts_with("__appsync") {
                    return self.unsupported(index, format!("the name {text}"));
                }
                if text.starts_with('#') {
                    return self.unsupported(index, "private names");
                }
                self.check_label(index)
            }
        }
    }

    fn is_arrow_parameter(&self, index: usize) -> bool {
        self.token(index).is_some_and(|token| token.kind == Kind::Word) && self.text(index + 1) == "=>"
    }

    /// `name:` at the start of a statement; keys and conditions look alike but stand elsewhere.
    fn check_label(&self, index: usize) -> Result<(), Error> {
        let before = if index == 0 { ";" } else { self.text(index - 1) };
        let labelled = matches!(before, ";" | "}") && self.text(index + 1) == ":" && self.text(index + 2) != ":";
        if labelled
            && !matches!(self.text(index), "default" | "case")
            && matches!(self.text(index + 2), "for" | "{")
            && before != "}"
        {
            return self.unsupported(index, "labels");
        }
        Ok(())
    }

    /// The tokens between the parentheses after a `for`.
    fn for_head(&self, index: usize) -> &'a [Token<'a>] {
        let mut depth = 0usize;
        let from = index + 1;
        for (offset, token) in self.tokens[from.min(self.tokens.len())..].iter().enumerate() {
            if token.kind == Kind::Punctuation {
                match token.text {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => {
                        depth = depth.saturating_sub(1);
                        if depth == 0 {
                            return &self.tokens[from..from + offset];
                        }
                    }
                    _ => {}
                }
            }
        }
        &[]
    }

    fn check_for(&self, index: usize) -> Result<(), Error> {
        let mut depth = 0usize;
        for token in self.for_head(index) {
            match token.text {
                "(" | "[" | "{" if token.kind == Kind::Punctuation => depth += 1,
                ")" | "]" | "}" if token.kind == Kind::Punctuation => depth = depth.saturating_sub(1),
                ";" if depth == 1 => return self.unsupported(index, "for loops with a counter (use for…of or for…in)"),
                _ => {}
            }
        }
        Ok(())
    }

    fn in_for_head(&self, index: usize) -> bool {
        (index.saturating_sub(12)..index)
            .rev()
            .filter(|candidate| self.text(*candidate) == "for" && !self.is_property(*candidate))
            .any(|candidate| {
                let head = self.for_head(candidate);
                let (Some(first), Some(last), Some(this)) = (head.first(), head.last(), self.token(index)) else {
                    return false;
                };
                first.start <= this.start && this.start <= last.start
            })
    }

    fn edit(&mut self, from: usize, until: usize, text: impl Into<String>) {
        let start = self.tokens[from].start;
        let last = self.tokens[until];
        self.edits.push((start, last.start + last.text.len(), text.into()));
    }

    /// `import … from '…'` becomes a `const` of what the module has.
    fn import(&mut self, index: usize) -> Result<(), Error> {
        let mut end = index + 1;
        while let Some(token) = self.token(end) {
            if token.kind == Kind::Text {
                break;
            }
            if token.text == ";" || end - index > 200 {
                return self.syntax(index, "an import without a module's name");
            }
            end += 1;
        }
        let Some(from) = self.token(end) else {
            return self.syntax(index, "an import without a module's name");
        };
        let module = from.text.trim_matches(['"', '\'']);
        let known = match module {
            UTILS => UTILS_EXPORTS,
            DYNAMODB => DYNAMODB_EXPORTS,
            other => {
                return self
                    .unsupported(index, format!("the module '{other}' here: only '{UTILS}' and '{DYNAMODB}' are"));
            }
        };
        let clause: Vec<&str> = (index + 1..end).map(|at| self.text(at)).collect();
        let binding = match clause.as_slice() {
            ["*", "as", name, "from"] => format!("const {name}=__appsync_modules[\"{module}\"]"),
            ["{", names @ .., "}", "from"] => {
                let mut bindings = Vec::new();
                for part in names.split(|word| *word == ",").filter(|part| !part.is_empty()) {
                    let (outer, inner) = match part {
                        [name] => (*name, *name),
                        [outer, "as", inner] => (*outer, *inner),
                        _ => return self.syntax(index, "an import that cannot be read"),
                    };
                    if !known.contains(&outer) {
                        return self.unsupported(index, format!("`{outer}` of '{module}' here"));
                    }
                    bindings.push(format!("{outer}:{inner}"));
                }
                format!("const{{{}}}=__appsync_modules[\"{module}\"]", bindings.join(","))
            }
            _ => return self.unsupported(index, format!("this form of import of '{module}': name what you import")),
        };
        // A missing semicolon after the import must not join it to the next line.
        self.edit(index, end, format!("{binding};"));
        self.at = end + 1;
        Ok(())
    }

    fn export(&mut self, index: usize) -> Result<(), Error> {
        match self.text(index + 1) {
            "default" => self.unsupported(index, "export default (export request and response)"),
            "*" => self.unsupported(index, "export *"),
            "function" | "async" if self.text(index + 1) == "async" || self.text(index + 2) == "*" => {
                self.unsupported(index, "async functions and generators")
            }
            "function" => {
                let name = self.text(index + 2).to_owned();
                self.exports.push((name.clone(), name));
                self.edit(index, index, "");
                Ok(())
            }
            "const" | "let" | "var" => {
                if self.token(index + 2).is_none_or(|token| token.kind != Kind::Word) {
                    return self.unsupported(index, "exports that are taken apart");
                }
                let name = self.text(index + 2).to_owned();
                self.exports.push((name.clone(), name));
                self.edit(index, index, "");
                Ok(())
            }
            "{" => {
                let mut end = index + 2;
                while self.text(end) != "}" {
                    if self.token(end).is_none() {
                        return self.syntax(index, "an export that is not closed");
                    }
                    end += 1;
                }
                if self.text(end + 1) == "from" {
                    return self.unsupported(index, "export … from");
                }
                let words: Vec<&str> = (index + 2..end).map(|at| self.text(at)).collect();
                for part in words.split(|word| *word == ",").filter(|part| !part.is_empty()) {
                    match part {
                        [name] => self.exports.push(((*name).to_owned(), (*name).to_owned())),
                        [inner, "as", outer] => self.exports.push(((*outer).to_owned(), (*inner).to_owned())),
                        _ => return self.syntax(index, "an export that cannot be read"),
                    }
                }
                self.edit(index, end, ";");
                self.at = end + 1;
                Ok(())
            }
            _ => self.syntax(index, "an export that cannot be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(source: &str) -> String {
        Script::read("resolver.js", source).expect_err("is refused").to_string()
    }

    #[test]
    fn a_module_becomes_a_factory_on_the_same_lines() {
        let script = Script::read(
            "resolver.js",
            "import { util,\n runtime as rt } from '@aws-appsync/utils'\nimport * as ddb from '@aws-appsync/utils/dynamodb';\nexport function request(ctx) { return {} }\nexport const response = (ctx) => ctx.result\n",
        )
        .expect("reads");
        assert_eq!(script.exports, ["request", "response"]);
        let line = script.factory.lines().position(|line| line.contains("function request")).expect("has it");
        assert_eq!(line, 3, "{}", script.factory);
        assert!(script.factory.contains("const{util:util,runtime:rt}="), "{}", script.factory);
    }

    #[test]
    fn what_appsync_does_not_have_is_refused_by_name_and_line() {
        for (source, name) in [
            ("export async function request() {}", "async functions"),
            ("\nclass A {}", "classes"),
            ("const f = () => { try { } catch (e) { } }", "try, catch and finally"),
            ("while (true) { }", "while loops"),
            ("for (let i = 0; i < 3; i += 1) { }", "for loops with a counter"),
            ("let i = 0; i++", "the operator ++"),
            ("const a = /b+/", "regular expression literals"),
            ("const a = 'x' in {}", "the operator in"),
            ("const a = this", "this"),
            ("throw 1", "throw"),
            ("function* g() {}", "generators"),
            ("import fs from 'fs'", "the module 'fs'"),
            ("import { sql } from '@aws-appsync/utils/rds'", "the module '@aws-appsync/utils/rds'"),
            ("import { sync } from '@aws-appsync/utils/dynamodb'", "`sync`"),
            ("import('x')", "dynamic import()"),
            ("export default {}", "export default"),
            ("const a = eval('1')", "eval"),
            ("await x", "await"),
            ("const a = `n ${`${1}`.padStart(3, '0')}`", "the method padStart"),
            ("Object.setPrototypeOf(a, b)", "the method setPrototypeOf"),
        ] {
            let message = refusal(source);
            assert!(message.contains("does not support") && message.contains(name), "{source}: {message}");
        }
        assert!(refusal("const a = 1\n\nclass A {}").starts_with("resolver.js:3:"));
    }

    #[test]
    fn words_of_the_language_may_name_properties() {
        for source in [
            "const filter = { id: { in: [1, 2] }, class: 1, this: 2 }",
            "const a = ctx.args.in; const b = ctx.try?.catch",
            "for (const key in object) { }\nfor (const [a, b] of list) { }",
            "const half = total / 2 / count; const t = `a ${b / 2} c ${`d ${e}`} /`",
            "const async = 1; const text = 'while (true) { i++ }' // class this\n/* try */",
            "switch (a) { case 'x': break; default: break }",
        ] {
            Script::read("resolver.js", source).unwrap_or_else(|error| panic!("{source}: {error}"));
        }
    }
}
