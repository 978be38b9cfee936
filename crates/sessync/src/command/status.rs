//! `sessync status`: how many lines are uploaded, how many are not, and how old the oldest of these is.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::print::{count, json, list, no_logs};
use super::{Error, Session, upload};
use crate::clock::Clock as _;
use crate::failure::{self, Failure};
use crate::journal::{legacy, open};
use crate::redact::Redactor;
use crate::settings::{self, StateKind};
use crate::source;
use crate::source::files::Discovery;
use crate::upload::{DEAD_LETTERS, set_aside_uuids};

/// After how many days Claude Code deletes transcripts, unless its settings say otherwise.
const DEFAULT_CLEANUP_DAYS: u64 = 30;
/// How many days before Claude Code deletes a transcript the user is warned.
const WARN_DAYS: u64 = 7;

#[derive(Debug, Serialize)]
struct Status {
    project: PathBuf,
    destination: String,
    trusted: bool,
    state: PathBuf,
    shared: Option<String>,
    uploaded: u64,
    last_upload: Option<String>,
    last_batch: Option<String>,
    files: usize,
    not_uploaded: u64,
    oldest_not_uploaded: Option<String>,
    oldest_age_days: Option<u64>,
    deleted_after_days: u64,
    uncertain: u64,
    set_aside: usize,
    skipped: BTreeMap<&'static str, u64>,
    /// The failure of the last hook, if it failed.
    last_failure: Option<Failure>,
}

pub(super) async fn run(session: &Session, out: &mut dyn Write) -> Result<u8, Error> {
    let project = &session.project;
    let found = source::find(&project.roots, &project.scope);
    let mut journal = open::for_reading(project)?;
    let mut options = upload::options(session, true);
    options.deduplication = true;
    let (summary, result) =
        upload::run_with(session, &mut journal, None, &Redactor::none(), &options, &found, &mut ()).await;
    result?;
    let now = session.clock.now();
    let totals = &journal.state().totals;
    let status = Status {
        project: project.path.clone(),
        destination: project.destination.clone(),
        trusted: project.trust.is_ok(),
        state: project.state().path(),
        shared: match &project.config.state {
            StateKind::DynamoDb { table, .. } => Some(table.clone()),
            StateKind::File => None,
        },
        uploaded: totals.uploaded,
        last_upload: totals.last_upload.map(|time| time.to_string()),
        last_batch: totals.last_batch.clone(),
        files: found.logs.len(),
        not_uploaded: summary.would_upload,
        oldest_not_uploaded: summary.oldest.map(|time| time.to_string()),
        oldest_age_days: summary.oldest.map(|oldest| now.since(oldest).as_secs() / 86_400),
        deleted_after_days: cleanup_days(&session.claude),
        uncertain: summary.uncertain,
        set_aside: set_aside_uuids(journal.disk())?.len(),
        skipped: summary.skipped,
        last_failure: failure::last(&project.home).map_err(settings::Error::State)?,
    };
    if session.json {
        json(&status, out)?
    } else {
        print(&status, &found, out)?;
        if let Err(untrusted) = &project.trust {
            writeln!(out, "Not trusted   {untrusted}")?;
        }
        if let Some(note) = legacy::changed(project)? {
            writeln!(out, "Note          {note}")?;
        }
    }
    Ok(0)
}

fn print(status: &Status, found: &Discovery, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Destination   {}", status.destination)?;
    writeln!(out, "State         {}", status.state.display())?;
    if let Some(table) = &status.shared {
        writeln!(out, "Shared        DynamoDB table {table}")?;
    }
    let last = status.last_upload.as_ref().map_or_else(|| "never".to_owned(), |time| format!("last at {time}"));
    writeln!(out, "Uploaded      {}, {last}", count(status.uploaded, "line"))?;
    if let Some(failure) = &status.last_failure {
        writeln!(out, "Failure       {failure}")?;
    }
    if status.set_aside > 0 {
        writeln!(out, "Set aside     {}, see {DEAD_LETTERS}", count(status.set_aside as u64, "row"))?;
    }
    if status.uncertain > 0 {
        writeln!(out, "Uncertain     {}; the next upload asks BigQuery", count(status.uncertain, "row"))?;
    }
    if !status.skipped.is_empty() {
        writeln!(out, "Skipped       {}", list(&status.skipped))?;
    }
    if found.logs.is_empty() {
        return no_logs(found, out);
    }
    let not_uploaded = count(status.not_uploaded, "line");
    match (&status.oldest_not_uploaded, status.oldest_age_days) {
        (Some(oldest), Some(age)) => {
            writeln!(out, "Not uploaded  {not_uploaded}, the oldest of {oldest} ({} ago)", count(age, "day"))?;
            if age + WARN_DAYS >= status.deleted_after_days {
                writeln!(
                    out,
                    "Warning: Claude Code deletes transcripts after {}; run `sessync` before they are gone.",
                    count(status.deleted_after_days, "day")
                )?;
            }
        }
        _ => writeln!(out, "Not uploaded  {not_uploaded}")?,
    }
    Ok(())
}

/// After how many days Claude Code deletes transcripts.
fn cleanup_days(claude: &Path) -> u64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ClaudeSettings {
        cleanup_period_days: Option<u64>,
    }
    std::fs::read_to_string(claude.join("settings.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<ClaudeSettings>(&text).ok()?.cleanup_period_days)
        .unwrap_or(DEFAULT_CLEANUP_DAYS)
}
