//! `ichidoctl rollout`: moves traffic to new versions, watched, and back when something is wrong.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use function::Aws;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};

use crate::context::{Context, Ended, Environment, Error, failed};
use crate::infra::Described;
use crate::rollout::alias::{Run, Standing, Version};
use crate::rollout::cloud::Cloud;
use crate::rollout::drive::{Event, Hands, drive, is_bad};
use crate::rollout::machine::{Goal, Machine, Outcome};
use crate::rollout::plan::{self, Item, Pace, TICK, Watch};
use crate::rollout::view::{self, Lines, Picture};

/// How often a terminal is repainted.
const FRAME: Duration = Duration::from_secs(1);
/// On the local AWS nothing is at stake, and nobody waits for 15 s.
const LOCAL_TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl rollout --env prod --plan                     what would happen
  ichidoctl rollout --env prod                            every function with a new version
  ichidoctl rollout --env prod --function slack-events    one of them
  ichidoctl rollout --env prod --abort                    back, now, from a rollout that is under way or was killed
  ichidoctl rollout --env prod --json                     an event a line

Killed at any point, the same command goes on. Ctrl-C goes back. Exit code 1 if traffic went back.")]
pub struct Rollout {
    /// Only this function; can be repeated. All that have a new version otherwise
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// To this version instead of the newest; with one --function
    #[arg(long, value_name = "VERSION")]
    pub to: Option<u64>,
    /// Only show what would happen
    #[arg(long)]
    pub plan: bool,
    /// Go back from a rollout that is under way, at once
    #[arg(long, conflicts_with_all = ["plan", "to"])]
    pub abort: bool,
    /// Percentages instead of the environment's: 10,50,100
    #[arg(long, value_name = "PERCENT", value_delimiter = ',')]
    pub steps: Option<Vec<u8>>,
    /// Seconds that each step is watched, instead of the environment's; not shorter than the alarms' window
    #[arg(long, value_name = "SECONDS")]
    pub bake: Option<u64>,
    /// An alarm that rings already and is not to be watched; can be repeated
    #[arg(long, value_name = "ALARM")]
    pub despite: Vec<String>,
    /// The environment's description, as infra/cli/describe.ts prints it, instead of asking the tree
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

impl Rollout {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let described = Described::of(context, self.settings.as_deref()).await?;
        let mut pace =
            Pace::new(&described.settings.rollout, self.steps.as_deref(), self.bake.map(Duration::from_secs))
                .map_err(|error| Error::Refused(error.to_string()))?;
        let local = context.environment()? == Environment::Local;
        pace.tick = if local { LOCAL_TICK } else { TICK };
        let names = chosen(&self.functions, &described.functions(), &described.settings.suffix)?;
        if self.to.is_some() && self.functions.len() != 1 {
            return Err(Error::Refused("--to is for one function: say which with --function".to_owned()));
        }

        let mut items = Vec::new();
        for function in names {
            let watch = Watch::of(&function, &described, &self.despite)
                .map_err(|error| failed("the templates' alarms", error))?;
            items.push(item(context, &function, watch, pace.tick, self.to.map(Version)).await?);
        }
        if self.abort {
            let moving =
                |item: &&Item| !self.functions.is_empty() || !matches!(item.standing, Standing::Settled { .. });
            let items: Vec<&Item> = items.iter().filter(moving).collect();
            if items.is_empty() && !context.json() {
                context.line("no rollout is under way")?;
            }
            return go(context, &items, &pace, |_| Goal::Abort).await;
        }
        if !local {
            short(&items, &pace)?;
        }
        if self.plan {
            return show(context, &items, &pace);
        }
        let items: Vec<&Item> = items.iter().filter(|item| item.target().is_some()).collect();
        if items.is_empty() {
            if !context.json() {
                context.line("every function's newest version has all traffic; nothing to do")?;
            }
            return Ok(Ended::Well);
        }
        go(context, &items, &pace, |item| Goal::Forward(item.target().unwrap_or(item.newest))).await
    }
}

/// A bake that was asked for may be longer than needed, and not shorter.
fn short(items: &[Item], pace: &Pace) -> Result<(), Error> {
    let watched = pace.steps.len() > 1 || !pace.bake.is_zero();
    let window = items.iter().filter(|item| item.target().is_some()).map(|item| item.watch.window).max();
    match window {
        Some(window) if watched && !pace.stretch && pace.bake < window => {
            Err(Error::Refused(plan::Error::Short { bake: pace.bake, window }.to_string()))
        }
        _ => Ok(()),
    }
}

/// The deployed names of the functions that were asked for, or all.
pub fn chosen(asked: &[String], known: &[String], suffix: &str) -> Result<Vec<String>, Error> {
    if asked.is_empty() {
        return Ok(known.to_vec());
    }
    let find = |asked: &String| {
        let found = known.iter().find(|name| *name == asked || **name == format!("{asked}{suffix}"));
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|name| name.strip_suffix(suffix).unwrap_or(name)).collect();
            Error::Refused(format!("there is no function {asked}; there are {}", names.join(", ")))
        })
    };
    asked.iter().map(find).collect()
}

/// The calls for one function.
pub fn cloud(
    aws: &Aws,
    cloudwatch: aws_sdk_cloudwatch::Client,
    function: &str,
    watch: &Watch,
    tick: Duration,
) -> Cloud {
    Cloud { lambda: aws.lambda(), cloudwatch, function: function.to_owned(), alarms: watch.alarms.clone(), tick }
}

