//! Dead letters: deliveries that were given up, with the reason. An operator can list them, send them again, or drop them.
//!
//! Deliveries that were only rehearsed (`SHADOW=on`) can be made owed, too: those that nobody posted when the rehearsal ended.

use ichido::Timestamp;
use serde::Serialize;

use crate::{
    entry::EntryId,
    table::{self, Delivery, Marker, Pending, Table},
};

/// Most entries with dead letters in one list.
const MAX_LISTED: usize = 500;

/// Most rehearsed entries in one list. Their titles and links must fit into an answer of 6 MB.
const MAX_REHEARSED: usize = 5_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Table(#[from] table::Error),
    #[error("there is no dead letter {0}; the command dead-letters lists those that exist")]
    Unknown(EntryId),
    #[error("{0} is not a rehearsed entry; the command rehearsed lists those that exist")]
    NotRehearsed(EntryId),
    #[error(
        "more than {MAX_REHEARSED} entries were rehearsed, which is too many for one list; those of 90 days ago are forgotten day by day"
    )]
    TooManyRehearsed,
}

impl Error {
    /// The `errorType` of the invocation: stable, for people and alarms.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Table(_) => "Store",
            Error::Unknown(_) | Error::NotRehearsed(_) | Error::TooManyRehearsed => "Event",
        }
    }
}

/// One delivery that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    pub entry_id: EntryId,
    pub destination: String,
    pub title: String,
    pub link: String,
    pub reason: String,
    /// When it was given up, in milliseconds since 1970.
    pub at: u64,
}

pub async fn list(table: &Table) -> Result<Vec<Letter>, Error> {
    let markers = table.pending(Pending::Dead, MAX_LISTED).await?;
    let letters = markers.iter().flat_map(|marker| {
        marker.deliveries.iter().filter_map(|(destination, delivery)| match delivery {
            Delivery::Dead { at, reason } => Some(Letter {
                entry_id: marker.entry.id.clone(),
                destination: destination.clone(),
                title: marker.entry.title.clone(),
                link: marker.entry.link.clone(),
                reason: reason.clone(),
                at: at.as_millis(),
            }),
            _ => None,
        })
    });
    Ok(letters.collect())
}

/// Makes the dead deliveries of an entry owed again, so that the next run tries them. What was delivered stays delivered.
pub async fn resend(table: &Table, id: &EntryId, now: Timestamp) -> Result<Marker, Error> {
    let marker = dead(table, id).await?;
    owe(table, &marker, now, |delivery| match delivery {
        Delivery::Dead { reason, .. } => Some(format!("sent again by an operator; given up before: {reason}")),
        _ => None,
    })
    .await
}

/// An entry that was rehearsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsed {
    pub entry_id: EntryId,
    pub title: String,
    pub link: String,
    /// When the entry was found, in milliseconds since 1970.
    pub at: u64,
}

/// The rehearsed entries that were found at that time or later, oldest first.
pub async fn rehearsed(table: &Table, since: Timestamp) -> Result<Vec<Rehearsed>, Error> {
    let markers = table.pending(Pending::Shadow, MAX_REHEARSED + 1).await?;
    if markers.len() > MAX_REHEARSED {
        return Err(Error::TooManyRehearsed);
    }
    let found = markers.iter().filter_map(|marker| {
        let at = marker.found_at();
        (at >= since).then(|| Rehearsed {
            entry_id: marker.entry.id.clone(),
            title: marker.entry.title.clone(),
            link: marker.entry.link.clone(),
            at: at.as_millis(),
        })
    });
    let mut found: Vec<Rehearsed> = found.collect();
    found.sort_by_key(|rehearsed| rehearsed.at);
    Ok(found)
}

/// Makes the rehearsed deliveries of an entry owed, so that the next run makes them. A destination that can be asked is
/// asked first whether it has the post.
pub async fn resend_rehearsed(table: &Table, id: &EntryId, now: Timestamp) -> Result<Marker, Error> {
    let marker = table.marker(id).await?.filter(|marker| marker.pending == Some(Pending::Shadow));
    let marker = marker.ok_or_else(|| Error::NotRehearsed(id.clone()))?;
    owe(table, &marker, now, |delivery| {
        matches!(delivery, Delivery::Shadow { .. }).then(|| "sent by an operator; rehearsed before".to_owned())
    })
    .await
}

/// Makes those deliveries of an entry owed for which there is a `reason`.
async fn owe(
    table: &Table,
    marker: &Marker,
    now: Timestamp,
    reason: impl Fn(&Delivery) -> Option<String>,
) -> Result<Marker, Error> {
    let marker = table
        .settle(marker, now, |marker| {
            for delivery in marker.deliveries.values_mut() {
                if let Some(reason) = reason(delivery) {
                    *delivery = Delivery::Owed { refusals: 0, reason };
                }
            }
            marker.resent = true;
            marker.conclude();
            // The destination is searched back to the first attempt. The time until it is given up again counts from now.
            marker.first_owed = marker.first_owed.or(marker.owed_since);
            marker.owed_since = Some(now);
        })
        .await?;
    table.wake().await?;
    Ok(marker)
}

/// Ignores the dead deliveries of an entry: they are never made.
pub async fn drop(table: &Table, id: &EntryId, now: Timestamp) -> Result<Marker, Error> {
    let marker = dead(table, id).await?;
    let marker = table
        .settle(&marker, now, |marker| {
            for delivery in marker.deliveries.values_mut() {
                if let Delivery::Dead { reason, .. } = delivery {
                    *delivery =
                        Delivery::Ignored { reason: format!("dropped by an operator; given up before: {reason}") };
                }
            }
            marker.conclude();
        })
        .await?;
    Ok(marker)
}

async fn dead(table: &Table, id: &EntryId) -> Result<Marker, Error> {
    let marker = table.marker(id).await?.ok_or_else(|| Error::Unknown(id.clone()))?;
    let is_dead = marker.deliveries.values().any(|delivery| matches!(delivery, Delivery::Dead { .. }));
    if is_dead { Ok(marker) } else { Err(Error::Unknown(id.clone())) }
}
