//! Earlier versions kept the state beside the config, in the checkout. It is moved to the user's own directory once.
//!
//! The files are copied, the journal last: while the new place has no journal, the old one counts, and an
//! interrupted move begins again. Only regular files are taken over, and none through a link: where a link is, there
//! is no old state.

use std::fs::File;
use std::io;

use super::disk::{Directory, Disk as _};
use super::{JOURNAL, legacy};
use crate::dir::{Dir, Location, Readers, is_in_the_way};
use crate::settings::Project;

/// Says in the new place that the old one is to be removed.
const MARKER: &str = "moved";

/// Where the state is now: in the old place until it is moved.
pub(super) fn current(project: &Project) -> io::Result<Location> {
    let (new, old) = (project.state(), project.old_state());
    if Directory::new(new.clone()).open(JOURNAL)?.is_some() {
        return Ok(new);
    }
    let Some(dir) = old.open_unless_in_the_way()? else { return Ok(new) };
    Ok(if regular(dir.open_file(JOURNAL))?.is_some() { old } else { new })
}

/// Moves the state of an earlier version, if there is one. The text says where it is now.
pub(crate) fn take_over(project: &Project) -> Result<Option<String>, super::open::Error> {
    let (new, old) = (project.state(), project.old_state());
    let failed = |source| super::open::Error::Move { from: old.path(), to: new.path(), source };
    let Some(from) = old.open_unless_in_the_way().map_err(failed)? else {
        return Ok(None);
    };
    let mut moved = false;
    if current(project).map_err(failed)? == old {
        copy(&from, &new).map_err(failed)?;
        moved = true;
    }
    let to = new.open().map_err(failed)?;
    let is_finished = to.is_some_and(|to| to.open_file(MARKER).is_ok_and(|file| file.is_some()));
    if is_finished {
        legacy::move_marker(project)?;
        // What cannot be removed, for example from a read-only checkout, is not used any more either.
        let _ = remove(project, &from);
    }
    Ok(moved.then(|| {
        format!("moved the state from {} to {}, where only you can read it", old.path().display(), new.path().display())
    }))
}

fn copy(from: &Dir, to: &Location) -> io::Result<()> {
    let to = to.create()?;
    let mut names = from.list()?;
    names.sort_by_key(|name| name == JOURNAL);
    for name in names.iter().filter(|name| !name.ends_with(".tmp")) {
        if name == JOURNAL {
            to.replace(MARKER, Readers::Owner, &mut |to| writeln!(to, "from {}", from.path().display()))?;
        }
        let Some(mut file) = regular(from.open_file(name))? else { continue };
        to.replace(name, Readers::Owner, &mut |to| io::copy(&mut file, to).map(drop))?;
    }
    Ok(())
}

/// The file that was opened. What is not a regular file is nothing of sessync's. A file that cannot be opened for
/// another reason is an error: it is removed from the old place once the move is finished.
fn regular(opened: io::Result<Option<File>>) -> io::Result<Option<File>> {
    opened.or_else(|error| if is_in_the_way(&error) { Ok(None) } else { Err(error) })
}

fn remove(project: &Project, old: &Dir) -> io::Result<()> {
    for name in old.list()? {
        old.remove(&name)?;
    }
    if let Some(state) = project.beside_config.join("state").open()? {
        state.remove_dir(&project.destination_name())?;
    }
    if let Some(beside) = project.beside_config.open()? {
        beside.remove("lock")?;
        // There is another destination's state in it, if this fails.
        beside.remove_dir("state")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_is_not_a_regular_file_is_left_out() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("file"), "x").unwrap();
        symlink(base.path().join("file"), base.path().join("link")).unwrap();
        std::fs::create_dir(base.path().join("folder")).unwrap();
        let dir = Location::plain(base.path()).open().unwrap().unwrap();
        assert!(regular(dir.open_file("file")).unwrap().is_some());
        for name in ["link", "folder", "nothing"] {
            assert!(regular(dir.open_file(name)).unwrap().is_none(), "{name}");
        }
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::WouldBlock, io::ErrorKind::Other] {
            assert_eq!(regular(Err(kind.into())).unwrap_err().kind(), kind);
        }
    }
}
