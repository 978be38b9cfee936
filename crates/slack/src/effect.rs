//! What happens to a file, once.
//!
//! [`Reply`] is the default: a reply in the message's thread that says what was received. To do something else, implement
//! the trait [`Effect`]. An effect promises:
//! - [`perform`](Effect::perform) has its effect once per call, or its [`Failure`] says whether the effect may have happened.
//! - [`find`](Effect::find) tells the truth. It is asked whenever an earlier attempt may have had its effect, and what it
//!   finds is not done again. If it cannot tell, it returns an error, and nothing is done.
//!
//! ```
//! # use std::sync::Arc;
//! # use function::{Aws, BoxFuture, Definition, Env};
//! # use ichido::{Claim, Failure, Probed};
//! # use serde_json::{Value, json};
//! use slack::effect::{Effect, Error, Reply, UploadedFile};
//!
//! /// Replies with another text. `Reply` does the rest.
//! fn greeting(uploaded: UploadedFile<'_>) -> String {
//!     format!("Thank you for {}!", uploaded.file.name.as_deref().unwrap_or("the file"))
//! }
//!
//! /// The function `slack-files` with that text. Serve this definition in a binary of your own.
//! const FILES: Definition = Definition {
//!     name: "slack-files",
//!     variables: slack::FILES.variables,
//!     build: |env, aws| Box::pin(slack::function::files::build_with(env, aws, |slack, clock| {
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
use crate::table::contents;
use slack_api::{Look, Metadata, Post, Slack};

/// The type of our replies' metadata.
const METADATA_TYPE: &str = "ichido_file_received";
/// How many pages of a thread a probe reads before it gives up. With 200 messages each, threads do not get longer.
const MAX_PAGES: usize = 50;
/// The end of the lease that is reserved for writing the outcome to the store.
const SETTLE_MARGIN: Duration = Duration::from_secs(3);
/// With less time left than this, no call to Slack is begun.
const SHORTEST_CALL: Duration = Duration::from_millis(500);

/// Slack's error codes that are about this one reply: no later attempt can succeed.
const PERMANENT_CODES: [&str; 4] = ["cannot_reply_to_message", "metadata_too_large", "msg_too_long", "no_text"];

/// One file, and the upload that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct UploadedFile<'a> {
    pub upload: &'a Upload,
    pub file: &'a File,
}

/// Why an effect was not performed, or could not be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Slack(#[from] slack_api::Error),
    #[error("the thread has too many messages to look for the reply")]
    ThreadTooLong,
    #[error("too little of the invocation's time is left to call Slack")]
    NoTime,
    /// It gets a link when the other file is done, or is handled itself.
    #[error("another file with the same content is being handled; the lease ends at {0}")]
    SameContent(Timestamp),
    #[error(transparent)]
    Contents(#[from] contents::Error),
    /// The error of an effect of your own.
    #[error("{0}")]
    Other(String),
}

/// What happens to a file.
pub trait Effect: Send + Sync + 'static {
    /// Performs the effect. What it returns is recorded.
    fn perform<'a>(
        &'a self,
        uploaded: UploadedFile<'a>,
        claim: &'a Claim,
    ) -> BoxFuture<'a, Result<Value, Failure<Error>>>;
    /// Finds out whether the effect was performed.
    ///
    /// Where the same content is handled once ([`same_content`](crate::same_content)), it is also asked of the first file with a content.
    /// Then only ids are known: the name, type and size of the file and the user are missing.
    fn find<'a>(&'a self, uploaded: UploadedFile<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Probed<Value>, Error>>;
}

/// A reply in the thread of the message. Its metadata, which users do not see, makes it possible to find it again.
pub struct Reply {
    slack: Arc<dyn Slack>,
    clock: Arc<dyn Clock>,
    text: fn(UploadedFile<'_>) -> String,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl Reply {
    /// A reply that says what was received.
    pub fn new(slack: Arc<dyn Slack>, clock: Arc<dyn Clock>) -> Self {
        Self { slack, clock, text: received }
    }

    /// The same reply with another text.
    #[must_use]
    pub fn saying(mut self, text: fn(UploadedFile<'_>) -> String) -> Self {
        self.text = text;
        self
    }
}

impl Effect for Reply {
    fn perform<'a>(
        &'a self,
        uploaded: UploadedFile<'a>,
        claim: &'a Claim,
    ) -> BoxFuture<'a, Result<Value, Failure<Error>>> {
        Box::pin(async move {
            let text = (self.text)(uploaded);
            self.say(uploaded, &text, claim).await
        })
    }

