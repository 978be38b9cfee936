//! Every variable that the two functions read, typed.
//!
//! One error names everything that is missing, still a placeholder or invalid. That includes the values of the secrets
//! which variables name.

use std::sync::Arc;
use std::time::Duration;

use function::env::Reader;
use function::secret::Source;
use function::{Aws, Env, Error, Secret};
use ichido::Clock;

use crate::event::Own;
use crate::same_content::Channels;
use crate::signature;

/// Every variable that `slack-events` reads.
pub(crate) const EVENTS_VARIABLES: &[&str] = &[
    "DEDUP_TABLE_NAME",
    "DEDUP_FALLBACK",
    "SLACK_BOT_ID",
    "SLACK_BOT_USER_ID",
    "SLACK_FILES_FUNCTION",
    "SLACK_SIGNING_SECRET_PARAMETER",
];

/// Every variable that `slack-files` reads.
pub(crate) const FILES_VARIABLES: &[&str] = &[
    "DEDUP_TABLE_NAME",
    "DEDUP_FALLBACK",
    "SAME_CONTENT_CHANNELS",
    "SAME_CONTENT_HOURS",
    "SLACK_API_URL",
    "SLACK_BOT_TOKEN_PARAMETER",
];

/// The Web API unless `SLACK_API_URL` says otherwise.
const SLACK_API_URL: &str = "https://slack.com/api";
/// For how long a content is known, unless `SAME_CONTENT_HOURS` says otherwise, and the longest time.
const SAME_CONTENT_HOURS: u32 = 24;
const MAX_SAME_CONTENT_HOURS: u32 = 30 * 24;
/// How long the refresh of a secret may hold up a request.
const REFRESH_WITHIN: Duration = Duration::from_millis(500);

/// What happens while the store is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Each instance decides by its own memory: it handles an event at most once.
    Open,
    /// Events are refused. Slack or Lambda sends them again.
    Closed,
}

/// What `slack-events` needs to know.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) table: String,
    pub(crate) fallback: Fallback,
    pub(crate) own: Own,
    /// The function that uploads are handed over to: a name or an ARN.
    pub(crate) files_function: String,
    pub(crate) signing_secrets: Source,
}

impl Events {
    pub(crate) async fn read(env: &Env, aws: &Aws, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let mut vars = env.reader();
        let (table, fallback) = table(&mut vars);
        let own = Own { bot_id: vars.required("SLACK_BOT_ID"), user_id: vars.required("SLACK_BOT_USER_ID") };
        let files_function = vars.required("SLACK_FILES_FUNCTION");
        let read = secret(&mut vars, "SLACK_SIGNING_SECRET_PARAMETER", aws, clock);
        let (signing_secrets, ()) = futures::join!(read, warm(aws, &table));
        if let Some((_, value)) = &signing_secrets
            && signature::secrets(value).is_none()
        {
            vars.invalid("SLACK_SIGNING_SECRET_PARAMETER", "it holds one signing secret, or two separated by a comma");
        }
        vars.finish()?;
        let (signing_secrets, _) = signing_secrets.ok_or_else(not_read)?;
        Ok(Self { table, fallback, own, files_function, signing_secrets })
    }
}

/// What `slack-files` needs to know.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) table: String,
    pub(crate) fallback: Fallback,
    /// Without a slash at its end.
    pub(crate) api_url: String,
    pub(crate) bot_token: Source,
    /// Where a content is handled once, and for how long it is known. `None`: nowhere.
    pub(crate) same_content: Option<(Channels, Duration)>,
}

impl Files {
    pub(crate) async fn read(env: &Env, aws: &Aws, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let mut vars = env.reader();
        let (table, fallback) = table(&mut vars);
        let api_url = vars.optional("SLACK_API_URL").unwrap_or_else(|| SLACK_API_URL.to_owned());
        if !["https://", "http://"].iter().any(|scheme| api_url.starts_with(scheme)) {
            vars.invalid("SLACK_API_URL", "it is an http or https address");
        }
        let same_content = same_content(&mut vars);
        let read = secret(&mut vars, "SLACK_BOT_TOKEN_PARAMETER", aws, clock);
        let (bot_token, ()) = futures::join!(read, warm(aws, &table));
        vars.finish()?;
        let (bot_token, _) = bot_token.ok_or_else(not_read)?;
        Ok(Self { table, fallback, api_url: api_url.trim_end_matches('/').to_owned(), bot_token, same_content })
    }
}

/// The name of the table of processed events, and what happens while it cannot be reached.
fn table(vars: &mut Reader<'_>) -> (String, Fallback) {
    let choices = [("open", Fallback::Open), ("closed", Fallback::Closed)];
    (vars.required("DEDUP_TABLE_NAME"), vars.one_of("DEDUP_FALLBACK", &choices, Fallback::Open))
}

/// In which channels a content is handled once, and for how long it is known.
fn same_content(vars: &mut Reader<'_>) -> Option<(Channels, Duration)> {
    let hours = vars.parsed("SAME_CONTENT_HOURS", SAME_CONTENT_HOURS);
    if !(1..=MAX_SAME_CONTENT_HOURS).contains(&hours) {
        vars.invalid("SAME_CONTENT_HOURS", format_args!("it is a number of hours from 1 to {MAX_SAME_CONTENT_HOURS}"));
    }
    let channels = vars.optional("SAME_CONTENT_CHANNELS")?;
    let read = Channels::read(&channels);
    if read.is_none() {
        vars.invalid("SAME_CONTENT_CHANNELS", "it is a list of channel ids separated by commas, or *");
    }
    Some((read?, Duration::from_secs(u64::from(hours) * 3_600)))
}

/// Connects to the store while the secret is being read: a cold start takes as long as the slower of the two, not as both.
async fn warm(aws: &Aws, table: &str) {
    if !table.is_empty() {
        aws.warm(table).await;
    }
}

/// The secret that a variable names, and its value now. What is wrong with the secret is reported as wrong with the variable.
async fn secret(vars: &mut Reader<'_>, variable: &str, aws: &Aws, clock: &Arc<dyn Clock>) -> Option<(Source, Secret)> {
    let name = Some(vars.required(variable)).filter(|name| !name.is_empty())?;
    let source = Source::named(aws.clone(), name).refreshed_within(REFRESH_WITHIN, clock.clone());
    let secret = match source.get().await {
        Ok(secret) => secret,
        Err(error) => {
            vars.invalid(variable, error);
            return None;
        }
    };
    // The rules for variables also say whether a secret's value is a placeholder.
    let value: Env = [(variable, secret.expose())].into_iter().collect();
    let mut value = value.reader();
    value.required(variable);
    if value.finish().is_err() {
        vars.invalid(variable, "the secret that it names is empty or still a placeholder");
    }
    Some((source, secret))
}

/// Never seen by anybody: [`Reader::finish`] fails first if a secret was not read.
fn not_read() -> Error {
    Error::failed("Environment", "a secret was not read")
}
