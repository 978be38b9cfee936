//! The schedules of the templates. They invoke their functions, and can be listed, paused, changed and run at once.
//!
//! A schedule invokes its function asynchronously, as EventBridge Scheduler does. So the invocation is retried, and a failed
//! one goes to the function's on-failure queue. A run that cannot be handed to Lambda at all goes to the dead-letter queue of
//! the schedule ([`Schedule::dead_letter`]), here at once: Scheduler would try again first, as the retry policy says. A change
//! (pause, another rate, another target) survives a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use template::Schedule as Declared;

use crate::platform::clock::{now_ms, rfc3339};

/// How often Scheduler tries again unless the schedule says otherwise.
const DEFAULT_RETRIES: u64 = 185;

/// A schedule and its present state.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub declared: Declared,
    pub expression: String,
    pub enabled: bool,
    /// What it invokes, and what becomes of a run that cannot be started.
    pub target: Value,
    pub next_ms: Option<u64>,
    pub last_ms: Option<u64>,
}

/// What a person changed about a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Change {
    expression: String,
    enabled: bool,
    #[serde(default)]
    target: Option<Value>,
}

/// All schedules.
#[derive(Debug)]
pub(crate) struct Schedules {
    path: Option<PathBuf>,
    list: Mutex<Vec<Schedule>>,
    /// Wakes whoever waits for the next schedule after a change.
    changed: tokio::sync::Notify,
}

/// Why a schedule cannot be found or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the schedule expression {0:?} is not supported; ichido-local knows rates such as rate(5 minutes), rate(1 hour) and rate(1 day)"
    )]
    Expression(String),
    #[error("there is no schedule {0:?}")]
    Unknown(String),
    #[error("there is no function {0}; the run is in the dead-letter queue of the schedule, if it has one")]
    NoTarget(String),
}

impl Schedules {
    /// The schedules of the templates, with the changes that were kept.
    pub(crate) fn new(declared: Vec<Declared>, path: Option<PathBuf>) -> Result<Self, Error> {
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
            let target = change.and_then(|change| change.target.clone());
            let target = target.unwrap_or_else(|| declared.properties["Target"].clone());
            let rate = rate(&expression)?;
            let next_ms = enabled.then(|| now + ichido::whole_millis(rate));
            list.push(Schedule { declared, expression, enabled, target, next_ms, last_ms: None });
        }
        Ok(Self { path, list: Mutex::new(list), changed: tokio::sync::Notify::new() })
    }

    /// All schedules.
    pub(crate) fn list(&self) -> Vec<Schedule> {
        self.lock().clone()
    }

    /// Finds a schedule by the name that people know it by, or by its own.
    pub(crate) fn find(&self, name: &str) -> Result<Schedule, Error> {
        let list = self.lock();
        let found = list.iter().find(|schedule| schedule.name() == name || schedule.declared.name == name);
        found.cloned().ok_or_else(|| Error::Unknown(name.to_owned()))
    }

    /// Pauses, resumes or changes a schedule.
    pub(crate) fn change(
        &self,
        name: &str,
        enabled: Option<bool>,
        expression: Option<&str>,
        target: Option<&Value>,
    ) -> Result<Schedule, Error> {
        let mut list = self.lock();
        let found = list.iter_mut().find(|schedule| schedule.name() == name || schedule.declared.name == name);
        let schedule = found.ok_or_else(|| Error::Unknown(name.to_owned()))?;
        let every = rate(expression.unwrap_or(&schedule.expression))?;
        if let Some(expression) = expression {
            expression.clone_into(&mut schedule.expression);
        }
        if let Some(target) = target {
            schedule.target = target.clone();
        }
        schedule.enabled = enabled.unwrap_or(schedule.enabled);
        schedule.next_ms = schedule.enabled.then(|| now_ms() + ichido::whole_millis(every));
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
                let Schedule { declared, .. } = schedule;
                schedule.enabled != declared.enabled
                    || schedule.expression != declared.expression
                    || schedule.target != declared.properties["Target"]
            })
            .map(|schedule| {
                let Schedule { expression, enabled, target, .. } = schedule.clone();
                let change = Change { expression, enabled, target: Some(target) };
                (schedule.declared.name.as_str(), change)
            })
            .collect();
        if let Err(error) = crate::platform::data::write_private(path, &json!(changes).to_string()) {
            tracing::warn!(target: "local", error = %error, "could not write schedules.json; the next start forgets the changed schedules");
        }
    }

    /// Waits until schedules are due, sets their next time, and returns them.
    pub(crate) async fn due(&self) -> Vec<Schedule> {
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
            // Counted from now: a machine that slept makes up for one run, not for all of them.
            schedule.next_ms = rate(&schedule.expression).ok().map(|every| now + ichido::whole_millis(every));
            schedule.clone()
        })
        .collect()
    }

    /// Records that a schedule was run by hand.
    pub(crate) fn ran(&self, name: &str) {
        for schedule in self.lock().iter_mut().filter(|schedule| schedule.declared.name == name) {
            schedule.last_ms = Some(now_ms());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Schedule>> {
        telemetry::lock(&self.list)
    }
}

impl Schedule {
    /// The name that people know it by: that of the feed that its event is about, else that of its function.
    pub(crate) fn name(&self) -> &str {
        self.declared.input["feed"]["name"].as_str().unwrap_or(&self.declared.function)
    }

    /// What Scheduler sends to the schedule's dead-letter queue when Lambda did not take a run: the name of the queue, the body and
    /// the attributes. `None` if the schedule has no such queue; then the run is dropped.
    pub(crate) fn dead_letter(
        &self,
        id: &str,
        code: &str,
        message: &str,
    ) -> Option<(String, String, BTreeMap<String, String>)> {
        let queue = self.target["DeadLetterConfig"]["Arn"].as_str()?.rsplit(':').next()?.to_owned();
        let retries = self.target["RetryPolicy"]["MaximumRetryAttempts"].as_u64().unwrap_or(DEFAULT_RETRIES);
        let attributes = [
            ("ERROR_CODE", code.to_owned()),
            ("ERROR_MESSAGE", message.to_owned()),
            ("EXECUTION_ID", id.to_owned()),
            ("EXHAUSTED_RETRY_CONDITION", "MaximumRetryAttempts".to_owned()),
            ("IS_PAYLOAD_TRUNCATED", "false".to_owned()),
            ("RETRY_ATTEMPTS", retries.to_string()),
            ("SCHEDULED_TIME", rfc3339(self.last_ms.unwrap_or_default())),
            ("SCHEDULE_ARN", self.arn()),
            ("TARGET_ARN", self.target["Arn"].as_str().unwrap_or_default().to_owned()),
        ];
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Some((queue, self.declared.input.to_string(), attributes))
    }

    pub(crate) fn arn(&self) -> String {
        template::arn("scheduler", &format!("schedule/{}/{}", self.declared.group, self.declared.name))
    }

    /// What `/_local/schedules` shows.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "name": self.name(), "schedule": self.declared.name, "expression": self.expression,
            "state": if self.enabled { "ENABLED" } else { "DISABLED" }, "enabled": self.enabled,
            "next": self.next_ms.map(rfc3339), "last": self.last_ms.map(rfc3339),
        })
    }
}

