//! Accounts of the ledger: a transfer between two of them, the statement of one, and the verification of all.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use ichido::{Clock as _, SystemClock, Timestamp};
use serde_json::{Value, json};
use tokens::amount::MAX;
use tokens::identity::did::Did;
use tokens::ledger::{BUDGET, Ledger, TransactionId, Transfer, system_random};
use tokens::settings::Rules;
use tokens::verify::{Error, Progress, Report, verify, verify_from};

use super::{Sizes, curve};
use crate::curve::{Curve, Expected, Point};
use crate::measure::Bench;
use crate::prices::{Extras, Prices};
use crate::store::Store;
use crate::{Result, progress};

/// Up to so many accounts, the whole table is verified; of more, [`PAGES`] pages of each kind of item, from the middle of the table.
const WHOLE: u64 = 20_000;
const PAGES: u32 = 20;

/// Rows of a statement's page.
pub(super) const ROWS: usize = 50;

/// A request to the API, beside the store: API Gateway, and 40 ms of a function with 512 MB (`infra/cost/usage.json`).
pub(super) const REQUEST: Extras =
    &[("httpApiRequest", 1.0), ("lambdaRequest", 1.0), ("lambdaGbSecondArm64", 0.040 * 0.5)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 270, 900);
    let World { store, table, client, ledger } = World::new().await?;
    let pattern = Pattern::of_first_account(&store, &table, &ledger).await?;
    let bench = Bench::on(prices, &store);
    let of = "accounts";
    let mut curves = [
        curve("accounts", "transfer", of, "transfer", Expected::Flat),
        curve("accounts", "statement", of, "statement", Expected::Flat),
        curve("accounts", "verify", of, "account", Expected::Flat),
    ];
    let mut opened = 1;
    for size in sizes.decades(20_000, 1_000_000) {
        progress(format_args!("accounts: {size}"));
        store.import(&table, (opened..size).flat_map(|number| pattern.account(number)))?;
        opened = size;
        // Before the transfers, so that there are as many entries per account at each size.
        let point = if size <= WHOLE {
            bench.whole(size, &[], async || Ok(verified(verify(&client, &table).await?)?.accounts)).await?
        } else {
            // Each account has one item of its own, and one of each other kind.
            let mut parts = Vec::new();
            for item in pattern.account(size / 2) {
                let part = bench.whole(size, &[], async || verify_part(&client, &table, &item).await);
                parts.push(part.await?);
            }
            parts.into_iter().reduce(Point::and).ok_or("an account has no items")?
        };
        curves[2].points.push(point);
        let transferred = bench.each(size, units, REQUEST, async |n| {
            let sender = fastrand::u64(0..size);
            let recipient = (sender + fastrand::u64(1..size)) % size;
            transfer(&ledger, did(sender)?, did(recipient)?, &format!("{size}-{n}")).await
        });
        curves[0].points.push(transferred.await?);
        let stated = bench.each(size, units, REQUEST, async |_| {
            ledger.statement(&did(fastrand::u64(0..size))?, None, ROWS).await?;
            Ok(())
        });
        curves[1].points.push(stated.await?);
    }
    Ok(curves.into())
}

/// The ledger on a store of its own.
pub(super) struct World {
    pub(super) store: Store,
    pub(super) table: String,
    pub(super) client: Client,
    pub(super) ledger: Ledger,
}

impl World {
    /// With the first account in it.
    pub(super) async fn new() -> Result<Self> {
        let (store, mut tables) = Store::of_template("infra/templates/tokens.yaml")?;
        let table = tables.remove("TokensTable").ok_or("the template has no TokensTable")?;
        let client = store.client();
        let rules = Rules { daily_limit: MAX, transfer_limit: MAX, initial_grant: MAX, ..Rules::default() };
        let ledger = Ledger::new(client.clone(), &table, rules, Arc::new(SystemClock), system_random());
        ledger.open(&did(0)?, SystemClock.now() + BUDGET).await?;
        Ok(Self { store, table, client, ledger })
    }
}

pub(super) fn did(number: u64) -> Result<Did> {
    Ok(format!("did:key:{number:09}").parse()?)
}

pub(super) async fn transfer(ledger: &Ledger, sender: Did, recipient: Did, key: &str) -> Result<()> {
    let transfer =
        Transfer { sender, recipient, amount: "1".parse()?, message: "for lunch".to_owned(), key: key.parse()? };
    ledger.transfer(&transfer, SystemClock.now() + BUDGET).await?;
    Ok(())
}

/// Verifies some pages of the table, from this item on. Returns how many accounts and entries they had.
async fn verify_part(client: &Client, table: &str, item: &str) -> Result<u64> {
    let item: Value = serde_json::from_str(item)?;
    let mut progress = serde_json::to_value(Progress::default())?;
    progress["last"] = json!([item["PK"]["S"], item["SK"]["S"]]);
    let (mut pages, mut read, mut suspects) = (0, 0, 0);
    let mut watch = |progress: &Progress| {
        let (accounts, entries) = progress.read();
        (pages, read, suspects) = (pages + 1, accounts + entries, progress.suspects());
        if pages < PAGES { Ok(()) } else { Err(std::io::Error::other("these are enough")) }
    };
    match verify_from(serde_json::from_value(progress)?, client, table, &mut watch).await {
        Err(Error::Progress(_)) if suspects == 0 => Ok(read),
        Err(Error::Progress(_)) => Err(format!("{suspects} items of the ledger seem to be wrong").into()),
        Ok(_) => Err("the table ended before so many pages were verified".into()),
        Err(error) => Err(error.into()),
    }
}

/// A report that found nothing wrong.
pub(super) fn verified(report: Report) -> Result<Report> {
    if report.is_clean() { Ok(report) } else { Err(format!("the ledger is not proven: {report:?}").into()) }
}

/// What the ledger wrote when it opened the first account. Other accounts are copies under other names: a million calls to the
/// ledger would take longer than all measurements.
struct Pattern {
    items: Vec<String>,
    did: String,
    transaction: String,
}

impl Pattern {
    async fn of_first_account(store: &Store, table: &str, ledger: &Ledger) -> Result<Self> {
        let first = did(0)?;
        let statement = ledger.statement(&first, None, 1).await?;
        let row = statement.rows.first().ok_or("the first account has no entry")?;
        Ok(Self { items: store.items(table)?, did: first.to_string(), transaction: row.transaction_id.to_string() })
    }

    fn account(&self, number: u64) -> Vec<String> {
        let mut random = [0; 10];
        random[2..].copy_from_slice(&number.to_be_bytes());
        let id = TransactionId::new(Timestamp::from_millis(1_790_000_000_000 + number), random).to_string();
        let did = format!("did:key:{number:09}");
        self.items.iter().map(|item| item.replace(&self.did, &did).replace(&self.transaction, &id)).collect()
    }
}
