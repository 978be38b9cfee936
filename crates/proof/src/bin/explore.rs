//! `make explore`: the library in every interleaving of its calls, within a bound.

#![expect(clippy::print_stderr, reason = "a program for the terminal")]

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ichido_testkit::explore::{self, Bound, Report, Violation};
use proof::library::Scenario;

/// Fewer paths within the bound of CI would mean that the explorer looks at less than it did.
const LEAST_PATHS: u64 = 2_300_000;

const HELP: &str = "\
Plays the library's calls in every order, with everything that may go wrong, within a bound.

Usage: explore [OPTIONS]

  --workers N       how many workers get the same event (default 2)
  --faults N        how many things may go wrong on one path (default 2)
  --scenario NAME   only this scenario; repeat it for more
  --minutes N       stop after this time, and say how far the search came
  --first           stop at the first violation
  --replay LINE     play one path again and print it: a line that a violation printed
  --list            print the scenarios
  --help            print this text

It ends with the line `explored N states, P paths: V violations`; after --minutes the line may say that these are not all paths.
A violation is printed as a table with one column per worker, and the program exits with 1. It exits with 2 if it cannot do
what was asked, and if a replayed path ends before its end. Ctrl-C prints nothing; use --minutes.";

/// The most faults of a path.
const MOST_FAULTS: u32 = 6;

#[derive(Clone)]
struct Options {
    workers: usize,
    faults: u32,
    scenarios: Vec<Scenario>,
    minutes: Option<u64>,
    first: bool,
    replay: Option<String>,
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    let options = match options(arguments) {
        Ok(Command::Explore(options)) => options,
        Ok(Command::Print(text)) => {
            say(text);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("explore: {message}\nexplore: --help says what there is");
            return ExitCode::from(2);
        }
    };
    let ended = match &options.replay {
        Some(line) => replay(line),
        None => Ok(explore(&options)),
    };
    ended.unwrap_or_else(|message| {
        eprintln!("explore: {message}");
        ExitCode::from(2)
    })
}

/// Writes a line. If nobody reads it any more, there is nothing left to do.
fn say(text: impl std::fmt::Display) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        if error.kind() != io::ErrorKind::BrokenPipe {
            eprintln!("explore: could not write: {error}");
        }
        std::process::exit(2);
    }
}

/// What is wanted.
enum Command {
    Explore(Options),
    Print(String),
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut options =
        Options { workers: 2, faults: 2, scenarios: Vec::new(), minutes: None, first: false, replay: None };
    let (mut list, mut seen) = (false, Vec::new());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: String, least: u64, most: u64| match text.parse::<u64>() {
            Ok(n) if (least..=most).contains(&n) => Ok(n),
            _ => Err(format!("{argument} {text:?}: it must be a whole number from {least} to {most}")),
        };
        match argument.as_str() {
            "--workers" => options.workers = number(value()?, 1, 4)? as usize,
            "--faults" => options.faults = number(value()?, 0, MOST_FAULTS.into())? as u32,
            "--scenario" => {
                let scenario: Scenario = value()?.parse()?;
                if options.scenarios.contains(&scenario) {
                    return Err(format!("--scenario {scenario} is given twice"));
                }
                options.scenarios.push(scenario);
            }
            "--minutes" => options.minutes = Some(number(value()?, 0, 24 * 60)?),
            "--first" => options.first = true,
            "--replay" => options.replay = Some(value()?),
            "--list" => list = true,
            "--help" | "-h" => return Ok(Command::Print(HELP.to_owned())),
            _ => return Err(format!("there is no option {argument:?}")),
        }
        if argument != "--scenario" && seen.contains(&argument) {
            return Err(format!("{argument} is given twice"));
        }
        seen.push(argument);
    }
    let has = |name: &str| seen.iter().any(|argument| argument == name);
    if has("--workers") && has("--scenario") {
        return Err("the scenario says how many workers there are: leave --workers out".to_owned());
    }
    if options.replay.is_some() && seen.len() > 1 {
        return Err("--replay takes no other option: its line says everything".to_owned());
    }
    if list {
        let names: Vec<String> = Scenario::all(options.workers).iter().map(Scenario::to_string).collect();
        return Ok(Command::Print(names.join("\n")));
    }
    Ok(Command::Explore(options))
}

