//! The Slack application: its functions, its secrets, and the stand-in for Slack's Web API.

use std::sync::Arc;

use function::Definition;
use serde_json::{Map, Value};

use crate::standins;
use crate::standins::StandIn;
use crate::tenants::{Ground, Panel, Tenant};

/// The bot of the local workspace, as in the defaults of the template.
const BOT_ID: &str = "B00000000";
const BOT_USER_ID: &str = "U00000000";

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

    fn try_it(&self, ground: &Ground) -> Option<String> {
        Some(format!("scripts/slack-event 100 {} | sort | uniq -c", ground.url))
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel { title: "Slack", script: include_str!("../console/web/panels/slack.js") })
    }
}
