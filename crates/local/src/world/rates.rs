//! What happened in the last minutes, by the second: the console's overview is drawn from it.
//!
//! Bounded: seconds are kept for a quarter of an hour, with so many durations each; so many outages are kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use console::contract::{Breaker, Latency, Outage, Overview, Rates as Shown, Series, StoreCalls};
use serde_json::Value;

use crate::platform::clock::{now_ms, rfc3339};
use crate::world::metrics::percentile;

/// How long a second is kept.
const SECONDS: usize = 15 * 60;
/// Durations that are kept per second and function.
const DURATIONS: usize = 200;
/// Outages that are kept.
const OUTAGES: usize = 200;
/// Keys of one function's journal that are remembered.
const JOURNAL: usize = 10_000;

#[derive(Debug, Default)]
struct Second {
    second: u64,
    arrived: u32,
    new: u32,
    duplicate: u32,
    in_flight: u32,
    effects: u32,
    failures: u32,
    store_calls: u32,
    store_errors: u32,
    store_ms: Vec<f64>,
    /// Milliseconds, by function.
    durations: BTreeMap<String, Vec<f64>>,
}

#[derive(Debug, Default)]
struct Guard {
    open_since: Option<String>,
    changed: Option<String>,
    /// Keys that are still to be written to the store.
    journal: BTreeSet<String>,
    full: u64,
}

#[derive(Debug, Default)]
struct Inner {
    seconds: VecDeque<Second>,
    guards: BTreeMap<String, Guard>,
    outages: VecDeque<Outage>,
}

/// The last minutes.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<Inner>);

impl Rates {
    /// Counts an event of the stream.
    pub(crate) fn event(&self, kind: &str, what: &Value) {
        let mut inner = self.lock();
        if kind == "faults" {
            inner.faults(&what["faults"]);
            return;
        }
        let second = inner.second(now_ms() / 1_000);
        match kind {
            "request" => {
                second.arrived += 1;
                second.failures += u32::from(what["status"].as_u64().is_some_and(|status| status >= 500));
                second.took(what);
            }
            "invocation" => {
                second.failures += u32::from(!what["error"].is_null());
                second.took(what);
            }
            "decision" => match what["result"].as_str() {
                Some("new") => second.new += 1,
                Some("duplicate") => second.duplicate += 1,
                _ => second.in_flight += 1,
            },
            "outbox" if what["accepted"] == true => second.effects += 1,
            _ => {}
        }
    }

    /// Looks at a line of the library's observer.
    pub(crate) fn line(&self, line: &Value) {
        let moment = line["moment"].as_str().unwrap_or_default();
        let mut inner = self.lock();
        if let Some(ms) = line["dynamodbLatency"].as_f64() {
            let second = inner.second(now_ms() / 1_000);
            second.store_calls += 1;
            keep(&mut second.store_ms, ms);
        } else if moment == "store failed" {
            let second = inner.second(now_ms() / 1_000);
            second.store_calls += 1;
            second.store_errors += 1;
        }
        let function = line["function"].as_str().unwrap_or_default();
        let key = || line["eventKey"].as_str().unwrap_or_default().to_owned();
        let watched = matches!(
            moment,
            "breaker opened"
                | "breaker closed"
                | "admitted without store"
                | "unrecorded"
                | "reconciled"
                | "journal full"
        );
        if !(watched || moment == "decided") || function.is_empty() {
            return;
        }
        let at = line["timestamp"].as_str().unwrap_or_default().to_owned();
        let guard = inner.guards.entry(function.to_owned()).or_default();
        match moment {
            "breaker opened" => {
                guard.open_since = Some(at.clone());
                guard.changed = Some(at.clone());
                inner.outage(Outage { what: function.to_owned(), how: "breaker open".into(), from: at, to: None });
            }
            "breaker closed" => {
                guard.open_since = None;
                guard.changed = Some(at.clone());
                inner.over(|outage| outage.what == function && outage.how == "breaker open", &at);
            }
            "admitted without store" | "unrecorded" if guard.journal.len() < JOURNAL => {
                guard.journal.insert(key());
            }
            "reconciled" => {
                guard.journal.remove(&key());
            }
            "journal full" => guard.full += 1,
            _ => {}
        }
    }

    /// The outages that overlap with a time, oldest first.
    pub(crate) fn outages(&self, from: &str, to: &str) -> Vec<Outage> {
        let inner = self.lock();
        let overlaps =
            |outage: &&Outage| outage.from.as_str() <= to && outage.to.as_deref().is_none_or(|end| end >= from);
        inner.outages.iter().filter(overlaps).cloned().collect()
    }

