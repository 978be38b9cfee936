//! Checks the tokens of a module and rewrites the module into a factory.

use super::lexer::{Kind, Token};
use super::{Error, Script};

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

/// Methods that the engine has and AppSync does not, from AWS's own linter (`no-disallowed-methods`). The list has only
/// methods whose names nothing else uses.
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

pub(super) struct Rewrite<'a> {
    name: &'a str,
    source: &'a str,
    tokens: &'a [Token<'a>],
    at: usize,
    /// Replacements of source text (from, to, text), in order.
    edits: Vec<(usize, usize, String)>,
    /// What is exported: the name outside and the name inside the module.
    exports: Vec<(String, String)>,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(name: &'a str, source: &'a str, tokens: &'a [Token<'a>]) -> Self {
        Self { name, source, tokens, at: 0, edits: Vec::new(), exports: Vec::new() }
    }

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

    /// `.padStart(`: a method that JavaScript has and APPSYNC_JS does not have.
    fn is_unknown_method(&self, index: usize) -> bool {
        self.text(index + 1) == "(" && UNKNOWN_METHODS.contains(&self.text(index))
    }

    pub(super) fn run(mut self) -> Result<Script, Error> {
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
            // Lines keep their numbers.
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

    /// `name:` at the start of a statement. Keys and conditions look the same but stand elsewhere.
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
                return self.unsupported(index, format!("the module '{other}' (use '{UTILS}' or '{DYNAMODB}')"));
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
                        return self.unsupported(index, format!("`{outer}` of '{module}'"));
                    }
                    bindings.push(format!("{outer}:{inner}"));
                }
                format!("const{{{}}}=__appsync_modules[\"{module}\"]", bindings.join(","))
            }
            _ => return self.unsupported(index, format!("this form of import of '{module}' (name what you import)")),
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
