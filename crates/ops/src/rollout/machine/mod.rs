//! A rollout of one function, as a state machine without input or output.
//!
//! It gets what was observed ([`Observation`]) and decides what to do next ([`Action`]); [`super::drive`] carries that out.
//! Promises, each proven by exhaustive exploration (`explored.rs`):
//! - Traffic moves on only after a look that showed no alarm, no failed health invocation and no errors of the new version,
//!   and only after the whole bake.
//! - Whatever goes wrong, and every interruption, leads back to the old version, at once and before anything else.
//! - A write whose answer was lost is recognised, or made void before the machine ends: no request that is still under way
//!   can move traffic afterwards.
//! - Two runs never both move one alias: every write is conditional on the alias's revision id. The second run is refused
//!   while the first one writes, and takes over when the first one was silent for [`Settings::lease`] ticks. No two
//!   clocks are compared.
//! - If the process is killed at any point, the next run goes on from what the alias says, or goes back.
//!
//! Time is counted in ticks that were really waited for, so a clock that jumps shortens no bake.

use jiff::Timestamp;

use super::alias::{ALL, Alias, Change, Note, Run, Standing, Version};

#[cfg(test)]
mod explored;

/// Fewer errors than this do not count.
const ERRORS: u64 = 3;
/// More than one error in this many invocations is too many.
const ERROR_SHARE: u64 = 20;

/// What a rollout does and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Percent of the traffic, rising; the last is 100.
    pub steps: Vec<u8>,
    /// How many ticks a step is watched.
    pub bake: u32,
    /// How many ticks apart a new version that is hardly invoked is asked for its health.
    pub health_every: u32,
    /// A version with fewer invocations than this in a step is hardly invoked.
    pub rare: u64,
    /// A run that has not written for this many ticks is dead.
    pub lease: u32,
    /// How often a call that gave no clear answer is repeated.
    pub tries: u32,
    /// The same on the way back, which matters more.
    pub tries_back: u32,
    /// How many looks in a row may fail before the rollout goes back.
    pub blind: u32,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// All traffic to this version, or to the version of a rollout that is under way.
    Forward(Version),
    /// Back from a rollout that is under way.
    Abort,
    /// Back to the version before the last rollout, or to this one.
    Rollback(Option<Version>),
}

/// Why traffic went back, or did not move.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    Alarms(Vec<String>),
    NoSuchAlarms(Vec<String>),
    Errors {
        errors: u64,
        invocations: u64,
    },
    Unhealthy(String),
    Interrupted(String),
    /// The alarms or metrics cannot be read.
    Blind(String),
    /// Lambda refuses the update, or does not answer.
    Api(String),
    Asked,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Alarms(names) if names.len() == 1 => write!(f, "the alarm {} rings", names.join("")),
            Why::Alarms(names) => write!(f, "the alarms {} ring", names.join(", ")),
            Why::NoSuchAlarms(names) => write!(f, "there is no alarm {}", names.join(", ")),
            Why::Errors { errors, invocations } => {
                write!(f, "{errors} of {invocations} invocations of the new version failed")
            }
            Why::Unhealthy(answer) => write!(f, "the new version is not healthy: {answer}"),
            Why::Interrupted(by) => write!(f, "interrupted by {by}"),
            Why::Blind(error) => write!(f, "the alarms or metrics cannot be read: {error}"),
            Why::Api(error) => write!(f, "Lambda did not update the alias: {error}"),
            Why::Asked => f.write_str("the operator asked for it"),
        }
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Conclusion {
    /// All traffic is on the new version.
    Finished { old: Version, new: Version },
    /// There was nothing to do.
    AlreadyThere { live: Version },
    /// All traffic is on the old version again.
    WentBack { old: Version, new: Version, why: Why },
    /// No traffic was moved.
    NotStarted { why: Why },
    /// The function was not touched.
    LeftAlone(LeftAlone),
    /// Traffic may still be on the new version, and Lambda does not let us change it.
    Stuck { why: Why, error: String },
}

