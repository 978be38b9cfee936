//! The command line, one file per command.
//!
//! A command is a `clap` struct with an async `run` that gets the [`Context`].

pub mod cost;
pub mod dead_letters;
pub mod doctor;
pub mod feeds;
pub mod keys;
pub mod mend;
pub mod restore;
pub mod rollback;
pub mod rollout;
pub mod schedules;
pub mod slack;
pub mod tokens;
pub mod trace;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::context::{Context, Ended, Error, Shared};

/// Exit code of a command that found something that somebody has to look at.
const NEEDS_ATTENTION: u8 = 1;
/// Exit code of a command that could not do what was asked.
const FAILED: u8 = 2;

/// The operator's tool of ichido
#[derive(Debug, Parser)]
#[command(
    name = "ichidoctl",
    version,
    propagate_version = true,
    max_term_width = 110,
    after_help = "Exit codes: 0 all is well, 1 somebody has to look at something, 2 the command could not do what was asked."
)]
pub struct Cli {
    #[command(flatten)]
    pub shared: Shared,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Move traffic to new versions step by step, and back if something goes wrong
    Rollout(rollout::Rollout),
    /// Return all traffic to the version before the last rollout, at once
    Rollback(rollback::Rollback),
    /// Compare what is deployed with the templates
    Doctor(doctor::Doctor),
    /// Set back, from the templates, what somebody changed by hand
    Mend(mend::Mend),
    /// Copy into a table what it lost, from a copy that shows an earlier time
    Restore(restore::Restore),
    /// Show what one month costs
    Cost(cost::Cost),
    /// Show one key, list keys, release a claim
    #[command(subcommand)]
    Keys(keys::Keys),
    /// List dead letters, show one, send them again, drop them
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    /// List schedules, pause or resume one, change its rate, run it now
    #[command(subcommand)]
    Schedules(schedules::Schedules),
    /// Make entries of feeds owed again, show what would be posted of a feed
    #[command(subcommand)]
    Feeds(feeds::Feeds),
    /// Show what the history of Slack's events tells
    #[command(subcommand)]
    Slack(slack::Slack),
    /// Show what happened to one event, from its request to its effect, across functions
    Trace(trace::Trace),
    /// Verify the ledger, freeze an account, reverse a transfer
    #[command(subcommand)]
    Tokens(tokens::Tokens),
}

impl Command {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Command::Rollout(rollout) => rollout.run(context).await,
            Command::Rollback(rollback) => rollback.run(context).await,
            Command::Doctor(doctor) => doctor.run(context).await,
            Command::Mend(mend) => mend.run(context).await,
            Command::Restore(restore) => restore.run(context).await,
            Command::Cost(cost) => cost.run(context).await,
            Command::Keys(keys) => keys.run(context).await,
            Command::DeadLetters(letters) => letters.run(context).await,
            Command::Schedules(schedules) => schedules.run(context).await,
            Command::Feeds(feeds) => feeds.run(context).await,
            Command::Slack(slack) => slack.run(context).await,
            Command::Trace(trace) => trace.run(context).await,
            Command::Tokens(tokens) => tokens.run(context).await,
        }
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(&cli)),
        Err(error) => complain(&error),
    }
}

async fn run(cli: &Cli) -> ExitCode {
    let mut out = std::io::stdout();
    let mut context = Context::new(&cli.shared, &mut out).await;
    match cli.command.run(&mut context).await {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::NeedsAttention) => ExitCode::from(NEEDS_ATTENTION),
        Err(error) => complain(&error),
    }
}

fn complain(error: &dyn std::error::Error) -> ExitCode {
    // If nobody reads standard error, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "ichidoctl: {}", telemetry::causes(error));
    ExitCode::from(FAILED)
}
