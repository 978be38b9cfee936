//! Carries out what the machine decides, and reports what happens.
//!
//! Promise: an interruption ends every wait and every look at once, but never a write, and never the way back.

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::alias::{Change, Note, Version};
use super::machine::{Action, Conclusion, Machine, Observation, Why};

/// Carries out the machine's actions: with AWS, or in memory in a test.
pub trait Hands {
    fn now(&self) -> Timestamp;
    fn read(&self) -> impl Future<Output = Observation>;
    fn update(&self, change: &Change, revision: &str) -> impl Future<Output = Observation>;
    fn health(&self, version: Version) -> impl Future<Output = Observation>;
    fn look(&self, new: Version, since: Timestamp) -> impl Future<Output = (Observation, Sight)>;
    /// Waits for one tick.
    fn wait(&self) -> impl Future<Output = ()>;
}

/// What a look at the alarms and metrics showed, for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sight {
    pub alarms: Vec<AlarmState>,
    pub invocations: u64,
    pub errors: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlarmState {
    pub name: String,
    /// `OK`, `ALARM`, `INSUFFICIENT_DATA`; `None` if there is no such alarm.
    pub state: Option<String>,
    /// CloudWatch's reason for the state.
    #[serde(skip)]
    pub reason: String,
}

impl AlarmState {
    pub fn rings(&self) -> bool {
        self.state.as_deref() == Some("ALARM")
    }

    pub fn is_missing(&self) -> bool {
        self.state.is_none()
    }
}

/// Something that happened to a function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    pub function: String,
    #[serde(flatten)]
    pub what: What,
}

fn as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{at:.0}"))
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// Another run has moved traffic. This one waits to see whether that run is alive.
    Listening,
    Healthy {
        version: Version,
    },
    /// This percentage of the traffic is on the new version now.
    Moved {
        old: Version,
        new: Version,
        percent: u8,
        /// Ticks of the bake that follows.
        #[serde(skip)]
        left: u32,
    },
    Looked {
        percent: u8,
        /// Ticks that are left of the bake.
        #[serde(skip)]
        left: Option<u32>,
        #[serde(flatten)]
        sight: Sight,
    },
    GoingBack {
        old: Version,
        new: Version,
        why: String,
    },
    Unclear {
        what: &'static str,
        error: String,
    },
    Ended {
        #[serde(flatten)]
        end: End,
    },
}

/// How a rollout ended, as JSON. The tag is called `outcome` because scripts read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum End {
    Finished { old: Version, new: Version },
    AlreadyThere { live: Version },
    WentBack { old: Version, new: Version, why: String },
    NotStarted { why: String },
    Refused { why: String },
    Stuck { why: String, error: String },
}

impl From<&Conclusion> for End {
    fn from(conclusion: &Conclusion) -> Self {
        match conclusion {
            Conclusion::Finished { old, new } => End::Finished { old: *old, new: *new },
            Conclusion::AlreadyThere { live } => End::AlreadyThere { live: *live },
            Conclusion::WentBack { old, new, why } => End::WentBack { old: *old, new: *new, why: why.to_string() },
            Conclusion::NotStarted { why } => End::NotStarted { why: why.to_string() },
            Conclusion::LeftAlone(reason) => End::Refused { why: super::view::left_alone(reason) },
            Conclusion::Stuck { why, error } => End::Stuck { why: why.to_string(), error: error.clone() },
        }
    }
}

/// Runs one machine to its end.
pub async fn drive<H: Hands>(
    function: &str,
    mut machine: Machine,
    hands: &H,
    mut stop: watch::Receiver<Option<String>>,
    tell: &mpsc::UnboundedSender<Event>,
) -> Conclusion {
    // The rollout goes on if nobody reads the reports.
    let say = |what: What| drop(tell.send(Event { at: hands.now(), function: function.to_owned(), what }));
    let mut seen = Observation::Nothing;
    let mut first_wait = true;
    let mut going_back = false;
    loop {
        let by = stop.borrow_and_update().clone();
        let action = machine.next(hands.now(), by.as_deref(), seen);
        // An interruption ends a wait only once, and never on the way back.
        let cut = by.is_none() && !machine.going_back();
        seen = match action {
            Action::Done(conclusion) => {
                say(What::Ended { end: End::from(&conclusion) });
                return conclusion;
            }
            Action::Read => hands.read().await,
            Action::Update { change, revision } => {
                if let Note::Back { live, from, why, .. } = &change.note
                    && !going_back
                {
                    going_back = true;
                    say(What::GoingBack { old: *live, new: *from, why: why.clone() });
                }
                let before = machine.progress().map(|(_, _, percent)| percent);
                let seen = hands.update(&change, &revision).await;
                match (&seen, &change.note) {
                    (Observation::Updated(_), Note::Moving { old, new, percent, .. }) if before != Some(*percent) => {
                        say(What::Moved { old: *old, new: *new, percent: *percent, left: machine.bake() });
                    }
                    (Observation::Unclear(error), _) => {
                        say(What::Unclear { what: "the update of the alias", error: error.clone() })
                    }
                    _ => {}
                }
                seen
            }
            Action::Health(version) => {
                let seen = tokio::select! {
                    seen = hands.health(version) => seen,
                    _ = stop.changed(), if cut => Observation::Nothing,
                };
                match &seen {
                    Observation::Healthy => say(What::Healthy { version }),
                    Observation::Unclear(error) => {
                        say(What::Unclear { what: "the health invocation", error: error.clone() })
                    }
                    _ => {}
                }
                seen
            }
            Action::Look { new, since } => {
                let (seen, sight) = tokio::select! {
                    looked = hands.look(new, since) => looked,
                    _ = stop.changed(), if cut => (Observation::Nothing, Sight::default()),
                };
                let percent = machine.progress().map_or(0, |(_, _, percent)| percent);
                match &seen {
                    Observation::Looked(_) => say(What::Looked { percent, left: machine.left(), sight }),
                    Observation::Unclear(error) => {
                        say(What::Unclear { what: "reading the alarms", error: error.clone() })
                    }
                    _ => {}
                }
                seen
            }
            Action::Wait => {
                if first_wait && machine.listening() {
                    say(What::Listening);
                }
                first_wait = false;
                tokio::select! {
                    () = hands.wait() => Observation::Waited,
                    _ = stop.changed(), if cut => Observation::Nothing,
                }
            }
        };
    }
}

/// Whether the other functions of the same run should go back too.
pub fn is_bad(conclusion: &Conclusion) -> bool {
    match conclusion {
        Conclusion::Finished { .. } | Conclusion::AlreadyThere { .. } => false,
        // Another function or the operator interrupted it, and so all the others.
        Conclusion::WentBack { why: Why::Interrupted(_) | Why::Asked, .. }
        | Conclusion::NotStarted { why: Why::Interrupted(_) } => false,
        _ => true,
    }
}
