//! The duel: three handlers get the same events and the same faults on the same store, and their effects are counted.
//!
//! | handler | what it does |
//! |---|---|
//! | `naive` | looks whether the event is done, acts, records it |
//! | `powertools` | the idempotency utility of AWS Lambda Powertools, the real one from npm, in Node |
//! | `ichido` | `run` with a probe; it fails closed |
//!
//! An event goes from [`run`] to a worker ([`workers`]), which is a process of its own ([`handlers`], `powertools/worker.mjs`) and is
//! killed if the storm wants it. Its calls go through [`network`], which performs them on one embedded DynamoDB and one destination,
//! after it has asked the [`storm`] what should go wrong. Each handler's column ([`mod@column`]) keeps every moment ([`mod@trace`]). At the
//! end, [`explain`] says of each lost or doubled effect how it came about.
//!
//! **Invariant: a handler contains no fault, and a fault does not know which handler it meets.** The storm is a pure function of the seed,
//! the event, the delivery and the call.
//!
//! One fault is left out on purpose: a destination that performs a post long after the worker that sent it is gone. No library on the
//! caller's side can prevent that double. A destination can, if it is given the key or the fence.

mod column;
mod cpu;
pub mod explain;
mod handlers;
mod network;
pub mod screen;
pub mod storm;
pub mod trace;
pub mod web;
mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emulator::dynamodb::Engine;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use column::Column;
pub use column::Score;
pub use explain::Story;
pub use handlers::worker;
use network::Network;
use storm::{Fault, MAX_DELIVERIES, REDELIVERY, Storm};
use trace::What;
use workers::{Program, WORKERS, Workers};

/// A new event is sent this often.
const PACE: Duration = Duration::from_millis(125);
/// How often watchers are told the score.
const TELL: Duration = Duration::from_millis(250);
/// A page that somebody watches asks more often than this. It gets the result before the duel ends.
const PAGE: Duration = Duration::from_secs(1);

/// A handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Handler {
    /// Look, act, record.
    Naive,
    /// AWS Lambda Powertools.
    Powertools,
    /// `run` with a probe.
    Ichido,
}

impl fmt::Display for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Naive => "naive",
            Self::Powertools => "powertools",
            Self::Ichido => "ichido",
        })
    }
}

/// What a duel needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides the storm.
    pub seed: u64,
    /// How long the duel takes, from [`storm::MIN_SECONDS`] to [`storm::MAX_SECONDS`].
    pub seconds: u64,
    /// Leave Powertools out.
    pub without_powertools: bool,
    /// The program whose `main` begins with [`worker`].
    pub program: PathBuf,
    /// The directory in which Powertools are installed.
    pub powertools: PathBuf,
}

impl Options {
    /// A duel of a minute and a half, with the workers in `program`.
    #[must_use]
    pub fn new(seed: u64, program: PathBuf) -> Self {
        // A release contains no path of the machine that built it, so there Powertools can only be beside the program.
        #[cfg(debug_assertions)]
        let powertools = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/powertools"));
        #[cfg(not(debug_assertions))]
        let powertools = program.with_file_name("powertools");
        Self { seed, seconds: 90, without_powertools: false, program, powertools }
    }

