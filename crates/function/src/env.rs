//! A function's environment, read once and checked as a whole.
//!
//! Promise: [`Reader::finish`] names everything that is missing, still a placeholder or invalid in one error, so that
//! a person can correct all of it at once. Applications never read the process's environment themselves. They get an
//! [`Env`], so that tests and the local platform can run many functions in one process.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Values that somebody forgot to replace.
const PLACEHOLDERS: [&str; 8] =
    ["changeme", "change-me", "change_me", "replaceme", "replace-me", "replace_me", "todo", "placeholder"];

/// The variables of one function. Cheap to clone, never changes.
#[derive(Clone, Default)]
pub struct Env {
    variables: Arc<BTreeMap<String, String>>,
    /// The variables that the function declares; `None` if any may be read.
    declared: Option<&'static [&'static str]>,
}

/// Prints names only, because a value may be a secret.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Env {
    /// The variables of this process, for a Lambda binary. Names and values that are not Unicode are left out.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    /// A variable as it is, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The same variables for a function that reads only these. A [`Reader`] reports every other one as a [`Problem`], so
    /// that a function does not start if it reads a variable that it does not declare.
    #[must_use]
    pub fn declared(&self, names: &'static [&'static str]) -> Self {
        Self { variables: self.variables.clone(), declared: Some(names) }
    }

    /// Starts reading; see [`Reader::finish`].
    pub fn reader(&self) -> Reader<'_> {
        Reader { env: self, problems: Vec::new() }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables: Arc::new(variables), declared: None }
    }
}

/// What is wrong with one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not set, or empty.
    Missing,
    /// Set to a placeholder that nobody replaced.
    Placeholder,
    /// Set to a value that is not allowed. The value is not shown, unless the caller put it into the reason.
    Invalid(String),
    /// Read, but not among the variables that the function's [`Definition`](crate::Definition) declares: a mistake in the code.
    Undeclared,
}

/// Everything that is wrong with an environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the function's variables are not right: {}", describe(.0))]
pub struct Error(Vec<(String, Problem)>);

impl Error {
    /// The problems, by variable.
    pub fn problems(&self) -> &[(String, Problem)] {
        &self.0
    }
}

