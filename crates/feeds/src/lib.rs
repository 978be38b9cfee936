//! Posts the entries of feeds, GitHub's and Hatena Bookmark's first, to Mastodon, Pushover, Slack and webhooks: every entry is delivered,
//! and none twice where the destination can be asked.
//!
//! # One entry
//!
//! 1. A schedule invokes the *subscriber* ([`function`]). It fetches the feed ([`outside`]), parses it ([`parse`]), and
//!    finds out which entries are new ([`reading`]).
//! 2. It records every new entry with its content as *owed* ([`table`]). From now on the entry may leave the feed and the
//!    run may die.
//! 3. For every owed entry it invokes the *notifier* ([`delivery`]), which makes the text and delivers it to each destination
//!    under a claim, so that no other attempt repeats the delivery.
//! 4. The subscriber writes down what became of each delivery: delivered, still owed (every run tries it again), or a dead
//!    letter.
//!
//! **Invariant**: an entry that was in the feed during a read is delivered to every destination or is in the dead letters
//! (`tests/interrupted.rs`). Mastodon and Slack, which can be asked what they have, never get it twice.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | a run dies before it has recorded all new entries | the next run reads them again |
//! | a run dies after that | the next run finds them owed; the claims tell what was already delivered |
//! | the feed cannot be fetched or read | the run ends with an error, after it has delivered what is owed |
//! | a document is cut short, or broken in the middle | the entries before that place are read, the others do not count as gone, and the run ends with an error; of a first document nothing is recorded |
//! | the feed answers 429 or 503 with `Retry-After` for more than an hour | every run ends with an error until it is read |
//! | Mastodon's answer is lost | within 50 minutes the post is repeated with the same `Idempotency-Key`; later the account is searched first |
//! | Slack's answer is lost | the channel is searched for the message's key first |
//! | a webhook's answer is lost | it is posted again with the same `Idempotency-Key` |
//! | the feed answers 410 | it is not read any more, and every run ends with an error until its address changes |
//! | the feed redirects permanently | it is read there, and the runs of four periods (a further feed: one hour) end with an error |
//! | Pushover's answer is lost | the message is sent again, or becomes a dead letter, as configured |
//! | a destination is down | the delivery stays owed; after an hour every run ends with an error, after 14 days it is a dead letter |
//! | a destination refuses our token, or the notifier does not start | the delivery stays owed, and the notifier's invocation ends with an error |
//! | the feed is empty and was not before | two readings end with an error, the third is believed |
//! | a delivery is a dead letter | every run does its work and ends with an error, until a person sends it again or drops it |
//! | a read knows no entry (a gap) | the runs of four periods (a further feed: one hour) do their work and end with an error |
//! | a destination refuses an entry | after 5 refusals the delivery is a dead letter |
//! | the store is down | the run ends with an error and nothing is posted; the next run goes on |
//! | the table lost items and was restored from a copy | Mastodon and Slack are asked before an entry of that time is posted; what Pushover or a webhook may have is a dead letter ([`table::Doubt`]) |
//! | two runs overlap | one claim per delivery: one of them delivers, the other one leaves it |
//!
//! # Functions
//!
//! `github-subscriber`, `github-notifier`, `hatebu-subscriber`, `hatebu-notifier`; and, for all further feeds together,
//! `feeds-subscriber` and `feeds-notifier`. In the code a further feed is *listed*: it is an entry of the [`list`] and shares its functions.

pub mod delivery;
pub mod entry;
pub mod function;
pub mod list;
pub mod outside;
pub mod parse;
pub mod reading;
pub mod settings;
pub mod table;
pub mod trouble;

use ::function::Definition;

use crate::{
    entry::Source,
    function::{listed, notifier, subscriber},
    settings::{LISTED_NOTIFIER_VARIABLES, LISTED_SUBSCRIBER_VARIABLES, NOTIFIER_VARIABLES, SUBSCRIBER_VARIABLES},
};

pub const GITHUB_SUBSCRIBER: Definition = Definition {
    name: "github-subscriber",
    variables: SUBSCRIBER_VARIABLES,
    build: |env, aws| Box::pin(subscriber::build(Source::Github, env, aws)),
};
pub const GITHUB_NOTIFIER: Definition = Definition {
    name: "github-notifier",
    variables: NOTIFIER_VARIABLES,
    build: |env, aws| Box::pin(notifier::build(Source::Github, env, aws)),
};
pub const HATEBU_SUBSCRIBER: Definition = Definition {
    name: "hatebu-subscriber",
    variables: SUBSCRIBER_VARIABLES,
    build: |env, aws| Box::pin(subscriber::build(Source::Hatebu, env, aws)),
};
pub const HATEBU_NOTIFIER: Definition = Definition {
    name: "hatebu-notifier",
    variables: NOTIFIER_VARIABLES,
    build: |env, aws| Box::pin(notifier::build(Source::Hatebu, env, aws)),
};

pub const FEEDS_SUBSCRIBER: Definition = Definition {
    name: "feeds-subscriber",
    variables: LISTED_SUBSCRIBER_VARIABLES,
    build: |env, aws| Box::pin(listed::build(env, aws)),
};
pub const FEEDS_NOTIFIER: Definition = Definition {
    name: "feeds-notifier",
    variables: LISTED_NOTIFIER_VARIABLES,
    build: |env, aws| Box::pin(notifier::build(Source::Listed, env, aws)),
};

/// All functions of this application.
pub fn functions() -> Vec<Definition> {
    vec![GITHUB_SUBSCRIBER, GITHUB_NOTIFIER, HATEBU_SUBSCRIBER, HATEBU_NOTIFIER, FEEDS_SUBSCRIBER, FEEDS_NOTIFIER]
}
