//! Where a project's logs are.
//!
//! Claude Code keeps them in a directory whose name is the working directory's path with every character
//! outside `[A-Za-z0-9]` replaced by `-`. Different paths may get the same name, so the lines' own `cwd`
//! has the last word. Symbolic links are not followed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::files::Stat;
use crate::line;
use crate::reader::Lines;

/// Names longer than this are cut by Claude Code, which then adds something of its own.
const MAX_NAME: usize = 200;

/// How many lines of a file are looked at for one that says where it was written.
const CWD_LINES: usize = 50;

/// A log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Below the directory of all logs, with `/` between its parts.
    pub name: String,
    pub path: PathBuf,
    pub stat: Stat,
}

/// Which logs are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of the project in this directory.
    Project(PathBuf),
    All,
}

/// What there is.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of their names.
    pub logs: Vec<Log>,
    /// The directories that were looked into, whether they exist or not.
    pub looked: Vec<PathBuf>,
    /// What could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

/// The names that Claude Code may give to the logs' directory of a working directory.
pub fn names(directory: &Path) -> Vec<String> {
    let text = directory.to_string_lossy();
    let dash = |each: char| if each.is_ascii_alphanumeric() { each.to_string() } else { "-".to_owned() };
    let name: String = text.chars().map(dash).collect();
    // JavaScript counts a character outside the basic plane as two.
    let wide: String = text.chars().map(|each| dash(each).repeat(each.len_utf16())).collect();
    if wide == name { vec![name] } else { vec![name, wide] }
}

/// Finds the logs below `root`, the directory of all logs.
pub fn find(root: &Path, scope: &Scope) -> Found {
    let mut found = Found::default();
    match scope {
        Scope::All => found.walk(root, root),
        Scope::Project(directory) => {
            for name in names(directory) {
                if name.len() <= MAX_NAME {
                    found.walk(root, &root.join(name));
                    continue;
                }
                let start = &name[..MAX_NAME];
                found.looked.push(root.join(format!("{start}*")));
                for entry in fs::read_dir(root).into_iter().flatten().flatten() {
                    if entry.file_name().to_string_lossy().starts_with(start) {
                        found.walk(root, &entry.path());
                    }
                }
            }
        }
    }
    found.logs.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

impl Found {
    fn walk(&mut self, root: &Path, directory: &Path) {
        self.looked.push(directory.to_owned());
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.unreadable.push((directory, error));
                    continue;
                }
            };
            for entry in entries.flatten() {
                let path = entry.path();
                // The entry's own type: a link is neither a directory nor a file, and so goes nowhere.
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "jsonl") {
                    match entry.metadata() {
                        Ok(meta) => self.logs.push(Log { name: name(root, &path), stat: Stat::of(&meta), path }),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => self.unreadable.push((path, error)),
                    }
                }
            }
        }
    }
}

fn name(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Whether a log is of another project whose directory has the same name: its first line that says where it
/// was written says so. A log that does not say is taken.
pub fn is_foreign(log: &Log, scope: &Scope) -> io::Result<bool> {
    let Scope::Project(directory) = scope else { return Ok(false) };
    let mut lines = Lines::new(File::open(&log.path)?, 0, log.stat.size);
    for _ in 0..CWD_LINES {
        let Some(found) = lines.next_line()? else { break };
        if let Some(cwd) = found.text.and_then(line::cwd) {
            let cwd = Path::new(&cwd);
            if cwd == directory {
                return Ok(false);
            }
            let ours = names(directory);
            let same_name = names(cwd).iter().any(|name| ours.contains(name));
            // A cut name says little: then only the project's own directory, or one in it, will do.
            let cut = ours.iter().any(|name| name.len() > MAX_NAME);
            return Ok(same_name || (cut && !cwd.starts_with(directory)));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(at: &str) -> Scope {
        Scope::Project(PathBuf::from(at))
    }

    #[test]
    fn every_character_that_is_not_a_letter_or_a_digit_becomes_a_dash() {
        assert_eq!(names(Path::new("/home/me/a_b.c é")), ["-home-me-a-b-c--"]);
        assert_eq!(names(Path::new("/\u{1F600}")), ["--", "---"]);
    }

    #[test]
    fn logs_are_found_in_subdirectories_and_links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("-src-x");
        fs::create_dir_all(logs.join("sub/agents")).unwrap();
        for name in ["b.jsonl", "a.jsonl", "note.txt", "sub/agents/c.jsonl"] {
            fs::write(logs.join(name), "{}\n").unwrap();
        }
        #[cfg(unix)]
        {
            fs::create_dir(root.path().join("elsewhere")).unwrap();
            fs::write(root.path().join("elsewhere/d.jsonl"), "{}\n").unwrap();
            std::os::unix::fs::symlink(root.path().join("elsewhere"), logs.join("link")).unwrap();
            std::os::unix::fs::symlink(root.path().join("elsewhere/d.jsonl"), logs.join("e.jsonl")).unwrap();
        }
        let found = find(root.path(), &project("/src/x"));
        let names: Vec<_> = found.logs.iter().map(|log| log.name.as_str()).collect();
        assert_eq!(names, ["-src-x/a.jsonl", "-src-x/b.jsonl", "-src-x/sub/agents/c.jsonl"]);
    }

    #[test]
    fn nothing_found_says_where_it_looked() {
        let root = tempfile::tempdir().unwrap();
        let found = find(root.path(), &project("/src/x"));
        assert!(found.logs.is_empty());
        assert_eq!(found.looked, [root.path().join("-src-x")]);
    }

    #[test]
    fn a_log_of_another_directory_with_the_same_name_is_told_by_its_lines() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("-src-a-b");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("1.jsonl"), "junk\n{\"cwd\":\"/src/a/b\"}\n").unwrap();
        fs::write(logs.join("2.jsonl"), "{\"type\":\"summary\"}\n{\"cwd\":\"/src/a-b\"}\n").unwrap();
        fs::write(logs.join("3.jsonl"), "{\"cwd\":\"/src/a/b/inner\"}\n").unwrap();
        fs::write(logs.join("4.jsonl"), "{}\n").unwrap();
        let scope = project("/src/a/b");
        let foreign: Vec<bool> =
            find(root.path(), &scope).logs.iter().map(|log| is_foreign(log, &scope).unwrap()).collect();
        assert_eq!(foreign, [false, true, false, false]);
    }
}
