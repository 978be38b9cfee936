//! `ichidoctl keys`: shows records, and releases the claim of a worker that is gone.
//!
//! Promise: a release changes only the record that was shown, never that of a successor. The record then says that an
//! operator released it. It also says that the effect may have happened, so that the next holder asks its probe first,
//! unless the operator has looked (`--not-done`).

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use ichido::dynamodb::Wanted;
use ichido::record::{Record, State};
use ichido::store::Settled;
use ichido::{Clock as _, StateKind, SystemClock};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, Why, failed, unclear};
use crate::operation::{self, Intent};
use crate::record::{self, as_json, in_words, look, store};
use crate::show;

/// How many records `keys list` shows by default.
const LISTED: usize = 50;
/// How many items `keys list` reads by default: AWS charges for each.
const EXAMINED: usize = 10_000;

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Show the record of one key: state, owner, lease, attempts, age, size of the outcome
    #[command(after_help = "Give the key as it is stored: `keys list` shows it, and log lines have it as eventKey.

Examples:
  ichidoctl keys show slack Ev08ABCDEF --env prod
  ichidoctl keys show github 'DELIVERY#mastodon#tag:github.com,2008:PushEvent/1' --env prod
  ichidoctl keys show slack Ev08ABCDEF --endpoint-url http://127.0.0.1:8787 --json

Exit code 1 if there is no such key.")]
    Show(One),
    /// List the keys in a table, by state or by prefix
    #[command(after_help = "Examples:
  ichidoctl keys list slack --state claimed --env prod
  ichidoctl keys list tokens --prefix 'IDEMPOTENCY#did:example:alice' --endpoint-url http://127.0.0.1:8787")]
    List(List),
    /// Release a claim, so that the next worker need not wait for the end of the lease
    #[command(
        after_help = "Only for a worker that is certainly gone. If it is only slow, it and the next worker do the work at the same time.
It asks first, unless --yes is given. If another worker took over the claim in the meantime, nothing is changed.

Example:
  ichidoctl keys release slack 'FILE#T1#C1#1700000000.000100#F1' --reason 'the instance was stopped' --env prod"
    )]
    Release(Release),
}

#[derive(Debug, Args)]
pub struct One {
    /// The application
    #[arg(value_enum)]
    pub application: Application,
    /// The key as it is stored
    pub key: String,
    /// The table, if it is not the environment's own
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct List {
    /// The application
    #[arg(value_enum)]
    pub application: Application,
    /// Only keys in this state
    #[arg(long, value_parser = states())]
    pub state: Option<StateKind>,
    /// Only keys that begin with this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = LISTED)]
    pub limit: usize,
    /// Read at most this many items (AWS charges for each)
    #[arg(long, value_name = "N", default_value_t = EXAMINED)]
    pub examine: usize,
    /// The table, if it is not the environment's own
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    pub one: One,
    /// Release only if the fence is still this number (`keys show` shows it)
    #[arg(long, value_name = "N")]
    pub fence: Option<u64>,
    /// You looked at the destination: the effect did not happen. Without this, the next worker asks its probe first
    #[arg(long)]
    pub not_done: bool,
    #[command(flatten)]
    pub why: Why,
}

/// Reads the name of a state.
fn states() -> impl TypedValueParser<Value = StateKind> {
    PossibleValuesParser::new(StateKind::ALL.map(StateKind::name))
        .try_map(|name| StateKind::named(&name).ok_or("there is no such state"))
}

impl Keys {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Keys::Show(one) => one.run(context).await,
            Keys::List(list) => list.run(context).await,
            Keys::Release(release) => release.run(context).await,
        }
    }
}

impl One {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let (table, store) = store(context, self.application, self.table.as_deref())?;
        let now = SystemClock.now();
        let Some(found) = look(&store, &table, &self.key).await? else {
            if context.json() {
                context.value(&Value::Null)?;
            } else {
                context.line(format_args!(
                    "{} is not in {table}: it was never there, or its record has expired",
                    self.key
                ))?;
            }
            return Ok(Ended::NeedsAttention);
        };
        if context.json() {
            context.value(&as_json(self.application, &found, now))?;
        } else {
            record::print(context, self.application, &found, now)?;
        }
        Ok(Ended::Well)
    }
}

