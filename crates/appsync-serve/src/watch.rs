//! Notices that a file has changed.
//!
//! Files are looked at twice per second: that works on every file system, also in containers and on network drives, where notifications
//! of the operating system get lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::options::Serve;

/// How often files are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// How deep below the directory of the resolvers files are looked at, and how many of them.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 2_000;

/// What the files looked like: when each was written, and how long it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(BTreeMap<PathBuf, (Option<SystemTime>, u64)>);

impl Seen {
    /// Looks at the schema, the template and the resolver files.
    pub(crate) fn now(options: &Serve) -> Self {
        let mut seen = Self::default();
        for file in options.schema.iter().chain([&options.template]) {
            seen.look(file);
        }
        seen.look_below(&options.code_dir(), 0);
        seen
    }

    pub(crate) fn files(&self) -> usize {
        self.0.len()
    }

    fn look(&mut self, file: &Path) {
        // A file that is gone is also a change. Editors replace files, so it may be back soon.
        if let Ok(metadata) = std::fs::metadata(file) {
            self.0.insert(file.to_owned(), (metadata.modified().ok(), metadata.len()));
        }
    }

    fn look_below(&mut self, directory: &Path, depth: usize) {
        let Ok(entries) = std::fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.starts_with('.') || name == "node_modules" || self.0.len() >= MAX_FILES {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => self.look_below(&path, depth + 1),
                Ok(_) if is_source(&path) => self.look(&path),
                _ => {}
            }
        }
    }
}

/// What a template can name as code.
fn is_source(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| matches!(extension, "js" | "graphql"))
}
