//! What a user gets to see: text for people, JSON for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::discovery::Found;
use crate::hook::Changed;
use crate::project::Comparison;
use crate::upload::Summary;

/// Of how many days before Claude Code deletes a transcript its owner is told.
const WARN_DAYS: u64 = 7;

/// What `status` says.
#[derive(Debug, Serialize)]
pub struct Status {
    pub destination: String,
    pub state: PathBuf,
    pub shared: Option<String>,
    pub uploaded: u64,
    pub last_upload: Option<String>,
    pub last_batch: Option<String>,
    pub files: usize,
    pub not_uploaded: u64,
    pub oldest_not_uploaded: Option<String>,
    pub oldest_age_days: Option<u64>,
    pub deleted_after_days: u64,
    pub uncertain: u64,
    pub set_aside: usize,
    pub skipped: BTreeMap<&'static str, u64>,
}

/// What an upload did, or would do.
pub fn upload(summary: &Summary, found: &Found, dry_run: bool, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return line(summary, out);
    }
    if found.logs.is_empty() {
        return no_logs(found, out);
    }
    if dry_run {
        writeln!(
            out,
            "Would upload {} of {} lines in {} files.",
            summary.would_upload, summary.lines, summary.files_read
        )?;
        if summary.uncertain > 0 {
            writeln!(
                out,
                "An earlier run was cut short: BigQuery would first be asked about {} rows.",
                summary.uncertain
            )?;
        }
    } else if summary.lines == 0 && summary.recovered == 0 {
        writeln!(out, "Nothing to do: everything in {} files is uploaded.", summary.files)?;
    } else {
        writeln!(
            out,
            "Uploaded {} rows in {} batches from {} files.",
            summary.uploaded, summary.batches, summary.files_read
        )?;
    }
    let counts = [
        (summary.recovered, "rows of an earlier run that was cut short were found in BigQuery"),
        (summary.duplicates, "lines were uploaded already"),
        (summary.other_content, "lines have the uuid of another line and other content; they are kept"),
        (summary.foreign, "files belong to another project with the same directory name"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        writeln!(out, "  {count} {what}")?;
    }
    if !summary.skipped.is_empty() {
        writeln!(out, "  {} lines are no rows: {}", summary.skipped.values().sum::<u64>(), list(&summary.skipped))?;
        examples(&summary.skipped_examples, out)?;
    }
    if !summary.redacted.is_empty() {
        let what = if dry_run { "would be redacted" } else { "were redacted" };
        writeln!(out, "  {} secrets {what}: {}", summary.redacted.values().sum::<u64>(), list(&summary.redacted))?;
        if dry_run {
            examples(&summary.redacted_examples, out)?;
        }
    }
    if summary.set_aside > 0 {
        writeln!(out, "  {} rows were set aside, see {}:", summary.set_aside, crate::upload::DEAD_LETTERS)?;
        examples(&summary.set_aside_examples, out)?;
    }
    if !summary.unreadable.is_empty() {
        writeln!(out, "  could not be read:")?;
        examples(&summary.unreadable, out)?;
    }
    Ok(())
}

/// What is uploaded and what is not.
pub fn status(status: &Status, found: &Found, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return line(status, out);
    }
    writeln!(out, "Destination   {}", status.destination)?;
    writeln!(out, "State         {}", status.state.display())?;
    if let Some(table) = &status.shared {
        writeln!(out, "Shared        DynamoDB table {table}")?;
    }
    let last = status.last_upload.as_ref().map_or_else(|| "never".to_owned(), |time| format!("last {time}"));
    writeln!(out, "Uploaded      {} lines, {last}", status.uploaded)?;
    if status.set_aside > 0 {
        writeln!(out, "Set aside     {} rows, see {}", status.set_aside, crate::upload::DEAD_LETTERS)?;
    }
    if status.uncertain > 0 {
        writeln!(out, "Uncertain     {} rows; the next upload asks BigQuery", status.uncertain)?;
    }
    if !status.skipped.is_empty() {
        writeln!(out, "No rows       {}", list(&status.skipped))?;
    }
    if found.logs.is_empty() {
        return no_logs(found, out);
    }
    match (&status.oldest_not_uploaded, status.oldest_age_days) {
        (Some(oldest), Some(age)) => {
            writeln!(out, "Not uploaded  {} lines, the oldest of {oldest} ({age} days ago)", status.not_uploaded)?;
            if age + WARN_DAYS >= status.deleted_after_days {
                writeln!(
                    out,
                    "Warning: Claude Code deletes transcripts after {} days; upload before they are gone.",
                    status.deleted_after_days
                )?;
            }
        }
        _ => writeln!(out, "Not uploaded  {} lines", status.not_uploaded)?,
    }
    Ok(())
}

/// Whether the destination has what it should have.
pub fn verify(comparison: &Comparison, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return line(comparison, out);
    }
    let Comparison { lines, uploaded, not_uploaded_yet, set_aside, missing, doubled, .. } = comparison;
    writeln!(out, "{lines} lines in the logs: {uploaded} uploaded, {not_uploaded_yet} not yet, {set_aside} set aside")?;
    if *missing == 0 && *doubled == 0 {
        return writeln!(out, "BigQuery has each uploaded line once.");
    }
    if *missing > 0 {
        writeln!(out, "{missing} uploaded lines are missing in BigQuery (`sessync forget UUID` uploads one again):")?;
        examples(&comparison.missing_examples, out)?;
    }
    if *doubled > 0 {
        writeln!(out, "{doubled} rows are in BigQuery more often than in the logs:")?;
        examples(&comparison.doubled_examples, out)?;
    }
    Ok(())
}

/// What became of the settings file.
pub fn hook(changed: &Changed, done: &str, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return line(changed, out);
    }
    let path = changed.settings.display();
    match (changed.changed, &changed.backup) {
        (false, _) => writeln!(out, "Nothing to do in {path}."),
        (true, None) => writeln!(out, "{done} ({path})"),
        (true, Some(backup)) => writeln!(out, "{done} ({path}; as it was: {})", backup.display()),
    }
}

fn no_logs(found: &Found, out: &mut dyn Write) -> io::Result<()> {
    let looked: Vec<String> = found.looked.iter().map(|path| path.display().to_string()).collect();
    writeln!(out, "No logs found. Looked for *.jsonl in {}", looked.join(", "))
}

fn list<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    counts.iter().map(|(what, count)| format!("{count} {}", what.as_ref())).collect::<Vec<_>>().join(", ")
}

fn examples(examples: &[String], out: &mut dyn Write) -> io::Result<()> {
    examples.iter().try_for_each(|example| writeln!(out, "    {example}"))
}

fn line(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
