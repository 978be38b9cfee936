//! What breaks first: each application under a load that doubles until AWS refuses something, in simulated time. `make scale` runs it.
//!
//! A run ([`measure`]) makes a [`World`]: the embedded DynamoDB, Lambda, API Gateway, SSM and AppSync, held to AWS's documented limits
//! (`emulator::limits`), and the templates' alarms over the metrics that the run itself sends. The application's real handlers work in
//! it. Its users ([`app`]) send a surge, and repeat what was refused as they do in real life: Slack repeats an event, Lambda an
//! asynchronous invocation, a client its request with the same idempotency key. When nothing is left to do, the effects are counted
//! where they end: in the ledger, in Slack's threads, on Mastodon, in BigQuery, in the stream of a group.
//!
//! [`search`] doubles the load until a limit is met. Then it repeats that load in waves ([`App::waves`]), for as long as an alarm needs.
//! [`candidates`] are further runs: what one would suspect, measured.
//!
//! Time is tokio's paused clock, so an hour takes as long as its work. One seed decides everything that happens by chance, but for ids
//! that are random by design.

pub mod app;
pub mod candidates;
pub mod clock;
pub mod report;
pub mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use emulator::limits::{Limits, Refusals};

pub use app::{App, Outcome, Plan};
pub use world::World;

/// How long one wave of a load lasts.
pub const WAVE: Duration = Duration::from_secs(10);

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    World(#[from] world::Error),
    #[error("{app}: {what}: {source}")]
    Prepare { app: &'static str, what: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the runtime could not be started: {0}")]
    Runtime(#[from] std::io::Error),
}

/// What one run showed.
#[derive(Debug, Clone)]
pub struct Measured {
    pub app: App,
    pub load: u32,
    pub outcome: Outcome,
    /// What was refused, the limit that was met first first.
    pub refusals: Vec<Refusals>,
    /// The quota that was met first.
    pub first: Option<Refusals>,
    /// The alarms that rang, and how long after the beginning.
    pub alarms: BTreeMap<String, Duration>,
    pub cold_starts: usize,
    /// The simulated time of the run.
    pub lasted: Duration,
}

impl Measured {
    /// Whether every effect happened exactly once.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.outcome.lost == 0 && self.outcome.doubled == 0
    }
}

/// One run in a world of its own. `change` may lower, raise or lift limits.
///
/// # Errors
/// When the world cannot be made.
pub fn measure(app: App, plan: &Plan, change: &dyn Fn(&Limits)) -> Result<Measured, Error> {
    play(app, plan, change, app.script())
}

/// One run with other users than the application's usual ones.
pub(crate) fn play(app: App, plan: &Plan, change: &dyn Fn(&Limits), script: app::Script) -> Result<Measured, Error> {
    // The SDK's jitter and the stand-ins' comes from this thread's generator.
    fastrand::seed(plan.seed);
    telemetry::init_scoped(telemetry::Level::ERROR);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    // The users are on this thread alone: sessync's futures cannot move to another.
    let users = tokio::task::LocalSet::new();
    users.block_on(&runtime, async {
        let (template, parameters) = app.template();
        let world = World::new(template, &parameters, plan.seed)?;
        change(world.limits());
        let watching = tokio::spawn(world.clone().watch());
        let outcome = script(&world, plan).await?;
        let lasted = world.clock().elapsed();
        world.wait_for_alarms().await;
        watching.abort();
        let measured = Measured {
            app,
            load: plan.load,
            outcome,
            refusals: world.limits().refusals(),
            first: world.limits().first(),
            alarms: world.alarms(),
            cold_starts: world.lambda().cold_starts(),
            lasted,
        };
        world.close();
        Ok(measured)
    })
}

/// Hears of each run of a search.
pub trait Progress {
    fn ran(&mut self, measured: &Measured);
}

impl Progress for () {
    fn ran(&mut self, _: &Measured) {}
}

/// Doubles the load, from `load` (at least one) on, until a limit is met or the application's last load is reached. If a limit was met, repeats that
/// load in waves. Returns the last run.
///
/// # Errors
/// When a world cannot be made.
pub fn search(
    app: App,
    mut load: u32,
    seed: u64,
    change: &dyn Fn(&Limits),
    progress: &mut dyn Progress,
) -> Result<Measured, Error> {
    load = load.max(1);
    loop {
        let once = measure(app, &Plan { load, waves: app::ONE_WAVE, seed }, change)?;
        progress.ran(&once);
        let is_met = once.first.is_some();
        if !is_met && once.is_exact() && load < app.last_load() {
            load *= 2;
            continue;
        }
        if !is_met || !once.is_exact() || app.waves() == app::ONE_WAVE {
            return Ok(once);
        }
        let held = measure(app, &Plan { load, waves: app.waves(), seed }, change)?;
        progress.ran(&held);
        return Ok(held);
    }
}
