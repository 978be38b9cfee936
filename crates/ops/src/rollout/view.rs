//! How a rollout is shown: plain lines in a pipeline, a progress display in a terminal. Both are made from events
//! alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use telemetry::terminal::one_line;

use super::alias::LIVE;
use super::drive::{AlarmState, End, Event, Sight, What};
use super::machine::LeftAlone;
use super::plan::{Item, Pace};
use crate::show::exactly;

/// How often a pipeline gets a line during a bake.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The width of a bar.
const BAR: usize = 20;

/// Why a function was left alone, and what to do.
pub fn left_alone(reason: &LeftAlone) -> String {
    match reason {
        LeftAlone::UnderWay { run } => {
            format!("another rollout (run {}) is moving it; wait for that, or go back with --abort", run.0)
        }
        LeftAlone::Overtaken => {
            "somebody else changed the alias during the rollout; check with --plan, then run the same command again"
                .to_owned()
        }
        LeftAlone::Foreign { main, other, percent } => format!(
            "somebody sent {percent} % of the traffic to version {other} without a rollout; --abort returns it to version {main}"
        ),
        LeftAlone::NothingBefore { live } => format!(
            "the version before {live} is not known; choose one with --to VERSION (aws lambda list-versions-by-function lists them)"
        ),
        LeftAlone::NotMoving { live } => format!("no rollout is under way; version {live} has all traffic"),
        LeftAlone::Unreadable(error) => {
            format!("could not read the alias {LIVE}: {error}; is the function deployed (make deploy)?")
        }
    }
}

/// How it ended, for a person.
pub fn ended(end: &End) -> String {
    match end {
        End::Finished { old, new } => format!("version {new} has all traffic (it was {old})"),
        End::AlreadyThere { live } => format!("version {live} already has all traffic"),
        End::WentBack { old, new, why } => format!("BACK on version {old} from {new}: {why}"),
        End::NotStarted { why } => format!("not started, no traffic was moved: {why}"),
        End::Refused { why } => format!("not changed: {why}"),
        End::Stuck { why, error } => {
            format!(
                "STUCK: traffic should go back ({why}), but Lambda refused: {error}. Run the same command with --abort until it says BACK"
            )
        }
    }
}

/// The plan, one paragraph per function.
pub fn plan(items: &[Item], pace: &Pace) -> String {
    let mut text = String::new();
    let steps = pace.steps.iter().map(|step| format!("{step} %")).collect::<Vec<_>>().join(" -> ");
    for item in items {
        let shown = item.shown(pace);
        let _ = match shown.to {
            Some(to) => writeln!(text, "{}  version {} -> {to}", item.function, shown.live),
            None => writeln!(text, "{}  version {}, nothing to do", item.function, shown.live),
        };
        if shown.to.is_some() {
            let bake = pace.bake_of(&item.watch);
            let watched =
                if bake.is_zero() { "not watched".to_owned() } else { format!("each watched for {}", exactly(bake)) };
            let _ = writeln!(text, "    steps   {steps}, {watched}");
            let alarms = if item.watch.alarms.is_empty() { "none".to_owned() } else { item.watch.alarms.join(", ") };
            let _ = writeln!(text, "    alarms  {alarms}");
        }
        if let Some(note) = shown.note {
            let _ = writeln!(text, "    note    {note}");
        }
    }
    text
}

/// Lines for a pipeline: what changed, and once per minute that the rollout goes on.
#[derive(Debug, Default)]
pub struct Lines {
    functions: BTreeMap<String, Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    at: Option<Timestamp>,
    alarms: Vec<AlarmState>,
    healthy: bool,
}

impl Lines {
    /// The lines for an event, if any.
    pub fn of(&mut self, event: &Event, tick: Duration) -> Vec<String> {
        let shown = self.functions.entry(event.function.clone()).or_default();
        let mut lines = Vec::new();
        match &event.what {
            What::Listening => {
                lines.push("another run started a rollout; checking for about a minute whether it is alive".to_owned())
            }
            What::Healthy { version } => {
                if !std::mem::replace(&mut shown.healthy, true) {
                    lines.push(format!("version {version} answers the health invocation"));
                }
            }
            What::Moved { old, new, percent, left } => {
                shown.at = Some(event.at);
                let bake = if *left > 0 { format!("; watching for {}", exactly(tick * *left)) } else { String::new() };
                lines.push(format!("{percent} % to version {new}, {} % to {old}{bake}", 100 - percent));
            }
            What::Looked { percent, left, sight } => {
                for alarm in &sight.alarms {
                    let before = shown.alarms.iter().find(|known| known.name == alarm.name);
                    if before.is_none_or(|known| known.state != alarm.state) && (alarm.rings() || before.is_some()) {
                        lines.push(alarm_line(alarm));
                    }
                }
                shown.alarms.clone_from(&sight.alarms);
                let due = shown.at.is_some_and(|at| event.at.duration_since(at).unsigned_abs() >= LINE_EVERY);
                if let (Some(left), true) = (left, due) {
                    shown.at = Some(event.at);
                    lines.push(format!("{percent} %, {} left; {}", exactly(tick * *left), summary(sight)));
                }
            }
            What::GoingBack { old, new, why } => lines.push(format!("going back from version {new} to {old}: {why}")),
            What::Unclear { what, error } => lines.push(format!("{what} got no clear answer: {error}")),
            What::Ended { end } => lines.push(ended(end)),
        }
        let time = event.at.strftime("%H:%M:%SZ");
        lines.into_iter().map(|line| format!("{time} {}: {line}", event.function)).collect()
    }
}

