//! From log files to lines: which files there are and what is new in them ([`files`]), their lines ([`reader`]),
//! and the fields of each line ([`mod@line`]).

pub mod files;
pub mod line;
pub mod reader;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use files::{Log, Scope};
use line::Line;
use reader::Lines;

/// A log file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the log {}: {source}; check its permissions", path.display())]
pub struct Error {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Calls `each` with every line that could become a row: its log, where it begins and ends, and its fields.
pub(crate) fn each_line(
    root: &Path,
    scope: &Scope,
    each: &mut dyn FnMut(&Log, u64, u64, &Line<'_>),
) -> Result<(), Error> {
    for log in files::find(root, scope).logs {
        let failed = |source| Error { path: log.path.clone(), source };
        if files::is_foreign(&log, scope).map_err(failed)? {
            continue;
        }
        let mut lines = Lines::new(File::open(&log.path).map_err(failed)?, 0, log.stat.size);
        while let Some(raw) = lines.next_line().map_err(failed)? {
            if let Some(Ok(line)) = raw.text.map(line::parse) {
                each(&log, raw.start, raw.end, &line);
            }
        }
    }
    Ok(())
}
