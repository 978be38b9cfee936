//! The applications and their users, one file each.
//!
//! Each file has the same shape: `world` makes the application's world with its functions, and `surge` is its users: they send the
//! load, repeat what was refused, and in the end count the effects.

pub mod tokens;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::clock::Simulated;
use crate::{Error, WAVE, World};

/// The time from the beginning of one wave to that of the next.
const WAVE_EVERY: Duration = Duration::from_secs(60);

/// An application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum App {
    Tokens,
}

impl App {
    pub const ALL: [App; 1] = [App::Tokens];

    /// Its name, which is the name of its crate.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            App::Tokens => "tokens",
        }
    }

    /// What its load counts.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            App::Tokens => tokens::UNIT,
        }
    }

    /// The load that a search begins with: far below every limit.
    #[must_use]
    pub fn first_load(self) -> u32 {
        match self {
            App::Tokens => 8,
        }
    }

    /// The load at which a search gives up.
    #[must_use]
    pub fn last_load(self) -> u32 {
        self.first_load() << 10
    }

    /// How many waves the load is repeated in, so that an alarm has the time that it needs.
    #[must_use]
    pub fn waves(self) -> u32 {
        match self {
            App::Tokens => 12,
        }
    }

    pub(crate) fn world(self, plan: &Plan) -> Result<World, Error> {
        match self {
            App::Tokens => tokens::world(plan),
        }
    }

    pub(crate) async fn surge(self, world: &World, plan: &Plan) -> Result<Outcome, Error> {
        match self {
            App::Tokens => tokens::surge(world, plan).await,
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
    /// The load lasts for [`WAVE`], and begins again every minute.
    pub waves: u32,
    pub seed: u64,
}

impl Plan {
    /// When each of the things is sent that the load counts per second.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Duration> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let in_wave = u64::from(self.load) * WAVE.as_secs();
        let apart = 1.0 / f64::from(self.load);
        let at = |wave: u32, n: u64, jitter: f64| WAVE_EVERY * wave + Duration::from_secs_f64((n as f64 + jitter) * apart);
        (0..self.waves).flat_map(|wave| (0..in_wave).map(move |n| (wave, n))).map(|(wave, n)| at(wave, n, random.f64())).collect()
    }
}

/// What became of a surge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many effects were wanted.
    pub wanted: u64,
    /// How many of them did not happen, and are not known as dead letters either.
    pub lost: u64,
    /// How many happened more than once.
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
        users: &Users,
    ) -> Self {
        let mut outcome = Outcome { seen: users.seen(), slowest: users.slowest(), ..Outcome::default() };
        for key in wanted {
            outcome.wanted += 1;
            match there.get(key).copied().unwrap_or_default() {
                0 => outcome.lost += 1,
                1 => {}
                _ => outcome.doubled += 1,
            }
        }
        outcome
    }
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
    F: Future<Output = ()> + Send + 'static,
{
    let began = clock.elapsed();
    let clients = arrivals.into_iter().enumerate().map(|(number, at)| {
        let client = client(number);
        tokio::spawn(async move {
            tokio::time::sleep((began + at).saturating_sub(clock.elapsed())).await;
            client.await;
        })
    });
    // A client that panicked has no effect, which the count finds.
    let _ = futures::future::join_all(clients.collect::<Vec<_>>()).await;
}
