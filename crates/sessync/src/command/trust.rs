//! `sessync trust`: the user has read the config, and it may be used.

use std::io::Write;

use serde_json::json;

use super::{Error, Session, print};
use crate::clock::Clock as _;
use crate::settings::{self, Process, StateKind};
use crate::trust;

pub(super) fn run(session: &Session, process: &Process, revoke: bool, out: &mut dyn Write) -> Result<u8, Error> {
    let project = &session.project;
    let (candidate, home) = (&project.candidate, process.state()?);
    let config = candidate.path.display();
    if revoke {
        let was_trusted = trust::revoke(&home, &candidate.path).map_err(settings::Error::State)?;
        match (session.json, was_trusted) {
            (true, _) => print::json(&json!({"config": candidate.path, "revoked": was_trusted}), out)?,
            (false, true) => writeln!(out, "{config} is not trusted any more.")?,
            (false, false) => writeln!(out, "{config} was not trusted.")?,
        }
        return Ok(0);
    }
    trust::grant(&home, candidate, session.clock.now()).map_err(settings::Error::State)?;
    let names = candidate.variables.iter().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.filter(|name| *name != settings::HOME).collect();
    let key = project.key.as_ref().map(|key| key.path.display().to_string());
    let token_address = project.key.as_ref().and_then(|key| key.token_address());
    if session.json {
        let trusted = json!({
            "config": candidate.path, "destination": project.destination, "key_file": key,
            "token_address": token_address, "variables": names,
        });
        print::json(&trusted, out)?;
        return Ok(0);
    }
    writeln!(out, "Trusted {config}:")?;
    writeln!(out, "  logs are sent to  {}", project.destination)?;
    writeln!(out, "  credentials       {}", key.as_deref().unwrap_or("the application-default credentials"))?;
    if let Some(address) = token_address {
        writeln!(out, "  tokens come from  {address}")?;
    }
    if let StateKind::DynamoDb { table, .. } = &project.config.state {
        writeln!(out, "  shared state      the DynamoDB table {table}")?;
    }
    if !names.is_empty() {
        writeln!(out, "  variables         {}", names.join(", "))?;
    }
    writeln!(out, "When the config changes, sessync asks for this again. `sessync trust --revoke` takes it back.")?;
    Ok(0)
}
