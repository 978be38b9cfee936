//! The last failure of a hook. A hook prints nothing, so it is kept until an upload succeeds: `status` and `self-check`
//! show it, the commands that use the state begin with it, and a session begins with it when it is older than a day.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::dir::{Location, Readers};

const FILE: &str = "failure.json";
const MAX_BYTES: u64 = 64 * 1024;
/// After this time the user is told at the start of a session.
const TELL_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The first failure since the last success.
    pub(crate) since: String,
    /// The last one.
    pub(crate) at: String,
    /// How many runs have failed since the last success.
    pub(crate) runs: u64,
    pub(crate) message: String,
}

impl Failure {
    /// Whether it has lasted for so long that a session begins with it.
    pub(crate) fn is_old(&self, now: Time) -> bool {
        Time::parse(&self.since).is_some_and(|since| now.since(since) > TELL_AFTER)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { since, at, runs, message } = self;
        match runs {
            0 | 1 => write!(f, "the hook failed at {at}: {message}"),
            _ => write!(f, "the hook has failed {runs} times since {since}, the last time at {at}: {message}"),
        }
    }
}

/// The failure of the last run, if it failed.
pub(crate) fn last(home: &Location) -> io::Result<Option<Failure>> {
    let Some(dir) = home.open()? else { return Ok(None) };
    Ok(dir.read(FILE, MAX_BYTES)?.and_then(|text| serde_json::from_slice(&text).ok()))
}

/// Keeps the failure of a run.
pub(crate) fn keep(home: &Location, now: Time, message: &str) -> io::Result<()> {
    let before = last(home).unwrap_or_default();
    let failure = Failure {
        since: before.as_ref().map_or_else(|| now.to_string(), |before| before.since.clone()),
        at: now.to_string(),
        runs: before.map_or(0, |before| before.runs) + 1,
        message: message.chars().take(2000).collect(),
    };
    home.create()?.replace(FILE, Readers::Owner, &mut |to| Ok(serde_json::to_writer(to, &failure)?))
}

/// A run succeeded.
pub(crate) fn clear(home: &Location) -> io::Result<()> {
    match home.open()? {
        Some(dir) => dir.remove(FILE),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_from_the_first_one_until_a_success() {
        let base = tempfile::tempdir().unwrap();
        let home = Location::private(base.path()).join("project");
        let day = 24 * 60 * 60 * 1000;
        assert_eq!(last(&home).unwrap(), None);
        keep(&home, Time(0), "one").unwrap();
        keep(&home, Time(day), "two").unwrap();
        let failure = last(&home).unwrap().unwrap();
        assert_eq!((failure.runs, failure.since.as_str()), (2, "1970-01-01T00:00:00.000Z"));
        assert!(failure.to_string().contains("two"));
        assert!(!failure.is_old(Time(day)) && failure.is_old(Time(day + 1)));
        clear(&home).unwrap();
        assert_eq!(last(&home).unwrap(), None);
    }
}
