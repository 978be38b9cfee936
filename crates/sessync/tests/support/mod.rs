//! What the tests share: logs that look like real ones, a clock that does not wait, and ways to kill a run.

#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of it")]

pub mod server;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emulator::bigquery::{Column, StandIn};
use fastrand::Rng;
use serde_json::{Value, json};
use sessync::clock::{Clock, Time};
use sessync::journal::disk::{Disk, Fill};
use sessync::journal::{self, Journal};
use sessync::outside::bigquery::{BigQuery, Table};
use sessync::outside::shared::Shared;
use sessync::outside::transport::{Error, Request, Response, Transport};
use sessync::redact::Redactor;
use sessync::source::files::{self, Scope};
use sessync::source::line;
use sessync::upload::batch::Origin;
use sessync::upload::{self, Options, Patience, Summary, Upload};
use testkit::Outside;
use testkit::outside::{Killed, Side, Stop, Way};

pub const DATASET: &str = "logs";
pub const TABLE: &str = "sessions";
pub const DESTINATION: &str = "acme.logs.sessions";

pub fn table() -> Table {
    Table { project: "acme".into(), dataset: DATASET.into(), table: TABLE.into(), location: "US".into() }
}

/// What makes two lines the same: uuid, time, type, message, result.
pub type Identity = (String, String, String, Option<String>, Option<String>);

/// A line as Claude Code writes it.
pub fn line(uuid: &str, session: &str, text: &str, at: i64) -> String {
    let kind = if at % 2 == 0 { "user" } else { "assistant" };
    let mut line = json!({
        "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/src/app", "sessionId": session,
        "version": "2.0.1", "gitBranch": "main", "type": kind, "uuid": uuid, "timestamp": Time(1_790_000_000_000 + at * 1000).to_string(),
        "message": {"role": kind, "content": [{"type": "text", "text": text}]},
    });
    if at % 3 == 0 {
        line["toolUseResult"] = json!({"stdout": text, "code": at});
    }
    line.to_string()
}

/// Writes lines. Some repeat others, some share only a uuid with others, and some cannot be rows.
pub struct Writer {
    pub rng: Rng,
    written: Vec<(String, String, i64)>,
    next: u64,
}

impl Writer {
    pub fn new(seed: u64) -> Writer {
        Writer { rng: Rng::with_seed(seed), written: Vec::new(), next: 0 }
    }

    /// The next line, without its newline.
    pub fn line(&mut self, session: &str) -> Vec<u8> {
        let choice = self.rng.u8(0..100);
        if choice < 15 && !self.written.is_empty() {
            // A resumed session repeats a line under its own session id.
            let (uuid, text, at) = self.written[self.rng.usize(0..self.written.len())].clone();
            return line(&uuid, session, &text, at).into_bytes();
        }
        if choice < 20 {
            let junk: [&[u8]; 5] =
                [b"not json", b"\xff\xfe", b"{\"type\":\"summary\",\"leafUuid\":\"x\"}", b"", b"{\"uuid\":\"u\"}"];
            return junk[self.rng.usize(0..junk.len())].to_vec();
        }
        let uuid = if choice < 25 && !self.written.is_empty() {
            self.written[self.rng.usize(0..self.written.len())].0.clone()
        } else {
            uuid::Builder::from_random_bytes(self.rng.u128(..).to_be_bytes()).into_uuid().to_string()
        };
        self.next += 1;
        let text = format!("step {} {}", self.next, "lorem ipsum ".repeat(self.rng.usize(0..6)));
        let at = self.next as i64;
        self.written.push((uuid.clone(), text.clone(), at));
        line(&uuid, session, &text, at).into_bytes()
    }

    /// Writes some files with this many lines in all.
    pub fn files(&mut self, directory: &Path, lines: usize) {
        fs::create_dir_all(directory.join("sub")).unwrap();
        let mut left = lines;
        let mut number = 0;
        while left > 0 {
            let count = self.rng.usize(1..=left.min(25));
            left -= count;
            number += 1;
            let name = if number % 3 == 0 { format!("sub/agent-{number}") } else { format!("session-{number}") };
            let mut bytes = Vec::new();
            for _ in 0..count {
                bytes.extend(self.line(&name));
                bytes.push(b'\n');
            }
            fs::write(directory.join(format!("{name}.jsonl")), bytes).unwrap();
        }
    }
}

/// The rows that the complete lines of the files below a directory should become.
pub fn expected(root: &Path) -> BTreeMap<Identity, u64> {
    let mut all = BTreeMap::new();
    for log in files::find(root, &Scope::All).logs {
        let bytes = fs::read(&log.path).unwrap();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for text in bytes[..whole].split(|byte| *byte == b'\n') {
            if let Ok(line) = line::parse(text) {
                all.insert(identity_of(&line), 1);
            }
        }
    }
    all
}

