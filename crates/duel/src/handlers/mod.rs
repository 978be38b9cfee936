//! The handlers, each in a process of its own: they know nothing of the storm. A worker handles one event at a time, as Lambda does.
//! It reads one line per delivery and answers with one line; it dies when somebody kills it.

mod exactly_once;
mod naive;

use std::io::{self, BufRead, Write};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use serde::{Deserialize, Serialize};

use crate::storm::SDK_ATTEMPTS;

/// The variable that makes a process a worker. Its value is the handler's name.
pub(crate) const HANDLER: &str = "ICHIDO_DUEL_HANDLER";
/// The variable with the worker's own address of the store and the destination.
pub(crate) const ADDRESS: &str = "ICHIDO_DUEL_ADDRESS";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One delivery, as a worker reads it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    pub(crate) event: String,
    pub(crate) limit_ms: u64,
}

/// A line that a worker writes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    #[serde(default)]
    pub(crate) ready: bool,
    #[serde(default)]
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) why: String,
}

/// If this process was started as a worker of a duel, works until the duel ends, and returns the exit code. Every program that starts
/// duels calls this first, because the workers are processes of the same program.
#[must_use]
pub fn worker() -> Option<u8> {
    let handler = std::env::var(HANDLER).ok()?;
    Some(match work(&handler) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "the worker of {handler} failed: {error}");
            1
        }
    })
}

fn work(handler: &str) -> Result<(), BoxError> {
    let outside = Outside::new(std::env::var(ADDRESS)?)?;
    // Between two deliveries nothing runs, as in a function that Lambda has frozen.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let naive = naive::Naive::new(&outside);
    let exactly_once = exactly_once::ExactlyOnce::new(&outside);
    say(&Line { ready: true, ..Line::default() })?;
    for line in io::stdin().lock().lines() {
        let Delivery { event, limit_ms } = serde_json::from_str(&line?)?;
        let limit = Duration::from_millis(limit_ms);
        let done = runtime.block_on(async {
            match handler {
                "naive" => naive.handle(&event).await,
                "ichido" => exactly_once.handle(&event, limit).await,
                other => Err(format!("there is no handler {other}").into()),
            }
        });
        say(&match done {
            Ok(()) => Line { ok: true, ..Line::default() },
            Err(error) => Line { why: telemetry::causes(&*error), ..Line::default() },
        })?;
    }
    Ok(())
}

fn say(line: &Line) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush()
}

/// What a worker calls: the store, and the destination of its posts.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    address: String,
    http: reqwest::Client,
}

impl Outside {
    fn new(address: String) -> Result<Self, BoxError> {
        Ok(Self { address, http: http_client::builder().build()? })
    }

    /// The AWS SDK with its defaults, except that those of other languages try a call another number of times.
    fn store(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("ap-northeast-1"))
            .retry_config(RetryConfig::standard().with_max_attempts(SDK_ATTEMPTS))
            .credentials_provider(Credentials::new("duel", "duel", None, None, "duel"))
            .endpoint_url(&self.address)
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        Client::from_conf(config.build())
    }

    /// Posts the event. An error does not say whether the post was made, unless it is [`PostError::Refused`].
    async fn post(&self, event: &str) -> Result<u64, PostError> {
        let request = self.http.post(format!("{}/posts", self.address)).body(event.to_owned());
        let answer = request.send().await.map_err(PostError::NoAnswer)?;
        if !answer.status().is_success() {
            return Err(PostError::Refused(answer.status().as_u16()));
        }
        Ok(answer.json::<Post>().await.map_err(PostError::NoAnswer)?.id)
    }

    /// Asks the destination for the post of an event.
    async fn find(&self, event: &str) -> Result<Option<u64>, PostError> {
        let request = self.http.get(format!("{}/posts/{event}", self.address));
        let answer = request.send().await.map_err(PostError::NoAnswer)?;
        match answer.status().as_u16() {
            200 => Ok(Some(answer.json::<Post>().await.map_err(PostError::NoAnswer)?.id)),
            404 => Ok(None),
            status => Err(PostError::Refused(status)),
        }
    }
}

/// A post at the destination.
#[derive(Debug, Deserialize)]
struct Post {
    id: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PostError {
    /// The destination refused the request; there is no post.
    #[error("the destination refused the request with status {0}")]
    Refused(u16),
    /// There may be a post.
    #[error("the destination did not answer")]
    NoAnswer(#[source] reqwest::Error),
}
