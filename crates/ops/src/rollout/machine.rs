//! A rollout of one function, as a state machine without input or output.
//!
//! It is told what was seen ([`Seen`]) and says what to do next ([`Action`]); [`super::drive`] carries that out. Promises,
//! each proven by exhaustive exploration (`machine/explored.rs`):
//! - Traffic moves on only after a look that showed no alarm, no failed health invocation and no errors of the new version,
//!   and only after the whole bake.
//! - Whatever is wrong, or an interruption, leads back to the old version, at once and before anything else is done.
//! - A write whose answer was lost is recognised, or made void before the machine ends: nothing that is still under way can
//!   move traffic afterwards.
//! - Two runs never both move one alias: the revision id fences. The second one is refused while the first is heard of, and
//!   takes over when it was silent for [`Settings::lease`] ticks. No two clocks are compared.
//! - Killed at any point, the next run goes on from what the alias says, or goes back.
//!
//! Time is counted in ticks that were really waited for, so a clock that jumps shortens no bake.

use jiff::Timestamp;

use super::alias::{ALL, Alias, Change, Note, Run, Standing, Version};

#[cfg(test)]
mod explored;

/// Fewer errors than this are nobody's fault.
const ERRORS: u64 = 3;
/// One in so many invocations that fail is too many.
const ERROR_SHARE: u64 = 20;

/// What a rollout does and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Percent of the traffic, rising; the last is 100.
    pub steps: Vec<u8>,
    /// How many ticks a step is watched.
    pub bake: u32,
    /// The new version is asked for its health every so many ticks if it has hardly anything to do.
    pub health_every: u32,
    /// Fewer invocations than this in a step are hardly anything.
    pub rare: u64,
    /// A run that was not heard of for so many ticks is dead.
    pub lease: u32,
    /// How often a call that gave no clear answer is repeated.
    pub tries: u32,
    /// The same on the way back, which matters more.
    pub tries_back: u32,
    /// How many looks in a row may show nothing before the rollout goes back.
    pub blind: u32,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// All traffic to this version, or to the one that a rollout is already on its way to.
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
    /// What has to be watched cannot be seen.
    Blind(String),
    /// Lambda does not do what it is asked.
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
            Why::Blind(error) => write!(f, "what has to be watched cannot be seen: {error}"),
            Why::Api(error) => write!(f, "Lambda does not answer: {error}"),
            Why::Asked => f.write_str("asked to"),
        }
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All traffic is on the new version.
    Finished { old: Version, new: Version },
    /// There was nothing to do.
    AlreadyThere { live: Version },
    /// All traffic is on the old version again.
    WentBack { old: Version, new: Version, why: Why },
    /// No traffic was moved.
    NotStarted { why: Why },
    /// It is not ours to move.
    Refused(Refusal),
    /// Traffic may still be on the new version, and Lambda does not let us change it.
    Stuck { why: Why, error: String },
}

