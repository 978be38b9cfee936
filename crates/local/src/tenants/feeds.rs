//! The feeds: six functions, sample feeds that grow, the schedules of the list's feeds, and stand-ins for Mastodon, Pushover and a webhook.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use feeds::entry::EntryId;
use feeds::list::{Address, Destination, Listed};
use feeds::table::{Delivery, Marker};
use function::{Aws, BoxFuture, Definition};
use http::StatusCode;
use serde_json::{Value, json};
use template::Schedule;

use crate::platform::Platform;
use crate::standins::StandIn;
use crate::standins::{mastodon, pushover, sample_feeds, webhook};
use crate::tenants::{Ground, Keeps, Panel, Tenant};

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
            ("SlackApiUrl", Value::from(format!("{}/api", ground.stand_in("slack")))),
            ("FurtherFeeds", Value::from(if ground.listed.is_empty() { "off" } else { "on" })),
        ]
    }

    fn functions(&self) -> Vec<Definition> {
        feeds::functions()
    }

    fn keeps(&self) -> Vec<Keeps> {
        let keeps = |application, table, functions: &'static [&'static str; 2]| Keeps {
            application,
            table: feeds::table::records(table),
            unprefixed: None,
            functions,
            dead_letters: Some(functions[0]),
        };
        vec![
            keeps("github", "masutaka-feed-github-state", &["github-subscriber", "github-notifier"]),
            keeps("hatebu", "masutaka-feed-hatebu-state", &["hatebu-subscriber", "hatebu-notifier"]),
            keeps("feeds", "feeds-state", &["feeds-subscriber", "feeds-notifier"]),
        ]
    }

    fn variables(&self, _ground: &Ground) -> Vec<(&'static str, String)> {
        vec![(feeds::settings::ALLOW_LOCAL, "on".to_owned())]
    }

    fn secrets(&self, ground: &Ground) -> Vec<(String, String)> {
        let name = |name: &str| format!("/ichido/local/feeds/{name}");
        let token = ground.secrets.get("mastodon-token");
        let options = &ground.options;
        let listed = ground.listed.iter().flat_map(|feed| [Some(&feed.address), feed.webhook.as_ref()]).flatten();
        let named = listed.filter_map(|address| match address {
            // A secret of the list is a variable of the platform's own environment: FEED_SECRET_BLOG_HOOK.
            Address::Secret(secret) => {
                let variable = format!("FEED_SECRET_{}", secret.to_uppercase().replace('-', "_"));
                Some((name(secret), std::env::var(variable).ok()?))
            }
            Address::Url(_) => None,
        });
        let named: Vec<(String, String)> = named.collect();
        let own = vec![
            (name("mastodon-token"), token.clone()),
            (name("slack-bot-token"), ground.secrets.get("slack-bot-token")),
            (name("webhook-key"), ground.secrets.get("webhook-key")),
            (name("github-url"), Self::url(options.github_feed.as_ref(), ground, "github.atom")),
            (name("hatebu-url"), Self::url(options.hatebu_feed.as_ref(), ground, "hatebu.rdf")),
            (name("github-mastodon-token"), token.clone()),
            (name("hatebu-mastodon-token"), token),
            (name("pushover-token"), ground.secrets.get("pushover-token")),
            (name("pushover-user"), ground.secrets.get("pushover-user")),
        ];
        own.into_iter().chain(named).collect()
    }

    /// One schedule per feed of the list, as `infra/feeds.ts` makes them. Here a schedule has the feed's own period.
    fn schedules(&self, ground: &Ground) -> Vec<Schedule> {
        let arn = template::arn("lambda", &format!("function:{}:live", ::feeds::FEEDS_SUBSCRIBER.name));
        let schedule = |feed: &Listed| {
            let mut input = feed.event();
            input["everyRunReads"] = json!(true);
            let (name, expression) = (format!("feed-{}", feed.name), format!("rate({})", period(feed)));
            let properties = json!({
                "Name": name, "ScheduleExpression": expression, "FlexibleTimeWindow": {"Mode": "OFF"},
                "State": if feed.paused { "DISABLED" } else { "ENABLED" },
                "Target": {
                    "Arn": arn, "RoleArn": template::arn("iam", "role/feeds-scheduler"), "Input": input.to_string(), "RetryPolicy": {"MaximumRetryAttempts": 2},
                    "DeadLetterConfig": {"Arn": template::arn("sqs", "feeds-subscriber-failures")},
                },
            });
            Schedule {
                logical_id: name.clone(),
                name,
                group: "default".to_owned(),
                expression,
                time_zone: None,
                enabled: !feed.paused,
                function: ::feeds::FEEDS_SUBSCRIBER.name.to_owned(),
                input,
                properties,
            }
        };
        ground.listed.iter().map(schedule).collect()
    }

    fn stand_ins(&self, ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        let secret = |name| ground.secrets.get(name);
        vec![
            Arc::new(mastodon::Mastodon::new(secret("mastodon-token"), ground.stand_in("mastodon"))),
            Arc::new(pushover::Pushover::new(secret("pushover-token"), secret("pushover-user"))),
            Arc::new(webhook::Webhook::new(secret("webhook-key"))),
        ]
    }

    fn router(&self, platform: &Platform) -> Option<Router> {
        let samples = sample_feeds::SampleFeeds::new(!platform.ground().options.no_demo).router();
        let entries = Router::new()
            .route("/_local/feeds", get(list))
            .route("/_local/feeds/{feed}", get(entries))
            .with_state(platform.clone());
        Some(samples.merge(entries))
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel { title: "Feeds", path: "/apps/feeds", script: console::asset!("src/console/web/panels/feeds.js") })
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
            if options.feeds.is_some() {
                return;
            }
            for feed in &platform.ground().listed {
                let name = feed.name.as_str();
                if let Err(error) = platform.run_schedule(name).await {
                    tracing::warn!(error = %error, schedule = name, "could not read the sample feed {name}; its schedule reads it later");
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

/// The period as the list writes it.
fn period(feed: &Listed) -> String {
    feed.entry["period"].as_str().unwrap_or_default().to_owned()
}

/// All feeds, for the panel: the name, the name of the schedule, and whether a person can add an entry.
async fn list(State(platform): State<Platform>) -> Json<Value> {
    let ground = platform.ground();
    let built_in = |name: &str, title: &str, destinations: &[&str], own: bool| {
        json!({"name": name, "title": title, "schedule": format!("{name}-subscriber"), "function": format!("{name}-subscriber"),
            "destinations": destinations, "sample": !own})
    };
    let mut all = vec![
        built_in("github", "GitHub", &["mastodon", "pushover"], ground.options.github_feed.is_some()),
        built_in("hatebu", "Hatena Bookmark", &["mastodon"], ground.options.hatebu_feed.is_some()),
    ];
    all.extend(ground.listed.iter().map(|feed| {
        let destinations: Vec<&str> = feed.destinations.iter().copied().map(Destination::name).collect();
        json!({"name": feed.name, "title": feed.name, "schedule": feed.name, "function": ::feeds::FEEDS_SUBSCRIBER.name,
            "destinations": destinations, "sample": ground.options.feeds.is_none()})
    }));
    Json(Value::Array(all))
}

/// The state of every entry of a feed, newest first, for the panel. It scans the table, which the functions never do.
async fn entries(State(platform): State<Platform>, Path(feed): Path<String>) -> Response {
    // The names are the defaults of the template.
    let (table, prefix) = match feed.as_str() {
        "github" => ("masutaka-feed-github-state", String::new()),
        "hatebu" => ("masutaka-feed-hatebu-state", String::new()),
        name if platform.ground().listed.iter().any(|feed| feed.name.as_str() == name) => {
            ("feeds-state", format!("{name}/"))
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let dynamodb = Aws::at(&platform.ground().url).dynamodb();
    let mut items = dynamodb.scan().table_name(table).into_paginator().items().send();
    let mut markers: Vec<Marker> = Vec::new();
    while let Some(item) = items.next().await {
        match item {
            // The other items of the table are no markers, or belong to other feeds.
            Ok(item) => {
                let marker = Marker::from_item(&item).ok();
                let own = |marker: &Marker| marker.entry.id.as_str().starts_with(&prefix);
                markers.extend(marker.filter(own).map(|mut marker| {
                    let id = marker.entry.id.as_str()[prefix.len()..].to_owned();
                    marker.entry.id = EntryId::from_table(id);
                    marker
                }));
            }
            Err(error) => {
                let message = format!("could not read the table {table}: {}", telemetry::causes(&error));
                return (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "message": message }))).into_response();
            }
        }
        if markers.len() >= MAX_SCANNED {
            break;
        }
    }
    markers.sort_by(|a, b| (b.entry.published, b.entry.id.as_str()).cmp(&(a.entry.published, a.entry.id.as_str())));
    let shown: Vec<Value> = markers.iter().take(SHOWN).map(shown).collect();
    Json(json!({"feed": feed, "total": markers.len(), "entries": shown})).into_response()
}

/// What the panel shows of an entry.
fn shown(marker: &Marker) -> Value {
    let deliveries = marker.deliveries.iter().map(|(destination, delivery)| {
        let (at, id, reason, text) = match delivery {
            Delivery::Owed { reason, .. } | Delivery::Ignored { reason } => (None, "", reason.as_str(), ""),
            Delivery::Delivered { at, id } => (Some(at), id.as_str(), "", ""),
            Delivery::Dead { at, reason } => (Some(at), "", reason.as_str(), ""),
            Delivery::Shadow { at, text } => (Some(at), "", "", text.as_str()),
        };
        json!({
            "destination": destination, "state": delivery.state(), "at": at.map(|at| at.as_millis()), "id": id,
            "reason": reason, "text": text,
        })
    });
    json!({
        "id": marker.entry.id.as_str(),
        "title": marker.entry.title,
        "link": marker.entry.link,
        "date": marker.entry.published.map(|at| at.to_string()).unwrap_or_default(),
        "state": marker.state.name(),
        "reason": marker.reason.as_deref().unwrap_or_default(),
        "inFeed": marker.left_at.is_none(),
        "deliveries": deliveries.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aws_sdk_dynamodb::types::AttributeValue;
    use function::item::{Item, number, text};

    use super::*;

    fn map<const N: usize>(members: [(&str, AttributeValue); N]) -> Item {
        HashMap::from(members.map(|(name, value)| (name.to_owned(), value)))
    }

    #[test]
    fn an_entry_is_shown_with_its_deliveries_and_other_items_are_not() {
        let data = map([("title", text("T")), ("link", text("https://x/")), ("pubDate", text("2026-01-01T00:00:00Z"))]);
        let delivery = map([("state", text("owed")), ("reason", text("503"))]);
        let item = map([
            ("entry_id", text("1")),
            ("state", text("owed")),
            ("processed_at", number(1_767_225_600_u64)),
            ("entry_data", AttributeValue::M(data)),
            ("deliveries", AttributeValue::M(map([("mastodon", AttributeValue::M(delivery))]))),
        ]);
        let entry = shown(&Marker::from_item(&item).expect("an entry"));
        assert_eq!((&entry["title"], &entry["deliveries"][0]["reason"]), (&json!("T"), &json!("503")));
        assert!(Marker::from_item(&map([("entry_id", text("#feed"))])).is_err());
    }
}