fn identity_of(line: &line::Line<'_>) -> Identity {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    (
        line.uuid.to_string(),
        line.timestamp.to_string(),
        line.kind.to_string(),
        owned(line.message),
        owned(line.tool_use_result),
    )
}

/// The rows that the stand-in has, and how often.
pub fn uploaded(standin: &StandIn) -> BTreeMap<Identity, u64> {
    let mut all = BTreeMap::new();
    for row in standin.rows(DATASET, TABLE) {
        let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
        let identity = (
            text("uuid").unwrap(),
            text("timestamp").unwrap(),
            text("type").unwrap(),
            text("message"),
            text("tool_use_result"),
        );
        *all.entry(identity).or_insert(0) += 1;
    }
    all
}

/// Fails with the differences, instead of printing everything.
pub fn assert_same(actual: &BTreeMap<Identity, u64>, expected: &BTreeMap<Identity, u64>, what: &str) {
    let lost: Vec<_> = expected.keys().filter(|key| !actual.contains_key(*key)).map(|key| &key.0).collect();
    let doubled: Vec<_> = actual.iter().filter(|(_, count)| **count > 1).map(|(key, count)| (&key.0, count)).collect();
    let extra: Vec<_> = actual.keys().filter(|key| !expected.contains_key(*key)).map(|key| &key.0).collect();
    assert!(
        lost.is_empty() && doubled.is_empty() && extra.is_empty(),
        "{what}: lost {lost:?}, doubled {doubled:?}, never written {extra:?}"
    );
}

/// A clock that is ahead of the machine's by the time that was slept and by the jumps.
#[derive(Debug, Clone, Default)]
pub struct TestClock {
    slept: Arc<Mutex<Duration>>,
    jumped_ms: Arc<Mutex<i64>>,
}

impl TestClock {
    pub fn jump(&self, ms: i64) {
        *self.jumped_ms.lock().unwrap() += ms;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Time(since.as_millis() as i64 + self.elapsed().as_millis() as i64 + *self.jumped_ms.lock().unwrap())
    }

    fn elapsed(&self) -> Duration {
        *self.slept.lock().unwrap()
    }

    async fn sleep(&self, time: Duration) {
        *self.slept.lock().unwrap() += time;
    }
}

/// A way to the outside on which a run is killed at this call, on a side that the seed decides.
pub fn dying(call: u64, seed: u64) -> Outside {
    let side = [Side::Before, Side::Within, Side::After][Rng::with_seed(seed).usize(0..3)];
    let outside = Outside::new();
    outside.begin(Some(Stop { call: call as usize, side, way: Way::Killed }));
    outside
}

/// Files in memory that outlive the run. Every write goes through the outside. A write that is cut short leaves its beginning.
#[derive(Debug, Clone)]
pub struct MemoryDisk {
    pub files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    pub outside: Outside,
}

impl MemoryDisk {
    pub fn new() -> MemoryDisk {
        MemoryDisk { files: Arc::default(), outside: Outside::new() }
    }

    pub fn with_outside(&self, outside: &Outside) -> MemoryDisk {
        MemoryDisk { files: self.files.clone(), outside: outside.clone() }
    }

