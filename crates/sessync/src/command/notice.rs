//! `sessync notice`: what a session begins with, if the user should know something. The `SessionStart` hook runs it.
//!
//! Claude Code shows the `systemMessage` of a hook's answer to the user.

use std::io::Write;

use serde_json::json;
use telemetry::terminal::one_line;

use super::{Error, print};
use crate::clock::{Clock as _, SystemClock};
use crate::failure;
use crate::settings::{self, Call, Process, Project};

pub(super) fn run(call: &Call, process: &Process, out: &mut dyn Write) -> Result<u8, Error> {
    if let Some(text) = text(call, process)? {
        // A terminal shows what is in the JSON.
        print::json(&json!({"systemMessage": format!("sessync: {}", one_line(&text))}), out)?;
    }
    Ok(0)
}

fn text(call: &Call, process: &Process) -> Result<Option<String>, Error> {
    match Project::open(call, process) {
        // Not a project of sessync's.
        Err(settings::Error::Missing(_)) => return Ok(None),
        Ok(project) => {
            if let Err(untrusted) = project.trust {
                return Ok(Some(format!("nothing is uploaded: {untrusted}")));
            }
        }
        Err(_) => {}
    }
    let failure = failure::last(&process.project_home()?).map_err(settings::Error::State)?;
    let failure = failure.filter(|failure| failure.is_old(SystemClock::default().now()));
    Ok(failure.map(|failure| format!("{failure}. Run `sessync` in {} to see more.", process.directory.display())))
}