/// Why a function is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeftAlone {
    /// Another run is alive.
    UnderWay { run: Run },
    /// Somebody else changed the alias during this run.
    Overtaken,
    /// Somebody split the traffic without a rollout.
    Foreign { main: Version, other: Version, percent: u8 },
    /// The version before the live one is not known.
    NothingBefore { live: Version },
    /// There is no rollout to abort.
    NotMoving { live: Version },
    /// The alias cannot be read.
    Unreadable(String),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Read,
    /// Only if the alias still has this revision.
    Update {
        change: Change,
        revision: String,
    },
    /// Invoke this version with the health payload.
    Health(Version),
    /// Alarms, and what the new version did since.
    Look {
        new: Version,
        since: Timestamp,
    },
    /// A tick, or until interrupted.
    Wait,
    Done(Conclusion),
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    Nothing,
    Alias(Alias),
    /// The update was made; this is the alias now.
    Updated(Alias),
    /// Somebody else changed the alias before.
    Stale,
    Healthy,
    Unhealthy(String),
    Looked(Looked),
    Waited,
    /// No clear answer: the update may have happened, or not, or may still happen.
    Unclear(String),
    /// Lambda refused. Repeating does not help.
    Never(String),
}

/// What a look showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Looked {
    pub ringing: Vec<String>,
    pub missing: Vec<String>,
    pub errors: u64,
    pub invocations: u64,
}

impl Looked {
    fn wrong(&self) -> Option<Why> {
        if !self.ringing.is_empty() {
            Some(Why::Alarms(self.ringing.clone()))
        } else if !self.missing.is_empty() {
            Some(Why::NoSuchAlarms(self.missing.clone()))
        } else if self.errors >= ERRORS && self.errors * ERROR_SHARE >= self.invocations {
            Some(Why::Errors { errors: self.errors, invocations: self.invocations })
        } else {
            None
        }
    }
}

/// One rollout of one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    goal: Goal,
    settings: Settings,
    run: Run,
    state: State,
    /// The alias as it was last seen; its revision is what the next update is conditional on.
    held: Option<Alias>,
    /// Where the traffic goes from and to, once that is known.
    way: Option<(Version, Version)>,
    /// Percent of the traffic on the new version.
    percent: u8,
    /// Whether an update of this run was made, or may have been. Then just stopping is not enough.
    touched: bool,
    beat: u32,
    /// How many looks in a row failed.
    blind: u32,
    /// How many answers in a row were unclear.
    unclear: u32,
    /// When the step began.
    since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Starting,
    /// Waiting to see whether another run is alive.
    Listening {
        left: u32,
        waiting: bool,
    },
    /// Before traffic is moved, or moved on after a take-over.
    FirstLook,
    FirstHealth,
    Baking {
        left: u32,
        doing: Doing,
    },
    Writing {
        change: Change,
        then: Then,
    },
    /// After an unclear answer: reading the alias to learn what became of the write.
    Asking {
        change: Change,
        then: Then,
        waiting: bool,
    },
    Ended(Conclusion),
}

/// In a bake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Waiting,
    Looking,
    Health,
}

/// What follows a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Then {
    /// The other run was silent, and this one took over.
    TakenOver,
    Bake,
    /// A sign of life within a bake.
    Wait {
        left: u32,
    },
    Finish,
    Back(Why),
}

impl Machine {
    pub fn new(goal: Goal, settings: Settings, run: Run) -> Self {
        Machine {
            goal,
            settings,
            run,
            state: State::Starting,
            held: None,
            way: None,
            percent: 0,
            touched: false,
            beat: 0,
            blind: 0,
            unclear: 0,
            since: Timestamp::UNIX_EPOCH,
        }
    }

    /// The old version, the new one, and the percentage on the new one.
    pub fn progress(&self) -> Option<(Version, Version, u8)> {
        self.way.map(|(old, new)| (old, new, self.percent))
    }

