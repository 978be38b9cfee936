//! `sessync upload`: upload new lines.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::print::{count, examples, json, list, no_logs};
use super::{AUTO_TIME, Error, LOCK_WAIT, Session};
use crate::clock::Clock as _;
use crate::failure;
use crate::journal::disk::Directory;
use crate::journal::{self, Journal, lock, open};
use crate::outside::shared::{MAX_ROWS, Shared};
use crate::redact::Redactor;
use crate::settings::StateKind;
use crate::source;
use crate::source::files::Discovery;
use crate::upload::{self, DEAD_LETTERS, Options, Patience, Progress, Summary, Upload};

/// A run without `--auto` is ended after this time.
const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run(
    session: &Session,
    dry_run: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, Error> {
    let Session { project, bigquery, clock, auto, .. } = session;
    if *auto && !project.config.auto_upload {
        return Ok(0);
    }
    let found = source::find(&project.roots, &project.scope);
    let redactor = Redactor::new(&project.config.redact)?;
    let options = options(session, dry_run);
    if dry_run {
        let mut journal = open::for_reading(project)?;
        let (summary, result) = run_with(session, &mut journal, None, &redactor, &options, &found, &mut ()).await;
        result?;
        print(&summary, &found, true, session.json, out)?;
        return Ok(0);
    }
    let wait = if *auto { Duration::ZERO } else { LOCK_WAIT };
    let _lock = lock::take(project, wait, clock).await?;
    let (mut journal, notes) = open::for_writing(project, bigquery, clock).await?;
    for note in notes {
        writeln!(err, "sessync: {note}")?;
    }
    let shared = match &project.config.state {
        StateKind::File => None,
        StateKind::DynamoDb { table, region } => {
            Some(Shared::connect(table, region.as_deref(), &project.destination).await)
        }
    };
    let mut bar = Bar { shown: session.bar, bar: None, rows: 0 };
    let (mut summary, mut result) =
        run_with(session, &mut journal, shared.as_ref(), &redactor, &options, &found, &mut bar).await;
    if let Err(upload::Error::Journal(journal::Error::Damaged(reason))) = &result {
        // The table of keys is read late, so its damage shows only now. The journal knows of everything that was sent.
        writeln!(err, "sessync: the state is damaged ({reason}); it is set aside and rebuilt from BigQuery")?;
        journal = open::rebuild(project, reason, bigquery, clock).await?;
        (summary, result) =
            run_with(session, &mut journal, shared.as_ref(), &redactor, &options, &found, &mut bar).await;
    }
    bar.end();
    print(&summary, &found, false, session.json, out)?;
    match result {
        // A hook goes on where the last one stopped.
        Err(upload::Error::OutOfTime) if *auto && summary.uploaded > 0 => {}
        result => result?,
    }
    let incomplete = summary.set_aside > 0 || !summary.unreadable.is_empty();
    if !incomplete {
        // It is shown until it is gone. That it could not be removed must not fail an upload that succeeded.
        let _ = failure::clear(&project.home);
    }
    Ok(u8::from(incomplete))
}

/// One run over the logs that were found.
pub(super) async fn run_with(
    session: &Session,
    journal: &mut Journal<Directory>,
    shared: Option<&Shared>,
    redactor: &Redactor,
    options: &Options,
    found: &Discovery,
    progress: &mut dyn Progress,
) -> (Summary, Result<(), upload::Error>) {
    let Session { bigquery, clock, .. } = session;
    let rng = fastrand::Rng::new();
    Upload { bigquery, clock, journal, shared, redactor, options, rng, progress }.run(found).await
}

pub(super) fn options(session: &Session, dry_run: bool) -> Options {
    let Session { project, clock, auto, .. } = session;
    let config = &project.config;
    let most = if config.state == StateKind::File { usize::MAX } else { MAX_ROWS };
    Options {
        batch_rows: config.batch_rows.min(most),
        deduplication: config.deduplication,
        origin: project.origin(),
        scope: project.scope.clone(),
        settle: project.settle(),
        patience: Patience { until: clock.elapsed() + if *auto { AUTO_TIME } else { A_DAY } },
        dry_run,
    }
}

fn print(summary: &Summary, found: &Discovery, dry_run: bool, as_json: bool, out: &mut dyn Write) -> io::Result<()> {
    if as_json {
        return json(summary, out);
    }
    if found.logs.is_empty() {
        return no_logs(found, out);
    }
    if dry_run && summary.lines == 0 {
        writeln!(out, "Would upload nothing: there is nothing new in {}.", count(summary.files as u64, "file"))?;
    } else if dry_run {
        writeln!(
            out,
            "Would upload {} of {} in {}.",
            summary.would_upload,
            count(summary.lines, "line"),
            count(summary.files_read as u64, "file")
        )?;
    } else if summary.lines == 0 && summary.recovered == 0 {
        writeln!(out, "Nothing to do: everything in {} is uploaded.", count(summary.files as u64, "file"))?;
    } else {
        writeln!(
            out,
            "Uploaded {} in {} from {}.",
            count(summary.uploaded, "row"),
            count(summary.batches, "batch"),
            count(summary.files_read as u64, "file")
        )?;
    }
    if dry_run && summary.uncertain > 0 {
        writeln!(
            out,
            "An earlier run was interrupted: BigQuery would first be asked about {}.",
            count(summary.uncertain, "row")
        )?;
    }
    let notes = [
        (summary.recovered, "row", "of an interrupted run found in BigQuery"),
        (summary.duplicates, "line", "equal to one that is uploaded"),
        (summary.other_content, "line", "with the uuid of another line and other content, uploaded too"),
        (summary.foreign, "file", "of another project with the same directory name left out"),
    ];
    for (number, thing, what) in notes.into_iter().filter(|(number, ..)| *number > 0) {
        writeln!(out, "  {} {what}", count(number, thing))?;
    }
    if !summary.skipped.is_empty() {
        let lines = count(summary.skipped.values().sum::<u64>(), "line");
        writeln!(out, "  {lines} skipped, because they cannot be rows: {}", list(&summary.skipped))?;
        examples(&summary.skipped_examples, out)?;
    }
    if !summary.redacted.is_empty() {
        let what = if dry_run { "would be redacted" } else { "redacted" };
        let secrets = count(summary.redacted.values().sum::<u64>(), "secret");
        writeln!(out, "  {secrets} {what}: {}", list(&summary.redacted))?;
        if dry_run {
            examples(&summary.redacted_examples, out)?;
        }
    }
    if summary.set_aside > 0 {
        writeln!(out, "  {} set aside, see {DEAD_LETTERS}:", count(summary.set_aside, "row"))?;
        examples(&summary.set_aside_examples, out)?;
    }
    if !summary.unreadable.is_empty() {
        writeln!(out, "  could not be read:")?;
        examples(&summary.unreadable, out)?;
    }
    Ok(())
}

/// A bar with the rate and the time left, shown as soon as there is something to read.
#[derive(Debug)]
struct Bar {
    shown: bool,
    bar: Option<ProgressBar>,
    rows: u64,
}

impl Bar {
    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn total(&mut self, bytes: u64) {
        if !self.shown || bytes == 0 {
            return;
        }
        let bar = ProgressBar::new(bytes);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} left, {msg}")
        {
            bar.set_style(style);
        }
        bar.set_message("0 rows uploaded");
        self.bar = Some(bar);
    }

    fn read(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn uploaded(&mut self, rows: u64) {
        self.rows += rows;
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} uploaded", count(self.rows, "row")));
        }
    }
}
