//! Directories that somebody else may have filled: a checkout, and the state, until it is known to be this user's.
//!
//! Promise: what is below a [`Location`] is reached one name at a time through open handles. No symbolic link is
//! followed on the way, nothing but a regular file is opened, and a new file replaces the old one by a rename. So
//! nothing that was put there beforehand, or is exchanged meanwhile, leads a read or a write to another place.
//!
//! A *private* location must also belong to this user, and nobody else may be able to write to it. It is made
//! readable by its owner only.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Fills a file.
pub type Fill<'a> = &'a mut dyn FnMut(&mut dyn Write) -> io::Result<()>;

/// Who may read a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    Owner,
    /// As the process's umask says: for files that belong to a checkout.
    Usual,
}

impl Readers {
    fn mode(self) -> Mode {
        match self {
            Readers::Owner => Mode::RUSR | Mode::WUSR,
            Readers::Usual => Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH,
        }
    }
}

/// Where a directory is: names below a directory that the user chose. The names need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Links in this path are followed: it is the user's own.
    base: PathBuf,
    names: Vec<String>,
    private: bool,
}

impl Location {
    /// Only this user may read and write what is below `base`.
    pub fn private(base: impl Into<PathBuf>) -> Location {
        Location { base: base.into(), names: Vec::new(), private: true }
    }

    /// Others may read it, and may have written it.
    pub fn plain(base: impl Into<PathBuf>) -> Location {
        Location { base: base.into(), names: Vec::new(), private: false }
    }

    #[must_use]
    pub fn join(&self, name: &str) -> Location {
        let mut location = self.clone();
        location.names.push(name.to_owned());
        location
    }

    pub fn path(&self) -> PathBuf {
        self.names.iter().fold(self.base.clone(), |path, name| path.join(name))
    }

    /// Opens the directory. `None`: there is none.
    pub(crate) fn open(&self) -> io::Result<Option<Dir>> {
        let mut dir = match rustix::fs::open(&self.base, DIRECTORY, Mode::empty()) {
            Ok(handle) => Dir { handle, path: self.base.clone() },
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(at(&self.base, error)),
        };
        for name in &self.names {
            let Some(child) = dir.child(name)? else { return Ok(None) };
            dir = self.checked(child)?;
        }
        Ok(Some(dir))
    }

    /// The same, but there is none either if a link or a file is in the way. For what earlier versions left in a checkout:
    /// they made directories.
    pub(crate) fn open_unless_in_the_way(&self) -> io::Result<Option<Dir>> {
        self.open().or_else(|error| if is_in_the_way(&error) { Ok(None) } else { Err(error) })
    }

    /// Opens the directory. Makes what is missing of it.
    pub(crate) fn create(&self) -> io::Result<Dir> {
        let mode = if self.private { 0o700 } else { 0o777 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(&self.base)?;
        let handle = rustix::fs::open(&self.base, DIRECTORY, Mode::empty()).map_err(|error| at(&self.base, error))?;
        let mut dir = Dir { handle, path: self.base.clone() };
        for name in &self.names {
            match rustix::fs::mkdirat(&dir.handle, name.as_str(), Mode::from_raw_mode(mode as _)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(at(&dir.path.join(name), error)),
            }
            let child = dir.child(name)?.ok_or_else(|| at(&dir.path.join(name), Errno::NOENT))?;
            dir = self.checked(child)?;
        }
        Ok(dir)
    }

    fn checked(&self, dir: Dir) -> io::Result<Dir> {
        if self.private {
            dir.make_private()?;
        }
        Ok(dir)
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// No link is followed, and a FIFO does not make the open wait.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// An open directory.
pub(crate) struct Dir {
    handle: OwnedFd,
    /// For messages only.
    path: PathBuf,
}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dir").field(&self.path).finish()
    }
}

impl Dir {
    fn child(&self, name: &str) -> io::Result<Option<Dir>> {
        let path = self.path.join(name);
        if !is_one_name(name) {
            return Err(refused(&path, "is not a name"));
        }
        match rustix::fs::openat(&self.handle, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Some(Dir { handle, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::MLINK) => {
                Err(in_the_way(&path, "is not a directory but a link or a file"))
            }
            Err(error) => Err(at(&path, error)),
        }
    }

    /// Refuses a directory that others own or can write to. Takes away that others can read it.
    fn make_private(&self) -> io::Result<()> {
        let stat = rustix::fs::fstat(&self.handle).map_err(|error| at(&self.path, error))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(refused(&self.path, &format!("belongs to another user (uid {})", stat.st_uid)));
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        if mode.intersects(Mode::WGRP | Mode::WOTH) {
            return Err(refused(
                &self.path,
                "can be written by others; if its content is yours, run `chmod 700` on it",
            ));
        }
        if mode.intersects(Mode::RWXG | Mode::RWXO) {
            rustix::fs::fchmod(&self.handle, Mode::RWXU).map_err(|error| at(&self.path, error))?;
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What tells this directory from every copy of it.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.handle).map_err(|error| at(&self.path, error))?.st_ino)
    }

