//! The four Lambda functions: what they read from their environment, and how they are wired up.
//!
//! Both subscribers take, beside the schedule's event, `{"command": "dead-letters"}`,
//! `{"command": "resend", "entryId": …}` and `{"command": "drop", "entryId": …}`; both notifiers take `{"command": "shadow-report"}`.

use std::{sync::Arc, time::Duration};

use function::{Aws, BoxFuture, Definition, Env, Error, Handler, LambdaEvent, Value};
use ichido::{Clock, Once, SystemClock, Timestamp, dynamodb};
use serde_json::json;
use url::Url;

use crate::{
    destination::{self, Credential},
    entry::{EntryId, Source},
    fetch::{Fetcher, Policy},
    filter::{Ignore, Pattern},
    first_run::FirstRun,
    invoke::Lambda,
    letters,
    mastodon::{Mastodon, Visibility},
    message::Request,
    notifier::{Memory, Notifier},
    pace::{DEFAULT_LONGEST, Pace},
    pushover::{Pushover, WhenUnsure},
    shadow,
    state::State,
    subscriber::{GiveUp, Subscriber},
    text::Template,
};

/// Every variable that a subscriber reads.
pub const SUBSCRIBER_VARIABLES: &[&str] = &[
    "STATE_TABLE_NAME",
    "TARGET_FUNCTION_ARN",
    "FEED_URL_PARAMETER",
    "FIRST_RUN",
    "IGNORE_TITLE",
    "IGNORE_LINK",
    "ADAPTIVE",
    "PERIOD_MINUTES",
    "ADAPTIVE_LONGEST_MINUTES",
    "DEAD_AFTER",
    "GIVE_UP_DAYS",
    "PARALLEL_DELIVERIES",
    ALLOW_LOCAL,
];

/// Every variable that a notifier reads.
pub const NOTIFIER_VARIABLES: &[&str] = &[
    "STATE_TABLE_NAME",
    "MASTODON_URL",
    "MASTODON_TOKEN_PARAMETER",
    "MASTODON_VISIBILITY",
    "STATUS_TEMPLATE",
    "SHADOW",
    "PUSHOVER_TOKEN_PARAMETER",
    "PUSHOVER_USER_PARAMETER",
    "PUSHOVER_URL",
    "PUSHOVER_TITLE",
    "PUSHOVER_WHEN_UNSURE",
];

pub const GITHUB_SUBSCRIBER: Definition = Definition {
    name: "github-subscriber",
    variables: SUBSCRIBER_VARIABLES,
    build: |env, aws| subscriber(Source::Github, env, aws),
};
pub const GITHUB_NOTIFIER: Definition = Definition {
    name: "github-notifier",
    variables: NOTIFIER_VARIABLES,
    build: |env, aws| notifier(Source::Github, env, aws),
};
pub const HATEBU_SUBSCRIBER: Definition = Definition {
    name: "hatebu-subscriber",
    variables: SUBSCRIBER_VARIABLES,
    build: |env, aws| subscriber(Source::Hatebu, env, aws),
};
pub const HATEBU_NOTIFIER: Definition = Definition {
    name: "hatebu-notifier",
    variables: NOTIFIER_VARIABLES,
    build: |env, aws| notifier(Source::Hatebu, env, aws),
};

/// All functions of this application.
pub fn functions() -> Vec<Definition> {
    vec![GITHUB_SUBSCRIBER, GITHUB_NOTIFIER, HATEBU_SUBSCRIBER, HATEBU_NOTIFIER]
}

/// The switch that lets feeds be fetched over http and from this machine. No template may have it.
pub const ALLOW_LOCAL: &str = "FEED_ALLOW_PRIVATE_ADDRESSES";

/// Deliveries at a time, unless configured otherwise.
const PARALLEL: usize = 4;
/// For an invocation that does not say when it ends (on a test bench).
const DEFAULT_TIME: Duration = Duration::from_secs(60);
/// Kept at the end of a notifier's invocation for writing outcomes down.
const RESERVE: Duration = Duration::from_secs(2);

fn subscriber(source: Source, env: Env, aws: Aws) -> BoxFuture<'static, Result<Handler, Error>> {
    Box::pin(async move {
        let subscriber = Arc::new(build_subscriber(source, &env, &aws)?);
        Ok(function::handler(move |event| {
            let subscriber = subscriber.clone();
            async move { serve_subscriber(&subscriber, event).await }
        }))
    })
}

