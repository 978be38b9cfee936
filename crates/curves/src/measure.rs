//! Measures units of work: their time, their CPU, what they ask of the store, and the memory that they take.

use std::time::{Duration, Instant};

use testkit::usage::{self, Thread};

use crate::Result;
use crate::curve::Point;
use crate::prices::{Extras, Prices};
use crate::store::{Asked, Store};

/// Units are measured in so many rounds, of which the median counts: a round in which the machine was busy with something else does
/// not. A round before them warms up.
const ROUNDS: u32 = 9;

/// Units per round.
fn per_round(units: u32) -> u32 {
    (units / ROUNDS).max(1)
}

/// How often [`Bench::each`] does a unit, the rounds that warm up included.
pub(crate) fn calls(units: u32) -> u32 {
    per_round(units) * (ROUNDS + 1)
}

/// Where measured code runs: which threads are not its own, what is asked of which store, and what that costs.
#[derive(Clone, Copy)]
pub(crate) struct Bench<'a> {
    pub(crate) prices: &'a Prices,
    pub(crate) store: Option<&'a Store>,
    /// Threads of stand-ins.
    pub(crate) beside: &'a [Thread],
}

impl<'a> Bench<'a> {
    pub(crate) fn of(prices: &'a Prices) -> Self {
        Self { prices, store: None, beside: &[] }
    }

    pub(crate) fn on(prices: &'a Prices, store: &'a Store) -> Self {
        Self { store: Some(store), ..Self::of(prices) }
    }

    /// Does `units` units one after another, and some before them to warm up. `unit` gets numbers from 0 on, below [`calls`].
    pub(crate) async fn each(
        &self,
        size: u64,
        units: u32,
        extras: Extras,
        mut unit: impl AsyncFnMut(u32) -> Result<()>,
    ) -> Result<Point> {
        let per_round = per_round(units);
        let mut rounds = Vec::new();
        usage::forget_peak();
        let before = usage::resident();
        for round in 0..=ROUNDS {
            let start = self.now();
            for n in 0..per_round {
                unit(round * per_round + n).await?;
            }
            if round > 0 {
                rounds.push(self.used_since(&start));
            }
        }
        let memory = usage::peak().saturating_sub(before);
        self.point(size, u64::from(per_round), memory, &rounds, extras)
    }

    /// Does something once that consists of many units, and says of how many.
    pub(crate) async fn whole(
        &self,
        size: u64,
        extras: Extras,
        work: impl AsyncFnOnce() -> Result<u64>,
    ) -> Result<Point> {
        usage::forget_peak();
        let before = usage::resident();
        let start = self.now();
        let units = work().await?;
        let used = self.used_since(&start);
        let memory = usage::peak().saturating_sub(before);
        self.point(size, units, memory, &[used], extras)
    }

    /// What one unit took in the median of these rounds, each of `units` units.
    pub(crate) fn point(&self, size: u64, units: u64, memory: u64, rounds: &[Used], extras: Extras) -> Result<Point> {
        let units = units.max(1) as f64;
        let per_unit = |pick: fn(&Used) -> f64| median(rounds.iter().map(|used| pick(used) / units).collect());
        let (reads, writes) = (per_unit(|used| used.asked.reads), per_unit(|used| used.asked.writes));
        Ok(Point {
            size,
            time_us: per_unit(|used| used.time.as_secs_f64() * 1e6),
            cpu_us: per_unit(|used| used.cpu.as_secs_f64() * 1e6),
            calls: per_unit(|used| used.asked.calls as f64),
            memory: memory as f64,
            dollars: self.prices.per_million(reads, writes, extras)?,
        })
    }

    fn now(&self) -> Moment {
        let (cpu, asked) = (self.cpu(), self.asked());
        Moment { at: Instant::now(), cpu, asked }
    }

    fn used_since(&self, earlier: &Moment) -> Used {
        Used {
            time: earlier.at.elapsed(),
            cpu: self.cpu().saturating_sub(earlier.cpu),
            asked: self.asked().since(earlier.asked),
        }
    }

    /// The CPU of everything but the store and the stand-ins.
    fn cpu(&self) -> Duration {
        let others = self.store.map(Store::thread).into_iter().chain(self.beside);
        usage::cpu().saturating_sub(others.map(Thread::cpu).sum())
    }

    fn asked(&self) -> Asked {
        self.store.map(Store::asked).unwrap_or_default()
    }
}

struct Moment {
    at: Instant,
    cpu: Duration,
    asked: Asked,
}

/// What a round took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    pub(crate) asked: Asked,
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}