    /// The last minutes, as the console's overview shows them.
    pub(crate) fn shown(&self, minutes: u32) -> Overview {
        let step = match minutes {
            0..=2 => 1,
            3..=6 => 5,
            _ => 10,
        };
        let now = now_ms();
        let end = (now / 1_000 / step + 1) * step;
        let begin = end - u64::from(minutes) * 60 / step * step;
        let steps = usize::try_from((end - begin) / step).unwrap_or_default();
        let from = rfc3339(begin * 1_000);
        let outages = self.outages(&from, &rfc3339(now));
        let inner = self.lock();
        let within = || inner.seconds.iter().filter(|second| (begin..end).contains(&second.second));
        let at = |second: &Second| usize::try_from((second.second - begin) / step).unwrap_or_default();
        let series = |count: fn(&Second) -> u32| -> Series {
            let mut sums = vec![0.0; steps];
            for second in within() {
                sums[at(second)] += f64::from(count(second));
            }
            sums.into_iter().map(Some).collect()
        };
        let functions: BTreeSet<&String> = within().flat_map(|second| second.durations.keys()).collect();
        let latency = functions.into_iter().map(|function| {
            let mut by_step: Vec<Vec<f64>> = vec![Vec::new(); steps];
            for second in within() {
                by_step[at(second)].extend(second.durations.get(function).into_iter().flatten());
            }
            let mut all: Vec<f64> = by_step.iter().flatten().copied().collect();
            all.sort_by(f64::total_cmp);
            for step in &mut by_step {
                step.sort_by(f64::total_cmp);
            }
            Latency {
                function: function.clone(),
                count: all.len() as u64,
                p50: percentile(&all, 50.0),
                p99: percentile(&all, 99.0),
                p50_by_step: by_step.iter().map(|step| percentile(step, 50.0)).collect(),
                p99_by_step: by_step.iter().map(|step| percentile(step, 99.0)).collect(),
            }
        });
        let mut store_ms: Vec<f64> = within().flat_map(|second| second.store_ms.iter().copied()).collect();
        store_ms.sort_by(f64::total_cmp);
        Overview {
            at: rfc3339(now),
            from,
            step_seconds: u32::try_from(step).unwrap_or(1),
            rates: Shown {
                arrived: series(|second| second.arrived),
                new: series(|second| second.new),
                duplicate: series(|second| second.duplicate),
                in_flight: series(|second| second.in_flight),
                effects: series(|second| second.effects),
                failures: series(|second| second.failures),
            },
            latency: latency.collect(),
            store: Some(StoreCalls {
                calls: series(|second| second.store_calls),
                errors: series(|second| second.store_errors),
                p50: percentile(&store_ms, 50.0),
                p99: percentile(&store_ms, 99.0),
            }),
            breakers: inner.guards.iter().map(Guard::shown).collect(),
            outages,
            ..Overview::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        telemetry::lock(&self.0)
    }
}

impl Guard {
    fn shown((function, guard): (&String, &Guard)) -> Breaker {
        Breaker {
            function: function.clone(),
            open: guard.open_since.is_some(),
            since: guard.changed.clone(),
            journal: guard.journal.len() as u64,
            journal_full: guard.full,
        }
    }
}

impl Second {
    fn took(&mut self, what: &Value) {
        if let (Some(function), Some(ms)) = (what["function"].as_str(), what["ms"].as_f64()) {
            keep(self.durations.entry(function.to_owned()).or_default(), ms);
        }
    }
}

fn keep(durations: &mut Vec<f64>, ms: f64) {
    if durations.len() < DURATIONS {
        durations.push(ms);
    }
}

impl Inner {
    /// The counts of a second. Time that runs backwards counts as the last second.
    fn second(&mut self, second: u64) -> &mut Second {
        if self.seconds.back().is_none_or(|last| last.second < second) {
            if self.seconds.len() == SECONDS {
                self.seconds.pop_front();
            }
            self.seconds.push_back(Second { second, ..Second::default() });
        }
        #[expect(clippy::expect_used, reason = "one was pushed if there was none")]
        self.seconds.back_mut().expect("a second")
    }