    /// Ticks that are left of the bake.
    pub fn left(&self) -> Option<u32> {
        match &self.state {
            State::Baking { left, .. } | State::Writing { then: Then::Wait { left }, .. } => Some(*left),
            _ => None,
        }
    }

    /// How many ticks a step is watched.
    pub fn bake(&self) -> u32 {
        self.settings.bake
    }

    /// Whether it waits for a sign of life of another run.
    pub fn listening(&self) -> bool {
        matches!(self.state, State::Listening { .. })
    }

    /// Whether it is on its way back, which nothing interrupts.
    pub fn going_back(&self) -> bool {
        matches!(&self.state, State::Writing { then: Then::Back(_), .. } | State::Asking { then: Then::Back(_), .. })
    }

    /// Decides what to do next. `interruption` names what interrupts the rollout, from the moment at which it happened.
    pub fn next(&mut self, at: Timestamp, interruption: Option<&str>, seen: Observation) -> Action {
        if let Some(by) = interruption
            && self.may_be_interrupted()
        {
            return self.stop(at, Why::Interrupted(by.to_owned()));
        }
        match (self.state.clone(), seen) {
            (State::Ended(conclusion), _) => Action::Done(conclusion),
            (State::Starting, Observation::Alias(alias)) => self.start(at, alias),
            (State::Starting, Observation::Never(error)) => {
                self.end(Conclusion::LeftAlone(LeftAlone::Unreadable(error)))
            }
            (State::Starting, Observation::Unclear(error)) => {
                self.unclear += 1;
                if self.unclear > self.settings.tries {
                    return self.end(Conclusion::LeftAlone(LeftAlone::Unreadable(error)));
                }
                Action::Wait
            }
            (State::Starting, _) => Action::Read,

            (State::Listening { left, waiting: true }, _) => {
                self.state = State::Listening { left, waiting: false };
                Action::Read
            }
            (State::Listening { left, .. }, Observation::Alias(alias)) => self.listen(at, left, alias),
            // A read that failed says nothing about the other run: the time does not count.
            (State::Listening { left, .. }, Observation::Unclear(error) | Observation::Never(error)) => {
                self.unclear += 1;
                if self.unclear > self.settings.tries {
                    return self.end(Conclusion::LeftAlone(LeftAlone::Unreadable(error)));
                }
                self.state = State::Listening { left, waiting: true };
                Action::Wait
            }
            (State::Listening { .. }, _) => Action::Read,

            (State::FirstLook, Observation::Looked(looked)) => {
                self.blind = 0;
                match looked.wrong() {
                    Some(why) => self.stop(at, why),
                    None => {
                        self.state = State::FirstHealth;
                        self.ask_health()
                    }
                }
            }
            (State::FirstHealth, Observation::Healthy) => {
                self.blind = 0;
                if self.percent == 0 { self.step(at) } else { self.watch() }
            }
            (State::FirstHealth, Observation::Unhealthy(answer)) => self.stop(at, Why::Unhealthy(answer)),
            (State::FirstLook | State::FirstHealth, Observation::Unclear(error) | Observation::Never(error)) => {
                // After the wait, everything is checked again.
                self.state = State::FirstLook;
                self.blinded(at, error).unwrap_or(Action::Wait)
            }
            (State::FirstLook, _) => self.look(),
            (State::FirstHealth, _) => self.ask_health(),

            (State::Baking { left, doing: Doing::Waiting }, _) => {
                self.state = State::Baking { left: left.saturating_sub(1), doing: Doing::Looking };
                self.look()
            }
            (State::Baking { left, doing: Doing::Looking }, Observation::Looked(looked)) => {
                if let Some(why) = looked.wrong() {
                    return self.stop(at, why);
                }
                self.blind = 0;
                let done = self.settings.bake.saturating_sub(left);
                if looked.invocations < self.settings.rare && done.is_multiple_of(self.settings.health_every) {
                    self.state = State::Baking { left, doing: Doing::Health };
                    return self.ask_health();
                }
                self.seen_well(at, left)
            }
            (State::Baking { left, doing: Doing::Health }, Observation::Healthy) => self.seen_well(at, left),
            (State::Baking { doing: Doing::Health, .. }, Observation::Unhealthy(answer)) => {
                self.stop(at, Why::Unhealthy(answer))
            }
            // A bake does not end without a look. A look that failed is repeated, with a sign of life before it.
            (State::Baking { left, .. }, Observation::Unclear(error) | Observation::Never(error)) => {
                self.blinded(at, error).unwrap_or_else(|| self.live_on(at, left.max(1)))
            }
            (State::Baking { doing: Doing::Health, .. }, _) => self.ask_health(),
            (State::Baking { .. }, _) => self.look(),

            (State::Writing { then, .. }, Observation::Updated(alias)) => {
                self.unclear = 0;
                self.held = Some(alias);
                self.written(at, then)
            }
            (State::Writing { change, then }, Observation::Stale) => {
                self.state = State::Asking { change, then, waiting: false };
                Action::Read
            }
            (State::Writing { change, then }, Observation::Unclear(error)) => {
                self.touched = true;
                self.not_written(at, change, then, error)
            }
            // No permission, or no such version: repeating does not help, and nothing is under way.
            (State::Writing { then, .. }, Observation::Never(error)) => self.cannot_write(at, then, error),
            (State::Writing { change, .. }, _) => self.update(change),

            (State::Asking { change, then, waiting: true }, _) => {
                self.state = State::Asking { change, then, waiting: false };
                Action::Read
            }
            (State::Asking { change, then, .. }, Observation::Alias(alias)) => self.asked(at, change, then, alias),
            (State::Asking { change, then, .. }, Observation::Unclear(error) | Observation::Never(error)) => {
                self.not_written(at, change, then, error)
            }
            (State::Asking { .. }, _) => Action::Read,
        }
    }

