//! Transfers between accounts that move money once.
//!
//! A client names its transfer with an idempotency key and may send it as often as it likes. The design that this crate
//! replaces looked for an earlier transfer through an index, which is always a little behind; so one key could pay twice.
//! Here the record of sender and key is the first item of the very transaction that moves the money (the library's
//! `join`): either all of it is there, or nothing.
//!
//! One request, from the door to the table:
//!
//! - [`api`] verifies the caller ([`jwt`]), reads the request strictly ([`amount`], [`did`], [`idempotency`]) and answers
//!   in JSON or as a [`problem`];
//! - [`plan`] turns a transfer into data: the items of one transaction, in order, and the [`entry`] that they write;
//! - [`ledger`] sends it, and, if the answer is lost or unclear, sends the very same again until it knows; [`verdict`] says
//!   what a cancelled transaction means;
//! - [`table`] is what the items look like, [`transaction`] and [`cursor`] how a history is paged;
//! - [`verify`] proves from the table that no money appeared or vanished.
//!
//! Invariants: the sum of all balances changes only by grants, no balance is ever negative (`tests/simulation.rs`); no read
//! comes before the transaction and no write after it (`tests/ledger.rs`); no amount is ever a float (`tests/mistakes.rs`).

pub mod amount;
pub mod api;
pub mod cursor;
pub mod did;
pub mod entry;
pub mod idempotency;
pub mod instant;
pub mod jwt;
pub mod ledger;
pub mod plan;
pub mod problem;
pub mod settings;
pub mod table;
pub mod transaction;
pub mod verdict;
pub mod verify;

use std::sync::Arc;

use function::http::Request;
use function::{Aws, Definition, Env, Error, Handler};
use ichido::{Clock, SystemClock, Timestamp};

use api::{Api, Keys};
use ledger::{Ledger, system_random};
use settings::Settings;

/// The token API.
pub const API: Definition =
    Definition { name: "tokens-api", variables: settings::VARIABLES, build: |env, aws| Box::pin(build(env, aws)) };

/// Every function of this application.
pub fn functions() -> Vec<Definition> {
    vec![API]
}

async fn build(env: Env, aws: Aws) -> Result<Handler, Error> {
    let settings = Settings::read(&env)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ledger = Ledger::new(aws.dynamodb(), &settings.table_name, settings.rules, Arc::clone(&clock), system_random());
    let keys = Keys::parameter(aws.clone(), settings.keys_parameter);
    // Connections are opened and keys fetched while Lambda gives the function a whole core; a failure shows at the request.
    let (_, keys_read) = tokio::join!(aws.warm(&settings.table_name), keys.current());
    if let Err(error) = keys_read {
        tracing::error!(error = &error as &(dyn std::error::Error + 'static), "the issuers' keys cannot be read yet");
    }
    let api = Api::new(ledger, settings.expectations, keys, clock);
    Ok(function::handler(move |event| {
        let api = api.clone();
        async move {
            let request = Request::from_event(&event.payload)?;
            let deadline = Some(event.context.deadline).filter(|deadline| *deadline > 0).map(Timestamp::from_millis);
            Ok(api.handle(&request, deadline).await.into_value())
        }
    }))
}
