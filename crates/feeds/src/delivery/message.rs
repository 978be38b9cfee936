//! The subscriber's request to the notifier, and the notifier's answer.

use std::time::Duration;

use ichido::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{entry::EntryId, table::Marker};

/// A request to deliver an entry. `entryTitle` and `entryUrl` are enough: without an id the link is the id.
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
    /// Whether `entryContent` is plain text, as the subscriber sends it. By default it is HTML.
    pub is_text: bool,
    /// Since when the delivery is owed, in milliseconds since 1970: how far back a destination must be searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owed_since: Option<u64>,
    /// Destinations where nothing is left to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<String>,
    /// An operator sends a dead letter again.
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
            // The subscriber sends keys of the table.
            if self.is_text { EntryId::from_table(self.entry_id.clone()) } else { id }
        })
    }
}

/// What became of the deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub deliveries: Vec<DeliveryReport>,
}

/// What became of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryReport {
    pub destination: String,
    #[serde(flatten)]
    pub result: DeliveryResult,
}

/// What one attempt at a delivery came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum DeliveryResult {
    /// The destination has it, by this attempt or an earlier one.
    Delivered { id: String },
    /// Not meant for this destination.
    Ignored { reason: String },
    /// Only rehearsed.
    Shadow { text: String },
    /// Another attempt is under way. That does not count as delivered.
    InFlight,
    /// Not delivered. It is tried again.
    Failed {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_secs: Option<u64>,
    },
    /// The destination refused it.
    Refused { reason: String },
    /// It may have been delivered, and must not be delivered twice.
    Unsure { reason: String },
}

impl DeliveryResult {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            DeliveryResult::Delivered { .. } => "delivered",
            DeliveryResult::Ignored { .. } => "ignored",
            DeliveryResult::Shadow { .. } => "shadow",
            DeliveryResult::InFlight => "in_flight",
            DeliveryResult::Failed { .. } => "failed",
            DeliveryResult::Refused { .. } => "refused",
            DeliveryResult::Unsure { .. } => "unsure",
        }
    }

    pub(crate) fn failed(reason: impl Into<String>, retry_after: Option<Duration>) -> Self {
        DeliveryResult::Failed { reason: reason.into(), retry_after_secs: retry_after.map(|wait| wait.as_secs()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_and_a_url_are_enough() {
        let request: Request = serde_json::from_str(r#"{"entryTitle": "T", "entryUrl": "https://x/"}"#).unwrap();
        assert_eq!(request.id(), EntryId::from_feed("https://x/"));
        assert!(!request.is_text);
    }

    #[test]
    fn an_answer_reads_as_a_person_would_say_it() {
        let response = Response {
            deliveries: vec![DeliveryReport {
                destination: "mastodon".into(),
                result: DeliveryResult::Delivered { id: "1".into() },
            }],
        };
        let json = serde_json::to_value(&response).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"deliveries": [{"destination": "mastodon", "result": "delivered", "id": "1"}]})
        );
        assert_eq!(serde_json::from_value::<Response>(json).unwrap(), response);
    }
}
