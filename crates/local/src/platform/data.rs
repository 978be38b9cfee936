//! The data directory: its lock, its format, and the secrets that are generated at the first start.
//!
//! Only one process may use a directory. The operating system releases its lock when the process ends, also after kill -9.
//! A directory in a newer format is refused. Only the owner can read the files in it, except for the certificate of the TLS port.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The format of everything in the directory.
const FORMAT: u32 = 1;
/// The one file that others may read: clients have to be told to trust it.
pub(crate) const CERTIFICATE: &str = "cert.pem";
/// Letters of a generated secret. They hold more than 128 bits.
const SECRET_LETTERS: usize = 32;

/// Why the data directory cannot be used. Each message is one sentence for the person who started the process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the data directory {} cannot be used: {source}; mend it, or choose another directory with --data", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the data directory {} is in use by another ichido-local; stop that one, or choose another directory with --data", path.display())]
    InUse { path: PathBuf },
    #[error(
        "the data directory {} has format {found} and was written by a newer version; this version reads format {FORMAT}; update ichido, or choose another directory with --data",
        path.display()
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("the file {} is damaged; remove it, or choose another directory with --data", path.display())]
    Damaged { path: PathBuf },
}

/// The open data directory, or none.
#[derive(Debug)]
pub struct Data {
    directory: Option<PathBuf>,
    /// Locked for as long as the process lives.
    _lock: Option<File>,
    secrets: Secrets,
}

impl Data {
    /// Opens a directory, and creates it if it does not exist.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(io)?;
        let lock = private_file().truncate(true).open(directory.join("lock")).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { path: directory.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        make_private(directory).map_err(io)?;
        let format = directory.join("format");
        match std::fs::read_to_string(&format) {
            Ok(text) => match text.trim().parse::<u32>() {
                Ok(found) if found > FORMAT => return Err(Error::Newer { path: directory.to_owned(), found }),
                Ok(_) => {}
                Err(_) => return Err(Error::Damaged { path: format }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_private(&format, &format!("{FORMAT}\n")).map_err(io)?;
            }
            Err(source) => return Err(io(source)),
        }
        let secrets = Secrets::open(Some(directory.join("secrets.json")))?;
        Ok(Self { directory: Some(directory.to_owned()), _lock: Some(lock), secrets })
    }

    /// No directory: nothing is kept.
    pub fn in_memory() -> Result<Self, Error> {
        Ok(Self { directory: None, _lock: None, secrets: Secrets::open(None)? })
    }

    /// The path of a file in the directory; `None` when nothing is kept.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(name))
    }

    /// The directory; `None` when nothing is kept.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The secrets of this directory.
    pub fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }
}

/// Secrets by name. A secret is generated when it is first asked for, and kept.
#[derive(Clone)]
pub struct Secrets(Arc<Inner>);

struct Inner {
    path: Option<PathBuf>,
    known: Mutex<BTreeMap<String, String>>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(…)")
    }
}

impl Secrets {
    fn open(path: Option<PathBuf>) -> Result<Self, Error> {
        let known = match &path {
            None => BTreeMap::new(),
            Some(path) => match std::fs::read(path) {
                Ok(text) => serde_json::from_slice(&text).map_err(|_| Error::Damaged { path: path.clone() })?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
                Err(source) => return Err(Error::Io { path: path.clone(), source }),
            },
        };
        Ok(Self(Arc::new(Inner { path, known: Mutex::new(known) })))
    }

    /// The secret of this name.
    pub fn get(&self, name: &str) -> String {
        self.get_or_make(name, || std::iter::repeat_with(fastrand::alphanumeric).take(SECRET_LETTERS).collect())
    }

    /// The secret of this name; `make` generates it the first time (for example a private key).
    pub fn get_or_make(&self, name: &str, make: impl FnOnce() -> String) -> String {
        let mut known = telemetry::lock(&self.0.known);
        if let Some(secret) = known.get(name) {
            return secret.clone();
        }
        let secret = make();
        known.insert(name.to_owned(), secret.clone());
        if let Some(path) = &self.0.path
            && let Err(error) = write_private(path, &serde_json::json!(*known).to_string())
        {
            tracing::warn!(secret = name, error = %error, "could not write the generated secret {name} to secrets.json; it will be different after a restart");
        }
        secret
    }
}

/// How a file is made that only its owner can read.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Takes the right to read away from others, for the files that earlier versions left in the directory.
fn make_private(directory: &Path) -> io::Result<()> {
    #[cfg(unix)]
    for file in std::fs::read_dir(directory)? {
        use std::os::unix::fs::PermissionsExt as _;
        let file = file?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 && file.file_name() != CERTIFICATE {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

/// Writes a file that only its owner can read. After a crash the file is the old one or the new one, never a part.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    let temporary = path.with_extension("new");
    let mut file = private_file().truncate(true).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_the_same_after_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = Data::open(directory.path()).expect("data").secrets().get("slack");
        let data = Data::open(directory.path()).expect("data");
        assert_eq!(data.secrets().get("slack"), first);
        assert_ne!(data.secrets().get("other"), first);
    }

    #[test]
    fn two_processes_cannot_share_a_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let _first = Data::open(directory.path()).expect("data");
        assert!(matches!(Data::open(directory.path()), Err(Error::InUse { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn what_an_earlier_version_left_open_is_closed_to_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let mode = |name: &str| {
            let metadata = std::fs::metadata(directory.path().join(name)).expect("a file");
            metadata.permissions().mode() & 0o777
        };
        for name in ["outbox.jsonl", "dynamodb.db", CERTIFICATE] {
            std::fs::write(directory.path().join(name), "").expect("a file");
            let readable = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(directory.path().join(name), readable).expect("a mode");
        }
        let _data = Data::open(directory.path()).expect("data");
        for name in ["outbox.jsonl", "dynamodb.db", "lock", "format"] {
            assert_eq!(mode(name), 0o600, "{name}");
        }
        assert_eq!(mode(CERTIFICATE), 0o644);
    }

    #[test]
    fn a_newer_format_is_refused_in_one_sentence() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("format"), "2\n").expect("a file");
        let error = Data::open(directory.path()).expect_err("newer");
        assert!(error.to_string().contains("format 2"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}
