//! What `make scale` prints: the command line, the progress on stderr, one block per application, and the closing lines.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use emulator::limits::{Limit, aws};
use serde_json::{Value, json};

use crate::app::ONE_WAVE;
use crate::candidates::{self, Candidate};
use crate::{App, Error, Measured, Plan, Progress, measure, search};

/// A run that takes longer than this is reported while the others go on.
const QUIET_FOR: Duration = Duration::from_secs(2);

/// More than a machine can simulate in minutes.
const MOST_LOAD: i64 = 100_000;

/// Doubles the load of each application, in simulated time, until a documented limit of AWS refuses something. Says which limit it is,
/// what users see, which alarm rings, and whether anything was lost or doubled.
#[derive(Debug, Parser)]
#[command(
    name = "scale",
    version,
    after_help = "Examples:\n  make scale                                 every application, then the candidates of docs/scale.md\n  \
                  make scale ARGS=\"--app tokens --seed 7\"    one application\n  \
                  make scale ARGS=\"--limits\"                 the limits: their sources, what raises them, at what price\n\n\
                  The last lines are `APP: first limit NAME at LOAD, lost 0, doubled 0`. The exit code is 1 if anything was lost or\n\
                  doubled. Progress goes to stderr. docs/scale.md explains the result."
)]
struct Arguments {
    /// Decides everything that happens by chance
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Only this application: slack, feeds, tokens, sessync or mesh; can be repeated
    #[arg(long, value_name = "NAME")]
    app: Vec<App>,
    /// Run only this load, once: no search, no candidates; alarms that need the load for minutes do not ring
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_LOAD))]
    load: Option<u32>,
    /// Leave the candidates out
    #[arg(long)]
    no_candidates: bool,
    /// Print the result as one line of JSON; the closing lines go to stderr
    #[arg(long, conflicts_with = "limits")]
    json: bool,
    /// Print the limits, where each is documented, what raises it and at what price; run nothing
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
        return ended(print(&limits()));
    }
    let is_wanted = |app: &App| arguments.app.is_empty() || arguments.app.contains(app);
    let apps: Vec<App> = App::ALL.into_iter().filter(is_wanted).collect();
    tell(&format!("scale: seed {}", arguments.seed));
    let mut results = Results::default();
    for app in apps {
        if let Err(error) = results.measure(app, &arguments) {
            // What was measured stays, and the other applications are still asked.
            results.failed(&error);
        }
    }
    results.close(&arguments)
}

/// What was measured so far.
#[derive(Default)]
struct Results {
    found: Vec<Measured>,
    others: Vec<(&'static Candidate, Measured)>,
    /// Something could not be measured or printed.
    failed: bool,
}

impl Results {
    /// Measures an application and its candidates, and prints each block when it is ready.
    fn measure(&mut self, app: App, arguments: &Arguments) -> Result<(), Error> {
        let mut watch = Watch::new();
        let measured = match arguments.load {
            Some(load) => measure(app, &Plan { load, waves: ONE_WAVE, seed: arguments.seed }, &|_| {})?,
            None => search(app, app.first_load(), arguments.seed, &|_| {}, &mut watch)?,
        };
        self.show(arguments, &block(&measured));
        self.found.push(measured);
        if !arguments.no_candidates && arguments.load.is_none() {
            for candidate in candidates::of(app) {
                let ran = match candidate.run(arguments.seed) {
                    Ok(ran) => ran,
                    Err(error) => {
                        self.failed(&error);
                        continue;
                    }
                };
                watch.ran(&ran);
                self.show(arguments, &candidate_block(candidate, &ran));
                self.others.push((candidate, ran));
            }
        }
        self.show(arguments, "\n");
        Ok(())
    }

    fn failed(&mut self, error: &Error) {
        tell(&format!("scale: {}", telemetry::causes(error)));
        self.failed = true;
    }

    fn show(&mut self, arguments: &Arguments, text: &str) {
        if !arguments.json {
            self.failed |= !print(text);
        }
    }

