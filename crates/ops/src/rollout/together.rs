//! Several functions at once: what was deployed together is rolled out together.

use std::convert::Infallible;
use std::time::Duration;

use function::Aws;
use futures::future::join_all;
use tokio::sync::{mpsc, watch};

use super::alias::{LIVE, Run, Version};
use super::cloud::Cloud;
use super::drive::{Event, Hands, drive, is_bad};
use super::machine::{Conclusion, Goal, Machine, Settings, Why};
use super::plan::{Item, Pace, Watch};
use super::view::{Lines, Picture};
use crate::context::{Context, Ended, Error, failed};

/// How often a terminal is repainted.
const FRAME: Duration = Duration::from_secs(1);

/// The deployed names of the functions that were asked for, or all.
pub(crate) fn choose(asked: &[String], known: &[String], suffix: &str) -> Result<Vec<String>, Error> {
    if asked.is_empty() {
        return Ok(known.to_vec());
    }
    let find = |asked: &String| {
        let found = known.iter().find(|name| *name == asked || **name == format!("{asked}{suffix}"));
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|name| name.strip_suffix(suffix).unwrap_or(name)).collect();
            Error::Refused(format!("there is no function {asked}; the functions are {}", names.join(", ")))
        })
    };
    asked.iter().map(find).collect()
}

/// The calls for one function.
pub(crate) fn cloud(
    aws: &Aws,
    cloudwatch: aws_sdk_cloudwatch::Client,
    function: &str,
    watch: &Watch,
    tick: Duration,
) -> Cloud {
    let lambda = aws_sdk_lambda::Client::new(aws.config());
    Cloud { lambda, cloudwatch, function: function.to_owned(), alarms: watch.alarms.clone(), tick }
}

/// Where one function stands.
pub(crate) async fn item(
    context: &Context<'_>,
    function: &str,
    watch: Watch,
    tick: Duration,
    to: Option<Version>,
) -> Result<Item, Error> {
    let cloud = cloud(&context.aws, context.cloudwatch(), function, &watch, tick);
    let (alias, deployed) = futures::join!(cloud.alias(), cloud.deployed());
    let unreadable = |error| {
        failed(format!("the aliases of {function} could not be read; check the permission lambda:GetAlias"), error)
    };
    let missing = || Error::Refused(format!("{function} has no alias {LIVE}: deploy it first (make deploy)"));
    let alias = alias.map_err(unreadable)?.ok_or_else(missing)?;
    let deployed = deployed.map_err(unreadable)?;
    Ok(Item::new(function, &alias, to.or(deployed), watch))
}

/// Runs one machine per function, all at once, and shows what happens.
pub(crate) async fn move_all(
    context: &mut Context<'_>,
    items: Vec<(&Item, Goal)>,
    pace: &Pace,
) -> Result<Ended, Error> {
    let work = items.into_iter().map(|(item, goal)| {
        let hands = cloud(&context.aws, context.cloudwatch(), &item.function, &item.watch, pace.tick);
        let machine = (goal, pace.settings(&item.watch));
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
        ended = drive_all(context, work, run_id(), pace.tick, &stop, stopped) => ended,
        never = interrupt => match never {},
    }
}

type Work<H> = (String, (Goal, Settings), H);

/// The same with the caller's hands: what tests use.
pub async fn drive_all<H: Hands>(
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
            let conclusion = drive(function, machine, hands, stopped, &tell).await;
            // Functions are deployed together and tested together. Nobody has tried half of them new and half of them old.
            if is_bad(&conclusion) {
                let why = format!("the failed rollout of {function}");
                stop.send_if_modified(|known| {
                    known.is_none() && {
                        *known = Some(why);
                        true
                    }
                });
            }
            conclusion
        }
    });
    let drives = join_all(drives);
    tokio::pin!(drives);
    let mut screen = Screen::new(context, tick);
    let mut frames = tokio::time::interval(FRAME);
    let conclusions = loop {
        tokio::select! {
            biased;
            Some(event) = told.recv() => screen.show(context, &event)?,
            conclusions = &mut drives => break conclusions,
            _ = frames.tick() => screen.frame(context)?,
        }
    };
    while let Ok(event) = told.try_recv() {
        screen.show(context, &event)?;
    }
    Ok(judge(&conclusions))
}

fn judge(conclusions: &[Conclusion]) -> Ended {
    let well = |conclusion: &Conclusion| match conclusion {
        Conclusion::Finished { .. } | Conclusion::AlreadyThere { .. } => true,
        // The operator asked for it.
        Conclusion::WentBack { why, .. } => *why == Why::Asked,
        _ => false,
    };
    if conclusions.iter().all(well) { Ended::Well } else { Ended::NeedsAttention }
}

/// Where events are shown.
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
            Screen::Json => context.json_line(event),
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

/// A name that no other run has.
fn run_id() -> Run {
    let bits =
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), (std::process::id(), jiff::Timestamp::now()));
    Run(format!("{:012x}", bits & 0xffff_ffff_ffff))
}

/// Waits for Ctrl-C, the cancellation of a pipeline, or the end of a terminal, and says which it was.
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