/// Why a function is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another run is alive.
    UnderWay { run: Run },
    /// Another hand changed the alias while this run held it.
    Overtaken,
    /// Traffic is split, and not by a rollout.
    Foreign { main: Version, other: Version, percent: u8 },
    /// No rollout is known whose version before could be returned to.
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
    Done(Outcome),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    Nothing,
    Alias(Alias),
    /// The answer to an update that was made.
    Updated(Alias),
    /// Somebody else made one before.
    Stale,
    Healthy,
    Unhealthy(String),
    Looked(Looked),
    Waited,
    /// No clear answer: it may have happened, or not, or be about to.
    Unclear(String),
    /// Lambda understood and will not.
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
    /// Set when an update of this run was made, or may have been: then it is not enough to just stop.
    touched: bool,
    beat: u32,
    /// Looks in a row that showed nothing.
    blind: u32,
    /// Unclear answers in a row.
    unclear: u32,
    /// When the step began.
    since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Starting,
    /// Another run's rollout: is it alive?
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
    /// After an unclear answer: what became of it?
    Asking {
        change: Change,
        then: Then,
        waiting: bool,
    },
    Ended(Outcome),
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
    /// It was silent; now it is ours.
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

    /// Where the traffic goes from and to, and how much of it is there.
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

    /// Whether it is on its way back: nothing interrupts that.
    pub fn going_back(&self) -> bool {
        matches!(&self.state, State::Writing { then: Then::Back(_), .. } | State::Asking { then: Then::Back(_), .. })
    }

    /// What to do next, after what was seen. `interruption` says by what, from the moment on at which it happened.
    pub fn next(&mut self, at: Timestamp, interruption: Option<&str>, seen: Seen) -> Action {
        if let Some(by) = interruption
            && self.may_be_interrupted()
        {
            return self.stop(at, Why::Interrupted(by.to_owned()));
        }
        match (self.state.clone(), seen) {
            (State::Ended(outcome), _) => Action::Done(outcome),
            (State::Starting, Seen::Alias(alias)) => self.start(at, alias),
            (State::Starting, Seen::Never(error)) => self.end(Outcome::Refused(Refusal::Unreadable(error))),
            (State::Starting, Seen::Unclear(error)) => {
                self.unclear += 1;
                if self.unclear > self.settings.tries {
                    return self.end(Outcome::Refused(Refusal::Unreadable(error)));
                }
                Action::Wait
            }
            (State::Starting, _) => Action::Read,

            (State::Listening { left, waiting: true }, _) => {
                self.state = State::Listening { left, waiting: false };
                Action::Read
            }
            (State::Listening { left, .. }, Seen::Alias(alias)) => self.listen(at, left, alias),
            // A read that failed says nothing about the other run: the time does not count.
            (State::Listening { left, .. }, Seen::Unclear(error) | Seen::Never(error)) => {
                self.unclear += 1;
                if self.unclear > self.settings.tries {
                    return self.end(Outcome::Refused(Refusal::Unreadable(error)));
                }
                self.state = State::Listening { left, waiting: true };
                Action::Wait
            }
            (State::Listening { .. }, _) => Action::Read,

            (State::FirstLook, Seen::Looked(looked)) => {
                self.blind = 0;
                match looked.wrong() {
                    Some(why) => self.stop(at, why),
                    None => {
                        self.state = State::FirstHealth;
                        self.ask_health()
                    }
                }
            }
            (State::FirstHealth, Seen::Healthy) => {
                self.blind = 0;
                if self.percent == 0 { self.step(at) } else { self.watch() }
            }
            (State::FirstHealth, Seen::Unhealthy(answer)) => self.stop(at, Why::Unhealthy(answer)),
            (State::FirstLook | State::FirstHealth, Seen::Unclear(error) | Seen::Never(error)) => {
                // After the wait everything is looked at afresh.
                self.state = State::FirstLook;
                self.blinded(at, error).unwrap_or(Action::Wait)
            }
            (State::FirstLook, _) => self.look(),
            (State::FirstHealth, _) => self.ask_health(),

            (State::Baking { left, doing: Doing::Waiting }, _) => {
                self.state = State::Baking { left: left.saturating_sub(1), doing: Doing::Looking };
                self.look()
            }
            (State::Baking { left, doing: Doing::Looking }, Seen::Looked(looked)) => {
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
            (State::Baking { left, doing: Doing::Health }, Seen::Healthy) => self.seen_well(at, left),
            (State::Baking { doing: Doing::Health, .. }, Seen::Unhealthy(answer)) => {
                self.stop(at, Why::Unhealthy(answer))
            }
            // A bake does not end without a look: one that showed nothing is repeated, and the others hear of us meanwhile.
            (State::Baking { left, .. }, Seen::Unclear(error) | Seen::Never(error)) => {
                self.blinded(at, error).unwrap_or_else(|| self.live_on(at, left.max(1)))
            }
            (State::Baking { doing: Doing::Health, .. }, _) => self.ask_health(),
            (State::Baking { .. }, _) => self.look(),

            (State::Writing { then, .. }, Seen::Updated(alias)) => {
                self.unclear = 0;
                self.held = Some(alias);
                self.written(at, then)
            }
            (State::Writing { change, then }, Seen::Stale) => {
                self.state = State::Asking { change, then, waiting: false };
                Action::Read
            }
            (State::Writing { change, then }, Seen::Unclear(error)) => {
                self.touched = true;
                self.not_written(at, change, then, error)
            }
            // Not ours to change, no such version: repeating does not help, and nothing is under way.
            (State::Writing { then, .. }, Seen::Never(error)) => self.cannot_write(at, then, error),
            (State::Writing { change, .. }, _) => self.update(change),

            (State::Asking { change, then, waiting: true }, _) => {
                self.state = State::Asking { change, then, waiting: false };
                Action::Read
            }
            (State::Asking { change, then, .. }, Seen::Alias(alias)) => self.asked(at, change, then, alias),
            (State::Asking { change, then, .. }, Seen::Unclear(error) | Seen::Never(error)) => {
                self.not_written(at, change, then, error)
            }
            (State::Asking { .. }, _) => Action::Read,
        }
    }

    /// The way back is never interrupted, and the answer to a write is first taken in.
    fn may_be_interrupted(&self) -> bool {
        !matches!(self.state, State::Ended(_) | State::Writing { .. }) && !self.going_back()
    }

    fn start(&mut self, at: Timestamp, alias: Alias) -> Action {
        self.unclear = 0;
        let standing = Standing::of(&alias);
        self.held = Some(alias);
        match (self.goal.clone(), standing) {
            (Goal::Forward(new), Standing::Settled { live, .. }) if live == new => {
                self.end(Outcome::AlreadyThere { live })
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
                self.end(Outcome::Refused(Refusal::Foreign { main, other, percent }))
            }
            // Going back is for emergencies: it does not wait for another run, which notices at its next write.
            (Goal::Abort | Goal::Rollback(None), Standing::Moving { old, new, percent, .. })
            | (Goal::Abort | Goal::Rollback(None), Standing::Foreign { main: old, other: new, percent }) => {
                self.way = Some((old, new));
                self.percent = percent;
                self.back(at, Why::Asked)
            }
            (Goal::Abort, Standing::Settled { live, .. }) => self.end(Outcome::Refused(Refusal::NotMoving { live })),
            (Goal::Rollback(Some(to)), standing) => {
                let live = match standing {
                    Standing::Settled { live, .. } if live == to => return self.end(Outcome::AlreadyThere { live }),
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
                Standing::Settled { last: Some(Note::Back { .. }), .. } => self.end(Outcome::AlreadyThere { live }),
                _ => match standing.before() {
                    None => self.end(Outcome::Refused(Refusal::NothingBefore { live })),
                    Some(before) => {
                        self.way = Some((before, live));
                        self.percent = ALL;
                        self.back(at, Why::Asked)
                    }
                },
            },
        }
    }

    /// The other run writes at every tick. If the alias stays as it is for longer than that, there is no other run.
    fn listen(&mut self, at: Timestamp, left: u32, alias: Alias) -> Action {
        let same = self.held.as_ref().is_some_and(|held| held.revision == alias.revision);
        if !same {
            let refusal = match Standing::of(&alias) {
                Standing::Moving { run, .. } => Refusal::UnderWay { run },
                _ => Refusal::Overtaken,
            };
            return self.end(Outcome::Refused(refusal));
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
            // Nothing is to be watched after the last step: then it is also the end.
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

    /// A sign of life, which also says whether the alias is still ours; then the next tick.
    fn live_on(&mut self, at: Timestamp, left: u32) -> Action {
        let Some((old, new)) = self.way else { return Action::Read };
        self.beat += 1;
        let change = Change::step(old, new, self.percent, &self.run, self.beat, at);
        self.write(change, Then::Wait { left })
    }

    /// Stops: back to the old version if traffic was moved or may have been, and otherwise nothing was.
    fn stop(&mut self, at: Timestamp, why: Why) -> Action {
        let moved = self.touched || (self.percent > 0 && !matches!(self.state, State::Listening { .. }));
        if moved { self.back(at, why) } else { self.end(Outcome::NotStarted { why }) }
    }

    fn back(&mut self, at: Timestamp, why: Why) -> Action {
        let Some((old, new)) = self.way else { return self.end(Outcome::NotStarted { why }) };
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
                self.end(Outcome::Finished { old, new })
            }
            Then::Back(why) => {
                self.percent = 0;
                self.end(Outcome::WentBack { old, new, why })
            }
        }
    }

    /// What became of a write whose answer was unclear, or that was refused as stale.
    fn asked(&mut self, at: Timestamp, change: Change, then: Then, alias: Alias) -> Action {
        if change.is(&alias) {
            self.unclear = 0;
            self.held = Some(alias);
            return self.written(at, then);
        }
        if self.held.as_ref().is_some_and(|held| held.revision == alias.revision) {
            // It did not happen, or not yet. The same again, under the same revision: at most one of the two can.
            return self.write(change, then);
        }
        // An earlier write of ours that came late is still ours: its revision is the one to go on from.
        let ours = matches!(Note::read(&alias.description),
            Some(Note::Moving { run, .. } | Note::Live { run, .. } | Note::Back { run, .. }) if run == self.run);
        if ours {
            self.held = Some(alias);
            return self.write(change, then);
        }
        self.end(Outcome::Refused(Refusal::Overtaken))
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
            Then::Back(why) if self.touched || self.percent > 0 => self.end(Outcome::Stuck { why, error }),
            Then::Back(why) => self.end(Outcome::NotStarted { why }),
            _ => self.stop(at, Why::Api(error)),
        }
    }

    /// A look that showed nothing. Too many of them, and the rollout goes back: it must not move what it cannot watch.
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

    fn end(&mut self, outcome: Outcome) -> Action {
        self.state = State::Ended(outcome.clone());
        Action::Done(outcome)
    }
}
