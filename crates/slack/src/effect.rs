//! What happens to a file, once.
//!
//! [`Effect`] is the small trait to implement for something of your own; [`Reply`] is the default, a reply in the
//! message's thread that says what was received. An effect promises:
//! - [`perform`](Effect::perform) has its effect once a call, or says by its [`Failure`] whether it may have had it;
//! - [`find`](Effect::find) tells the truth: it is asked whenever an earlier attempt may have had its effect, and
//!   what it finds is not done again. If it cannot tell, it is an error, and nothing is done.
//!
//! ```
//! # use std::sync::Arc;
//! # use function::{Aws, BoxFuture, Definition, Env};
//! # use ichido::{Claim, Failure, Probed};
//! # use serde_json::{Value, json};
//! use slack::effect::{Effect, Error, Of, Reply};
//!
//! /// Replies with something else: `Reply` does the rest.
//! fn greeting(of: Of<'_>) -> String {
//!     format!("Thank you for {}!", of.file.name.as_deref().unwrap_or("the file"))
//! }
//!
//! /// The function `slack-files` with it: serve this definition in a binary of your own.
//! const FILES: Definition = Definition {
//!     name: "slack-files",
//!     variables: slack::FILES.variables,
//!     build: |env, aws| Box::pin(slack::files::build_with(env, aws, |slack, clock| {
//!         Arc::new(Reply::new(slack, clock).saying(greeting))
//!     })),
//! };
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ichido::{Claim, Clock, Failure, Probed, Timestamp};
use serde_json::{Value, json};
use telemetry::metric;

use crate::event::{File, Upload};
use crate::web_api::{self, Look, Metadata, Post, Slack};

/// The type of our replies' metadata.
pub const METADATA_TYPE: &str = "ichido_file_received";
/// How many parts of a thread a probe reads before it gives up: with 200 messages each, longer than threads get.
const MAX_PAGES: usize = 50;
/// What is kept of an invocation's time for telling the store how it went.
const SETTLE_MARGIN: Duration = Duration::from_secs(3);
/// A call to Slack with less time than this is not begun.
const SHORTEST_CALL: Duration = Duration::from_millis(500);

/// Codes of Slack's after which no later attempt can succeed, because they are about this very reply.
const PERMANENT_CODES: [&str; 4] = ["cannot_reply_to_message", "metadata_too_large", "msg_too_long", "no_text"];

/// One file, and the upload that it is of.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    pub upload: &'a Upload,
    pub file: &'a File,
}

/// Why an effect was not performed, or could not be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Slack(#[from] web_api::Error),
    #[error("the thread has too many messages to look for the reply")]
    ThreadTooLong,
    #[error("there was no time left to call Slack")]
    NoTime,
    /// Of an effect of one's own.
    #[error("{0}")]
    Other(String),
}

/// What happens to a file.
pub trait Effect: Send + Sync + 'static {
    /// Performs it; what it returns is recorded.
    fn perform<'a>(&'a self, of: Of<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Value, Failure<Error>>>;
    /// Was it performed?
    fn find<'a>(&'a self, of: Of<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Probed<Value>, Error>>;
}

