//! tokens

pub mod amount;
pub mod cursor;
pub mod did;
pub mod entry;
pub mod idempotency;
pub mod instant;
pub mod issuer;
pub mod jwt;
pub mod ledger;
pub mod plan;
pub mod problem;
pub mod settings;
pub mod table;
pub mod transaction;
pub mod verdict;
