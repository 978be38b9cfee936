//! Opening a project's journal.
//!
//! A new journal takes over an `upload-state.json` of an earlier version. A damaged journal is set aside with the
//! reason and rebuilt from what BigQuery has. If BigQuery cannot be asked, nothing is uploaded.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use super::disk::Directory;
use super::seen::Seen;
use super::state::State;
use super::{Journal, legacy, moved};
use crate::clock::{Clock, Time};
use crate::outside::bigquery::{self, BigQuery, QUESTION};
use crate::outside::transport::Transport;
use crate::settings::Project;
use crate::source;
use crate::source::line::{MAX_UNKNOWN, uuid_half};

/// How many lines of one developer and project a journal is rebuilt from at most: their keys are kept in memory.
pub(crate) const MAX_ROWS: u64 = 5_000_000;

/// Why a project's journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Journal(#[from] super::Error),
    #[error(transparent)]
    Legacy(#[from] legacy::Error),
    #[error("the state has to be built from BigQuery ({reason}), but it cannot be asked which rows it has: {source}")]
    Rebuild { reason: String, source: bigquery::Error },
    #[error(transparent)]
    Logs(#[from] source::Error),
    #[error("cannot rename {}: {source}; make its directory writable, or move it away", path.display())]
    Rename { path: PathBuf, source: io::Error },
    #[error("the state cannot be moved from {} to {}: {source}; correct that, or remove the old state (`sessync reset --rebuild` then rebuilds it)", from.display(), to.display())]
    Move { from: PathBuf, to: PathBuf, source: io::Error },
}

/// The journal, for reading only.
pub(crate) fn for_reading(project: &Project) -> Result<Journal<Directory>, Error> {
    let location = moved::current(project).map_err(super::Error::Unreadable)?;
    let journal = Journal::open(Directory::new(location), &project.destination);
    let journal = journal.map_err(|(error, _)| error)?;
    if journal.is_new()
        && let Some(old) = legacy::peek(project)?
    {
        return Ok(adopt(project, &old));
    }
    Ok(journal)
}

/// The journal, for writing. The texts say what the user should know about how it was opened.
pub(crate) async fn for_writing<T: Transport, C: Clock>(
    project: &Project,
    bigquery: &BigQuery<T>,
    clock: &C,
) -> Result<(Journal<Directory>, Vec<String>), Error> {
    let mut notes = Vec::from_iter(moved::take_over(project)?);
    let journal = match Journal::open(Directory::new(project.state()), &project.destination) {
        Ok(journal) if journal.is_new() => match legacy::import(project) {
            Ok(None) if project.config.deduplication => {
                // A project that was moved or cloned again has no journal, but BigQuery may have its lines.
                let (state, seen) = ask(project, "there is none for this path", bigquery, clock).await?;
                if state.totals.uploaded > 0 {
                    let rows = state.totals.uploaded;
                    let rows = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
                    notes.push(format!("BigQuery has {rows} of this project; what it has counts as uploaded"));
                }
                let mut journal = Journal::fresh(Directory::new(project.state()), state, seen);
                journal.compact()?;
                journal
            }
            Ok(None) => journal,
            Ok(Some(old)) => {
                notes.push(format!("imported {} uuids from {}", old.uploaded_uuids.len(), legacy::FILE));
                let mut journal = adopt(project, &old);
                journal.compact()?;
                journal
            }
            Err(legacy::Error::Unreadable { path, reason }) => {
                let reason = format!("{} is damaged: {reason}", legacy::FILE);
                let rebuilt = rebuild(project, &reason, bigquery, clock).await?;
                let aside = legacy::set_aside(project, clock.now());
                let aside = aside.map_err(|source| Error::Rename { path: path.clone(), source })?;
                notes.push(format!("{reason}; it is kept as {aside}"));
                rebuilt
            }
            Err(error) => return Err(error.into()),
        },
        Ok(journal) => {
            if let Some(note) = legacy::changed(project)? {
                notes.push(note);
                legacy::told(project)?;
            }
            journal
        }
        Err((super::Error::Damaged(reason), _)) => {
            let journal = rebuild(project, &reason, bigquery, clock).await?;
            notes.push(format!("the journal was damaged ({reason}); it was set aside and rebuilt from BigQuery"));
            journal
        }
        Err((error, _)) => return Err(error.into()),
    };
    Ok((journal, notes))
}

/// Sets the journal aside and makes a new one of what BigQuery has.
pub(crate) async fn rebuild<T: Transport, C: Clock>(
    project: &Project,
    reason: &str,
    bigquery: &BigQuery<T>,
    clock: &C,
) -> Result<Journal<Directory>, Error> {
    let (state, seen) = ask(project, reason, bigquery, clock).await?;
    let mut disk = Directory::new(project.state());
    super::set_aside(&mut disk, reason, clock.now())?;
    let mut journal = Journal::fresh(disk, state, seen);
    journal.compact()?;
    Ok(journal)
}

/// What BigQuery has of this developer and project, and what it has of the lines in the local files. A project can
/// have had another name, because the name is that of its directory unless the config says otherwise. So the rows
/// of the developer's other projects are read too, from the time of the oldest local line, and only those of local
/// lines are kept. Rows are read page by page; a key of each is kept.
async fn ask<T: Transport, C: Clock>(
    project: &Project,
    reason: &str,
    bigquery: &BigQuery<T>,
    clock: &C,
) -> Result<(State, Seen), Error> {
    let now = clock.now();
    let mut state = State::new(&project.destination);
    state.calendar = state.calendar.advance(now.day());
    let mut seen = Seen::default();
    let mut local = HashSet::new();
    let mut oldest: Option<Time> = None;
    source::each_line(&project.roots, &project.scope, &mut |_, _, _, line| {
        local.insert(uuid_half(&line.uuid));
        if let Some(time) = Time::parse(&line.timestamp) {
            oldest = Some(oldest.map_or(time, |oldest| oldest.min(time)));
        }
    })?;
    let mut add = |uuid: &str, count: u64| {
        state.totals.uploaded += count;
        for _ in 0..count.min(MAX_UNKNOWN) {
            seen.insert_unknown(uuid, state.calendar.today);
        }
        match state.totals.uploaded > MAX_ROWS {
            true => Err(bigquery::Error::TooMany(MAX_ROWS)),
            false => Ok(()),
        }
    };
    let (developer, name) = (&project.config.developer_id, &project.config.project_name);
    let failed = |source| Error::Rebuild { reason: reason.to_owned(), source };
    bigquery.rows_of_project(developer, name, now, QUESTION, &mut add).await.map_err(failed)?;
    if let Some(oldest) = oldest {
        let mut add_local =
            |uuid: &str, count: u64| if local.contains(&uuid_half(uuid)) { add(uuid, count) } else { Ok(()) };
        // One second more: BigQuery keeps microseconds.
        let since = Time(oldest.0 - 1000);
        let asked = bigquery.rows_of_other_projects(developer, name, since, now, QUESTION, &mut add_local);
        asked.await.map_err(failed)?;
    }
    Ok((state, seen))
}

fn adopt(project: &Project, old: &legacy::UploadState) -> Journal<Directory> {
    let mut state = State::new(&project.destination);
    let mut seen = Seen::default();
    state.totals = legacy::adopt(old, &mut seen, state.calendar.today);
    Journal::fresh(Directory::new(project.state()), state, seen)
}
