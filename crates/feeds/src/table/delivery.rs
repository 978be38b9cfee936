//! The record of one delivery: the library's claim and outcome, under a key of ours.

use std::time::Duration;

use ichido::{Key, Namespace, Once, Run, key};

use crate::entry::EntryId;

/// How long the outcome of a delivery is kept. It is longer than a delivery can be owed.
const RETENTION: Duration = Duration::from_secs(90 * 24 * 3_600);
/// How long it is remembered that a delivery may have been made: as long as a dead letter can be sent again.
const UNFINISHED: Duration = Duration::from_secs(180 * 24 * 3_600);

/// The attribute that names the destination, for people who look at the record.
const DESTINATION: &str = "destination";

/// The key of the claim on delivering an entry to a destination. If the store is down, nothing is delivered: it stays owed.
pub fn claim_key(destination: &str, id: &EntryId) -> Result<Key, key::Error> {
    let namespace = Namespace::new("DELIVERY").retention(RETENTION).keep_unfinished(UNFINISHED).fail_closed();
    namespace.key([destination, id.as_str()])
}

/// A run under the key of one delivery.
pub(crate) fn delivery_run<'o>(once: &'o Once, destination: &str, id: &EntryId) -> Result<Run<'o>, key::Error> {
    Ok(once.run(&claim_key(destination, id)?).attribute(DESTINATION, destination))
}
