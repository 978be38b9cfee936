//! `ichidoctl trace KEY`: shows what happened to one event, from its request to its effect, across functions.
//!
//! The log lines that name the key lead to their traces. The lines of these traces name further keys (an event names its
//! files). The records and dead letters of all these keys belong to the story. Logs and records that have expired are
//! not shown.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use ichido::dynamodb::StoredItem;
use ichido::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, failed};
use crate::dead_letter::{self, Letter};
use crate::outside::logs::{self, Line};
use crate::{record, show};

/// How many traces of one key are followed. For an event that was repeated more often, search the logs themselves.
const MOST_TRACES: usize = 20;
/// How many records are read per table.
const MOST_KEYS: usize = 50;
/// The fields of a log line that name a key.
const KEY_FIELDS: [&str; 2] = ["eventKey", "entryId"];

#[derive(Debug, Args)]
#[command(
    after_help = "KEY is anything that names the event: Slack's event id, the id of a feed's entry, the idempotency key of a transfer, a stored key, a request id or a trace id.

Examples:
  ichidoctl trace Ev08ABCDEF --env prod
  ichidoctl trace lunch-1 --since 2d --endpoint-url http://127.0.0.1:8787

Exit code 1 if nothing is known about it, or if it became a dead letter."
)]
pub struct Trace {
    /// Anything that names the event
    pub key: String,
    /// How far back to search the logs: 30m, 24h, 7d
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = age)]
    pub since: Duration,
}

/// Reads `30m`, `24h` or `7d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not an age; write 30m, 24h or 7d");
    let (at, unit) = text.char_indices().last().ok_or_else(refused)?;
    let number: u64 = text[..at].parse().map_err(|_| refused())?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(refused()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(refused)
}

/// Everything that is known about the event.
struct Story {
    lines: Vec<Line>,
    /// Whether all lines of the time were read.
    whole: bool,
    records: Vec<(Application, StoredItem)>,
    letters: Vec<Letter>,
    /// Why some dead letters could not be read.
    unread: Vec<Error>,
}

impl Trace {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let story = self.story(context).await?;
        let now = SystemClock.now();
        let known = !(story.lines.is_empty() && story.records.is_empty() && story.letters.is_empty());
        if context.json() {
            let lines: Vec<&Value> = story.lines.iter().map(|line| &line.fields).collect();
            let records: Vec<Value> =
                story.records.iter().map(|(application, found)| record::as_json(*application, found, now)).collect();
            context
                .value(&json!({"key": self.key, "lines": lines, "records": records, "deadLetters": story.letters, "whole": story.whole}))?;
        } else if !known {
            context.line(format_args!(
                "nothing is known about {}: it is not in the logs of the last {}, in no table and in no queue; --since searches further back",
                self.key,
                show::age(self.since)
            ))?;
        } else {
            self.show(context, &story)?;
        }
        Ok(if known && story.letters.is_empty() { Ended::Well } else { Ended::NeedsAttention })
    }

    fn show(&self, context: &mut Context<'_>, story: &Story) -> Result<(), Error> {
        let now = SystemClock.now();
        for line in &story.lines {
            context.line(line.for_people())?;
        }
        if story.lines.is_empty() {
            context.line(format_args!(
                "no log line of the last {} names it; --since searches further back",
                show::age(self.since)
            ))?;
        }
        if !story.whole {
            context.line(
                "there are more lines than were read, and the newest are missing; a shorter --since shows them",
            )?;
        }
        context.line("records:")?;
        for (application, found) in &story.records {
            let summary = record::summary(*application, found, now);
            context.line(format_args!("  {}  {}  {summary}", application.name(), found.key))?;
        }
        if story.records.is_empty() {
            context.line("  none, or expired")?;
        }
        for letter in &story.letters {
            context.line(format_args!(
                "dead letter: {}  {}  {} {} (`ichidoctl dead-letters show {} {}`)",
                letter.application, letter.id, letter.what, letter.reason, letter.application, letter.id
            ))?;
        }
        for error in &story.unread {
            context.line(format_args!("there may be more dead letters: {}", telemetry::causes(error)))?;
        }
        Ok(())
    }

    async fn story(&self, context: &Context<'_>) -> Result<Story, Error> {
        let functions: Vec<&str> =
            Application::ALL.iter().flat_map(|application| application.functions()).copied().collect();
        let logs::Found { lines: named, mut whole } =
            logs::find(context, &functions, &self.key, logs::since(self.since)).await?;
        let traces: BTreeSet<String> =
            named.iter().filter_map(|line| line.text("traceId")).map(str::to_owned).collect();
        let mut lines = Vec::new();
        for trace in traces.iter().take(MOST_TRACES) {
            let of_trace = logs::find(context, &functions, trace, logs::since(self.since)).await?;
            lines.extend(of_trace.lines);
            whole &= of_trace.whole;
        }
        lines.extend(named.into_iter().filter(|line| line.text("traceId").is_none_or(|id| !traces.contains(id))));
        let lines = of_this(&self.key, lines);

        let mut records = Vec::new();
        let mut wanted: BTreeSet<&str> = BTreeSet::from([self.key.as_str()]);
        wanted.extend(lines.iter().flat_map(|line| KEY_FIELDS.into_iter().filter_map(|name| line.text(name))));
        for application in Application::ALL {
            records.extend(of_table(context, application, &wanted).await?);
        }
        let requests: BTreeSet<&str> = lines.iter().filter_map(|line| line.text("requestId")).collect();
        let all = dead_letter::read(context, &Application::ALL).await?;
        dead_letter::let_go(context, &all.letters).await;
        let unread = all.unread;
        let letters = all.letters.into_iter().filter(|letter| {
            letter.id == self.key
                || requests.contains(letter.id.as_str())
                || letter.payload.to_string().contains(&self.key)
        });
        let letters = letters.collect();
        Ok(Story { lines, whole, records, letters, unread })
    }
}

