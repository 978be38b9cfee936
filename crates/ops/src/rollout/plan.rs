//! What a rollout would do: which functions, from which version to which, in which steps, watched by which alarms, for how
//! long.

use std::time::Duration;

use serde::Serialize;
use template::Alarm;

use super::alias::{ALL, Alias, Standing, Version};
use super::machine;
use crate::{infra, show};

/// How often the alarms are read and the alias is written. A rollout reacts to an alarm within 60 s: this, and the time
/// limits of the calls between two looks (`cloud.rs`), take less than that together.
pub const TICK: Duration = Duration::from_secs(15);
/// How often a version that is hardly invoked is asked for its health.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// A version with fewer invocations than this in a step is hardly invoked.
const RARE: u64 = 20;
/// A run that has not written for this many ticks is dead. That is longer than all calls between two writes may take.
const LEASE_TICKS: u32 = 4;
/// A run is never called dead before this time, however short a tick is.
const LEASE: Duration = Duration::from_secs(15);
/// How often a call without a clear answer is repeated.
const TRIES: u32 = 3;
/// The same on the way back, which matters more.
const TRIES_BACK: u32 = 20;
/// How many looks in a row may fail.
const BLIND: u32 = 3;

/// How all functions of one run are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    pub steps: Vec<u8>,
    /// How long each step is watched, at least. A function whose alarms look further back is watched for longer.
    pub bake: Duration,
    /// Whether the window of an alarm makes the bake longer.
    pub stretch: bool,
    pub tick: Duration,
}

/// Why this pace is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("steps must be percentages that rise and end with 100, such as 10,50,100; these are {0:?}")]
    Steps(Vec<u8>),
    #[error("a bake of {} is shorter than the window of the alarms ({}), so no alarm could ring in time", show::exactly(*.bake), show::exactly(*.window))]
    ShortBake { bake: Duration, window: Duration },
}

impl Pace {
    /// The pace of the environment, unless `steps` or `bake` say otherwise.
    pub fn new(rollout: &infra::Rollout, steps: Option<&[u8]>, bake: Option<Duration>) -> Result<Self, Error> {
        let steps = steps.unwrap_or(&rollout.steps).to_vec();
        let rises = steps.windows(2).all(|pair| pair[0] < pair[1]);
        if !rises || steps.first().is_none_or(|first| *first == 0) || steps.last() != Some(&ALL) {
            return Err(Error::Steps(steps));
        }
        let own = Duration::from_secs(rollout.bake_seconds);
        // `dev` moves all traffic at once and does not watch. A rollout with steps or a bake is to see its alarms ring.
        let stretch = bake.is_none() && (steps.len() > 1 || !own.is_zero());
        Ok(Pace { steps, bake: bake.unwrap_or(own), stretch, tick: TICK })
    }

    /// How long each step of one function is watched.
    pub fn bake_of(&self, watch: &Watch) -> Duration {
        if self.stretch { self.bake.max(watch.window) } else { self.bake }
    }

    /// The settings of the machine of one function.
    pub fn settings(&self, watch: &Watch) -> machine::Settings {
        let ticks = |duration: Duration| {
            let ticks = duration.as_millis().div_ceil(self.tick.as_millis().max(1));
            u32::try_from(ticks).unwrap_or(u32::MAX)
        };
        machine::Settings {
            steps: self.steps.clone(),
            bake: ticks(self.bake_of(watch)),
            health_every: ticks(HEALTH_EVERY).min(ticks(self.bake_of(watch))).max(1),
            rare: RARE,
            lease: ticks(LEASE).max(LEASE_TICKS),
            tries: TRIES,
            tries_back: TRIES_BACK,
            blind: BLIND,
        }
    }
}

/// What is watched while a function moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    pub alarms: Vec<String>,
    /// The longest time that one of them looks back.
    pub window: Duration,
}

