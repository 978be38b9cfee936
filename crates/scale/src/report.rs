//! What `make scale` prints: the command line, the progress on stderr, one block per application, and the closing lines.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use emulator::limits::aws;
use serde_json::{Value, json};

use crate::app::ONE_WAVE;
use crate::candidates::{self, Candidate};
use crate::{App, Error, Measured, Plan, Progress, measure, search};

/// A run that takes longer than this is reported while the others go on.
const QUIET_FOR: Duration = Duration::from_secs(2);

/// Doubles the load of each application, in simulated time, until a documented limit of AWS refuses something. Says which limit it is,
/// what users see, which alarm rings, and whether anything was lost or doubled.
#[derive(Debug, Parser)]
#[command(
    name = "scale",
    version,
    after_help = "Examples:\n  make scale                                 every application, then the candidates of docs/scale.md\n  \
                  make scale ARGS=\"--app tokens --seed 7\"    one application\n  \
                  make scale ARGS=\"--limits\"                 the limits, with their sources\n\n\
                  The last lines are `APP: first limit NAME at LOAD, lost 0, doubled 0`. The exit code is 1 if anything was lost or\n\
                  doubled. Progress goes to stderr. docs/scale.md explains the result."
)]
struct Arguments {
    /// Decides everything that happens by chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only this application: slack, feeds, tokens, sessync or mesh; can be repeated
    #[arg(long, value_name = "NAME")]
    app: Vec<App>,
    /// Run only this load, once, and search for nothing
    #[arg(long, value_name = "N")]
    load: Option<u32>,
    /// Leave the candidates out
    #[arg(long)]
    no_candidates: bool,
    /// Print the result as one line of JSON instead of the blocks
    #[arg(long)]
    json: bool,
    /// Print the limits and where each is documented, and run nothing
    #[arg(long)]
    limits: bool,
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    if arguments.limits {
        return finished(limits());
    }
    match run(&arguments) {
        Ok((text, true)) => finished(text),
        Ok((text, false)) => {
            let _ = finished(text);
            tell(
                "scale: something was lost or doubled; the blocks above say where. Run it again with the same --seed to see it again",
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            tell(&format!("scale: {}", telemetry::causes(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(String, bool), Error> {
    let apps: Vec<App> = if arguments.app.is_empty() { App::ALL.to_vec() } else { arguments.app.clone() };
    tell(&format!("scale: seed {}", arguments.seed));
    let (mut blocks, mut closing, mut found, mut others) = (String::new(), String::new(), Vec::new(), Vec::new());
    for app in apps {
        let mut watch = Watch::new();
        let measured = match arguments.load {
            Some(load) => measure(app, &Plan { load, waves: ONE_WAVE, seed: arguments.seed }, &|_| {})?,
            None => search(app, app.first_load(), arguments.seed, &|_| {}, &mut watch)?,
        };
        blocks.push_str(&block(&measured));
        closing.push_str(&closing_line(&measured));
        closing.push('\n');
        if !arguments.no_candidates && arguments.load.is_none() {
            for candidate in candidates::of(app) {
                let ran = candidate.run(arguments.seed)?;
                watch.ran(&ran);
                blocks.push_str(&candidate_block(candidate, &ran));
                others.push((candidate, ran));
            }
        }
        blocks.push('\n');
        found.push(measured);
    }
    let exact = found.iter().chain(others.iter().map(|(_, ran)| ran)).all(Measured::is_exact);
    if arguments.json {
        let candidates = others.iter().map(|(candidate, ran)| with_name(candidate.name, as_json(ran)));
        let all = json!({
            "seed": arguments.seed,
            "applications": found.iter().map(as_json).collect::<Vec<_>>(),
            "candidates": candidates.collect::<Vec<_>>(),
        });
        return Ok((format!("{all}\n{closing}"), exact));
    }
    Ok((format!("{blocks}{closing}"), exact))
}

/// `tokens: first limit http-api-route at 64, lost 0, doubled 0`
#[must_use]
pub fn closing_line(measured: &Measured) -> String {
    let name = measured.first.as_ref().map_or("none", |first| first.limit.name);
    let crate::Outcome { lost, doubled, .. } = &measured.outcome;
    format!("{}: first limit {name} at {}, lost {lost}, doubled {doubled}", measured.app.name(), measured.load)
}

fn block(measured: &Measured) -> String {
    let Measured { app, load, .. } = measured;
    let mut text = format!("{}: {load} {}\n", app.name(), app.unit());
    if let Some(first) = &measured.first {
        let limit = first.limit;
        let _ = writeln!(text, "  limit       {} ({}): {}", limit.name, limit.what, first.bound);
        let _ = writeln!(text, "  of          {}, {} refusals", first.of, first.count);
        let _ = writeln!(text, "  documented  {}", limit.source);
        let _ = writeln!(text, "  raised by   {}", limit.raised_by);
    }
    text.push_str(&rest(measured));
    text
}

fn candidate_block(candidate: &Candidate, measured: &Measured) -> String {
    let mut text = format!("{}, {}: {}\n", measured.app.name(), candidate.name, candidate.what);
    text.push_str(&rest(measured));
    text
}

fn rest(measured: &Measured) -> String {
    let mut text = String::new();
    let others = measured.refusals.iter().map(|other| format!("{} {} times", other.limit.name, other.count));
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        let _ = writeln!(text, "  refused     {}", others.join(", "));
    }
    let crate::Outcome { wanted, lost, doubled, seen, slowest } = &measured.outcome;
    let seen: Vec<String> = seen.iter().map(|(what, count)| format!("{what}: {count}")).collect();
    let _ = writeln!(text, "  users see   {}; the slowest is served after {}", seen.join(", "), seconds(*slowest));
    let alarms: Vec<String> =
        measured.alarms.iter().map(|(name, after)| format!("{name} after {}", seconds(*after))).collect();
    let alarms = if alarms.is_empty() { "no alarm".to_owned() } else { alarms.join(", ") };
    let _ = writeln!(text, "  alarms      {alarms}");
    let _ = writeln!(
        text,
        "  effects     {wanted} wanted, {lost} lost, {doubled} doubled, in {} of simulated time with {} cold starts",
        seconds(measured.lasted),
        measured.cold_starts
    );
    text
}

fn as_json(measured: &Measured) -> Value {
    let crate::Outcome { wanted, lost, doubled, seen, slowest } = &measured.outcome;
    json!({
        "app": measured.app.name(), "load": measured.load, "unit": measured.app.unit(),
        "first": measured.first.as_ref().map(|first| json!({
            "limit": first.limit.name, "of": first.of, "count": first.count, "source": first.limit.source,
        })),
        "refusals": measured.refusals.iter().map(|one| json!({"limit": one.limit.name, "count": one.count})).collect::<Vec<_>>(),
        "alarms": measured.alarms.keys().collect::<Vec<_>>(),
        "wanted": wanted, "lost": lost, "doubled": doubled, "seen": seen, "slowestMs": ichido::whole_millis(*slowest),
    })
}

fn with_name(name: &str, mut value: Value) -> Value {
    value["candidate"] = json!(name);
    value
}

fn limits() -> String {
    let mut text = String::new();
    for limit in aws::ALL {
        let _ = writeln!(text, "{} ({}): {}\n  {}", limit.name, limit.what, limit.bound, limit.source);
    }
    text
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Tells how far it is, if it takes long.
struct Watch {
    began: Instant,
}

impl Watch {
    fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Progress for Watch {
    fn ran(&mut self, measured: &Measured) {
        if self.began.elapsed() > QUIET_FOR {
            let first = measured.first.as_ref().map_or("no limit met", |first| first.limit.name);
            let (app, load, unit) = (measured.app.name(), measured.load, measured.app.unit());
            tell(&format!("scale: {app} at {load} {unit}: {first} ({:.0} s)", self.began.elapsed().as_secs_f64()));
        }
    }
}

fn finished(text: String) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn tell(text: &str) {
    // If standard error is gone, there is nobody left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}
