//! What all destinations have in common: how a delivery can fail, and how their credentials are had.

use std::time::Duration;

use function::{Aws, Secret};
use ichido::Failure;

/// Longest that a destination may take for one request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest reason that is kept of what a destination says.
const MAX_REASON: usize = 300;

/// Why a delivery was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The destination will never take it.
    #[error("refused: {reason}")]
    Refused { reason: String },
    /// It was not done; it may be done later.
    #[error("{reason}")]
    NotNow { reason: String, retry_after: Option<Duration> },
    /// It may have been done: the answer was lost.
    #[error("it may have been done: {reason}")]
    Unsure { reason: String },
    /// Our credentials or addresses are wrong: a person has to look.
    #[error("not configured right: {reason}")]
    Misconfigured { reason: String },
}

impl Error {
    /// What that means for the claim of the delivery.
    pub fn into_failure(self) -> Failure<Error> {
        match self {
            Error::Unsure { .. } => Failure::Uncertain(self),
            // Refusals, too, give the claim back: whether and when to give up is not decided here.
            Error::Refused { .. } | Error::NotNow { .. } | Error::Misconfigured { .. } => Failure::Retry(self),
        }
    }
}

/// The HTTP client for destinations; one serves all, because making one reads the system's certificates.
///
/// Redirects are not followed: one that turns a POST into a GET would look like success.
pub fn client() -> Result<reqwest::Client, reqwest::Error> {
    crate::http::builder()
        .user_agent(crate::fetch::USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(REQUEST_TIMEOUT)
        .build()
}

/// A secret that is fetched when it is needed.
#[derive(Debug, Clone)]
pub enum Credential {
    /// By the name of its parameter.
    Parameter(Aws, String),
    Fixed(Secret),
}

impl Credential {
    pub async fn get(&self) -> Result<Secret, Error> {
        match self {
            Credential::Fixed(secret) => Ok(secret.clone()),
            Credential::Parameter(aws, name) => {
                aws.secret(name).await.map_err(|error| Error::NotNow { reason: error.to_string(), retry_after: None })
            }
        }
    }
}

/// What a destination said, in one bounded line.
pub(crate) fn said(status: u16, body: &str) -> String {
    let body = crate::html::to_text(crate::entry::prefix(body, 4 * MAX_REASON));
    let body = crate::entry::prefix(&body, MAX_REASON);
    if body.is_empty() { format!("status {status}") } else { format!("status {status}: {body}") }
}

/// A request that was sent and not answered: only if the connection was never made is it certain that nothing happened.
pub(crate) fn unanswered(error: reqwest::Error) -> Error {
    let never_sent = error.is_connect() || error.is_builder();
    let reason = crate::http::reason(error);
    if never_sent { Error::NotNow { reason, retry_after: None } } else { Error::Unsure { reason } }
}