impl List {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let (table, store) = store(context, self.application, self.table.as_deref())?;
        let now = SystemClock.now();
        let wanted = Wanted { prefix: &self.prefix, state: self.state };
        let seen = store.look_through(wanted, self.limit.max(1), self.examine.max(1)).await.map_err(|error| {
            failed(
                format!("could not read the table {table}; check --env, --table and the permission dynamodb:Scan"),
                error,
            )
        })?;
        if context.json() {
            let keys: Vec<Value> = seen.items.iter().map(|found| as_json(self.application, found, now)).collect();
            context.value(&json!({ "keys": keys, "examined": seen.examined, "whole": seen.whole }))?;
            return Ok(Ended::Well);
        }
        let rows: Vec<[String; 5]> = seen
            .items
            .iter()
            .map(|found| match &found.record {
                Ok(record) => [
                    record.state.name().to_owned(),
                    record.fence.to_string(),
                    show::age(now.since(record.updated_at)),
                    in_words(record, now),
                    found.key.as_str().to_owned(),
                ],
                Err(error) => {
                    ["?".to_owned(), String::new(), String::new(), error.to_string(), found.key.as_str().to_owned()]
                }
            })
            .collect();
        if rows.is_empty() {
            context.line(format_args!("found no such key among {} items of {table}", seen.examined))?;
        } else {
            show::table(context, ["STATE", "ATTEMPTS", "AGE", "DETAILS", "KEY"], &rows)?;
        }
        if !seen.whole {
            context.line(format_args!(
                "there may be more keys: {} items were read; narrow the search with --prefix or --state, or raise --limit or --examine",
                seen.examined
            ))?;
        }
        Ok(Ended::Well)
    }
}

/// Whether a record says that its claim with this fence was released for this reason.
fn is_released_for(record: &Record, fence: u64, why: &str) -> bool {
    record.fence == fence && matches!(&record.state, State::Released { reason, .. } if reason == why)
}

impl Release {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let One { application, key, table } = &self.one;
        let (table, store) = store(context, *application, table.as_deref())?;
        let found = look(&store, &table, key).await?;
        let found =
            found.ok_or_else(|| Error::Refused(format!("{key} is not in {table}, so there is nothing to release")))?;
        let record = found.record.as_ref().map_err(|error| Error::Refused(error.to_string()))?;
        let (State::Claimed { .. } | State::Released { uncertain: true, .. }) = record.state else {
            return Err(Error::Refused(format!(
                "{key} is {}; only a claimed key, or one that was released in doubt, can be released",
                record.state.name()
            )));
        };
        if let Some(fence) = self.fence.filter(|fence| *fence != record.fence) {
            return Err(Error::Refused(format!(
                "{key} has fence {} now, not {fence}: it was claimed or released since. Nothing was changed",
                record.fence
            )));
        }
        // A page has shown it already.
        if !context.json() && !context.on_page() {
            record::print(context, *application, &found, SystemClock.now())?;
        }
        let not_done = if self.not_done { " The effect did not happen, so no probe is asked." } else { "" };
        let question =
            format!("Release this claim (fence {})? Its worker must be gone for good.{not_done}", record.fence);
        context.confirm(&question)?;
        let traced = operation::begin(
            context,
            Intent {
                application: *application,
                table: &table,
                what: "release",
                on: key,
                reason: &self.why.reason,
                question: Some(&question),
                before: as_json(*application, &found, SystemClock.now()),
            },
        )
        .await?;
        let reason = format!("released by hand by {}: {}", traced.by(), self.why.reason);
        let settled = store.release(&found.key, record, SystemClock.now(), &reason, !self.not_done).await;
        let released = match settled {
            Ok(Settled::Done) => Ok(()),
            // The answer to the first try was lost, and the second one met what the first had written.
            Ok(Settled::Lost(Some(now))) if is_released_for(&now, record.fence, &reason) => Ok(()),
            Ok(Settled::Lost(_)) => Err(Error::Refused(format!(
                "{key} was settled or claimed again after it was shown. Nothing was changed"
            ))),
            Err(error) if error.is_transient() => Err(unclear(
                format!(
                    "no clear answer to the release of {key}; check with `ichidoctl keys show` whether it is released"
                ),
                error,
            )),
            Err(error) => {
                Err(failed(format!("could not release {key}; check the permission dynamodb:UpdateItem"), error))
            }
        };
        let done =
            |_: &()| format!("released the claim on {key} by hand{}", if self.not_done { ", as not done" } else { "" });
        traced.end(context, &released, done).await;
        released?;
        if context.json() {
            context.value(&json!({ "key": key, "released": true, "fence": record.fence, "reason": reason }))?;
        } else {
            let doubt = if self.not_done { "" } else { ", and asks its probe first" };
            context.line(format_args!("released {key}: the next worker can claim it at once{doubt}"))?;
        }
        Ok(Ended::Well)
    }
}

#[cfg(test)]
mod tests {
    use ichido::record::Owner;

    use super::*;

    #[test]
    fn a_release_whose_answer_was_lost_is_known_by_its_fence_and_its_reason() {
        let released = |reason: &str, fence| {
            let state = State::Released { reason: reason.to_owned(), uncertain: true };
            Record::new(state, Owner::random(), fence, SystemClock.now())
        };
        assert!(is_released_for(&released("by olga: gone", 3), 3, "by olga: gone"));
        assert!(!is_released_for(&released("by olga: gone", 4), 3, "by olga: gone"));
        assert!(!is_released_for(&released("by oleg: gone", 3), 3, "by olga: gone"));
        let claimed = State::Claimed { lease_until: SystemClock.now() };
        assert!(!is_released_for(&Record::new(claimed, Owner::random(), 3, SystemClock.now()), 3, "by olga: gone"));
    }
}