/// Sorts the lines and leaves out repeated ones. A run over a feed has one trace for all entries, so the lines about other
/// entries are left out too.
fn of_this(key: &str, mut lines: Vec<Line>) -> Vec<Line> {
    let an_entry = lines.iter().any(|line| line.text("entryId") == Some(key));
    if an_entry {
        // Inside a key, `#` separates parts, so the entry's own `#` is escaped there.
        let part = ichido::key::escape(key);
        let of_it = |stored: &str| stored == key || stored.split('#').any(|other| other == part);
        lines.retain(|line| line.text("entryId").is_none_or(|id| id == key) && line.text("eventKey").is_none_or(of_it));
    }
    lines.sort_by_key(|line| line.at);
    lines.dedup_by(|a, b| a.fields == b.fields);
    lines
}

/// The records under these keys in an application's table; none if the application is not deployed.
async fn of_table(
    context: &Context<'_>,
    application: Application,
    wanted: &BTreeSet<&str>,
) -> Result<Vec<(Application, StoredItem)>, Error> {
    let (_, store) = record::store(context, application, None)?;
    let mut found = Vec::new();
    for key in wanted.iter().take(MOST_KEYS) {
        let Ok(key) = ichido::Key::stored(key) else { continue };
        match store.look(&key).await {
            Ok(here) => found.extend(here.map(|here| (application, here))),
            Err(ichido::store::Error::Configuration(_)) => break,
            Err(error) => {
                let table = application.table();
                return Err(failed(
                    format!("could not read the table {table}; check --env and the permission dynamodb:GetItem"),
                    error,
                ));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ms: u64, fields: Value) -> Line {
        Line { at: ichido::Timestamp::from_millis(ms), fields }
    }

    #[test]
    fn ages_are_understood_and_nonsense_is_not() {
        assert_eq!(age("30m"), Ok(Duration::from_secs(1_800)));
        assert_eq!(age("7d"), Ok(Duration::from_secs(604_800)));
        for nonsense in ["", "d", "7", "7 days", "-1h", "1é"] {
            assert!(age(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn lines_about_other_entries_of_the_same_run_are_not_of_this_story() {
        let lines = vec![
            line(2, json!({"message": "delivered entry b to mastodon", "entryId": "b"})),
            line(3, json!({"message": "checked DELIVERY#mastodon#a: new (absent)", "eventKey": "DELIVERY#mastodon#a"})),
            line(1, json!({"message": "delivered entry a to mastodon", "entryId": "a"})),
            line(4, json!({"message": "run of feed github (read): 2 of 2 entries new"})),
            line(5, json!({"message": "checked DELIVERY#mastodon#b: new (absent)", "eventKey": "DELIVERY#mastodon#b"})),
        ];
        let kept: Vec<u64> = of_this("a", lines).iter().map(|line| line.at.as_millis()).collect();
        assert_eq!(kept, [1, 3, 4]);
        let lines = vec![
            line(1, json!({"message": "delivered an entry to mastodon", "entryId": "https://b.example/1#bookmark"})),
            line(2, json!({"eventKey": "DELIVERY#mastodon#https://b.example/1%23bookmark"})),
            line(3, json!({"eventKey": "DELIVERY#mastodon#https://b.example/11%23bookmark"})),
        ];
        assert_eq!(of_this("https://b.example/1#bookmark", lines).len(), 2, "its separator is escaped in a key");
    }

    #[test]
    fn an_events_files_are_of_its_story() {
        let lines = vec![
            line(1, json!({"eventKey": "Ev1", "traceId": "t"})),
            line(2, json!({"eventKey": "FILE#T#C#1#F1", "traceId": "t"})),
            line(2, json!({"eventKey": "FILE#T#C#1#F1", "traceId": "t"})),
        ];
        assert_eq!(of_this("Ev1", lines).len(), 2);
    }
}
