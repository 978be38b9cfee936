//! What the library costs, compared in one run.
//!
//! 1. `mark` against a bare `PutItem` with the same item and condition, on the same embedded engine: the library's own CPU.
//! 2. The local memory: bytes per key and time per lookup.
//! 3. `run`, fresh and duplicate, against AWS Lambda Powertools for TypeScript and Python on the same endpoint, if
//!    `bench/ichido/run` has installed them (it says so through `POWERTOOLS_NODE` and `POWERTOOLS_PYTHON`).
//!
//! CPU is what the operating system charges the calling process. The endpoint is a separate process.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, StalledStreamProtectionConfig};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ReturnValuesOnConditionCheckFailure,
    ScalarAttributeType,
};
use ichido::dynamodb::{DynamoDb, Table, item};
use ichido::{Clock, Failure, Namespace, OnDoubt, Once, Outage, Outcome, Owner, Record, State, SystemClock};
use serde::Deserialize;
use testkit::Dynamo;

/// As our functions have it (crates/function).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Any = Box<dyn Error + Send + Sync>;

/// Calls of each kind in the comparison with `PutItem`. They run in blocks that take turns, so that both run under the same load.
const BLOCKS: u32 = 20;
const CALLS_PER_BLOCK: u32 = 400;
/// Calls of each kind against Powertools.
const CALLS: u32 = 1500;
/// How many rounds all contestants take turns.
const ROUNDS: u32 = 5;
const MEMORY_KEYS: usize = 10_000;
/// How many memories are filled. Memory is measured in pages, so one would be too few.
const MEMORIES: usize = 10;

fn main() -> Result<(), Any> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if std::env::args().any(|argument| argument == "serve") {
        return runtime.block_on(serve());
    }
    // As a task, as our functions have it (crates/function): what `block_on` itself is given is woken through the kernel.
    let measured = async {
        mark_against_put_item().await?;
        local_memory().await?;
        run_against_powertools().await
    };
    let measured = async { measured.await.map_err(|error: Any| error.to_string()) };
    Ok(runtime.block_on(async { tokio::spawn(measured).await })??)
}

/// CPU time of this process so far, user and system. It counts in ticks of 10 ms, so measure many calls.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain anything; the numbers come after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
    pages * 4096.0
}

fn micros(duration: Duration, calls: u32) -> f64 {
    duration.as_secs_f64() * 1e6 / f64::from(calls)
}

async fn mark_against_put_item() -> Result<(), Any> {
    let mut db = Dynamo::empty();
    db.simple_table("bench", "id", None, "ttl");
    let table = Table::new("bench", "id");
    let client = db.client();
    let once = Once::builder(DynamoDb::new(db.client(), table.clone())).build();
    let namespace = Namespace::new("mark");

    let (mut bare, mut marked) = (Duration::ZERO, Duration::ZERO);
    // The first block warms up and does not count.
    for block in 0..=BLOCKS {
        let before = cpu();
        for call in 0..CALLS_PER_BLOCK {
            let key = namespace.key([format!("bare-{block}-{call}")])?;
            bare_put(&client, &table, &key).await?;
        }
        let between = cpu();
        for call in 0..CALLS_PER_BLOCK {
            let key = namespace.key([format!("mark-{block}-{call}")])?;
            once.mark(&key).attribute("file_id", "F1").await?;
        }
        if block > 0 {
            bare += between - before;
            marked += cpu() - between;
        }
    }
    let calls = BLOCKS * CALLS_PER_BLOCK;
    let (bare, marked) = (micros(bare, calls), micros(marked, calls));
    println!(
        "mark against a bare PutItem, same item and condition, embedded engine, CPU per call ({calls} calls each)"
    );
    println!(
        "  PutItem {bare:7.1} µs   mark {marked:7.1} µs   the library's own {:6.1} µs (goal: under 50)",
        marked - bare
    );
    Ok(())
}

