//! What all commands share: options, AWS clients, output, confirmation.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::{Args, ValueEnum};
use function::Aws;
use function::operation::NO_REASON;
use ichido::{Clock as _, SystemClock, Timestamp};
use serde::Serialize;
use telemetry::terminal::{harmless_json, one_line};

use crate::outside::logs::Logs;

/// Where `make dev` answers.
pub const LOCAL_PLATFORM: &str = "http://127.0.0.1:8787";

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Shared {
    /// Send AWS calls to this address; `make dev` is http://127.0.0.1:8787
    #[arg(long, global = true, value_name = "URL", env = "AWS_ENDPOINT_URL", value_parser = loopback::endpoint)]
    pub endpoint_url: Option<String>,
    /// The environment; outside prod, names of tables and functions end in `-ENV`. `local` alone is `make dev`
    #[arg(long, global = true, value_enum, env = "ENV")]
    pub env: Option<Environment>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not ask for confirmation
    #[arg(long, global = true)]
    pub yes: bool,
}

/// The longest reason, in characters.
const MOST_REASON: usize = 1_000;

/// Why something is done by hand.
#[derive(Debug, Clone, Args)]
pub struct Why {
    /// The reason; it is kept with your identity (`ichidoctl operations` shows it)
    #[arg(long, value_name = "TEXT", default_value = NO_REASON, value_parser = |text: &str| Why::new(text).map(|why| why.reason))]
    pub reason: String,
}

impl Why {
    /// Refuses a reason that is too long.
    pub(crate) fn new(reason: &str) -> Result<Self, String> {
        if reason.chars().count() > MOST_REASON {
            return Err(format!("a reason has at most {MOST_REASON} characters; nothing was changed"));
        }
        Ok(Why { reason: reason.to_owned() })
    }
}

impl Shared {
    /// `--env local` without an endpoint means the local platform at its usual address, which has the names of production.
    fn resolved(&self) -> Self {
        match (self.env, &self.endpoint_url) {
            (Some(Environment::Local), None) => {
                Shared { env: None, endpoint_url: Some(LOCAL_PLATFORM.to_owned()), ..self.clone() }
            }
            _ => self.clone(),
        }
    }
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
        "no environment is named: add --env dev, --env staging or --env prod (--env local is the local platform, make dev)"
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
    /// The change was made, but not all that belongs to it. `what` says which part is missing and what to do.
    #[error("{what}")]
    Partly {
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// AWS gave no clear answer to a call that changes something: it may have happened.
    #[error("{what}")]
    Unclear {
        what: String,
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    #[error("could not write the output")]
    Output(#[from] io::Error),
}

/// A failed call: what could not be done and what to check, with the cause.
pub fn failed(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Failed { what: what.into(), source: Box::new(source) }
}

/// A change of which one part was made: what is missing and what to do, with the cause.
pub(crate) fn partly(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Partly { what: what.into(), source: Box::new(source) }
}

/// A change that may have been made: what to do about it, with the cause.
pub(crate) fn unclear(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unclear { what: what.into(), source: Some(Box::new(source)) }
}

/// What a command works with.
pub struct Context<'a> {
    pub aws: Aws,
    shared: Shared,
    out: &'a mut (dyn Write + Send + Sync),
    /// Whether the output goes to a terminal.
    terminal: bool,
    /// Who uses the tool, once that is known.
    caller: Option<String>,
    /// Whether a page of the console has asked what a terminal would ask.
    page: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    pub async fn new(shared: &Shared, out: &'a mut (dyn Write + Send + Sync)) -> Self {
        let shared = &shared.resolved();
        // The local platform needs no credentials. Another endpoint gets those of the process, if there are any.
        let aws = match &shared.endpoint_url {
            Some(endpoint) if !has_credentials() => Aws::at(endpoint),
            endpoint => Aws::of_process_at(endpoint.as_deref(), template::REGION).await,
        };
        Context { terminal: io::stdout().is_terminal(), ..Self::with(shared, aws, out) }
    }

    /// With the caller's clients: what tests use.
    pub fn with(shared: &Shared, aws: Aws, out: &'a mut (dyn Write + Send + Sync)) -> Self {
        Context { aws, shared: shared.clone(), out, terminal: false, caller: None, page: false }
    }

    /// On behalf of this caller, whom AWS is not asked about.
    #[must_use]
    pub fn called_by(self, caller: &str) -> Self {
        Context { caller: Some(caller.to_owned()), ..self }
    }

    /// For a change that a page of the console has asked about.
    #[must_use]
    pub(crate) fn confirmed_on_page(self) -> Self {
        Context { page: true, ..self }
    }

    /// Whether a page of the console asked for the change.
    pub(crate) fn on_page(&self) -> bool {
        self.page
    }

    /// The options of every command.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Who uses the tool: the ARN of the identity that AWS sees, not what the operating system says.
    pub(crate) async fn caller(&mut self) -> Result<String, Error> {
        if let Some(caller) = &self.caller {
            return Ok(caller.clone());
        }
        let sts = aws_sdk_sts::Client::new(self.aws.config());
        let identity = sts.get_caller_identity().send().await.map_err(|error| {
            failed(
                "AWS does not say who you are (sts:GetCallerIdentity), so nothing was changed; check your credentials",
                error,
            )
        })?;
        let arn = identity.arn.filter(|arn| !arn.is_empty());
        let arn =
            arn.ok_or_else(|| Error::Refused("AWS does not say who you are, so nothing was changed".to_owned()))?;
        Ok(self.caller.insert(arn).clone())
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

    /// The Lambda client.
    pub fn lambda(&self) -> aws_sdk_lambda::Client {
        aws_sdk_lambda::Client::new(self.aws.config())
    }

    /// The SQS client.
    pub fn sqs(&self) -> aws_sdk_sqs::Client {
        aws_sdk_sqs::Client::new(self.aws.config())
    }

    /// The EventBridge Scheduler client.
    pub fn scheduler(&self) -> aws_sdk_scheduler::Client {
        aws_sdk_scheduler::Client::new(self.aws.config())
    }

    /// CloudWatch Logs.
    pub(crate) fn logs(&self) -> Logs {
        Logs::new(self.aws.config())
    }

    /// Writes one line of JSON about a change to standard error, with the time. A terminal shows it, and the log of a
    /// pipeline keeps it.
    pub fn log(&self, what: &serde_json::Value) -> Result<(), Error> {
        Ok(writeln!(io::stderr(), "{}", log_line(what, SystemClock.now()))?)
    }

    pub fn json(&self) -> bool {
        self.shared.json
    }

    /// Writes one line for a person. Ids, titles and log lines come from outside, so control characters and line breaks are shown as
    /// what they are: a terminal would obey them, and one text could look like several lines.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Error> {
        Ok(writeln!(self.out, "{}", one_line(&text.to_string()))?)
    }

    /// Writes JSON for a machine, in one line, and flushes it.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value).map_err(io::Error::from)?;
        self.write(&format!("{}\n", harmless_json(&text)))
    }

    /// Writes text as it is and flushes it, for a view that is overwritten later. Whoever calls it has made the text harmless.
    pub fn write(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Writes JSON for a machine.
    pub fn value(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        Ok(writeln!(self.out, "{}", harmless_json(&text))?)
    }

    /// How a question was answered, for the trace of an operation.
    pub(crate) fn confirmed(&self) -> &'static str {
        match (self.page, self.shared.yes) {
            (true, _) => "on a page of the console",
            (false, true) => "--yes",
            (false, false) => "at the terminal",
        }
    }

    /// Asks before a change that cannot be undone. Without a terminal, only `--yes` confirms it.
    pub fn confirm(&mut self, what: &str) -> Result<(), Error> {
        if self.shared.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Error::NotConfirmed);
        }
        write!(io::stderr(), "{} [y/N] ", one_line(what))?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Error::NotConfirmed) }
    }
}