    /// All faults were replaced by these.
    fn faults(&mut self, faults: &Value) {
        let now = rfc3339(now_ms());
        let wanted: BTreeMap<String, String> = faults
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, fault)| (name.clone(), fault["mode"].as_str().unwrap_or("broken").replace('_', " ")))
            .collect();
        self.over(|outage| outage.how != "breaker open" && wanted.get(&outage.what) != Some(&outage.how), &now);
        for (what, how) in wanted {
            let lasts =
                self.outages.iter().any(|outage| outage.to.is_none() && outage.what == what && outage.how == how);
            if !lasts {
                self.outage(Outage { what, how, from: now.clone(), to: None });
            }
        }
    }

    fn outage(&mut self, outage: Outage) {
        if self.outages.len() == OUTAGES {
            self.outages.pop_front();
        }
        self.outages.push_back(outage);
    }

    fn over(&mut self, which: impl Fn(&Outage) -> bool, at: &str) {
        for outage in self.outages.iter_mut().filter(|outage| outage.to.is_none() && which(outage)) {
            outage.to = Some(at.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sum(series: &Series) -> f64 {
        series.iter().flatten().sum()
    }

    #[test]
    fn each_event_is_counted_once_in_its_series() {
        let rates = Rates::default();
        rates.event("request", &json!({"status": 200, "function": "slack-events", "ms": 4.0}));
        rates.event("request", &json!({"status": 503, "function": "slack-events", "ms": 8.0}));
        rates.event("decision", &json!({"result": "new"}));
        rates.event("decision", &json!({"result": "duplicate"}));
        rates.event("decision", &json!({"result": "in flight"}));
        rates.event("outbox", &json!({"accepted": true}));
        rates.event("outbox", &json!({"accepted": false}));
        rates.event("invocation", &json!({"function": "slack-files", "ms": 20.0, "error": "InFlight"}));
        let shown = rates.shown(5);
        let of = |series: &Series| (series.len(), sum(series));
        assert_eq!(of(&shown.rates.arrived), (60, 2.0));
        assert_eq!((sum(&shown.rates.new), sum(&shown.rates.duplicate), sum(&shown.rates.in_flight)), (1.0, 1.0, 1.0));
        assert_eq!((sum(&shown.rates.effects), sum(&shown.rates.failures)), (1.0, 2.0));
        let events = shown.latency.iter().find(|latency| latency.function == "slack-events").expect("a latency");
        assert_eq!((events.count, events.p50, events.p99), (2, Some(4.0), Some(8.0)));
    }

    #[test]
    fn a_breaker_and_its_journal_follow_the_lines_of_the_library() {
        let rates = Rates::default();
        let line = |moment: &str, key: &str| json!({"moment": moment, "eventKey": key, "function": "slack-events", "timestamp": rfc3339(now_ms())});
        rates.line(&line("store failed", "Ev1"));
        rates.line(&line("breaker opened", ""));
        rates.line(&line("admitted without store", "Ev1"));
        rates.line(&line("admitted without store", "Ev2"));
        let shown = rates.shown(1);
        assert!(shown.breakers[0].open);
        assert_eq!((shown.breakers[0].journal, shown.outages.len()), (2, 1));
        assert_eq!(shown.store.map(|store| (sum(&store.calls), sum(&store.errors))), Some((1.0, 1.0)));
        rates.line(&line("breaker closed", ""));
        rates.line(&line("reconciled", "Ev1"));
        let shown = rates.shown(1);
        assert!(!shown.breakers[0].open && shown.outages[0].to.is_some());
        assert_eq!(shown.breakers[0].journal, 1);
    }

    #[test]
    fn a_fault_lasts_until_it_is_replaced() {
        let rates = Rates::default();
        rates.event("faults", &json!({"faults": {"dynamodb": {"mode": "lose_answers"}, "slack": {"mode": "hang"}}}));
        rates.event("faults", &json!({"faults": {"dynamodb": {"mode": "lose_answers"}}}));
        let lasting: Vec<(String, bool)> = rates
            .shown(1)
            .outages
            .into_iter()
            .map(|outage| (format!("{} {}", outage.what, outage.how), outage.to.is_none()))
            .collect();
        assert_eq!(lasting, [("dynamodb lose answers".to_owned(), true), ("slack hang".to_owned(), false)]);
        rates.event("faults", &json!({"faults": {}}));
        assert!(rates.shown(1).outages.iter().all(|outage| outage.to.is_some()));
    }

    #[test]
    fn memory_is_bounded() {
        let rates = Rates::default();
        let mut inner = rates.lock();
        for second in 0..2 * SECONDS as u64 {
            inner.second(second);
        }
        for at in 0..2 * OUTAGES {
            inner.faults(&json!({"slack": {"mode": at.to_string()}}));
        }
        assert_eq!((inner.seconds.len(), inner.outages.len()), (SECONDS, OUTAGES));
    }
}
