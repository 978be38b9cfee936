//! The history of one account: its next transfer, the first page of its statement, and the verification of its entries.

use ichido::{Clock as _, SystemClock};
use tokens::ledger::BUDGET;
use tokens::verify::verify;

use super::accounts::{REQUEST, ROWS, World, did, transfer, verified};
use super::{Sizes, TINY, curve};
use crate::curve::{Curve, Expected};
use crate::measure::Bench;
use crate::prices::Prices;
use crate::{Result, progress};

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 90, 450);
    let World { store, table, client, ledger } = World::new().await?;
    let (sender, recipient) = (did(0)?, did(1)?);
    ledger.open(&recipient, SystemClock.now() + BUDGET).await?;
    let bench = Bench::on(prices, &store);
    let of = "entries of one account";
    // The embedded store looks at the tokens of all transactions of the last ten minutes with each further one, so a caller waits.
    let waits = Expected::Grows {
        slope: 0.1,
        why: "with many transactions the embedded store is slow, and whoever waits has cold caches",
    };
    let mut curves = [
        curve("history", "transfer", of, "transfer", waits),
        curve("history", "statement", of, "page of 50 rows", Expected::Flat),
        curve("history", "verify", of, "entry", Expected::Flat),
    ];
    let mut made = 0;
    for size in sizes.of(TINY, [64, 256, 1_024, 4_096], [100, 1_000, 10_000, 100_000]) {
        progress(format_args!("history: {size} entries"));
        while made < size {
            transfer(&ledger, sender.clone(), recipient.clone(), &format!("fill-{made}")).await?;
            made += 1;
        }
        let verified = bench.whole(size, &[], async || Ok(verified(verify(&client, &table).await?)?.entries));
        curves[2].points.push(verified.await?);
        let stated = bench.each(size, units, REQUEST, async |_| {
            ledger.statement(&sender, None, ROWS).await?;
            Ok(())
        });
        curves[1].points.push(stated.await?);
        let transferred = bench.each(size, units, REQUEST, async |n| {
            transfer(&ledger, sender.clone(), recipient.clone(), &format!("{size}-{n}")).await
        });
        curves[0].points.push(transferred.await?);
    }
    Ok(curves.into())
}
