//! From log files to lines: who writes logs ([`Source`]), which files there are and what is new in them ([`files`]), their
//! lines ([`reader`]), and the fields of each line ([`mod@line`]).

pub mod codex;
pub mod files;
pub mod line;
pub mod reader;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use codex::Codex;
use files::{Discovery, Log, Scope};
use line::{Head, Line, Reason};
use reader::Lines;

/// A program that writes session logs.
pub trait Source: fmt::Debug + Sync {
    /// Finds its logs below a directory. `prefix` stands before the name of each.
    fn find(&self, root: &Path, prefix: &str, scope: &Scope) -> Discovery;
    /// What a log says of all of its lines.
    fn head(&self, log: &Log) -> io::Result<Head>;
    /// Whether a log belongs to another project than that of the scope.
    fn is_foreign(&self, log: &Log, scope: &Scope) -> io::Result<bool>;
    /// Reads one line, without its newline.
    fn line<'a>(&self, head: &'a Head, text: &'a [u8]) -> Result<Line<'a>, Reason>;
}

/// Claude Code: a directory per project, with a file per session and per sub-agent.
#[derive(Debug)]
pub struct ClaudeCode;

impl Source for ClaudeCode {
    fn find(&self, root: &Path, prefix: &str, scope: &Scope) -> Discovery {
        files::find_as(root, prefix, scope)
    }

    /// Its lines say everything themselves.
    fn head(&self, _: &Log) -> io::Result<Head> {
        Ok(Head::default())
    }

    fn is_foreign(&self, log: &Log, scope: &Scope) -> io::Result<bool> {
        files::is_foreign(log, scope)
    }

    fn line<'a>(&self, _: &'a Head, text: &'a [u8]) -> Result<Line<'a>, Reason> {
        line::parse(text)
    }
}

/// Which program wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    ClaudeCode,
    Codex,
}

impl Kind {
    pub fn source(self) -> &'static dyn Source {
        match self {
            Kind::ClaudeCode => &ClaudeCode,
            Kind::Codex => &Codex,
        }
    }
}

/// A directory with the logs of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    pub kind: Kind,
    pub path: PathBuf,
    /// Before the name of each of its logs, so that two directories never share a name.
    pub prefix: &'static str,
}

/// The prefix of Codex's logs. They are all looked at, whatever the project.
pub(crate) const CODEX: &str = "codex/";
/// The prefix of the logs in Claude Code's newer directory.
pub(crate) const CONFIG: &str = "config/";

/// Finds the logs below these directories.
pub fn find(roots: &[Root], scope: &Scope) -> Discovery {
    let mut found = Discovery::default();
    for root in roots {
        found.extend(root.kind.source().find(&root.path, root.prefix, scope));
    }
    found
}

/// A log file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the log {}: {source}; check its permissions", path.display())]
pub struct Error {
    pub path: PathBuf,
    pub source: io::Error,
}

/// Calls `each` with every line that could become a row: its log, where it begins and ends, and its fields.
pub(crate) fn each_line(
    roots: &[Root],
    scope: &Scope,
    each: &mut dyn FnMut(&Log, u64, u64, &Line<'_>),
) -> Result<(), Error> {
    for log in find(roots, scope).logs {
        let failed = |source| Error { path: log.path.clone(), source };
        let source = log.kind.source();
        if source.is_foreign(&log, scope).map_err(failed)? {
            continue;
        }
        let head = source.head(&log).map_err(failed)?;
        let mut lines = Lines::new(File::open(&log.path).map_err(failed)?, 0, log.stat.size);
        while let Some(raw) = lines.next_line().map_err(failed)? {
            if let Some(Ok(line)) = raw.text.map(|text| source.line(&head, text)) {
                each(&log, raw.start, raw.end, &line);
            }
        }
    }
    Ok(())
}
