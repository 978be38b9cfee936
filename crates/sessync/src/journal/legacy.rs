//! `upload-state.json`, the state file of the first versions. It is imported once, and can be exported.
//!
//! It lists uuids, without their content and without a destination. So it is imported only into the first journal
//! that is created for its project, and the first content that is read under one of its uuids counts as uploaded.
//! Afterwards it is only looked at: somebody who edits or deletes it expects an effect, and is told that there is none.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::Totals;
use super::seen::Seen;
use crate::clock::Time;
use crate::dir::{Location, Readers, is_in_the_way, keep_state_out_of_git};
use crate::settings::Project;
use crate::trust::hex_digest;

/// The file's name, beside the config.
pub(crate) const FILE: &str = "upload-state.json";
/// The file in the project's state that says into which destination's journal it was imported, and its digest then.
const MARKER: &str = "upload-state.imported";
/// A larger file is not read. It would have more than ten million uuids.
const MAX_BYTES: u64 = 512 * 1024 * 1024;
const MAX_MARKER_BYTES: u64 = 64 * 1024;

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadState {
    pub(crate) last_upload_timestamp: Option<String>,
    #[serde(default)]
    pub(crate) uploaded_uuids: Vec<String>,
    pub(crate) last_upload_batch_id: Option<String>,
    #[serde(default)]
    pub(crate) total_uploaded: u64,
}

/// Why it could not be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{} cannot be read: {reason}; `sessync upload` sets it aside and rebuilds the state from BigQuery", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{} cannot be written: {source}; free some space or make the directory writable", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

/// What is remembered of the import.
#[derive(Debug, PartialEq, Eq)]
struct Marker {
    /// Empty: it must never be imported.
    destination: String,
    /// Empty: there was no file.
    digest: String,
}

/// Reads the file, unless there is none or it was imported for another destination. Marks it as imported for this one.
pub(crate) fn import(project: &Project) -> Result<Option<UploadState>, Error> {
    let state = peek(project)?;
    if state.is_some() {
        // Before the journal is created: after a crash in between, it is imported again for the same destination, never for another.
        mark(project, &project.destination)?;
    }
    Ok(state)
}

/// Keeps the file from being imported again, after a reset.
pub(crate) fn never_again(project: &Project) -> Result<(), Error> {
    mark(project, "")
}

/// The content of the file, if it would be imported.
pub(crate) fn peek(project: &Project) -> Result<Option<UploadState>, Error> {
    if marker(project)?.is_some_and(|marker| marker.destination != project.destination) {
        return Ok(None);
    }
    let Some(content) = content(project)? else { return Ok(None) };
    serde_json::from_slice(&content).map(Some).map_err(|error| unreadable(project, &error))
}

/// What the user should know if the file was changed or deleted after its import. The next call says it again, until
/// [`told`].
pub(crate) fn changed(project: &Project) -> Result<Option<String>, Error> {
    let Some(marker) = marker(project)? else { return Ok(None) };
    let now = digest(project)?;
    if marker.digest == now {
        return Ok(None);
    }
    let what = match (marker.digest.is_empty(), now.is_empty()) {
        (true, _) => "put there",
        (_, true) => "deleted",
        _ => "changed",
    };
    let path = project.beside_config.path().join(FILE);
    Ok(Some(format!(
        "{} was {what} after it was imported; this has no effect, because the state is in {}; to send lines again, use `sessync forget` or `sessync reset`",
        path.display(),
        project.home.path().display()
    )))
}

/// The file as it is now is known.
pub(crate) fn told(project: &Project) -> Result<(), Error> {
    match marker(project)? {
        Some(marker) => mark(project, &marker.destination),
        None => Ok(()),
    }
}

/// The keys and counts of an imported file.
pub(crate) fn adopt(state: &UploadState, seen: &mut Seen, day: u16) -> Totals {
    state.uploaded_uuids.iter().for_each(|uuid| seen.insert_unknown(uuid, day));
    Totals {
        uploaded: state.total_uploaded.max(state.uploaded_uuids.len() as u64),
        set_aside: 0,
        last_upload: state.last_upload_timestamp.as_deref().and_then(Time::parse),
        last_batch: state.last_upload_batch_id.clone(),
    }
}

