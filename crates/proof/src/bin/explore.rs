//! `make explore`: the library in every interleaving of its calls, within a bound.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

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

It ends with the line `explored N states, P paths: V violations`. A violation is printed as a table with one column per
worker, and the program exits with 1.";

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
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
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

/// `None` if there is nothing more to do.
fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options =
        Options { workers: 2, faults: 2, scenarios: Vec::new(), minutes: None, first: false, replay: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: String, most: u64| match text.parse::<u64>() {
            Ok(n) if n <= most => Ok(n),
            _ => Err(format!("{argument} {text}: it must be a number of at most {most}")),
        };
        match argument.as_str() {
            "--workers" => match number(value()?, 4)? {
                0 => return Err("--workers 0: there must be at least one".to_owned()),
                workers => options.workers = workers as usize,
            },
            "--faults" => options.faults = number(value()?, 6)? as u32,
            "--scenario" => options.scenarios.push(value()?.parse()?),
            "--minutes" => options.minutes = Some(number(value()?, 24 * 60)?),
            "--first" => options.first = true,
            "--replay" => options.replay = Some(value()?),
            "--list" => {
                Scenario::all(options.workers).iter().for_each(|scenario| println!("{scenario}"));
                return Ok(None);
            }
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(None);
            }
            _ => return Err(format!("there is no option {argument:?}")),
        }
    }
    Ok(Some(options))
}

/// Plays the path of a line `SCENARIO:FAULTS:CHOICE.CHOICE…`.
fn replay(line: &str) -> Result<ExitCode, String> {
    let wrong = || format!("--replay {line:?}: it must be SCENARIO:FAULTS:CHOICE.CHOICE…, as a violation prints it");
    let [scenario, faults, choices] = line.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let scenario: Scenario = scenario.parse()?;
    let faults: u32 = faults.parse().map_err(|_| wrong())?;
    let choices = choices.split('.').filter(|text| !text.is_empty()).map(str::parse);
    let choices: Vec<u16> = choices.collect::<Result<_, _>>().map_err(|_| wrong())?;
    let replayed = explore::replay(&scenario, faults, &choices);
    println!("{}", replayed.history);
    Ok(match replayed.violation {
        Some(violation) => {
            println!("VIOLATION {violation}");
            ExitCode::FAILURE
        }
        None if replayed.cut => {
            println!(
                "the path ends here: what follows is explored in another order; the rules of the end were not checked"
            );
            ExitCode::from(2)
        }
        None => {
            println!("all rules hold on this path");
            ExitCode::SUCCESS
        }
    })
}

fn explore(options: &Options) -> ExitCode {
    // All scenarios with few faults come before any with many, if the first violation is all that is wanted.
    let fewer = if options.first { 0..options.faults } else { 0..0 };
    for faults in fewer {
        explore_all(&Options { faults, ..options.clone() });
    }
    explore_all(options)
}

fn explore_all(options: &Options) -> ExitCode {
    let scenarios = match &options.scenarios[..] {
        [] => Scenario::all(options.workers),
        some => some.to_vec(),
    };
    let until = options.minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
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
                    println!("{}", line(*scenario, &report, begun.elapsed()));
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
    println!("explored {states} states, {paths} paths: {violations} violations");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(scenario: Scenario, report: &Report, took: Duration) -> String {
    let Report { states, paths, frontier, .. } = report;
    let far = match frontier {
        Some((faults, choices)) => {
            format!(", not all: of the paths with {faults} faults it came to {}", dotted(choices))
        }
        None => String::new(),
    };
    format!("{scenario}: {states} states, {paths} paths in {:.1} s{far}", took.as_secs_f64())
}

fn explain(scenario: Scenario, violation: &Violation) {
    let Violation { message, choices, faults, .. } = violation;
    println!("\nVIOLATION in {scenario}: {message}\n");
    println!("{}", explore::replay(&scenario, *faults, choices).history);
    println!("replay: make explore ARGS=\"--replay {scenario}:{faults}:{}\"\n", dotted(choices));
}

fn dotted(choices: &[u16]) -> String {
    choices.iter().map(u16::to_string).collect::<Vec<_>>().join(".")
}
