//! `ichidoctl slack`: what the history of Slack's events tells, for as long as it is kept.

use std::path::{Path, PathBuf};

use aws_config::SdkConfig;
use clap::builder::{NonEmptyStringValueParser, PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use ichido::{Clock as _, SystemClock, store};
use slack::report::{self, MAX_DAYS, Report};
use slack::table::history::{self, Tally, What};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, failed};
use crate::show;

#[derive(Debug, Subcommand)]
pub enum Slack {
    /// Show what happened to events by day and channel, duplicates by cause, and what is unusual
    #[command(after_help = "Times are UTC. The history is kept for 90 days, by hour and channel.
Unusual are silences, and shares of duplicates and failures that are far above those in the same hours of at least three earlier weeks.
The exit code is 1 if something is unusual.

Examples:
  ichidoctl slack report --env prod
  ichidoctl slack report --days 30 --html report.html --env prod
  ichidoctl slack report --days 90 --json --env prod")]
    Report(ReportOptions),
}

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// How many days, today included
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DAYS)))]
    pub days: u32,
    /// Also write a page with charts to this file; it opens without a network
    #[arg(long, value_name = "FILE", value_parser = PathBufValueParser::new().try_map(a_file))]
    pub html: Option<PathBuf>,
    /// The table, if it is not the environment's own
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub table: Option<String>,
}

impl Slack {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Slack::Report(options) => options.run(context).await,
        }
    }
}

impl ReportOptions {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let table = context.table_name(self.table.as_deref(), Application::Slack.table())?;
        if self.table.is_some() {
            let kept = history::is_kept_in(&context.aws.dynamodb(), &table).await;
            if !kept.map_err(|error| unread(context.aws.config(), &table, error))? {
                return Err(Error::Refused(format!("{table} is not a table of processed events; check --table")));
            }
        }
        if let Some(file) = &self.html {
            // Who waits for a scan must not lose it to a wrong path. What the file contains stays until the page is there.
            let opened = tokio::fs::OpenOptions::new().append(true).create(true).open(file).await;
            opened.map_err(|error| unwritten(file, error))?;
        }
        let report = report(context, &table, self.days).await?;
        if context.json() {
            context.value(&report.as_json())?;
        } else {
            show(context, &table, &report)?;
        }
        if let Some(file) = &self.html {
            let written = tokio::fs::write(file, report::html::page(&report, &table)).await;
            written.map_err(|error| unwritten(file, error))?;
        }
        Ok(if report.anomalies.is_empty() { Ended::Well } else { Ended::NeedsAttention })
    }
}

/// `-`, which other tools take for standard output, would become a file of that name.
fn a_file(path: PathBuf) -> Result<PathBuf, &'static str> {
    if path == Path::new("-") { Err("the page is not printed; name a file") } else { Ok(path) }
}

fn unwritten(file: &Path, error: std::io::Error) -> Error {
    failed(format!("could not write {}", file.display()), error)
}

/// How much of a channel's name a table shows.
const NAME_CHARS: usize = 40;

/// Reads the history and reports the last days.
pub(crate) async fn report(context: &Context<'_>, table: &str, days: u32) -> Result<Report, Error> {
    let now = SystemClock.now();
    let history = history::read(&context.aws.dynamodb(), table, report::first_hour(now)).await;
    let history = history.map_err(|error| unread(context.aws.config(), table, error))?;
    Ok(report::report(&history, now, days))
}

/// Permissions are not to blame if nobody answers.
fn unread(config: &SdkConfig, table: &str, error: store::Error) -> Error {
    let what = match (error.is_transient(), config.endpoint_url()) {
        (true, Some(address)) => {
            format!("{address} does not answer, so the table {table} was not read; check --endpoint-url")
        }
        (true, None) => format!("DynamoDB does not answer, so the table {table} was not read"),
        (false, _) => {
            format!("could not read the table {table}; check --env, --table and the permission dynamodb:Scan")
        }
    };
    failed(what, error)
}

fn show(context: &mut Context<'_>, table: &str, report: &Report) -> Result<(), Error> {
    if report.total == Tally::default() {
        context.line(nothing(table, report.days))?;
    } else {
        let rows = |of: &[(String, Tally)]| of.iter().map(|(name, tally)| row(name, tally)).collect::<Vec<_>>();
        show::table(context, head("DAY"), &rows(&report.by_day))?;
        context.line("")?;
        let all = ("all".to_owned(), report.total.clone());
        show::table(context, head("CHANNEL"), &rows(&[&report.by_channel[..], &[all]].concat()))?;
    }
    context.line("")?;
    for anomaly in &report.anomalies {
        context.line(format_args!("unusual: {}", anomaly.in_words()))?;
    }
    for words in report.judged_in_words() {
        context.line(words)?;
    }
    Ok(())
}

/// What is said of days without any history.
fn nothing(table: &str, days: u32) -> String {
    if days == 1 {
        format!("{table} has no history of today")
    } else {
        format!("{table} has no history of the last {days} days")
    }
}

/// A name, and a counter per [`What`].
const COLUMNS: usize = 1 + What::ALL.len();

fn head(first: &'static str) -> [&'static str; COLUMNS] {
    [first, "HANDLED", "FOUND", "FAILED", "REFUSED", "RETRY", "AT ONCE", "ENVELOPE", "OUTAGE", "EARLIER", "SAME"]
}

fn row(name: &str, tally: &Tally) -> [String; COLUMNS] {
    let mut row: [String; COLUMNS] = Default::default();
    row[0] = show::one_line(name, NAME_CHARS);
    for (column, what) in row[1..].iter_mut().zip(What::ALL) {
        *column = tally.get(what).to_string();
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_widen_a_table_without_end() {
        let [short, long] =
            ["C0123456789", "C".repeat(3_000).as_str()].map(|name| row(name, &Tally::default())[0].clone());
        assert_eq!((short.as_str(), long.chars().count()), ("C0123456789", NAME_CHARS));
        assert!(long.ends_with('…'), "{long}");
    }

    #[test]
    fn a_page_is_written_to_a_file_and_not_printed() {
        assert_eq!(a_file("report.html".into()), Ok("report.html".into()));
        assert_eq!(a_file("-".into()), Err("the page is not printed; name a file"));
    }

    #[test]
    fn an_address_that_does_not_answer_is_named_first_and_permissions_only_where_they_may_be_missing() {
        let said = |config: SdkConfig, error: store::Error| unread(&config, "events", error).to_string();
        let at = || SdkConfig::builder().endpoint_url("http://127.0.0.1:1").build();
        assert_eq!(
            said(at(), store::Error::Transient("refused".into())),
            "http://127.0.0.1:1 does not answer, so the table events was not read; check --endpoint-url"
        );
        assert_eq!(
            said(SdkConfig::builder().build(), store::Error::Transient("refused".into())),
            "DynamoDB does not answer, so the table events was not read"
        );
        assert!(
            said(at(), store::Error::Configuration("denied".into()))
                .contains("check --env, --table and the permission")
        );
    }

    #[test]
    fn days_without_a_history_are_counted_as_people_do_it() {
        assert_eq!(nothing("events", 1), "events has no history of today");
        assert_eq!(nothing("events", 7), "events has no history of the last 7 days");
    }
}