/// What `mark` writes, written by hand.
async fn bare_put(client: &Client, table: &Table, key: &ichido::Key) -> Result<(), Any> {
    let now = SystemClock.now();
    let mut record = Record::new(State::Completed { outcome: Outcome::Nothing }, Owner::random(), 1, now);
    record.expires_at = Some(now + Duration::from_secs(24 * 3600));
    let attributes = vec![("file_id".to_owned(), "F1".into())];
    let item = item::write(table, key, &record, &attributes)?;
    let values = HashMap::from([
        (":now_secs".to_owned(), AttributeValue::N(now.as_secs().to_string())),
        (":now".to_owned(), AttributeValue::N(now.as_millis().to_string())),
        (":format".to_owned(), AttributeValue::N("1".into())),
        (":released".to_owned(), AttributeValue::S("released".into())),
        (":claimed".to_owned(), AttributeValue::S("claimed".into())),
    ]);
    client
        .put_item()
        .table_name(table.name())
        .set_item(Some(item))
        .condition_expression(
            "attribute_not_exists(#pk) OR #ttl <= :now_secs OR (ichido_format <= :format AND (ichido_state = :released \
             OR (ichido_state = :claimed AND ichido_lease_until <= :now)))",
        )
        .expression_attribute_names("#pk", "id")
        .expression_attribute_names("#ttl", "ttl")
        .set_expression_attribute_values(Some(values))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await?;
    Ok(())
}

async fn local_memory() -> Result<(), Any> {
    let mut db = Dynamo::empty();
    db.simple_table("bench", "id", None, "ttl");
    db.faults().down();
    let namespace = Namespace::new("slack-events").fail_open();
    let key = |n: usize| namespace.key([format!("Ev{n:08}")]);
    let before = resident_bytes();
    let mut memories = Vec::new();
    for _ in 0..MEMORIES {
        let store = DynamoDb::new(db.client_without_retries(), Table::new("bench", "id"));
        let outage =
            Outage { journal_keys: MEMORY_KEYS, probe_interval: Duration::from_secs(3600), ..Outage::default() };
        let once = Once::builder(store).outage(outage).build();
        for n in 0..MEMORY_KEYS {
            once.mark(&key(n)?).await?;
        }
        memories.push(once);
    }
    let bytes = (resident_bytes() - before) / (MEMORIES * MEMORY_KEYS) as f64;
    let once = &memories[0];
    let (started, lookups) = (Instant::now(), 200_000u32);
    for n in 0..lookups {
        once.mark(&key(n as usize * 7919 % MEMORY_KEYS)?).await?;
    }
    let lookup = micros(started.elapsed(), lookups);
    println!(
        "local memory with {MEMORY_KEYS} keys: {bytes:.0} bytes per key, {lookup:.2} µs per lookup (a whole `mark` during an outage)"
    );
    Ok(())
}

// Against Powertools, over HTTP.

/// The measurements of one contestant.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Measured {
    fresh_per_second: f64,
    fresh_cpu_us: f64,
    duplicate_per_second: f64,
    duplicate_cpu_us: f64,
}

impl Measured {
    /// The median of each number, so that a round in which the machine was busy with something else does not count.
    fn median(rounds: &[Measured]) -> Measured {
        let of = |number: fn(&Measured) -> f64| {
            let mut numbers: Vec<f64> = rounds.iter().map(number).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Measured {
            fresh_per_second: of(|m| m.fresh_per_second),
            fresh_cpu_us: of(|m| m.fresh_cpu_us),
            duplicate_per_second: of(|m| m.duplicate_per_second),
            duplicate_cpu_us: of(|m| m.duplicate_cpu_us),
        }
    }
}

struct Endpoint {
    child: Child,
    url: String,
}

impl Endpoint {
    fn start() -> Result<Self, Any> {
        let mut child = Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut url)?;
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn serve() -> Result<(), Any> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}", listener.local_addr()?);
    dynoxide::server::serve_on(listener, dynoxide::Database::memory()?).await;
    Ok(())
}

fn client(url: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("ap-northeast-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(url)
        // As our functions have it (crates/function).
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(config.build())
}

async fn create_table(client: &Client, name: &str) -> Result<(), Any> {
    let id = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S).build()?;
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build()?;
    let create = client.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    create.attribute_definitions(id).key_schema(key).send().await?;
    Ok(())
}

