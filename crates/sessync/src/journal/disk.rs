//! What the journal needs of a disk. What was appended or replaced is on the disk when the call returns.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Fills a file.
pub type Fill<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// One directory of files.
pub trait Disk: fmt::Debug {
    /// Opens a file. `None`: there is none.
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>>;
    /// Adds to the end of a file. Returns when the bytes are on the disk.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Replaces a file. At every moment either the old one or the new one is there.
    fn replace(&mut self, name: &str, fill: Fill<'_>) -> io::Result<()>;
    /// Cuts a file to a length.
    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()>;
    /// Copies a file under another name.
    fn copy(&mut self, name: &str, to: &str) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    fn list(&self) -> io::Result<Vec<String>>;
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The file that is being appended to stays open.
    appending: Option<(String, File)>,
}

impl Directory {
    /// The directory need not exist until something is written.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Directory { path: path.into(), appending: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for Directory {
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>> {
        match File::open(self.path.join(name)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = match self.appending.take() {
            Some((open, file)) if open == name => file,
            _ => {
                let path = self.path.join(name);
                let new = !path.exists();
                let file = OpenOptions::new().append(true).create(true).open(path)?;
                if new {
                    sync(&self.path)?;
                }
                file
            }
        };
        // It stays open only after a success: after an error it is opened again.
        (&file).write_all(bytes)?;
        file.sync_data()?;
        self.appending = Some((name.to_owned(), file));
        Ok(())
    }

    fn replace(&mut self, name: &str, fill: Fill<'_>) -> io::Result<()> {
        self.appending = None;
        fs::create_dir_all(&self.path)?;
        write_atomically(&self.path.join(name), fill)
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.appending = None;
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn copy(&mut self, name: &str, to: &str) -> io::Result<()> {
        let mut from = File::open(self.path.join(name))?;
        write_atomically(&self.path.join(to), &mut |file| io::copy(&mut from, file).map(drop))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

/// Writes a file under a temporary name, syncs it and renames it, so that no reader ever sees half of it.
pub(crate) fn write_atomically(path: &Path, fill: Fill<'_>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = directory.join(name);
    let written = (|| {
        let mut file = BufWriter::with_capacity(64 * 1024, File::create(&temporary)?);
        fill(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync(directory)
    })();
    if written.is_err() {
        // It would only take space. The next attempt overwrites it if it cannot be removed.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A new name in a directory is durable only once the directory itself is synced.
#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    File::open(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?.sync_all()
}

#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}