    /// Whether there can be such a duel.
    ///
    /// # Errors
    /// The seed or the seconds are out of their bounds.
    pub fn check(&self) -> Result<(), Error> {
        if !(storm::MIN_SECONDS..=storm::MAX_SECONDS).contains(&self.seconds) {
            return Err(Error::Seconds(self.seconds));
        }
        if self.seed > storm::MAX_SEED {
            return Err(Error::Seed(self.seed));
        }
        Ok(())
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The duel is too short or too long.
    #[error("a duel takes from {min} to {max} seconds, not {0}", min = storm::MIN_SECONDS, max = storm::MAX_SECONDS)]
    Seconds(u64),
    /// The page could not show this seed.
    #[error("a seed is at most {max}, and {0} is more", max = storm::MAX_SEED)]
    Seed(u64),
    /// The store could not be opened.
    #[error("the store of the duel could not be opened")]
    Store(#[from] emulator::dynamodb::Error),
    /// No port.
    #[error("the duel could not open a port on loopback")]
    Port(#[source] std::io::Error),
    /// A worker does not start.
    #[error("a worker of {handler} could not be started: {why}")]
    Worker {
        /// Whose worker.
        handler: Handler,
        /// What the operating system or the worker said.
        why: String,
    },
    /// A task panicked.
    #[error("a part of the duel failed")]
    Task(#[from] tokio::task::JoinError),
}

/// Where a duel is.
#[derive(Clone, Debug, Default, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The seed.
    pub seed: u64,
    /// How long it takes.
    pub seconds: u64,
    /// How long it has taken. Zero while the workers start.
    pub elapsed_ms: u64,
    /// What is going on.
    pub phase: Phase,
    /// Is the store down?
    pub store_down: bool,
    /// One column per handler.
    pub handlers: Vec<Score>,
    /// One line of marks per handler, one mark per event: `.` not decided, `1` one post, `2` more than one, `0` none.
    pub marks: Vec<String>,
    /// Why a handler is left out, one sentence.
    pub left_out: Option<String>,
    /// What the storm did to the column that met most of it: how many faults of each kind.
    pub faults: BTreeMap<Fault, u64>,
    /// How each lost or doubled effect came about, the latest last.
    pub stories: Vec<Story>,
    /// Where the page `/duel` can be seen while the duel runs.
    #[serde(skip)]
    pub page: Option<String>,
    /// Every fault that a call met. Empty until everything is decided.
    #[serde(skip)]
    pub met: Vec<Met>,
}

/// A fault that a call met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Whose call.
    pub handler: Handler,
    /// The number of the event.
    pub event: u32,
    /// The delivery, counted from 1.
    pub delivery: u32,
    /// The call of that delivery, counted from 1.
    pub call: u32,
    /// What happened.
    pub fault: Fault,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Outcome<'a> {
    seed: u64,
    handlers: &'a [Score],
}

/// The phases of a duel.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The workers start.
    #[default]
    Starting,
    /// New events are sent.
    Sending,
    /// No new events; those without an acknowledgement are delivered again.
    Finishing,
    /// Everything is decided.
    Done,
}

impl Progress {
    /// The result as one line of JSON: the seed and the scores.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(&Outcome { seed: self.seed, handlers: &self.handlers }).unwrap_or_default()
    }

    /// The column of a handler, if it takes part.
    #[must_use]
    pub fn score(&self, handler: Handler) -> Option<&Score> {
        self.handlers.iter().find(|score| score.name == handler)
    }
}