/// A reply in the thread of the message, with invisible metadata by which it is found again.
pub struct Reply {
    slack: Arc<dyn Slack>,
    clock: Arc<dyn Clock>,
    text: fn(Of<'_>) -> String,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl Reply {
    /// Says what was received.
    pub fn new(slack: Arc<dyn Slack>, clock: Arc<dyn Clock>) -> Self {
        Self { slack, clock, text: received }
    }

    /// Says this instead.
    #[must_use]
    pub fn saying(mut self, text: fn(Of<'_>) -> String) -> Self {
        self.text = text;
        self
    }

    /// How long a call may take now; `None`: too little is left to begin one.
    fn time_left(&self, claim: &Claim) -> Option<Duration> {
        let left = claim.deadline().saturating_sub(SETTLE_MARGIN).since(self.clock.now());
        (left >= SHORTEST_CALL).then_some(left)
    }

    async fn post(&self, post: &Post, claim: &Claim) -> Result<String, Failure<Error>> {
        loop {
            let within = self.time_left(claim).ok_or(Failure::Retry(Error::NoTime))?;
            match self.slack.post(post, within).await {
                Ok(ts) => return Ok(ts),
                Err(error @ web_api::Error::RateLimited { after }) => {
                    metric::SLACK_RATE_LIMITED.add(1);
                    if after + SHORTEST_CALL > within {
                        return Err(Failure::Retry(error.into()));
                    }
                    self.clock.sleep(after).await;
                }
                Err(error) if error.may_have_happened() => return Err(Failure::Uncertain(error.into())),
                Err(error) if is_permanent(&error) => return Err(Failure::Permanent(error.into())),
                Err(error) => return Err(Failure::Retry(error.into())),
            }
        }
    }

    async fn look(&self, of: Of<'_>, claim: &Claim) -> Result<Probed<Value>, Error> {
        let wanted = metadata(of);
        let mut look = Look {
            channel: of.upload.channel.clone(),
            thread_ts: of.upload.thread().to_owned(),
            oldest: of.upload.ts.clone(),
            cursor: None,
        };
        for _ in 0..MAX_PAGES {
            let within = self.time_left(claim).ok_or(Error::NoTime)?;
            let page = self.slack.thread(&look, within).await?;
            if let Some(found) = page.messages.iter().find(|message| message.metadata.as_ref() == Some(&wanted)) {
                return Ok(Probed::Done(outcome(&found.ts)));
            }
            match page.next {
                Some(next) => look.cursor = Some(next),
                None => return Ok(Probed::NotDone),
            }
        }
        Err(Error::ThreadTooLong)
    }
}

impl Effect for Reply {
    fn perform<'a>(&'a self, of: Of<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Value, Failure<Error>>> {
        Box::pin(async move {
            let text = (self.text)(of);
            let post = Post::plain(&of.upload.channel, of.upload.thread(), &text, metadata(of));
            let ts = self.post(&post, claim).await?;
            metric::SLACK_REPLIES.add(1);
            Ok(outcome(&ts))
        })
    }

    fn find<'a>(&'a self, of: Of<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Probed<Value>, Error>> {
        Box::pin(self.look(of, claim))
    }
}

fn is_permanent(error: &web_api::Error) -> bool {
    matches!(error, web_api::Error::Refused { code } if PERMANENT_CODES.contains(&code.as_str()))
}

fn outcome(ts: &str) -> Value {
    json!({ "reply": ts })
}

/// What our reply to this file carries, and no other message: not that of another installation of ours either.
pub fn metadata(of: Of<'_>) -> Metadata {
    let mut event_payload = json!({ "message": of.upload.ts, "file": of.file.id });
    if let Some(app) = &of.upload.app {
        event_payload["app"] = app.as_str().into();
    }
    Metadata { event_type: METADATA_TYPE.to_owned(), event_payload }
}

/// The moment of a message's timestamp (`1700000000.000100`).
pub(crate) fn moment(ts: &str) -> Option<Timestamp> {
    let seconds = ts.split('.').next().unwrap_or(ts);
    seconds.parse().ok().map(Timestamp::from_secs)
}

/// `Received report.pdf (application/pdf, 1.2 MB).`
fn received(of: Of<'_>) -> String {
    let File { name, mimetype, size, .. } = of.file;
    let details: Vec<String> = mimetype.iter().cloned().chain(size.map(human)).collect();
    let name = name.as_deref().unwrap_or("a file");
    if details.is_empty() { format!("Received {name}.") } else { format!("Received {name} ({}).", details.join(", ")) }
}

/// A size in the largest unit that leaves something before the point, rounded down.
fn human(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let unit = UNITS.iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(name, unit)| format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(file: File) -> Upload {
        Upload {
            event_key: "Ev1".into(),
            team: "T1".into(),
            channel: "C1".into(),
            ts: "1700000000.000100".into(),
            thread_ts: None,
            app: Some("A1".into()),
            user: Some("U1".into()),
            files: vec![file],
        }
    }

    fn said(name: Option<&str>, mimetype: Option<&str>, size: Option<u64>) -> String {
        let (name, mimetype) = (name.map(str::to_owned), mimetype.map(str::to_owned));
        let upload = upload(File { id: "F1".into(), name, mimetype, size });
        received(Of { upload: &upload, file: &upload.files[0] })
    }

    #[test]
    fn the_reply_says_what_was_received_as_far_as_slack_tells() {
        assert_eq!(
            said(Some("report.pdf"), Some("application/pdf"), Some(1_250_000)),
            "Received report.pdf (application/pdf, 1.2 MB)."
        );
        assert_eq!(said(Some("a.txt"), None, Some(999)), "Received a.txt (999 bytes).");
        assert_eq!(said(Some("b.bin"), None, Some(1_000)), "Received b.bin (1.0 kB).");
        assert_eq!(said(None, None, None), "Received a file.");
    }

    #[test]
    fn a_name_cannot_mention_anybody() {
        let text = said(Some("<!channel> & co.txt"), None, None);
        let upload = upload(File { id: "F1".into(), name: None, mimetype: None, size: None });
        let of = Of { upload: &upload, file: &upload.files[0] };
        let post = Post::plain("C1", "1.2", &text, metadata(of));
        assert_eq!(post.text, "Received &lt;!channel&gt; &amp; co.txt.");
        assert!(!post.mrkdwn);
    }

    #[test]
    fn a_timestamp_is_a_moment() {
        assert_eq!(moment("1700000000.000100"), Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(moment("1700000000"), Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(moment("yesterday"), None);
    }
}
