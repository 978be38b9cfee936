//! Compares the local AppSync with graphql-yoga and graphql-ws on Node.
//!
//! `cargo bench -p appsync` prints one table. Each server is a process of its own. Both make the same two DynamoDB calls per
//! mutation (GetItem of the group, PutItem of the message) to the same embedded DynamoDB, and the same client drives both. Yoga is
//! measured if `npm ci` was run in `bench/appsync`. `--smoke` runs each part briefly, to see that everything works.

mod client;
mod server;

use std::io::Write as _;
use std::time::{Duration, Instant};

use client::{Http, Protocol, Reader};

/// The allocator of the local platform (see `crates/function`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How much is measured.
struct Effort {
    evaluations: u32,
    mutations: usize,
    rounds: usize,
    sockets: usize,
    fan_outs: &'static [usize],
}

const FULL: Effort =
    Effort { evaluations: 20_000, mutations: 8_000, rounds: 50, sockets: 1_000, fan_outs: &[100, 1_000] };
const SMOKE: Effort = Effort { evaluations: 50, mutations: 20, rounds: 2, sockets: 10, fan_outs: &[10] };

/// What was measured of one server.
struct Measured {
    single: f64,
    parallel: f64,
    /// For each number of subscribers: the median time until the last of them has the message.
    fan_outs: Vec<(usize, Duration)>,
    idle_kilobytes: Option<f64>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(at) = arguments.iter().position(|argument| argument == "serve") {
        let endpoint = arguments.get(at + 1).cloned().unwrap_or_default();
        return runtime.block_on(server::serve(&endpoint));
    }
    let effort = if arguments.iter().any(|argument| argument == "--smoke") { SMOKE } else { FULL };
    runtime.block_on(run(&effort))
}

async fn run(effort: &Effort) -> Result<()> {
    let mut out = std::io::stdout();
    let (request, response) = server::evaluate(effort.evaluations)?;
    writeln!(out, "a unit resolver's request and response   {:>8.1} µs + {:.1} µs", request, response)?;
    let endpoint = server::dynamodb().await?;
    let ours = {
        let child =
            server::Child::start(std::process::Command::new(std::env::current_exe()?).args(["serve", &endpoint]))?;
        measure(effort, &child, Protocol::AppSync).await?
    };
    let yoga = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/appsync");
    let theirs = if std::path::Path::new(yoga).join("node_modules/graphql-yoga").exists() {
        let mut command = std::process::Command::new("node");
        let child = server::Child::start(
            command.arg("server.js").current_dir(yoga).env("DYNAMODB_ENDPOINT", &endpoint).env("NODE_NO_WARNINGS", "1"),
        )?;
        Some(measure(effort, &child, Protocol::GraphqlWs).await?)
    } else {
        writeln!(out, "(graphql-yoga is not installed; run npm ci in bench/appsync)")?;
        None
    };
    let times = |ours: f64, theirs: f64| format!("{:>6.1} ×", ours / theirs);
    let row = |name: &str, ours: String, theirs: Option<String>, times: Option<String>| {
        format!("{name:<40} {ours:>14} {:>14} {}", theirs.unwrap_or_default(), times.unwrap_or_default())
    };
    writeln!(out, "{}", row("", "appsync".to_owned(), theirs.as_ref().map(|_| "graphql-yoga".to_owned()), None))?;
    for (name, pick) in [
        ("pipeline mutations/s, 1 connection", (|m: &Measured| m.single) as fn(&Measured) -> f64),
        ("pipeline mutations/s, 32 connections", |m: &Measured| m.parallel),
    ] {
        let (own, other) = (pick(&ours), theirs.as_ref().map(pick));
        let line = row(name, format!("{own:.0}"), other.map(|n| format!("{n:.0}")), other.map(|n| times(own, n)));
        writeln!(out, "{line}")?;
    }
    for (index, (size, took)) in ours.fan_outs.iter().enumerate() {
        let other = theirs.as_ref().map(|theirs| theirs.fan_outs[index].1);
        let milliseconds = |took: Duration| format!("{:.2} ms", took.as_secs_f64() * 1e3);
        let line = row(
            &format!("POST to the last of {size} subscribers"),
            milliseconds(*took),
            other.map(milliseconds),
            other.map(|other| times(other.as_secs_f64(), took.as_secs_f64())),
        );
        writeln!(out, "{line}")?;
    }
    let megabytes =
        |measured: &Measured| measured.idle_kilobytes.map(|kilobytes| format!("{:.1} MB", kilobytes / 1024.0));
    let name = format!("{} idle sockets", effort.sockets);
    let line = row(
        &name,
        megabytes(&ours).unwrap_or_default(),
        theirs.as_ref().and_then(megabytes),
        ours.idle_kilobytes
            .zip(theirs.as_ref().and_then(|theirs| theirs.idle_kilobytes))
            .map(|(own, other)| times(other, own)),
    );
    writeln!(out, "{line}")?;
    Ok(())
}

async fn measure(effort: &Effort, child: &server::Child, protocol: Protocol) -> Result<Measured> {
    let address = child.address;
    warm_up(address, effort).await?;
    let single = throughput(address, 1, effort.mutations / 4).await?;
    let parallel = throughput(address, 32, effort.mutations).await?;
    let mut fan_outs = Vec::new();
    for size in effort.fan_outs {
        fan_outs.push((*size, fan_out(address, protocol, *size, effort.rounds).await?));
    }
    let before = child.resident_kilobytes();
    let mut sockets = Vec::new();
    for _ in 0..effort.sockets {
        sockets.push(Reader::open(address, protocol, None).await?);
    }
    let after = child.resident_kilobytes();
    drop(sockets);
    let idle_kilobytes = before.zip(after).map(|(before, after)| (after - before).max(0.0));
    Ok(Measured { single, parallel, fan_outs, idle_kilobytes })
}

async fn warm_up(address: std::net::SocketAddr, effort: &Effort) -> Result<()> {
    let mut http = Http::open(address).await?;
    for n in 0..effort.mutations / 20 {
        http.send(&format!("warm-{n}")).await?;
    }
    Ok(())
}

/// Mutations per second.
async fn throughput(address: std::net::SocketAddr, connections: usize, total: usize) -> Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Http::open(address).await?);
    }
    let each = (total / connections).max(1);
    let start = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, mut http)| {
            tokio::spawn(async move {
                for n in 0..each {
                    http.send(&format!("{number}-{n}")).await?;
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    #[expect(clippy::cast_precision_loss, reason = "thousands of mutations")]
    Ok((each * connections) as f64 / start.elapsed().as_secs_f64())
}

/// The median time from sending a mutation until its last subscriber has the message.
async fn fan_out(address: std::net::SocketAddr, protocol: Protocol, size: usize, rounds: usize) -> Result<Duration> {
    let mut readers = Vec::new();
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..size {
        let mut reader = Reader::open(address, protocol, Some("g")).await?;
        let sender = sender.clone();
        readers.push(tokio::spawn(async move {
            while reader.next().await.is_some() {
                if sender.send(()).is_err() {
                    break;
                }
            }
        }));
    }
    let mut http = Http::open(address).await?;
    let mut times = Vec::new();
    for round in 0..rounds {
        let start = Instant::now();
        http.send(&format!("round {round}")).await?;
        for _ in 0..size {
            tokio::time::timeout(Duration::from_secs(30), heard.recv()).await?.ok_or("a subscriber left")?;
        }
        times.push(start.elapsed());
    }
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