    /// Opens a regular file for reading. `None`: there is none.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        self.file(name, OFlags::RDONLY, Readers::Owner)
    }

    /// Opens a file at whose end something will be written; makes it if there is none.
    pub(crate) fn open_to_append(&self, name: &str) -> io::Result<File> {
        self.owned(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens a file for reading and writing; makes it if there is none.
    pub(crate) fn open_or_make(&self, name: &str) -> io::Result<File> {
        self.owned(name, OFlags::RDWR | OFlags::CREATE)
    }

    fn owned(&self, name: &str, how: OFlags) -> io::Result<File> {
        let file = self.file(name, how, Readers::Owner)?.ok_or_else(|| at(&self.path.join(name), Errno::NOENT))?;
        let stat = rustix::fs::fstat(&file)?;
        if Mode::from_raw_mode(stat.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
            rustix::fs::fchmod(&file, Readers::Owner.mode())?;
        }
        Ok(file)
    }

    fn file(&self, name: &str, how: OFlags, readers: Readers) -> io::Result<Option<File>> {
        let path = self.path.join(name);
        if !is_one_name(name) {
            return Err(refused(&path, "is not a name"));
        }
        let handle = match rustix::fs::openat(&self.handle, name, how | FILE, readers.mode()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(None),
            // A FIFO without a reader, a socket, a directory.
            Err(Errno::LOOP | Errno::MLINK | Errno::NXIO | Errno::ISDIR) => {
                return Err(in_the_way(&path, "is not a regular file"));
            }
            Err(error) => return Err(at(&path, error)),
        };
        let file = File::from(handle);
        if !is_regular(&rustix::fs::fstat(&file)?) {
            return Err(in_the_way(&path, "is not a regular file"));
        }
        Ok(Some(file))
    }

    /// The content of a file. `None`: there is none.
    pub(crate) fn read(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open_file(name)? else { return Ok(None) };
        bounded(file, most).map(Some).map_err(|error| refused(&self.path.join(name), &error.to_string()))
    }

    /// Writes a file under a temporary name, syncs it and renames it, so that no reader ever sees half of it.
    pub(crate) fn replace(&self, name: &str, readers: Readers, fill: Fill<'_>) -> io::Result<()> {
        let temporary = format!("{name}.tmp");
        // What an interrupted run left. It is removed and not overwritten: it may be a link.
        self.remove(&temporary)?;
        let written = (|| {
            let file = self.file(&temporary, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, readers)?;
            let file = file.ok_or_else(|| at(&self.path.join(&temporary), Errno::NOENT))?;
            let mut file = BufWriter::with_capacity(64 * 1024, file);
            fill(&mut file)?;
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            self.rename(&temporary, name)?;
            self.sync()
        })();
        if written.is_err() {
            // It would only take space. The next attempt removes it if it cannot be removed now.
            let _ = self.remove(&temporary);
        }
        written
    }

    /// Moves a file or directory to another name in this directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        rustix::fs::renameat(&self.handle, from, &self.handle, to).map_err(|error| at(&self.path.join(from), error))
    }

    /// Removes a file or a link. It is no error if there is none.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(at(&self.path.join(name), error)),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: &str) -> io::Result<()> {
        rustix::fs::unlinkat(&self.handle, name, AtFlags::REMOVEDIR).map_err(|error| at(&self.path.join(name), error))
    }

    /// The names in the directory.
    pub(crate) fn list(&self) -> io::Result<Vec<String>> {
        let entries = rustix::fs::Dir::read_from(&self.handle).map_err(|error| at(&self.path, error))?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| at(&self.path, error))?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// A new name in a directory is durable only once the directory itself is synced.
    pub(crate) fn sync(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.handle).map_err(|error| at(&self.path, error))
    }
}

/// Some people keep their home directory in git. Nothing in this directory belongs there.
pub(crate) fn keep_out_of_git(dir: &Dir) -> io::Result<()> {
    // Not replaced but filled: several runs may do this at once.
    let mut file = dir.open_or_make(".gitignore")?;
    if file.metadata()?.len() == 0 {
        file.write_all(b"*\n")?;
    }
    Ok(())
}

