//! The alias `live`, which holds the whole state of a rollout.
//!
//! Promise: where a rollout stands can be read from the alias alone. Its weights say how much traffic the new version has.
//! Its description names both versions, the run that moves them, and how often that run has written. Weights that the
//! description does not explain were set by somebody else: [`Standing::Foreign`].

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;

/// The alias that everything calls.
pub const LIVE: &str = "live";
/// The alias that names what the last successful deployment published: what a rollout moves `live` to. Only `make deploy`
/// writes it (infra/cli/publish.ts).
pub const DEPLOYED: &str = "deployed";
/// All traffic, in percent.
pub const ALL: u8 = 100;
/// How long a description may be in Lambda.
pub const DESCRIPTION_LIMIT: usize = 256;
/// How much of a reason is kept in the description.
const REASON_LIMIT: usize = 100;

/// A published version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Version)
    }
}

/// The name of one run of the tool. It tells the run's own writes from those of others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Run(pub String);

/// The alias as Lambda shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    pub version: Version,
    /// The other version and its share, in percent.
    pub other: Option<(Version, u8)>,
    pub description: String,
    /// Changes with every update. An update must name the latest one.
    pub revision: String,
}

/// What the alias is to become.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    pub version: Version,
    pub other: Option<(Version, u8)>,
    pub note: Note,
}

impl Change {
    /// `percent` of the traffic on the new version.
    pub fn step(old: Version, new: Version, percent: u8, run: &Run, beat: u32, at: Timestamp) -> Self {
        let note = Note::Moving { old, new, percent, run: run.clone(), beat, at };
        if percent >= ALL {
            Change { version: new, other: None, note }
        } else {
            Change { version: old, other: Some((new, percent)), note }
        }
    }

    /// All traffic on the new version, and the rollout is over.
    pub fn finish(old: Version, new: Version, run: &Run, at: Timestamp) -> Self {
        Change { version: new, other: None, note: Note::Live { live: new, before: old, run: run.clone(), at } }
    }

    /// All traffic back on the old version.
    pub fn back(old: Version, new: Version, why: &str, run: &Run, at: Timestamp) -> Self {
        let why = why.chars().filter(|c| !c.is_control()).take(REASON_LIMIT).collect();
        Change { version: old, other: None, note: Note::Back { live: old, from: new, run: run.clone(), at, why } }
    }

    /// Whether the alias is what this change makes it. This also recognises a write whose answer was lost.
    pub fn is(&self, alias: &Alias) -> bool {
        alias.version == self.version
            && alias.other == self.other
            && Note::read(&alias.description).as_ref() == Some(&self.note)
    }
}

/// What the description says. Aliases that are deployed have these texts, so they must stay readable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    Moving { old: Version, new: Version, percent: u8, run: Run, beat: u32, at: Timestamp },
    Live { live: Version, before: Version, run: Run, at: Timestamp },
    Back { live: Version, from: Version, run: Run, at: Timestamp, why: String },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Moving { old, new, percent, run, beat, at } => {
                write!(f, "rollout {old} -> {new} at {percent} %; run {} beat {beat}, {at:.0}", run.0)
            }
            Note::Live { live, before, run, at } => {
                write!(f, "live {live}, before it {before}; run {}, {at:.0}", run.0)
            }
            Note::Back { live, from, run, at, why } => {
                write!(f, "live {live}, back from {from}; run {}, {at:.0}; {why}", run.0)
            }
        }
    }
}

impl Note {
    /// Reads a description; `None` if this tool did not write it.
    pub fn read(text: &str) -> Option<Self> {
        let (what, rest) = text.split_once("; run ")?;
        if let Some(what) = what.strip_prefix("rollout ") {
            let (versions, percent) = what.strip_suffix(" %")?.split_once(" at ")?;
            let (old, new) = versions.split_once(" -> ")?;
            let (run, rest) = rest.split_once(" beat ")?;
            let (beat, at) = rest.split_once(", ")?;
            return Some(Note::Moving {
                old: old.parse().ok()?,
                new: new.parse().ok()?,
                percent: percent.parse().ok()?,
                run: Run(run.to_owned()),
                beat: beat.parse().ok()?,
                at: at.parse().ok()?,
            });
        }
        let what = what.strip_prefix("live ")?;
        let (run, rest) = rest.split_once(", ")?;
        let run = Run(run.to_owned());
        if let Some((live, before)) = what.split_once(", before it ") {
            return Some(Note::Live {
                live: live.parse().ok()?,
                before: before.parse().ok()?,
                run,
                at: rest.parse().ok()?,
            });
        }
        let (live, from) = what.split_once(", back from ")?;
        let (at, why) = rest.split_once("; ")?;
        Some(Note::Back {
            live: live.parse().ok()?,
            from: from.parse().ok()?,
            run,
            at: at.parse().ok()?,
            why: why.to_owned(),
        })
    }
}

