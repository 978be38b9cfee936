//! `github-notifier` and `hatebu-notifier`: deliver one entry to each of its destinations.
//!
//! Beside the subscriber's request they take `{"command": "shadow-report"}`.

use std::{sync::Arc, time::Duration};

use function::{Aws, Env, Error, Handler, LambdaEvent, Value, secret};
use ichido::{Clock, Once, SystemClock, Timestamp};
use serde_json::json;

use super::{command, deadline};
use crate::{
    delivery::{
        message::Request,
        notify::{Memory, Notifier},
        shadow,
    },
    entry::Source,
    outside::{destination, mastodon::Mastodon, pushover::Pushover},
    settings::{NotifierSettings, PushoverSettings},
    table::Table,
};

/// Time that is kept at the end of an invocation for writing outcomes to the table.
const RESERVE: Duration = Duration::from_secs(2);

pub(crate) async fn build(source: Source, env: Env, aws: Aws) -> Result<Handler, Error> {
    let settings = NotifierSettings::read(source, &env)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let client = destination::client().map_err(|error| Error::failed("Start", error))?;
    let secret = |parameter: String| secret::Source::named(aws.clone(), parameter);
    let table = Table::new(aws.dynamodb(), settings.table);
    let mastodon_token = secret(settings.mastodon_token_parameter);
    let pushover = settings.pushover.map(|PushoverSettings { url, token_parameter, user_parameter, when_unsure }| {
        let (token, user) = (secret(token_parameter), secret(user_parameter));
        Pushover::new(client.clone(), url, token, user, when_unsure, clock.clone())
    });
    let notifier = Arc::new(Notifier {
        source,
        once: Once::builder(table.claims()).clock(clock.clone()).observer(telemetry::Watch).build(),
        table,
        mastodon: Mastodon::new(client, settings.mastodon_url, mastodon_token, settings.visibility, clock.clone()),
        pushover,
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
            Ok(json!(response))
        }
        Some("shadow-report") => shadow_report(notifier, now, until).await,
        Some(other) => Err(Error::failed("Event", format_args!("there is no command {other}"))),
    }
}

async fn shadow_report(notifier: &Notifier, now: Timestamp, until: Timestamp) -> Result<Value, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::failed("ShadowReport", error);
    let rehearsed = shadow::rehearsed(&notifier.table).await.map_err(|error| failed(&error))?;
    let since = shadow::since(&rehearsed).unwrap_or(now);
    let (statuses, coverage) = notifier.statuses(since, until).await.map_err(|error| failed(&error))?;
    Ok(json!(shadow::compare(rehearsed, statuses, coverage)))
}