fn alarm_line(alarm: &AlarmState) -> String {
    let state = alarm.state.as_deref().unwrap_or("MISSING");
    if alarm.reason.is_empty() {
        format!("alarm {}: {state}", alarm.name)
    } else {
        format!("alarm {}: {state} ({})", alarm.name, crate::show::one_line(&alarm.reason, 160))
    }
}

fn summary(sight: &Sight) -> String {
    let ringing: Vec<&str> =
        sight.alarms.iter().filter(|alarm| alarm.rings()).map(|alarm| alarm.name.as_str()).collect();
    let alarms = match (ringing.as_slice(), sight.alarms.len()) {
        ([], 0) => "no alarms".to_owned(),
        ([], 1) => "1 alarm quiet".to_owned(),
        ([], many) => format!("{many} alarms quiet"),
        (ringing, _) => format!("ringing: {}", ringing.join(", ")),
    };
    format!("{alarms}; the new version: {} invocations, {} errors", sight.invocations, sight.errors)
}

/// What a terminal shows, repainted with every event and every second.
#[derive(Debug, Default)]
pub struct Picture {
    functions: BTreeMap<String, Row>,
    /// How many lines are on the screen.
    painted: usize,
}

#[derive(Debug, Default, Clone)]
struct Row {
    percent: u8,
    versions: Option<(u64, u64)>,
    /// When the bake ends.
    until: Option<Timestamp>,
    sight: Sight,
    doing: String,
    ended: bool,
}

impl Picture {
    pub fn take(&mut self, event: &Event, tick: Duration) {
        let row = self.functions.entry(event.function.clone()).or_default();
        let until = |left: u32| event.at.checked_add(tick * left).ok();
        match &event.what {
            What::Listening => row.doing = "checking whether the other run is alive".to_owned(),
            What::Healthy { version } => row.doing = format!("version {version} is healthy"),
            What::Moved { old, new, percent, left } => {
                (row.percent, row.versions, row.until) = (*percent, Some((old.0, new.0)), until(*left));
                row.doing = "watching".to_owned();
            }
            What::Looked { percent, left, sight } => {
                (row.percent, row.sight) = (*percent, sight.clone());
                row.until = left.and_then(until);
                row.doing = if row.until.is_some() { "watching".to_owned() } else { "reading the alarms".to_owned() };
            }
            What::GoingBack { why, .. } => (row.until, row.doing) = (None, format!("going back: {why}")),
            What::Unclear { what, .. } => row.doing = format!("{what} got no clear answer"),
            What::Ended { end } => {
                (row.until, row.doing, row.ended) = (None, ended(end), true);
                row.percent = match end {
                    End::Finished { .. } => 100,
                    End::WentBack { .. } => 0,
                    _ => row.percent,
                };
            }
        }
    }

    /// The lines to show at `now`.
    pub fn lines(&self, now: Timestamp) -> Vec<String> {
        let mut lines = Vec::new();
        for (function, row) in &self.functions {
            let full = usize::from(row.percent) * BAR / 100;
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
            let versions = row.versions.map_or(String::new(), |(old, new)| format!("{old} -> {new}  "));
            let left = row.until.map(|until| until.duration_since(now).max(jiff::SignedDuration::ZERO).unsigned_abs());
            let left = left.map_or(String::new(), |left| format!(", {} left", clock(left)));
            lines.push(format!("{function}  {versions}{bar} {:>3} %  {}{left}", row.percent, row.doing));
            if !row.ended {
                for alarm in &row.sight.alarms {
                    let state = alarm.state.as_deref().unwrap_or("MISSING");
                    lines.push(format!("    {:<18}{}", state, alarm.name));
                }
                if row.versions.is_some() {
                    let Sight { invocations, errors, .. } = row.sight;
                    lines.push(format!("    new version: {invocations} invocations, {errors} errors"));
                }
            }
        }
        lines
    }

    /// The text that repaints the screen.
    pub fn paint(&mut self, now: Timestamp) -> String {
        let lines = self.lines(now);
        let mut out = String::new();
        if self.painted > 0 {
            let _ = write!(out, "\x1b[{}A", self.painted);
        }
        out.push('\r');
        for line in &lines {
            // Names of alarms and errors come from outside. Without wrapping, so that the count of lines on the screen is right.
            let line = one_line(line);
            let _ = writeln!(out, "\x1b[?7l{line}\x1b[K\x1b[?7h");
        }
        out.push_str("\x1b[J");
        self.painted = lines.len();
        out
    }
}

/// `14:05`
fn clock(left: Duration) -> String {
    format!("{}:{:02}", left.as_secs() / 60, left.as_secs() % 60)
}
