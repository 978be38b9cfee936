//! Slack file events handled once, however often Slack or Lambda repeats them.
//!
//! The story of one upload. Slack POSTs an envelope to `slack-events`, the **door** ([`door`]): the signature is
//! verified on the raw body ([`signature`]), the envelope is read ([`event`]), and, under `run` with the envelope's id as
//! its key, the upload is handed over to `slack-files` by asynchronous invocation ([`hand_over`]). Slack gets its 200
//! within three seconds, or repeats. `slack-files` ([`files`]) performs the **effect** ([`effect`]) of each file, under
//! `run` with team, channel, message and file as its key: by default, a reply in the message's thread through the Web API
//! ([`web_api`]). The reply carries metadata, so that after a crash the thread itself can be asked whether it is there.
//!
//! | what happens | what comes of it |
//! |---|---|
//! | Slack repeats an event; two instances get it at once | one hand-over; the others get its outcome, or wait for it |
//! | the door dies between hand-over and completion | Slack repeats, the upload is handed over again, the files' keys recognise it |
//! | `slack-files` dies after it replied | Lambda retries, the probe finds the reply |
//! | Slack cannot say whether the reply is there | nothing is posted; the invocation fails and is retried, then kept as a dead letter |
//! | the store is down | `DEDUP_FALLBACK=open`: once an instance, reported as it happens; `closed`: refused, repeated later |
//! | a dead letter is sent again after days | its record is still there, or the thread is asked |
//!
//! Invariant: nothing that a user typed and no secret is in a log line, a metric or an error
//! (`tests/quiet.rs`).

pub mod config;
pub mod door;
pub mod effect;
pub mod event;
pub mod files;
pub mod hand_over;
pub mod records;
pub mod secrets;
pub mod signature;
pub mod web_api;

use function::Definition;

/// The door.
pub const EVENTS: Definition = Definition {
    name: "slack-events",
    variables: config::EVENTS_VARIABLES,
    build: |env, aws| Box::pin(door::build(env, aws)),
};

/// The effect.
pub const FILES: Definition = Definition {
    name: "slack-files",
    variables: config::FILES_VARIABLES,
    build: |env, aws| Box::pin(files::build(env, aws)),
};

/// Every function of this application.
pub fn functions() -> Vec<Definition> {
    vec![EVENTS, FILES]
}

/// An error and its causes in one line.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
