//! The feeds: four functions, two sample feeds that grow, and stand-ins for Mastodon and Pushover.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use function::{BoxFuture, Definition};
use http::StatusCode;
use serde_json::{Value, json};

use crate::platform::Platform;
use crate::standins::StandIn;
use crate::standins::{mastodon, pushover, sample_feeds};
use crate::tenants::{Ground, Panel, Tenant};

/// The most entries of a feed in one answer.
const SHOWN: usize = 100;
/// The scan stops after this many entries.
const MAX_SCANNED: usize = 5_000;

pub(super) struct Feeds;

impl Feeds {
    fn url(own: Option<&String>, ground: &Ground, sample: &str) -> String {
        own.cloned().unwrap_or_else(|| format!("{}/feeds/sample/{sample}", ground.url))
    }
}

impl Tenant for Feeds {
    fn name(&self) -> &'static str {
        "feeds"
    }

    fn templates(&self) -> Vec<&'static str> {
        vec![include_str!("../../../../infra/templates/feeds.yaml")]
    }

    fn parameters(&self, ground: &Ground) -> Vec<(&'static str, Value)> {
        vec![
            ("MastodonUrl", Value::from(ground.stand_in("mastodon"))),
            ("PushoverUrl", Value::from(ground.stand_in("pushover"))),
        ]
    }

    fn functions(&self) -> Vec<Definition> {
        feeds::functions()
    }

    fn variables(&self, _ground: &Ground) -> Vec<(&'static str, String)> {
        vec![(feeds::settings::ALLOW_LOCAL, "on".to_owned())]
    }

    fn secrets(&self, ground: &Ground) -> Vec<(String, String)> {
        let name = |name: &str| format!("/ichido/local/feeds/{name}");
        let token = ground.secrets.get("mastodon-token");
        let options = &ground.options;
        vec![
            (name("github-url"), Self::url(options.github_feed.as_ref(), ground, "github.atom")),
            (name("hatebu-url"), Self::url(options.hatebu_feed.as_ref(), ground, "hatebu.rdf")),
            (name("github-mastodon-token"), token.clone()),
            (name("hatebu-mastodon-token"), token),
            (name("pushover-token"), ground.secrets.get("pushover-token")),
            (name("pushover-user"), ground.secrets.get("pushover-user")),
        ]
    }

    fn stand_ins(&self, ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        let secret = |name| ground.secrets.get(name);
        vec![
            Arc::new(mastodon::Mastodon::new(secret("mastodon-token"), ground.stand_in("mastodon"))),
            Arc::new(pushover::Pushover::new(secret("pushover-token"), secret("pushover-user"))),
        ]
    }

    fn router(&self, platform: &Platform) -> Option<Router> {
        let samples = sample_feeds::SampleFeeds::new(!platform.ground().options.no_demo).router();
        let entries = Router::new().route("/_local/feeds/{feed}", get(entries)).with_state(platform.clone());
        Some(samples.merge(entries))
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel { title: "Feeds", script: include_str!("../console/web/panels/feeds.js") })
    }

    /// Reads the sample feeds once. The first read only marks the present entries, so that later entries are posted.
    fn demo(&self, platform: Platform) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let options = &platform.ground().options;
            for (name, own) in
                [("github-subscriber", &options.github_feed), ("hatebu-subscriber", &options.hatebu_feed)]
            {
                if own.is_none()
                    && let Err(error) = platform.run_schedule(name).await
                {
                    tracing::warn!(error = %error, schedule = name, "could not read the sample feed of {name}; its schedule reads it later");
                }
            }
        })
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        let url = &ground.url;
        Some(format!(
            "curl -X POST {url}/feeds/sample/github && curl -X POST {url}/_local/schedules/github-subscriber/run"
        ))
    }
}

/// The state of every entry of a feed, newest first, for the panel. It scans the table, which the functions never do.
async fn entries(State(platform): State<Platform>, Path(feed): Path<String>) -> Response {
    // The names are the defaults of the template.
    let table = match feed.as_str() {
        "github" => "masutaka-feed-github-state",
        "hatebu" => "masutaka-feed-hatebu-state",
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let mut found: Vec<Value> = Vec::new();
    let mut request = json!({"TableName": table});
    while found.len() < MAX_SCANNED {
        let answer = platform.store().call("Scan".to_owned(), request.to_string().into()).await;
        let page: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        found.extend(page["Items"].as_array().into_iter().flatten().filter_map(shown));
        match &page["LastEvaluatedKey"] {
            Value::Null => break,
            last => request["ExclusiveStartKey"] = last.clone(),
        }
    }
    found.sort_by(|a, b| b["order"].as_str().cmp(&a["order"].as_str()));
    let total = found.len();
    found.truncate(SHOWN);
    Json(json!({"feed": feed, "total": total, "entries": found})).into_response()
}

/// What the panel shows of an item of the state table; `None` for an item that is not an entry (only entries have
/// `entry_data`).
fn shown(item: &Value) -> Option<Value> {
    let data = item.get("entry_data")?.get("M")?;
    let text = |of: &Value, name: &str| of[name]["S"].as_str().unwrap_or_default().to_owned();
    let deliveries = item["deliveries"]["M"].as_object().into_iter().flatten().map(|(destination, delivery)| {
        let delivery = &delivery["M"];
        json!({
            "destination": destination,
            "state": text(delivery, "state"),
            "at": delivery["at"]["N"].as_str().and_then(|at| at.parse::<u64>().ok()),
            "id": text(delivery, "id"),
            "reason": text(delivery, "reason"),
            "text": text(delivery, "text"),
        })
    });
    Some(json!({
        "id": text(item, "entry_id"),
        "title": text(data, "title"),
        "link": text(data, "link"),
        "date": text(data, "pubDate"),
        "order": format!("{}{}", text(data, "pubDate"), text(item, "entry_id")),
        "state": item["state"]["S"].as_str().unwrap_or("delivered"),
        "reason": text(item, "reason"),
        "inFeed": item.get("left_at").is_none(),
        "deliveries": deliveries.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_shown_with_its_deliveries_and_other_items_are_not() {
        let item = json!({
            "entry_id": {"S": "1"}, "state": {"S": "owed"},
            "entry_data": {"M": {"title": {"S": "T"}, "link": {"S": "https://x/"}, "pubDate": {"S": "2026-01-01T00:00:00Z"}}},
            "deliveries": {"M": {"mastodon": {"M": {"state": {"S": "owed"}, "reason": {"S": "503"}}}}},
        });
        let entry = shown(&item).expect("an entry");
        assert_eq!((&entry["title"], &entry["deliveries"][0]["reason"]), (&json!("T"), &json!("503")));
        assert!(shown(&json!({"entry_id": {"S": "#feed"}})).is_none());
    }
}