/// Where one function stands.
pub async fn item(
    context: &Context<'_>,
    function: &str,
    watch: Watch,
    tick: Duration,
    to: Option<Version>,
) -> Result<Item, Error> {
    let cloud = cloud(&context.aws, context.cloudwatch(), function, &watch, tick);
    let (alias, newest) = futures::join!(cloud.alias(), cloud.newest());
    let unreadable = |error| failed(format!("{function} cannot be looked at"), error);
    let missing = || Error::Refused(format!("{function} has no alias live: deploy it first (make deploy)"));
    let alias = alias.map_err(unreadable)?.ok_or_else(missing)?;
    let newest = newest.map_err(unreadable)?.ok_or_else(missing)?;
    Ok(Item::new(function, &alias, to.unwrap_or(newest), watch))
}

fn show(context: &mut Context<'_>, items: &[Item], pace: &Pace) -> Result<Ended, Error> {
    if context.json() {
        let shown: Vec<_> = items.iter().map(|item| item.shown(pace)).collect();
        context.value(&shown)?;
    } else {
        context.write(&view::plan(items, pace))?;
    }
    Ok(Ended::Well)
}

/// Runs all machines at once, shows what happens, and says how it ended.
pub async fn go(
    context: &mut Context<'_>,
    items: &[&Item],
    pace: &Pace,
    goal: impl Fn(&Item) -> Goal,
) -> Result<Ended, Error> {
    let work = items.iter().map(|item| {
        let hands = cloud(&context.aws, context.cloudwatch(), &item.function, &item.watch, pace.tick);
        let machine = (goal(item), pace.settings(&item.watch));
        (item.function.clone(), machine, hands)
    });
    let work = work.collect();
    let (stop, stopped) = watch::channel(None);
    let signals = interruption();
    let interrupt = async {
        let by = signals.await;
        stop.send_if_modified(|why| {
            why.is_none() && {
                *why = Some(by);
                true
            }
        });
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        ended = all(context, work, run_id(), pace.tick, &stop, stopped) => ended,
        never = interrupt => match never {},
    }
}

type Work<H> = (String, (Goal, crate::rollout::machine::Settings), H);

/// The same with hands of the caller's: tests.
pub async fn all<H: Hands>(
    context: &mut Context<'_>,
    work: Vec<Work<H>>,
    run: Run,
    tick: Duration,
    stop: &watch::Sender<Option<String>>,
    stopped: watch::Receiver<Option<String>>,
) -> Result<Ended, Error> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let drives = work.iter().map(|(function, (goal, settings), hands)| {
        let (tell, stopped) = (tell.clone(), stopped.clone());
        let machine = Machine::new(goal.clone(), settings.clone(), run.clone());
        async move {
            let outcome = drive(function, machine, hands, stopped, &tell).await;
            // What was deployed together is rolled out together: half of it is a state that nobody has tried.
            if is_bad(&outcome) {
                let why = format!("what happened to {function}");
                stop.send_if_modified(|known| {
                    known.is_none() && {
                        *known = Some(why);
                        true
                    }
                });
            }
            outcome
        }
    });
    let drives = join_all(drives);
    tokio::pin!(drives);
    let mut screen = Screen::new(context, tick);
    let mut frames = tokio::time::interval(FRAME);
    let outcomes = loop {
        tokio::select! {
            biased;
            Some(event) = told.recv() => screen.show(context, &event)?,
            outcomes = &mut drives => break outcomes,
            _ = frames.tick() => screen.frame(context)?,
        }
    };
    while let Ok(event) = told.try_recv() {
        screen.show(context, &event)?;
    }
    Ok(judge(&outcomes))
}

/// Bad is what somebody has to look at.
fn judge(outcomes: &[Outcome]) -> Ended {
    let well = |outcome: &Outcome| match outcome {
        Outcome::Finished { .. } | Outcome::AlreadyThere { .. } => true,
        // as it was asked to
        Outcome::WentBack { why, .. } => *why == crate::rollout::machine::Why::Asked,
        _ => false,
    };
    if outcomes.iter().all(well) { Ended::Well } else { Ended::Found }
}

/// Where events go.
enum Screen {
    Json,
    Lines(Lines, Duration),
    Picture(Picture, Duration),
}

impl Screen {
    fn new(context: &Context<'_>, tick: Duration) -> Self {
        match (context.json(), context.terminal()) {
            (true, _) => Screen::Json,
            (false, false) => Screen::Lines(Lines::default(), tick),
            (false, true) => Screen::Picture(Picture::default(), tick),
        }
    }

    fn show(&mut self, context: &mut Context<'_>, event: &Event) -> Result<(), Error> {
        match self {
            Screen::Json => {
                let line = serde_json::to_string(event).map_err(std::io::Error::from)?;
                context.write(&format!("{line}\n"))
            }
            Screen::Lines(lines, tick) => lines.of(event, *tick).iter().try_for_each(|line| context.line(line)),
            Screen::Picture(picture, tick) => {
                picture.take(event, *tick);
                context.write(&picture.paint(event.at))
            }
        }
    }

    fn frame(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        match self {
            Screen::Picture(picture, _) => context.write(&picture.paint(jiff::Timestamp::now())),
            _ => Ok(()),
        }
    }
}

/// Tells this run from every other.
fn run_id() -> Run {
    let bits =
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), (std::process::id(), jiff::Timestamp::now()));
    Run(format!("{:012x}", bits & 0xffff_ffff_ffff))
}

/// Ctrl-C, a pipeline that is cancelled, a terminal that goes away.
async fn interruption() -> String {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = |kind: SignalKind, name: &'static str| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
                name.to_owned()
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        by = wait(SignalKind::interrupt(), "Ctrl-C") => by,
        by = wait(SignalKind::terminate(), "SIGTERM") => by,
        by = wait(SignalKind::hangup(), "SIGHUP") => by,
    }
}
