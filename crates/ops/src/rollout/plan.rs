//! What there is to do, before anything is done: which functions, from which version to which, in which steps, watched by
//! which alarms, for how long.

use std::time::Duration;

use serde::Serialize;
use template::{Alarm, Template};

use super::alias::{ALL, Alias, Standing, Version};
use super::machine;
use crate::infra;

/// Alarms are looked at, and the alias is written, so often. An alarm is heeded within 60 s: this, and the time limits of the
/// calls between two looks ([`super::cloud`]), are less than that together.
pub const TICK: Duration = Duration::from_secs(15);
/// How often a version with hardly anything to do is asked for its health.
const HEALTH_EVERY: Duration = Duration::from_secs(60);
/// Fewer invocations than this in a step say little.
const RARE: u64 = 20;
/// A run that has not written for so many ticks is dead: longer than the time limits of all calls between two writes.
const LEASE_TICKS: u32 = 4;
/// Nor for less than this, however short a tick is.
const LEASE: Duration = Duration::from_secs(15);
const TRIES: u32 = 3;
const TRIES_BACK: u32 = 20;
/// Looks in a row that may show nothing.
const BLIND: u32 = 3;

/// How all functions of one run are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    pub steps: Vec<u8>,
    /// At least this long; a function whose alarms look further back is watched for longer.
    pub bake: Duration,
    /// Whether an alarm's window makes a bake longer.
    pub stretch: bool,
    pub tick: Duration,
}

/// Why a pace is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("steps are percentages that rise and end in 100, as in 10,50,100; these are {0:?}")]
    Steps(Vec<u8>),
    #[error("a bake of {} is shorter than the window of the alarms, {}: none could ring in it", said(*.bake), said(*.window))]
    Short { bake: Duration, window: Duration },
}

impl Pace {
    /// The environment's, unless something is said: a shorter bake than an alarm's window only where nothing is at stake.
    pub fn new(rollout: &infra::Rollout, steps: Option<&[u8]>, bake: Option<Duration>) -> Result<Self, Error> {
        let steps = steps.unwrap_or(&rollout.steps).to_vec();
        let rises = steps.windows(2).all(|pair| pair[0] < pair[1]);
        if !rises || steps.first().is_none_or(|first| *first == 0) || steps.last() != Some(&ALL) {
            return Err(Error::Steps(steps));
        }
        let own = Duration::from_secs(rollout.bake_seconds);
        // All at once and unwatched is what `dev` asks for; whoever moves in steps wants to see something.
        let stretch = bake.is_none() && (steps.len() > 1 || !own.is_zero());
        Ok(Pace { steps, bake: bake.unwrap_or(own), stretch, tick: TICK })
    }

    /// Of one function.
    pub fn bake_of(&self, watch: &Watch) -> Duration {
        if self.stretch { self.bake.max(watch.window) } else { self.bake }
    }

    /// What its machine is told.
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
    /// The furthest that one of them looks back.
    pub window: Duration,
}

impl Watch {
    /// The alarms on a function's own metrics, and those that the environment names; without those that ring already and are
    /// known to.
    pub fn of(function: &str, described: &infra::Described, despite: &[String]) -> Result<Self, template::Error> {
        let suffix = &described.settings.suffix;
        let named =
            |name: &str, list: &[String]| list.iter().any(|each| name == each || name == format!("{each}{suffix}"));
        let mut watch = Watch::default();
        for (_, template) in &described.templates {
            for alarm in alarms(template)? {
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

fn alarms(template: &Template) -> Result<Vec<Alarm>, template::Error> {
    template.alarms()
}

fn is_of(alarm: &Alarm, function: &str) -> bool {
    alarm.dimensions.get("FunctionName").is_some_and(|name| name == function)
        || alarm.dimensions.get("Resource").is_some_and(|name| name.split(':').next() == Some(function))
}

/// One function's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub function: String,
    pub standing: Standing,
    /// The newest version.
    pub newest: Version,
    pub watch: Watch,
}

impl Item {
    pub fn new(function: &str, alias: &Alias, newest: Version, watch: Watch) -> Self {
        Item { function: function.to_owned(), standing: Standing::of(alias), newest, watch }
    }

    /// Where its traffic is to go; `None` if it is there.
    pub fn target(&self) -> Option<Version> {
        match self.standing {
            Standing::Settled { live, .. } => (live != self.newest).then_some(self.newest),
            Standing::Moving { new, .. } => Some(new),
            Standing::Foreign { other, .. } => Some(other),
        }
    }
}

/// A plan for machines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown<'a> {
    pub function: &'a str,
    pub live: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Version>,
    /// Percent of the traffic that a rollout has moved already.
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

    /// What an operator should know before.
    pub fn note(&self) -> Option<String> {
        use super::alias::Note;
        match &self.standing {
            Standing::Moving { percent, .. } => Some(format!("a rollout stands at {percent} %; this goes on with it")),
            Standing::Foreign { percent, .. } => {
                Some(format!("{percent} % were moved by another hand: --abort takes them back first"))
            }
            Standing::Settled { last: Some(Note::Back { from, at, why, .. }), .. } if *from == self.newest => {
                Some(format!("it was taken back from {from} at {at:.0}: {why}"))
            }
            Standing::Settled { .. } => None,
        }
    }
}

/// `15 min`, `90 s`.
pub fn said(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
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
        let settings =
            Settings { name: "staging".into(), region: "ap-northeast-1".into(), suffix: "-staging".into(), rollout };
        Described { settings, templates: with_suffix("-staging").unwrap() }
    }

    #[test]
    fn a_function_is_watched_by_its_own_alarms_and_those_of_the_environment() {
        let described = described(&["http-api-errors"]);
        let watch = Watch::of("slack-events-staging", &described, &[]).unwrap();
        let names = ["http-api-errors", "slack-events-errors", "slack-events-latency", "slack-fallback-active"];
        assert_eq!(watch.alarms, names.map(|name| format!("{name}-staging")));
        let despite = ["slack-events-errors".to_owned()];
        let watch = Watch::of("slack-events-staging", &described, &despite).unwrap();
        assert!(!watch.alarms.contains(&"slack-events-errors-staging".to_owned()));
    }

    #[test]
    fn every_function_is_watched_by_an_alarm() {
        let described = described(&[]);
        let unwatched = ["github-notifier-staging", "hatebu-notifier-staging"];
        for function in described.functions() {
            let watch = Watch::of(&function, &described, &[]).unwrap();
            assert_eq!(watch.alarms.is_empty(), unwatched.contains(&function.as_str()), "{function}: {watch:?}");
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
    fn steps_rise_to_all_of_it() {
        let rollout = described(&[]).settings.rollout;
        for steps in [&[10, 50][..], &[50, 10, 100], &[0, 100], &[], &[100, 100]] {
            assert_eq!(Pace::new(&rollout, Some(steps), None), Err(Error::Steps(steps.to_vec())));
        }
        assert!(!Pace::new(&rollout, Some(&[100]), Some(Duration::ZERO)).unwrap().stretch);
    }

    #[test]
    fn an_alarm_is_heeded_within_a_minute() {
        let calls = super::super::cloud::CALL_TIMEOUT * 3 + super::super::cloud::HEALTH_TIMEOUT;
        assert!(TICK + calls <= Duration::from_secs(60), "health, sign of life, tick, look, way back");
        assert!(TICK + calls <= TICK * LEASE_TICKS, "a run that lives is heard of in time");
    }
}
