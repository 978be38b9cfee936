//! Clients of other people's APIs, and the one AWS call that is not the table's.

pub mod destination;
pub mod fetch;
pub mod invoke;
pub mod mastodon;
pub mod pushover;
pub mod sender;
pub mod slack;
pub mod webhook;

use std::time::Duration;

use ichido::Timestamp;

const USER_AGENT: &str = concat!("ichido-feeds/", env!("CARGO_PKG_VERSION"), " (+https://github.com/ichido-rs/ichido)");

/// Clocks differ, so what a destination has from a little before the wanted time is looked at as well.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// Begins an HTTP client that uses no proxy of the environment, because a proxy would connect to addresses that nobody has checked.
///
/// It does not follow redirects: a feed's are checked one by one, and one that turns a POST into a GET would look like success.
fn client() -> reqwest::ClientBuilder {
    http_client::builder().no_proxy().user_agent(USER_AGENT).redirect(reqwest::redirect::Policy::none())
}

/// `None` for a time before 1970.
fn moment(at: jiff::Timestamp) -> Option<Timestamp> {
    u64::try_from(at.as_millisecond()).ok().map(Timestamp::from_millis)
}