impl Watch {
    /// The alarms on the function's own metrics and those that the environment names, without those in `despite`.
    pub fn of(function: &str, described: &infra::Described, despite: &[String]) -> Result<Self, template::Error> {
        let suffix = &described.settings.suffix;
        let named =
            |name: &str, list: &[String]| list.iter().any(|each| name == each || name == format!("{each}{suffix}"));
        let mut watch = Watch::default();
        for (_, template) in &described.templates {
            for alarm in template.alarms()? {
                let watched = is_of(&alarm, function) || named(&alarm.name, &described.settings.rollout.alarms);
                if watched && !named(&alarm.name, despite) {
                    watch.window = watch.window.max(alarm.period * alarm.evaluation_periods);
                    watch.alarms.push(alarm.name);
                }
            }
        }
        Ok(watch)
    }
}

fn is_of(alarm: &Alarm, function: &str) -> bool {
    // The notifier of the list's feeds has no alarm of its own: what it does not deliver fails the runs of the function that invokes it.
    let function = &function.replace("feeds-notifier", "feeds-subscriber");
    alarm.dimensions.get("FunctionName").is_some_and(|name| name == function)
        || alarm.dimensions.get("Resource").is_some_and(|name| name.split(':').next() == Some(function.as_str()))
}

/// One function of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub function: String,
    pub standing: Standing,
    /// The version to move to: the one that the last deployment published, or the operator's choice. `None` if no
    /// deployment has finished.
    pub deployed: Option<Version>,
    pub watch: Watch,
}

impl Item {
    pub fn new(function: &str, alias: &Alias, deployed: Option<Version>, watch: Watch) -> Self {
        Item { function: function.to_owned(), standing: Standing::of(alias), deployed, watch }
    }

    /// The version to move to; `None` if it has all traffic already.
    pub fn target(&self) -> Option<Version> {
        match self.standing {
            Standing::Settled { live, .. } => self.deployed.filter(|deployed| *deployed != live),
            Standing::Moving { new, .. } => Some(new),
            Standing::Foreign { other, .. } => Some(other),
        }
    }
}

