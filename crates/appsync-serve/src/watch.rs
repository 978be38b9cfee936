//! Notices that a file has changed.
//!
//! Files are looked at twice per second: that works on every file system, also in containers and on network drives, where notifications
//! of the operating system get lost. Only the places that the last build looked at can change what it built, so only these are looked
//! at, however large the directory is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often files are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// What a file looked like: when it was written, and how long it is. `None`: there was none.
type File = Option<(Option<SystemTime>, u64)>;

/// The places that were looked at, and what was there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(BTreeMap<PathBuf, File>);

impl Seen {
    /// Looks at a place that is about to be read. The first look counts: what changes after it is another file.
    pub(crate) fn look(&mut self, path: &Path) {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), file(path));
        }
    }

    /// Looks at the same places again.
    pub(crate) fn again(&self) -> Self {
        Self(self.0.keys().map(|path| (path.clone(), file(path))).collect())
    }

    /// Adds what another build saw.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// How many files there were.
    pub(crate) fn files(&self) -> usize {
        self.0.values().flatten().count()
    }
}

fn file(path: &Path) -> File {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some((metadata.modified().ok(), metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_goes_or_comes_is_seen_and_a_directory_is_not_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::write(&one, "1").unwrap();
        let mut seen = Seen::default();
        seen.look(&one);
        seen.look(&two);
        assert_eq!((seen.files(), seen.again() == seen), (1, true));
        std::fs::create_dir(&two).unwrap();
        assert!(seen.again() == seen);
        std::fs::write(&one, "11").unwrap();
        assert!(seen.again() != seen);
        seen.look(&one);
        assert!(seen.again() != seen, "the first look counts");
        let seen = seen.again();
        std::fs::remove_file(&one).unwrap();
        assert!(seen.again() != seen);
        let seen = seen.again();
        std::fs::remove_dir(&two).unwrap();
        std::fs::write(&two, "").unwrap();
        assert!(seen.again() != seen);
    }

    #[test]
    fn a_build_that_failed_early_forgets_no_place() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        let (mut before, mut failed) = (Seen::default(), Seen::default());
        before.look(&one);
        failed.look(&two);
        let both = before.and(failed);
        std::fs::write(&one, "").unwrap();
        assert!(both.again() != both);
    }
}
