//! What all commands share: options, AWS clients, output, confirmation.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::{Args, ValueEnum};
use function::Aws;
use serde::Serialize;

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Shared {
    /// Where the AWS APIs are, if not at AWS: http://127.0.0.1:8787 is `make dev`
    #[arg(long, global = true, value_name = "URL", env = "AWS_ENDPOINT_URL")]
    pub endpoint_url: Option<String>,
    /// The environment; its name ends the names of tables and functions, but for prod
    #[arg(long, global = true, value_enum, env = "ENV")]
    pub env: Option<Environment>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Do not ask
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

    /// What ends every name.
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
    /// There is something that somebody has to look at.
    Found,
}

/// Why a command could not do what was asked. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("say which environment: --env dev, staging or prod (or --endpoint-url for the local platform)")]
    NoEnvironment,
    #[error("not confirmed; nothing was done (--yes does not ask)")]
    NotConfirmed,
    #[error("{0}")]
    Refused(String),
    #[error("{what}")]
    Failed {
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
}

/// A failure of something that we asked for: what could not be done, what to look at, and the cause.
pub fn failed(what: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Failed { what: what.into(), source: Box::new(source) }
}

/// An error with its causes, a line.
pub fn explain(error: &dyn std::error::Error) -> String {
    format!("ichidoctl: {}", causes(error))
}

/// An error with its causes, without the tool's name before it.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// What a command works with.
pub struct Context<'a> {
    pub aws: Aws,
    shared: Shared,
    out: &'a mut (dyn Write + Send),
    /// Whether a person watches what is written.
    terminal: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    pub async fn new(shared: &Shared, out: &'a mut (dyn Write + Send)) -> Self {
        // The local platform asks for no credentials; another endpoint gets those of the process.
        let aws = match &shared.endpoint_url {
            Some(endpoint) if !has_credentials() => Aws::at(endpoint),
            endpoint => Aws::of_process_at(endpoint.as_deref(), template::REGION).await,
        };
        Context { terminal: io::stdout().is_terminal(), ..Self::with(shared, aws, out) }
    }

    /// With clients of the caller's: tests.
    pub fn with(shared: &Shared, aws: Aws, out: &'a mut (dyn Write + Send)) -> Self {
        Context { aws, shared: shared.clone(), out, terminal: false }
    }

    /// The name of a table in the chosen environment, unless it is given.
    pub fn table_name(&self, given: Option<&str>, name_in_prod: &str) -> Result<String, Error> {
        match (given, self.shared.env, &self.shared.endpoint_url) {
            (Some(given), _, _) => Ok(given.to_owned()),
            (None, Some(env), _) => Ok(format!("{name_in_prod}{}", env.suffix())),
            (None, None, Some(_)) => Ok(name_in_prod.to_owned()),
            // an operator should never touch production by leaving something out
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

    /// What ends the names of functions, schedules, queues and alarms. The local platform's names end in nothing.
    pub fn suffix(&self) -> Result<&'static str, Error> {
        match (self.shared.env, &self.shared.endpoint_url) {
            (Some(env), _) => Ok(env.suffix()),
            (None, Some(_)) => Ok(""),
            (None, None) => Err(Error::NoEnvironment),
        }
    }

    /// Whether a person watches what is written, and it may be overwritten.
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

    /// Leaves a line of JSON, with its time, on standard error: what was changed by hand, by whom and why. A terminal shows
    /// it, a pipeline's log keeps it.
    pub fn log(&self, what: &serde_json::Value) -> Result<(), Error> {
        let mut line = serde_json::json!({ "timestamp": jiff::Timestamp::now().to_string() });
        if let (Some(line), Some(what)) = (line.as_object_mut(), what.as_object()) {
            line.extend(what.clone());
        }
        Ok(writeln!(io::stderr(), "{line}")?)
    }

    pub fn json(&self) -> bool {
        self.shared.json
    }

    /// Writes a line for a person.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Error> {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Writes text as it is, at once: what a live view overwrites.
    pub fn write(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }

    /// Writes JSON for a machine.
    pub fn value(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Asks before something that cannot be taken back. Without a terminal, only `--yes` is a yes.
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

/// Whether the process brings credentials of its own.
fn has_credentials() -> bool {
    ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}
