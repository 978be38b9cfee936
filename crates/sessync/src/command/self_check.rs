//! `sessync self-check`: whether config, trust, credentials, table, views, state and hook are right, on one screen.

use std::io::{self, Write};

use serde::Serialize;

use super::{Error, Session, hook, print};
use crate::clock::Clock as _;
use crate::failure;
use crate::outside::bigquery::{self, QUESTION};
use crate::schema;
use crate::settings::{Process, StateKind};

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    said: String,
}

pub(super) async fn run(session: &Session, process: &Process, out: &mut dyn Write) -> Result<u8, Error> {
    let findings = findings(session, process).await;
    let wrong = findings.iter().any(|finding| !finding.ok);
    if session.json {
        print::json(&findings, out)?;
    } else {
        show(&findings, out)?;
    }
    Ok(u8::from(wrong))
}

fn show(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    for Finding { what, ok, said } in findings {
        writeln!(out, "{} {what:<12} {said}", if *ok { "ok   " } else { "WRONG" })?;
    }
    Ok(())
}

async fn findings(session: &Session, process: &Process) -> Vec<Finding> {
    let project = &session.project;
    let mut findings = Vec::new();
    let mut add = |what, ok, said: String| findings.push(Finding { what, ok, said });
    let unknown = &project.config.unknown;
    match unknown.is_empty() {
        true => add("config", true, project.candidate.path.display().to_string()),
        false => add("config", false, format!("it has unknown keys: {}", unknown.join(", "))),
    }
    match &project.trust {
        Ok(()) => add("trust", true, "the config may be used".to_owned()),
        Err(untrusted) => add("trust", false, untrusted.to_string()),
    }
    let state = project.home.open().map(|_| project.home.path().display().to_string());
    match state {
        Ok(path) => add("state", true, path),
        Err(error) => add("state", false, error.to_string()),
    }
    if let StateKind::DynamoDb { table, .. } = &project.config.state {
        add("shared", true, format!("the DynamoDB table {table}; an upload says if it cannot be used"));
    }
    if project.trust.is_err() {
        // Nothing is asked of a destination that nobody trusts.
        add("destination", false, format!("{} is not asked before the config is trusted", project.destination));
    } else {
        let table = &project.config.table;
        let places = [("table", table.clone()), ("view", schema::view(table)), ("usage view", schema::usage(table))];
        let (mut signed_in, mut is_answered) = (None, false);
        for (what, place) in places {
            let asked = session.bigquery.is_there(&place, session.clock.now(), QUESTION).await;
            let is_refused = |error: &bigquery::Error| {
                matches!(error, bigquery::Error::Unauthorized(_) | bigquery::Error::Credentials(_))
            };
            is_answered |= !matches!(
                asked,
                Err(bigquery::Error::NotSent(_) | bigquery::Error::Lost(_) | bigquery::Error::Answer(_))
            );
            signed_in =
                signed_in.or_else(|| asked.as_ref().err().filter(|error| is_refused(error)).map(ToString::to_string));
            match asked {
                Ok(()) => add(what, true, place.sql()),
                Err(bigquery::Error::MissingTable(_)) => {
                    add(what, false, format!("there is no {}; run `sessync schema --create`", place.sql()));
                }
                Err(error) => add(what, false, error.to_string()),
            }
        }
        match signed_in {
            None if is_answered => add("credentials", true, "BigQuery accepts them".to_owned()),
            None => add("credentials", true, "not checked, because BigQuery did not answer".to_owned()),
            Some(error) => add("credentials", false, error),
        }
    }
    match hook::installed(&process.directory) {
        Ok((true, true)) => add("hook", true, "at the end and at the beginning of a session".to_owned()),
        Ok(_) => {
            add("hook", false, "it is not installed, or by an earlier version; run `sessync install-hook`".to_owned())
        }
        Err(error) => add("hook", false, error.to_string()),
    }
    match failure::last(&project.home) {
        Ok(None) => add("last hook", true, "did not fail".to_owned()),
        Ok(Some(failure)) => add("last hook", false, failure.to_string()),
        Err(error) => add("last hook", false, error.to_string()),
    }
    findings
}
