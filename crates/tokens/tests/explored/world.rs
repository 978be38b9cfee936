//! What one path works on: a ledger per caller, and what each caller was told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use futures::executor::block_on;
use ichido::Clock;
use serde_json::Value;
use testkit::explore::{Lane, Path};
use tokens::ledger::{Error, Ledger, Obstacle};
use tokens::verify::verify;

use super::support::{did, random, transfer};
use super::wire::{TABLE, Wire};
use super::{AFTERWARDS, Ask, Scenario};

/// What a caller knows of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Done(String),
    Refused(Obstacle),
    /// Send it again.
    Unknown,
    /// The books do not allow it, and no attempt was made.
    NotPossible(String),
}

pub(super) struct World {
    path: Path,
    pub(super) wire: Wire,
    undisturbed: Client,
    /// By the name of the request.
    told: Mutex<BTreeMap<&'static str, Vec<(Lane, Told)>>>,
}

impl World {
    pub(super) fn new(path: &Path, scenario: &Scenario) -> Self {
        let told: BTreeMap<_, _> =
            scenario.made.iter().map(|(name, body)| (*name, vec![(AFTERWARDS, Told::Done(body.clone()))])).collect();
        let wire = Wire::new(path, scenario);
        Self { path: path.clone(), undisturbed: wire.undisturbed(), wire, told: Mutex::new(told) }
    }

    /// A ledger of its own for each caller, so that what one draws does not depend on the others.
    pub(super) fn ledger(&self, lane: Lane, scenario: &Scenario) -> Ledger {
        let clock = Arc::new(self.path.clock().clone());
        Ledger::new(self.wire.client(), TABLE, scenario.rules.clone(), clock, random(lane as u64 + 10))
    }

    pub(super) fn told(&self) -> MutexGuard<'_, BTreeMap<&'static str, Vec<(Lane, Told)>>> {
        self.told.lock().unwrap()
    }

    pub(super) async fn ask(&self, ledger: &Ledger, lane: Lane, ask: Ask, budget: Duration) {
        let until = self.path.clock().now() + budget;
        self.wire.begins(lane);
        let result = match ask {
            Ask::Send { name, from, to, amount } => {
                let mut request = transfer(from, to, amount, name);
                name.clone_into(&mut request.message); // finds the entry again
                ledger.transfer(&request, until).await
            }
            Ask::Reverse { name, of } => {
                let Some(body) = self.done(of) else { return };
                let original: Value = serde_json::from_str(&body).unwrap();
                let id = original["transactionId"].as_str().unwrap().parse().unwrap();
                let sender = did(original["senderDid"].as_str().unwrap());
                ledger.reverse(&sender, id, name, until).await
            }
            Ask::Freeze { who } => {
                match ledger.set_frozen(&did(who), true, "explored").await {
                    Ok(_) | Err(Error::Unresolved) => {}
                    Err(other) => {
                        self.told().entry(who).or_default().push((lane, Told::NotPossible(other.to_string())))
                    }
                }
                return;
            }
        };
        let told = match result {
            Ok(answer) => Told::Done(answer.body),
            Err(Error::Refused(obstacle)) => {
                self.wire.refused(lane);
                Told::Refused(obstacle)
            }
            Err(Error::Unresolved) => Told::Unknown,
            Err(other) => Told::NotPossible(other.to_string()),
        };
        self.path.note(lane, || match &told {
            Told::Done(_) => format!("→ {} is done", ask.name()),
            other => format!("→ {}: {other:?}", ask.name()),
        });
        self.told().entry(ask.name()).or_default().push((lane, told));
    }

    /// What somebody was told about a request that was done.
    fn done(&self, name: &str) -> Option<String> {
        self.told().get(name)?.iter().find_map(|(_, told)| match told {
            Told::Done(body) => Some(body.clone()),
            _ => None,
        })
    }

    /// Compares the table with what the callers were told.
    pub(super) fn audit(&self, when: &str) -> Result<(), String> {
        let report = block_on(verify(&self.undisturbed, TABLE)).map_err(|error| error.to_string())?;
        if !report.is_clean() || report.balances != report.grants {
            return Err(format!("the books are wrong: {when}, {report:?}"));
        }
        let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for item in self.wire.items() {
            let text = |name: &str| item[name]["S"].as_str().unwrap_or_default().to_owned();
            // Those without a message were there before.
            let sent = item["PK"]["S"].as_str().is_some_and(|key| key.starts_with("SENT#"));
            if sent && item["message"]["S"] != "" {
                entries.entry(text("message")).or_default().push(text("transactionId"));
            }
        }
        for (name, ids) in &entries {
            if ids.len() > 1 {
                return Err(format!("done twice: {when}, {name:?} has the entries {ids:?}"));
            }
        }
        for (name, all) in self.told().iter() {
            let mut bodies = all.iter().filter_map(|(_, told)| match told {
                Told::Done(body) => Some(body),
                _ => None,
            });
            if let Some(impossible) = all.iter().find(|(_, told)| matches!(told, Told::NotPossible(_))) {
                return Err(format!("an unexpected error: {when}, {name:?} {impossible:?}"));
            }
            let Some(first) = bodies.next() else { continue };
            if let Some(other) = bodies.find(|body| *body != first) {
                return Err(format!("two answers: {when}, {name:?} was answered with {first} and {other}"));
            }
            let body: Value = serde_json::from_str(first).map_err(|error| error.to_string())?;
            let id = body["transactionId"].as_str().unwrap_or_default();
            if entries.get(*name).is_none_or(|ids| *ids != [id]) {
                return Err(format!("told but not done: {when}, {name:?} is {id}, there is {:?}", entries.get(*name)));
            }
        }
        Ok(())
    }

    /// Was everything answered that was sent when nothing went wrong any more?
    pub(super) fn everybody_is_answered(&self) -> Result<(), String> {
        let told = self.told();
        let unknown = told.iter().find(|(_, all)| all.contains(&(AFTERWARDS, Told::Unknown)));
        match unknown {
            None => Ok(()),
            Some((name, all)) => Err(format!("no answer although nothing went wrong: {name:?}, {all:?}")),
        }
    }
}
