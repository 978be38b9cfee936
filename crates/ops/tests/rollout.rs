//! What a rollout prints for a pipeline, for a terminal and as JSON: the whole way from the machine's decisions to the
//! text. The alias is in memory here, and time passes at once.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use clap::Parser as _;
use function::Aws;
use insta::assert_snapshot;
use jiff::Timestamp;
use ops::command::Cli;
use ops::context::{Context, Ended};
use ops::rollout::alias::{Alias, Change, Run, Version};
use ops::rollout::drive::{AlarmState, End, Event, Hands, Sight, What, drive};
use ops::rollout::machine::{Conclusion, Goal, Looked, Machine, Observation, Settings, Why};
use ops::rollout::plan::{Item, Pace, Watch};
use ops::rollout::together::drive_all;
use ops::rollout::view::{Picture, plan};
use tokio::sync::{mpsc, watch};

const TICK: Duration = Duration::from_secs(15);
const NEW: Version = Version(13);

/// An alias in memory, whose alarm rings from the given look on.
struct Fake {
    alias: RefCell<Alias>,
    revision: Cell<u32>,
    now: Cell<Timestamp>,
    looks: Cell<u32>,
    rings_at: u32,
    healthy: bool,
    /// Waits for ever, and presses this first.
    interrupt: Option<watch::Sender<Option<String>>>,
}

impl Fake {
    fn new() -> Self {
        let alias = Alias { version: Version(12), other: None, description: String::new(), revision: "0".into() };
        Fake {
            alias: RefCell::new(alias),
            revision: Cell::new(0),
            now: Cell::new("2026-11-16T05:32:10Z".parse().unwrap()),
            looks: Cell::new(0),
            rings_at: u32::MAX,
            healthy: true,
            interrupt: None,
        }
    }
}

impl Hands for Fake {
    fn now(&self) -> Timestamp {
        self.now.get()
    }

    async fn read(&self) -> Observation {
        Observation::Alias(self.alias.borrow().clone())
    }

    async fn update(&self, change: &Change, revision: &str) -> Observation {
        let mut alias = self.alias.borrow_mut();
        if alias.revision != revision {
            return Observation::Stale;
        }
        self.revision.set(self.revision.get() + 1);
        *alias = Alias {
            version: change.version,
            other: change.other,
            description: change.note.to_string(),
            revision: self.revision.get().to_string(),
        };
        Observation::Updated(alias.clone())
    }

    async fn health(&self, _: Version) -> Observation {
        if self.healthy {
            Observation::Healthy
        } else {
            Observation::Unhealthy("{\"errorType\":\"Runtime.ExitError\"}".into())
        }
    }

    async fn look(&self, _: Version, _: Timestamp) -> (Observation, Sight) {
        self.looks.set(self.looks.get() + 1);
        let rings = self.looks.get() >= self.rings_at;
        let alarm = |name: &str, state: &str, reason: &str| AlarmState {
            name: name.into(),
            state: Some(state.into()),
            reason: reason.into(),
        };
        let errors = if rings {
            alarm("slack-events-errors", "ALARM", "4.0 was at or above 3.0")
        } else {
            alarm("slack-events-errors", "OK", "")
        };
        let alarms = vec![errors, alarm("slack-fallback-active", "INSUFFICIENT_DATA", "")];
        let ringing = if rings { vec!["slack-events-errors".into()] } else { Vec::new() };
        let invocations = u64::from(self.looks.get()) * 10;
        let looked = Looked { ringing, invocations, ..Looked::default() };
        (Observation::Looked(looked), Sight { alarms, invocations, errors: 0 })
    }

    async fn wait(&self) {
        if let Some(interrupt) = &self.interrupt {
            interrupt.send_replace(Some("Ctrl-C".into()));
            std::future::pending::<()>().await;
        }
        self.now.set(self.now.get() + TICK);
        tokio::task::yield_now().await;
    }
}

