//! The record of a key: how it is looked up, and how it is shown.

use ichido::dynamodb::{DynamoDb, StoredItem};
use ichido::record::{self, Outcome, Record, State};
use ichido::{Key, Timestamp};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Error, failed};
use crate::show;

/// How much of a value of the application's own is shown.
const SHOWN_CHARS: usize = 100;

/// The store with an application's records, and the name of its table.
pub(crate) fn store(
    context: &Context<'_>,
    application: Application,
    table: Option<&str>,
) -> Result<(String, DynamoDb), Error> {
    let table = context.table_name(table, application.table())?;
    let store = DynamoDb::new(context.aws.dynamodb(), application.records(&table));
    Ok((table, store))
}

/// Reads what is stored under a key.
pub(crate) async fn look(store: &DynamoDb, table: &str, key: &str) -> Result<Option<StoredItem>, Error> {
    let key = Key::stored(key).map_err(|error| Error::Refused(error.to_string()))?;
    store.look(&key).await.map_err(|error| {
        failed(
            format!("could not read the table {table}; check --env, --table and the permission dynamodb:GetItem"),
            error,
        )
    })
}

/// What the state of a record means.
pub(crate) fn in_words(record: &Record, now: Timestamp) -> String {
    if record.is_expired(now) {
        return "expired: counts as absent".to_owned();
    }
    match &record.state {
        State::Claimed { lease_until } if *lease_until <= now => {
            format!("the lease ended {}; the next worker takes it over", show::relative(*lease_until, now))
        }
        State::Claimed { lease_until } => format!("the lease ends {}", show::relative(*lease_until, now)),
        State::Completed { outcome } => match outcome_bytes(outcome) {
            Some(bytes) => format!("outcome of {bytes} bytes"),
            None if *outcome == Outcome::NotKept => "the outcome was too large to be kept".to_owned(),
            None if *outcome == Outcome::Foreign => {
                "done by the system before this one, which wrote the item".to_owned()
            }
            None => "no outcome".to_owned(),
        },
        State::Failed { reason } => show::one_line(reason, SHOWN_CHARS),
        State::Released { reason, uncertain } => {
            let doubt = if *uncertain { "the effect may have happened; " } else { "" };
            format!("{doubt}{}", show::one_line(reason, SHOWN_CHARS))
        }
    }
}

/// Whether an earlier system wrote the item. Then nobody knows when, or who.
pub(crate) fn is_foreign(record: &Record) -> bool {
    matches!(record.state, State::Completed { outcome: Outcome::Foreign })
}

fn outcome_bytes(outcome: &Outcome) -> Option<usize> {
    match outcome {
        Outcome::Value(json) => Some(json.len()),
        _ => None,
    }
}

pub(crate) fn print(
    context: &mut Context<'_>,
    application: Application,
    found: &StoredItem,
    now: Timestamp,
) -> Result<(), Error> {
    context.line(format_args!("{}  {}", application.name(), found.key))?;
    let mut put = |name: &str, value: String| context.line(format_args!("  {name:<19} {value}"));
    match &found.record {
        Ok(record) => {
            put("state", format!("{}: {}", record.state.name(), in_words(record, now)))?;
            let ours = !is_foreign(record);
            if ours {
                put("owner", record.owner.as_str().to_owned())?;
            }
            if let State::Claimed { lease_until } = record.state {
                put("lease ends at", format!("{lease_until} ({})", show::relative(lease_until, now)))?;
            }
            if ours {
                put("attempts", format!("{} (the fence)", record.fence))?;
                put("changed at", format!("{} ({})", record.updated_at, show::relative(record.updated_at, now)))?;
            }
            let expires = record.expires_at.map(|at| format!("{at} ({})", show::relative(at, now)));
            put("expires at", expires.unwrap_or_else(|| "never".to_owned()))?;
        }
        // An item that is not a record: an entry of a feed, an account.
        Err(record::Error::Missing(_)) => {
            put("state", "not a record of a claim, but an item of the application itself".into())?
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

pub(crate) fn as_json(application: Application, found: &StoredItem, now: Timestamp) -> Value {
    let mut shown = json!({
        "application": application.name(), "key": found.key.as_str(), "attributes": found.attributes,
    });
    match &found.record {
        Ok(record) => {
            shown["state"] = json!(record.state.name());
            if is_foreign(record) {
                shown["foreign"] = json!(true);
            } else {
                shown["owner"] = json!(record.owner.as_str());
                shown["attempts"] = json!(record.fence);
                shown["changedAt"] = json!(record.updated_at.to_string());
                shown["ageSeconds"] = json!(now.since(record.updated_at).as_secs());
            }
            shown["expiresAt"] = json!(record.expires_at.map(|at| at.to_string()));
            shown["expired"] = json!(record.is_expired(now));
            match &record.state {
                State::Claimed { lease_until } => {
                    shown["leaseUntil"] = json!(lease_until.to_string());
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

/// A record in one line.
pub(crate) fn summary(application: Application, found: &StoredItem, now: Timestamp) -> String {
    match &found.record {
        Ok(record) if is_foreign(record) => format!("{}: {}", record.state.name(), in_words(record, now)),
        Ok(record) => format!(
            "{}: {}; {} attempts, changed {}",
            record.state.name(),
            in_words(record, now),
            record.fence,
            show::relative(record.updated_at, now)
        ),
        Err(record::Error::Missing(_)) => {
            let own = application.summary_attributes().iter();
            let own = own.filter_map(|name| Some(format!("{name} {}", plain(found.attributes.get(*name)?))));
            own.collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("unreadable: {error}"),
    }
}