/// The directory of the config is in a checkout: except for the config, everything there belongs to this machine only.
pub(crate) fn keep_state_out_of_git(dir: &Dir) -> io::Result<()> {
    const NAME: &str = ".gitignore";
    const MAX_BYTES: u64 = 1024 * 1024;
    let old = dir.read(NAME, MAX_BYTES)?.unwrap_or_default();
    let old = String::from_utf8_lossy(&old);
    if old.lines().any(|line| line.trim() == "*") {
        return Ok(());
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    dir.replace(NAME, Readers::Usual, &mut |to| write!(to, "{old}{gap}*\n!.gitignore\n!config.json\n"))
}

/// Reads a file that the user named, through links, but only if it is a regular file of at most this size.
pub(crate) fn read_named(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !is_regular(&rustix::fs::fstat(&file)?) {
        return Err(io::Error::other("it is not a regular file"));
    }
    bounded(file, most)
}

fn bounded(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // The file may grow meanwhile: its size says nothing.
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(content)
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn is_one_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('/')
}

fn at(path: &Path, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// There is something else where a file or a directory should be: a link, for example.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InTheWay(String);

fn in_the_way(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, InTheWay(format!("{} {what}", path.display())))
}

/// Whether something could not be opened because it is not of the right kind. Every other error says nothing about that.
pub(crate) fn is_in_the_way(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<InTheWay>())
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn text(dir: &Dir, name: &str) -> String {
        String::from_utf8(dir.read(name, 100).unwrap().unwrap()).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_in_a_private_place_is_readable_by_its_owner_only() {
        let base = tempfile::tempdir().unwrap();
        let location = Location::private(base.path()).join("a").join("b");
        let dir = location.create().unwrap();
        dir.replace("file", Readers::Owner, &mut |to| to.write_all(b"x")).unwrap();
        dir.open_to_append("log").unwrap();
        assert_eq!((mode(&location.path()), mode(&location.path().join("file"))), (0o700, 0o600));
        assert_eq!(mode(&location.path().join("log")), 0o600);
        // Readable by others, for example from a backup: it is closed.
        fs::set_permissions(location.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(location.path().join("log"), fs::Permissions::from_mode(0o644)).unwrap();
        location.open().unwrap().unwrap().open_to_append("log").unwrap();
        assert_eq!((mode(&location.path()), mode(&location.path().join("log"))), (0o700, 0o600));
        // Writable by others: they may have put something there.
        fs::set_permissions(location.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(location.open().unwrap_err().to_string().contains("written by others"));
        assert!(location.create().is_err());
    }

    #[test]
    fn a_link_is_never_followed_at_any_level_and_by_no_operation() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "precious").unwrap();
        let base = tempfile::tempdir().unwrap();
        for (level, names) in [&["a"][..], &["a", "b"], &["a", "b", "c"]].into_iter().enumerate() {
            let parent = names[..level].iter().fold(base.path().to_owned(), |path, name| path.join(name));
            fs::create_dir_all(&parent).unwrap();
            symlink(outside.path(), parent.join(names[level])).unwrap();
            let location = ["a", "b", "c"].iter().fold(Location::plain(base.path()), |at, name| at.join(name));
            assert!(location.open().is_err() && location.create().is_err(), "level {level}");
            fs::remove_file(parent.join(names[level])).unwrap();
        }
        let location = Location::plain(base.path()).join("a");
        let dir = location.create().unwrap();
        for name in ["file", "file.tmp"] {
            symlink(outside.path().join("precious"), location.path().join(name)).unwrap();
        }
        assert!(dir.read("file", 100).is_err());
        assert!(dir.open_to_append("file").is_err() && dir.open_or_make("file").is_err());
        dir.replace("file", Readers::Owner, &mut |to| to.write_all(b"new")).unwrap();
        assert_eq!(text(&dir, "file"), "new");
        assert_eq!(fs::read_to_string(outside.path().join("precious")).unwrap(), "precious");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_exchanged_for_a_link_after_it_was_opened_is_not_left() {
        let outside = tempfile::tempdir().unwrap();
        let base = tempfile::tempdir().unwrap();
        let location = Location::plain(base.path()).join("a");
        let dir = location.create().unwrap();
        fs::rename(location.path(), base.path().join("moved")).unwrap();
        symlink(outside.path(), location.path()).unwrap();
        dir.replace("file", Readers::Owner, &mut |to| to.write_all(b"x")).unwrap();
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(base.path().join("moved/file").exists());
    }

    #[test]
    fn a_fifo_and_a_directory_are_no_files_and_nobody_waits_for_them() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        fs::create_dir(base.path().join("folder")).unwrap();
        let dir = Location::plain(base.path()).open().unwrap().unwrap();
        for name in ["pipe", "folder"] {
            assert!(dir.read(name, 10).is_err(), "{name}");
            assert!(dir.open_to_append(name).is_err(), "{name}");
            assert!(read_named(&base.path().join(name), 10).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_is_read_only_up_to_its_bound() {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("f"), [b'x'; 11]).unwrap();
        let dir = Location::plain(base.path()).open().unwrap().unwrap();
        assert!(dir.read("f", 10).is_err() && dir.read("f", 11).unwrap().is_some());
        assert!(read_named(&base.path().join("f"), 10).is_err());
        assert!(read_named(Path::new("/dev/zero"), 10).is_err());
    }

    #[test]
    fn a_name_never_leads_out_of_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let dir = Location::plain(base.path()).open().unwrap().unwrap();
        for name in ["..", ".", "", "a/b", "/etc/passwd"] {
            assert!(dir.open_file(name).is_err() && dir.child(name).is_err(), "{name:?}");
        }
    }
}
