//! What subscriber and notifier say to each other: the seed's payload, and what exactly-once needs beside it.

use std::time::Duration;

use ichido::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{entry::EntryId, state::Marker};

/// The invocation of a notifier. `entryTitle` and `entryUrl` are enough; without an id the link is the id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    pub entry_id: String,
    pub entry_title: String,
    pub entry_url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entry_author: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entry_content: String,
    /// Is `entryContent` plain text? The subscriber's is; without this it is HTML, as in the seed.
    pub is_text: bool,
    /// Since when the delivery is owed, in milliseconds: how far back a destination must be searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owed_since: Option<u64>,
    /// Destinations for which there is nothing left to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<String>,
    /// A dead letter is sent again by hand.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resend: bool,
}

impl Request {
    pub fn of(marker: &Marker) -> Self {
        Request {
            entry_id: marker.entry.id.to_string(),
            entry_title: marker.entry.title.clone(),
            entry_url: marker.entry.link.clone(),
            entry_author: marker.entry.author.clone(),
            entry_content: marker.entry.content.text().into_owned(),
            is_text: true,
            owed_since: marker.first_owed.or(marker.owed_since).map(Timestamp::as_millis),
            settled: marker.settled().map(str::to_owned).collect(),
            resend: marker.resent,
        }
    }

    /// The id under which the deliveries are claimed.
    pub fn id(&self) -> Option<EntryId> {
        EntryId::from_feed(&self.entry_id).or_else(|| EntryId::from_feed(&self.entry_url)).map(|id| {
            // The subscriber's ids are keys of the table already.
            if self.is_text { EntryId::from_table(self.entry_id.clone()) } else { id }
        })
    }
}

/// What became of the deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub deliveries: Vec<Report>,
}

/// What became of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub destination: String,
    #[serde(flatten)]
    pub result: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// It is there, made by this call or an earlier one.
    Delivered { id: String },
    /// Not meant for this destination.
    Ignored { reason: String },
    /// Only rehearsed.
    Shadow { text: String },
    /// Somebody else is at it: that is not delivered.
    InFlight,
    /// Not done; try again.
    Failed {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_secs: Option<u64>,
    },
    /// The destination will not have it.
    Refused { reason: String },
    /// It may have been done, and must not be done twice.
    Unsure { reason: String },
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Delivered { .. } => "delivered",
            Outcome::Ignored { .. } => "ignored",
            Outcome::Shadow { .. } => "shadow",
            Outcome::InFlight => "in_flight",
            Outcome::Failed { .. } => "failed",
            Outcome::Refused { .. } => "refused",
            Outcome::Unsure { .. } => "unsure",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::Ignored { reason }
            | Outcome::Failed { reason, .. }
            | Outcome::Refused { reason }
            | Outcome::Unsure { reason } => Some(reason),
            _ => None,
        }
    }

    pub(crate) fn failed(reason: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Outcome::Failed { reason: reason.into(), retry_after_secs: retry_after.map(|wait| wait.as_secs()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_payload_is_enough() {
        let request: Request = serde_json::from_str(r#"{"entryTitle": "T", "entryUrl": "https://x/"}"#).unwrap();
        assert_eq!(request.id(), EntryId::from_feed("https://x/"));
        assert!(!request.is_text);
    }

    #[test]
    fn an_answer_reads_as_a_person_would_say_it() {
        let response = Response {
            deliveries: vec![Report { destination: "mastodon".into(), result: Outcome::Delivered { id: "1".into() } }],
        };
        let json = serde_json::to_value(&response).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"deliveries": [{"destination": "mastodon", "result": "delivered", "id": "1"}]})
        );
        assert_eq!(serde_json::from_value::<Response>(json).unwrap(), response);
    }
}
