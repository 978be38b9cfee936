//! Proves from the table that no money appeared or vanished.
//!
//! It checks that
//!
//! - every balance is the sum of its entries, and counts as many entries as there are;
//! - no balance is negative;
//! - the postings of every entry sum to what its kind allows;
//! - the sum of all balances is the sum of all grants;
//! - every record names an entry that is there;
//! - nothing was reversed twice.
//!
//! While others write to the table, it is never the same from the first to the last page of a scan. So an account that
//! seems to differ is checked again before it is reported: the account is read, the whole table is scanned, and the account
//! is read again. If it counts as many entries as before, nothing was posted to it in between, and the comparison
//! holds. An account that changes during every check is reported as unsettled, not as wrong.

mod judge;
mod report;
mod scan;

use aws_sdk_dynamodb::Client;
use ichido::store;

pub use report::{Finding, Report};

/// How often the table is scanned again for accounts that seem to differ.
const PASSES: usize = 5;

/// The table could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the table cannot be read; check its name and the permissions dynamodb:Scan and dynamodb:GetItem")]
pub struct Error(#[source] store::Error);

/// Verifies a table.
pub async fn verify(client: &Client, table_name: &str) -> Result<Report, Error> {
    let mut books = scan::scan(client, table_name).await?;
    let mut unsettled = books.differing();
    let mut grants = books.grants;
    for _ in 0..PASSES {
        if unsettled.is_empty() {
            break;
        }
        let before = scan::read(client, table_name, &unsettled).await?;
        let mut again = scan::scan(client, table_name).await?;
        let after = scan::read(client, table_name, &unsettled).await?;
        unsettled.retain(|account| {
            let (before, after) = (before.get(account), after.get(account));
            let still = before.map(|balance| balance.entries) == after.map(|balance| balance.entries);
            if still {
                books.settle(account, after.cloned(), again.sums.remove(account).unwrap_or_default());
            }
            !still
        });
        grants = again.grants;
        // The new scan may have entries that were not there at the first one.
        books.entries.extend(again.entries);
        books.findings.extend(again.findings);
        books.reversed.extend(again.reversed);
    }
    Ok(judge::judge(books, unsettled, grants))
}
