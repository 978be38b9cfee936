//! The embedded DynamoDB, called directly with the name and the JSON of an operation. It returns DynamoDB's JSON.
//!
//! It behaves like the HTTP server of dynoxide, except for the error messages about malformed JSON, which no SDK sends.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use dynoxide::{Database, DynoxideError};
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use template::Table;

use super::faults::{Answer, Call, Dispatch, NoFollower};

/// Why a call of the embedded DynamoDB failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be used, or SQLite is out of memory.
    #[error("the embedded DynamoDB could not open its database: {0}")]
    Open(DynoxideError),
    /// The file, or one that SQLite keeps beside it, cannot be made readable by this user only.
    #[error("{} cannot be used as a database that only you can read: {why}", path.display())]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// For the end of a sentence.
        why: String,
    },
    /// DynamoDB answered with an error.
    #[error("DynamoDB refused {operation}: {answer}")]
    Refused {
        /// `CreateTable`, …
        operation: String,
        /// DynamoDB's words.
        answer: String,
    },
    /// Expired items could not be deleted.
    #[error("the embedded DynamoDB could not delete expired items: {0}")]
    Sweep(DynoxideError),
}

/// One embedded database. All clones are the same database.
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
    /// An engine for `database`.
    #[must_use]
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Opens the database in this file, which only its owner can read from then on. If it does not exist, it is created.
    ///
    /// # Errors
    /// When the file cannot be used, is a link, or belongs to another user: its owner could read the tables.
    pub fn open(file: &Path) -> Result<Self, Error> {
        // SQLite would give everybody the right to read. Its other files (`-wal`, `-shm`) get the rights of this one.
        #[cfg(unix)]
        private::prepare(file)?;
        Database::new(&file.to_string_lossy()).map(Self::new).map_err(Error::Open)
    }

    /// Opens a new database in memory. It is lost when the last clone is dropped.
    ///
    /// # Errors
    /// When SQLite cannot open one.
    pub fn in_memory() -> Result<Self, Error> {
        Database::memory().map(Self::new).map_err(Error::Open)
    }

    /// Performs one operation.
    #[must_use]
    pub fn perform(&self, operation: &str, body: &[u8]) -> Answer {
        match operate(&self.database, operation, body) {
            Ok(body) => Answer { status: 200, body: body.into() },
            Err(error) => Answer { status: error.status_code(), body: Bytes::from(error.to_json()) },
        }
    }

    /// Performs one operation and returns DynamoDB's answer.
    ///
    /// # Errors
    /// When DynamoDB refuses it.
    pub fn call(&self, operation: &str, request: &Value) -> Result<Value, Error> {
        let answer = self.perform(operation, request.to_string().as_bytes());
        if answer.status != 200 {
            let answer = String::from_utf8_lossy(&answer.body).into_owned();
            return Err(Error::Refused { operation: operation.to_owned(), answer });
        }
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Creates a table as its template describes it, unless it exists. An existing table keeps its keys, which cannot change on
    /// AWS either, and gets the TTL attribute of the template.
    ///
    /// # Errors
    /// When DynamoDB refuses the table.
    pub fn ensure_table(&self, table: &Table) -> Result<(), Error> {
        let named = json!({"TableName": table.name});
        if self.call("DescribeTable", &named).is_err() {
            self.call("CreateTable", &table.create)?;
        }
        let Some(attribute) = &table.ttl else { return Ok(()) };
        let described = self.call("DescribeTimeToLive", &named)?;
        if described["TimeToLiveDescription"]["AttributeName"] != attribute.as_str() {
            let specification = json!({"AttributeName": attribute, "Enabled": true});
            let request = json!({"TableName": table.name, "TimeToLiveSpecification": specification});
            self.call("UpdateTimeToLive", &request)?;
        }
        Ok(())
    }

    /// Deletes the items that are expired by the database's clock, and returns how many there were. DynamoDB does this at some
    /// later time.
    ///
    /// # Errors
    /// When SQLite fails.
    pub fn sweep(&self) -> Result<usize, Error> {
        self.database.sweep_ttl().map_err(Error::Sweep)
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
        let path =
            path.to_str().ok_or_else(|| NoFollower("the path of the temporary directory is not UTF-8".into()))?;
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

/// The files of a database before SQLite opens them.
#[cfg(unix)]
mod private {
    use std::fs::{File, Permissions};
    use std::io::ErrorKind;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
    use std::path::{Path, PathBuf};

    use rustix::fs::OFlags;

    use super::Error;

    /// Makes the file, unless it is there, and takes from others the right to read it and its companions.
    pub(super) fn prepare(file: &Path) -> Result<(), Error> {
        make(file, true)?;
        for other in ["-wal", "-shm", "-journal"] {
            let mut name = file.as_os_str().to_owned();
            name.push(other);
            make(&PathBuf::from(name), false)?;
        }
        Ok(())
    }

    fn make(path: &Path, create: bool) -> Result<(), Error> {
        let not_private = |why: String| Error::NotPrivate { path: path.to_owned(), why };
        let mut options = File::options();
        // A link is not followed: it may lead to a file that has other readers. A FIFO does not make the open wait.
        options.append(true).create(create).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound && !create => return Ok(()),
            Err(_) if path.is_symlink() => {
                return Err(not_private("it is a link; name the file that it leads to".to_owned()));
            }
            Err(error) => return Err(not_private(error.to_string())),
        };
        let found = file.metadata().map_err(|error| not_private(error.to_string()))?;
        if !found.is_file() {
            return Err(not_private("it is not a file".to_owned()));
        }
        refuse_foreign(found.uid(), rustix::process::geteuid().as_raw()).map_err(not_private)?;
        // The rights of the file that is open, whatever has its name by now. A file that was there before, for example by an
        // earlier version, keeps its rights until they are taken away.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| not_private(error.to_string()))?;
        let mode = file.metadata().map_err(|error| not_private(error.to_string()))?.permissions().mode() & 0o777;
        if mode == 0o600 {
            Ok(())
        } else {
            // Some file systems have no rights that could be changed.
            Err(not_private(format!("its rights stay {mode:o} instead of 600; keep it on another file system")))
        }
    }

    /// Whoever owns a file can give himself the right to read it.
    pub(super) fn refuse_foreign(owner: u32, user: u32) -> Result<(), String> {
        if owner == user {
            return Ok(());
        }
        Err(format!("it belongs to another user (uid {owner}), who could read what is kept in it; name another file"))
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

/// Turns a deserialisation error into DynamoDB's exception. The engine marks in the error which exception it is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_database_is_kept_neither_behind_a_link_nor_in_what_belongs_to_somebody_else() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "").expect("a file");
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o644)).expect("rights");
        for (link, opened) in [("link", "link"), ("data-wal", "data")] {
            std::os::unix::fs::symlink(&elsewhere, directory.path().join(link)).expect("a link");
            let refused = Engine::open(&directory.path().join(opened)).expect_err("a link").to_string();
            assert!(refused.contains(link) && refused.contains("it is a link"), "{refused}");
        }
        let mode = std::fs::metadata(&elsewhere).expect("rights").permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "what a link leads to is left alone");
        // A test runs as one user, who cannot give a file away.
        assert_eq!(private::refuse_foreign(1_000, 1_000), Ok(()));
        let refused = private::refuse_foreign(1_001, 1_000).expect_err("another user's file");
        assert!(refused.contains("belongs to another user (uid 1001)"), "{refused}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_everybody_could_read_is_its_owners_alone_once_it_is_opened() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("data");
        std::fs::write(&file, "").expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("rights");
        let _engine = Engine::open(&file).expect("a database");
        for entry in std::fs::read_dir(directory.path()).expect("files") {
            let entry = entry.expect("a file");
            let mode = entry.metadata().expect("rights").permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{:?}", entry.path());
        }
    }

    fn table(ttl: Option<&str>) -> Table {
        Table {
            logical_id: "T".into(),
            name: "things".into(),
            create: json!({
                "TableName": "things",
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            }),
            ttl: ttl.map(str::to_owned),
        }
    }

    #[test]
    fn a_refusal_is_an_error_that_names_the_operation_and_dynamodbs_reason() {
        let engine = Engine::in_memory().unwrap();
        let missing = engine.call("GetItem", &json!({"TableName": "things", "Key": {"id": {"S": "a"}}})).unwrap_err();
        assert!(missing.to_string().starts_with("DynamoDB refused GetItem: "), "{missing}");
        assert!(missing.to_string().contains("ResourceNotFoundException"), "{missing}");
        let unknown = engine.call("DropEverything", &json!({})).unwrap_err();
        assert!(unknown.to_string().contains("unknown operation DropEverything"), "{unknown}");
        assert_eq!(engine.perform("PutItem", b"not json").status, 400);
    }

    #[test]
    fn a_directory_is_not_a_database() {
        let directory = tempfile::tempdir().unwrap();
        let refused = Engine::open(directory.path()).expect_err("a directory").to_string();
        assert!(refused.contains("cannot") && !refused.contains('\n'), "{refused}");
    }

    #[test]
    fn a_table_that_is_there_keeps_its_items_and_gets_its_ttl() {
        let engine = Engine::in_memory().unwrap();
        engine.ensure_table(&table(None)).unwrap();
        engine.call("PutItem", &json!({"TableName": "things", "Item": {"id": {"S": "kept"}}})).unwrap();
        engine.ensure_table(&table(Some("ttl"))).unwrap();
        engine.ensure_table(&table(Some("ttl"))).unwrap();
        assert_eq!(engine.call("Scan", &json!({"TableName": "things"})).unwrap()["Count"], 1);
        let ttl = engine.call("DescribeTimeToLive", &json!({"TableName": "things"})).unwrap();
        assert_eq!(ttl["TimeToLiveDescription"]["AttributeName"], "ttl");
    }
}
