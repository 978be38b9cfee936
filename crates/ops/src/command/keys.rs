//! `ichidoctl keys`: what is known of a key, and giving a claim back whose holder will not come again.
//!
//! Promise: a release changes only the claim that was shown (its owner and its fence), never its successor's; it says in
//! the record that it was done by hand, and leaves the record in doubt, so that the next holder asks its probe first.

use clap::{Args, Subcommand, ValueEnum};
use ichido::dynamodb::{DynamoDb, Found, Wanted};
use ichido::record::{self, Outcome, Record, State};
use ichido::store::{Settle, Settled, Transition};
use ichido::{Clock as _, Key, Store as _, SystemClock, Timestamp};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, failed};
use crate::show;

/// Records that a list shows, unless told otherwise.
const LISTED: usize = 50;
/// Items that a list looks at, unless told otherwise: a scan is paid for by the item.
const EXAMINED: usize = 10_000;
/// How much of a value of the application's own is shown.
const SHOWN_CHARS: usize = 100;

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// What is known of one key: state, owner, lease, attempts, age, outcome's size
    #[command(
        after_help = "A key is given as it is stored; `keys list` and the field eventKey of the logs have it.\n\nExample:\n  ichidoctl keys show slack Ev08ABCDEF --env prod\n  ichidoctl keys show github 'DELIVERY#mastodon#tag:github.com,2008:PushEvent/1' --env prod\n  ichidoctl keys show slack Ev08ABCDEF --endpoint-url http://127.0.0.1:8787 --json\n\nExit code 1 if there is no such key."
    )]
    Show(One),
    /// Keys in a table, those of a state or with a prefix
    #[command(
        after_help = "Example:\n  ichidoctl keys list slack --state claimed --env prod\n  ichidoctl keys list tokens --prefix 'IDEMPOTENCY#did:example:alice' --endpoint-url http://127.0.0.1:8787"
    )]
    List(List),
    /// Give a claim back, so that somebody else may try at once instead of after its lease
    #[command(
        after_help = "Only for a worker that is certainly gone: one that lives and is only slow would do its work beside the next one. It asks, unless --yes. \
                      If the claim was taken over since it was shown, nothing is changed.\n\nExample:\n  ichidoctl keys release slack 'FILE#T1#C1#1700000000.000100#F1' --reason 'the instance was stopped' --env prod"
    )]
    Release(Release),
}

#[derive(Debug, Args)]
pub struct One {
    /// Whose key
    #[arg(value_enum)]
    pub application: Application,
    /// The key as it is stored
    pub key: String,
    /// The table, if it does not bear the environment's name
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct List {
    /// Whose keys
    #[arg(value_enum)]
    pub application: Application,
    /// Only those in this state
    #[arg(long, value_enum)]
    pub state: Option<Wish>,
    /// Only those that begin so
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    /// Show so many at most
    #[arg(long, value_name = "N", default_value_t = LISTED)]
    pub limit: usize,
    /// Look at so many items at most: a scan is paid for by the item
    #[arg(long, value_name = "N", default_value_t = EXAMINED)]
    pub examine: usize,
    /// The table, if it does not bear the environment's name
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    pub one: One,
    /// Only if its fence is still this one (`keys show` has it)
    #[arg(long, value_name = "N")]
    pub fence: Option<u64>,
    /// Why; it is kept with the record
    #[arg(long, default_value = "no reason given")]
    pub reason: String,
}

/// A state to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wish {
    Claimed,
    Completed,
    Failed,
    Released,
}

impl Wish {
    fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }
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

/// The records of an application.
pub(super) fn store(
    context: &Context<'_>,
    application: Application,
    table: Option<&str>,
) -> Result<(String, DynamoDb), Error> {
    let table = context.table_name(table, application.table())?;
    let store = DynamoDb::new(context.aws.dynamodb(), application.records(&table));
    Ok((table, store))
}

/// What is under a key; an error says what to do.
pub(super) async fn look(store: &DynamoDb, table: &str, key: &str) -> Result<Option<Found>, Error> {
    let key = Key::stored(key).map_err(|error| Error::Refused(error.to_string()))?;
    store.look(&key).await.map_err(|error| {
        failed(
            format!("the table {table} could not be read; check --env, --table and the permission dynamodb:GetItem"),
            error,
        )
    })
}

