//! A school class on the mesh, beside graphql-yoga. `make bench BENCH=mesh` runs it; `--smoke` runs it briefly, to see that everything works.
//!
//! - **One class**: forty nodes in one group. Each reports at the client's default interval, and each report goes to all forty.
//! - **A school**: ten groups of forty nodes. Each group publishes 15 status reports and 2 event batches per second.
//!
//! The load grows until the server is saturated. Both servers make the same DynamoDB calls per publish, over HTTP, to an embedded DynamoDB,
//! and the same client drives both. Each server and the DynamoDB are processes of their own, on the same cores as the client. Ours is the deployed files
//! on the in-process AppSync, and the function. graphql-yoga is measured if `npm ci` was run in `bench/appsync`. The time of a
//! message begins when the server stamps it, a little before the group accepts it, and ends when a subscriber has read it.

mod class;
mod server;
mod store;

use std::io::Write as _;
use std::time::Duration;

use class::{Class, Measured, Protocol};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Who publishes how much, at the load of 1.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    groups: usize,
    nodes: usize,
    /// Per second and group.
    reports: u32,
    batches: u32,
}

/// The default of `reportMs` in `clients/mesh/mesh.js` is half a second.
const REPORTS_PER_NODE: u32 = 2;
const CLASS: Scenario =
    Scenario { name: "one class", groups: 1, nodes: 40, reports: 40 * REPORTS_PER_NODE, batches: 0 };
const SCHOOL: Scenario = Scenario { name: "a school", groups: 10, nodes: 40, reports: 15, batches: 2 };
const SMOKE: [Scenario; 2] = [Scenario { nodes: 5, reports: 10, ..CLASS }, Scenario { groups: 2, nodes: 5, ..SCHOOL }];
/// The loads, as multiples of the scenario's own rate.
const LOADS: [u32; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 24];
/// The 99th percentile of a message's time must not be longer.
const P99: Duration = Duration::from_millis(50);
/// How long each part lasts, unless `BENCH_SECONDS` says otherwise.
const SECONDS: u64 = 10;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if arguments.iter().any(|argument| argument == "store") {
        return runtime.block_on(server::store());
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "serve") {
        let endpoint = arguments.get(at + 1).cloned().unwrap_or_default();
        return runtime.block_on(server::serve(&endpoint));
    }
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    if arguments.iter().any(|argument| argument == "--smoke") {
        return runtime.block_on(run(&SMOKE, &LOADS[..1], Duration::from_secs(1)));
    }
    runtime.block_on(run(&[CLASS, SCHOOL], &LOADS, Duration::from_secs(seconds)))
}

async fn run(scenarios: &[Scenario], loads: &[u32], lasting: Duration) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "Requests to DynamoDB per operation, compared with the first design\n")?;
    for line in store::compare().await? {
        writeln!(out, "{line}")?;
    }
    for scenario in scenarios {
        let Scenario { name, groups, nodes, reports, batches } = scenario;
        writeln!(
            out,
            "\n{name}: {groups} × {nodes} nodes, {reports} reports and {batches} event batches per second and group\n"
        )?;
        let columns = ["load", "published/s", "delivered/s", "missing", "p50", "p99"];
        let [load, published, delivered, missing, p50, p99] = columns;
        writeln!(out, "{:<14} {load:>6} {published:>12} {delivered:>14} {missing:>10} {p50:>10} {p99:>10}", "")?;
        // Each server has a store of its own, so that neither meets what the other left.
        let ours = measure(&mut out, scenario, loads, lasting, Protocol::AppSync).await?;
        let theirs = match server::yoga() {
            Some(_) => Some(measure(&mut out, scenario, loads, lasting, Protocol::GraphqlWs).await?),
            None => None,
        };
        match theirs {
            Some(theirs) => writeln!(
                out,
                "\nwithin {} ms: ichido up to {ours:.0} publishes per second, graphql-yoga up to {theirs:.0}",
                P99.as_millis()
            )?,
            None => writeln!(out, "(graphql-yoga is not installed; run npm ci in bench/appsync)")?,
        }
    }
    Ok(())
}

/// Raises the load until the server is saturated. Returns how many publishes per second it took before that.
async fn measure(
    out: &mut impl std::io::Write,
    scenario: &Scenario,
    loads: &[u32],
    lasting: Duration,
    protocol: Protocol,
) -> Result<f64> {
    let store = server::Child::store()?;
    let (name, server) = match protocol {
        Protocol::AppSync => ("ichido", server::Child::ours(&store)?),
        Protocol::GraphqlWs => ("graphql-yoga", server::Child::yoga(&store)?),
    };
    let class = Class::enter(server.address, protocol, *scenario).await?;
    let mut most = 0.0;
    for load in loads {
        let measured = class.run(*load, lasting).await?;
        let holds = measured.missing == 0 && measured.p99 <= P99;
        let is_saturated = !holds || !measured.kept_up;
        let verdict = match (is_saturated, *load, protocol) {
            (true, 1, Protocol::AppSync) => "  NOT as promised: all delivered, p99 within 50 ms",
            (true, ..) => "  saturated",
            (false, 1, Protocol::AppSync) => "  as promised: all delivered, p99 within 50 ms",
            (false, ..) => "",
        };
        writeln!(out, "{name:<14} {}{verdict}", row(*load, &measured))?;
        if is_saturated {
            break;
        }
        most = measured.published;
    }
    Ok(most)
}

fn row(load: u32, measured: &Measured) -> String {
    let ms = |duration: Duration| format!("{:.1} ms", duration.as_secs_f64() * 1e3);
    format!(
        "{:>5}× {:>12.0} {:>14.0} {:>10} {:>10} {:>10}",
        load,
        measured.published,
        measured.delivered,
        measured.missing,
        ms(measured.p50),
        ms(measured.p99)
    )
}
