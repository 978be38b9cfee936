//! The search for keys in the applications' tables, for both back ends.

use ichido::dynamodb::{DynamoDb, Wanted};
use ichido::{Clock as _, Key, StateKind, SystemClock};

use crate::backend::Failure;
use crate::contract::{KeyQuery, Keys, Record};

/// How many items of a table are read to find keys.
const EXAMINED: usize = 10_000;
/// How many keys are shown, unless somebody wants fewer.
const LISTED: usize = 200;

/// Where an application keeps its records.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name by which the operator's tool knows it.
    pub application: &'static str,
    /// The namespace of its keys that have no prefix.
    pub unprefixed: Option<&'static str>,
    pub store: DynamoDb,
}

/// The records that match, the last changed first. It fails only if no table can be read.
pub async fn keys(places: &[Place], query: &KeyQuery) -> Result<Keys, Failure> {
    let state = match query.state.as_str() {
        "" => None,
        name => Some(StateKind::named(name).ok_or_else(|| {
            let known = StateKind::ALL.map(StateKind::name).join(", ");
            Failure::Refused(format!("there is no state {name:?}; choose one of {known}"))
        })?),
    };
    let applications = places.iter().map(|place| place.application.to_owned()).collect();
    let mut found = Keys { whole: true, applications, ..Keys::default() };
    let now = SystemClock.now();
    let asked = places.iter().filter(|place| query.application.is_empty() || place.application == query.application);
    let mut read = 0;
    for place in asked {
        let wanted = Wanted { prefix: "", state };
        let listing = match place.store.look_through(wanted, EXAMINED, EXAMINED).await {
            Ok(listing) => listing,
            Err(error) => {
                found.unread.push(unreadable(place.application, &error));
                continue;
            }
        };
        read += 1;
        found.examined += listing.examined as u64;
        found.whole &= listing.whole;
        let matching = listing.items.iter().filter(|item| item.key.as_str().contains(&query.text));
        let shown =
            matching.filter_map(|item| crate::record::shown(place.application, place.unprefixed, item, now, false));
        found.keys.extend(shown);
    }
    if read == 0 && !found.unread.is_empty() {
        return Err(Failure::Failed(found.unread.swap_remove(0)));
    }
    found.keys.sort_by(|one, other| other.changed_at.cmp(&one.changed_at).then_with(|| one.key.cmp(&other.key)));
    let most = query.limit.unwrap_or(LISTED).clamp(1, LISTED);
    found.whole &= found.keys.len() <= most && found.unread.is_empty();
    found.keys.truncate(most);
    Ok(found)
}

/// The records of one key, in each table that has one. `namespace` may be an application's name; then only its table is asked.
/// `with_outcome`: whether outcomes may be shown. It fails if a table does not answer, or if none can be read.
pub async fn records(places: &[Place], namespace: &str, key: &str, with_outcome: bool) -> Result<Vec<Record>, Failure> {
    let key = Key::stored(key).map_err(|error| Failure::Refused(error.to_string()))?;
    let named = places.iter().any(|place| place.application == namespace);
    let now = SystemClock.now();
    let (mut records, mut read, mut failed) = (Vec::new(), 0, None);
    for place in places.iter().filter(|place| !named || place.application == namespace) {
        match place.store.look(&key).await {
            Ok(found) => {
                read += 1;
                let shown = found.and_then(|item| {
                    crate::record::shown(place.application, place.unprefixed, &item, now, with_outcome)
                });
                records.extend(shown);
            }
            // An application that is not deployed has no table.
            Err(error @ ichido::store::Error::Configuration(_)) => failed = Some(unreadable(place.application, &error)),
            Err(error) => return Err(Failure::Failed(unreadable(place.application, &error))),
        }
    }
    match failed {
        Some(why) if read == 0 => Err(Failure::Failed(why)),
        _ => Ok(records),
    }
}

fn unreadable(application: &str, error: &ichido::store::Error) -> String {
    format!("the table of {application} could not be read: {}", telemetry::causes(error))
}
