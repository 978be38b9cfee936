//! `slack-events` compared with a handler in Node (`bench/slack/handler.mjs`): the same load and the same store, in one run.
//!
//! Each is a Lambda instance: a process that takes one event at a time from a Runtime API. This process serves the store
//! (embedded DynamoDB), SSM and the Invoke API over HTTP on loopback. Their time counts for both, their CPU for neither:
//! `bench/slack/run` keeps this process on one core, and the instances have another one to themselves.
//! Latency and CPU are measured on one instance at a steady rate. The highest rate is that of [`INSTANCES`] instances that
//! share their core, as concurrent invocations do. Half of the deliveries are duplicates.
//!
//! With the arguments `start DIRECTORY` it compares cold starts instead (`bench/cold-start/run`).

mod standins;
mod start;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use standins::{Surroundings, TABLE};
use start::Tls;
use tokio::sync::oneshot;

/// Deliveries per second of the first part.
const RATE: u32 = 200;
/// CPU is measured in so many sections of it.
const PARTS: usize = 5;
const WARM_UP: usize = 300;
const WARM_UP_FOR: Duration = Duration::from_secs(2);
/// Larger than every number that was delivered before.
const FAR: usize = 1_000_000;
/// How many instances share a core when they take as much as they can. One waits for the store while another works.
const INSTANCES: usize = 4;
/// The core of the instances. This process is on the first core.
const CORE: &str = "1";
/// How long each part lasts, unless `BENCH_SECONDS` says otherwise.
const SECONDS: u64 = 10;
/// What is promised.
const RATE_FACTOR: f64 = 3.0;
const CPU_FACTOR: f64 = 4.0;
/// Clock ticks per second in `/proc/PID/stat`, on every usual Linux.
const TICKS: f64 = 100.0;

struct Instance {
    child: Child,
    /// When the process was started. Everything that it talks to was running by then.
    begun: Instant,
    surroundings: Surroundings,
}

impl Instance {
    /// With `tls` it speaks TLS to the store and trusts that authority.
    async fn start(mut command: Command, tls: Option<&Tls>) -> Self {
        let surroundings = Surroundings::new(tls.map(|tls| tls.acceptor.clone())).await;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let trusted = tls.map(|tls| tls.authority.clone()).unwrap_or_default();
        let begun = Instant::now();
        let child = command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("AWS_LAMBDA_RUNTIME_API", surroundings.runtime.to_string())
            .env("AWS_LAMBDA_FUNCTION_NAME", "slack-events")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", "bench")
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "bench")
            .env("AWS_ENDPOINT_URL", format!("{scheme}://{}", surroundings.aws))
            .env("AWS_REGION", "ap-northeast-1")
            .env("AWS_ACCESS_KEY_ID", "bench")
            .env("AWS_SECRET_ACCESS_KEY", "bench")
            .env("DEDUP_TABLE_NAME", TABLE)
            .env("SLACK_BOT_ID", "B00000000")
            .env("SLACK_BOT_USER_ID", "U00000000")
            .env("SLACK_FILES_FUNCTION", "slack-files")
            .env("SLACK_SIGNING_SECRET_PARAMETER", "/bench/signing-secret")
            .env("SSL_CERT_FILE", &trusted)
            .env("NODE_EXTRA_CA_CERTS", &trusted)
            .env("AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED", "true")
            .stdout(Stdio::null())
            .spawn()
            .expect("the instance starts");
        Self { child, begun, surroundings }
    }

    fn deliver(&self, number: usize) -> oneshot::Receiver<Value> {
        self.surroundings.deliver(number)
    }

    /// CPU time so far, in seconds.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("a running process");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        (11..13).map(|at| fields[at].parse::<f64>().expect("ticks")).sum::<f64>() / TICKS
    }

    /// Resident memory in MB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.chars().filter(char::is_ascii_digit).collect::<String>().parse::<f64>().unwrap_or_default() / 1024.0
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command on the instances' core, if there is a second one.
fn on_its_core(command: &[&str]) -> Command {
    let there = Path::new("/sys/devices/system/cpu").join(format!("cpu{CORE}")).exists();
    let pinned: &[&str] = if there { &["taskset", "--cpu-list", CORE] } else { &[] };
    let words = [pinned, command].concat();
    let mut made = Command::new(words[0]);
    made.args(&words[1..]);
    made
}

struct Measured {
    start_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// CPU milliseconds per delivery at [`RATE`].
    cpu_ms: f64,
    /// Deliveries per second, as fast as possible.
    rate: f64,
    /// CPU milliseconds per delivery at that rate.
    busy_cpu_ms: f64,
    memory_mb: f64,
}

