//! The record of a key, as the contract shows it.

use ichido::Timestamp;
use ichido::dynamodb::StoredItem;
use ichido::record::{Outcome, State};
use serde_json::Value;

use crate::contract::Record;
use crate::life::namespace_of;

/// A stored item as a record; `None` if it is an item of the application's own. `namespace`: of keys without a prefix.
/// `with_outcome`: whether the outcome itself may be shown.
pub fn shown(
    application: &str,
    namespace: Option<&str>,
    found: &StoredItem,
    now: Timestamp,
    with_outcome: bool,
) -> Option<Record> {
    let record = found.record.as_ref().ok()?;
    let key = found.key.as_str();
    let foreign = matches!(record.state, State::Completed { outcome: Outcome::Foreign });
    let mut shown = Record {
        application: application.to_owned(),
        namespace: match key.contains('#') {
            true => namespace_of(None, key),
            false => namespace_of(namespace, key),
        }
        .to_owned(),
        key: key.to_owned(),
        state: record.state.name().to_owned(),
        words: words(&record.state, now),
        expires_at: record.expires_at.map(|at| at.to_string()),
        expired: record.is_expired(now),
        attributes: found.attributes.clone().into_iter().collect(),
        ..Record::default()
    };
    if !foreign {
        shown.owner = Some(record.owner.as_str().to_owned());
        shown.fence = Some(record.fence);
        shown.changed_at = Some(record.updated_at.to_string());
    }
    match &record.state {
        State::Claimed { lease_until } => shown.lease_until = Some(lease_until.to_string()),
        State::Completed { outcome: Outcome::Value(json) } => {
            shown.outcome_bytes = Some(json.len() as u64);
            shown.outcome = with_outcome.then(|| serde_json::from_str(json).unwrap_or(Value::Null));
        }
        _ => {}
    }
    if shown.expired {
        shown.words = "expired: counts as absent".to_owned();
    }
    Some(shown)
}

fn words(state: &State, now: Timestamp) -> String {
    match state {
        State::Claimed { lease_until } if *lease_until <= now => {
            format!("the lease ended at {lease_until}; the next worker takes it over")
        }
        State::Claimed { lease_until } => format!("a worker holds it until {lease_until}"),
        State::Completed { outcome: Outcome::Value(json) } => format!("outcome of {} bytes", json.len()),
        State::Completed { outcome: Outcome::NotKept } => "the outcome was too large to be kept".to_owned(),
        State::Completed { outcome: Outcome::Foreign } => "done by the system before this one".to_owned(),
        State::Completed { .. } => "no outcome".to_owned(),
        State::Failed { reason } => format!("it failed for good: {reason}"),
        State::Released { reason, uncertain: true } => format!("the effect may have happened: {reason}"),
        State::Released { reason, .. } => reason.clone(),
    }
}
