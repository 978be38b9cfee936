//! Keys in the library's table: `mark` and `run` of a new key, and `run` of one that is completed.

use ichido::dynamodb::{DynamoDb, Table};
use ichido::{Failure, How, Namespace, OnDoubt, Once};
use serde_json::{Value, json};

use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::measure::Bench;
use crate::prices::Prices;
use crate::store::Store;
use crate::{Result, progress};

const TABLE: &str = "keys";

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 450, 1_800);
    let store = Store::empty()?;
    store.create_table(TABLE, "id")?;
    let once = Once::new(DynamoDb::new(store.client(), Table::new(TABLE, "id")));
    let namespace = Namespace::new("curves");
    let run = async |key: String| -> Result<bool> {
        let work = |_| async { Ok::<_, Failure<String>>(json!({"ok": true})) };
        Ok(once.run(&namespace.key([key])?).on_doubt(OnDoubt::Repeat).work(work).await?.how == How::Replayed)
    };
    run("0".to_owned()).await?;
    let pattern: Value = serde_json::from_str(store.items(TABLE)?.first().ok_or("run left no record")?)?;
    let bench = Bench::on(prices, &store);
    let of = "keys in the table";
    let mut curves = [
        curve("keys", "mark, new key", of, "call", Expected::Flat),
        curve("keys", "run, new key", of, "call", Expected::Flat),
        curve("keys", "run, completed key", of, "call", Expected::Flat),
    ];
    let mut filled = 1;
    for size in sizes.decades(100_000, 1_000_000) {
        progress(format_args!("keys: {size} in the table"));
        let mut items = Ok(());
        let fill = (filled..size).map_while(|n| match namespace.key([n.to_string()]) {
            Ok(key) => {
                let mut item = pattern.clone();
                item["id"]["S"] = json!(key.as_str());
                Some(item.to_string())
            }
            Err(error) => {
                items = Err(error);
                None
            }
        });
        store.import(TABLE, fill)?;
        items?;
        filled = size;
        let marked = bench.each(size, units, &[], async |n| {
            once.mark(&namespace.key([format!("mark-{size}-{n}")])?).await?;
            Ok(())
        });
        curves[0].points.push(marked.await?);
        let ran = bench.each(size, units, &[], async |n| match run(format!("run-{size}-{n}")).await? {
            false => Ok(()),
            true => Err("a new key was replayed".into()),
        });
        curves[1].points.push(ran.await?);
        let replayed = bench.each(size, units, &[], async |_| match run(fastrand::u64(0..size).to_string()).await? {
            true => Ok(()),
            false => Err("a completed key was run again".into()),
        });
        curves[2].points.push(replayed.await?);
    }
    Ok(curves.into())
}
