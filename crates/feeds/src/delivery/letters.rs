//! Dead letters: deliveries that were given up, with the reason. An operator can list them, send them again, or drop them.

use ichido::Timestamp;
use serde::Serialize;

use crate::{
    entry::EntryId,
    table::{self, Delivery, Marker, Pending, Table},
};

/// Most entries with dead letters in one list.
const MAX_LISTED: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Table(#[from] table::Error),
    #[error("there is no dead letter {0}; the command dead-letters lists those that exist")]
    Unknown(EntryId),
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
    let marker = table
        .settle(&marker, now, |marker| {
            for delivery in marker.deliveries.values_mut() {
                if let Delivery::Dead { reason, .. } = delivery {
                    *delivery = Delivery::Owed {
                        refusals: 0,
                        reason: format!("sent again by an operator; given up before: {reason}"),
                    };
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