impl One {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let (table, store) = store(context, self.application, self.table.as_deref())?;
        let now = SystemClock.now();
        let Some(found) = look(&store, &table, &self.key).await? else {
            if context.json() {
                context.value(&Value::Null)?;
            } else {
                context.line(format_args!("{}: no such key in {table}: never seen, or its time is over", self.key))?;
            }
            return Ok(Ended::Found);
        };
        if context.json() {
            context.value(&as_json(self.application, &found, now))?;
        } else {
            show(context, self.application, &found, now)?;
        }
        Ok(Ended::Well)
    }
}

impl List {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let (table, store) = store(context, self.application, self.table.as_deref())?;
        let now = SystemClock.now();
        let wanted = Wanted { prefix: &self.prefix, state: self.state.map(Wish::name) };
        let seen = store.look_through(wanted, self.limit.max(1), self.examine.max(1)).await.map_err(|error| {
            failed(
                format!("the table {table} could not be read; check --env, --table and the permission dynamodb:Scan"),
                error,
            )
        })?;
        if context.json() {
            let keys: Vec<Value> = seen.found.iter().map(|found| as_json(self.application, found, now)).collect();
            context.value(&json!({ "keys": keys, "examined": seen.examined, "whole": seen.whole }))?;
            return Ok(Ended::Well);
        }
        let rows: Vec<[String; 5]> = seen
            .found
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
            context.line(format_args!("no such keys among the {} items of {table}", seen.examined))?;
        } else {
            show::table(context, ["STATE", "ATTEMPTS", "AGE", "", "KEY"], &rows)?;
        }
        if !seen.whole {
            context.line(format_args!(
                "… there may be more: {} items were looked at; --prefix, --state, --limit and --examine say which and how many",
                seen.examined
            ))?;
        }
        Ok(Ended::Well)
    }
}

impl Release {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let One { application, key, table } = &self.one;
        let (table, store) = store(context, *application, table.as_deref())?;
        let found = look(&store, &table, key).await?;
        let found =
            found.ok_or_else(|| Error::Refused(format!("{key} is not in {table}: there is nothing to release")))?;
        let record = found.record.as_ref().map_err(|error| Error::Refused(error.to_string()))?;
        let State::Claimed { .. } = record.state else {
            return Err(Error::Refused(format!("{key} is {}; only a claim can be released", record.state.name())));
        };
        if let Some(fence) = self.fence.filter(|fence| *fence != record.fence) {
            return Err(Error::Refused(format!(
                "{key} has fence {} by now, not {fence}: somebody else claimed it; nothing was changed",
                record.fence
            )));
        }
        if !context.json() {
            show(context, *application, &found, SystemClock.now())?;
        }
        context.confirm(&format!(
            "Release this claim (fence {})? Whoever holds it must be gone for good.",
            record.fence
        ))?;
        let by = std::env::var("USER").unwrap_or_else(|_| "somebody".to_owned());
        let reason = format!("released by hand by {by}: {}", self.reason);
        let settle = Settle {
            key: &found.key,
            owner: record.owner.clone(),
            fence: record.fence,
            now: SystemClock.now(),
            to: Transition::Release { reason: reason.clone(), uncertain: true },
            expires_at: record.expires_at,
        };
        let settled = store.settle(&settle).await;
        let settled = settled.map_err(|error| {
            failed(format!("{key} could not be released; look with `ichidoctl keys show` whether it was"), error)
        })?;
        match settled {
            Settled::Done => {}
            Settled::Lost(_) => {
                return Err(Error::Refused(format!(
                    "{key} was settled or claimed anew since it was shown; nothing was changed"
                )));
            }
        }
        context.log(&json!({
            "level": "WARN", "message": "a claim was released by hand", "eventKey": key, "table": table,
            "fence": record.fence, "owner": record.owner.as_str(), "reason": self.reason, "by": by,
        }))?;
        if context.json() {
            context.value(&json!({ "key": key, "released": true, "fence": record.fence, "reason": reason }))?;
        } else {
            context.line(format_args!(
                "released: the next attempt at {key} may claim it at once, and asks its probe first"
            ))?;
        }
        Ok(Ended::Well)
    }
}