    /// The way back is never interrupted, and neither is a write before its answer is known.
    fn may_be_interrupted(&self) -> bool {
        !matches!(self.state, State::Ended(_) | State::Writing { .. }) && !self.going_back()
    }

    fn start(&mut self, at: Timestamp, alias: Alias) -> Action {
        self.unclear = 0;
        let standing = Standing::of(&alias);
        self.held = Some(alias);
        match (self.goal.clone(), standing) {
            (Goal::Forward(new), Standing::Settled { live, .. }) if live == new => {
                self.end(Conclusion::AlreadyThere { live })
            }
            (Goal::Forward(new), Standing::Settled { live, .. }) => {
                self.way = Some((live, new));
                self.since = at;
                self.state = State::FirstLook;
                self.look()
            }
            (Goal::Forward(_), Standing::Moving { old, new, percent, .. }) => {
                self.way = Some((old, new));
                self.percent = percent;
                self.state = State::Listening { left: self.settings.lease, waiting: true };
                Action::Wait
            }
            (Goal::Forward(_), Standing::Foreign { main, other, percent }) => {
                self.end(Conclusion::LeftAlone(LeftAlone::Foreign { main, other, percent }))
            }
            // Going back is for emergencies. It does not wait for another run, which notices at its next write.
            (Goal::Abort | Goal::Rollback(None), Standing::Moving { old, new, percent, .. })
            | (Goal::Abort | Goal::Rollback(None), Standing::Foreign { main: old, other: new, percent }) => {
                self.way = Some((old, new));
                self.percent = percent;
                self.back(at, Why::Asked)
            }
            (Goal::Abort, Standing::Settled { live, .. }) => {
                self.end(Conclusion::LeftAlone(LeftAlone::NotMoving { live }))
            }
            (Goal::Rollback(Some(to)), standing) => {
                let live = match standing {
                    Standing::Settled { live, .. } if live == to => return self.end(Conclusion::AlreadyThere { live }),
                    Standing::Settled { live, .. } => live,
                    Standing::Moving { new, old, .. } if new == to => old,
                    Standing::Moving { new, .. } => new,
                    Standing::Foreign { main, other, .. } if main == to => other,
                    Standing::Foreign { main, .. } => main,
                };
                self.way = Some((to, live));
                self.percent = ALL;
                self.back(at, Why::Asked)
            }
            (Goal::Rollback(None), standing @ Standing::Settled { live, .. }) => match standing {
                Standing::Settled { last: Some(Note::Back { .. }), .. } => self.end(Conclusion::AlreadyThere { live }),
                _ => match standing.before() {
                    None => self.end(Conclusion::LeftAlone(LeftAlone::NothingBefore { live })),
                    Some(before) => {
                        self.way = Some((before, live));
                        self.percent = ALL;
                        self.back(at, Why::Asked)
                    }
                },
            },
        }
    }

