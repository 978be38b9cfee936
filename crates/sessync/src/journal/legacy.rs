//! `upload-state.json`, the state file of earlier versions. It is imported once, and can be exported.
//!
//! It lists uuids, without their content and without a destination. So it is imported only into the first journal
//! that is created beside it, and the first content that is read under one of its uuids counts as uploaded.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::write_atomically;
use super::record::Totals;
use super::seen::Seen;
use crate::clock::Time;

/// The file's name, beside the config.
pub(crate) const FILE: &str = "upload-state.json";
/// The file that says into which destination's journal it was imported.
const MARKER: &str = "upload-state.imported";

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
    Unwritable { path: PathBuf, source: std::io::Error },
}

/// Reads the file, unless there is none or it was imported for another destination. Marks it as imported for this one.
pub(crate) fn import(directory: &Path, destination: &str) -> Result<Option<UploadState>, Error> {
    let state = peek(directory, destination)?;
    if state.is_some() {
        // Before the journal is created: after a crash in between, it is imported again for the same destination, never for another.
        mark(&directory.join(MARKER), destination)?;
    }
    Ok(state)
}

/// Keeps the file from being imported again, after a reset.
pub(crate) fn never_again(directory: &Path) -> Result<(), Error> {
    mark(&directory.join(MARKER), "")
}

/// The content of the file, if it would be imported.
pub(crate) fn peek(directory: &Path, destination: &str) -> Result<Option<UploadState>, Error> {
    let (path, marker) = (directory.join(FILE), directory.join(MARKER));
    let imported_for = std::fs::read_to_string(&marker).ok();
    if !path.exists() || imported_for.is_some_and(|other| other.trim() != destination) {
        return Ok(None);
    }
    let unreadable = |reason: String| Error::Unreadable { path: path.clone(), reason };
    let text = std::fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_str(&text).map(Some).map_err(|error| unreadable(error.to_string()))
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

/// Writes the file, and marks it as this destination's so that no other imports it.
pub(crate) fn export(path: &Path, directory: &Path, destination: &str, state: &UploadState) -> Result<(), Error> {
    let unwritable = |source| Error::Unwritable { path: path.to_owned(), source };
    if path.parent() == Some(directory) {
        mark(&directory.join(MARKER), destination)?;
    }
    write_atomically(path, &mut |to| {
        serde_json::to_writer_pretty(&mut *to, state)?;
        to.write_all(b"\n")
    })
    .map_err(unwritable)
}

fn mark(marker: &Path, destination: &str) -> Result<(), Error> {
    write_atomically(marker, &mut |to| writeln!(to, "{destination}"))
        .map_err(|source| Error::Unwritable { path: marker.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_imported_for_the_first_destination_and_for_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let text = r#"{"last_upload_timestamp":"2024-12-24T10:35:00Z","uploaded_uuids":["a","b"],"last_upload_batch_id":"x","total_uploaded":1250}"#;
        std::fs::write(directory.path().join(FILE), text).unwrap();
        let state = import(directory.path(), "one").unwrap().unwrap();
        assert!(import(directory.path(), "two").unwrap().is_none());
        assert!(import(directory.path(), "one").unwrap().is_some());
        let mut seen = Seen::default();
        let totals = adopt(&state, &mut seen, 1);
        assert_eq!((totals.uploaded, seen.len()), (1250, 2));
    }

    #[test]
    fn what_is_exported_can_be_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let state = UploadState { uploaded_uuids: vec!["a".into()], total_uploaded: 1, ..UploadState::default() };
        let path = directory.path().join(FILE);
        export(&path, directory.path(), "one", &state).unwrap();
        assert_eq!(serde_json::from_str::<UploadState>(&std::fs::read_to_string(path).unwrap()).unwrap(), state);
        assert!(import(directory.path(), "two").unwrap().is_none());
    }
}
