//! Keys in the library's local memory: a whole `mark` while the store is down, and the memory that the keys take.

use std::time::Duration;

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Namespace, Once, Outage};

use super::{Sizes, curve};
use crate::child;
use crate::curve::{Curve, Expected, Point};
use crate::measure::Bench;
use crate::prices::Prices;
use crate::store::Store;
use crate::{Result, progress, workspace};

/// Memory is counted in pages, so small memories are filled several times, up to so many keys or so many memories.
const KEYS: u64 = 100_000;
const MEMORIES: u64 = 100;

pub(super) fn measure(sizes: Sizes) -> Result<Vec<Curve>> {
    // The code does the same for each key.
    let expected = Expected::Grows { slope: 0.25, why: "a large memory does not fit into the processor's caches" };
    let mut curve = curve("memory", "mark while the store is down", "keys in memory", "call", expected);
    for size in sizes.decades(1_000_000, 1_000_000) {
        progress(format_args!("memory: {size} keys"));
        curve.points.push(child::point(&format!("memory {size}"))?);
    }
    Ok(vec![curve])
}

/// One size, in a process of its own.
pub(crate) async fn point(size: u64) -> Result<Point> {
    let prices = Prices::read(&workspace().join("infra/cost/prices.json"))?;
    let store = Store::empty()?;
    store.faults().down();
    let namespace = Namespace::new("slack-events").fail_open();
    let key = |n: u64| namespace.key([format!("Ev{n:08}")]);
    let outage =
        Outage { journal_keys: usize::try_from(size)?, probe_interval: Duration::from_secs(3600), ..Outage::default() };
    let before = testkit::usage::resident();
    let mut memories = Vec::new();
    for _ in 0..(KEYS / size).clamp(1, MEMORIES) {
        let client = aws_sdk_dynamodb::Client::from_conf(
            store
                .client()
                .config()
                .to_builder()
                .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
                .build(),
        );
        let once = Once::builder(DynamoDb::new(client, Table::new("keys", "id"))).outage(outage.clone()).build();
        for n in 0..size {
            once.mark(&key(n)?).await?;
        }
        memories.push(once);
    }
    let memory = testkit::usage::resident().saturating_sub(before) as f64 / memories.len() as f64;
    let once = memories.first().ok_or("there is no memory")?;
    let bench = Bench::on(&prices, &store);
    // A thousand lookups take a millisecond.
    let lookups = u32::try_from((size * 100).clamp(900, 90_000))?;
    let looked_up = bench.each(size, lookups, &[], async |n| {
        once.mark(&key(u64::from(n) * 7_919 % size)?).await?;
        Ok(())
    });
    Ok(Point { memory, ..looked_up.await? })
}