    /// Prints the closing lines.
    fn close(mut self, arguments: &Arguments) -> ExitCode {
        if arguments.json {
            let candidates = self.others.iter().map(|(candidate, ran)| with_name(candidate.name, as_json(ran)));
            let all = json!({
                "seed": arguments.seed,
                "applications": self.found.iter().map(as_json).collect::<Vec<_>>(),
                "candidates": candidates.collect::<Vec<_>>(),
            });
            self.failed |= !print(&format!("{all}\n"));
        }
        for measured in &self.found {
            let line = closing_line(measured);
            if arguments.json {
                tell(&line);
            } else {
                self.failed |= !print(&format!("{line}\n"));
            }
        }
        let is_exact = self.found.iter().chain(self.others.iter().map(|(_, ran)| ran)).all(Measured::is_exact);
        if !is_exact {
            tell(
                "scale: something was lost or doubled; the result says where. Run it again with the same --seed to see it again",
            );
        }
        ended(is_exact && !self.failed)
    }
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
    format!("{}: {load} {}\n{}", app.name(), app.unit(), rest(measured))
}

fn candidate_block(candidate: &Candidate, measured: &Measured) -> String {
    format!("{}, {}: {}\n{}", measured.app.name(), candidate.name, candidate.what, rest(measured))
}

fn rest(measured: &Measured) -> String {
    let mut text = String::new();
    match &measured.first {
        Some(first) => {
            let Limit { name, what, source, raised_by, price, .. } = first.limit;
            let _ = writeln!(text, "  limit       {name} ({what}): {}", first.bound);
            let _ = writeln!(text, "  of          {}, {} refusals", first.of, first.count);
            let _ = writeln!(text, "  documented  {source}");
            let _ = writeln!(text, "  raised by   {raised_by}");
            let _ = writeln!(text, "  price       {price}");
        }
        None => text.push_str("  limit       none is met\n"),
    }
    let others = measured.refusals.iter().map(|other| format!("{} {} times", other.limit.name, other.count));
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        let _ = writeln!(text, "  refused     {}", others.join(", "));
    }
    let crate::Outcome { wanted, lost, dead, owed, doubled, seen, slowest } = &measured.outcome;
    let seen: Vec<String> = seen.iter().map(|(what, count)| format!("{what}: {count}")).collect();
    let _ = writeln!(text, "  users see   {}; the slowest is served after {}", seen.join(", "), seconds(*slowest));
    let alarms: Vec<String> =
        measured.alarms.iter().map(|(name, after)| format!("{name} after {}", seconds(*after))).collect();
    let alarms = if alarms.is_empty() { "no alarm".to_owned() } else { alarms.join(", ") };
    let _ = writeln!(text, "  alarms      {alarms}");
    let _ = writeln!(
        text,
        "  effects     {wanted} wanted, {lost} lost, {doubled} doubled, {dead} dead letters, {owed} still owed, in {} of simulated time with {} cold starts",
        seconds(measured.lasted),
        measured.cold_starts
    );
    text
}

fn as_json(measured: &Measured) -> Value {
    let crate::Outcome { wanted, lost, dead, owed, doubled, seen, slowest } = &measured.outcome;
    let alarms = measured.alarms.iter();
    let alarms = alarms.map(|(name, after)| json!({"alarm": name, "afterMs": ichido::whole_millis(*after)}));
    json!({
        "app": measured.app.name(), "load": measured.load, "unit": measured.app.unit(),
        "first": measured.first.as_ref().map(|first| json!({
            "limit": first.limit.name, "of": first.of, "count": first.count, "source": first.limit.source,
            "raisedBy": first.limit.raised_by, "price": first.limit.price,
        })),
        "refusals": measured.refusals.iter().map(|one| json!({"limit": one.limit.name, "count": one.count})).collect::<Vec<_>>(),
        "alarms": alarms.collect::<Vec<_>>(),
        "wanted": wanted, "lost": lost, "doubled": doubled, "deadLetters": dead, "owed": owed, "seen": seen, "slowestMs": ichido::whole_millis(*slowest),
    })
}

fn with_name(name: &str, mut value: Value) -> Value {
    value["candidate"] = json!(name);
    value
}

fn limits() -> String {
    let mut text = String::new();
    for limit in aws::ALL {
        let Limit { name, what, bound, source, raised_by, price, .. } = limit;
        let _ = writeln!(text, "{name} ({what}): {bound}\n  {source}\n  raised by {raised_by}\n  price: {price}");
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

/// Whether it could be printed.
fn print(text: &str) -> bool {
    io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).is_ok()
}

fn ended(well: bool) -> ExitCode {
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(text: &str) {
    // If standard error is gone, there is nobody left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}
