//! The applications and their users, one file each.
//!
//! Each file has the same shape: `install` adds the application's functions to a world, and `surge` is its users: they send the load,
//! repeat what was refused, and in the end count the effects.

pub mod feeds;
pub mod mesh;
pub mod sessync;
pub mod slack;
pub mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use crate::clock::Simulated;
use crate::{Error, WAVE, World};

/// What users do in a world: they send a load, and count what came of it.
pub(crate) type Script = for<'a> fn(&'a World, &'a Plan) -> LocalBoxFuture<'a, Result<Outcome, Error>>;

/// The load comes once.
pub const ONE_WAVE: &[u32] = &[0];

/// An application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    Slack,
    Feeds,
    Tokens,
    Sessync,
    Mesh,
}

impl App {
    pub const ALL: [App; 5] = [App::Slack, App::Feeds, App::Tokens, App::Sessync, App::Mesh];

    /// Its name, which is the name of its crate.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            App::Slack => "slack",
            App::Feeds => "feeds",
            App::Tokens => "tokens",
            App::Sessync => "sessync",
            App::Mesh => "mesh",
        }
    }

    /// What its load counts.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            App::Slack => slack::UNIT,
            App::Feeds => feeds::UNIT,
            App::Tokens => tokens::UNIT,
            App::Sessync => sessync::UNIT,
            App::Mesh => mesh::UNIT,
        }
    }

    /// The load that a search begins with: below every limit.
    #[must_use]
    pub fn first_load(self) -> u32 {
        32
    }

    /// The load at which a search gives up.
    #[must_use]
    pub fn last_load(self) -> u32 {
        match self {
            // Each machine reads what all others have sent, so a run of twice as many takes four times as long.
            App::Sessync => 512,
            _ => 4_096,
        }
    }

    /// The minutes at which the load is repeated, so that an alarm has the time that it needs.
    #[must_use]
    pub fn waves(self) -> &'static [u32] {
        match self {
            // Slack gives an event up after five minutes. One surge is what it can repeat.
            App::Slack => ONE_WAVE,
            // Three minutes in a row, and three periods of five minutes.
            App::Tokens => &[0, 1, 2, 6, 11],
            App::Mesh => &[0, 6, 11],
            // A run of all feeds, every five minutes, for four periods of their alarm.
            App::Feeds => &[0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50],
            App::Sessync => ONE_WAVE,
        }
    }

    /// Its template, with the parameters that differ from their defaults.
    pub(crate) fn template(self) -> (&'static str, Vec<(&'static str, Value)>) {
        match self {
            App::Slack => (slack::TEMPLATE, Vec::new()),
            App::Feeds => (feeds::TEMPLATE, vec![("FurtherFeeds", json!("on"))]),
            App::Tokens => (tokens::TEMPLATE, Vec::new()),
            App::Sessync => (sessync::TEMPLATE, vec![("SessyncState", json!("on"))]),
            App::Mesh => (mesh::TEMPLATE, vec![("MeshMaxConnectionTimeMinutes", json!(mesh::MINUTES))]),
        }
    }

    /// What its users do.
    pub(crate) fn script(self) -> Script {
        match self {
            App::Slack => |world, plan| Box::pin(slack::surge(world, plan)),
            App::Feeds => |world, plan| Box::pin(feeds::surge(world, plan)),
            App::Tokens => |world, plan| Box::pin(tokens::surge(world, plan)),
            App::Sessync => |world, plan| Box::pin(sessync::surge(world, plan)),
            App::Mesh => |world, plan| Box::pin(mesh::surge(world, plan)),
        }
    }

    pub(crate) fn failed<E>(self, what: &'static str) -> impl FnOnce(E) -> Error
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |source| Error::Prepare { app: self.name(), what, source: source.into() }
    }
}

/// There is no such application.
#[derive(Debug, thiserror::Error)]
#[error("there is no application {0:?}; there are slack, feeds, tokens, sessync and mesh")]
pub struct Unknown(String);

impl FromStr for App {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Self, Unknown> {
        Self::ALL.into_iter().find(|app| app.name() == name).ok_or_else(|| Unknown(name.to_owned()))
    }
}

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub load: u32,
    /// The minutes at which the load begins. It lasts for [`WAVE`].
    pub waves: &'static [u32],
    pub seed: u64,
}

impl Plan {
    /// When each of the things is sent that the load counts per second.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Duration> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let in_wave = u64::from(self.load) * WAVE.as_secs();
        let apart = 1.0 / f64::from(self.load);
        let mut arrivals = Vec::new();
        for minute in self.waves {
            let begins = Duration::from_secs(60) * *minute;
            arrivals.extend((0..in_wave).map(|n| begins + Duration::from_secs_f64((n as f64 + random.f64()) * apart)));
        }
        arrivals
    }
}