fn settings() -> Settings {
    Settings {
        steps: vec![10, 50, 100],
        bake: 8,
        health_every: 4,
        rare: 20,
        lease: 4,
        tries: 3,
        tries_back: 20,
        blind: 3,
    }
}

/// Runs the goals at once, and returns what was printed.
async fn run(hands: Vec<(&str, Fake)>, json: bool) -> (Ended, String) {
    let shared = Cli::parse_from(["ichidoctl", if json { "--json" } else { "--yes" }, "rollout"]).shared;
    let mut out = Vec::new();
    let ended = {
        let mut context = Context::with(&shared, Aws::at("http://127.0.0.1:9"), &mut out);
        let (stop, stopped) = watch::channel(None);
        let work =
            hands.into_iter().map(|(name, fake)| (name.to_owned(), (Goal::Forward(NEW), settings()), fake)).collect();
        drive_all(&mut context, work, Run("3f2a9c".into()), TICK, &stop, stopped).await.unwrap()
    };
    (ended, String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn a_pipeline_reads_each_step_and_one_line_per_minute() {
    let (ended, text) = run(vec![("slack-events", Fake::new())], false).await;
    assert_eq!(ended, Ended::Well);
    assert_snapshot!(text, @r"
    05:32:10Z slack-events: version 13 answers the health invocation
    05:32:10Z slack-events: 10 % to version 13, 90 % to 12; watching for 2 min
    05:33:10Z slack-events: 10 %, 60 s left; 2 alarms quiet; the new version: 50 invocations, 0 errors
    05:34:10Z slack-events: 10 %, 0 s left; 2 alarms quiet; the new version: 90 invocations, 0 errors
    05:34:10Z slack-events: 50 % to version 13, 50 % to 12; watching for 2 min
    05:35:10Z slack-events: 50 %, 60 s left; 2 alarms quiet; the new version: 130 invocations, 0 errors
    05:36:10Z slack-events: 50 %, 0 s left; 2 alarms quiet; the new version: 170 invocations, 0 errors
    05:36:10Z slack-events: 100 % to version 13, 0 % to 12; watching for 2 min
    05:37:10Z slack-events: 100 %, 60 s left; 2 alarms quiet; the new version: 210 invocations, 0 errors
    05:38:10Z slack-events: 100 %, 0 s left; 2 alarms quiet; the new version: 250 invocations, 0 errors
    05:38:10Z slack-events: version 13 has all traffic (it was 12)
    ");
}

#[tokio::test]
async fn what_was_seen_and_why_it_went_back_is_said() {
    let fake = Fake { rings_at: 5, ..Fake::new() };
    let (ended, text) = run(vec![("slack-events", fake), ("tokens-api", Fake::new())], false).await;
    assert_eq!(ended, Ended::NeedsAttention);
    assert_snapshot!(text, @r"
    05:32:10Z slack-events: version 13 answers the health invocation
    05:32:10Z slack-events: 10 % to version 13, 90 % to 12; watching for 2 min
    05:32:10Z tokens-api: version 13 answers the health invocation
    05:32:10Z tokens-api: 10 % to version 13, 90 % to 12; watching for 2 min
    05:33:10Z slack-events: alarm slack-events-errors: ALARM (4.0 was at or above 3.0)
    05:33:10Z slack-events: 10 %, 60 s left; ringing: slack-events-errors; the new version: 50 invocations, 0 errors
    05:33:10Z slack-events: going back from version 13 to 12: the alarm slack-events-errors rings
    05:33:10Z slack-events: BACK on version 12 from 13: the alarm slack-events-errors rings
    05:33:10Z tokens-api: going back from version 13 to 12: interrupted by the failed rollout of slack-events
    05:33:10Z tokens-api: BACK on version 12 from 13: interrupted by the failed rollout of slack-events
    ");
}

#[tokio::test]
async fn an_interruption_cuts_a_wait_short_and_goes_back() {
    let (stop, stopped) = watch::channel(None);
    let hands = Fake { interrupt: Some(stop.clone()), ..Fake::new() };
    let machine = Machine::new(Goal::Forward(NEW), settings(), Run("3f2a9c".into()));
    let (tell, _told) = mpsc::unbounded_channel();
    let conclusion = drive("slack-events", machine, &hands, stopped, &tell).await;
    let why = Why::Interrupted("Ctrl-C".into());
    assert_eq!(conclusion, Conclusion::WentBack { old: Version(12), new: NEW, why });
    assert_eq!((hands.alias.borrow().version, hands.alias.borrow().other), (Version(12), None));
}

#[test]
fn a_plan_says_from_where_to_where_how_and_what_an_operator_should_know() {
    let at: Timestamp = "2026-11-16T05:32:10Z".parse().unwrap();
    let run = Run("3f2a9c".into());
    let alias = |change: Change| Alias {
        version: change.version,
        other: change.other,
        description: change.note.to_string(),
        revision: String::new(),
    };
    let watch = |alarms: &[&str], minutes: u64| Watch {
        alarms: alarms.iter().map(ToString::to_string).collect(),
        window: Duration::from_secs(minutes * 60),
    };
    let pace = Pace { steps: vec![10, 50, 100], bake: Duration::from_secs(120), stretch: true, tick: TICK };
    let old = Version(12);
    let changes = [
        (
            "slack-events",
            Change::finish(Version(11), old, &run, at),
            watch(&["slack-events-errors", "http-api-errors"], 15),
        ),
        ("slack-files", Change::finish(old, NEW, &run, at), watch(&[], 0)),
        ("tokens-api", Change::step(old, NEW, 50, &run, 3, at), watch(&["tokens-api-errors"], 15)),
        ("mesh-resolver", Change::back(old, NEW, "the alarm mesh-resolver-errors rings", &run, at), watch(&[], 0)),
    ];
    let items = changes.map(|(function, change, watch)| Item::new(function, &alias(change), Some(NEW), watch));
    assert_snapshot!(plan(&items, &pace), @r"
    slack-events  version 12 -> 13
        steps   10 % -> 50 % -> 100 %, each watched for 15 min
        alarms  slack-events-errors, http-api-errors
    slack-files  version 13, nothing to do
    tokens-api  version 12 -> 13
        steps   10 % -> 50 % -> 100 %, each watched for 15 min
        alarms  tokens-api-errors
        note    a rollout stopped at 50 %; this command goes on with it
    mesh-resolver  version 12 -> 13
        steps   10 % -> 50 % -> 100 %, each watched for 2 min
        alarms  none
        note    traffic went back from version 13 at 2026-11-16T05:32:10Z: the alarm mesh-resolver-errors rings
    ");
    let shown: Vec<_> = items.iter().take(1).map(|item| item.shown(&pace)).collect();
    assert_snapshot!(serde_json::to_string(&shown).unwrap(), @r#"[{"function":"slack-events","live":12,"to":13,"percent":0,"steps":[10,50,100],"bakeSeconds":900,"alarms":["slack-events-errors","http-api-errors"]}]"#);
}

#[tokio::test]
async fn a_sick_version_gets_no_traffic() {
    let (ended, text) = run(vec![("slack-events", Fake { healthy: false, ..Fake::new() })], false).await;
    assert_eq!(ended, Ended::NeedsAttention);
    assert_snapshot!(text, @r#"05:32:10Z slack-events: not started, no traffic was moved: the new version is not healthy: {"errorType":"Runtime.ExitError"}"#);
}

#[tokio::test]
async fn a_machine_reads_one_event_per_line() {
    let (_, text) = run(vec![("slack-events", Fake { rings_at: 3, ..Fake::new() })], true).await;
    assert_snapshot!(text, @r#"
    {"at":"2026-11-16T05:32:10Z","function":"slack-events","event":"looked","percent":0,"alarms":[{"name":"slack-events-errors","state":"OK"},{"name":"slack-fallback-active","state":"INSUFFICIENT_DATA"}],"invocations":10,"errors":0}
    {"at":"2026-11-16T05:32:10Z","function":"slack-events","event":"healthy","version":13}
    {"at":"2026-11-16T05:32:10Z","function":"slack-events","event":"moved","old":12,"new":13,"percent":10}
    {"at":"2026-11-16T05:32:25Z","function":"slack-events","event":"looked","percent":10,"alarms":[{"name":"slack-events-errors","state":"OK"},{"name":"slack-fallback-active","state":"INSUFFICIENT_DATA"}],"invocations":20,"errors":0}
    {"at":"2026-11-16T05:32:40Z","function":"slack-events","event":"looked","percent":10,"alarms":[{"name":"slack-events-errors","state":"ALARM"},{"name":"slack-fallback-active","state":"INSUFFICIENT_DATA"}],"invocations":30,"errors":0}
    {"at":"2026-11-16T05:32:40Z","function":"slack-events","event":"goingBack","old":12,"new":13,"why":"the alarm slack-events-errors rings"}
    {"at":"2026-11-16T05:32:40Z","function":"slack-events","event":"ended","outcome":"wentBack","old":12,"new":13,"why":"the alarm slack-events-errors rings"}
    "#);
}

#[test]
fn a_terminal_shows_step_weight_time_left_and_each_alarm() {
    let at: Timestamp = "2026-11-16T05:32:10Z".parse().unwrap();
    let event = |function: &str, seconds: i64, what| Event {
        at: at + jiff::SignedDuration::from_secs(seconds),
        function: function.into(),
        what,
    };
    let alarm =
        |name: &str, state: &str| AlarmState { name: name.into(), state: Some(state.into()), reason: String::new() };
    let mut picture = Picture::default();
    let moved = What::Moved { old: Version(12), new: NEW, percent: 50, left: 60 };
    picture.take(&event("slack-events", 0, moved), TICK);
    let sight = Sight {
        alarms: vec![alarm("slack-events-errors", "OK"), alarm("http-api-errors", "INSUFFICIENT_DATA")],
        invocations: 120,
        errors: 1,
    };
    picture.take(&event("slack-events", 15, What::Looked { percent: 50, left: Some(59), sight }), TICK);
    let end = End::Finished { old: Version(4), new: Version(5) };
    picture.take(&event("tokens-api", 20, What::Ended { end }), TICK);
    assert_snapshot!(picture.lines(at + jiff::SignedDuration::from_secs(30)).join("\n"), @r"
    slack-events  12 -> 13  ██████████░░░░░░░░░░  50 %  watching, 14:30 left
        OK                slack-events-errors
        INSUFFICIENT_DATA http-api-errors
        new version: 120 invocations, 1 errors
    tokens-api  ████████████████████ 100 %  version 5 has all traffic (it was 4)
    ");
    // Repainting goes up as many lines as were painted.
    picture.paint(at);
    assert!(picture.paint(at).starts_with("\u{1b}[5A\r"), "{:?}", picture.paint(at));
}

#[test]
fn the_name_of_an_alarm_cannot_write_to_the_terminal() {
    let at: Timestamp = "2026-11-16T05:32:10Z".parse().unwrap();
    let name = "evil\u{1b}[2J\n\u{202e}alarm".to_owned();
    let alarm = AlarmState { name, state: Some("OK".into()), reason: String::new() };
    let sight = Sight { alarms: vec![alarm], invocations: 1, errors: 0 };
    let mut picture = Picture::default();
    let what = What::Looked { percent: 50, left: Some(59), sight };
    picture.take(&Event { at, function: "slack-events".into(), what }, TICK);
    let painted = picture.paint(at);
    assert!(painted.contains("evil\\u{1b}[2J\\n\\u{202e}alarm"), "{painted:?}");
    assert!(!painted.contains("\u{1b}[2J"), "{painted:?}");
}