    fn effect(
        &self,
        what: &str,
        cut_short: impl FnOnce(&mut BTreeMap<String, Vec<u8>>),
        whole: impl FnOnce(&mut BTreeMap<String, Vec<u8>>),
    ) -> io::Result<()> {
        let half = || cut_short(&mut self.files.lock().unwrap());
        Ok(self.outside.write(what, half, || whole(&mut self.files.lock().unwrap()))?)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>> {
        let files = self.files.lock().unwrap();
        Ok(files.get(name).cloned().map(|bytes| Box::new(io::Cursor::new(bytes)) as Box<dyn Read>))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let cut = bytes.len() / 2;
        self.effect(
            &format!("append to {name}"),
            |files| files.entry(name.to_owned()).or_default().extend_from_slice(&bytes[..cut]),
            |files| files.entry(name.to_owned()).or_default().extend_from_slice(bytes),
        )
    }

    fn replace(&mut self, name: &str, fill: Fill<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        let half = bytes[..bytes.len() / 2].to_vec();
        self.effect(
            &format!("replace {name}"),
            |files| {
                files.insert(format!("{name}.tmp"), half);
            },
            |files| {
                files.insert(name.to_owned(), bytes);
            },
        )
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        let what = format!("truncate {name}");
        self.effect(&what, |_| {}, |files| files.get_mut(name).unwrap().truncate(length as usize))
    }

    fn copy(&mut self, name: &str, to: &str) -> io::Result<()> {
        let bytes = self.files.lock().unwrap().get(name).cloned().unwrap();
        self.replace(to, &mut |file: &mut dyn Write| file.write_all(&bytes))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.effect(
            &format!("remove {name}"),
            |_| {},
            |files| {
                files.remove(name);
            },
        )
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }
}

/// BigQuery's stand-in with the columns of `sessync schema`.
pub fn standin(seed: u64) -> StandIn {
    let column = |of: &sessync::schema::Column| Column { name: of.name, kind: of.kind, required: of.required };
    StandIn::new(seed, sessync::schema::COLUMNS.iter().map(column))
}

/// Calls the stand-in without a network. Every call goes through the outside.
#[derive(Debug, Clone)]
pub struct Direct {
    pub standin: Arc<StandIn>,
    pub outside: Outside,
}

impl Transport for Direct {
    async fn call(&self, request: Request, _: Duration) -> Result<Response, Error> {
        let body = request.body.unwrap_or_default();
        let name = format!("{} {}", request.method, request.path);
        let handle = async { self.standin.handle(&request.method.to_string(), &request.path, &body) };
        let reply = self.outside.request(&name, handle).await.map_err(|cut| Error::Lost(cut.to_string()))?;
        if reply.lost {
            return Err(Error::Lost("the connection broke".into()));
        }
        let retry_after = reply.headers.iter().find(|(name, _)| *name == "retry-after").map(|(_, value)| value.clone());
        Ok(Response { status: reply.status, retry_after, body: reply.body.into_bytes() })
    }
}

/// A project in a temporary directory, run in this process.
pub struct World {
    pub root: Arc<tempfile::TempDir>,
    pub standin: Arc<StandIn>,
    pub disk: MemoryDisk,
    pub clock: TestClock,
    pub batch_rows: usize,
    pub deduplication: bool,
}

impl World {
    pub fn new(seed: u64) -> World {
        // A file system in memory is quicker than a disk.
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        World {
            root: Arc::new(root.unwrap()),
            standin: Arc::new(standin(seed)),
            disk: MemoryDisk::new(),
            clock: TestClock::default(),
            batch_rows: 7,
            deduplication: true,
        }
    }

    /// The same project before anything was uploaded.
    pub fn afresh(&self, seed: u64) -> World {
        World {
            root: self.root.clone(),
            standin: Arc::new(standin(seed)),
            disk: MemoryDisk::new(),
            clock: TestClock::default(),
            batch_rows: self.batch_rows,
            deduplication: self.deduplication,
        }
    }

    pub fn logs(&self) -> PathBuf {
        self.root.path().join("-src-app")
    }

    pub fn options(&self) -> Options {
        Options {
            batch_rows: self.batch_rows,
            deduplication: self.deduplication,
            origin: Origin {
                developer_id: "dev".into(),
                hostname: "box".into(),
                user_email: "dev@example.com".into(),
                project_name: "app".into(),
            },
            scope: Scope::Project(PathBuf::from("/src/app")),
            settle: Duration::from_secs(10),
            patience: Patience { until: self.clock.elapsed() + Duration::from_secs(3600) },
            dry_run: false,
        }
    }

    /// One run, which the fuse may end.
    pub async fn run(&self, outside: &Outside, seed: u64) -> (Summary, Result<(), upload::Error>) {
        self.run_shared(outside, seed, None, &self.disk).await
    }

    /// One run, until it ends or is killed.
    pub async fn run_shared(
        &self,
        outside: &Outside,
        seed: u64,
        shared: Option<&Shared>,
        disk: &MemoryDisk,
    ) -> (Summary, Result<(), upload::Error>) {
        let killed = || (Summary::default(), Err(journal::Error::Disk(Killed.into()).into()));
        outside.until_death(self.run_through(outside, seed, shared, disk)).await.unwrap_or_else(killed)
    }

    async fn run_through(
        &self,
        outside: &Outside,
        seed: u64,
        shared: Option<&Shared>,
        disk: &MemoryDisk,
    ) -> (Summary, Result<(), upload::Error>) {
        let mut journal = match Journal::open(disk.with_outside(outside), DESTINATION) {
            Ok(journal) => journal,
            Err((error, _)) => return (Summary::default(), Err(error.into())),
        };
        let bigquery = BigQuery::new(Direct { standin: self.standin.clone(), outside: outside.clone() }, table());
        let (options, redactor) = (self.options(), Redactor::none());
        let found = files::find(self.root.path(), &options.scope);
        let upload = Upload {
            bigquery: &bigquery,
            clock: &self.clock,
            journal: &mut journal,
            shared,
            redactor: &redactor,
            options: &options,
            rng: Rng::with_seed(seed),
            progress: &mut (),
        };
        upload.run(&found).await
    }

    /// One run that must succeed.
    pub async fn run_whole(&self, seed: u64) -> Summary {
        let (summary, result) = self.run(&Outside::new(), seed).await;
        result.unwrap();
        summary
    }

    pub fn assert_each_line_once(&self, what: &str) {
        assert_same(&uploaded(&self.standin), &expected(self.root.path()), what);
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