/// The interval of `rate(5 minutes)`.
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
            properties: json!({"Target": {
                "Arn": "arn:aws:lambda:ap-northeast-1:000000000000:function:github-subscriber:live",
                "RetryPolicy": {"MaximumRetryAttempts": 2},
                "DeadLetterConfig": {"Arn": "arn:aws:sqs:ap-northeast-1:000000000000:github-subscriber-failures"},
            }}),
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
        schedules.change("github-subscriber", Some(false), None, None).expect("paused");
        let schedules = Schedules::new(vec![declared()], Some(path.clone())).expect("schedules");
        assert!(!schedules.list()[0].enabled);
        assert_eq!(schedules.list()[0].next_ms, None);
        let elsewhere = json!({"Arn": "elsewhere"});
        let change =
            schedules.change("github-feed-subscriber-schedule", Some(true), Some("rate(1 minute)"), Some(&elsewhere));
        change.expect("resumed");
        let schedules = Schedules::new(vec![declared()], Some(path)).expect("schedules");
        assert_eq!((schedules.list()[0].enabled, schedules.list()[0].expression.as_str()), (true, "rate(1 minute)"));
        assert_eq!(schedules.list()[0].target, elsewhere);
    }

    #[test]
    fn a_run_that_lambda_did_not_take_is_a_dead_letter_with_the_attributes_of_scheduler() {
        let schedules = Schedules::new(vec![declared()], None).expect("schedules");
        let run = schedules.list().remove(0);
        let (queue, body, attributes) = run.dead_letter("run-1", "ResourceNotFoundException", "gone").expect("a queue");
        assert_eq!((queue.as_str(), body.as_str()), ("github-subscriber-failures", "{}"));
        let of = |name: &str| attributes[name].as_str();
        assert_eq!((of("ERROR_CODE"), of("RETRY_ATTEMPTS")), ("ResourceNotFoundException", "2"));
        assert!(of("SCHEDULE_ARN").ends_with(":schedule/default/github-feed-subscriber-schedule"), "{attributes:?}");
        let without = Schedule { target: json!({"Arn": "x"}), ..run };
        assert_eq!(without.dead_letter("run-1", "c", "m"), None);
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
