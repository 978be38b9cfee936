//! `ichidoctl restore`: copies into a table what it lost, from a copy of it that shows an earlier time.
//!
//! DynamoDB restores into a new table. The table of the stack keeps its name, its settings and what it has: only items that it
//! lacks are added. Nobody may write meanwhile, and the command refuses to work while somebody can.

use clap::{Args, ValueEnum as _};
use feeds::table::{Doubt, Table, restored, supersedes};
use function::operation::PARTLY;
use ichido::{Clock as _, SystemClock, Timestamp};
use serde_json::json;

use crate::applications::{Application, Restoring};
use crate::command::schedules;
use crate::context::{Context, Ended, Environment, Error, Why, failed, partly};
use crate::operation::{self, Intent};
use crate::restoring::{Comparison, Kind, Tables, Written};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl restore github --from masutaka-feed-github-state-restored --env prod --plan     compares, and changes nothing
  ichidoctl restore github --from masutaka-feed-github-state-restored --env prod
  ichidoctl restore tokens --from tokens-ledger-restored --replace --env prod
  ichidoctl restore tokens --from tokens-ledger-restored --copy-of tokens-ledger --env prod

docs/restoring.md says what comes before and after. It asks first, unless --yes is given. Running it again has no further
effect.")]
pub struct Restore {
    /// The application whose table lost something
    #[arg(value_enum)]
    pub application: Application,
    /// The table with the copy, which DynamoDB restored from a backup
    #[arg(long, value_name = "TABLE")]
    pub from: String,
    /// The table of which it is a copy. Needed only if DynamoDB does not know it
    #[arg(long, value_name = "TABLE")]
    pub copy_of: Option<String>,
    /// The time that the copy shows (2026-01-31T12:00:00Z). If DynamoDB knows another one, the earlier of the two counts
    #[arg(long, value_name = "TIME")]
    pub at: Option<jiff::Timestamp>,
    /// Make the whole table as the copy shows it: replaces what differs and deletes what is newer. For tokens only
    #[arg(long)]
    pub replace: bool,
    /// Only compare
    #[arg(long)]
    pub plan: bool,
    #[command(flatten)]
    pub why: Why,
}