/// What the state means for whoever looks.
fn in_words(record: &Record, now: Timestamp) -> String {
    if record.is_expired(now) {
        return "over: counts as absent".to_owned();
    }
    match &record.state {
        State::Claimed { lease_until } if *lease_until <= now => {
            format!("lease ended {}: may be taken over", show::relative(*lease_until, now))
        }
        State::Claimed { lease_until } => format!("leased, ends {}", show::relative(*lease_until, now)),
        State::Completed { outcome } => match outcome_bytes(outcome) {
            Some(bytes) => format!("outcome of {bytes} bytes"),
            None if *outcome == Outcome::NotKept => "outcome too large to be kept".to_owned(),
            None => "no outcome".to_owned(),
        },
        State::Failed { reason } => show::one_line(reason, SHOWN_CHARS),
        State::Released { reason, uncertain } => {
            let doubt = if *uncertain { "may have been done; " } else { "" };
            format!("{doubt}{}", show::one_line(reason, SHOWN_CHARS))
        }
    }
}

fn outcome_bytes(outcome: &Outcome) -> Option<usize> {
    match outcome {
        Outcome::Value(json) => Some(json.len()),
        Outcome::NotKept | Outcome::Nothing => None,
    }
}

fn show(context: &mut Context<'_>, application: Application, found: &Found, now: Timestamp) -> Result<(), Error> {
    context.line(format_args!("{}  {}", application.name(), found.key))?;
    let mut put = |name: &str, value: String| context.line(format_args!("  {name:<19} {value}"));
    match &found.record {
        Ok(record) => {
            put("state", format!("{}: {}", record.state.name(), in_words(record, now)))?;
            put("owner", record.owner.as_str().to_owned())?;
            if let State::Claimed { lease_until } = record.state {
                put("lease until", format!("{} ({})", show::moment(lease_until), show::relative(lease_until, now)))?;
            }
            put("attempts", format!("{} (its fence)", record.fence))?;
            put(
                "changed",
                format!("{} ({})", show::moment(record.updated_at), show::relative(record.updated_at, now)),
            )?;
            let kept = record.expires_at.map_or_else(
                || "for ever".to_owned(),
                |at| format!("{} ({})", show::moment(at), show::relative(at, now)),
            );
            put("kept until", kept)?;
        }
        // A feed's entry, an account: what belongs to the application alone.
        Err(record::Error::Missing(_)) => {
            put("state", "not a record of the library; the application's own item".into())?
        }
        Err(error) => put("state", format!("unreadable: {error}"))?,
    }
    for (name, value) in &found.attributes {
        put(name, plain(value))?;
    }
    Ok(())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => show::one_line(text, SHOWN_CHARS),
        other => show::one_line(&other.to_string(), SHOWN_CHARS),
    }
}

pub(super) fn as_json(application: Application, found: &Found, now: Timestamp) -> Value {
    let mut shown = json!({
        "application": application.name(), "key": found.key.as_str(), "attributes": found.attributes,
    });
    match &found.record {
        Ok(record) => {
            shown["state"] = json!(record.state.name());
            shown["owner"] = json!(record.owner.as_str());
            shown["attempts"] = json!(record.fence);
            shown["changedAt"] = json!(show::moment(record.updated_at));
            shown["ageSeconds"] = json!(now.since(record.updated_at).as_secs());
            shown["expiresAt"] = json!(record.expires_at.map(show::moment));
            shown["expired"] = json!(record.is_expired(now));
            match &record.state {
                State::Claimed { lease_until } => {
                    shown["leaseUntil"] = json!(show::moment(*lease_until));
                    shown["leaseEnded"] = json!(*lease_until <= now);
                }
                State::Completed { outcome } => shown["outcomeBytes"] = json!(outcome_bytes(outcome)),
                State::Failed { reason } => shown["reason"] = json!(reason),
                State::Released { reason, uncertain } => {
                    shown["reason"] = json!(reason);
                    shown["uncertain"] = json!(uncertain);
                }
            }
        }
        Err(record::Error::Missing(_)) => {}
        Err(error) => shown["unreadable"] = json!(error.to_string()),
    }
    shown
}

/// One line of it, for `trace`.
pub(super) fn summary(found: &Found, now: Timestamp) -> String {
    match &found.record {
        Ok(record) => format!(
            "{}: {}; attempts {}, changed {}",
            record.state.name(),
            in_words(record, now),
            record.fence,
            show::relative(record.updated_at, now)
        ),
        Err(record::Error::Missing(_)) => {
            let own = ["state", "deliveries", "status", "reason"];
            let own = own.iter().filter_map(|name| Some(format!("{name} {}", plain(found.attributes.get(*name)?))));
            own.collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("unreadable: {error}"),
    }
}
