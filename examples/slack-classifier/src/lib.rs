//! A classifier: asks an HTTP API what an uploaded file is, and posts the answer in its thread, once.
//!
//! 1. `slack-files` claims the file and calls [`Classify::perform`](Effect::perform).
//! 2. It asks the API. Asking has no effect, so whatever fails here may be tried again.
//! 3. It posts the answer. The reply has metadata, so that it can be found again.
//! 4. If the function dies in between, its retry calls [`Classify::find`](Effect::find) first. If the reply is there, nothing is
//!    repeated, not even the question.
//!
//! If your API charges for each question, or has an effect of its own, give it an idempotency key: [`Claim::key`] is the same
//! for every attempt at a file. This example sends it as the header `Idempotency-Key`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use function::{Aws, Definition, Env, Handler};
use futures::future::BoxFuture;
use http_client::NoAnswer;
use ichido::{Claim, Failure, Probed};
use serde::Deserialize;
use serde_json::{Value, json};
use slack::effect::{Effect, Error, Reply, UploadedFile};
use slack::event::File;

/// The function. It reads what `slack-files` reads, and the address of the API.
pub const FILES: Definition = Definition {
    name: "slack-files",
    variables: &[
        "CLASSIFIER_URL",
        "DEDUP_TABLE_NAME",
        "DEDUP_FALLBACK",
        "SAME_CONTENT_CHANNELS",
        "SAME_CONTENT_HOURS",
        "SLACK_API_URL",
        "SLACK_BOT_TOKEN_PARAMETER",
    ],
    build: |env, aws| Box::pin(build(env, aws)),
};

/// The longest time for one question.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// What the API answers is shown to people, so it is cut.
const MAX_LABEL_CHARS: usize = 80;

async fn build(env: Env, aws: Aws) -> Result<Handler, function::Error> {
    let mut vars = env.reader();
    let url = vars.required("CLASSIFIER_URL");
    vars.finish()?;
    let classifier = Classifier::new(url).map_err(|error| function::Error::failed("Classifier", error))?;
    slack::function::files::build_with(env, aws, |slack, clock| {
        Arc::new(Classify { classifier, reply: Reply::new(slack, clock) })
    })
    .await
}

/// The effect: the answer of the API, as a reply.
#[derive(Debug)]
pub struct Classify {
    pub classifier: Classifier,
    pub reply: Reply,
}

impl Effect for Classify {
    fn perform<'a>(
        &'a self,
        uploaded: UploadedFile<'a>,
        claim: &'a Claim,
    ) -> BoxFuture<'a, Result<Value, Failure<Error>>> {
        Box::pin(async move {
            let within = self.reply.time_left(claim).ok_or(Failure::Retry(Error::NoTime))?;
            let class = self.classifier.ask(uploaded.file, claim.key().as_str(), within).await?;
            self.reply.say(uploaded, &class.in_words(), claim).await
        })
    }

    fn find<'a>(&'a self, uploaded: UploadedFile<'a>, claim: &'a Claim) -> BoxFuture<'a, Result<Probed<Value>, Error>> {
        self.reply.find(uploaded, claim)
    }
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Class {
    /// `invoice`
    pub label: String,
    /// From 0 to 1.
    pub confidence: f64,
}

impl Class {
    fn in_words(&self) -> String {
        let label: String = self.label.chars().take(MAX_LABEL_CHARS).collect();
        format!("This looks like: {label} ({:.0} %).", self.confidence.clamp(0.0, 1.0) * 100.0)
    }
}

/// The HTTP API: `POST {"name", "mimetype", "size"}`, answered with [`Class`].
pub struct Classifier {
    client: reqwest::Client,
    url: String,
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").finish_non_exhaustive()
    }
}

impl Classifier {
    pub fn new(url: String) -> Result<Self, String> {
        Ok(Self { client: http_client::builder().build().map_err(http_client::reason)?, url })
    }

    /// Asks what a file is. A refusal of this file is permanent; anything else may be tried again, because asking has no effect.
    async fn ask(&self, file: &File, key: &str, within: Duration) -> Result<Class, Failure<Error>> {
        let question = json!({ "name": file.name, "mimetype": file.mimetype, "size": file.size });
        let request = self.client.post(&self.url).header("idempotency-key", key).json(&question);
        let answer = request.timeout(within.min(ASK_WITHIN)).send().await;
        let answer =
            answer.map_err(|error| retry(format!("the classifier did not answer: {}", NoAnswer::from(error))))?;
        match answer.status().as_u16() {
            200 => {}
            code @ (400 | 413 | 415 | 422) => {
                return Err(Failure::Permanent(Error::Other(format!("the classifier refuses the file (HTTP {code})"))));
            }
            code => return Err(retry(format!("the classifier failed (HTTP {code})"))),
        }
        answer.json().await.map_err(|_| retry("the classifier's answer is not a class".to_owned()))
    }
}

fn retry(reason: String) -> Failure<Error> {
    Failure::Retry(Error::Other(reason))
}