impl Restore {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let name = self.application.name();
        let restoring = self.application.restoring();
        match (restoring, self.replace) {
            (Restoring::Never, _) => {
                return Err(Error::Refused(format!(
                    "the table of {name} is not restored: everything in it expires within the hour; its clients begin again"
                )));
            }
            (Restoring::Add | Restoring::AddInDoubt, true) => {
                return Err(Error::Refused(format!(
                    "--replace would delete what {name} has done since, and do it again; leave it out"
                )));
            }
            _ => {}
        }
        let now = SystemClock.now();
        let (tables, known) = self.tables(context).await?;
        let shows = earlier(self.at, known, now)?;
        let doubt = match (restoring, shows) {
            (Restoring::AddInDoubt, Some(since)) => Some(Doubt { since, until: now }),
            (Restoring::AddInDoubt, None) => {
                return Err(Error::Refused(format!(
                    "DynamoDB does not say which time {} shows; say it with --at 2026-01-31T12:00:00Z",
                    self.from
                )));
            }
            _ => None,
        };
        let found = tables.compare(self.replace, now).await?;
        if !context.json() {
            show(context, &tables, &found)?;
        }
        if self.replace && found.same + found.missing.count + found.different.count == 0 {
            return Err(Error::Refused(format!(
                "{} has nothing that could be kept, so --replace would only delete; check the time of the copy",
                self.from
            )));
        }
        if self.plan {
            if context.json() {
                context.value(&found)?;
            }
            return Ok(Ended::Well);
        }
        refuse_unless_stopped(context, self.application).await?;
        let question = if self.replace {
            format!(
                "Add {}, replace {} and delete {} items of {}?",
                found.missing.count, found.different.count, found.newer.count, tables.table
            )
        } else {
            format!("Add {} items to {}?", found.missing.count, tables.table)
        };
        context.confirm(&question)?;
        // The question may have waited for hours.
        refuse_unless_stopped(context, self.application).await?;
        let intent = Intent {
            application: self.application,
            table: &tables.table,
            what: "restore",
            on: &tables.table,
            reason: &self.why.reason,
            question: Some(&question),
            before: json!({ "from": self.from, "shows": shows.map(|at| at.to_string()), "replace": self.replace, "found": found }),
        };
        let traced = operation::begin(context, intent).await?;
        let by = traced.by().to_owned();
        let result = self.write(context, &tables, doubt, now).await;
        traced.end(context, &result, |written| said(&tables, written)).await;
        let written = result?;
        let others = written.changed_meanwhile.count;
        context.log(&json!({
            "level": if others == 0 { "INFO" } else { "ERROR" },
            "message": format!("ichidoctl restore wrote items of {} from {}", tables.table, self.from),
            "table": tables.table, "from": self.from, "by": by, "written": written,
        }))?;
        if context.json() {
            context.value(&json!({ "before": found, "written": written }))?;
        } else {
            context.line(format_args!(
                "added {}, replaced {}, deleted {} items of {}",
                written.added, written.replaced, written.deleted, tables.table
            ))?;
            if others > 0 {
                kind(context, "changed by somebody else meanwhile, and left alone", &written.changed_meanwhile)?;
            }
            context.line(match restoring {
                _ if others > 0 => "it is not done: stop the writers and repeat",
                Restoring::AddOrReplace => "now run `ichidoctl tokens verify`",
                _ => "now run `ichidoctl mend`, which starts again what you stopped",
            })?;
        }
        Ok(if others == 0 { Ended::Well } else { Ended::NeedsAttention })
    }

    /// Writes what is missing or differs, and notes what is in doubt. Nobody knows what was written before an error.
    async fn write(
        &self,
        context: &Context<'_>,
        tables: &Tables,
        doubt: Option<Doubt>,
        now: Timestamp,
    ) -> Result<Written, Error> {
        let as_is: fn(_) -> _ = |item| item;
        let written = if doubt.is_some() {
            tables.write(self.replace, restored, supersedes, now).await
        } else {
            tables.write(self.replace, as_is, |_, _| false, now).await
        };
        let table = &tables.table;
        let stopped = || format!("a part of {table} may be restored; run it again, which goes on where it stopped");
        let written = written.map_err(|error| partly(stopped(), error))?;
        if let Some(doubt) = doubt {
            let noted = note(context, self.application, table, doubt).await;
            let noted = noted.map_err(|error| {
                partly(format!("restored {table}, but could not note what is in doubt; run it again"), error)
            })?;
            if !noted {
                let why =
                    format!("neither {table} nor the copy knows the feed; restore to a time after its first read");
                return Err(partly(
                    format!("restored {table}, but there is no place to note what is in doubt"),
                    Error::Refused(why),
                ));
            }
        }
        Ok(written)
    }

    /// The two tables, and the time that the copy shows if DynamoDB knows it.
    async fn tables(&self, context: &Context<'_>) -> Result<(Tables, Option<jiff::Timestamp>), Error> {
        let client = context.aws.dynamodb();
        let table = context.table_name(None, self.application.table())?;
        if is_in_use(&self.from) {
            return Err(Error::Refused(format!("{} is in use; it is not a copy of {table}", self.from)));
        }
        let describe = async |name: &str| {
            let answer = client.describe_table().table_name(name).send().await.map_err(|error| {
                failed(
                    format!("could not find the table {name}; check --env and the permission dynamodb:DescribeTable"),
                    error,
                )
            })?;
            answer.table.ok_or_else(|| Error::Refused(format!("DynamoDB returned no description of {name}")))
        };
        let (ours, copy) = (describe(&table).await?, describe(&self.from).await?);
        if ours.key_schema() != copy.key_schema() {
            return Err(Error::Refused(format!("{} is not a copy of {table}", self.from)));
        }
        let source = copy.restore_summary().and_then(|summary| summary.source_table_arn());
        let source = source.map(|arn| arn.rsplit_once('/').map_or(arn, |(_, name)| name));
        let sources: Vec<&str> = source.into_iter().chain(self.copy_of.as_deref()).collect();
        if sources.is_empty() {
            return Err(Error::Refused(format!(
                "DynamoDB does not say of which table {} is a copy; if you know it, say it with --copy-of {table}",
                self.from
            )));
        }
        if let Some(other) = sources.iter().find(|source| **source != table) {
            return Err(Error::Refused(format!("{} is a copy of {other}, not of {table}", self.from)));
        }
        let shows = copy.restore_summary().map(|summary| summary.restore_date_time());
        let shows = shows.and_then(|at| jiff::Timestamp::from_second(at.secs()).ok());
        let ttl = client.describe_time_to_live().table_name(&table).send().await.map_err(|error| {
            failed(
                format!("could not read the TTL of {table}; check the permission dynamodb:DescribeTimeToLive"),
                error,
            )
        })?;
        let ttl = ttl.time_to_live_description().and_then(|ttl| ttl.attribute_name()).map(str::to_owned);
        let keys = ours.key_schema().iter().map(|key| key.attribute_name().to_owned()).collect();
        let operations = self.application.operations(&table);
        Ok((Tables { client, table, copy: self.from.clone(), keys, ttl, operations }, shows))
    }
}

