//! Groups in one domain of the mesh: the creation of a further one, which counts those that are there. A domain has at most 100.

use super::groups::Mesh;
use super::{Sizes, curve};
use crate::curve::{Curve, Expected};
use crate::measure::{Bench, calls};
use crate::prices::{Extras, Prices};
use crate::{Result, progress};

/// Beside the store: an operation of AppSync, and 30 ms of a function with 256 MB (`infra/cost/usage.json`).
const CREATE: Extras = &[("appsyncOperation", 1.0), ("lambdaRequest", 1.0), ("lambdaGbSecondArm64", 0.030 * 0.25)];

pub(super) async fn measure(sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
    let units = sizes.of(9, 9, 27);
    let mesh = Mesh::new()?;
    let bench = Bench::on(prices, &mesh.store);
    let expected = Expected::linear("creating a group reads the groups of its domain, at most 100");
    let mut curve = curve("domain", "createGroup", "groups in the domain", "group", expected);
    for size in sizes.of([1, 2, 3, 4], [1, 4, 16, 64], [1, 4, 20, 99]) {
        progress(format_args!("domain: {size} groups"));
        // Each measured group is the first one beyond the size, in a domain of its own.
        let domain = |n: u32| format!("domain-{size}-{n}");
        for n in 0..calls(units) {
            for number in 0..size {
                mesh.create_group(&domain(n), number).await?;
            }
        }
        let created = bench.each(size, units, CREATE, async |n| {
            mesh.create_group(&domain(n), size).await?;
            Ok(())
        });
        curve.points.push(created.await?);
    }
    Ok(vec![curve])
}
