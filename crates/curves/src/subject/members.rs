//! Members of one group of the mesh: a report, which reaches all of them; the list of their last reports; one who joins and leaves.

use super::groups::{Mesh, received};
use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::measure::Bench;
use crate::prices::{Extras, Prices};
use crate::{Result, progress};

/// An operation of AppSync. The messages to members are added per delivery.
const OPERATION: Extras = &[("appsyncOperation", 1.0)];
const DELIVERY: Extras = &[("appsyncUpdate", 1.0)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 90, 450);
    let mesh = Mesh::new()?;
    let bench = Bench::on(prices, &mesh.store);
    let of = "members of the group";
    let mut curves = [
        curve("members", "report to all", of, "delivery", Expected::Flat),
        curve("members", "listGroupStatuses", of, "member", Expected::Flat),
        curve("members", "join and leave", of, "node", Expected::linear("joining reads the members, at most 100")),
    ];
    for (number, size) in sizes.of([2, 3, 4, 5], [2, 5, 15, 50], [2, 10, 30, 100]).into_iter().enumerate() {
        progress(format_args!("members: {size}"));
        let group = mesh.create_group("class", number as u64).await?;
        let mut members = vec![mesh.subscribe(&group).await?];
        for node in 1..size - 1 {
            mesh.join(&group, node).await?;
            members.push(mesh.subscribe(&group).await?);
        }
        // The last one joins again and again: a node that has left is no member.
        let joined = bench.each(size as u64, units.min(90), OPERATION, async |n| {
            if n > 0 {
                mesh.leave(&group, size - 1).await?;
            }
            mesh.join(&group, size - 1).await
        });
        curves[2].points.push(joined.await?);
        members.push(mesh.subscribe(&group).await?);
        for node in 0..size {
            mesh.report(&group, node, 0).await?;
            received(&mut members).await?;
        }
        let reported = bench.each(size as u64, units, OPERATION, async |n| {
            mesh.report(&group, n as usize % size, n).await?;
            received(&mut members).await
        });
        let mut reported = reported.await?.per(size as u64);
        let deliveries = prices.per_million(0.0, 0.0, DELIVERY)?.unwrap_or_default();
        reported.dollars = reported.dollars.map(|dollars| dollars + deliveries);
        curves[0].points.push(reported);
        let listed = bench.each(size as u64, units, OPERATION, async |_| match mesh.statuses(&group).await? {
            found if found == size => Ok(()),
            found => Err(format!("{found} of {size} members are listed").into()),
        });
        curves[1].points.push(listed.await?.per(size as u64));
    }
    Ok(curves.into())
}
