//! GitHub's and Hatena Bookmark's feeds, posted to Mastodon and Pushover: every entry delivered, none twice.
//!
//! **The story of an entry.** A schedule runs the *subscriber* ([`subscriber`]). It fetches the feed ([`fetch`]),
//! parses it ([`parse`]), and recognises what is new ([`identity`], [`first_run`], [`filter`]). Before anything else each
//! new entry is recorded, with its content, as *owed* ([`state`]): from here on it may leave the feed, and the run may
//! die. Then the subscriber invokes the *notifier* ([`notifier`]), which makes the text ([`text`]) and delivers it to each
//! destination ([`mastodon`], [`pushover`]) under a claim of its own, so that no other attempt repeats it. What
//! came of it is written down: delivered, still owed (tried again in every run), or a dead letter ([`letters`]).
//!
//! **Invariant**: an entry that was in the feed while we polled is delivered to every destination or is in the dead
//! letters; none vanishes (`tests/interrupted.rs`). At a destination that can be asked it is never twice.
//!
//! Domain modules are plain functions over data; [`fetch`], [`state`], [`mastodon`], [`pushover`] and [`invoke`]
//! talk to the outside; [`mod@functions`] reads the environment and wires things up.

pub mod destination;
pub mod entry;
pub mod fetch;
pub mod filter;
pub mod first_run;
pub mod functions;
pub mod github;
pub mod hatena;
pub mod html;
mod http;
pub mod identity;
pub mod invoke;
pub mod letters;
pub mod mastodon;
pub mod message;
pub mod notifier;
pub mod pace;
pub mod parse;
pub mod pushover;
pub mod shadow;
pub mod state;
pub mod subscriber;
pub mod text;

pub use functions::{GITHUB_NOTIFIER, GITHUB_SUBSCRIBER, HATEBU_NOTIFIER, HATEBU_SUBSCRIBER, functions};

/// How many cases a property test tries: a few in `make test`, as many as it is told to in `make fuzz`.
#[cfg(test)]
fn cases(few: u32) -> proptest::test_runner::Config {
    let told = proptest::test_runner::Config::default();
    if std::env::var_os("PROPTEST_CASES").is_some() {
        told
    } else {
        proptest::test_runner::Config { cases: few, ..told }
    }
}
