//! `sessync export-state`: write the state as `upload-state.json`, as earlier versions kept it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use telemetry::terminal::harmless_json;

use super::print::{self, count};
use super::{Error, Session};
use crate::clock::Clock as _;
use crate::journal::legacy::{self, UploadState};
use crate::journal::open;
use crate::journal::seen::Novelty;
use crate::outside::bigquery::{self, QUESTION};
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
    let set_aside = set_aside_uuids(journal.disk())?;
    each_line(&project.roots, &project.scope, &mut |_, _, _, line| match journal.look_up(Key::of(line)) {
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
        let (developer, name) = (&project.config.developer_id, &project.config.project_name);
        let mut add = |uuid: &str, _| {
            uuids.insert(uuid.to_owned());
            match uuids.len() as u64 > open::MAX_ROWS {
                true => Err(bigquery::Error::TooMany(open::MAX_ROWS)),
                false => Ok(()),
            }
        };
        bigquery.rows_of_project(developer, name, clock.now(), QUESTION, &mut add).await?;
    }
    let totals = &journal.state().totals;
    let state = UploadState {
        last_upload_timestamp: totals.last_upload.map(|time| time.to_string()),
        uploaded_uuids: uuids.into_iter().collect(),
        last_upload_batch_id: totals.last_batch.clone(),
        total_uploaded: totals.uploaded,
    };
    if to == Some(Path::new("-")) {
        let text = serde_json::to_string_pretty(&state).map_err(io::Error::from)?;
        out.write_all(format!("{}\n", harmless_json(&text)).as_bytes())?;
        return Ok(0);
    }
    let path = match to {
        None => legacy::export(project, &state)?,
        Some(path) => {
            legacy::export_to(path, &state)?;
            path.to_owned()
        }
    };
    let uuids = state.uploaded_uuids.len();
    match session.json {
        true => print::json(&json!({"path": path, "uuids": uuids}), out)?,
        false => writeln!(out, "Wrote {} to {}.", count(uuids as u64, "uuid"), path.display())?,
    }
    Ok(0)
}
