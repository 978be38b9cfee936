//! A school class: ten groups of forty nodes. Each group publishes 15 status reports and 2 event batches per second, and each of them goes to
//! all forty nodes. Then the load grows until the server is saturated. `make bench BENCH=mesh` runs it; `--smoke` runs it briefly, to see that
//! everything works.
//!
//! The server (the deployed files on the in-process AppSync, the function, an embedded DynamoDB) is a process of its own. This process is the
//! class: it uses HTTP and WebSocket on loopback, on the same cores. The time of a message begins when the server stamps it, a little
//! before the group accepts it, and ends when a subscriber has read it.

mod class;
mod server;
mod store;

use std::io::Write as _;
use std::time::Duration;

use class::{Class, Measured};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How large the class is, and how long each part lasts.
struct Plan {
    groups: usize,
    nodes: usize,
    seconds: u64,
    /// The loads, as multiples of the class's own rate.
    steps: &'static [u32],
}

const GROUPS: usize = 10;
const NODES: usize = 40;
/// Per second and group.
const REPORTS: u32 = 15;
const BATCHES: u32 = 2;
/// The 99th percentile of a message's time must not be longer.
const P99: Duration = Duration::from_millis(50);
/// How long each part lasts, unless `BENCH_SECONDS` says otherwise.
const SECONDS: u64 = 10;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if arguments.iter().any(|argument| argument == "serve") {
        return runtime.block_on(server::serve());
    }
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let plan = if arguments.iter().any(|argument| argument == "--smoke") {
        Plan { groups: 2, nodes: 5, seconds: 1, steps: &[1] }
    } else {
        Plan { groups: GROUPS, nodes: NODES, seconds, steps: &[1, 2, 3, 4, 6, 8, 12, 16] }
    };
    runtime.block_on(run(&plan))
}

async fn run(plan: &Plan) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "Requests to DynamoDB per operation, compared with the first design\n")?;
    for line in store::compare().await? {
        writeln!(out, "{line}")?;
    }
    let server = server::Child::start()?;
    let class = Class::enter(server.address, plan.groups, plan.nodes).await?;
    writeln!(
        out,
        "\n{} groups × {} nodes, {REPORTS} reports and {BATCHES} event batches per second and group\n",
        plan.groups, plan.nodes
    )?;
    writeln!(
        out,
        "{:>6} {:>12} {:>14} {:>10} {:>10} {:>10}",
        "load", "published/s", "delivered/s", "missing", "p50", "p99"
    )?;
    for step in plan.steps {
        let measured = class.run(*step, Duration::from_secs(plan.seconds)).await?;
        writeln!(out, "{}", row(*step, &measured))?;
        if *step == 1 {
            let holds = measured.missing == 0 && measured.p99 <= P99;
            let verdict = if holds { "as promised" } else { "NOT as promised" };
            writeln!(out, "       {verdict}: all delivered, p99 within {} ms", P99.as_millis())?;
        }
        if measured.missing > 0 || measured.p99 > P99 || !measured.kept_up {
            writeln!(out, "       saturated")?;
            break;
        }
    }
    Ok(())
}

fn row(step: u32, measured: &Measured) -> String {
    let ms = |duration: Duration| format!("{:.1} ms", duration.as_secs_f64() * 1e3);
    format!(
        "{:>5}× {:>12.0} {:>14.0} {:>10} {:>10} {:>10}",
        step,
        measured.published,
        measured.delivered,
        measured.missing,
        ms(measured.p50),
        ms(measured.p99)
    )
}
