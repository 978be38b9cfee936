//! Rewrites a module into a factory.

use super::lexer::{Kind, Token};
use super::{CodeError, Script};

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

    fn unsupported<T>(&self, index: usize, what: impl Into<String>) -> Result<T, CodeError> {
        Err(CodeError::lint(self.source, &self.tokens[index], what))
    }

    fn syntax<T>(&self, index: usize, what: &str) -> Result<T, CodeError> {
        Err(CodeError::parser(self.source, &self.tokens[index], what))
    }

    pub(super) fn run(mut self) -> Result<Script, CodeError> {
        let mut depth = 0usize;
        while let Some(token) = self.token(self.at) {
            let index = self.at;
            self.at += 1;
            match (token.kind, token.text) {
                (Kind::Punctuation, "{" | "(" | "[") => depth += 1,
                (Kind::Punctuation, "}" | ")" | "]") => depth = depth.saturating_sub(1),
                (Kind::Word, "import" | "export") if index > 0 && matches!(self.text(index - 1), "." | "?.") => {}
                (Kind::Word, "import") if depth == 0 && !matches!(self.text(self.at), "(" | ".") => {
                    self.import(index)?
                }
                (Kind::Word, "export") if depth == 0 => self.export(index)?,
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

    fn edit(&mut self, from: usize, until: usize, text: impl Into<String>) {
        let start = self.tokens[from].start;
        let last = self.tokens[until];
        self.edits.push((start, last.start + last.text.len(), text.into()));
    }

    /// `import … from '…'` becomes a `const` of what the module has.
    fn import(&mut self, index: usize) -> Result<(), CodeError> {
        let mut end = index + 1;
        while let Some(token) = self.token(end) {
            if token.kind == Kind::Text {
                break;
            }
            if token.text == ";" || end - index > 200 {
                return self.syntax(index, "Declaration or statement expected");
            }
            end += 1;
        }
        let Some(from) = self.token(end) else {
            return self.syntax(index, "Declaration or statement expected");
        };
        let module = from.text.trim_matches(['"', '\'']);
        let known = match module {
            UTILS => UTILS_EXPORTS,
            DYNAMODB => DYNAMODB_EXPORTS,
            other => {
                return self.unsupported(
                    index,
                    format!("The module '{other}' is not supported. Use '{UTILS}' or '{DYNAMODB}'."),
                );
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
                        _ => return self.syntax(index, "Declaration or statement expected"),
                    };
                    if !known.contains(&outer) {
                        return self
                            .unsupported(index, format!("'{outer}' of the module '{module}' is not supported."));
                    }
                    bindings.push(format!("{outer}:{inner}"));
                }
                format!("const{{{}}}=__appsync_modules[\"{module}\"]", bindings.join(","))
            }
            _ => {
                return self
                    .unsupported(index, format!("This import of '{module}' is not supported. Name what you import."));
            }
        };
        // A missing semicolon after the import must not join it to the next line.
        self.edit(index, end, format!("{binding};"));
        self.at = end + 1;
        Ok(())
    }

    fn export(&mut self, index: usize) -> Result<(), CodeError> {
        match self.text(index + 1) {
            "default" => self.unsupported(index, "A default export is not supported. Export request and response."),
            "*" => self.unsupported(index, "Exports of another module are not supported."),
            "function" | "async" if self.text(index + 1) == "async" || self.text(index + 2) == "*" => {
                Ok(()) // The rules refuse it.
            }
            "function" => {
                let name = self.text(index + 2).to_owned();
                self.exports.push((name.clone(), name));
                self.edit(index, index, "");
                Ok(())
            }
            "const" | "let" | "var" => {
                if self.token(index + 2).is_none_or(|token| token.kind != Kind::Word) {
                    return self.unsupported(index, "Exported patterns are not supported. Name what you export.");
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
                        return self.syntax(index, "'}' expected");
                    }
                    end += 1;
                }
                if self.text(end + 1) == "from" {
                    return self.unsupported(index, "Exports of another module are not supported.");
                }
                let words: Vec<&str> = (index + 2..end).map(|at| self.text(at)).collect();
                for part in words.split(|word| *word == ",").filter(|part| !part.is_empty()) {
                    match part {
                        [name] => self.exports.push(((*name).to_owned(), (*name).to_owned())),
                        [inner, "as", outer] => self.exports.push(((*outer).to_owned(), (*inner).to_owned())),
                        _ => return self.syntax(index, "Declaration or statement expected"),
                    }
                }
                self.edit(index, end, ";");
                self.at = end + 1;
                Ok(())
            }
            _ => self.syntax(index, "Declaration or statement expected"),
        }
    }
}