async fn measure_ours(client: &Client, table: &str) -> Result<Measured, Any> {
    create_table(client, table).await?;
    let once = Once::new(DynamoDb::new(client.clone(), Table::new(table, "id")));
    let namespace = Namespace::new("bench");
    let mut per_second = [0.0; 2];
    let mut cpu_us = [0.0; 2];
    let one = async |n: u32| -> Result<(), Any> {
        let key = namespace.key([n.to_string()])?;
        let done = once
            .run(&key)
            .on_doubt(OnDoubt::Repeat)
            .work(|_| async { Ok::<_, Failure<String>>(serde_json::json!({"ok": true})) })
            .await?;
        drop(done.value);
        Ok(())
    };
    for warm_up in 0..200 {
        one(CALLS + warm_up).await?;
    }
    for round in 0..2 {
        let (started, before) = (Instant::now(), cpu());
        for n in 0..CALLS {
            one(n).await?;
        }
        per_second[round] = f64::from(CALLS) / started.elapsed().as_secs_f64();
        cpu_us[round] = micros(cpu() - before, CALLS);
    }
    let [fresh_per_second, duplicate_per_second] = per_second;
    let [fresh_cpu_us, duplicate_cpu_us] = cpu_us;
    Ok(Measured { fresh_per_second, fresh_cpu_us, duplicate_per_second, duplicate_cpu_us })
}

/// Runs another contestant. It prints its measurements as one line of JSON.
async fn measure_other(client: &Client, url: &str, table: &str, command: &str) -> Result<Measured, Any> {
    create_table(client, table).await?;
    let output = Command::new("bash")
        .args(["-c", command])
        .envs([("AWS_ENDPOINT_URL", url), ("TABLE", table), ("AWS_REGION", "ap-northeast-1")])
        .envs([
            ("AWS_DEFAULT_REGION", "ap-northeast-1"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
        ])
        .envs([("CALLS", CALLS.to_string()), ("AWS_LAMBDA_FUNCTION_NAME", "bench".to_owned())])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().ok_or("the contestant printed nothing")?;
    Ok(serde_json::from_str(line)?)
}

async fn run_against_powertools() -> Result<(), Any> {
    let endpoint = Endpoint::start()?;
    let client = client(&endpoint.url);
    println!(
        "run, one call after the other, {CALLS} of each, on one endpoint (HTTP, loopback); medians of {ROUNDS} rounds in turns"
    );
    let mut others = Vec::new();
    for (name, variable) in [("Powertools TypeScript", "POWERTOOLS_NODE"), ("Powertools Python", "POWERTOOLS_PYTHON")] {
        match std::env::var(variable) {
            Ok(command) => others.push((name, variable, command, Vec::new())),
            Err(_) => println!("  {name:<24} not installed: bench/ichido/run installs it"),
        }
    }
    let mut ours = Vec::new();
    for round in 0..ROUNDS {
        ours.push(measure_ours(&client, &format!("ichido-{round}")).await?);
        for (_, variable, command, measured) in &mut others {
            measured.push(measure_other(&client, &endpoint.url, &format!("{variable}-{round}"), command).await?);
        }
    }
    println!("                            fresh/s CPU per call  duplicate/s CPU per call");
    let row = |name: &str, m: &Measured| {
        println!(
            "  {name:<24} {:8.0} {:8.0} µs {:13.0} {:8.0} µs",
            m.fresh_per_second, m.fresh_cpu_us, m.duplicate_per_second, m.duplicate_cpu_us
        );
    };
    let ours = Measured::median(&ours);
    row("ichido", &ours);
    for (name, _, _, measured) in &others {
        let theirs = Measured::median(measured);
        row(name, &theirs);
        println!(
            "    ichido: {:.1} times the fresh calls at 1/{:.1} of the CPU, {:.1} times the duplicates at 1/{:.1} (goal: 3 times at 1/8)",
            ours.fresh_per_second / theirs.fresh_per_second,
            theirs.fresh_cpu_us / ours.fresh_cpu_us,
            ours.duplicate_per_second / theirs.duplicate_per_second,
            theirs.duplicate_cpu_us / ours.duplicate_cpu_us,
        );
    }
    Ok(())
}