/// Where a function stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// All traffic goes to one version and nobody moves it.
    Settled { live: Version, last: Option<Note> },
    /// A rollout is under way, or its process was killed.
    Moving { old: Version, new: Version, percent: u8, run: Run },
    /// Somebody split the traffic without a rollout.
    Foreign { main: Version, other: Version, percent: u8 },
}

impl Standing {
    pub fn of(alias: &Alias) -> Self {
        let note = Note::read(&alias.description);
        match (alias.other, note) {
            (Some((other, share)), Some(Note::Moving { old, new, percent, run, .. }))
                if (old, new, percent) == (alias.version, other, share) =>
            {
                Standing::Moving { old, new, percent, run }
            }
            (Some((other, percent)), _) => Standing::Foreign { main: alias.version, other, percent },
            (None, Some(Note::Moving { old, new, percent: ALL, run, .. })) if new == alias.version => {
                Standing::Moving { old, new, percent: ALL, run }
            }
            (None, Some(note @ (Note::Live { live, .. } | Note::Back { live, .. }))) if live == alias.version => {
                Standing::Settled { live, last: Some(note) }
            }
            // If the description does not fit the weights, it is an old one. The weights decide.
            (None, _) => Standing::Settled { live: alias.version, last: None },
        }
    }

    /// The version before the last rollout, if that rollout finished and nothing happened since.
    pub fn before(&self) -> Option<Version> {
        match self {
            Standing::Settled { last: Some(Note::Live { before, .. }), .. } => Some(*before),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-11-16T05:32:10Z".parse().unwrap()
    }

    fn alias(change: &Change) -> Alias {
        Alias {
            version: change.version,
            other: change.other,
            description: change.note.to_string(),
            revision: "r".to_owned(),
        }
    }

    #[test]
    fn a_description_can_be_read_by_people_and_read_back() {
        let run = Run("3f2a9c".to_owned());
        let (old, new) = (Version(12), Version(13));
        let cases = [
            (
                Change::step(old, new, 10, &run, 4, at()),
                "rollout 12 -> 13 at 10 %; run 3f2a9c beat 4, 2026-11-16T05:32:10Z",
            ),
            (
                Change::step(old, new, 100, &run, 0, at()),
                "rollout 12 -> 13 at 100 %; run 3f2a9c beat 0, 2026-11-16T05:32:10Z",
            ),
            (Change::finish(old, new, &run, at()), "live 13, before it 12; run 3f2a9c, 2026-11-16T05:32:10Z"),
            (
                Change::back(old, new, "the alarm slack-events-errors rings", &run, at()),
                "live 12, back from 13; run 3f2a9c, 2026-11-16T05:32:10Z; the alarm slack-events-errors rings",
            ),
        ];
        for (change, text) in cases {
            assert_eq!(change.note.to_string(), text);
            assert!(change.is(&alias(&change)), "{text}");
        }
    }

    #[test]
    fn the_longest_description_fits() {
        let run = Run("0123456789abcdef".to_owned());
        let change = Change::back(Version(u64::MAX), Version(u64::MAX), &"x;\n".repeat(500), &run, at());
        assert!(change.note.to_string().len() <= DESCRIPTION_LIMIT, "{}", change.note.to_string().len());
        assert!(change.is(&alias(&change)), "and is read back as it was written");
    }

    #[test]
    fn what_somebody_else_changed_is_not_guessed_at() {
        let run = Run("a".to_owned());
        let moving = alias(&Change::step(Version(1), Version(2), 10, &run, 0, at()));
        let settled = |alias: &Alias| matches!(Standing::of(alias), Standing::Settled { live: Version(1), last: None });
        let foreign = |alias: &Alias| matches!(Standing::of(alias), Standing::Foreign { .. });
        assert!(matches!(Standing::of(&moving), Standing::Moving { percent: 10, .. }));
        assert!(foreign(&Alias { description: String::new(), ..moving.clone() }));
        assert!(foreign(&Alias { other: Some((Version(2), 20)), ..moving.clone() }), "the weights were changed");
        assert!(settled(&Alias { other: None, ..moving.clone() }), "the weights were taken away");
        let finished = alias(&Change::finish(Version(1), Version(2), &run, at()));
        assert_eq!(Standing::of(&finished).before(), Some(Version(1)));
        let moved_on = Alias { version: Version(3), ..finished };
        assert_eq!(Standing::of(&moved_on), Standing::Settled { live: Version(3), last: None });
    }
}
