//! Which file had a content first: one item per channel and content in the table of processed events, for the length of a window.
//!
//! The item names a file; whether that file was handled is said by the file's own record. Two rules make one file per content:
//! - A file is handled only after its item names it ([`Contents::first`]), under the claim on the file.
//! - The item is given to another file ([`Contents::replace`]) only under the claim on the file that it names, or when that file is
//!   never handled again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use ichido::Clock;
use ichido::dynamodb::{bounded, classify};
use telemetry::causes;

use super::{Bound, CONTENT_PREFIX, Item, PARTITION_KEY, TTL, number, read_number};
use crate::effect::UploadedFile;
use crate::event::{File, Upload};

/// The message and the file that had the content first: `1700000000.000100#F1`.
const FIRST: &str = "first";
/// The same as an [`Upload`], in JSON, without anything that a user typed.
const UPLOAD: &str = "upload";

/// Why it is not known which file was first.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not reach the table of processed events: {0}")]
    Store(String),
    #[error("the item of the content cannot be read; delete it: {0}")]
    Unreadable(String),
}

/// Which file had a content first. Each process has one.
pub struct Contents {
    client: Client,
    table: String,
    window: Duration,
    clock: Arc<dyn Clock>,
}

impl Contents {
    /// `window`: how long a content is known, from the last attempt to handle its first file.
    pub fn new(client: &Client, table: &str, window: Duration, bound: Bound, clock: Arc<dyn Clock>) -> Self {
        Self { client: bounded(client, bound.attempts, bound.total), table: table.to_owned(), window, clock }
    }

    /// Makes a file the first one of its content, unless another one is. Returns that other one.
    pub async fn first(&self, content: &str, uploaded: UploadedFile<'_>) -> Result<Option<Upload>, Error> {
        let condition = format!("attribute_not_exists({PARTITION_KEY}) OR #ttl <= :now OR #first = :own");
        let now = number(self.clock.now().as_secs());
        let own = AttributeValue::S(name(uploaded));
        match self.put(content, uploaded, condition, &[("#ttl", TTL)], [(":now", now), (":own", own)]).await? {
            None => Ok(None),
            Some(item) => read(&item, uploaded).map(Some),
        }
    }

    /// Makes a file the first one in the place of another one. False if that other one is not the first any more.
    pub async fn replace(&self, content: &str, first: &Upload, uploaded: UploadedFile<'_>) -> Result<bool, Error> {
        let theirs = first.files.first().map(|file| name(UploadedFile { upload: first, file })).unwrap_or_default();
        let values = [(":theirs", AttributeValue::S(theirs))];
        let refused = self.put(content, uploaded, "#first = :theirs".to_owned(), &[], values).await?;
        // If the answer to this very write was lost, the SDK has repeated it and found it done.
        Ok(refused.is_none_or(|item| item.get(FIRST) == Some(&AttributeValue::S(name(uploaded)))))
    }

    /// Writes the item on a condition. Returns the item that is there if the condition does not hold.
    async fn put(
        &self,
        content: &str,
        uploaded: UploadedFile<'_>,
        condition: String,
        names: &[(&str, &str)],
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) -> Result<Option<Item>, Error> {
        let UploadedFile { upload, file } = uploaded;
        let file = File { name: None, mimetype: None, size: None, ..file.clone() };
        let upload = Upload { user: None, files: vec![file], ..upload.clone() };
        let upload = serde_json::to_string(&upload).map_err(|error| Error::Unreadable(error.to_string()))?;
        let mut put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item(PARTITION_KEY, key(content, uploaded.upload))
            .item(TTL, number((self.clock.now() + self.window).as_secs_ceil()))
            .item(FIRST, AttributeValue::S(name(uploaded)))
            .item(UPLOAD, AttributeValue::S(upload))
            .condition_expression(condition)
            .expression_attribute_names("#first", FIRST)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        for (name, attribute) in names {
            put = put.expression_attribute_names(*name, *attribute);
        }
        for (name, value) in values {
            put = put.expression_attribute_values(name, value);
        }
        match put.send().await {
            Ok(_) => Ok(None),
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(refusal)) => {
                    Ok(Some(refusal.item().cloned().unwrap_or_default()))
                }
                _ => Err(Error::Store(causes(&classify(error)))),
            },
        }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").field("table", &self.table).field("window", &self.window).finish_non_exhaustive()
    }
}

fn key(content: &str, upload: &Upload) -> AttributeValue {
    AttributeValue::S(format!("{CONTENT_PREFIX}{}#{}#{content}", upload.team, upload.channel))
}

fn name(uploaded: UploadedFile<'_>) -> String {
    format!("{}#{}", uploaded.upload.ts, uploaded.file.id)
}

/// The upload that an item names. The item is of the same team and channel as the file that found it.
fn read(item: &Item, found_by: UploadedFile<'_>) -> Result<Upload, Error> {
    let text = item.get(UPLOAD).and_then(|value| value.as_s().ok()).map_or("", String::as_str);
    let upload: Upload = serde_json::from_str(text).map_err(|error| Error::Unreadable(error.to_string()))?;
    let expected = (&found_by.upload.team, &found_by.upload.channel, 1);
    let is_whole = (&upload.team, &upload.channel, upload.files.len()) == expected && read_number(item, TTL).is_some();
    if is_whole { Ok(upload) } else { Err(Error::Unreadable("it is of another form".to_owned())) }
}
