//! What the journal needs of a disk. What was appended or replaced is on the disk when the call returns.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write as _};

pub use crate::dir::Fill;
use crate::dir::{Dir, Location, Readers};

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

/// A directory of the file system. Only this user can read what is written to it.
#[derive(Debug)]
pub struct Directory {
    location: Location,
    /// The file that is being appended to stays open.
    appending: Option<(String, File)>,
}

impl Directory {
    /// The directory need not exist until something is written.
    pub fn new(location: Location) -> Self {
        Directory { location, appending: None }
    }

    fn existing(&self) -> io::Result<Dir> {
        self.location.open()?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Disk for Directory {
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>> {
        let Some(dir) = self.location.open()? else { return Ok(None) };
        Ok(dir.open_file(name)?.map(|file| Box::new(file) as Box<dyn Read>))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = match self.appending.take() {
            Some((open, file)) if open == name => file,
            _ => {
                let dir = self.location.create()?;
                let new = dir.open_file(name)?.is_none();
                let file = dir.open_to_append(name)?;
                if new {
                    dir.sync()?;
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
        self.location.create()?.replace(name, Readers::Owner, fill)
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.appending = None;
        let file = self.existing()?.open_or_make(name)?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn copy(&mut self, name: &str, to: &str) -> io::Result<()> {
        let dir = self.existing()?;
        let mut from = dir.open_file(name)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        dir.replace(to, Readers::Owner, &mut |file| io::copy(&mut from, file).map(drop))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        match self.location.open()? {
            Some(dir) => dir.remove(name),
            None => Ok(()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        match self.location.open()? {
            Some(dir) => dir.list(),
            None => Ok(Vec::new()),
        }
    }
}
