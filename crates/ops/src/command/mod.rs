//! The command line, one file per command.
//!
//! A command is a `clap` struct with an async `run` that gets the [`Context`].

pub mod console;
pub mod cost;
pub mod dead_letters;
pub mod doctor;
pub mod feeds;
pub mod keys;
pub mod mend;
pub mod operations;
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
    /// Serve the console of an environment on this machine: overview, keys, dead letters, alarms, rollouts, cost
    Console(console::Console),
    /// Show what one month costs
    Cost(cost::Cost),
    /// Show one key, list keys, release a claim
    #[command(
        subcommand,
        after_help = "Examples:
  ichidoctl keys show slack Ev08ABCDEF --env prod
  ichidoctl keys list slack --state claimed --env prod
  ichidoctl keys release slack 'FILE#T1#C1#1700000000.000100#F1' --reason 'the instance was stopped' --env prod"
    )]
    Keys(keys::Keys),
    /// List dead letters, show one, send them again, drop them
    #[command(
        subcommand,
        after_help = "Examples:
  ichidoctl dead-letters list --env prod
  ichidoctl dead-letters show slack 8b2c4e6a-… --env prod
  ichidoctl dead-letters redrive slack --env prod"
    )]
    DeadLetters(dead_letters::DeadLetters),
    /// List schedules, pause or resume one, change its rate, run it now
    #[command(
        subcommand,
        after_help = "Examples:
  ichidoctl schedules list --env prod
  ichidoctl schedules pause github-feed-subscriber-schedule --env prod
  ichidoctl schedules run github-feed-subscriber-schedule --env local"
    )]
    Schedules(schedules::Schedules),
    /// Make entries of feeds owed again, show what would be posted of a feed
    #[command(
        subcommand,
        after_help = "Examples:
  ichidoctl feeds preview https://blog.example.com/feed.xml
  ichidoctl feeds resend --rehearsed --since 2026-01-31T12:00:00Z --env prod"
    )]
    Feeds(feeds::Feeds),
    /// Show what the history of Slack's events tells
    #[command(
        subcommand,
        after_help = "Examples:
  ichidoctl slack report --env prod
  ichidoctl slack report --days 30 --html report.html --env prod"
    )]
    Slack(slack::Slack),
    /// Show what happened to one event, from its request to its effect, across functions
    Trace(trace::Trace),
    /// Show what operators did by hand: who, when, to what and why
    Operations(operations::Operations),
    /// Verify the ledger, freeze an account, reverse a transfer
    #[command(
        subcommand,
        after_help = "Examples:
  ichidoctl tokens verify --env prod
  ichidoctl tokens freeze did:key:alice --env prod
  ichidoctl tokens grant did:key:alice 25 --reason 'prize of the spring contest' --key spring-contest-alice --env prod"
    )]
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
            Command::Console(console) => console.run(context).await,
            Command::Cost(cost) => cost.run(context).await,
            Command::Keys(keys) => keys.run(context).await,
            Command::DeadLetters(letters) => letters.run(context).await,
            Command::Schedules(schedules) => schedules.run(context).await,
            Command::Feeds(feeds) => feeds.run(context).await,
            Command::Slack(slack) => slack.run(context).await,
            Command::Trace(trace) => trace.run(context).await,
            Command::Operations(operations) => operations.run(context).await,
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
        // Whoever read the output, `head` for example, has read enough. The rest was not done, so the exit code says so.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(FAILED),
        Err(error) => complain(&error),
    }
}

fn complain(error: &dyn std::error::Error) -> ExitCode {
    // If nobody reads standard error, the exit code still says it.
    let _ = writeln!(std::io::stderr(), "{}", complaint(error));
    ExitCode::from(FAILED)
}

/// An error and its causes in one line: names in it come from outside.
fn complaint(error: &dyn std::error::Error) -> String {
    format!("ichidoctl: {}", telemetry::terminal::one_line(&telemetry::causes(error)))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, complaint};
    use crate::context::failed;

    #[test]
    fn a_name_in_an_error_cannot_look_like_two_lines() {
        let error = failed("could not read a\nichidoctl: nothing was changed", std::io::Error::other("x\ny\u{200b}"));
        let said = "ichidoctl: could not read a\\nichidoctl: nothing was changed: x\\ny\\u{200b}";
        assert_eq!(complaint(&error), said);
    }

    /// A script whose variable is empty must not get an error of the SDK.
    #[test]
    fn an_empty_name_of_a_table_is_refused_at_the_command_line() {
        let commands = ["slack report", "keys list slack", "keys show slack Ev1", "operations slack", "tokens verify"];
        for command in commands {
            let parse = |table| {
                let words = ["ichidoctl"].into_iter().chain(command.split(' '));
                Cli::try_parse_from(words.chain(["--table", table])).map(drop).map_err(|error| error.to_string())
            };
            assert_eq!(parse("events"), Ok(()), "{command}");
            let refused = parse("").expect_err(command);
            assert!(refused.contains("a value is required for '--table <NAME>'"), "{command}: {refused}");
        }
    }

    #[test]
    fn every_command_and_every_group_shows_examples() {
        fn look(command: &clap::Command, path: &str) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name());
                let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example") && help.contains(&path), "{path} --help shows no example: {help}");
                look(inner, &path);
            }
        }
        look(&Cli::command(), "ichidoctl");
    }
}
