//! Further runs: what one would suspect to break first, measured.

use crate::{App, Error, Measured};

/// Something that one would suspect.
#[derive(Debug)]
pub struct Candidate {
    pub name: &'static str,
    pub what: &'static str,
    app: App,
    run: fn(u64) -> Result<Measured, Error>,
}

impl Candidate {
    /// Runs it in a world of its own.
    ///
    /// # Errors
    /// When the world cannot be made.
    pub fn run(&self, seed: u64) -> Result<Measured, Error> {
        (self.run)(seed)
    }
}

/// The candidates of an application.
pub fn of(app: App) -> impl Iterator<Item = &'static Candidate> {
    ALL.iter().filter(move |candidate| candidate.app == app)
}

static ALL: [Candidate; 0] = [];