fn build_subscriber(source: Source, env: &Env, aws: &Aws) -> Result<Subscriber, Error> {
    let mut vars = env.reader();
    let table = vars.required("STATE_TABLE_NAME");
    let target = vars.required("TARGET_FUNCTION_ARN");
    let url_parameter = vars.required("FEED_URL_PARAMETER");
    let first_run = vars.parsed("FIRST_RUN", FirstRun::default());
    let ignore = Ignore { title: pattern(&mut vars, "IGNORE_TITLE"), link: pattern(&mut vars, "IGNORE_LINK") };
    let on_off = [("on", true), ("off", false)];
    let default_period: u64 = match source {
        Source::Github => 5,
        Source::Hatebu => 15,
    };
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let pace = Pace {
        adaptive: vars.one_of("ADAPTIVE", &on_off, false),
        period: minutes(vars.parsed("PERIOD_MINUTES", default_period)),
        longest: minutes(vars.parsed("ADAPTIVE_LONGEST_MINUTES", DEFAULT_LONGEST.as_secs() / 60)),
    };
    let defaults = GiveUp::default();
    let give_up = GiveUp {
        refusals: vars.parsed("DEAD_AFTER", defaults.refusals),
        owed_for: Duration::from_secs(86_400 * vars.parsed("GIVE_UP_DAYS", defaults.owed_for.as_secs() / 86_400)),
    };
    let parallel = vars.parsed("PARALLEL_DELIVERIES", PARALLEL);
    let policy = if vars.one_of(ALLOW_LOCAL, &on_off, false) { Policy::local() } else { Policy::public() };
    vars.finish()?;

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let fetcher = Fetcher::new(policy, clock.clone(), fastrand::f64).map_err(|error| Error::failed("Start", error))?;
    Ok(Subscriber {
        source,
        url: Credential::Parameter(aws.clone(), url_parameter),
        state: State::new(aws.dynamodb(), table),
        fetcher,
        notifier: Arc::new(Lambda::new(&aws.lambda(), target)),
        first_run,
        ignore,
        pace,
        give_up,
        parallel,
        clock,
    })
}

async fn serve_subscriber(subscriber: &Subscriber, event: LambdaEvent<Value>) -> Result<Value, Error> {
    let failed = |error: letters::Error| Error::failed("DeadLetters", error);
    match event.payload.get("command").and_then(Value::as_str) {
        None => {}
        Some("dead-letters") => {
            return Ok(json!({ "deadLetters": letters::list(&subscriber.state).await.map_err(failed)? }));
        }
        Some(command @ ("resend" | "drop")) => {
            let id = event.payload.get("entryId").and_then(Value::as_str).unwrap_or_default();
            let (id, now) = (EntryId::from_table(id), subscriber.clock.now());
            let marker = match command {
                "resend" => letters::resend(&subscriber.state, &id, now).await,
                _ => letters::drop(&subscriber.state, &id, now).await,
            };
            let marker = marker.map_err(failed)?;
            return Ok(json!({ "entryId": marker.entry.id, "state": marker.state }));
        }
        Some(other) => return Err(Error::failed("Event", format_args!("no such command: {other}"))),
    }
    let deadline = deadline(&event, subscriber.clock.now());
    let report = subscriber.run(deadline).await.map_err(|error| Error::failed(error.kind(), error))?;
    Ok(json!(report))
}

fn notifier(source: Source, env: Env, aws: Aws) -> BoxFuture<'static, Result<Handler, Error>> {
    Box::pin(async move {
        let notifier = Arc::new(build_notifier(source, &env, &aws)?);
        Ok(function::handler(move |event| {
            let notifier = notifier.clone();
            async move { serve_notifier(&notifier, event).await }
        }))
    })
}