    /// A live run writes at every tick. If the alias does not change for longer than that, the other run is dead.
    fn listen(&mut self, at: Timestamp, left: u32, alias: Alias) -> Action {
        let same = self.held.as_ref().is_some_and(|held| held.revision == alias.revision);
        if !same {
            let reason = match Standing::of(&alias) {
                Standing::Moving { run, .. } => LeftAlone::UnderWay { run },
                _ => LeftAlone::Overtaken,
            };
            return self.end(Conclusion::LeftAlone(reason));
        }
        if left > 1 {
            self.state = State::Listening { left: left - 1, waiting: true };
            return Action::Wait;
        }
        match self.way {
            Some((old, new)) => {
                let change = Change::step(old, new, self.percent, &self.run, self.beat, at);
                self.write(change, Then::TakenOver)
            }
            None => Action::Read,
        }
    }

    /// To the next step.
    fn step(&mut self, at: Timestamp) -> Action {
        let Some((old, new)) = self.way else { return Action::Read };
        let next = self.settings.steps.iter().copied().find(|step| *step > self.percent);
        match next {
            // Without a bake, the last step is also the end.
            Some(percent) if percent < ALL || self.settings.bake > 0 => {
                self.beat += 1;
                let change = Change::step(old, new, percent, &self.run, self.beat, at);
                self.write(change, Then::Bake)
            }
            _ => self.write(Change::finish(old, new, &self.run, at), Then::Finish),
        }
    }

    fn watch(&mut self) -> Action {
        self.state = State::Baking { left: self.settings.bake, doing: Doing::Waiting };
        if self.settings.bake == 0 { self.look_before_moving_on() } else { Action::Wait }
    }

    /// Without a bake there is still a look between two steps.
    fn look_before_moving_on(&mut self) -> Action {
        self.state = State::Baking { left: 0, doing: Doing::Looking };
        self.look()
    }

    /// A look, and perhaps an invocation, showed nothing wrong.
    fn seen_well(&mut self, at: Timestamp, left: u32) -> Action {
        if left == 0 { self.step(at) } else { self.live_on(at, left) }
    }

    /// Writes a sign of life, which also shows whether the alias is still ours, and waits for the next tick.
    fn live_on(&mut self, at: Timestamp, left: u32) -> Action {
        let Some((old, new)) = self.way else { return Action::Read };
        self.beat += 1;
        let change = Change::step(old, new, self.percent, &self.run, self.beat, at);
        self.write(change, Then::Wait { left })
    }

    /// Goes back to the old version if traffic moved or may have moved; otherwise it just ends.
    fn stop(&mut self, at: Timestamp, why: Why) -> Action {
        let moved = self.touched || (self.percent > 0 && !matches!(self.state, State::Listening { .. }));
        if moved { self.back(at, why) } else { self.end(Conclusion::NotStarted { why }) }
    }

