//! One run per project at a time.
//!
//! The lock is an operating system lock: it is released when the process ends, however it ends. The file names the
//! process that holds the lock, for the message of a run that waits in vain.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::time::Duration;

use crate::clock::Clock;
use crate::dir::{Readers, keep_out_of_git};
use crate::settings::Project;

/// How often a waiting run tries again.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The file that says to people whose state this is.
const PATH: &str = "path";

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("another run of sessync is working on this project (process {0}); try again when it has finished")]
    Held(String),
    #[error("the state cannot be written: {0}; make the directory writable and run sessync again")]
    Io(#[from] io::Error),
}

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held, not used")] File);

/// Takes the lock. Waits at most `wait` for another run.
pub(crate) async fn take<C: Clock>(project: &Project, wait: Duration, clock: &C) -> Result<Lock, Error> {
    keep_out_of_git(&project.state_root.create()?)?;
    let home = project.home.create()?;
    let mut file = home.open_or_make("lock")?;
    let until = clock.elapsed() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) if clock.elapsed() >= until => {
                let mut holder = String::new();
                let _ = (&mut file).take(100).read_to_string(&mut holder);
                return Err(Error::Held(holder.trim().to_owned()));
            }
            Err(TryLockError::WouldBlock) => clock.sleep(LOOK_EVERY).await,
        }
    }
    // The name only helps the one who waits: a full disk must not prevent the lock.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    if home.open_file(PATH)?.is_none() {
        home.replace(PATH, Readers::Owner, &mut |to| writeln!(to, "{}", project.path.display()))?;
    }
    Ok(Lock(file))
}