/// A line of JSON with its time. Ids in it come from outside, and a terminal may show it.
fn log_line(what: &serde_json::Value, at: Timestamp) -> String {
    let mut line = serde_json::json!({ "timestamp": at.to_string() });
    if let (Some(line), Some(what)) = (line.as_object_mut(), what.as_object()) {
        line.extend(what.clone());
    }
    harmless_json(&line.to_string()).into_owned()
}

/// Whether the process has credentials of its own.
fn has_credentials() -> bool {
    ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

#[cfg(test)]
mod tests {
    use ichido::Timestamp;
    use serde_json::json;
    use telemetry::terminal::harmless;

    use super::{Environment, LOCAL_PLATFORM, Shared, log_line};

    #[test]
    fn the_environment_local_without_an_endpoint_is_the_local_platform() {
        let local = Shared { env: Some(Environment::Local), ..Shared::default() };
        let resolved = local.resolved();
        assert_eq!((resolved.env, resolved.endpoint_url.as_deref()), (None, Some(LOCAL_PLATFORM)));
        let elsewhere = Shared { endpoint_url: Some("http://127.0.0.1:4599".to_owned()), ..local };
        assert_eq!(elsewhere.resolved().env, Some(Environment::Local), "the local AWS has names of its own");
        let prod = Shared { env: Some(Environment::Prod), ..Shared::default() };
        assert_eq!(prod.resolved().endpoint_url, None);
    }

    #[test]
    fn a_line_about_a_change_cannot_write_to_the_terminal_either() {
        let line = log_line(&json!({"id": "1\u{9b}31m\u{202e}\u{1b}"}), Timestamp::from_secs(0));
        assert_eq!(harmless(&line), line);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&read["id"], &read["timestamp"]),
            (&json!("1\u{9b}31m\u{202e}\u{1b}"), &json!("1970-01-01T00:00:00.000Z"))
        );
    }
}
