//! What the two functions need to know, read once and judged as a whole.
//!
//! Failure: one error that names everything which is missing, still a placeholder or invalid, the values of secrets included.

use std::sync::Arc;

use function::env::Reader;
use function::{Aws, Env, Error};
use ichido::{Clock, Namespace};

use crate::event::Own;
use crate::secrets::{self, Named, Source};

/// Every variable that `slack-events` reads.
pub const EVENTS_VARIABLES: &[&str] = &[
    "DEDUP_TABLE_NAME",
    "DEDUP_FALLBACK",
    "SLACK_BOT_ID",
    "SLACK_BOT_USER_ID",
    "SLACK_FILES_FUNCTION",
    "SLACK_SIGNING_SECRET_PARAMETER",
];

/// Every variable that `slack-files` reads.
pub const FILES_VARIABLES: &[&str] =
    &["DEDUP_TABLE_NAME", "DEDUP_FALLBACK", "SLACK_API_URL", "SLACK_BOT_TOKEN_PARAMETER"];

/// The Web API unless `SLACK_API_URL` says otherwise.
pub const SLACK_API_URL: &str = "https://slack.com/api";

/// What happens while the store is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// Each instance decides by its own memory: an event may be handled once an instance.
    Open,
    /// Events are refused: Slack, or Lambda, repeats them.
    Closed,
}

impl Fallback {
    pub(crate) fn apply(self, namespace: Namespace) -> Namespace {
        match self {
            Self::Open => namespace.fail_open(),
            Self::Closed => namespace.fail_closed(),
        }
    }

    fn read(vars: &mut Reader<'_>) -> Self {
        vars.one_of("DEDUP_FALLBACK", &[("open", Self::Open), ("closed", Self::Closed)], Self::Open)
    }
}

/// Connects to the store while the secrets are being read: a cold start pays for the longer of the two, not for both.
pub(crate) async fn warm(env: &Env, aws: &Aws) {
    if let Some(table) = env.get("DEDUP_TABLE_NAME") {
        aws.warm(table).await;
    }
}

/// The door's settings.
#[derive(Debug)]
pub struct Events {
    pub table: String,
    pub fallback: Fallback,
    pub own: Own,
    /// The function to hand files over to: a name or an ARN.
    pub files_function: String,
    pub signing_secrets: Source,
}

impl Events {
    pub async fn read(env: &Env, aws: &Aws, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let mut vars = env.reader();
        let table = vars.required("DEDUP_TABLE_NAME");
        let fallback = Fallback::read(&mut vars);
        let own = Own { bot_id: vars.required("SLACK_BOT_ID"), user_id: vars.required("SLACK_BOT_USER_ID") };
        let files_function = vars.required("SLACK_FILES_FUNCTION");
        let signing_secrets = secret(&mut vars, "SLACK_SIGNING_SECRET_PARAMETER", aws, clock).await;
        if let Some(Source::Named(named)) = &signing_secrets
            && secrets::signing_secrets(&named.get().await).is_none()
        {
            vars.invalid("SLACK_SIGNING_SECRET_PARAMETER", "it holds one signing secret, or two separated by a comma");
        }
        vars.finish()?;
        let signing_secrets = signing_secrets.ok_or_else(not_read)?;
        Ok(Self { table, fallback, own, files_function, signing_secrets })
    }
}

/// The effect's settings.
#[derive(Debug)]
pub struct Files {
    pub table: String,
    pub fallback: Fallback,
    /// Without a slash at its end.
    pub api_url: String,
    pub bot_token: Source,
}

impl Files {
    pub async fn read(env: &Env, aws: &Aws, clock: &Arc<dyn Clock>) -> Result<Self, Error> {
        let mut vars = env.reader();
        let table = vars.required("DEDUP_TABLE_NAME");
        let fallback = Fallback::read(&mut vars);
        let api_url = vars.optional("SLACK_API_URL").unwrap_or_else(|| SLACK_API_URL.to_owned());
        if !["https://", "http://"].iter().any(|scheme| api_url.starts_with(scheme)) {
            vars.invalid("SLACK_API_URL", "an http or https address");
        }
        let bot_token = secret(&mut vars, "SLACK_BOT_TOKEN_PARAMETER", aws, clock).await;
        vars.finish()?;
        let api_url = api_url.trim_end_matches('/').to_owned();
        Ok(Self { table, fallback, api_url, bot_token: bot_token.ok_or_else(not_read)? })
    }
}

/// The secret that a variable names; what is wrong with it is noted as wrong with the variable.
async fn secret(vars: &mut Reader<'_>, variable: &str, aws: &Aws, clock: &Arc<dyn Clock>) -> Option<Source> {
    let name = Some(vars.required(variable)).filter(|name| !name.is_empty())?;
    let named = match Named::fetch(aws.clone(), name, clock.clone()).await {
        Ok(named) => named,
        Err(error) => {
            vars.invalid(variable, error);
            return None;
        }
    };
    // The same rules as for variables say whether the value is one that somebody meant to replace.
    let value: Env = [(variable, named.get().await.expose())].into_iter().collect();
    let mut value = value.reader();
    value.required(variable);
    if value.finish().is_err() {
        vars.invalid(variable, "the secret that it names is empty or still a placeholder");
    }
    Some(Source::Named(named))
}

/// `finish` has reported it already.
fn not_read() -> Error {
    Error::failed("Environment", "a secret was not read")
}
