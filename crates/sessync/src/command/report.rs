//! `sessync report`: tokens and costs per day, project and model, from the files of this machine.

use std::io::{self, Write};
use std::path::Path;

use super::Error;
use super::print::{self, count};
use crate::dir::{Location, Readers};
use crate::settings::Process;
use crate::source::each_line;
use crate::source::files::Scope;
use crate::usage::{Collector, Report, Row, page, prices};

pub(super) fn run(
    process: &Process,
    all: bool,
    html: Option<&Path>,
    json: bool,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let scope = if all { Scope::All } else { Scope::Project(process.directory.clone()) };
    let mut collector = Collector::default();
    each_line(&process.roots(), &scope, &mut |_, _, _, line| collector.line(line))?;
    let report = collector.report();
    if let Some(path) = html {
        let written = write_page(path, &page::html(&report));
        written.map_err(|source| Error::Page { path: path.to_owned(), source })?;
    }
    if json {
        print::json(&report, out)?;
    } else {
        table(&report, out)?;
        if let Some(path) = html {
            writeln!(out, "Wrote {}.", path.display())?;
        }
    }
    Ok(0)
}

fn write_page(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = Location::plain(parent).open()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    dir.replace(&name, Readers::Owner, &mut |to| to.write_all(text.as_bytes()))
}

fn table(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.days.is_empty() {
        return writeln!(out, "No usage found.");
    }
    let cell = |row: &Row| {
        let cost = format!("{:.2}{}", prices::dollars(row.cost), if row.unpriced > 0 { "+" } else { "" });
        let tokens = &row.tokens;
        format!(
            "{:>12} {:>12} {:>14} {:>14} {cost:>10}",
            tokens.input_tokens, tokens.output_tokens, tokens.cache_read_tokens, tokens.cache_creation_tokens
        )
    };
    let wide = |of: &dyn Fn(usize) -> usize| (0..report.days.len()).map(of).max().unwrap_or(0);
    let project = wide(&|at| report.days[at].project.chars().count()).max(7);
    let model = wide(&|at| report.days[at].model.chars().count()).max(5);
    let titles =
        format!("{:>12} {:>12} {:>14} {:>14} {:>10}", "input", "output", "cache read", "cache creation", "USD");
    writeln!(out, "{:<10} {:<project$} {:<model$} {titles}", "day (UTC)", "project", "model")?;
    for day in &report.days {
        writeln!(out, "{:<10} {:<project$} {:<model$} {}", day.day, day.project, day.model, cell(&day.row))?;
    }
    writeln!(out, "{:<10} {:<project$} {:<model$} {}", "total", "", "", cell(&report.total))?;
    let subagents = &report.total.subagents;
    if subagents.output_tokens > 0 {
        writeln!(
            out,
            "Sub-agents used {} input and {} output tokens of it.",
            subagents.input_tokens, subagents.output_tokens
        )?;
    }
    if report.total.unpriced > 0 {
        writeln!(
            out,
            "{} of models without a known price: their cost is missing (+).",
            count(report.total.unpriced, "response")
        )?;
    }
    Ok(())
}