/// Plays the path of a line `SCENARIO:FAULTS:CHOICE.CHOICE…`.
fn replay(line: &str) -> Result<ExitCode, String> {
    let wrong = || format!("--replay {line:?}: it must be SCENARIO:FAULTS:CHOICE.CHOICE…, as a violation prints it");
    let [scenario, faults, choices] = line.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let scenario: Scenario = scenario.parse()?;
    let faults: u32 = faults.parse().ok().filter(|faults| *faults <= MOST_FAULTS).ok_or_else(wrong)?;
    let choices: Vec<u16> = match choices {
        "" => Vec::new(),
        choices => choices.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?,
    };
    let replayed = explore::replay(&scenario, faults, &choices);
    say(&replayed.history);
    if let Some(at) = replayed.misfit {
        let number = at + 1;
        return Err(format!(
            "--replay: the path has no choice {number} of the line. The line is of another version or scenario, and the table above \
             shows another path"
        ));
    }
    Ok(match replayed.violation {
        Some(violation) => {
            say(format_args!("VIOLATION {violation}"));
            ExitCode::FAILURE
        }
        None if replayed.cut => {
            say("the path ends here: what follows is explored in another order; the rules of the end were not checked");
            ExitCode::from(2)
        }
        None => {
            say("all rules hold on this path");
            ExitCode::SUCCESS
        }
    })
}

fn explore(options: &Options) -> ExitCode {
    // All scenarios with few faults come before any with many, if the first violation is all that is wanted.
    let fewer = if options.first { 0..options.faults } else { 0..0 };
    let until = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    for faults in fewer {
        explore_all(&Options { faults, ..options.clone() }, until);
    }
    explore_all(options, until)
}

fn explore_all(options: &Options, until: Option<Instant>) -> ExitCode {
    let scenarios = match &options.scenarios[..] {
        [] => Scenario::all(options.workers),
        some => some.to_vec(),
    };
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<(Scenario, Report)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(scenarios.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut bound = Bound::faults(options.faults);
                    // What is left of the time is shared among the scenarios that are left.
                    if let Some(until) = until {
                        let left = scenarios.len() - next.load(Ordering::Relaxed).min(scenarios.len());
                        let rounds = u32::try_from(left.div_ceil(threads) + 1).unwrap_or(u32::MAX);
                        bound = bound.until(Instant::now() + until.saturating_duration_since(Instant::now()) / rounds);
                    }
                    let begun = Instant::now();
                    let report = explore::explore(scenario, &bound);
                    say(line(*scenario, &report, begun.elapsed()));
                    let Ok(mut reports) = reports.lock() else { return };
                    if let Some(violation) = report.violation.as_ref().filter(|_| options.first) {
                        explain(*scenario, violation);
                        std::process::exit(1); // while the lock is held, so that only one is printed
                    }
                    reports.push((*scenario, report));
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_default();
    let mut violations = 0;
    for (scenario, report) in &reports {
        if let Some(violation) = &report.violation {
            violations += 1;
            explain(*scenario, violation);
        }
    }
    let states: u64 = reports.iter().map(|(_, report)| report.states).sum();
    let paths: u64 = reports.iter().map(|(_, report)| report.paths).sum();
    let whole = reports.iter().all(|(_, report)| report.frontier.is_none());
    let usual = options.workers == 2 && options.faults == 2 && options.scenarios.is_empty() && !options.first;
    if usual && whole && violations == 0 && paths < LEAST_PATHS {
        eprintln!("explore: only {paths} paths, and there were at least {LEAST_PATHS}: the explorer looks at less");
        return ExitCode::FAILURE;
    }
    let all = if whole { "" } else { ", but not all paths" };
    say(format_args!("explored {states} states, {paths} paths: {violations} violations{all}"));
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(scenario: Scenario, report: &Report, took: Duration) -> String {
    let Report { states, paths, frontier, .. } = report;
    let far = match frontier {
        Some((faults, choices)) => {
            let faults = if *faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") };
            format!(", not all: of the paths with {faults} it came to {}", dotted(choices))
        }
        None => String::new(),
    };
    format!("{scenario}: {states} states, {paths} paths in {:.1} s{far}", took.as_secs_f64())
}

fn explain(scenario: Scenario, violation: &Violation) {
    let Violation { message, choices, faults, .. } = violation;
    say(format_args!("\nVIOLATION in {scenario}: {message}\n"));
    say(explore::replay(&scenario, *faults, choices).history);
    say(format_args!("replay: make explore ARGS=\"--replay {scenario}:{faults}:{}\"\n", dotted(choices)));
}

fn dotted(choices: &[u16]) -> String {
    choices.iter().map(u16::to_string).collect::<Vec<_>>().join(".")
}