/// What became of a surge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many effects were wanted.
    pub wanted: u64,
    /// How many of them did not happen, and nothing knows of them any more.
    pub lost: u64,
    /// How many of them did not happen and are dead letters: an alarm rings, and an operator can send them again.
    pub dead: u64,
    /// How many of them did not happen when the run ended, and would be tried again.
    pub owed: u64,
    /// How many happened more than once, or were not wanted at all.
    pub doubled: u64,
    /// What the users saw, and how often.
    pub seen: BTreeMap<String, u64>,
    /// The longest time from the first attempt to the effect or its acknowledgement.
    pub slowest: Duration,
}

impl Outcome {
    /// Compares what was wanted with what is there, by their keys.
    #[must_use]
    pub fn compare<'a>(
        wanted: impl IntoIterator<Item = &'a str>,
        there: &BTreeMap<String, u64>,
        left: &Left,
        users: &Users,
    ) -> Self {
        let mut outcome = Outcome { seen: users.seen(), slowest: users.slowest(), ..Outcome::default() };
        let mut unwanted = there.clone();
        for key in wanted {
            outcome.wanted += 1;
            match unwanted.remove(key).unwrap_or_default() {
                0 if left.dead.contains(key) => outcome.dead += 1,
                0 if left.owed.contains(key) => outcome.owed += 1,
                0 => outcome.lost += 1,
                1 => {}
                _ => outcome.doubled += 1,
            }
        }
        outcome.doubled += unwanted.values().sum::<u64>();
        outcome
    }
}

/// What has not happened, but is not lost either.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// Dead letters.
    pub dead: BTreeSet<String>,
    pub owed: BTreeSet<String>,
}

/// What the users see. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Users(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    seen: BTreeMap<String, u64>,
    slowest: Duration,
}

impl Users {
    /// One of them saw this.
    pub fn saw(&self, what: impl Into<String>) {
        *telemetry::lock(&self.0).seen.entry(what.into()).or_default() += 1;
    }

    /// One of them was served after so long.
    pub fn waited(&self, time: Duration) {
        let mut seen = telemetry::lock(&self.0);
        seen.slowest = seen.slowest.max(time);
    }

    fn seen(&self) -> BTreeMap<String, u64> {
        telemetry::lock(&self.0).seen.clone()
    }

    fn slowest(&self) -> Duration {
        telemetry::lock(&self.0).slowest
    }
}

/// How a client waits before it repeats a request: longer each time, by chance, as the SDKs of AWS do.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    random: fastrand::Rng,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(30);

    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { next: Self::FIRST, random: fastrand::Rng::with_seed(seed) }
    }

    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next.mul_f64(0.5 + self.random.f64())).await;
        self.next = (self.next * 2).min(Self::LONGEST);
    }
}

/// Runs all clients, each from its arrival on, and returns when the last one is done.
pub(crate) async fn all<F>(clock: Simulated, arrivals: Vec<Duration>, client: impl Fn(usize) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let began = clock.elapsed();
    let clients = arrivals.into_iter().enumerate().map(|(number, at)| {
        let client = client(number);
        tokio::task::spawn_local(async move {
            tokio::time::sleep((began + at).saturating_sub(clock.elapsed())).await;
            client.await;
        })
    });
    // A client that panicked has no effect, which the count finds.
    let _ = futures::future::join_all(clients.collect::<Vec<_>>()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_that_nobody_wanted_counts_as_doubled() {
        let there = |found: &[(&str, u64)]| found.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        let compare = |found: BTreeMap<String, u64>| {
            let outcome = Outcome::compare(["a", "b"], &found, &Left::default(), &Users::default());
            (outcome.wanted, outcome.lost, outcome.doubled)
        };
        assert_eq!(compare(there(&[("a", 1), ("b", 1)])), (2, 0, 0));
        assert_eq!(compare(there(&[("a", 1)])), (2, 1, 0));
        assert_eq!(compare(there(&[("a", 3), ("b", 1)])), (2, 0, 1));
        assert_eq!(compare(there(&[("a", 1), ("b", 1), ("c", 2)])), (2, 0, 2));
    }

    #[test]
    fn what_is_dead_or_owed_is_neither_done_nor_lost() {
        let there = BTreeMap::from([("a".to_owned(), 1)]);
        let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let left = Left { dead: set(&["a", "b"]), owed: set(&["c"]) };
        let outcome = Outcome::compare(["a", "b", "c", "d"], &there, &left, &Users::default());
        assert_eq!((outcome.wanted, outcome.dead, outcome.owed, outcome.lost), (4, 1, 1, 1));
    }
}
