//! Slack file events handled once, however often Slack or Lambda repeats them.
//!
//! # One upload
//!
//! 1. Slack POSTs an envelope to the function `slack-events` ([`function::events`]). It verifies the signature of the raw
//!    body ([`signature`]) and reads the envelope ([`event`]).
//! 2. It claims the envelope's id ([`table`]) and, as the holder of that claim, invokes `slack-files` asynchronously
//!    ([`outside::hand_over`]). Slack gets its 200 within three seconds, or sends the event again.
//! 3. The function `slack-files` ([`function::files`]) claims each file by team, channel, message and file id, and performs
//!    the [`effect`]: by default, a reply in the message's thread ([`slack_api`]). The reply carries metadata, so
//!    that after a crash the thread itself says whether the reply is there.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | Slack repeats an event, or two instances get it at the same time | one of them hands it over; the others wait for its outcome or get the recorded one |
//! | `slack-events` dies between the hand-over and its record | Slack sends the event again, it is handed over again, and each file's own claim prevents a second reply |
//! | `slack-files` dies after it replied | Lambda retries the invocation, and the probe finds the reply in the thread |
//! | Slack cannot say whether the reply is there | nothing is posted. The invocation fails, Lambda retries it, and then keeps it as a dead letter |
//! | the store is down | `DEDUP_FALLBACK=open`: each instance handles an event at most once and reports it at that moment. `closed`: the event is refused and comes again later |
//! | an earlier bot handled the event, in the same table | it is acknowledged, and not handled again ([docs/taking-over.md](../../../docs/taking-over.md)) |
//! | a content is handled while another file with it arrives | where [`same_content`] is on: the other one fails, and Lambda retries it; then it gets a link, or is handled itself |
//! | an operator sends a dead letter again after days | its record is still there, or the thread is asked |
//!
//! Invariant: nothing that a user typed and no secret is in a log line, a metric or an error (`tests/quiet.rs`).

pub mod effect;
pub mod event;
pub mod function;
pub mod outside;
pub mod report;
pub mod same_content;
pub mod settings;
pub mod signature;
pub mod table;

use ::function::Definition;

/// Accepts Slack's events and hands their files over.
pub const EVENTS: Definition = Definition {
    name: "slack-events",
    variables: settings::EVENTS_VARIABLES,
    build: |env, aws| Box::pin(function::events::build(env, aws)),
};

/// Replies to the files that were handed over.
pub const FILES: Definition = Definition {
    name: "slack-files",
    variables: settings::FILES_VARIABLES,
    build: |env, aws| Box::pin(function::files::build(env, aws)),
};

/// Every function of this application.
pub fn functions() -> Vec<Definition> {
    vec![EVENTS, FILES]
}
