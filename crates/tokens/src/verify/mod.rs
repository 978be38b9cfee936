//! Proves from the table that no money appeared or vanished.
//!
//! It checks that
//!
//! - every balance is the sum of its entries, and counts as many entries as there are;
//! - no balance is negative, that of a shard included;
//! - an account and its shards agree on whether it is frozen, and on how often they were folded;
//! - the postings of every entry sum to what its kind allows;
//! - the sum of all balances is the sum of all grants;
//! - every record names an entry that is there;
//! - nothing was reversed twice.
//!
//! # How
//!
//! 1. [`scan`] reads the whole table once, page by page. What an item needs beside itself is read at once: an account its
//!    history, a record its entry. So nothing of one page is kept for the next, except counts, the sums of the treasury's
//!    shards, and the names of what seems to be wrong.
//! 2. [`judge`] reads everything again that seemed to be wrong. While others write to the table, it is never the same from
//!    the first to the last page, so what seems to be wrong may be right. An account is read, the whole table is scanned for its
//!    entries, and the account is read again. If it counts as many entries as before, nothing was posted to it in between, and
//!    the comparison holds. An account that changes during every check is reported as unsettled, not as wrong.
//!
//! After each page, the caller gets the [`Progress`], which is small. A verification can go on from there.

mod judge;
mod report;
mod scan;
mod source;

use aws_sdk_dynamodb::Client;
use ichido::{Clock, SystemClock, store};

pub use report::{Finding, Report};
pub use scan::Progress;

/// Why a table was not verified.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the table cannot be read; check its name and the permissions dynamodb:Scan, dynamodb:BatchGetItem and dynamodb:Query"
    )]
    Store(#[source] store::Error),
    #[error("the progress cannot be kept")]
    Progress(#[from] std::io::Error),
}

/// Is told how far a verification is, after each page.
pub type Watch<'a> = &'a mut (dyn FnMut(&Progress) -> std::io::Result<()> + Send);

/// Verifies a table.
pub async fn verify(client: &Client, table_name: &str) -> Result<Report, Error> {
    verify_from(Progress::default(), client, table_name, &mut |_| Ok(())).await
}

/// Verifies a table, from where an earlier verification of it was.
pub async fn verify_from(
    progress: Progress,
    client: &Client,
    table_name: &str,
    watch: Watch<'_>,
) -> Result<Report, Error> {
    run(progress, &source::Dynamo { client, table_name }, &SystemClock, watch).await
}

async fn run(
    mut progress: Progress,
    source: &impl source::Source,
    clock: &dyn Clock,
    watch: Watch<'_>,
) -> Result<Report, Error> {
    scan::scan(&mut progress, source, clock, watch).await?;
    judge::judge(progress, source, clock).await
}

#[cfg(test)]
mod many;
#[cfg(test)]
mod tests;
