//! `sessync reset`: put the state aside, or rebuild it from BigQuery.

use std::io::{self, Write};

use serde_json::json;

use super::{Error, LOCK_WAIT, Session};
use crate::clock::Clock as _;
use crate::journal::{legacy, lock, open};

pub(super) async fn run(session: &Session, rebuild: bool, out: &mut dyn Write) -> Result<u8, Error> {
    let Session { project, bigquery, clock, .. } = session;
    let _lock = lock::take(&project.directory, LOCK_WAIT, clock).await?;
    if rebuild {
        let journal = open::rebuild(project, "reset --rebuild", bigquery, clock).await?;
        let rows = journal.state().totals.uploaded;
        match session.json {
            true => writeln!(out, "{}", json!({"reset": true, "rows": rows}))?,
            false => writeln!(out, "Rebuilt the state: the {rows} rows that BigQuery has count as uploaded.")?,
        }
        return Ok(0);
    }
    let directory = project.state_directory();
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let aside = directory.with_file_name(format!("{name}.reset-{}", clock.now().0));
    let kept = match std::fs::rename(&directory, &aside) {
        Ok(()) => Some(aside),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(Error::Move { path: directory, source }),
    };
    legacy::never_again(&project.directory)?;
    match (session.json, kept) {
        (true, kept) => writeln!(out, "{}", json!({"reset": true, "kept": kept}))?,
        (false, None) => writeln!(out, "There was no state.")?,
        (false, Some(kept)) => writeln!(
            out,
            "The next upload sends everything again. Rows that BigQuery already has will be there twice.\n\
             To count them as uploaded instead, run `sessync reset --rebuild`.\nThe old state is kept in {}.",
            kept.display()
        )?,
    }
    Ok(0)
}
