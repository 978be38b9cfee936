//! The search through all paths, and what it finds.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::Model;
use super::path::{Ended, Path, Script, StepId};
use crate::lanes::Lanes;

/// How far to search.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bound {
    /// How many things may go wrong on one path.
    pub faults: u32,
    /// The search stops here, with the frontier in its report.
    pub until: Option<Instant>,
}

impl Bound {
    /// All paths on which at most this many things go wrong.
    #[must_use]
    pub fn faults(faults: u32) -> Self {
        Self { faults, until: None }
    }

    /// The same, but stops at this time.
    #[must_use]
    pub fn until(mut self, time: Instant) -> Self {
        self.until = Some(time);
        self
    }
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many states were seen, summed over the numbers of faults.
    pub states: u64,
    /// How many paths were played, also those that were cut at a state that was known.
    pub paths: u64,
    /// The first violation, shrunk.
    pub violation: Option<Violation>,
    /// If the time was over before everything was explored: how many faults the paths had that were explored last, and the
    /// choices of the last one. Everything with fewer faults, and everything before that path in the order of the search, has
    /// been explored.
    pub frontier: Option<(u32, Vec<u16>)>,
}

/// A path on which something does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// What does not hold.
    pub message: String,
    /// The choices that lead there. [`replay`] plays them again.
    pub choices: Vec<u16>,
    /// How many things may go wrong on that path.
    pub faults: u32,
}

/// One path, played again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// What does not hold.
    pub violation: Option<String>,
    /// The path ends before its end, because what follows is explored in another order. The rules of the end were not checked.
    pub cut: bool,
    /// The first of the given choices that there is not on the path, counted from 0. Then it is not the path that was meant.
    pub misfit: Option<usize>,
    /// What happened, one column per lane.
    pub history: Lanes,
}

/// The states that were seen: for each, how many faults were left and which steps slept.
#[derive(Default)]
pub(super) struct Known(HashMap<u128, Vec<(u32, Vec<StepId>)>>);

impl Known {
    /// Is there something that was not explored from this state?
    pub(super) fn is_new(&mut self, fingerprint: u128, faults: u32, mut asleep: Vec<StepId>) -> bool {
        asleep.sort_unstable();
        let visits = self.0.entry(fingerprint).or_default();
        let covers = |(more, slept): &(u32, Vec<StepId>)| *more >= faults && slept.iter().all(|id| asleep.contains(id));
        if visits.iter().any(covers) {
            return false;
        }
        visits.push((faults, asleep));
        true
    }
}

/// How many paths are played between two looks at the time.
const PATHS_PER_LOOK: u64 = 256;

/// Explores all paths within the bound, first those on which nothing goes wrong, then those with one fault, and so on. So the
/// first violation has as few faults as possible.
pub fn explore<M: Model>(model: &M, bound: &Bound) -> Report {
    let mut report = Report::default();
    for faults in 0..=bound.faults {
        let mut known = Known::default();
        let player = Player::new(model);
        let mut given: Vec<u16> = Vec::new();
        loop {
            let mut script = Script { given: &given, faults, taken: Vec::new(), known: Some(&mut known) };
            let ended = player.play(&mut script, false).0;
            report.paths += 1;
            let mut taken = script.taken;
            if let Ended::Whole(Err(message)) = ended {
                let choices = taken.into_iter().map(|(index, _)| index).collect();
                let found = Violation { message, choices, faults };
                report.states += known.0.len() as u64;
                report.violation = Some(shrink(model, found));
                return report;
            }
            if report.paths.is_multiple_of(PATHS_PER_LOOK) && bound.until.is_some_and(|until| Instant::now() >= until) {
                report.states += known.0.len() as u64;
                report.frontier = Some((faults, taken.into_iter().map(|(index, _)| index).collect()));
                return report;
            }
            // The last place at which another choice is left.
            while taken.pop_if(|(index, of)| *index + 1 >= *of).is_some() {}
            let Some((index, _)) = taken.last_mut() else { break };
            *index += 1;
            given = taken.into_iter().map(|(index, _)| index).collect();
        }
        report.states += known.0.len() as u64;
    }
    report
}

/// Plays one path again, with its history.
pub fn replay<M: Model>(model: &M, faults: u32, choices: &[u16]) -> Replayed {
    let mut script = Script { given: choices, faults, taken: Vec::new(), known: None };
    let (ended, path) = Player::new(model).play(&mut script, true);
    let mut history = Lanes::new(model.lanes());
    for (lane, text) in path.history() {
        match lane {
            Some(lane) => history.step(lane, text),
            None => history.note(text),
        }
    }
    let cut = matches!(ended, Ended::Cut);
    let violation = match ended {
        Ended::Whole(Err(message)) => Some(message),
        _ => None,
    };
    let unknown = choices.iter().zip(&script.taken).position(|(given, (_, of))| given >= of);
    let misfit = unknown.or((choices.len() > script.taken.len()).then_some(script.taken.len()));
    Replayed { violation, cut, misfit, history }
}

/// How many attempts are made to make a violation shorter.
const SHRINKING: usize = 2_000;

/// A path that violates the same rule, with fewer or more ordinary choices.
pub fn shrink<M: Model>(model: &M, found: Violation) -> Violation {
    let player = Player::new(model);
    let mut best = found;
    let rule = |message: &str| message.split(':').next().unwrap_or_default().to_owned();
    let wanted = rule(&best.message);
    let mut attempts = 0;
    let mut again = true;
    while again && attempts < SHRINKING {
        again = false;
        while best.choices.pop_if(|index| *index == 0).is_some() {} // what is not given is 0
        for at in (0..best.choices.len()).rev() {
            let mut shorter: Vec<Vec<u16>> = Vec::new();
            let mut without = best.choices.clone();
            without.remove(at);
            shorter.push(without);
            if best.choices[at] > 0 {
                let mut plain = best.choices.clone();
                plain[at] = 0;
                shorter.push(plain);
            }
            for choices in shorter {
                attempts += 1;
                let mut script = Script { given: &choices, faults: best.faults, taken: Vec::new(), known: None };
                if let Ended::Whole(Err(message)) = player.play(&mut script, false).0
                    && rule(&message) == wanted
                {
                    best = Violation { message, choices, faults: best.faults };
                    again = true;
                    break;
                }
            }
            if again {
                break;
            }
        }
    }
    best
}

struct Player<'a, M> {
    model: &'a M,
    lanes: usize,
}

impl<'a, M: Model> Player<'a, M> {
    fn new(model: &'a M) -> Self {
        Self { model, lanes: model.lanes().len() }
    }

    fn play(&self, script: &mut Script<'_>, traced: bool) -> (Ended, Path) {
        let path = Path::new(self.lanes, traced);
        // What is played is code under test: a panic is a finding, and the path to it must not be lost.
        let played = catch_unwind(AssertUnwindSafe(|| {
            let world = self.model.begin(&path);
            path.play(self.model, &world, script)
        }));
        let ended = played.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Ended::Whole(Err(format!("panicked: {text}")))
        });
        path.bury();
        (ended, path)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<String> = self.choices.iter().map(u16::to_string).collect();
        write!(f, "{} ({} faults, choices {})", self.message, self.faults, choices.join("."))
    }
}
