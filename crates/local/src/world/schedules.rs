//! The schedules of the templates: they fire, can be listed, paused, changed and run now.
//!
//! Firing is an asynchronous invocation, as EventBridge Scheduler's is: it is retried and its failures go where the
//! function's failures go. What a person changed (paused, another rate) survives a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use template::Schedule as Declared;

use crate::platform::clock::{now_ms, rfc3339};

/// A schedule and where it stands.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub declared: Declared,
    pub expression: String,
    pub enabled: bool,
    pub next_ms: Option<u64>,
    pub last_ms: Option<u64>,
}

/// What a person changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Change {
    expression: String,
    enabled: bool,
}

/// All schedules.
#[derive(Debug)]
pub struct Schedules {
    path: Option<PathBuf>,
    list: Mutex<Vec<Schedule>>,
    /// Told when something changed, so that whoever waits for the next one looks again.
    changed: tokio::sync::Notify,
}

/// Why a schedule cannot be what it is asked to be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a rate that this platform knows: rate(5 minutes), rate(1 hour), rate(1 day)")]
    Expression(String),
    #[error("there is no schedule {0:?}")]
    Unknown(String),
}

impl Schedules {
    /// The templates' schedules with a person's changes.
    pub fn new(declared: Vec<Declared>, path: Option<PathBuf>) -> Result<Self, Error> {
        let changes: BTreeMap<String, Change> = path
            .as_ref()
            .and_then(|path| std::fs::read(path).ok())
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let now = now_ms();
        let mut list = Vec::new();
        for declared in declared {
            let change = changes.get(&declared.name);
            let expression = change.map_or(&declared.expression, |change| &change.expression).clone();
            let enabled = change.map_or(declared.enabled, |change| change.enabled);
            let rate = rate(&expression)?;
            let next_ms = enabled.then(|| now + millis(rate));
            list.push(Schedule { declared, expression, enabled, next_ms, last_ms: None });
        }
        Ok(Self { path, list: Mutex::new(list), changed: tokio::sync::Notify::new() })
    }

    /// All of them.
    pub fn list(&self) -> Vec<Schedule> {
        self.lock().clone()
    }

    /// One by its function's name or by its own.
    pub fn find(&self, name: &str) -> Result<Schedule, Error> {
        let list = self.lock();
        let found = list.iter().find(|schedule| schedule.declared.function == name || schedule.declared.name == name);
        found.cloned().ok_or_else(|| Error::Unknown(name.to_owned()))
    }

    /// Pauses, resumes or changes one.
    pub fn change(&self, name: &str, enabled: Option<bool>, expression: Option<&str>) -> Result<Schedule, Error> {
        let mut list = self.lock();
        let found =
            list.iter_mut().find(|schedule| schedule.declared.function == name || schedule.declared.name == name);
        let schedule = found.ok_or_else(|| Error::Unknown(name.to_owned()))?;
        let every = rate(expression.unwrap_or(&schedule.expression))?;
        if let Some(expression) = expression {
            expression.clone_into(&mut schedule.expression);
        }
        schedule.enabled = enabled.unwrap_or(schedule.enabled);
        schedule.next_ms = schedule.enabled.then(|| now_ms() + millis(every));
        let changed = schedule.clone();
        self.keep(&list);
        drop(list);
        self.changed.notify_waiters();
        Ok(changed)
    }

    fn keep(&self, list: &[Schedule]) {
        let Some(path) = &self.path else { return };
        let changes: BTreeMap<&str, Change> = list
            .iter()
            .filter(|schedule| {
                schedule.enabled != schedule.declared.enabled || schedule.expression != schedule.declared.expression
            })
            .map(|schedule| {
                let change = Change { expression: schedule.expression.clone(), enabled: schedule.enabled };
                (schedule.declared.name.as_str(), change)
            })
            .collect();
        if let Err(error) = crate::platform::data::write_private(path, &json!(changes).to_string()) {
            tracing::warn!(target: "local", error = %error, "the changed schedule is forgotten at the next start");
        }
    }

