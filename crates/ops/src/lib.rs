//! `ichidoctl`: what an operator does by hand.
//!
//! One file a command under [`command`]. A command is a `clap` struct and an async `run` that gets a [`Context`]: the
//! options that all commands share, the AWS clients, and where to write. What a command prints is for a person, or with
//! `--json` for a machine; its exit code is 0 if all is well, 1 if it found something, 2 if it could not do what was asked.
//!
//! Invariant: nothing here knows how an application works. Commands call the application's crate, which also has the tests
//! of what they do; here is only what is asked, shown and confirmed.

pub mod applications;
pub mod command;
pub mod context;
pub mod doctor;
pub mod infra;
mod letters;
mod logs;
pub mod rollout;
mod show;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::{Context, Ended, Error, Shared};

/// Exit code of a command that found something.
const FOUND: u8 = 1;
/// Exit code of a command that could not do what was asked.
const FAILED: u8 = 2;

/// The operator's tool of ichido.
#[derive(Debug, Parser)]
#[command(name = "ichidoctl", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub shared: Shared,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Move traffic to new versions, watched, and back when something is wrong
    Rollout(command::rollout::Rollout),
    /// Back to the version before the last rollout, at once
    Rollback(command::rollback::Rollback),
    /// Is what is deployed as the templates say?
    Doctor(command::doctor::Doctor),
    /// What a month costs
    Cost(command::cost::Cost),
    /// What is known of a key: look at it, list keys, give a claim back
    #[command(subcommand)]
    Keys(command::keys::Keys),
    /// What was given up on: list it, look at it, send it again, drop it
    #[command(subcommand)]
    DeadLetters(command::dead_letters::DeadLetters),
    /// What runs by the clock: list, pause, resume, change the rate, run now
    #[command(subcommand)]
    Schedules(command::schedules::Schedules),
    /// What happened to one event, from the door to the effect, across functions
    Trace(command::trace::Trace),
    /// Accounts and transfers: prove the books, freeze an account, take a transfer back
    #[command(subcommand)]
    Tokens(command::tokens::Tokens),
}

impl Command {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Command::Rollout(rollout) => rollout.run(context).await,
            Command::Rollback(rollback) => rollback.run(context).await,
            Command::Doctor(doctor) => doctor.run(context).await,
            Command::Cost(cost) => cost.run(context).await,
            Command::Keys(keys) => keys.run(context).await,
            Command::DeadLetters(letters) => letters.run(context).await,
            Command::Schedules(schedules) => schedules.run(context).await,
            Command::Trace(trace) => trace.run(context).await,
            Command::Tokens(tokens) => tokens.run(context).await,
        }
    }
}

/// Runs one command with the process's own input and output.
pub async fn run(cli: Cli) -> ExitCode {
    let mut out = std::io::stdout();
    let mut context = Context::new(&cli.shared, &mut out).await;
    match cli.command.run(&mut context).await {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Found) => ExitCode::from(FOUND),
        Err(error) => {
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), format!("{}\n", context::explain(&error)).as_bytes());
            ExitCode::from(FAILED)
        }
    }
}