fn describe(problems: &[(String, Problem)]) -> String {
    let each = problems.iter().map(|(name, problem)| match problem {
        Problem::Missing => format!("{name} is missing"),
        Problem::Placeholder => format!("{name} is still a placeholder"),
        Problem::Invalid(why) => format!("{name} is invalid ({why})"),
        Problem::Undeclared => format!("{name} is read but not declared by the function"),
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Reads variables and remembers what is wrong with them. Use what it returns only after [`Reader::finish`] succeeded.
#[derive(Debug)]
pub struct Reader<'a> {
    env: &'a Env,
    problems: Vec<(String, Problem)>,
}

impl Reader<'_> {
    /// A variable that must be set.
    pub fn required(&mut self, name: &str) -> String {
        match self.optional(name) {
            Some(value) => value,
            None => {
                if !self.problems.iter().any(|(known, _)| known == name) {
                    self.problem(name, Problem::Missing);
                }
                String::new()
            }
        }
    }

    /// A variable that may be set. An empty one counts as not set.
    pub fn optional(&mut self, name: &str) -> Option<String> {
        if self.env.declared.is_some_and(|declared| !declared.contains(&name)) {
            self.problem(name, Problem::Undeclared);
            return None;
        }
        let value = self.env.get(name).map(str::trim).filter(|value| !value.is_empty())?;
        if is_placeholder(value) {
            self.problem(name, Problem::Placeholder);
            return None;
        }
        Some(value.to_owned())
    }

    /// A variable with a default, read as a `T`.
    pub fn parsed<T>(&mut self, name: &str, default: T) -> T
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        match self.optional(name).map(|value| value.parse()) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                self.invalid(name, error);
                default
            }
        }
    }

    /// A variable that must be one of these words.
    pub fn one_of<T: Clone>(&mut self, name: &str, choices: &[(&str, T)], default: T) -> T {
        let Some(value) = self.optional(name) else {
            return default;
        };
        match choices.iter().find(|(word, _)| *word == value) {
            Some((_, choice)) => choice.clone(),
            None => {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                self.invalid(name, format_args!("must be one of {}", words.join(", ")));
                default
            }
        }
    }

    /// Reports an invalid value, for rules that only the caller knows.
    pub fn invalid(&mut self, name: &str, why: impl fmt::Display) {
        self.problem(name, Problem::Invalid(why.to_string()));
    }

    /// Ends reading. One error names everything that is wrong.
    pub fn finish(self) -> Result<(), Error> {
        if self.problems.is_empty() { Ok(()) } else { Err(Error(self.problems)) }
    }

    fn problem(&mut self, name: &str, problem: Problem) {
        self.problems.push((name.to_owned(), problem));
    }
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    PLACEHOLDERS.contains(&lower.as_str())
        || lower.starts_with("your-")
        || lower.starts_with("your_")
        || (value.starts_with('<') && value.ends_with('>'))
        || (value.len() >= 3 && lower.bytes().all(|byte| byte == b'x'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Env {
        variables.iter().copied().collect()
    }

    #[test]
    fn everything_that_is_wrong_is_named_in_one_error() {
        let env =
            env(&[("TOKEN_PARAMETER", "<name>"), ("RETRIES", "many"), ("DEDUP_FALLBACK", "maybe"), ("EMPTY", " ")]);
        let mut vars = env.reader();
        vars.required("TABLE");
        vars.required("TOKEN_PARAMETER");
        vars.required("EMPTY");
        vars.parsed("RETRIES", 3_u8);
        vars.one_of("DEDUP_FALLBACK", &[("open", true), ("closed", false)], true);
        let error = vars.finish().expect_err("an error");
        assert_eq!(
            error.to_string(),
            "the function's variables are not right: TABLE is missing; TOKEN_PARAMETER is still a placeholder; EMPTY is missing; \
             RETRIES is invalid (invalid digit found in string); DEDUP_FALLBACK is invalid (must be one of open, closed)"
        );
    }

    #[test]
    fn a_complete_environment_is_read() {
        let env = env(&[("TABLE", "events"), ("RETRIES", "5"), ("DEDUP_FALLBACK", "closed")]);
        let mut vars = env.reader();
        assert_eq!(vars.required("TABLE"), "events");
        assert_eq!(vars.optional("NOTHING"), None);
        assert_eq!(vars.parsed("RETRIES", 3_u8), 5);
        assert!(!vars.one_of("DEDUP_FALLBACK", &[("open", true), ("closed", false)], true));
        assert_eq!(vars.finish(), Ok(()));
    }

    #[test]
    fn placeholders_are_recognised_and_real_values_are_not_mistaken_for_them() {
        for value in ["<your token>", "CHANGE_ME", "your-bot-id", "xxxx", "TODO", "PlaceHolder"] {
            assert!(is_placeholder(value), "{value}");
        }
        for value in ["/slack/prod/token", "B012345", "x", "open", "yours"] {
            assert!(!is_placeholder(value), "{value}");
        }
    }

    #[test]
    fn a_function_reads_only_what_it_declared() {
        let env = env(&[("TABLE", "events"), ("RETRIES", "5")]).declared(&["TABLE"]);
        let mut vars = env.reader();
        assert_eq!(vars.required("TABLE"), "events");
        assert_eq!(vars.parsed("RETRIES", 3_u8), 3);
        let error = vars.finish().expect_err("an error");
        assert_eq!(error.problems(), [("RETRIES".to_owned(), Problem::Undeclared)]);
    }

    #[test]
    fn printing_an_environment_shows_no_values() {
        assert_eq!(format!("{:?}", env(&[("TOKEN", "hush")])), r#"{"TOKEN"}"#);
    }
}
