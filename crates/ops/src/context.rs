//! What all commands share: options, AWS clients, output, confirmation.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal, Write};

use clap::{Args, ValueEnum};
use function::Aws;
use ichido::{Clock as _, SystemClock};
use serde::Serialize;

/// An address that the SDK can use. It panics on others.
fn endpoint(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match address {
        Some(address) if address.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[') => {
            Ok(text.to_owned())
        }
        _ => Err("it must begin with http:// or https:// and name a host".to_owned()),
    }
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Shared {
    /// Send AWS calls to this address; `make dev` is http://127.0.0.1:8787
    #[arg(long, global = true, value_name = "URL", env = "AWS_ENDPOINT_URL", value_parser = endpoint)]
    pub endpoint_url: Option<String>,
    /// The environment; outside prod, names of tables and functions end in `-ENV`
    #[arg(long, global = true, value_enum, env = "ENV")]
    pub env: Option<Environment>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not ask for confirmation
    #[arg(long, global = true)]
    pub yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Environment {
    Local,
    Dev,
    Staging,
    Prod,
}

impl Environment {
    /// As `make … ENV=…` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Environment::Local => "local",
            Environment::Dev => "dev",
            Environment::Staging => "staging",
            Environment::Prod => "prod",
        }
    }

    /// What the names of tables and functions end in.
    pub fn suffix(self) -> &'static str {
        match self {
            Environment::Local => "-local",
            Environment::Dev => "-dev",
            Environment::Staging => "-staging",
            Environment::Prod => "",
        }
    }
}

/// How a command ended that could do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Well,
    /// It found something that somebody has to look at.
    NeedsAttention,
}

/// Why a command could not do what was asked. Each error says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no environment is named: add --env dev, --env staging or --env prod (or --endpoint-url URL for the local platform)"
    )]
    NoEnvironment,
    #[error("not confirmed, so nothing was changed; --yes skips the question")]
    NotConfirmed,
    #[error("{0}")]
    Refused(String),
    #[error("{what}")]
    Failed {
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("could not write the output")]
    Output(#[from] io::Error),
}

/// A failed call: what could not be done and what to check, with the cause.
pub fn failed(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Failed { what: what.into(), source: Box::new(source) }
}

/// What a command works with.
pub struct Context<'a> {
    pub aws: Aws,
    shared: Shared,
    out: &'a mut (dyn Write + Send),
    /// Whether the output goes to a terminal.
    terminal: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    pub async fn new(shared: &Shared, out: &'a mut (dyn Write + Send)) -> Self {
        // The local platform needs no credentials. Another endpoint gets those of the process, if there are any.
        let aws = match &shared.endpoint_url {
            Some(endpoint) if !has_credentials() => Aws::at(endpoint),
            endpoint => Aws::of_process_at(endpoint.as_deref(), template::REGION).await,
        };
        Context { terminal: io::stdout().is_terminal(), ..Self::with(shared, aws, out) }
    }

    /// With the caller's clients: what tests use.
    pub fn with(shared: &Shared, aws: Aws, out: &'a mut (dyn Write + Send)) -> Self {
        Context { aws, shared: shared.clone(), out, terminal: false }
    }

    /// `given`, or else the name of the table in the chosen environment.
    pub fn table_name(&self, given: Option<&str>, name_in_prod: &str) -> Result<String, Error> {
        match (given, self.shared.env, &self.shared.endpoint_url) {
            (Some(given), _, _) => Ok(given.to_owned()),
            (None, Some(env), _) => Ok(format!("{name_in_prod}{}", env.suffix())),
            (None, None, Some(_)) => Ok(name_in_prod.to_owned()),
            // An operator must not touch production by leaving something out.
            (None, None, None) => Err(Error::NoEnvironment),
        }
    }

    /// The chosen environment; on the local platform, `local`.
    pub fn environment(&self) -> Result<Environment, Error> {
        match (self.shared.env, &self.shared.endpoint_url) {
            (Some(env), _) => Ok(env),
            (None, Some(_)) => Ok(Environment::Local),
            (None, None) => Err(Error::NoEnvironment),
        }
    }

    /// What the names of functions, schedules, queues and alarms end in: nothing on the local platform.
    pub fn suffix(&self) -> Result<&'static str, Error> {
        match (self.shared.env, &self.shared.endpoint_url) {
            (Some(env), _) => Ok(env.suffix()),
            (None, Some(_)) => Ok(""),
            (None, None) => Err(Error::NoEnvironment),
        }
    }

    /// Whether the output goes to a terminal, where it may be overwritten.
    pub fn terminal(&self) -> bool {
        self.terminal
    }

    /// The CloudWatch client.
    pub fn cloudwatch(&self) -> aws_sdk_cloudwatch::Client {
        aws_sdk_cloudwatch::Client::new(self.aws.config())
    }

    /// The SQS client.
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(self.aws.config())
    }

    /// The EventBridge Scheduler client.
    pub fn scheduler(&self) -> aws_sdk_scheduler::Client {
        aws_sdk_scheduler::Client::new(self.aws.config())
    }

    /// The CloudWatch Logs client.
    pub fn logs(&self) -> aws_sdk_cloudwatchlogs::Client {
        aws_sdk_cloudwatchlogs::Client::new(self.aws.config())
    }

    /// Writes one line of JSON about a change to standard error, with the time. A terminal shows it, and the log of a
    /// pipeline keeps it.
    pub fn log(&self, what: &serde_json::Value) -> Result<(), Error> {
        let mut line = serde_json::json!({ "timestamp": SystemClock.now().to_string() });
        if let (Some(line), Some(what)) = (line.as_object_mut(), what.as_object()) {
            line.extend(what.clone());
        }
        Ok(writeln!(io::stderr(), "{line}")?)
    }

    pub fn json(&self) -> bool {
        self.shared.json
    }

    /// Writes a line for a person. Ids, titles and log lines come from outside, so control characters are shown as what they are:
    /// a terminal would obey them.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Error> {
        Ok(writeln!(self.out, "{}", harmless(&text.to_string()))?)
    }

    /// Writes text as it is and flushes it, for a view that is overwritten later.
    pub fn write(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Writes JSON for a machine.
    pub fn value(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Asks before a change that cannot be undone. Without a terminal, only `--yes` confirms it.
    pub fn confirm(&mut self, what: &str) -> Result<(), Error> {
        if self.shared.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Error::NotConfirmed);
        }
        write!(io::stderr(), "{what} [y/N] ")?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Error::NotConfirmed) }
    }
}

/// Whether the process has credentials of its own.
fn has_credentials() -> bool {
    ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

/// The text with escapes for control characters, but for the ends of lines and tabs.
fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if obeyed(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn an_endpoint_that_the_sdk_cannot_use_is_refused_at_the_command_line() {
        for good in ["http://127.0.0.1:8787", "https://dynamodb.eu-west-1.amazonaws.com", "http://[::1]:8787"] {
            assert_eq!(endpoint(good).as_deref(), Ok(good));
        }
        for bad in ["", " ", "banana", "127.0.0.1:8787", "http://", "ftp://127.0.0.1"] {
            assert!(endpoint(bad).is_err(), "{bad:?}");
        }
    }
}
