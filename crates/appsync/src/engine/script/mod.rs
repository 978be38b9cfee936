//! Reads a resolver file: refuses what APPSYNC_JS does not have (`rules`), and rewrites the module into a factory (`rewrite`).
//!
//! A module keeps its variables for as long as its context lives. A factory is a function with the module's body: each call of
//! it makes fresh variables. So two calls of a resolver share nothing, and the file is still parsed only once. Lines keep
//! their numbers.

mod lexer;
mod rewrite;
mod rules;

use crate::limits::MAX_CODE_CHARACTERS;
use lexer::{Lexer, Token};
use rewrite::Rewrite;

/// Why a resolver file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The code is not JavaScript, or has something that APPSYNC_JS, or this emulation of it, does not have.
    #[error("{}", listed(file, errors))]
    Code {
        /// The file's name.
        file: String,
        /// Everything that is wrong with it, in the order of the file.
        errors: Vec<CodeError>,
    },
    /// The file is larger than AppSync allows.
    #[error("{file} has {characters} characters; AppSync allows {MAX_CODE_CHARACTERS}")]
    TooLarge {
        /// The file's name.
        file: String,
        /// Its size.
        characters: usize,
    },
    /// The file lacks a handler that a resolver needs.
    #[error("{file} exports no function `{handler}`")]
    NoHandler {
        /// The file's name.
        file: String,
        /// `request` or `response`.
        handler: &'static str,
    },
}

/// One mistake in a resolver file, as AppSync's API describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeError {
    /// `LINT_ERROR` or `PARSER_ERROR`.
    pub error_type: &'static str,
    /// What is wrong.
    pub value: String,
    /// Where, counted from 1; 0 if unknown.
    pub line: usize,
    /// Where, counted from 1; 0 if unknown.
    pub column: usize,
    /// How long it is; nothing if unknown.
    pub span: Option<usize>,
}

impl CodeError {
    /// Something that APPSYNC_JS does not have.
    fn lint(source: &str, token: &Token<'_>, value: impl Into<String>) -> Self {
        Self::at(source, token, "LINT_ERROR", value.into())
    }

    /// Something that is not JavaScript.
    fn parser(source: &str, token: &Token<'_>, what: &str) -> Self {
        Self::at(source, token, "PARSER_ERROR", format!("Parsing error: {what}"))
    }

    fn at(source: &str, token: &Token<'_>, error_type: &'static str, value: String) -> Self {
        let line = source[..token.start].rsplit(lexer::LINE_ENDS).next().unwrap_or_default();
        let column = line.chars().count() + 1;
        Self { error_type, value, line: token.line, column, span: Some(token.text.chars().count()) }
    }

    /// What the engine's own parser said about a line.
    pub(super) fn of_engine(line: usize, what: &str) -> Self {
        Self { error_type: "PARSER_ERROR", value: format!("Parsing error: {what}"), line, column: 0, span: None }
    }
}

fn listed(file: &str, errors: &[CodeError]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("{file}:{}: {}", error.line, error.value)).collect();
    lines.join("\n")
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
    /// Reads `source`, without running it.
    pub(crate) fn read(name: &str, source: &str) -> Result<Self, Error> {
        let characters = source.chars().count();
        if characters > MAX_CODE_CHARACTERS {
            return Err(Error::TooLarge { file: name.to_owned(), characters });
        }
        let refused = |errors| Err(Error::Code { file: name.to_owned(), errors });
        let tokens = match Lexer::new(source).run() {
            Ok(tokens) => tokens,
            Err(error) => return refused(vec![error]),
        };
        let mut errors = rules::check(source, &tokens);
        match Rewrite::new(name, source, &tokens).run() {
            Ok(script) if errors.is_empty() => Ok(script),
            Ok(_) => refused(errors),
            Err(error) => {
                errors.push(error);
                refused(errors)
            }
        }
    }

    pub(crate) fn has(&self, handler: &str) -> bool {
        self.exports.iter().any(|name| name == handler)
    }

    /// Fails unless the file exports both handlers.
    pub(crate) fn needs_handlers(&self) -> Result<(), Error> {
        for handler in ["request", "response"] {
            if !self.has(handler) {
                return Err(Error::NoHandler { file: self.name.clone(), handler });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn words_of_the_language_may_name_properties() {
        for source in [
            "const filter = { id: { in: [1, 2] }, class: 1, this: 2, try() { return 1 } }",
            "const ctx = {}; const a = ctx.args.in; const b = ctx.try?.catch",
            "const object = {}, list = []; for (const key in object) { }\nfor (const [a, b] of list) { }",
            "const total = 1, count = 2, b = 3, e = 4; const half = total / 2 / count; const t = `a ${b / 2} c ${`d ${e}`} /`",
            "const async = 1; const text = 'while (true) { i++ }' // class this\n/* try */",
            "const a = 1; switch (a) { case 'x': break; default: break }",
        ] {
            Script::read("resolver.js", source).unwrap_or_else(|error| panic!("{source}: {error}"));
        }
    }
}
