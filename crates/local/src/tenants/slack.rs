//! The Slack application: its functions, its secrets, and the stand-in for Slack's Web API.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use function::{Aws, Definition};
use ichido::{Clock as _, SystemClock};
use serde_json::{Map, Value};
use slack::report::{self, MAX_DAYS, Report};
use slack::table::history;

use crate::platform::Platform;
use crate::standins;
use crate::standins::StandIn;
use crate::tenants::{Ground, Keeps, Panel, Tenant};

/// The bot of the local workspace, as in the defaults of the template.
const BOT_ID: &str = "B00000000";
const BOT_USER_ID: &str = "U00000000";
/// The default of the template.
const TABLE: &str = "slack-classify-bot-processed-events";
/// The page of the report needs its own style, and nothing else.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(super) struct Slack;

impl Tenant for Slack {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn templates(&self) -> Vec<&'static str> {
        vec![include_str!("../../../../infra/templates/slack.yaml")]
    }

    fn parameters(&self, ground: &Ground) -> Vec<(&'static str, Value)> {
        vec![("SlackApiUrl", Value::from(format!("{}/api", ground.stand_in("slack"))))]
    }

    fn functions(&self) -> Vec<Definition> {
        slack::functions()
    }

    fn secrets(&self, ground: &Ground) -> Vec<(String, String)> {
        vec![
            ("/ichido/local/slack/signing-secret".into(), ground.secrets.get("slack-signing-secret")),
            ("/ichido/local/slack/bot-token".into(), ground.secrets.get("slack-bot-token")),
        ]
    }

    fn config(&self, ground: &Ground) -> Map<String, Value> {
        [("slackSigningSecret".to_owned(), Value::from(ground.secrets.get("slack-signing-secret")))]
            .into_iter()
            .collect()
    }

    fn stand_ins(&self, ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        let token = ground.secrets.get("slack-bot-token");
        vec![Arc::new(standins::slack::Slack::new(token, BOT_ID, BOT_USER_ID))]
    }

    fn router(&self, platform: &Platform) -> Option<Router> {
        let router = Router::new()
            .route("/_local/slack/report", get(report_as_json))
            .route("/_local/slack/report.html", get(report_as_page));
        Some(router.with_state(platform.clone()))
    }

    fn keeps(&self) -> Vec<Keeps> {
        vec![Keeps {
            application: "slack",
            table: slack::table::records(TABLE),
            unprefixed: Some("events"),
            functions: &["slack-events", "slack-files"],
            dead_letters: None,
        }]
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        Some(format!("scripts/slack-event 100 {} | sort | uniq -c", ground.url))
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel { title: "Slack", path: "/apps/slack", script: console::asset!("src/console/web/panels/slack.js") })
    }
}

/// What follows the question mark. Texts, so that a wrong number gets our own sentence.
type Asked = Query<HashMap<String, String>>;

/// The days that are shown if nobody says otherwise.
const DAYS: u32 = 7;

/// What `ichidoctl slack report --json` prints.
async fn report_as_json(State(platform): State<Platform>, asked: Asked) -> Response {
    match report(&platform, &asked).await {
        Ok(report) => axum::Json(report.as_json()).into_response(),
        Err(refused) => refused,
    }
}

/// What `ichidoctl slack report --html` writes.
async fn report_as_page(State(platform): State<Platform>, asked: Asked) -> Response {
    match report(&platform, &asked).await {
        Ok(report) => {
            ([("content-security-policy", REPORT_POLICY)], Html(report::html::page(&report, "local"))).into_response()
        }
        Err(refused) => refused,
    }
}

async fn report(platform: &Platform, asked: &Asked) -> Result<Report, Response> {
    let days = days(asked).map_err(|refused| (StatusCode::BAD_REQUEST, refused).into_response())?;
    let now = SystemClock.now();
    let dynamodb = Aws::at(&platform.ground().url).dynamodb();
    let history = history::read(&dynamodb, TABLE, report::first_hour(now)).await;
    let history =
        history.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, telemetry::causes(&error)).into_response())?;
    Ok(report::report(&history, now, days))
}

fn days(asked: &Asked) -> Result<u32, String> {
    let days = asked.get("days").map_or(Ok(DAYS), |days| days.parse());
    let days = days.ok().filter(|days| (1..=MAX_DAYS).contains(days));
    days.ok_or_else(|| format!("days is a number from 1 to {MAX_DAYS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_no_number_of_days_gets_the_same_sentence() {
        let asked = |query: &str| {
            let address = format!("/_local/slack/report?{query}").parse().expect("an address");
            days(&Query::try_from_uri(&address).expect("a query"))
        };
        for (good, of) in [("", DAYS), ("days=1", 1), ("days=90", 90)] {
            assert_eq!(asked(good), Ok(of), "{good}");
        }
        for bad in ["days=0", "days=91", "days=-1", "days=x", "days=", "days=4294967296"] {
            assert_eq!(asked(bad), Err("days is a number from 1 to 90".to_owned()), "{bad}");
        }
    }
}