/// Writes the file beside the config, and marks it as this destination's so that no other imports it.
pub(crate) fn export(project: &Project, state: &UploadState) -> Result<PathBuf, Error> {
    let path = project.beside_config.path().join(FILE);
    let unwritable = |source| Error::Unwritable { path: path.clone(), source };
    if let Some(dir) = project.beside_config.open().map_err(unwritable)? {
        keep_state_out_of_git(&dir).map_err(unwritable)?;
    }
    write(&project.beside_config, FILE, state).map_err(unwritable)?;
    mark(project, &project.destination)?;
    Ok(path)
}

/// Writes the file to where the user says.
pub(crate) fn export_to(path: &Path, state: &UploadState) -> Result<(), Error> {
    let unwritable = |source| Error::Unwritable { path: path.to_owned(), source };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    write(&Location::plain(parent), &name, state).map_err(unwritable)
}

/// Sets a file aside that cannot be read.
pub(crate) fn set_aside(project: &Project, at: Time) -> io::Result<String> {
    let name = format!("{FILE}.damaged-{}", at.0);
    let dir = project.beside_config.open()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    dir.rename(FILE, &name)?;
    Ok(dir.path().join(name).display().to_string())
}

fn write(to: &Location, name: &str, state: &UploadState) -> io::Result<()> {
    let dir = to.open()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    dir.replace(name, Readers::Owner, &mut |to| {
        serde_json::to_writer_pretty(&mut *to, state)?;
        to.write_all(b"\n")
    })
}

fn content(project: &Project) -> Result<Option<Vec<u8>>, Error> {
    let read = project.beside_config.open_unless_in_the_way().and_then(|dir| match dir {
        Some(dir) => dir.read(FILE, MAX_BYTES),
        None => Ok(None),
    });
    read.map_err(|error| unreadable(project, &error))
}

fn digest(project: &Project) -> Result<String, Error> {
    Ok(content(project)?.map(|content| hex_digest(&content)).unwrap_or_default())
}

fn unreadable(project: &Project, error: &dyn std::fmt::Display) -> Error {
    Error::Unreadable { path: project.beside_config.path().join(FILE), reason: error.to_string() }
}

/// What is remembered of the import. Earlier versions kept it beside the file, without the digest.
fn marker(project: &Project) -> Result<Option<Marker>, Error> {
    for (place, is_old) in [(&project.home, false), (&project.beside_config, true)] {
        let open = if is_old { place.open_unless_in_the_way() } else { place.open() };
        let read = open.and_then(|dir| match dir {
            Some(dir) => dir.read(MARKER, MAX_MARKER_BYTES),
            None => Ok(None),
        });
        let read = read.or_else(|error| if is_old && is_in_the_way(&error) { Ok(None) } else { Err(error) });
        let text =
            read.map_err(|error| Error::Unreadable { path: place.path().join(MARKER), reason: error.to_string() })?;
        if let Some(text) = text {
            let text = String::from_utf8_lossy(&text).into_owned();
            let mut lines = text.lines().map(str::trim).map(str::to_owned);
            let destination = lines.next().unwrap_or_default();
            let digest = if is_old { digest(project)? } else { lines.next().unwrap_or_default() };
            return Ok(Some(Marker { destination, digest }));
        }
    }
    Ok(None)
}

fn mark(project: &Project, destination: &str) -> Result<(), Error> {
    let digest = digest(project)?;
    let write =
        |dir: crate::dir::Dir| dir.replace(MARKER, Readers::Owner, &mut |to| writeln!(to, "{destination}\n{digest}"));
    let written = project.home.create().and_then(write);
    written.map_err(|source| Error::Unwritable { path: project.home.path().join(MARKER), source })
}

/// Moves the marker of an earlier version to where it belongs now.
pub(crate) fn move_marker(project: &Project) -> Result<(), Error> {
    told(project)?;
    if let Ok(Some(dir)) = project.beside_config.open() {
        // It is only in the way. If it cannot be removed, the new one counts.
        let _ = dir.remove(MARKER);
    }
    Ok(())
}