/// A line of the report: what it is called, and which number it shows.
type Row = (&'static str, fn(&Measured) -> f64);

async fn accepted(answer: oneshot::Receiver<Value>) {
    let answer = answer.await.expect("an answer");
    assert_eq!(answer["statusCode"], 200, "{answer}");
}

/// Delivers events one after another until `until`, numbered from `first`. Returns how many were accepted.
async fn busy(instance: Arc<Instance>, first: usize, until: Instant) -> usize {
    let mut taken = 0;
    let mut in_line = instance.deliver(first);
    while Instant::now() < until {
        taken += 1;
        let next = instance.deliver(first + taken);
        accepted(std::mem::replace(&mut in_line, next)).await;
    }
    accepted(in_line).await;
    taken
}

async fn measure(command: &[&str], length: Duration) -> Measured {
    let instance = Arc::new(Instance::start(on_its_core(command), None).await);
    accepted(instance.deliver(0)).await;
    let start_ms = instance.begun.elapsed().as_secs_f64() * 1e3;
    let mut number = 2;
    for _ in 0..WARM_UP {
        accepted(instance.deliver(number)).await;
        number += 1;
    }
    // At the given rate. The latency counts from the moment at which a delivery was due, so it includes waiting.
    // CPU is the median of several sections, so that one in which the machine was busy with something else does not count.
    let part = RATE as usize * usize::try_from(length.as_secs()).unwrap_or(1) / PARTS;
    let count = part * PARTS;
    let mut cpu = Vec::new();
    let due = Instant::now();
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..count {
        if n % part == 0 {
            cpu.push(instance.cpu());
        }
        let at = due + Duration::from_secs_f64(n as f64 / f64::from(RATE));
        tokio::time::sleep_until(at.into()).await;
        let answer = instance.deliver(number);
        number += 1;
        answers.spawn(async move {
            accepted(answer).await;
            at.elapsed()
        });
    }
    let mut latencies = answers.join_all().await;
    cpu.push(instance.cpu());
    let mut cpu_ms: Vec<f64> = cpu.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3 / part as f64).collect();
    cpu_ms.sort_by(f64::total_cmp);
    let cpu_ms = cpu_ms[PARTS / 2];
    latencies.sort_unstable();
    let percentile = |share: f64| latencies[((count - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let memory_mb = instance.memory();
    // As fast as possible: the next delivery is already waiting.
    let mut instances = vec![instance];
    while instances.len() < INSTANCES {
        instances.push(Arc::new(Instance::start(on_its_core(command), None).await));
    }
    let mut warming = tokio::task::JoinSet::new();
    for instance in &instances[1..] {
        warming.spawn(busy(instance.clone(), 2, Instant::now() + WARM_UP_FOR));
    }
    warming.join_all().await;
    let cpu = || instances.iter().map(|instance| instance.cpu()).sum::<f64>();
    let (started, cpu_before) = (Instant::now(), cpu());
    let mut working = tokio::task::JoinSet::new();
    for instance in &instances {
        working.spawn(busy(instance.clone(), FAR, started + length));
    }
    let taken: usize = working.join_all().await.into_iter().sum();
    let rate = taken as f64 / started.elapsed().as_secs_f64();
    let busy_cpu_ms = (cpu() - cpu_before) * 1e3 / taken as f64;
    let (p50_ms, p99_ms) = (percentile(0.50), percentile(0.99));
    Measured { start_ms, p50_ms, p99_ms, cpu_ms, rate, busy_cpu_ms, memory_mb }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "start") {
        return start::compare(arguments.get(at + 1).expect("start DIRECTORY"));
    }
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    let length = Duration::from_secs(seconds.max(1));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/slack/bootstrap.mjs");
    let node = runtime.block_on(measure(&["node", &node.to_string_lossy()], length));
    let binary = std::env::var("BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_slack-events").to_owned());
    let rust = runtime.block_on(measure(&[&binary], length));
    let mut table = String::new();
    let rows: [Row; 7] = [
        ("first answer, ms (start included)", |measured| measured.start_ms),
        ("p50 at 200/s, ms", |measured| measured.p50_ms),
        ("p99 at 200/s, ms", |measured| measured.p99_ms),
        ("CPU at 200/s, ms per delivery", |measured| measured.cpu_ms),
        ("accepted deliveries per second and core", |measured| measured.rate),
        ("CPU at that rate, ms per delivery", |measured| measured.busy_cpu_ms),
        ("memory, MB", |measured| measured.memory_mb),
    ];
    let _ = writeln!(table, "{:<40}{:>12}{:>12}{:>10}", "one instance, half duplicates", "ichido", "Node", "");
    for (name, of) in rows {
        let (ours, theirs) = (of(&rust), of(&node));
        let factor = if ours > theirs { ours / theirs } else { theirs / ours };
        let _ = writeln!(table, "{name:<40}{ours:>12.2}{theirs:>12.2}{factor:>9.1}x");
    }
    let (faster, thriftier) = (rust.rate / node.rate, node.busy_cpu_ms / rust.busy_cpu_ms);
    let kept = faster >= RATE_FACTOR && thriftier >= CPU_FACTOR;
    let _ = writeln!(
        table,
        "{}: {faster:.1} times the rate (promised: {RATE_FACTOR}), 1/{thriftier:.1} of the CPU (promised: 1/{CPU_FACTOR})",
        if kept { "kept" } else { "NOT KEPT" }
    );
    let _ = std::io::stdout().write_all(table.as_bytes());
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
