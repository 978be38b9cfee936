//! Which configs may say where logs are sent, and with whose credentials.
//!
//! A checkout brings its config along, so the config is somebody else's until this user has read it. `sessync trust`
//! records the digest of its content; a config that changed is not trusted any more. The same record lists digests of
//! the variables that name credentials or addresses, because the settings of a hook can set variables too. They
//! count only with `--auto`: without it, the variables are those of the user's own shell.
//!
//! The record is `trust.json` in the user's state directory. Variables decide where that directory is, so a checkout
//! could bring its own record and point the variables at it. The record therefore contains the inode number of the
//! directory that it was written in. The author of a checkout cannot know that number. A record with another number
//! was copied from elsewhere and is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::dir::{Location, Readers, keep_out_of_git};

/// The record's name, in the state directory.
const FILE: &str = "trust.json";
const LOCK: &str = "trust.lock";
/// A larger record is not read.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const VERSION: u32 = 1;

/// A config, and everything that needs the same trust.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// The config's canonical path.
    pub(crate) path: PathBuf,
    /// The digest of its content.
    pub(crate) config: String,
    /// The digest of the key file, if that is in the checkout as well.
    pub(crate) key: Option<String>,
    /// Name and value of each variable that names credentials or an address.
    pub(crate) variables: Vec<(String, String)>,
}

/// Why a config is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untrusted {
    #[error("the config {} is not trusted yet, and it says where your logs are sent; read it, then run `sessync trust` in {}", config.display(), project.display())]
    Never { config: PathBuf, project: PathBuf },
    #[error("the config {} was changed since you trusted it; read it, then run `sessync trust` in {}", config.display(), project.display())]
    Changed { config: PathBuf, project: PathBuf },
    #[error("the key file that the config {} names was changed since you trusted it; check it, then run `sessync trust` in {}", config.display(), project.display())]
    Key { config: PathBuf, project: PathBuf },
    #[error("the variable {name} names credentials or an address, and its value is not trusted; if it is yours, run `sessync trust` in {} where it is set", project.display())]
    Variable { name: String, project: PathBuf },
    #[error("BIGQUERY_EMULATOR_HOST is {0:?}; with --auto it may only name this machine (127.0.0.1, localhost)")]
    Emulator(String),
    #[error("the record of what you trust in {} was written in another directory, or does not belong to sessync; run `sessync trust` in {}", record.display(), project.display())]
    Foreign { record: PathBuf, project: PathBuf },
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    /// The inode of the directory that the record was written in.
    inode: u64,
    /// By the config's canonical path.
    configs: BTreeMap<PathBuf, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    config: String,
    key: Option<String>,
    variables: BTreeSet<String>,
    at: String,
}

/// Whether the user has trusted a config as it is now. `project` is for the message.
pub(crate) fn check(
    home: &Location,
    candidate: &Candidate,
    project: &Path,
    auto: bool,
) -> io::Result<Result<(), Untrusted>> {
    let (config, project) = (candidate.path.clone(), project.to_owned());
    let never = Untrusted::Never { config: config.clone(), project: project.clone() };
    let Some(dir) = home.open()? else { return Ok(Err(never)) };
    let Some(text) = dir.read(FILE, MAX_BYTES)? else { return Ok(Err(never)) };
    let record = serde_json::from_slice::<Record>(&text).ok();
    let Some(record) = record.filter(|record| record.version == VERSION && Some(record.inode) == dir.inode().ok())
    else {
        return Ok(Err(Untrusted::Foreign { record: dir.path().join(FILE), project }));
    };
    let Some(entry) = record.configs.get(&candidate.path) else { return Ok(Err(never)) };
    if entry.config != candidate.config {
        return Ok(Err(Untrusted::Changed { config, project }));
    }
    if entry.key != candidate.key {
        return Ok(Err(Untrusted::Key { config, project }));
    }
    let mut variables = candidate.variables.iter().filter(|_| auto);
    Ok(match variables.find(|(name, value)| !entry.variables.contains(&variable(name, value))) {
        Some((name, _)) => Err(Untrusted::Variable { name: name.clone(), project }),
        None => Ok(()),
    })
}

/// Whether the user has ever trusted this config, whatever is in it now.
pub(crate) fn knows(home: &Location, config: &Path) -> io::Result<bool> {
    let Some(dir) = home.open()? else { return Ok(false) };
    let record = dir.read(FILE, MAX_BYTES)?.and_then(|text| serde_json::from_slice::<Record>(&text).ok());
    Ok(record.is_some_and(|record| Some(record.inode) == dir.inode().ok() && record.configs.contains_key(config)))
}

