//! `sessync reset`: put the state aside, or rebuild it from BigQuery.

use std::io::Write;

use serde_json::json;

use super::print::{self, count};
use super::{Error, LOCK_WAIT, Session};
use crate::clock::Clock as _;
use crate::journal::disk::Directory;
use crate::journal::seen::Seen;
use crate::journal::state::State;
use crate::journal::{Journal, legacy, lock, moved, open};

pub(super) async fn run(session: &Session, rebuild: bool, out: &mut dyn Write) -> Result<u8, Error> {
    let Session { project, bigquery, clock, .. } = session;
    let _lock = lock::take(project, LOCK_WAIT, clock).await?;
    if rebuild {
        let journal = open::rebuild(project, "reset --rebuild", bigquery, clock).await?;
        let rows = journal.state().totals.uploaded;
        match session.json {
            true => print::json(&json!({"reset": true, "rows": rows}), out)?,
            false => writeln!(
                out,
                "Rebuilt the state from BigQuery: it has {}, which count as uploaded.",
                count(rows, "row")
            )?,
        }
        return Ok(0);
    }
    moved::take_over(project)?;
    let (name, state) = (project.destination_name(), project.state());
    let aside = format!("{name}.reset-{}", clock.now().0);
    let failed = |source| Error::Move { path: state.path(), source };
    let kept = match state.open().map_err(failed)? {
        None => None,
        Some(_) => {
            let home = project.home.create().map_err(failed)?;
            home.rename(&name, &aside).map_err(failed)?;
            Some(home.path().join(aside))
        }
    };
    legacy::never_again(project)?;
    // An empty journal, not none: what is missing would be asked of BigQuery.
    let mut empty = State::new(&project.destination);
    empty.resend = true;
    Journal::fresh(Directory::new(state), empty, Seen::default()).compact()?;
    match (session.json, kept) {
        (true, kept) => print::json(&json!({"reset": true, "kept": kept}), out)?,
        (false, kept) => {
            let begins = match kept {
                None => "There was no state. The next upload sends everything.",
                Some(_) => "The next upload sends everything again.",
            };
            writeln!(out, "{begins} Rows that BigQuery already has will be there twice.")?;
            writeln!(out, "To count them as uploaded instead, run `sessync reset --rebuild`.")?;
            if let Some(kept) = kept {
                writeln!(out, "The old state is kept in {}.", kept.display())?;
            }
        }
    }
    Ok(0)
}
