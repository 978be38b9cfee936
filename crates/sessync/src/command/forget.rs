//! `sessync forget UUID`: the next upload sends that line again.

use std::io::Write;

use serde_json::json;

use super::{Error, LOCK_WAIT, Session, print};
use crate::journal::record::Record;
use crate::journal::{lock, open};
use crate::source::each_line;
use crate::source::line::uuid_half;

pub(super) async fn run(session: &Session, uuid: &str, out: &mut dyn Write) -> Result<u8, Error> {
    let Session { project, bigquery, clock, .. } = session;
    let _lock = lock::take(project, LOCK_WAIT, clock).await?;
    let (mut journal, _) = open::for_writing(project, bigquery, clock).await?;
    let known = journal.seen()?.knows_uuid(uuid_half(uuid));
    let mut again = Vec::new();
    let files = &journal.state().files;
    each_line(&project.roots, &project.scope, &mut |log, start, end, line| {
        // Lines after the mark are read anyway.
        if line.uuid == uuid && files.get(&log.name).is_some_and(|mark| end <= mark.offset) {
            again.push((log.name.clone(), start, end));
        }
    })?;
    let lines = again.len();
    if known {
        journal.append(&Record::Forgotten { uuid: uuid_half(uuid), again })?;
    }
    if session.json {
        print::json(&json!({"forgotten": known, "lines": lines}), out)?;
    } else if !known {
        writeln!(out, "{uuid} is not among the uploaded lines.")?;
    } else if lines == 0 {
        writeln!(out, "Forgot {uuid}. No log has a line with this uuid any more, so nothing will be uploaded again.")?;
    } else {
        writeln!(out, "Forgot {uuid}. The next upload sends it again.")?;
    }
    Ok(u8::from(!known))
}
