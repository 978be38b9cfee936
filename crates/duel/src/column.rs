//! One handler's column of the scoreboard: what became of every event.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::storm::Fault;
use crate::trace::{Moment, To, What};
use crate::{Handler, Met};

/// One column. The network and the deliveries write into it.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) handler: Handler,
    pub(crate) version: String,
    /// When the storm began.
    start: OnceLock<Instant>,
    // Locked for moments and never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lives: BTreeMap<u32, Life>,
    store_calls: u64,
    faults: BTreeMap<Fault, u64>,
    /// CPU of the workers that have died.
    cpu: Duration,
}

/// What happened to one event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) moments: Vec<Moment>,
    pub(crate) posts: u32,
    pub(crate) acknowledged: bool,
    /// The event was acknowledged when there was no post.
    too_early: bool,
    given_up: bool,
}

impl Life {
    pub(crate) fn is_lost(&self) -> bool {
        self.posts == 0 && (self.acknowledged || self.given_up)
    }

    pub(crate) fn is_doubled(&self) -> bool {
        self.posts > 1
    }
}

/// The score of one handler.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// The handler.
    pub name: Handler,
    /// The version of the library that it uses. For the handler without a library, that of the AWS SDK.
    pub version: String,
    /// Events.
    pub sent: u64,
    /// Events that a worker acknowledged.
    pub acknowledged: u64,
    /// Posts at the destination.
    pub effects: u64,
    /// Events that were acknowledged or given up, and have no post.
    pub lost: u64,
    /// Events that have more than one post.
    pub doubled: u64,
    /// Events that were acknowledged before there was a post, and none came.
    pub wrongly_acknowledged: u64,
    /// CPU of the workers per event, in microseconds, without their start.
    pub cpu_micros_per_event: f64,
    /// Calls to the store per event, with the retries of the SDK.
    pub store_calls_per_event: f64,
}

impl Score {
    /// Is there exactly one effect per event?
    #[must_use]
    pub fn is_exactly_once(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.wrongly_acknowledged == 0
    }
}

impl Column {
    pub(crate) fn new(handler: Handler, version: String) -> Self {
        Self { handler, version, start: OnceLock::new(), state: Mutex::default() }
    }

    /// The storm begins.
    pub(crate) fn start(&self, at: Instant) {
        let _ = self.start.set(at);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        telemetry::lock(&self.state)
    }

    pub(crate) fn sent(&self, event: u32) {
        self.lock().lives.entry(event).or_default();
    }

    pub(crate) fn note(&self, event: u32, delivery: u32, worker: u32, what: What) {
        let mut state = self.lock();
        if let What::Called { to, fault, .. } = &what {
            state.store_calls += u64::from(*to == To::Store);
            if let Some(fault) = fault {
                *state.faults.entry(*fault).or_default() += 1;
            }
        }
        let life = state.lives.entry(event).or_default();
        match &what {
            What::Posted => life.posts += 1,
            What::Acknowledged if !life.acknowledged => {
                life.acknowledged = true;
                life.too_early = life.posts == 0;
            }
            What::GivenUp => life.given_up = true,
            _ => {}
        }
        let at = self.start.get().map_or(Duration::ZERO, Instant::elapsed);
        life.moments.push(Moment { at, delivery, worker, what });
    }

    pub(crate) fn posts(&self, event: u32) -> u32 {
        self.lock().lives.get(&event).map_or(0, |life| life.posts)
    }

    pub(crate) fn is_acknowledged(&self, event: u32) -> bool {
        self.lock().lives.get(&event).is_some_and(|life| life.acknowledged)
    }

    pub(crate) fn used(&self, cpu: Duration) {
        self.lock().cpu += cpu;
    }

    pub(crate) fn life(&self, event: u32) -> Life {
        self.lock().lives.get(&event).cloned().unwrap_or_default()
    }

    /// The events that are lost or doubled.
    pub(crate) fn wrong(&self) -> Vec<(u32, Life)> {
        let state = self.lock();
        let wrong = state.lives.iter().filter(|(_, life)| life.is_lost() || life.is_doubled());
        wrong.map(|(event, life)| (*event, life.clone())).collect()
    }

    /// One mark per event.
    pub(crate) fn marks(&self) -> String {
        let mark = |life: &Life| match life.posts {
            0 if life.is_lost() => '0',
            0 => '.',
            1 if life.acknowledged || life.given_up => '1',
            1 => '.',
            _ => '2',
        };
        self.lock().lives.values().map(mark).collect()
    }

    pub(crate) fn met(&self) -> Vec<Met> {
        let state = self.lock();
        let moments =
            state.lives.iter().flat_map(|(event, life)| life.moments.iter().map(move |moment| (*event, moment)));
        let met = moments.filter_map(|(event, moment)| match moment.what {
            What::Called { call, fault: Some(fault), .. } => {
                Some(Met { handler: self.handler, event, delivery: moment.delivery, call, fault })
            }
            _ => None,
        });
        met.collect()
    }

    pub(crate) fn faults(&self) -> BTreeMap<Fault, u64> {
        self.lock().faults.clone()
    }

    /// The score so far. `alive`: the CPU of the workers that live.
    pub(crate) fn score(&self, alive: Duration) -> Score {
        let state = self.lock();
        let count = |test: fn(&Life) -> bool| state.lives.values().filter(|life| test(life)).count() as u64;
        let sent = state.lives.len() as u64;
        let per_event = |total: f64| if sent == 0 { 0.0 } else { (total / sent as f64 * 100.0).round() / 100.0 };
        Score {
            name: self.handler,
            version: self.version.clone(),
            sent,
            acknowledged: count(|life| life.acknowledged),
            effects: state.lives.values().map(|life| u64::from(life.posts)).sum(),
            lost: count(Life::is_lost),
            doubled: count(Life::is_doubled),
            wrongly_acknowledged: count(|life| life.too_early && life.posts == 0),
            cpu_micros_per_event: per_event((state.cpu + alive).as_secs_f64() * 1e6).round(),
            store_calls_per_event: per_event(state.store_calls as f64),
        }
    }
}