    fn find<'a>(&'a self, uploaded: UploadedFile<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Probed<Value>, Error>> {
        Box::pin(self.look(uploaded, claim))
    }
}

impl Reply {
    /// Posts the reply with this text. An effect of your own calls it with what it found out, and leaves
    /// [`find`](Effect::find) to [`Reply`].
    pub async fn say(&self, uploaded: UploadedFile<'_>, text: &str, claim: &Claim) -> Result<Value, Failure<Error>> {
        let post = Post::plain(&uploaded.upload.channel, uploaded.upload.thread(), text, metadata(uploaded));
        let ts = self.post(&post, claim).await?;
        metric::SLACK_REPLIES.add(1);
        Ok(outcome(&ts))
    }

    /// How long a call may take now. `None`: too little time is left to begin one.
    pub fn time_left(&self, claim: &Claim) -> Option<Duration> {
        let left = claim.deadline().saturating_sub(SETTLE_MARGIN).since(self.clock.now());
        (left >= SHORTEST_CALL).then_some(left)
    }

    async fn post(&self, post: &Post, claim: &Claim) -> Result<String, Failure<Error>> {
        loop {
            let within = self.time_left(claim).ok_or(Failure::Retry(Error::NoTime))?;
            match self.slack.post(post, within).await {
                Ok(ts) => return Ok(ts),
                Err(error @ slack_api::Error::RateLimited { after }) => {
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

    async fn look(&self, uploaded: UploadedFile<'_>, claim: &Claim) -> Result<Probed<Value>, Error> {
        let wanted = metadata(uploaded);
        let mut look = Look {
            channel: uploaded.upload.channel.clone(),
            thread_ts: uploaded.upload.thread().to_owned(),
            oldest: uploaded.upload.ts.clone(),
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

fn is_permanent(error: &slack_api::Error) -> bool {
    matches!(error, slack_api::Error::Refused { code } if PERMANENT_CODES.contains(&code.as_str()))
}

fn outcome(ts: &str) -> Value {
    json!({ "reply": ts })
}

/// The metadata of our reply to this file. No other message has it, not even one of another installation of this app.
pub fn metadata(uploaded: UploadedFile<'_>) -> Metadata {
    let mut event_payload = json!({ "message": uploaded.upload.ts, "file": uploaded.file.id });
    if let Some(app) = &uploaded.upload.app {
        event_payload["app"] = app.as_str().into();
    }
    Metadata { event_type: METADATA_TYPE.to_owned(), event_payload }
}

/// `Received report.pdf (application/pdf, 1.2 MB).`
fn received(uploaded: UploadedFile<'_>) -> String {
    let File { name, mimetype, size, .. } = uploaded.file;
    let details: Vec<String> = mimetype.iter().cloned().chain(size.map(human)).collect();
    let name = name.as_deref().unwrap_or("a file");
    if details.is_empty() { format!("Received {name}.") } else { format!("Received {name} ({}).", details.join(", ")) }
}

/// A size in the largest unit in which it is at least 1, rounded down.
fn human(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    let unit = UNITS.iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") },
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
            handed_over: None,
        }
    }

    fn said(name: Option<&str>, mimetype: Option<&str>, size: Option<u64>) -> String {
        let (name, mimetype) = (name.map(str::to_owned), mimetype.map(str::to_owned));
        let upload = upload(File { id: "F1".into(), name, mimetype, size });
        received(UploadedFile { upload: &upload, file: &upload.files[0] })
    }

    #[test]
    fn the_reply_says_what_was_received_as_far_as_slack_tells() {
        assert_eq!(
            said(Some("report.pdf"), Some("application/pdf"), Some(1_250_000)),
            "Received report.pdf (application/pdf, 1.2 MB)."
        );
        assert_eq!(said(Some("a.txt"), None, Some(999)), "Received a.txt (999 bytes).");
        assert_eq!(said(Some("b.bin"), None, Some(1_000)), "Received b.bin (1.0 kB).");
        assert_eq!(said(Some("c.txt"), None, Some(1)), "Received c.txt (1 byte).");
        assert_eq!(said(None, None, None), "Received a file.");
    }

    #[test]
    fn a_name_cannot_mention_anybody() {
        let text = said(Some("<!channel> & co.txt"), None, None);
        let upload = upload(File { id: "F1".into(), name: None, mimetype: None, size: None });
        let uploaded = UploadedFile { upload: &upload, file: &upload.files[0] };
        let post = Post::plain("C1", "1.2", &text, metadata(uploaded));
        assert_eq!(post.text, "Received &lt;!channel&gt; &amp; co.txt.");
        assert!(!post.mrkdwn);
    }
}