/// Records that the user trusts a config as it is now.
pub(crate) fn grant(home: &Location, candidate: &Candidate, at: Time) -> io::Result<()> {
    edit(home, |configs| {
        let variables = candidate.variables.iter().map(|(name, value)| variable(name, value)).collect();
        let entry =
            Entry { config: candidate.config.clone(), key: candidate.key.clone(), variables, at: at.to_string() };
        configs.insert(candidate.path.clone(), entry);
    })
}

/// Takes the trust away. False: there was none.
pub(crate) fn revoke(home: &Location, config: &Path) -> io::Result<bool> {
    let mut was_there = false;
    edit(home, |configs| was_there = configs.remove(config).is_some())?;
    Ok(was_there)
}

fn edit(home: &Location, change: impl FnOnce(&mut BTreeMap<PathBuf, Entry>)) -> io::Result<()> {
    let dir = home.create()?;
    keep_out_of_git(&dir)?;
    let lock = dir.open_or_make(LOCK)?;
    lock.lock()?;
    let inode = dir.inode()?;
    let old = dir.read(FILE, MAX_BYTES)?.and_then(|text| serde_json::from_slice::<Record>(&text).ok());
    // What was copied from elsewhere is dropped: the user did not trust it here.
    let old = old.filter(|record| record.version == VERSION && record.inode == inode);
    let mut configs = old.map(|record| record.configs).unwrap_or_default();
    change(&mut configs);
    let record = Record { version: VERSION, inode, configs };
    dir.replace(FILE, Readers::Owner, &mut |to| {
        serde_json::to_writer_pretty(&mut *to, &record)?;
        writeln!(to)
    })
}

/// The SHA-256 of a content, in hexadecimal.
pub(crate) fn hex_digest(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn variable(name: &str, value: &str) -> String {
    hex_digest(format!("{name}={value}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            path: PathBuf::from("/src/app/.claude/sessync/config.json"),
            config: hex_digest(b"{}"),
            key: None,
            variables: vec![("HTTPS_PROXY".to_owned(), "http://proxy".to_owned())],
        }
    }

    fn judged(home: &Location, candidate: &Candidate, auto: bool) -> Result<(), Untrusted> {
        check(home, candidate, Path::new("/src/app"), auto).unwrap()
    }

    #[test]
    fn what_was_trusted_is_trusted_until_any_part_of_it_changes() {
        let base = tempfile::tempdir().unwrap();
        let home = Location::private(base.path()).join("sessync");
        let trusted = candidate();
        assert!(matches!(judged(&home, &trusted, false), Err(Untrusted::Never { .. })));
        grant(&home, &trusted, Time(0)).unwrap();
        assert_eq!(judged(&home, &trusted, true), Ok(()));
        let other = Candidate { config: hex_digest(b"{ }"), ..candidate() };
        assert!(matches!(judged(&home, &other, false), Err(Untrusted::Changed { .. })));
        let other = Candidate { key: Some(hex_digest(b"key")), ..candidate() };
        assert!(matches!(judged(&home, &other, false), Err(Untrusted::Key { .. })));
        let other = Candidate { variables: vec![("HTTPS_PROXY".into(), "http://evil".into())], ..candidate() };
        assert!(matches!(judged(&home, &other, true), Err(Untrusted::Variable { .. })));
        assert_eq!(judged(&home, &other, false), Ok(()), "in a shell, the variables are the user's own");
        let unset = Candidate { variables: Vec::new(), ..candidate() };
        assert_eq!(judged(&home, &unset, true), Ok(()));
        assert!(revoke(&home, &trusted.path).unwrap());
        assert!(matches!(judged(&home, &trusted, false), Err(Untrusted::Never { .. })));
    }

    #[test]
    fn a_record_that_was_packed_elsewhere_is_not_believed() {
        let base = tempfile::tempdir().unwrap();
        let home = Location::private(base.path()).join("sessync");
        grant(&home, &candidate(), Time(0)).unwrap();
        let copy = Location::private(base.path()).join("checkout");
        copy.create().unwrap();
        std::fs::copy(home.path().join(FILE), copy.path().join(FILE)).unwrap();
        assert!(matches!(judged(&copy, &candidate(), true), Err(Untrusted::Foreign { .. })));
        std::fs::write(home.path().join(FILE), "{").unwrap();
        assert!(matches!(judged(&home, &candidate(), true), Err(Untrusted::Foreign { .. })));
        grant(&copy, &Candidate { path: "/other".into(), ..candidate() }, Time(0)).unwrap();
        assert!(judged(&copy, &candidate(), true).is_err(), "what was brought along does not become trusted with it");
    }

    #[test]
    fn neither_the_value_of_a_variable_nor_the_config_is_in_the_record() {
        let base = tempfile::tempdir().unwrap();
        let home = Location::private(base.path()).join("sessync");
        grant(&home, &candidate(), Time(0)).unwrap();
        let text = std::fs::read_to_string(home.path().join(FILE)).unwrap();
        assert!(!text.contains("http://proxy"), "{text}");
    }
}
