//! Entries of one feed: a run that finds one new entry among those that it knows, per entry of the document.

use super::feeds::{RUN_AND_NOTIFY, World};
use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::prices::Prices;
use crate::{Result, progress};

const RUNS: u32 = 9;

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let world = World::new()?;
    let bench = world.bench(prices);
    let mut curve = curve("entries", "run, one new entry", "entries of one feed", "entry", Expected::Flat);
    for (feed, size) in sizes.decades(10_000, 10_000).into_iter().enumerate() {
        progress(format_args!("entries: {size} in one feed"));
        world.begin(feed, size).await?;
        let mut shown = 0;
        let ran = bench.each(size, RUNS, RUN_AND_NOTIFY, async |_| {
            shown += 1;
            world.show(feed, shown..size + shown);
            world.run(feed, "read", 1).await
        });
        curve.points.push(ran.await?.per(size));
    }
    Ok(vec![curve])
}