    fn back(&mut self, at: Timestamp, why: Why) -> Action {
        let Some((old, new)) = self.way else { return self.end(Conclusion::NotStarted { why }) };
        self.unclear = 0;
        let change = Change::back(old, new, &why.to_string(), &self.run, at);
        self.write(change, Then::Back(why))
    }

    fn write(&mut self, change: Change, then: Then) -> Action {
        self.state = State::Writing { change: change.clone(), then };
        self.update(change)
    }

    fn update(&self, change: Change) -> Action {
        match &self.held {
            Some(held) => Action::Update { change, revision: held.revision.clone() },
            None => Action::Read,
        }
    }

    fn written(&mut self, at: Timestamp, then: Then) -> Action {
        self.touched = true;
        let (old, new) = self.way.unwrap_or((Version(0), Version(0)));
        match then {
            Then::TakenOver => {
                self.since = at;
                self.state = State::FirstLook;
                self.look()
            }
            Then::Bake => {
                self.percent = self.settings.steps.iter().copied().find(|s| *s > self.percent).unwrap_or(ALL);
                self.since = at;
                self.watch()
            }
            Then::Wait { left } => {
                self.state = State::Baking { left, doing: Doing::Waiting };
                Action::Wait
            }
            Then::Finish => {
                self.percent = ALL;
                self.end(Conclusion::Finished { old, new })
            }
            Then::Back(why) => {
                self.percent = 0;
                self.end(Conclusion::WentBack { old, new, why })
            }
        }
    }

    /// The alias after a write whose answer was unclear, or that was refused as stale.
    fn asked(&mut self, at: Timestamp, change: Change, then: Then, alias: Alias) -> Action {
        if change.is(&alias) {
            self.unclear = 0;
            self.held = Some(alias);
            return self.written(at, then);
        }
        if self.held.as_ref().is_some_and(|held| held.revision == alias.revision) {
            // The write did not happen, or not yet. It is repeated with the same revision, so at most one of the two succeeds.
            return self.write(change, then);
        }
        // An earlier write of this run arrived late. The run goes on from its revision.
        let ours = matches!(Note::read(&alias.description),
            Some(Note::Moving { run, .. } | Note::Live { run, .. } | Note::Back { run, .. }) if run == self.run);
        if ours {
            self.held = Some(alias);
            return self.write(change, then);
        }
        self.end(Conclusion::LeftAlone(LeftAlone::Overtaken))
    }

    fn not_written(&mut self, at: Timestamp, change: Change, then: Then, error: String) -> Action {
        self.unclear += 1;
        let tries = if matches!(then, Then::Back(_)) { self.settings.tries_back } else { self.settings.tries };
        if self.unclear > tries {
            return self.cannot_write(at, then, error);
        }
        self.state = State::Asking { change, then, waiting: true };
        Action::Wait
    }

    fn cannot_write(&mut self, at: Timestamp, then: Then, error: String) -> Action {
        match then {
            Then::Back(why) if self.touched || self.percent > 0 => self.end(Conclusion::Stuck { why, error }),
            Then::Back(why) => self.end(Conclusion::NotStarted { why }),
            _ => self.stop(at, Why::Api(error)),
        }
    }

    /// Counts a look that failed. After too many of them the rollout goes back, because it must not move what it cannot watch.
    fn blinded(&mut self, at: Timestamp, error: String) -> Option<Action> {
        self.blind += 1;
        (self.blind > self.settings.blind).then(|| self.stop(at, Why::Blind(error)))
    }

    fn look(&self) -> Action {
        match self.way {
            Some((_, new)) => Action::Look { new, since: self.since },
            None => Action::Read,
        }
    }

    fn ask_health(&self) -> Action {
        match self.way {
            Some((_, new)) => Action::Health(new),
            None => Action::Read,
        }
    }

    fn end(&mut self, conclusion: Conclusion) -> Action {
        self.state = State::Ended(conclusion.clone());
        Action::Done(conclusion)
    }
}
