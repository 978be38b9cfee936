//! Reads a resolver file: refuses what APPSYNC_JS does not have, by name and line, and rewrites the module into a factory.
//!
//! A module keeps its variables for as long as its context lives. A factory is a function with the module's body: each call of
//! it makes fresh variables. So two calls of a resolver share nothing, and the file is still parsed only once. Lines keep
//! their numbers.

mod lexer;
mod rewrite;

use crate::limits::MAX_CODE_BYTES;
use lexer::Lexer;
use rewrite::Rewrite;

/// Why a resolver file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that APPSYNC_JS, or this emulation of it, does not have.
    #[error("{file}:{line}: this AppSync does not support {what}")]
    Unsupported {
        /// The file's name.
        file: String,
        /// Where, counted from 1.
        line: usize,
        /// What it is.
        what: String,
    },
    /// Text that is not JavaScript.
    #[error("{file}:{line}: {what}")]
    Syntax {
        /// The file's name.
        file: String,
        /// Where, counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The file is larger than AppSync allows.
    #[error("{file} has {bytes} bytes; AppSync allows {MAX_CODE_BYTES}")]
    TooLarge {
        /// The file's name.
        file: String,
        /// Its size.
        bytes: usize,
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
        if source.len() > MAX_CODE_BYTES {
            return Err(Error::TooLarge { file: name.to_owned(), bytes: source.len() });
        }
        let tokens = Lexer::new(name, source).run()?;
        Rewrite::new(name, source, &tokens).run()
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
