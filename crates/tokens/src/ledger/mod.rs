//! The ledger on DynamoDB.
//!
//! Promise: money moves in one `TransactWriteItems` whose first item is the idempotency record; no read comes before
//! it and no write after it. Whoever gets an answer gets the true one: a success for money that moved, a refusal for
//! money that did not and will not move by this request, and [`Error::Unresolved`] where neither is known in time.
//!
//! Failure cases: see [`commit`] for lost answers, conflicts and throttling; a missing table or permission is
//! [`Error::Store`], loud and not the client's fault.

mod account;
mod commit;
mod history;
mod reversal;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use ichido::dynamodb::{Table, bounded};
use ichido::{Clock, DigestKey, Namespace, Timestamp, key, record, store};
use uuid::Uuid;

pub use account::{Holding, Opened};
pub use history::Page;
pub use transfer::Body;

use crate::settings::{Rules, Window};
use crate::table;
use crate::transaction::TransactionId;
use crate::verdict::Refusal;

/// How long one attempt may take. Answers take milliseconds; a slower one is as good as lost.
pub const ATTEMPT: Duration = Duration::from_millis(1_500);

/// How long an ambiguous transfer is pursued before the client is asked to come again: well within the client token's
/// ten minutes, and within the function's own time.
pub const BUDGET: Duration = Duration::from_secs(8);

/// Tries of a read, which may be repeated freely.
const READ_ATTEMPTS: u32 = 3;

/// Where chance comes from: ids, tokens, the length of a pause.
pub type Random = Arc<dyn Fn() -> u128 + Send + Sync>;

/// The system's randomness.
pub fn system_random() -> Random {
    Arc::new(|| {
        // two, because a version 4 UUID has six bits that are not random
        let (a, b) = (Uuid::new_v4().as_u64_pair(), Uuid::new_v4().as_u64_pair());
        (u128::from(a.0 ^ a.1.rotate_left(32)) << 64) | u128::from(b.0 ^ b.1.rotate_left(32))
    })
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not now, and not by this request.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The key was used for another request, which differs in these fields.
    #[error("the key was used for a request that differs in {}", fields.join(", "))]
    Mismatch { fields: Vec<String> },
    /// What became of it could not be learnt in time. Nothing is refused: the same request may be sent again.
    #[error("the outcome is not known yet")]
    Unresolved,
    /// The parts do not make a key that the table could hold.
    #[error(transparent)]
    Key(#[from] key::Error),
    /// There is no such transaction.
    #[error("there is no such transaction")]
    TransactionNotFound,
    /// A grant or a reversal.
    #[error("only transfers can be reversed")]
    NotReversible,
    /// There is no such account.
    #[error("there is no such account")]
    AccountNotFound,
    /// The store cannot be used as it is configured, or refused what we sent: a defect, not the client's.
    #[error("the store cannot be used")]
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

/// The ledger of one table. Cheap to clone.
#[derive(Clone)]
pub struct Ledger(Arc<Inner>);

struct Inner {
    /// One attempt a call: the SDK must not repeat a transaction behind our back, or a refusal of the second attempt
    /// would hide that the first may still land.
    writer: Client,
    reader: Client,
    records: Table,
    rules: Rules,
    clock: Arc<dyn Clock>,
    random: Random,
    digest_key: DigestKey,
    transfers: Namespace,
    reversals: Namespace,
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
        let transfers = Namespace::new(table::IDEMPOTENCY);
        let transfers = match rules.window {
            Window::For(window) => transfers.retention(window),
            Window::Never => transfers.forever(),
        };
        Ledger(Arc::new(Inner {
            writer: bounded(&client, 1, ATTEMPT),
            reader: bounded(&client, READ_ATTEMPTS, ATTEMPT * READ_ATTEMPTS),
            records: Table::new(table_name, table::PK).sort_key(table::SK, table::RECORD_SK).ttl(table::TTL),
            rules,
            clock,
            random,
            // Not a secret: recipient, amount and message stand in the same table in plain text. The digests are there
            // to name what differs, not to hide it.
            digest_key: DigestKey::new(b"tokens transfer 1"),
            transfers,
            reversals: Namespace::new(table::REVERSAL).forever(),
        }))
    }

    pub fn rules(&self) -> &Rules {
        &self.0.rules
    }

    pub fn table_name(&self) -> &str {
        self.0.records.name()
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn random(&self) -> u128 {
        (self.0.random)()
    }

    /// An id that is made now.
    fn new_id(&self, now: Timestamp) -> TransactionId {
        let mut random = [0; 10];
        random.copy_from_slice(&self.random().to_be_bytes()[..10]);
        TransactionId::new(now, random)
    }

    /// A key for a client that brought none.
    pub fn new_idempotency_key(&self) -> crate::idempotency::IdempotencyKey {
        crate::idempotency::IdempotencyKey::generated(
            uuid::Builder::from_random_bytes(self.random().to_be_bytes()).into_uuid(),
        )
    }
}

/// The kind of a failed read.
fn read_error<E>(error: aws_sdk_dynamodb::error::SdkError<E>) -> Error
where
    E: aws_sdk_dynamodb::error::ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match ichido::dynamodb::classify(error) {
        store::Error::Transient(_) => Error::Unresolved,
        other => Error::Store(other),
    }
}
