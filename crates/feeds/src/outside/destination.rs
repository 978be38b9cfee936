//! What the clients of all destinations have in common: how a delivery can fail, and how an answer is read.

use std::time::Duration;

use function::{Secret, secret::Source};
use http_client::NoAnswer;
use ichido::{Clock, Failure, Timestamp};

use crate::{entry::prefix, parse::html};

/// Longest that a destination may take for one request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest reason that is kept of a destination's answer, in bytes.
const MAX_REASON: usize = 300;
/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// Why a delivery was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The destination will never accept it.
    #[error("refused: {reason}")]
    Refused { reason: String },
    /// It was not made. A later attempt may succeed.
    #[error("{reason}")]
    NotNow { reason: String, retry_after: Option<Duration> },
    /// It may have been made: the answer was lost.
    #[error("the delivery may have been made: {reason}")]
    Unsure { reason: String },
    /// Our credentials or addresses are wrong. A person has to look.
    #[error("check the destination's URL and token: {reason}")]
    Misconfigured { reason: String },
}

impl Error {
    /// What that means for the claim on the delivery.
    pub(crate) fn into_failure(self) -> Failure<Error> {
        match self {
            Error::Unsure { .. } => Failure::Uncertain(self),
            // A refusal gives the claim back, too: the subscriber decides whether and when to give up.
            Error::Refused { .. } | Error::NotNow { .. } | Error::Misconfigured { .. } => Failure::Retry(self),
        }
    }
}

/// A request that got no answer.
impl From<NoAnswer> for Error {
    fn from(NoAnswer { may_have_arrived, reason }: NoAnswer) -> Self {
        if may_have_arrived { Error::Unsure { reason } } else { Error::NotNow { reason, retry_after: None } }
    }
}

/// The HTTP client for destinations. All of them share one, because making a client reads the system's certificates.
pub fn client() -> Result<reqwest::Client, reqwest::Error> {
    super::client().timeout(REQUEST_TIMEOUT).build()
}

/// A credential that is fetched when it is needed.
pub(super) async fn credential(source: &Source) -> Result<Secret, Error> {
    source.get().await.map_err(|error| Error::NotNow { reason: error.to_string(), retry_after: None })
}

/// How long a request may take, so that it ends within the claim.
pub(super) fn time_left(clock: &dyn Clock, until: Timestamp) -> Result<Duration, Error> {
    let left = until.since(clock.now());
    if left.is_zero() {
        return Err(Error::NotNow { reason: "no time is left in this invocation".into(), retry_after: None });
    }
    Ok(left.min(REQUEST_TIMEOUT))
}

/// The body of an answer, if it is not too large.
pub(super) async fn read(mut response: reqwest::Response) -> Result<String, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(http_client::reason)? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(format!("the answer has more than {MAX_ANSWER} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// What a destination answered, in one line of limited length.
pub(super) fn reason_of(status: u16, body: &str) -> String {
    let body = html::to_text(prefix(body, 4 * MAX_REASON));
    let body = prefix(&body, MAX_REASON);
    if body.is_empty() { format!("status {status}") } else { format!("status {status}: {body}") }
}
