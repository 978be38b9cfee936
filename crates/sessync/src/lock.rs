//! One run a project at a time.
//!
//! The lock is the operating system's and goes with the process, however that ends. The file says who holds it,
//! for the one who has to wait.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::clock::Clock;

/// How often a waiting run looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why the lock was not got.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another run is at it (process {0})")]
    Held(String),
    #[error("the state cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Held until dropped.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not used")] File);

/// Takes the lock, waiting at most this long.
pub async fn take<C: Clock>(directory: &Path, wait: Duration, clock: &C) -> Result<Lock, Error> {
    fs::create_dir_all(directory)?;
    let path = directory.join("lock");
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let until = clock.elapsed() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) if clock.elapsed() >= until => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                return Err(Error::Held(holder.trim().to_owned()));
            }
            Err(TryLockError::WouldBlock) => clock.sleep(LOOK_EVERY).await,
        }
    }
    // Who holds it is a courtesy: a full disk must not prevent the lock.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(Lock(file))
}
