//! Transfers between accounts that move money once per idempotency key.
//!
//! # One transfer
//!
//! 1. [`function::api`] finds the route and asks who is calling. [`identity`] verifies the caller's token.
//! 2. [`api::input`] reads the request strictly: DIDs, the [`amount`], the idempotency key.
//! 3. [`ledger`] fixes everything that must be the same in every attempt: the id, the time, the fee, the answer. It plans
//!    the items of one transaction. The idempotency record of sender and key is the first of them.
//! 4. [`table`] knows how the items look and under which conditions they may be written.
//! 5. The ledger sends the transaction. Either all of it is written, record and money, or nothing.
//! 6. The client gets the answer that is in the record. If it sends the request again, it gets the same bytes again.
//!
//! [`verify`] proves from the table that no money appeared or vanished. [`import`] takes over what another service leaves
//! behind.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | the answer to the transaction is lost | the same attempt is sent again; the record in the table shows whether an earlier one was committed |
//! | two transactions meet (a conflict), or DynamoDB throttles | the same attempt is sent again after a short random pause |
//! | two transactions meet at the account that both pay | the money goes to another shard of the account; the record allows only one of the attempts |
//! | a condition fails: no account, a frozen account, too little money, a limit | a tombstone is written where the record would be, so that no late attempt can be committed; then the client gets the refusal |
//! | nothing is known after 8 seconds | the client gets 503 with the key and `Retry-After`, never a refusal |
//! | the key was used for another request | the client gets 422 with the fields that differ |
//! | the table is missing, or the function may not use it | the client gets 500; the cause is logged |
//! | the issuer's keys cannot be read | the cached keys are used; without any, clients get 503 |
//! | the function is stopped at any point | the client sends the request again with its key; the money moves once |
//!
//! # What always holds
//!
//! The sum of all balances changes only by grants, and no balance is ever negative (`tests/simulation.rs`). No read comes
//! before the transaction of a transfer between two people, and no write after it (`tests/ledger.rs`), unless the money of the sender
//! is in several shards (`tests/shards.rs`). No amount is ever a
//! float (`tests/mistakes.rs`).

pub mod amount;
pub mod api;
pub mod function;
pub mod identity;
pub mod import;
pub mod ledger;
pub mod settings;
pub mod table;
pub mod verify;

use ::function::Definition;

/// Answers the requests of clients.
pub const API: Definition = Definition {
    name: "tokens-api",
    variables: settings::VARIABLES,
    build: |env, aws| Box::pin(function::api::build(env, aws)),
};

/// Every function of this application.
pub fn functions() -> Vec<Definition> {
    vec![API]
}