    /// Waits for the next ones that are due, and moves them on.
    pub async fn due(&self) -> Vec<Schedule> {
        loop {
            let changed = self.changed.notified();
            let next = self.lock().iter().filter_map(|schedule| schedule.next_ms).min();
            let now = now_ms();
            match next {
                None => changed.await,
                Some(next) if next > now => {
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep(Duration::from_millis(next - now)) => {}
                    }
                }
                Some(_) => return self.take_due(now),
            }
        }
    }

    fn take_due(&self, now: u64) -> Vec<Schedule> {
        let mut list = self.lock();
        let due = list.iter_mut().filter(|schedule| schedule.next_ms.is_some_and(|next| next <= now));
        due.map(|schedule| {
            schedule.last_ms = Some(now);
            // From now, not from when it was due: a machine that slept owes one run, not all of them.
            schedule.next_ms = rate(&schedule.expression).ok().map(|every| now + millis(every));
            schedule.clone()
        })
        .collect()
    }

    /// Notes that one was run by hand.
    pub fn ran(&self, name: &str) {
        for schedule in self.lock().iter_mut().filter(|schedule| schedule.declared.name == name) {
            schedule.last_ms = Some(now_ms());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Schedule>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Schedule {
    /// What `/_local/schedules` shows.
    pub fn shown(&self) -> Value {
        json!({
            "name": self.declared.function, "schedule": self.declared.name, "expression": self.expression,
            "state": if self.enabled { "ENABLED" } else { "DISABLED" }, "enabled": self.enabled,
            "next": self.next_ms.map(rfc3339), "last": self.last_ms.map(rfc3339),
        })
    }
}

/// `rate(5 minutes)`.
fn rate(expression: &str) -> Result<Duration, Error> {
    let parse = || {
        let inside = expression.trim().strip_prefix("rate(")?.strip_suffix(')')?;
        let (number, unit) = inside.trim().split_once(' ')?;
        let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
        let seconds = match unit.trim() {
            "minute" | "minutes" => 60,
            "hour" | "hours" => 3_600,
            "day" | "days" => 86_400,
            _ => return None,
        };
        Some(Duration::from_secs(number.checked_mul(seconds)?))
    };
    parse().ok_or_else(|| Error::Expression(expression.to_owned()))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Declared {
        Declared {
            logical_id: "S".into(),
            name: "github-feed-subscriber-schedule".into(),
            group: "default".into(),
            expression: "rate(5 minutes)".into(),
            time_zone: None,
            enabled: true,
            function: "github-subscriber".into(),
            input: json!({}),
            properties: json!({}),
        }
    }

    #[test]
    fn rates_are_understood_and_nonsense_is_not() {
        assert_eq!(rate("rate(5 minutes)").expect("a rate"), Duration::from_secs(300));
        assert_eq!(rate("rate(1 hour)").expect("a rate"), Duration::from_secs(3_600));
        for nonsense in ["rate(0 minutes)", "rate(five minutes)", "cron(0 * * * ? *)", "rate(5 fortnights)", ""] {
            assert!(rate(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_paused_schedule_stays_paused_after_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("schedules.json");
        let schedules = Schedules::new(vec![declared()], Some(path.clone())).expect("schedules");
        schedules.change("github-subscriber", Some(false), None).expect("paused");
        let schedules = Schedules::new(vec![declared()], Some(path.clone())).expect("schedules");
        assert!(!schedules.list()[0].enabled);
        assert_eq!(schedules.list()[0].next_ms, None);
        schedules.change("github-feed-subscriber-schedule", Some(true), Some("rate(1 minute)")).expect("resumed");
        let schedules = Schedules::new(vec![declared()], Some(path)).expect("schedules");
        assert_eq!((schedules.list()[0].enabled, schedules.list()[0].expression.as_str()), (true, "rate(1 minute)"));
    }

    #[test]
    fn what_is_due_fires_once() {
        let schedules = Schedules::new(vec![declared()], None).expect("schedules");
        let due_at = schedules.list()[0].next_ms.expect("a time");
        assert!(schedules.take_due(due_at - 1).is_empty());
        assert_eq!(schedules.take_due(due_at).len(), 1);
        assert!(schedules.take_due(due_at).is_empty());
    }
}
