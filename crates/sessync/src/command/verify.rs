//! `sessync verify`: compare the logs and the journal with BigQuery.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use super::print::{count, examples, json};
use super::{Error, Session};
use crate::clock::{Clock as _, Time};
use crate::journal::open;
use crate::journal::seen::{Novelty, Seen};
use crate::outside::bigquery::QUESTION;
use crate::source::each_line;
use crate::source::line::{Key, uuid_half};
use crate::upload::set_aside_uuids;

/// How many examples of one kind are shown.
const MAX_EXAMPLES: usize = 20;

#[derive(Debug, Default, Serialize)]
struct Comparison {
    lines: u64,
    uploaded: u64,
    not_uploaded_yet: u64,
    set_aside: u64,
    /// Uploaded according to the journal, but not in BigQuery.
    missing: u64,
    missing_examples: Vec<String>,
    /// More often in BigQuery than in the logs and the journal.
    doubled: u64,
    doubled_examples: Vec<String>,
}

pub(super) async fn run(session: &Session, out: &mut dyn Write) -> Result<u8, Error> {
    let comparison = compare(session).await?;
    if session.json {
        json(&comparison, out)?
    } else {
        print(&comparison, out)?
    }
    Ok(u8::from(comparison.missing > 0 || comparison.doubled > 0))
}

async fn compare(session: &Session) -> Result<Comparison, Error> {
    let Session { project, bigquery, clock, .. } = session;
    let mut journal = open::for_reading(project)?;
    let set_aside = set_aside_uuids(journal.disk())?;
    let mut comparison = Comparison::default();
    let mut met = Seen::default();
    // By uuid: how many contents are uploaded, how many there are.
    let mut expected: HashMap<String, (u64, u64)> = HashMap::new();
    let mut oldest: Option<Time> = None;
    let mut failed = None;
    each_line(&project.roots, &project.scope, &mut |_, _, _, line| {
        let key = Key::of(line);
        if met.look_up(key) == Novelty::Known {
            return;
        }
        met.insert(key, 0);
        comparison.lines += 1;
        if let Some(time) = Time::parse(&line.timestamp) {
            oldest = Some(oldest.map_or(time, |oldest: Time| oldest.min(time)));
        }
        let counts = expected.entry(line.uuid.clone().into_owned()).or_default();
        counts.1 += 1;
        match journal.look_up(key) {
            Ok(Novelty::Known) if set_aside.contains(line.uuid.as_ref()) => comparison.set_aside += 1,
            Ok(Novelty::Known) => {
                comparison.uploaded += 1;
                counts.0 += 1;
            }
            Ok(_) => comparison.not_uploaded_yet += 1,
            Err(error) => failed = Some(error),
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let since = oldest.map_or(Time(0), |oldest| Time(oldest.0 - 1000));
    // The table has the lines of others too: only those that the logs have are kept in memory.
    let mut there: HashMap<String, u64> = HashMap::new();
    let mut count = |uuid: &str, rows: u64| {
        if expected.contains_key(uuid) {
            there.insert(uuid.to_owned(), rows);
        }
        Ok(())
    };
    bigquery.rows_since(since, clock.now(), QUESTION, &mut count).await?;
    let seen = journal.seen()?;
    for (uuid, (uploaded, contents)) in expected {
        // Contents that no log has any more were uploaded all the same. What a rebuild only counted is no content: it
        // may be the same row twice.
        let contents = contents.max(seen.known_contents(uuid_half(&uuid)));
        let rows = there.get(&uuid).copied().unwrap_or(0);
        if rows < uploaded {
            comparison.missing += uploaded - rows;
            comparison.missing_examples.push(uuid);
        } else if rows > contents {
            comparison.doubled += rows - contents;
            comparison.doubled_examples.push(uuid);
        }
    }
    for examples in [&mut comparison.missing_examples, &mut comparison.doubled_examples] {
        examples.sort();
        examples.truncate(MAX_EXAMPLES);
    }
    Ok(comparison)
}

fn print(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let Comparison { lines, uploaded, not_uploaded_yet, set_aside, missing, doubled, .. } = comparison;
    let lines = count(*lines, "line");
    writeln!(out, "{lines} in the logs: {uploaded} uploaded, {not_uploaded_yet} not yet, {set_aside} set aside")?;
    if *missing == 0 && *doubled == 0 {
        return writeln!(out, "BigQuery has each uploaded line once.");
    }
    if *missing > 0 {
        let lines = count(*missing, "uploaded line");
        writeln!(out, "{lines} missing in BigQuery (`sessync forget UUID` makes the next upload send one again):")?;
        examples(&comparison.missing_examples, out)?;
    }
    if *doubled > 0 {
        let rows = count(*doubled, "row");
        writeln!(out, "{rows} too many in BigQuery (the view TABLE_once hides duplicates); their uuids:")?;
        examples(&comparison.doubled_examples, out)?;
    }
    Ok(())
}
