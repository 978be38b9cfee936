//! How cost grows: what one unit of work costs with ten times as much of everything around it.
//!
//! A *subject* has a size that a user's system grows by: keys in a table, accounts, feeds, members of a group. It measures
//! one or more operations at four sizes, in one run, and each gives a *curve*. The slope of a curve says how the cost of one
//! unit grows: 0 is flat, 1 means that each unit costs in proportion to the size. `make bench BENCH=curves` runs all of them;
//! `scripts/charts` draws what `--json` wrote, and `docs/benchmarks.md` shows it.
//!
//! The real code runs on an embedded DynamoDB in a thread of its own ([`store`]), whose CPU does not count. What the local
//! memory and sessync take is measured in child processes of this program ([`child`]).

mod child;
mod curve;
mod measure;
mod prices;
mod report;
mod store;
mod subject;

use std::fs;
use std::io::{ErrorKind, Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum as _};

use crate::prices::Prices;
use crate::report::{Report, Run};
use crate::subject::{Sizes, Subject};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures what one unit of work costs at four sizes of what is around it, and prints the slopes. Fails if a curve grows faster than its work
#[derive(Debug, Parser)]
#[command(name = "curves")]
struct Arguments {
    /// Measure only this subject; may be repeated
    #[arg(long, value_enum)]
    subject: Vec<Subject>,
    /// How large the sizes are: `full` takes about ten minutes, `small` less than one, `tiny` shows only that everything works
    #[arg(long, value_enum, default_value = "full")]
    sizes: Sizes,
    /// Write the figures to this file too, for scripts/charts. Subjects of the file that are not measured stay as they are
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(code) = child::main() {
        return code;
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "curves: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let prices = Prices::read(&workspace().join("infra/cost/prices.json"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(path) = &arguments.json {
        written_before(path)?;
    }
    let mut too_fast = Vec::new();
    let wanted = if arguments.subject.is_empty() { Subject::value_variants() } else { &arguments.subject };
    for &subject in wanted {
        let run = Run::begin(arguments.sizes);
        let curves = runtime.block_on(subject.measure(arguments.sizes, &prices));
        let curves = curves.map_err(|error| format!("{subject}: {error}"))?;
        for curve in &curves {
            report::print(&mut stdout(), curve)?;
        }
        too_fast.extend(report::too_fast(&curves, arguments.sizes));
        // After each subject, so that what was measured is there although a later one fails. The file is read again, because
        // another run may have measured other subjects in the meantime.
        if let Some(path) = &arguments.json {
            let mut report = written_before(path)?;
            report.replace(subject, &run, &curves)?;
            fs::write(path, report.json()?)
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
    }
    match too_fast.as_slice() {
        [] => Ok(()),
        curves => Err(format!(
            "what grows faster than its work has to be mended, or expected with a reason (`Expected` in crates/curves/src/subject):\n  {}",
            curves.join("\n  "),
        )
        .into()),
    }
}

/// What earlier runs wrote to this file.
fn written_before(path: &Path) -> Result<Report> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Report::of(&text)
            .map_err(|error| format!("{} is not what this program writes: {error}", path.display()))?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Report::empty()),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display()).into()),
    }
}

/// Says on standard error what is being done.
fn progress(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(stderr(), "curves: {text}");
}

/// The root of the project.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