/// What a restore did, for its trace.
fn said(tables: &Tables, written: &Written) -> String {
    let Written { added, replaced, deleted, changed_meanwhile } = written;
    let Tables { table, copy, .. } = tables;
    let done = format!("added {added}, replaced {replaced}, deleted {deleted} items of {table} from {copy} by hand");
    match changed_meanwhile.count {
        0 => done,
        // It has to be repeated.
        others => format!("{PARTLY}{done}; somebody else changed {others} meanwhile, which were left alone"),
    }
}

/// Notes what is in doubt, for each feed of the table. Returns whether any feed is known.
async fn note(
    context: &Context<'_>,
    application: Application,
    table: &str,
    doubt: Doubt,
) -> Result<bool, feeds::table::Error> {
    let table = Table::new(context.aws.dynamodb(), table);
    if application != Application::Feeds {
        return table.doubt(doubt).await;
    }
    let mut noted = false;
    for feed in table.feeds().await? {
        noted |= table.of_feed(feed).doubt(doubt).await?;
    }
    Ok(noted)
}

/// Whether a template names this table, in whatever environment.
fn is_in_use(table: &str) -> bool {
    let environments = Environment::value_variants().iter().map(|environment| environment.suffix());
    environments.into_iter().any(|suffix| Application::ALL.iter().any(|of| format!("{}{suffix}", of.table()) == table))
}

/// The earlier of the time that somebody gave and the time that DynamoDB knows: what is doubted for nothing is only looked up.
fn earlier(
    given: Option<jiff::Timestamp>,
    known: Option<jiff::Timestamp>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    let time = |at: jiff::Timestamp| Timestamp::from_millis(u64::try_from(at.as_millisecond()).unwrap_or_default());
    if let Some(given) = given.filter(|given| time(*given) > now) {
        return Err(Error::Refused(format!("{given} is in the future; --at is the time that the copy shows")));
    }
    Ok(given.into_iter().chain(known).min().map(time))
}

/// Refuses while a schedule or a caller can start one of the application's functions.
async fn refuse_unless_stopped(context: &Context<'_>, application: Application) -> Result<(), Error> {
    let suffix = context.suffix()?;
    let mut of_schedules = Vec::new();
    for schedule in schedules::ours(context).await? {
        let function = schedules::function(&schedule);
        if application.functions().iter().any(|name| format!("{name}{suffix}") == function) {
            if schedules::state(&schedule) != "DISABLED" {
                let name = schedule.name().unwrap_or_default();
                return Err(Error::Refused(format!(
                    "the schedule {name} still starts {function}; stop it first: ichidoctl schedules pause {name}"
                )));
            }
            of_schedules.push(function);
        }
    }
    // Where a schedule starts the work, pausing it is enough.
    if !of_schedules.is_empty() {
        return Ok(());
    }
    for function in application.functions().iter().map(|name| format!("{name}{suffix}")) {
        let answer = context.lambda().get_function_concurrency().function_name(&function).send().await;
        let answer = answer.map_err(|error| {
            failed(
                format!("could not find out whether {function} is stopped; check the permission lambda:GetFunctionConcurrency"),
                error,
            )
        })?;
        if answer.reserved_concurrent_executions() != Some(0) {
            return Err(Error::Refused(format!(
                "{function} still runs; stop it first: aws lambda put-function-concurrency --function-name {function} --reserved-concurrent-executions 0"
            )));
        }
    }
    Ok(())
}

fn show(context: &mut Context<'_>, tables: &Tables, found: &Comparison) -> Result<(), Error> {
    let Tables { table, copy, .. } = tables;
    context.line(format_args!("{} items are the same in {table} and {copy}", found.same))?;
    kind(context, &format!("only in {copy}"), &found.missing)?;
    kind(context, "different", &found.different)?;
    kind(context, &format!("only in {table}"), &found.newer)?;
    if found.expired > 0 {
        context.line(format_args!("{} items of {copy} have expired and are not copied", found.expired))?;
    }
    Ok(())
}

fn kind(context: &mut Context<'_>, what: &str, kind: &Kind) -> Result<(), Error> {
    let more = if kind.count > kind.examples.len() as u64 { ", …" } else { "" };
    let keys = if kind.count == 0 { String::new() } else { format!(": {}{more}", kind.examples.join(", ")) };
    context.line(format_args!("{} {what}{keys}", kind.count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_time_counts_and_none_is_in_the_future() {
        let at = |seconds| jiff::Timestamp::from_second(seconds).ok();
        let now = Timestamp::from_secs(100);
        for (given, known, expected) in [
            (at(10), at(20), Some(10)),
            (at(20), at(10), Some(10)),
            (at(20), None, Some(20)),
            (None, at(20), Some(20)),
            (None, None, None),
        ] {
            assert_eq!(earlier(given, known, now).unwrap(), expected.map(Timestamp::from_secs));
        }
        assert!(earlier(at(101), at(10), now).unwrap_err().to_string().contains("in the future"));
    }
}