/// A plan as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown<'a> {
    pub function: &'a str,
    pub live: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Version>,
    /// Percent of the traffic that has moved already.
    pub percent: u8,
    pub steps: &'a [u8],
    pub bake_seconds: u64,
    pub alarms: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Item {
    pub fn shown<'a>(&'a self, pace: &'a Pace) -> Shown<'a> {
        let (live, percent) = match self.standing {
            Standing::Settled { live, .. } => (live, 0),
            Standing::Moving { old, percent, .. } => (old, percent),
            Standing::Foreign { main, percent, .. } => (main, percent),
        };
        Shown {
            function: &self.function,
            live,
            to: self.target(),
            percent,
            steps: &pace.steps,
            bake_seconds: pace.bake_of(&self.watch).as_secs(),
            alarms: &self.watch.alarms,
            note: self.note(),
        }
    }

    /// What an operator should know before the rollout.
    pub fn note(&self) -> Option<String> {
        use super::alias::Note;
        match &self.standing {
            Standing::Moving { percent, .. } => {
                Some(format!("a rollout stopped at {percent} %; this command goes on with it"))
            }
            Standing::Foreign { percent, .. } => Some(format!(
                "somebody moved {percent} % of the traffic without a rollout; return it first with --abort"
            )),
            Standing::Settled { last: Some(Note::Back { from, at, why, .. }), .. } if Some(*from) == self.deployed => {
                Some(format!("traffic went back from version {from} at {at:.0}: {why}"))
            }
            Standing::Settled { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::{Described, Rollout, Settings, with_suffix};

    fn described(alarms: &[&str]) -> Described {
        let rollout = Rollout {
            steps: vec![10, 50, 100],
            bake_seconds: 120,
            alarms: alarms.iter().map(ToString::to_string).collect(),
        };
        let settings = Settings {
            name: "staging".into(),
            region: "ap-northeast-1".into(),
            suffix: "-staging".into(),
            rollout,
            reserved_concurrency: std::collections::BTreeMap::new(),
        };
        Described { settings, templates: with_suffix("-staging").unwrap() }
    }

    #[test]
    fn a_function_is_watched_by_its_own_alarms_and_those_of_the_environment() {
        let described = described(&["http-api-errors"]);
        let watch = Watch::of("slack-events-staging", &described, &[]).unwrap();
        let names = ["http-api-errors", "slack-events-errors", "slack-fallback-active"];
        assert_eq!(watch.alarms, names.map(|name| format!("{name}-staging")));
        let despite = ["slack-events-errors".to_owned()];
        let watch = Watch::of("slack-events-staging", &described, &despite).unwrap();
        assert!(!watch.alarms.contains(&"slack-events-errors-staging".to_owned()));
    }

    #[test]
    fn an_api_key_that_ends_soon_does_not_stop_a_rollout() {
        let watch = Watch::of("mesh-resolver-staging", &described(&[]), &[]).unwrap();
        let names = ["mesh-resolver-errors", "mesh-resolver-throttles"];
        assert_eq!(watch.alarms, names.map(|name| format!("{name}-staging")));
        assert_eq!(watch.window, Duration::from_secs(900));
    }

    #[test]
    fn every_function_is_watched_by_an_alarm() {
        let described = described(&[]);
        for function in described.functions() {
            // Without further feeds nothing invokes these two, and they have no alarm.
            if function.starts_with("feeds-") {
                continue;
            }
            let watch = Watch::of(&function, &described, &[]).unwrap();
            assert!(!watch.alarms.is_empty(), "{function}");
        }
    }

    #[test]
    fn both_functions_of_the_lists_feeds_are_watched_by_one_alarm() {
        let text = include_str!("../../../../infra/templates/feeds.yaml");
        let given =
            [("FurtherFeeds", "on"), ("Suffix", "-staging")].map(|(name, value)| (name.to_owned(), value.into()));
        let feeds = template::Template::read(text, &given.into_iter().collect()).unwrap();
        let described = Described { templates: vec![("feeds", feeds)], ..described(&[]) };
        for function in ["feeds-subscriber-staging", "feeds-notifier-staging"] {
            let watch = Watch::of(function, &described, &[]).unwrap();
            assert_eq!(watch.alarms, ["further-feeds-errors-staging"], "{function}");
        }
    }

    #[test]
    fn a_bake_is_never_shorter_than_an_alarms_window() {
        let described = described(&[]);
        let pace = Pace::new(&described.settings.rollout, None, None).unwrap();
        let of = |function| pace.bake_of(&Watch::of(function, &described, &[]).unwrap());
        assert_eq!(of("slack-events-staging"), Duration::from_secs(900));
        assert_eq!(of("hatebu-subscriber-staging"), Duration::from_secs(3_600), "four periods of its schedule");
        assert_eq!(of("nothing"), Duration::from_secs(120));
        let settings = pace.settings(&Watch::of("slack-events-staging", &described, &[]).unwrap());
        assert_eq!((settings.bake, settings.health_every), (60, 4));
    }

    #[test]
    fn a_rollout_moves_to_what_was_deployed_last_whatever_is_newer() {
        let live = Alias { version: Version(5), other: None, description: String::new(), revision: String::new() };
        let target = |deployed| Item::new("slack-events", &live, deployed, Watch::default()).target();
        assert_eq!(target(Some(Version(6))), Some(Version(6)));
        assert_eq!(target(Some(Version(4))), Some(Version(4)), "somebody made a later version live");
        assert_eq!(target(Some(Version(5))), None);
        assert_eq!(target(None), None, "no deployment has finished");
    }

    #[test]
    fn steps_rise_to_all_of_it() {
        let rollout = described(&[]).settings.rollout;
        for steps in [&[10, 50][..], &[50, 10, 100], &[0, 100], &[], &[100, 100]] {
            assert_eq!(Pace::new(&rollout, Some(steps), None), Err(Error::Steps(steps.to_vec())));
        }
        assert!(!Pace::new(&rollout, Some(&[100]), Some(Duration::ZERO)).unwrap().stretch);
    }

    #[test]
    fn a_rollout_reacts_to_an_alarm_within_a_minute() {
        let calls = super::super::cloud::CALL_TIMEOUT * 3 + super::super::cloud::HEALTH_TIMEOUT;
        assert!(TICK + calls <= Duration::from_secs(60), "health, sign of life, tick, look, way back");
        assert!(TICK + calls <= TICK * LEASE_TICKS, "a live run writes in time");
    }
}
