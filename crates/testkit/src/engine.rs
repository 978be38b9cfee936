//! The embedded DynamoDB, called directly: an operation's name and its JSON in, DynamoDB's JSON out.
//!
//! This is what the engine's own HTTP server does behind its socket. What is left out is the wording of
//! refusals of malformed JSON that no SDK sends.

use bytes::Bytes;
use dynoxide::{Database, DynoxideError};
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::faults::{Answer, Call, Dispatch, NoFollower};

/// One embedded database. Clones are the same database.
#[derive(Clone)]
pub struct Engine {
    database: Database,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Calls go to `database`.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// The database itself.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Performs one operation.
    #[must_use]
    pub fn perform(&self, operation: &str, body: &[u8]) -> Answer {
        match operate(&self.database, operation, body) {
            Ok(body) => Answer { status: 200, body: body.into() },
            Err(error) => Answer { status: error.status_code(), body: Bytes::from(error.to_json()) },
        }
    }
}

impl Dispatch for Engine {
    fn dispatch(&self, call: Call) -> BoxFuture<'static, Answer> {
        let engine = self.clone();
        Box::pin(async move { engine.perform(&call.operation, &call.body) })
    }

    fn follower(&self) -> Result<Box<dyn Dispatch>, NoFollower> {
        let scratch = tempfile::tempdir().map_err(|error| NoFollower(error.to_string()))?;
        let path = scratch.path().join("snapshot.db");
        let path = path.to_str().ok_or_else(|| NoFollower("temporary path is not UTF-8".into()))?;
        let copy = || {
            self.database.vacuum_into(path)?;
            let copy = Database::memory()?;
            copy.restore_from(path)?;
            Ok::<_, DynoxideError>(copy)
        };
        let database = copy().map_err(|error| NoFollower(error.to_string()))?;
        Ok(Box::new(Engine { database }))
    }
}

fn operate(db: &Database, operation: &str, body: &[u8]) -> Result<Vec<u8>, DynoxideError> {
    match operation {
        "CreateTable" => with(body, |request| db.create_table(request)),
        "DeleteTable" => with(body, |request| db.delete_table(request)),
        "DescribeTable" => with(body, |request| db.describe_table(request)),
        "ListTables" => with(body, |request| db.list_tables(request)),
        "UpdateTable" => with(body, |request| db.update_table(request)),
        "UpdateTimeToLive" => with(body, |request| db.update_time_to_live(request)),
        "DescribeTimeToLive" => with(body, |request| db.describe_time_to_live(request)),
        "PutItem" => with(body, |request| db.put_item(request)),
        "GetItem" => with(body, |request| db.get_item(request)),
        "UpdateItem" => with(body, |request| db.update_item(request)),
        "DeleteItem" => with(body, |request| db.delete_item(request)),
        "Query" => with(body, |request| db.query(request)),
        "Scan" => with(body, |request| db.scan(request)),
        "BatchGetItem" => with(body, |request| db.batch_get_item(request)),
        "BatchWriteItem" => with(body, |request| db.batch_write_item(request)),
        "TransactGetItems" => with(body, |request| db.transact_get_items(request)),
        "TransactWriteItems" => with(body, |request| db.transact_write_items(request)),
        "ExecuteStatement" => with(body, |request| db.execute_statement(request)),
        "ExecuteTransaction" => with(body, |request| db.execute_transaction(request)),
        "BatchExecuteStatement" => with(body, |request| db.batch_execute_statement(request)),
        "TagResource" => with(body, |request| db.tag_resource(request)),
        "UntagResource" => with(body, |request| db.untag_resource(request)),
        "ListTagsOfResource" => with(body, |request| db.list_tags_of_resource(request)),
        "ListStreams" => with(body, |request| db.list_streams(request)),
        "DescribeStream" => with(body, |request| db.describe_stream(request)),
        "GetShardIterator" => with(body, |request| db.get_shard_iterator(request)),
        "GetRecords" => with(body, |request| db.get_records(request)),
        unknown => Err(DynoxideError::ValidationException(format!("unknown operation {unknown}"))),
    }
}

fn with<I: DeserializeOwned, O: Serialize>(
    body: &[u8],
    perform: impl FnOnce(I) -> Result<O, DynoxideError>,
) -> Result<Vec<u8>, DynoxideError> {
    let request = serde_json::from_slice(body).map_err(|error| refusal(&error.to_string()))?;
    let response = perform(request)?;
    serde_json::to_vec(&response).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// The engine marks in its deserialisation errors which exception DynamoDB would answer with.
fn refusal(message: &str) -> DynoxideError {
    let without_position = message.split(" at line ").next().unwrap_or(message);
    for marker in ["VALIDATION_AS_READ:", "VALIDATION_REQUEST:", "VALIDATION:"] {
        if let Some(text) = without_position.strip_prefix(marker) {
            return DynoxideError::ValidationException(text.into());
        }
    }
    let serialization = ["SERIALIZATION_AS_READ:", "SERIALIZATION:"];
    match serialization.iter().find_map(|marker| without_position.strip_prefix(marker)) {
        Some(text) => DynoxideError::SerializationException(text.into()),
        None => DynoxideError::ValidationException(without_position.into()),
    }
}
