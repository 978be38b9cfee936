//! `sessync export-state`: write the state as `upload-state.json`, as earlier versions kept it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;

use super::report::count;
use super::{Error, Session};
use crate::clock::{Clock as _, Time};
use crate::journal::legacy::{self, UploadState};
use crate::journal::open;
use crate::journal::seen::Novelty;
use crate::outside::bigquery::QUESTION;
use crate::source::each_line;
use crate::source::line::Key;
use crate::upload::set_aside_uuids;

pub(super) async fn run(
    session: &Session,
    to: Option<&Path>,
    from_destination: bool,
    out: &mut dyn Write,
) -> Result<u8, Error> {
    let Session { project, bigquery, clock, .. } = session;
    let mut journal = open::for_reading(project)?;
    let mut uuids = BTreeSet::new();
    let mut failed = None;
    let set_aside = set_aside_uuids(&project.state_directory());
    each_line(&project.root, &project.scope, &mut |_, _, _, line| match journal.look_up(Key::of(line)) {
        Ok(Novelty::Known) if !set_aside.contains(line.uuid.as_ref()) => {
            uuids.insert(line.uuid.clone().into_owned());
        }
        Ok(_) => {}
        Err(error) => failed = Some(error),
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if from_destination {
        uuids.extend(bigquery.rows_since(Time(0), clock.now(), QUESTION).await?.into_keys());
    }
    let totals = &journal.state().totals;
    let state = UploadState {
        last_upload_timestamp: totals.last_upload.map(|time| time.to_string()),
        uploaded_uuids: uuids.into_iter().collect(),
        last_upload_batch_id: totals.last_batch.clone(),
        total_uploaded: totals.uploaded,
    };
    if to == Some(Path::new("-")) {
        serde_json::to_writer_pretty(&mut *out, &state).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(0);
    }
    let path = to.map_or_else(|| project.directory.join(legacy::FILE), Path::to_owned);
    legacy::export(&path, &project.directory, &project.destination, &state)?;
    let uuids = state.uploaded_uuids.len();
    match session.json {
        true => writeln!(out, "{}", json!({"path": path, "uuids": uuids}))?,
        false => writeln!(out, "Wrote {} to {}.", count(uuids as u64, "uuid"), path.display())?,
    }
    Ok(0)
}
