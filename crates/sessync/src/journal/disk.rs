//! The disk as the journal needs it: append and replace, each durable when it returns.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Fills a file.
pub type Fill<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// One directory of files, each named by one word.
pub trait Disk: fmt::Debug {
    /// The file, or `None` if there is none.
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>>;
    /// Adds to the end of a file; returns when it is on the disk.
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Puts a new file in the place of an old one: either of the two is there, whenever one looks.
    fn replace(&mut self, name: &str, fill: Fill<'_>) -> io::Result<()>;
    /// Cuts a file.
    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()>;
    /// Copies a file under another name.
    fn copy(&mut self, name: &str, to: &str) -> io::Result<()>;
    fn remove(&mut self, name: &str) -> io::Result<()>;
    fn list(&self) -> io::Result<Vec<String>>;
}

/// A directory of the machine.
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
        // Kept open only if all went well: after an error the file is looked at afresh.
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

/// Writes a file beside its place, syncs it and moves it there: no reader ever sees half of it.
pub fn write_atomically(path: &Path, fill: Fill<'_>) -> io::Result<()> {
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
        // What is in the way of the next attempt is better gone; that it cannot be removed changes nothing.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A directory remembers its entries only once it is synced itself.
#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    File::open(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?.sync_all()
}

#[cfg(not(unix))]
fn sync(_: &Path) -> io::Result<()> {
    Ok(())
}
