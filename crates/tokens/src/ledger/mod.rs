//! The ledger on DynamoDB.
//!
//! Promise: money moves in one `TransactWriteItems` whose first item is the idempotency record. No write comes after it,
//! and no read before it, except where the treasury pays, a transfer is reversed, or the money of the payer is in several shards. An answer is always true: a success
//! for money that moved, a refusal for money that did not move and will not move by this request, and
//! [`Error::Unresolved`] if neither is known in time.
//!
//! Failure cases: [`commit`] has the table of lost answers, conflicts and throttling. A missing table or permission is
//! [`Error::Store`], which is logged as an error and is not the client's fault.

mod account;
mod cancellation;
mod commit;
mod entry;
mod grant;
mod history;
mod hot;
mod imported;
mod operation;
mod plan;
mod reversal;
mod statement;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use ichido::dynamodb::{Table, bounded, classify};
use ichido::{Clock, DigestKey, Namespace, Timestamp, key, record, store};
use serde::Serialize;
use uuid::Uuid;

pub use account::Holding;
pub(crate) use account::{Opened, Status};
pub use cancellation::Obstacle;
pub(crate) use entry::{ACCOUNT_SHARDS, MAX_SHARDS};
pub use entry::{Account, Entry, Kind, NotATransactionId, Postings, TransactionId, View};
pub use grant::Grant;
pub use history::{History, Page, Places};
pub(crate) use imported::{Imported, Looked};
pub use imported::{Opening, Used};
pub use statement::{Direction, Place, RowKind, Statement, StatementRow};
pub use transfer::Transfer;

use crate::api::idempotency::IdempotencyKey;
use crate::settings::Rules;
use crate::table;

/// How long one attempt may take. Answers take milliseconds; an attempt that takes longer than this was lost.
pub const ATTEMPT: Duration = Duration::from_millis(1_500);

/// How long the ledger tries to learn what became of a request before it asks the client to send it again. It is shorter
/// than the ten minutes for which DynamoDB remembers a client token, and shorter than the function's own time.
pub const BUDGET: Duration = Duration::from_secs(8);

/// How often the SDK tries a read. Reads may be repeated.
const READ_ATTEMPTS: u32 = 3;

/// Where random numbers come from: for ids, client tokens and the length of pauses.
pub type Random = Arc<dyn Fn() -> u128 + Send + Sync>;

/// The system's randomness.
pub fn system_random() -> Random {
    Arc::new(|| {
        // Two, because a UUID of version 4 has six bits that are not random.
        let (a, b) = (Uuid::new_v4().as_u64_pair(), Uuid::new_v4().as_u64_pair());
        (u128::from(a.0 ^ a.1.rotate_left(32)) << 64) | u128::from(b.0 ^ b.1.rotate_left(32))
    })
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was not done, and this request will not do it later.
    #[error("the request was refused: {0}")]
    Refused(Obstacle),
    /// The key was used for another request, which differs in these fields.
    #[error("the key was used for a request that differs in {}", fields.join(", "))]
    Mismatch { fields: Vec<String> },
    /// It could not be learnt in time whether it was done. It is not refused: the same request may be sent again.
    #[error("it is not known yet whether the request was carried out; send it again with the same key")]
    Unresolved,
    /// The sender and the key are too long together for a key of the table.
    #[error(transparent)]
    Key(#[from] key::Error),
    #[error("the sender has no transaction with this id; its history has the ids")]
    TransactionNotFound,
    #[error("this transaction is a grant or a reversal; only transfers can be reversed")]
    NotReversible,
    #[error("there is no account of this DID")]
    AccountNotFound,
    #[error("the treasury has no statement: its fees are rows of the statements of those who paid them")]
    NoStatement,
    /// The balance that the cursor carries does not belong to what the histories hold.
    #[error("the account changed while the first page was read; start again without a cursor")]
    StatementChanged,
    /// DynamoDB cannot be used as it is set up, or refused what we sent: our mistake, not the client's.
    #[error("the ledger's table cannot be used; check its name and the function's permissions")]
    Store(#[source] store::Error),
    /// An item of the table is not what it should be.
    #[error(transparent)]
    Item(#[from] table::Error),
    /// A record of the library cannot be read.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// The answer to a request that was carried out, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// JSON, fixed before the commit.
    pub body: String,
    /// An earlier request had done it.
    pub replayed: bool,
}

impl Answer {
    fn new<T: Serialize>(body: &T, replayed: bool) -> Result<Self, Error> {
        let body = serde_json::to_string(body).map_err(record::Error::Outcome)?;
        Ok(Answer { body, replayed })
    }
}

/// The ledger of one table. Cheap to clone.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    /// Makes one attempt per call. If the SDK repeated a transaction, a refusal of the second attempt would hide that the
    /// first may still be committed.
    writer: Client,
    reader: Client,
    records: Table,
    rules: Rules,
    clock: Arc<dyn Clock>,
    random: Random,
    digest_key: DigestKey,
    transfers: Namespace,
    reversals: Namespace,
    hot: hot::Hot,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger")
            .field("table", &self.0.records.name())
            .field("rules", &self.0.rules)
            .finish_non_exhaustive()
    }
}

impl Ledger {
    pub fn new(client: Client, table_name: &str, rules: Rules, clock: Arc<dyn Clock>, random: Random) -> Self {
        Ledger(Arc::new(Inner {
            writer: bounded(&client, 1, ATTEMPT),
            reader: bounded(&client, READ_ATTEMPTS, ATTEMPT * READ_ATTEMPTS),
            records: table::records(table_name),
            transfers: table::transfers(rules.window),
            reversals: table::reversals(),
            hot: hot::Hot::default(),
            rules,
            clock,
            random,
            // Not a secret: recipient, amount and message are in the same table in plain text. The digests are there to
            // name what differs, not to hide it.
            digest_key: DigestKey::new(b"tokens transfer 1"),
        }))
    }

    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    pub fn table_name(&self) -> &str {
        self.0.records.name()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn random(&self) -> u128 {
        (self.0.random)()
    }

    /// A new id for a transaction made at `now`.
    fn new_id(&self, now: Timestamp) -> TransactionId {
        let mut random = [0; 10];
        random.copy_from_slice(&self.random().to_be_bytes()[..10]);
        TransactionId::new(now, random)
    }

    /// A client token, which names one transaction to DynamoDB.
    fn new_token(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.random().to_be_bytes()).into_uuid()
    }

    /// A key for a client that sent none.
    pub fn new_idempotency_key(&self) -> IdempotencyKey {
        IdempotencyKey::generated(uuid::Builder::from_random_bytes(self.random().to_be_bytes()).into_uuid())
    }
}

/// The kind of a failed read.
fn read_error<E>(error: SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    fault(classify(error))
}

/// What it means that the store did not do what it was asked.
fn fault(error: store::Error) -> Error {
    match error {
        store::Error::Transient(_) => Error::Unresolved,
        other => Error::Store(other),
    }
}