fn build_notifier(source: Source, env: &Env, aws: &Aws) -> Result<Notifier<dynamodb::DynamoDb>, Error> {
    let mut vars = env.reader();
    let table = vars.required("STATE_TABLE_NAME");
    let mastodon_url = base_url(&mut vars, "MASTODON_URL", None);
    let mastodon_token = vars.required("MASTODON_TOKEN_PARAMETER");
    let visibilities = [
        ("public", Visibility::Public),
        ("unlisted", Visibility::Unlisted),
        ("private", Visibility::Private),
        ("direct", Visibility::Direct),
    ];
    let visibility = vars.one_of("MASTODON_VISIBILITY", &visibilities, Visibility::Public);
    let default_template = match source {
        Source::Github => "[GH] {title} {link}",
        Source::Hatebu => "[B!] id:{author} {comment} > {title} {link}",
    };
    let template = vars.optional("STATUS_TEMPLATE");
    let template = Template::parse(template.as_deref().unwrap_or(default_template));
    if let Err(error) = &template {
        vars.invalid("STATUS_TEMPLATE", error);
    }
    let shadow = vars.one_of("SHADOW", &[("on", true), ("off", false)], false);
    let pushover_token = vars.optional("PUSHOVER_TOKEN_PARAMETER");
    let pushover_user = pushover_token.as_ref().map(|_| vars.required("PUSHOVER_USER_PARAMETER"));
    let pushover_url = base_url(&mut vars, "PUSHOVER_URL", Some("https://api.pushover.net/"));
    let pushover_title = pattern(&mut vars, "PUSHOVER_TITLE");
    let unsure = [("repeat", WhenUnsure::Repeat), ("never", WhenUnsure::Never)];
    let when_unsure = vars.one_of("PUSHOVER_WHEN_UNSURE", &unsure, WhenUnsure::default());
    vars.finish()?;

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let client = destination::client().map_err(|error| Error::failed("Start", error))?;
    let (Some(mastodon_url), Some(pushover_url), Ok(template)) = (mastodon_url, pushover_url, template) else {
        return Err(Error::failed("Start", "the environment was accepted and is not complete"));
    };
    let parameter = |name: String| Credential::Parameter(aws.clone(), name);
    let mastodon = Mastodon::new(client.clone(), mastodon_url, parameter(mastodon_token), visibility, clock.clone());
    let pushover = match (source, pushover_token, pushover_user) {
        (Source::Github, Some(token), Some(user)) => {
            Some(Pushover::new(client, pushover_url, parameter(token), parameter(user), when_unsure, clock.clone()))
        }
        _ => None,
    };
    let store = dynamodb::DynamoDb::new(aws.dynamodb(), dynamodb::Table::new(&table, "entry_id").ttl("ttl"));
    Ok(Notifier {
        source,
        once: Once::builder(store).observer(telemetry::Watch).build(),
        state: State::new(aws.dynamodb(), table),
        mastodon,
        pushover,
        pushover_title,
        template,
        shadow,
        clock,
        memory: Memory::default(),
    })
}

async fn serve_notifier(notifier: &Notifier<dynamodb::DynamoDb>, event: LambdaEvent<Value>) -> Result<Value, Error> {
    let now = notifier.clock.now();
    let deadline = deadline(&event, now).saturating_sub(RESERVE);
    match event.payload.get("command").and_then(Value::as_str) {
        None => {}
        Some("shadow-report") => {
            let failed = |error: String| Error::failed("ShadowReport", error);
            let rehearsed = shadow::rehearsed(&notifier.state).await.map_err(|error| failed(error.to_string()))?;
            let since = shadow::since(&rehearsed).unwrap_or(now);
            let (statuses, complete) =
                notifier.statuses(since, deadline).await.map_err(|error| failed(error.to_string()))?;
            return Ok(json!(shadow::compare(rehearsed, statuses, complete)));
        }
        Some(other) => return Err(Error::failed("Event", format_args!("no such command: {other}"))),
    }
    let request: Request = serde_json::from_value(event.payload).map_err(|error| Error::failed("Event", error))?;
    let response = notifier.notify(&request, deadline).await.map_err(|error| Error::failed("Event", error))?;
    Ok(json!(response))
}

/// When the invocation ends.
fn deadline(event: &LambdaEvent<Value>, now: Timestamp) -> Timestamp {
    match event.context.deadline {
        0 => now + DEFAULT_TIME,
        deadline => Timestamp::from_millis(deadline),
    }
}

fn pattern(vars: &mut function::env::Reader<'_>, name: &'static str) -> Pattern {
    let text = vars.optional(name).unwrap_or_default();
    Pattern::parse(name, &text).unwrap_or_else(|error| {
        vars.invalid(name, error);
        Pattern::default()
    })
}

fn base_url(vars: &mut function::env::Reader<'_>, name: &'static str, default: Option<&str>) -> Option<Url> {
    let text = match default {
        None => vars.required(name),
        Some(default) => vars.optional(name).unwrap_or_else(|| default.to_owned()),
    };
    if text.is_empty() {
        return None;
    }
    // A base without a slash at its end would lose its last part when paths are put behind it.
    let text = if text.ends_with('/') { text } else { format!("{text}/") };
    match text.parse::<Url>() {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Some(url),
        _ => {
            vars.invalid(name, "not an http(s) URL");
            None
        }
    }
}
