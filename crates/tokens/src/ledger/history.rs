//! Histories, newest first, page by page.
//!
//! A page ends at an entry's id, and entries never move, so a reader who follows the cursors sees every row that was
//! there when the first page was read, exactly once, whatever is written meanwhile. "There" means in the ledger for what
//! was sent (consistent reads) and in the index for what was received, which follows the ledger, usually within a second.

use super::{Error, Ledger};
use crate::cursor::History;
use crate::did::Did;
use crate::entry::Entry;
use crate::table::{self, ENTRY_PREFIX, text};
use crate::transaction::Places;

/// A part of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// There are older ones.
    pub more: bool,
}

impl Ledger {
    /// The newest `limit` entries among `places`.
    pub async fn history(
        &self,
        history: History,
        did: &Did,
        places: Option<Places>,
        limit: usize,
    ) -> Result<Page, Error> {
        let mut entries = Vec::new();
        let Some(places) = places else { return Ok(Page { entries, more: false }) };
        let (first, last) = places.bounds();
        let (index, pk_name, sk_name, pk) = match history {
            History::Sent => (None, table::PK, table::SK, table::sent_pk(did)?),
            History::Received => (Some(table::INDEX), table::INDEX_PK, table::INDEX_SK, table::received_pk(did)?),
        };
        // One more than asked for tells whether there are more.
        let wanted = limit + 1;
        let mut start = None;
        loop {
            let query = self
                .0
                .reader
                .query()
                .table_name(self.table_name())
                .set_index_name(index.map(str::to_owned))
                // an index cannot be read consistently
                .consistent_read(index.is_none())
                .key_condition_expression("#pk = :pk AND #sk BETWEEN :first AND :last")
                .expression_attribute_names("#pk", pk_name)
                .expression_attribute_names("#sk", sk_name)
                .expression_attribute_values(":pk", text(&pk))
                .expression_attribute_values(":first", text(format!("{ENTRY_PREFIX}{first}")))
                .expression_attribute_values(":last", text(format!("{ENTRY_PREFIX}{last}")))
                .scan_index_forward(false)
                .limit(i32::try_from(wanted - entries.len()).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start.take());
            let page = query.send().await.map_err(super::read_error)?;
            for item in page.items.unwrap_or_default() {
                entries.push(table::read_entry(&item)?);
            }
            start = page.last_evaluated_key;
            if entries.len() >= wanted || start.is_none() {
                break;
            }
        }
        let more = entries.len() > limit;
        entries.truncate(limit);
        Ok(Page { entries, more })
    }
}
