//! The faults of the store and of the stand-ins, as `/_local/faults` shows and takes them.
//!
//! Faults affect handlers, never tools. A `PUT` replaces all faults at once; if any part of it is wrong, nothing changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use emulator::dynamodb::faults::{Faults as StoreFaults, Lag, Mode as StoreMode, Spec as StoreSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The store's name among the faults.
const STORE: &str = "dynamodb";

/// Why a `PUT` of faults is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("faults are a JSON object from names to faults, such as {{\"slack\": {{\"mode\": \"refuse\"}}}}")]
    NotAnObject,
    #[error("there is nothing called {name:?} to break; choose one of {known}")]
    Unknown { name: String, known: String },
    #[error("the fault of {name} is wrong: {source}")]
    Invalid { name: String, source: serde_json::Error },
    #[error("the fault of {name} is wrong: rate must be a number from 0 to 1")]
    Rate { name: String },
}

/// What a broken stand-in does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It answers with an error status and does nothing else.
    Refuse,
    /// It does not answer and does nothing.
    Hang,
    /// It does its work and then closes the connection without an answer.
    AcceptThenLose,
    /// It does its work after `ms`.
    Slow,
}

/// The fault of a stand-in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub mode: Mode,
    /// The status of a refusal.
    #[serde(default = "Spec::default_status")]
    pub status: u16,
    /// How many milliseconds `slow` waits.
    #[serde(default = "Spec::default_ms")]
    pub ms: u64,
    /// The share of the requests that the fault affects.
    #[serde(default = "Spec::default_rate")]
    pub rate: f64,
}

impl Spec {
    fn default_status() -> u16 {
        503
    }

    fn default_ms() -> u64 {
        200
    }

    fn default_rate() -> f64 {
        1.0
    }
}

/// All faults.
#[derive(Debug)]
pub struct Faults {
    store: StoreFaults,
    /// The names of all stand-ins.
    known: Vec<&'static str>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stand_ins: BTreeMap<String, Spec>,
    /// The faults as they were put, for `GET`.
    shown: serde_json::Map<String, Value>,
}

impl Faults {
    pub fn new(store: StoreFaults, known: Vec<&'static str>) -> Self {
        Self { store, known, state: Mutex::default() }
    }

    /// The present faults, as `/_local/faults` shows them.
    pub fn shown(&self) -> Value {
        Value::Object(self.lock().shown.clone())
    }

    /// Replaces all faults.
    pub fn put(&self, faults: &Value) -> Result<(), Error> {
        let members = faults.as_object().ok_or(Error::NotAnObject)?;
        let mut stand_ins = BTreeMap::new();
        let mut store = None;
        for (name, value) in members {
            let invalid = |source| Error::Invalid { name: name.clone(), source };
            let rate = if name == STORE {
                let spec: StoreSpec = serde_json::from_value(value.clone()).map_err(invalid)?;
                store.insert(spec).rate
            } else if self.known.contains(&name.as_str()) {
                let spec: Spec = serde_json::from_value(value.clone()).map_err(invalid)?;
                let rate = spec.rate;
                stand_ins.insert(name.clone(), spec);
                rate
            } else {
                let known = std::iter::once(STORE).chain(self.known.iter().copied()).collect::<Vec<_>>().join(", ");
                return Err(Error::Unknown { name: name.clone(), known });
            };
            if !(0.0..=1.0).contains(&rate) {
                return Err(Error::Rate { name: name.clone() });
            }
        }
        let mut state = self.lock();
        self.store.heal();
        if let Some(spec) = store {
            match spec.rule() {
                Some(rule) => self.store.only(rule),
                None if spec.mode == StoreMode::LagIndexes => {
                    self.store.lag_indexes(Some(Lag::Time(Duration::from_millis(spec.ms))));
                }
                None => {}
            }
        }
        *state = State { stand_ins, shown: members.clone() };
        Ok(())
    }

    /// The fault that this request to a stand-in meets, if any.
    pub fn strike(&self, stand_in: &str) -> Option<Spec> {
        let state = self.lock();
        let spec = state.stand_ins.get(stand_in)?;
        (spec.rate >= 1.0 || fastrand::f64() < spec.rate).then(|| spec.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        telemetry::lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use emulator::dynamodb::Engine;
    use emulator::dynamodb::faults::Faulty;
    use serde_json::json;

    use super::*;

    fn faults() -> Faults {
        let store = Faulty::new(Engine::in_memory().expect("a store"), ichido::SystemClock, 0);
        Faults::new(store.faults().clone(), vec!["slack", "mastodon"])
    }

    #[test]
    fn putting_faults_replaces_all_of_them_and_nothing_heals() {
        let faults = faults();
        faults.put(&json!({"slack": {"mode": "refuse", "status": 429}})).expect("faults");
        faults.put(&json!({"mastodon": {"mode": "hang"}, "dynamodb": {"mode": "slow", "ms": 5}})).expect("faults");
        assert_eq!(faults.strike("slack"), None);
        assert_eq!(faults.strike("mastodon").map(|spec| spec.mode), Some(Mode::Hang));
        assert_eq!(faults.shown()["dynamodb"]["ms"], 5);
        faults.put(&json!({})).expect("healed");
        assert_eq!((faults.strike("mastodon"), faults.shown()), (None, json!({})));
    }

    #[test]
    fn what_is_not_understood_changes_nothing_and_says_why() {
        let faults = faults();
        faults.put(&json!({"slack": {"mode": "hang"}})).expect("faults");
        for (wrong, why) in [
            (
                json!({"slakc": {"mode": "hang"}}),
                r#"there is nothing called "slakc" to break; choose one of dynamodb, slack, mastodon"#,
            ),
            (json!({"slack": {"mode": "explode"}}), "the fault of slack is wrong: unknown variant `explode`"),
            (
                json!({"dynamodb": {"mode": "down", "rate": 2.0}}),
                "the fault of dynamodb is wrong: rate must be a number from 0 to 1",
            ),
            (json!([]), "faults are a JSON object"),
        ] {
            let error = faults.put(&wrong).expect_err("refused").to_string();
            assert!(error.starts_with(why), "{error}");
        }
        assert_eq!(faults.strike("slack").map(|spec| spec.mode), Some(Mode::Hang));
    }
}
