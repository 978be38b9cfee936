//! Dead letters: deliveries given up on, with their reasons; listed, sent again, or dropped for good.

use ichido::Timestamp;
use serde::Serialize;

use crate::{
    entry::EntryId,
    state::{self, Delivery, Marker, Pending, State},
};

/// Most dead letters in one list.
pub const MAX_LISTED: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    State(#[from] state::Error),
    #[error("there is no dead letter {0}")]
    Unknown(EntryId),
}

/// One delivery that was given up on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    pub entry_id: EntryId,
    pub destination: String,
    pub title: String,
    pub link: String,
    pub reason: String,
    /// When it was given up, in milliseconds.
    pub at: u64,
}

pub async fn list(state: &State) -> Result<Vec<Letter>, Error> {
    let markers = state.pending(Pending::Dead, MAX_LISTED).await?;
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

/// Makes the dead deliveries of an entry owed again; the next run makes them. What was delivered stays delivered.
pub async fn resend(state: &State, id: &EntryId, now: Timestamp) -> Result<Marker, Error> {
    let marker = dead(state, id).await?;
    let marker = state
        .settle(&marker, now, |marker| {
            for delivery in marker.deliveries.values_mut() {
                if let Delivery::Dead { reason, .. } = delivery {
                    *delivery = Delivery::Owed { refusals: 0, reason: format!("sent again; before: {reason}") };
                }
            }
            marker.resent = true;
            marker.conclude();
            // The search for what may have been posted goes back to the first attempt; giving up counts from now.
            marker.first_owed = marker.first_owed.or(marker.owed_since);
            marker.owed_since = Some(now);
        })
        .await?;
    state.wake().await?;
    Ok(marker)
}

/// Makes the dead deliveries of an entry ignored: they are never made.
pub async fn drop(state: &State, id: &EntryId, now: Timestamp) -> Result<Marker, Error> {
    let marker = dead(state, id).await?;
    let marker = state
        .settle(&marker, now, |marker| {
            for delivery in marker.deliveries.values_mut() {
                if let Delivery::Dead { reason, .. } = delivery {
                    *delivery = Delivery::Ignored { reason: format!("dropped by hand; before: {reason}") };
                }
            }
            marker.conclude();
        })
        .await?;
    Ok(marker)
}

async fn dead(state: &State, id: &EntryId) -> Result<Marker, Error> {
    let marker = state.marker(id).await?.ok_or_else(|| Error::Unknown(id.clone()))?;
    let is_dead = marker.deliveries.values().any(|delivery| matches!(delivery, Delivery::Dead { .. }));
    if is_dead { Ok(marker) } else { Err(Error::Unknown(id.clone())) }
}
