//! The subscriber's request to the notifier, and the notifier's answer.

use std::time::Duration;

use ichido::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entry_categories: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entry_enclosure: String,
    /// RFC 3339.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entry_published: String,
    /// The feed's entry of the list. The feeds with functions of their own have none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub feed: Value,
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
    /// The table was restored: an attempt that it does not know may have delivered the entry.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
}

impl Request {
    /// `feed` is the feed's entry of the list, or null.
    pub fn of(marker: &Marker, feed: &Value) -> Self {
        Request {
            entry_id: marker.entry.id.to_string(),
            entry_title: marker.entry.title.clone(),
            entry_url: marker.entry.link.clone(),
            entry_author: marker.entry.author.clone(),
            entry_content: marker.entry.content.text().into_owned(),
            entry_categories: marker.entry.categories.clone(),
            entry_enclosure: marker.entry.enclosure.clone(),
            entry_published: marker.entry.published.map(|at| at.to_string()).unwrap_or_default(),
            feed: feed.clone(),
            is_text: true,
            owed_since: marker.first_owed.or(marker.owed_since).map(Timestamp::as_millis),
            settled: marker.settled().map(str::to_owned).collect(),
            resend: marker.resent,
            doubtful: marker.doubtful,
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

/// The kinds of the notifier's error when a delivery was not made: because a destination refuses our credentials or our address, or for
/// any other reason. The notifier's invocation fails, so that its alarm rings if that lasts. Its message is the answer, as JSON, so that
/// the subscriber still learns what became of each delivery.
pub const MISCONFIGURED: &str = "Misconfigured";
pub const UNDELIVERED: &str = "Undelivered";

/// What became of the deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub deliveries: Vec<DeliveryReport>,
}

impl Response {
    /// The kind of error that the invocation ends with, if a delivery was not made.
    pub(crate) fn failure(&self) -> Option<&'static str> {
        let any = |wanted: fn(&DeliveryResult) -> bool| self.deliveries.iter().any(|report| wanted(&report.result));
        if any(|result| matches!(result, DeliveryResult::Misconfigured { .. })) {
            // A person has to look at a destination's URL or token.
            Some(MISCONFIGURED)
        } else if any(|result| matches!(result, DeliveryResult::Failed { .. } | DeliveryResult::Refused { .. })) {
            Some(UNDELIVERED)
        } else {
            None
        }
    }
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
    /// Not delivered, because our URL or token is wrong. It is tried again.
    Misconfigured { reason: String },
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
            DeliveryResult::Misconfigured { .. } => "misconfigured",
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
    fn a_delivery_that_was_not_made_is_an_error_of_the_invocation_and_one_under_way_is_not() {
        let answer = |results: &[DeliveryResult]| {
            let report = |result: &DeliveryResult| DeliveryReport { destination: "x".into(), result: result.clone() };
            Response { deliveries: results.iter().map(report).collect() }.failure()
        };
        let reason = || "503".to_owned();
        let delivered = DeliveryResult::Delivered { id: "1".into() };
        assert_eq!(answer(&[delivered.clone(), DeliveryResult::InFlight]), None);
        assert_eq!(answer(&[delivered, DeliveryResult::failed(reason(), None)]), Some(UNDELIVERED));
        assert_eq!(answer(&[DeliveryResult::Refused { reason: reason() }]), Some(UNDELIVERED));
        let both = [DeliveryResult::failed(reason(), None), DeliveryResult::Misconfigured { reason: reason() }];
        assert_eq!(answer(&both), Some(MISCONFIGURED));
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
