//! A statement: what an account sent and received in one list, newest first, with the balance after each row.
//!
//! The balance of the first row is the account's balance, read together with the first page. Each older balance is computed
//! back from it, page by page: the cursor carries it on. Two things could make it wrong, and are noticed: a transfer between
//! the reads of the balance and of the entries (the account counts its entries), and one that the index does not have yet (then
//! what is left at the end of the history is not zero). The first page is then read again. A later page cannot be mended, so
//! its reader is asked to begin again.
//!
//! Rows are in the order of their ids. Within a millisecond, and between instances whose clocks differ, that is not the order
//! of the commits, so a balance between two such rows can be negative although the account's never was.

use std::time::Duration;

use serde::Serialize;

use super::entry::{Entry, Kind, TransactionId};
use super::history::{History, Places};
use super::{Error, Ledger};
use crate::amount::{Amount, Delta};
use crate::identity::did::Did;

/// How often the first page is read if the account changes meanwhile.
const LOOKS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RowKind {
    Sent,
    Received,
    Grant,
    /// What the treasury took for the transfer in the next row.
    Fee,
    /// A transfer taken back, with its fee.
    Reversal,
}

/// Whether a row adds to the balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    In,
    Out,
}

/// A row of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatementRow {
    pub transaction_id: TransactionId,
    pub kind: RowKind,
    pub direction: Direction,
    /// `None` for a grant.
    pub counterparty: Option<Did>,
    pub amount: Amount,
    /// The balance after this row.
    pub balance: Delta,
    pub created_at: String,
}

/// Where a page of a statement begins: after which entry, and with which balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub after: TransactionId,
    pub balance: Delta,
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub rows: Vec<StatementRow>,
    /// Where the next page begins, if there are older entries.
    pub next: Option<Place>,
}

impl Ledger {
    /// The newest rows after `from`, or of all. There are at most `limit`, except that a transfer and its fee are two rows
    /// also if the limit is one.
    pub async fn statement(&self, did: &Did, from: Option<Place>, limit: usize) -> Result<Statement, Error> {
        if *did == self.rules().treasury {
            return Err(Error::NoStatement);
        }
        if let Some(place) = from {
            let (entries, more) = self.both_histories(did, Some(place.after), limit).await?;
            return self.rows(did, &entries, more, place.balance, limit).ok_or(Error::StatementChanged);
        }
        for look in 0..LOOKS {
            if look > 0 {
                self.0.clock.sleep(PAUSE).await;
            }
            let before = self.held(did).await?.ok_or(Error::AccountNotFound)?;
            let (entries, more) = self.both_histories(did, None, limit).await?;
            let after = self.held(did).await?.ok_or(Error::AccountNotFound)?;
            // If each balance counts as many entries as before, all of them were read as they were at one moment.
            if after.entries() != before.entries() {
                continue;
            }
            if let Some(statement) = self.rows(did, &entries, more, before.balance(), limit) {
                return Ok(statement);
            }
        }
        Err(Error::Unresolved)
    }

    /// The newest entries of both histories, at least `limit` of them if there are as many, and whether there are more.
    async fn both_histories(
        &self,
        did: &Did,
        after: Option<TransactionId>,
        limit: usize,
    ) -> Result<(Vec<Entry>, bool), Error> {
        let places = Places::between(None, None);
        let places = match after {
            Some(id) => places.and_then(|places| places.after(id)),
            None => places,
        };
        let sent = self.history(History::Sent, did, places, limit).await?;
        let received = self.history(History::Received, did, places, limit).await?;
        let mut entries = sent.entries;
        entries.extend(received.entries);
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.id));
        let more = sent.more || received.more || entries.len() > limit;
        // Beyond these, one of the histories may have entries that were not read.
        entries.truncate(limit);
        Ok((entries, more))
    }

    /// The rows of these entries, of which the newest left `balance`. `None`: that balance does not belong to them.
    fn rows(&self, did: &Did, entries: &[Entry], more: bool, balance: Delta, limit: usize) -> Option<Statement> {
        let (mut rows, mut balance, mut last) = (Vec::new(), balance, None);
        for entry in entries {
            let of_entry = self.rows_of(did, entry);
            if !rows.is_empty() && rows.len() + of_entry.len() > limit {
                break;
            }
            for (kind, direction, counterparty, amount) in of_entry {
                let (transaction_id, created_at) = (entry.id, entry.created_at().to_string());
                rows.push(StatementRow { transaction_id, kind, direction, counterparty, amount, balance, created_at });
                balance += match direction {
                    Direction::In => Delta::debit(amount),
                    Direction::Out => Delta::credit(amount),
                };
            }
            last = Some(entry.id);
        }
        let more = more || last != entries.last().map(|entry| entry.id);
        // Before its first entry, an account held nothing.
        if !more && balance.0 != 0 {
            return None;
        }
        let next = last.filter(|_| more).map(|after| Place { after, balance });
        Some(Statement { rows, next })
    }

    /// The rows of one entry, newest first: a fee is paid after its transfer.
    fn rows_of(&self, did: &Did, entry: &Entry) -> Vec<(RowKind, Direction, Option<Did>, Amount)> {
        let (sender, recipient) = (entry.sender.clone(), Some(entry.recipient.clone()));
        let sent = entry.sender.as_ref() == Some(did);
        match entry.kind {
            Kind::Grant => vec![(RowKind::Grant, Direction::In, None, entry.amount)],
            Kind::Transfer if sent => {
                let treasury = Some(self.rules().treasury.clone());
                let fee = (!entry.fee.is_zero()).then_some((RowKind::Fee, Direction::Out, treasury, entry.fee));
                fee.into_iter().chain([(RowKind::Sent, Direction::Out, recipient, entry.amount)]).collect()
            }
            Kind::Transfer => vec![(RowKind::Received, Direction::In, sender, entry.amount)],
            Kind::Reversal => {
                let change = entry.change_of(did).0;
                let amount = Amount::from_units(u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX));
                let direction = if change < 0 { Direction::Out } else { Direction::In };
                vec![(RowKind::Reversal, direction, if sent { recipient } else { sender }, amount)]
            }
        }
    }
}
