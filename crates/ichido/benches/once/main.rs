//! What the library costs, compared in one run.
//!
//! - `mark`: against a bare `PutItem` with the same item and condition, on the same embedded engine.
//! - `memory`: the local memory, bytes per key and time per lookup.
//! - `share`: the library's own share of `run`. It is what `run` takes longer than the same requests made with the bare
//!   SDK ([`bare`]), against a connector that answers at once. No kernel, no network and no store blur it.
//! - `run`: fresh and duplicate, against the same requests with the bare SDK, and against AWS Lambda Powertools for
//!   TypeScript and Python on the same endpoint, if `bench/ichido/run` has installed them (it says so through
//!   `POWERTOOLS_NODE` and `POWERTOOLS_PYTHON`).
//!
//! Without arguments all of them run, in this order; with arguments, those that are named. CPU is what the operating system
//! charges the calling process. The endpoint is a separate process.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod bare;
mod share;

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
use testkit::usage::{cpu, resident};

/// As our functions have it (crates/function).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Any = Box<dyn Error + Send + Sync>;

/// Calls of each kind in the comparison with `PutItem`. They run in blocks that take turns, so that both run under the same load.
const BLOCKS: u32 = 20;
const CALLS_PER_BLOCK: u32 = 400;
/// Calls of each kind over HTTP. `run` and the bare SDK make them in blocks that take turns.
const CALLS: u32 = 1500;
const CALLS_PER_TURN: u32 = 100;
/// How many rounds all contestants take turns.
const ROUNDS: u32 = 5;
const MEMORY_KEYS: usize = 10_000;
/// How many memories are filled. Memory is measured in pages, so one would be too few.
const MEMORIES: usize = 10;

fn main() -> Result<(), Any> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let parts: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if parts.iter().any(|part| part == "serve") {
        return runtime.block_on(serve());
    }
    let wanted = move |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    // As a task, as our functions have it (crates/function): what `block_on` itself is given is woken through the kernel.
    let measured = async move {
        if wanted("mark") {
            mark_against_put_item().await?;
        }
        if wanted("memory") {
            local_memory().await?;
        }
        if wanted("share") {
            share::own_share_of_run().await?;
        }
        if wanted("run") {
            run_against_others().await?;
        }
        Ok(())
    };
    let measured = async { measured.await.map_err(|error: Any| error.to_string()) };
    Ok(runtime.block_on(async { tokio::spawn(measured).await })??)
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
    let before = resident();
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
    let bytes = resident().saturating_sub(before) as f64 / (MEMORIES * MEMORY_KEYS) as f64;
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

// Against the bare SDK and Powertools, over HTTP.

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

/// Time and CPU of one contestant, over all of its turns.
#[derive(Clone, Copy, Default)]
struct Used {
    elapsed: Duration,
    cpu: Duration,
}

/// `run` and the bare SDK, in turns: what disturbs one of them disturbs the other.
async fn measure_ours(client: &Client, table: &str) -> Result<[Measured; 2], Any> {
    let (ours_table, bare_table) = (table.to_owned(), format!("{table}-bare"));
    create_table(client, &ours_table).await?;
    create_table(client, &bare_table).await?;
    let once = Once::new(DynamoDb::new(client.clone(), Table::new(ours_table, "id")));
    let namespace = Namespace::new("bench");
    let ours = async |n: u32| -> Result<(), Any> {
        let key = namespace.key([n.to_string()])?;
        let done = once
            .run(&key)
            .on_doubt(OnDoubt::Repeat)
            .work(|_| async { Ok::<_, Failure<String>>(serde_json::json!({"ok": true})) })
            .await?;
        drop(done.value);
        Ok(())
    };
    let bare = async |n: u32| -> Result<(), Any> {
        drop(bare::run(client, &bare_table, &format!("bench#{n}"), &format!("{n:032x}")).await?);
        Ok(())
    };
    for warm_up in 0..200 {
        ours(CALLS + warm_up).await?;
        bare(CALLS + warm_up).await?;
    }
    // fresh, then duplicate; of each, ours and the bare SDK's
    let mut used = [[Used::default(); 2]; 2];
    for kind in &mut used {
        for turn in 0..CALLS / CALLS_PER_TURN {
            let calls = turn * CALLS_PER_TURN..(turn + 1) * CALLS_PER_TURN;
            for contestant in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                let (started, before) = (Instant::now(), cpu());
                for n in calls.clone() {
                    if contestant == 0 { ours(n).await? } else { bare(n).await? }
                }
                kind[contestant].elapsed += started.elapsed();
                kind[contestant].cpu += cpu() - before;
            }
        }
    }
    let per_second = |used: Used| f64::from(CALLS) / used.elapsed.as_secs_f64();
    Ok([0, 1].map(|contestant| Measured {
        fresh_per_second: per_second(used[0][contestant]),
        fresh_cpu_us: micros(used[0][contestant].cpu, CALLS),
        duplicate_per_second: per_second(used[1][contestant]),
        duplicate_cpu_us: micros(used[1][contestant].cpu, CALLS),
    }))
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

async fn run_against_others() -> Result<(), Any> {
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
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let [run, sdk] = measure_ours(&client, &format!("ichido-{round}")).await?;
        ours.push(run);
        bare.push(sdk);
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
    let (ours, bare) = (Measured::median(&ours), Measured::median(&bare));
    row("the same calls, bare SDK", &bare);
    row("ichido", &ours);
    println!(
        "    ichido: {:.2} of the bare SDK's rate with {:+.0} µs of CPU, {:.2} of its duplicates with {:+.0} µs (goal: 0.95)",
        ours.fresh_per_second / bare.fresh_per_second,
        ours.fresh_cpu_us - bare.fresh_cpu_us,
        ours.duplicate_per_second / bare.duplicate_per_second,
        ours.duplicate_cpu_us - bare.duplicate_cpu_us,
    );
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
