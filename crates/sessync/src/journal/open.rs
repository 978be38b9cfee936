//! Opening a project's journal.
//!
//! A new journal takes over an `upload-state.json` of an earlier version. A damaged journal is set aside with the
//! reason and rebuilt from what BigQuery has. If BigQuery cannot be asked, nothing is uploaded.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::disk::Directory;
use super::seen::Seen;
use super::state::State;
use super::{Journal, legacy};
use crate::clock::{Clock, Time};
use crate::outside::bigquery::{self, BigQuery, QUESTION};
use crate::outside::transport::Transport;
use crate::settings::Project;
use crate::source::line::MAX_UNKNOWN;

/// Why a project's journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Journal(#[from] super::Error),
    #[error(transparent)]
    Legacy(#[from] legacy::Error),
    #[error("the state has to be rebuilt ({reason}), but BigQuery cannot be asked which rows it has: {source}")]
    Rebuild { reason: String, source: bigquery::Error },
    #[error("cannot rename {}: {source}; make its directory writable, or move it away", path.display())]
    Rename { path: PathBuf, source: io::Error },
}

/// The journal, for reading only.
pub(crate) fn for_reading(project: &Project) -> Result<Journal<Directory>, Error> {
    let journal = Journal::open(Directory::new(project.state_directory()), &project.destination);
    let journal = journal.map_err(|(error, _)| error)?;
    if journal.is_new()
        && let Some(old) = legacy::peek(&project.directory, &project.destination)?
    {
        return Ok(adopt(project, &old));
    }
    Ok(journal)
}

/// The journal, for writing. The text says what the user should know about how it was opened.
pub(crate) async fn for_writing<T: Transport, C: Clock>(
    project: &Project,
    bigquery: &BigQuery<T>,
    clock: &C,
) -> Result<(Journal<Directory>, Option<String>), Error> {
    match Journal::open(Directory::new(project.state_directory()), &project.destination) {
        Ok(journal) if journal.is_new() => match legacy::import(&project.directory, &project.destination) {
            Ok(None) => Ok((journal, None)),
            Ok(Some(old)) => {
                let note = format!("imported {} uuids from {}", old.uploaded_uuids.len(), legacy::FILE);
                let mut journal = adopt(project, &old);
                journal.compact()?;
                Ok((journal, Some(note)))
            }
            Err(legacy::Error::Unreadable { path, reason }) => {
                let reason = format!("{} is damaged: {reason}", legacy::FILE);
                let rebuilt = rebuild(project, &reason, bigquery, clock).await?;
                let aside = path.with_extension(format!("json.damaged-{}", clock.now().0));
                fs::rename(&path, &aside).map_err(|source| Error::Rename { path: path.clone(), source })?;
                Ok((rebuilt, Some(format!("{reason}; it is kept as {}", aside.display()))))
            }
            Err(error) => Err(error.into()),
        },
        Ok(journal) => Ok((journal, None)),
        Err((super::Error::Damaged(reason), _)) => {
            let journal = rebuild(project, &reason, bigquery, clock).await?;
            let note = format!("the journal was damaged ({reason}); it was set aside and rebuilt from BigQuery");
            Ok((journal, Some(note)))
        }
        Err((error, _)) => Err(error.into()),
    }
}

/// Sets the journal aside and makes a new one of what BigQuery has.
pub(crate) async fn rebuild<T: Transport, C: Clock>(
    project: &Project,
    reason: &str,
    bigquery: &BigQuery<T>,
    clock: &C,
) -> Result<Journal<Directory>, Error> {
    let now = clock.now();
    let rows = bigquery
        .rows_since(Time(0), now, QUESTION)
        .await
        .map_err(|source| Error::Rebuild { reason: reason.to_owned(), source })?;
    let mut disk = Directory::new(project.state_directory());
    super::set_aside(&mut disk, reason, now)?;
    let mut state = State::new(&project.destination);
    state.calendar = state.calendar.advance(now.day());
    let mut seen = Seen::default();
    for (uuid, count) in rows {
        state.totals.uploaded += count;
        for _ in 0..count.min(MAX_UNKNOWN) {
            seen.insert_unknown(&uuid, state.calendar.today);
        }
    }
    let mut journal = Journal::fresh(disk, state, seen);
    journal.compact()?;
    Ok(journal)
}

fn adopt(project: &Project, old: &legacy::UploadState) -> Journal<Directory> {
    let mut state = State::new(&project.destination);
    let mut seen = Seen::default();
    state.totals = legacy::adopt(old, &mut seen, state.calendar.today);
    Journal::fresh(Directory::new(project.state_directory()), state, seen)
}