/// Runs a duel and tells `watcher` how it goes. Dropping the future ends everything, the workers too.
///
/// # Errors
/// When a worker or the store cannot be started.
pub async fn run(options: Options, watcher: watch::Sender<Progress>) -> Result<Progress, Error> {
    options.check()?;
    let Options { seed, seconds, .. } = options;
    let (handlers, mut left_out) = contestants(&options);
    watcher.send_replace(Progress { seed, seconds, left_out: left_out.clone(), ..Progress::default() });
    let storm = Storm::new(seed, seconds);
    let engine = store(&handlers)?;
    let listener = Network::bind().await.map_err(Error::Port)?;
    let address = format!("http://{}", listener.local_addr().map_err(Error::Port)?);

    // The clock of the storm starts when all workers are ready.
    let mut tasks = JoinSet::new();
    let network = Network::new(engine, storm, storm.outage(seconds), watcher.subscribe());
    watcher.send_modify(|told| told.page = Some(format!("{address}/duel")));
    tasks.spawn({
        let network = network.clone();
        async move { match network.serve(listener).await {} }
    });
    let version = workers::powertools(&options.powertools);
    let starting = handlers.iter().map(|handler| {
        let column = Arc::new(Column::new(*handler, handler.version(version.as_deref())));
        let program = match handler {
            Handler::Powertools => Program::Node(options.powertools.clone()),
            _ => Program::Rust(options.program.clone()),
        };
        Workers::start(column, network.clone(), program, &address)
    });
    let mut teams = Vec::new();
    for started in futures::future::join_all(starting).await {
        match started {
            Ok(team) => teams.push(team),
            Err(error @ Error::Worker { handler: Handler::Powertools, .. }) => {
                left_out = Some(format!("powertools is left out: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    let start = network.start();
    for team in &teams {
        team.column.start(start);
    }

    let progress = |phase| Progress {
        seed,
        seconds,
        elapsed_ms: start.elapsed().as_millis() as u64,
        phase,
        store_down: network.is_down(),
        handlers: teams.iter().map(|team| team.column.score(network.cpu(&team.column))).collect(),
        marks: teams.iter().map(|team| team.column.marks()).collect(),
        left_out: left_out.clone(),
        faults: teams
            .iter()
            .map(|team| team.column.faults())
            .max_by_key(|met| met.values().sum::<u64>())
            .unwrap_or_default(),
        stories: explain::stories(teams.iter().map(|team| &*team.column)),
        page: Some(format!("{address}/duel")),
        met: Vec::new(),
    };
    let duel = duel(&teams, storm, storm.sending(seconds), start, |next| watcher.send_modify(|told| told.phase = next));
    tokio::pin!(duel);
    let mut ticker = tokio::time::interval(TELL);
    loop {
        tokio::select! {
            ended = &mut duel => {
                ended?;
                break;
            }
            _ = ticker.tick() => {
                let phase = watcher.borrow().phase;
                watcher.send_replace(progress(phase));
            }
        }
    }
    let met = teams.iter().flat_map(|team| team.column.met()).collect();
    let done = Progress { met, ..progress(Phase::Done) };
    watcher.send_replace(done.clone());
    if network.is_watched(2 * PAGE) {
        tokio::time::sleep(2 * PAGE).await;
    }
    Ok(done)
}

/// Who takes part, and why somebody does not.
fn contestants(options: &Options) -> (Vec<Handler>, Option<String>) {
    let without = |why: &str| (vec![Handler::Naive, Handler::Ichido], Some(format!("powertools is left out: {why}")));
    if options.without_powertools {
        without("as you asked")
    } else if !workers::has_node() {
        without("it needs node, which is not installed")
    } else if workers::powertools(&options.powertools).is_none() {
        without("it is not installed; in a checkout, `make demo` installs it from npm")
    } else {
        (vec![Handler::Naive, Handler::Powertools, Handler::Ichido], None)
    }
}

/// One store, with a table per handler.
fn store(handlers: &[Handler]) -> Result<Engine, Error> {
    let engine = Engine::in_memory()?;
    for handler in handlers {
        engine.call(
            "CreateTable",
            &json!({
                "TableName": handler.to_string(),
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            }),
        )?;
    }
    Ok(engine)
}

/// Sends every event to every handler, and waits until all are decided.
async fn duel(
    teams: &[Arc<Workers>],
    storm: Storm,
    sending: Duration,
    start: Instant,
    tell: impl Fn(Phase),
) -> Result<(), Error> {
    let mut events = JoinSet::new();
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut event = 0;
    tell(Phase::Sending);
    while start.elapsed() < sending {
        pace.tick().await;
        // A machine that cannot keep up gets fewer events, not a queue that outlasts the duel.
        if teams.iter().any(|team| team.waiting() > WORKERS / 2) {
            continue;
        }
        event += 1;
        for team in teams {
            team.column.sent(event);
            events.spawn(see_through(Arc::clone(team), storm, event));
        }
        while let Some(ended) = events.try_join_next() {
            ended??;
        }
    }
    tell(Phase::Finishing);
    while let Some(ended) = events.join_next().await {
        ended??;
    }
    Ok(())
}

/// Delivers an event until it is acknowledged, at most [`MAX_DELIVERIES`] times, and waits for the workers that are late.
async fn see_through(team: Arc<Workers>, storm: Storm, event: u32) -> Result<(), Error> {
    let mut deliveries = JoinSet::new();
    let mut delivered = 0;
    let mut at_once = storm.copies(event);
    while delivered < MAX_DELIVERIES && !team.column.is_acknowledged(event) {
        for worker in team.take(at_once.min(MAX_DELIVERIES - delivered)).await? {
            delivered += 1;
            let team = Arc::clone(&team);
            deliveries.spawn(async move { team.deliver(worker, event, delivered).await });
        }
        at_once = 1;
        // A worker that is late does not keep the event from being delivered again.
        let again = tokio::time::sleep(REDELIVERY);
        tokio::pin!(again);
        while !team.column.is_acknowledged(event) {
            tokio::select! {
                () = &mut again => break,
                Some(ended) = deliveries.join_next() => ended?,
            }
        }
    }
    while let Some(ended) = deliveries.join_next().await {
        ended?;
    }
    if !team.column.is_acknowledged(event) {
        team.column.note(event, delivered, 0, What::GivenUp);
    }
    Ok(())
}
