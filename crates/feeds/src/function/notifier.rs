//! `github-notifier`, `hatebu-notifier` and `feeds-notifier`: deliver one entry to each of its destinations.
//!
//! Beside the subscriber's request they take `{"command": "shadow-report"}`; `feeds-notifier` with `"feed": {"name": …}`.

use std::{sync::Arc, time::Duration};

use function::{Aws, Env, Error, Handler, LambdaEvent, Value, secret};
use ichido::{Clock, Once, SystemClock, Timestamp};
use serde_json::json;
use slack_api::WebApi;

use super::{command, deadline, table_of};
use crate::{
    delivery::{
        message::Request,
        notify::{Memory, Notifier, Secrets},
        shadow,
    },
    entry::Source,
    outside::{destination, mastodon::Mastodon, pushover::Pushover, sender::Sender, slack::Slack, webhook::Webhook},
    settings::{MastodonSettings, NotifierSettings, PushoverSettings, SlackSettings},
    table::Table,
};

/// Time that is kept at the end of an invocation for writing outcomes to the table.
const RESERVE: Duration = Duration::from_secs(2);

pub(crate) async fn build(source: Source, env: Env, aws: Aws) -> Result<Handler, Error> {
    let client = destination::client().map_err(|error| Error::failed("Start", error))?;
    build_with(source, env, aws, Arc::new(SystemClock), client.into())
}

/// Connects the parts of a notifier, in the time of a clock of the caller's. Mastodon and Pushover are reached through `client`.
pub fn build_with(source: Source, env: Env, aws: Aws, clock: Arc<dyn Clock>, client: Sender) -> Result<Handler, Error> {
    let settings = NotifierSettings::read(source, &env)?;
    let failed = |error: &dyn std::fmt::Display| Error::failed("Start", error);
    let secret = |parameter: String| secret::Source::named(aws.clone(), parameter);
    let table = Table::new(aws.dynamodb(), settings.table);
    let mastodon = settings.mastodon.map(|MastodonSettings { url, token_parameter, visibility }| {
        Mastodon::new(client.clone(), url, secret(token_parameter), visibility, clock.clone())
    });
    let pushover = settings.pushover.map(|PushoverSettings { url, token_parameter, user_parameter, when_unsure }| {
        let (token, user) = (secret(token_parameter), secret(user_parameter));
        Pushover::new(client.clone(), url, token, user, when_unsure, clock.clone())
    });
    let slack = match settings.slack {
        Some(SlackSettings { api_url, token_parameter }) => {
            let api = WebApi::new(api_url, secret(token_parameter)).map_err(|error| failed(&error))?;
            Some(Slack::new(api, clock.clone()))
        }
        None => None,
    };
    let webhook = match settings.webhook_key_parameter {
        Some(parameter) => {
            let webhook = Webhook::new(settings.policy.clone(), secret(parameter), clock.clone());
            Some(webhook.map_err(|error| failed(&error))?)
        }
        None => None,
    };
    let notifier = Arc::new(Notifier {
        source,
        once: Once::builder(table.claims()).clock(clock.clone()).observer(telemetry::Watch).build(),
        table,
        mastodon,
        pushover,
        slack,
        webhook,
        secrets: Secrets { policy: settings.policy, named: Some((aws.clone(), settings.secrets_prefix)) },
        pushover_title: settings.pushover_title,
        template: settings.template,
        shadow: settings.shadow,
        clock,
        memory: Memory::default(),
    });
    Ok(function::handler(move |event| {
        let notifier = notifier.clone();
        async move { handle(&notifier, event).await }
    }))
}

async fn handle(notifier: &Notifier, event: LambdaEvent<Value>) -> Result<Value, Error> {
    let now = notifier.clock.now();
    let until = deadline(&event, now).saturating_sub(RESERVE);
    match command(&event) {
        None => {
            let request: Request =
                serde_json::from_value(event.payload).map_err(|error| Error::failed("Event", error))?;
            let response = notifier.notify(&request, until).await.map_err(|error| Error::failed("Event", error))?;
            match response.failure() {
                Some(kind) => Err(Error::failed(kind, json!(response))),
                None => Ok(json!(response)),
            }
        }
        Some("shadow-report") => {
            let table = table_of(notifier.source, &notifier.table, &event)?;
            shadow_report(notifier, &table, now, until).await
        }
        Some(other) => Err(Error::failed("Event", format_args!("there is no command {other}"))),
    }
}

async fn shadow_report(notifier: &Notifier, table: &Table, now: Timestamp, until: Timestamp) -> Result<Value, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::failed("ShadowReport", error);
    let rehearsed = shadow::rehearsed(table).await.map_err(|error| failed(&error))?;
    let since = shadow::since(&rehearsed.0).unwrap_or(now);
    let statuses = notifier.statuses(since, until).await.map_err(|error| failed(&error))?;
    Ok(json!(shadow::compare(rehearsed, statuses)))
}
