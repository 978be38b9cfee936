//! Slack's Web API within its rate limits, also those that another invocation met.
//!
//! Promise: within five seconds after Slack has answered 429, no instance calls the same method (for messages: in the same channel)
//! before the time that Slack asked for, and then, for a minute, no faster than the tier of the method allows. Until then an
//! instance may believe what it read before: that there is no limit. A call that would have to wait longer than it may take fails at
//! once with [`Error::RateLimited`], without a call to Slack.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ichido::Clock;
use slack_api::{Content, Error, Look, Page, Post, Slack};

use crate::table::limits::{Limit, Limits};

/// `chat.postMessage` has a tier of its own: about one message per second and channel.
const POST_INTERVAL: Duration = Duration::from_secs(1);
/// `conversations.replies` is in tier 3: at least 50 calls per minute.
const REPLIES_INTERVAL: Duration = Duration::from_millis(1_200);
/// `files.info` is in tier 4: at least 100 calls per minute. It stands for the download too.
const INFO_INTERVAL: Duration = Duration::from_millis(600);
/// `chat.getPermalink` has a tier of its own: hundreds of calls per minute.
const PERMALINK_INTERVAL: Duration = Duration::from_millis(300);
/// The time that a call needs after its turn has come.
const CALL: Duration = Duration::from_millis(500);

/// The Web API, with the limits that were met.
pub struct Paced {
    slack: Arc<dyn Slack>,
    limits: Limits,
    clock: Arc<dyn Clock>,
}

impl Paced {
    pub fn new(slack: Arc<dyn Slack>, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self { slack, limits, clock }
    }

    /// Waits for a turn, and returns what is left of the time.
    async fn wait(&self, limit: &Limit, within: Duration) -> Result<Duration, Error> {
        let begun = self.clock.now();
        let latest = (begun + within).saturating_sub(CALL);
        match self.limits.turn(limit, latest).await {
            Ok(at) => {
                let now = self.clock.now();
                if at > now {
                    self.clock.sleep(at.since(now)).await;
                }
                Ok(within.saturating_sub(self.clock.now().since(begun)))
            }
            Err(not_before) => Err(Error::RateLimited { after: not_before.since(self.clock.now()) }),
        }
    }

    /// Tells other invocations if Slack limits the rate.
    async fn told<T>(&self, limit: &Limit, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::RateLimited { after }) = &answer {
            self.limits.met(limit, *after).await;
        }
        answer
    }
}

impl Slack for Paced {
    fn post<'a>(&'a self, post: &'a Post, within: Duration) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            let limit = Limit { name: format!("chat.postMessage#{}", post.channel), interval: POST_INTERVAL };
            let within = self.wait(&limit, within).await?;
            self.told(&limit, self.slack.post(post, within).await).await
        })
    }

    fn thread<'a>(&'a self, look: &'a Look, within: Duration) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let limit = Limit { name: "conversations.replies".to_owned(), interval: REPLIES_INTERVAL };
            let within = self.wait(&limit, within).await?;
            self.told(&limit, self.slack.thread(look, within).await).await
        })
    }

    fn content<'a>(&'a self, file: &'a str, max_bytes: u64, within: Duration) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            let limit = Limit { name: "files.info".to_owned(), interval: INFO_INTERVAL };
            let within = self.wait(&limit, within).await?;
            self.told(&limit, self.slack.content(file, max_bytes, within).await).await
        })
    }

    fn permalink<'a>(
        &'a self,
        channel: &'a str,
        ts: &'a str,
        within: Duration,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let limit = Limit { name: "chat.getPermalink".to_owned(), interval: PERMALINK_INTERVAL };
            let within = self.wait(&limit, within).await?;
            self.told(&limit, self.slack.permalink(channel, ts, within).await).await
        })
    }
}

impl fmt::Debug for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").field("limits", &self.limits).finish_non_exhaustive()
    }
}
