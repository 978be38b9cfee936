//! The workers of one handler: processes that handle one event at a time, and die.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;

use crate::column::Column;
use crate::handlers::{ADDRESS, Delivery, HANDLER, Line};
use crate::network::{Desk, Network};
use crate::storm::TIME_LIMIT;
use crate::trace::What;
use crate::{Error, Handler};

/// How many workers a handler has.
pub(crate) const WORKERS: usize = 8;
/// How long a worker may take until it is ready, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// How the workers of a handler are started.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// This program calls [`crate::worker`].
    Rust(PathBuf),
    /// Node, in the directory with the packages.
    Node(PathBuf),
}

/// One worker that has nothing to do.
#[derive(Debug)]
pub(crate) struct Worker {
    desk: Arc<Desk>,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// All workers of one handler.
#[derive(Debug)]
pub(crate) struct Workers {
    pub(crate) column: Arc<Column>,
    network: Network,
    program: Program,
    address: String,
    /// One permit per idle worker. Copies of one event take theirs together, so that they begin at once and never wait for each other.
    permits: Semaphore,
    idle: Mutex<VecDeque<Worker>>,
    waiting: AtomicUsize,
    started: AtomicU32,
    /// Why a worker could not be started.
    failed: Mutex<Option<String>>,
}

impl Workers {
    /// Starts all workers.
    pub(crate) async fn start(
        column: Arc<Column>,
        network: Network,
        program: Program,
        address: &str,
    ) -> Result<Arc<Self>, Error> {
        let workers = Arc::new(Self {
            column,
            network,
            program,
            address: address.to_owned(),
            permits: Semaphore::new(0),
            idle: Mutex::default(),
            waiting: AtomicUsize::new(0),
            started: AtomicU32::new(0),
            failed: Mutex::default(),
        });
        for started in futures::future::join_all((0..WORKERS).map(|_| workers.spawn())).await {
            workers.put(started.map_err(|why| workers.broken(why))?);
        }
        Ok(workers)
    }

    fn broken(&self, why: String) -> Error {
        Error::Worker { handler: self.column.handler, why }
    }

    fn put(&self, worker: Worker) {
        telemetry::lock(&self.idle).push_back(worker);
        self.permits.add_permits(1);
    }

    /// How many deliveries wait for a worker.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes this many workers, as soon as there are so many.
    pub(crate) async fn take(&self, number: u32) -> Result<Vec<Worker>, Error> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let permits = self.permits.acquire_many(number).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        match permits {
            Ok(permits) => permits.forget(),
            Err(_) => {
                let why = telemetry::lock(&self.failed).clone();
                return Err(self.broken(why.unwrap_or_else(|| "the duel was stopped".to_owned())));
            }
        }
        Ok(telemetry::lock(&self.idle).drain(..number as usize).collect())
    }

    /// Gives an event to a worker and waits until the worker has answered or died.
    pub(crate) async fn deliver(self: &Arc<Self>, mut worker: Worker, event: u32, delivery: u32) {
        worker.desk.begin(event, delivery);
        let line = Delivery { event: format!("event-{event}"), limit_ms: TIME_LIMIT.as_millis() as u64 };
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        line.push('\n');
        let _ = worker.stdin.write_all(line.as_bytes()).await;
        let answer = worker.lines.next_line().await.ok().flatten();
        let answer = answer.and_then(|line| serde_json::from_str::<Line>(&line).ok());
        match answer {
            Some(Line { ok: true, .. }) => worker.desk.note(What::Acknowledged),
            Some(Line { why, .. }) => worker.desk.note(What::Failed(why)),
            None => {
                worker.desk.note(What::Died);
                worker.desk.kill();
                self.network.leave(&worker.desk);
                self.replace();
                return;
            }
        }
        self.put(worker);
    }

    /// Starts another worker, while others go on.
    fn replace(self: &Arc<Self>) {
        let workers = Arc::clone(self);
        tokio::spawn(async move {
            match workers.spawn().await {
                Ok(worker) => workers.put(worker),
                Err(why) => {
                    *telemetry::lock(&workers.failed) = Some(why);
                    workers.permits.close();
                }
            }
        });
    }

    async fn spawn(&self) -> Result<Worker, String> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = match &self.program {
            Program::Rust(program) => Command::new(program),
            Program::Node(directory) => {
                let mut command = Command::new("node");
                command.arg("worker.mjs").current_dir(directory);
                command
            }
        };
        let handler = self.column.handler;
        // Nothing of this machine's settings: the SDKs have their defaults, and nobody but the duel can be reached.
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env(HANDLER, handler.to_string())
            .env(ADDRESS, format!("{}/w/{handler}/{number}", self.address))
            .envs([
                ("AWS_REGION", "ap-northeast-1"),
                ("AWS_ACCESS_KEY_ID", "duel"),
                ("AWS_SECRET_ACCESS_KEY", "duel"),
                ("AWS_CONFIG_FILE", "/dev/null"),
                ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
                ("AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED", "true"),
                ("POWERTOOLS_SERVICE_NAME", "duel"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Ctrl-C is for the duel, which then ends its workers.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("it has no standard streams".to_owned());
        };
        let errors = tokio::spawn(first_words(stderr));
        let desk = Arc::new(Desk::new(number, &self.column, child));
        let mut lines = BufReader::new(stdout).lines();
        let ready = tokio::time::timeout(START, lines.next_line()).await;
        let ready =
            matches!(&ready, Ok(Ok(Some(line))) if serde_json::from_str::<Line>(line).is_ok_and(|line| line.ready));
        if !ready {
            desk.kill();
            return Err(match errors.await {
                Ok(words) if !words.trim().is_empty() => in_one_line(&words),
                _ => "it did not say that it is ready".to_owned(),
            });
        }
        desk.ready();
        self.network.seat(Arc::clone(&desk));
        Ok(Worker { desk, stdin, lines })
    }
}

/// The line that says what is wrong, of what a program wrote before it ended.
fn in_one_line(words: &str) -> String {
    let mut lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or_default().to_owned();
    lines.find(|line| line.contains("Error")).map_or(first, str::to_owned)
}

/// The beginning of what a worker writes to stderr. The rest is read and forgotten, so that the worker can go on writing.
async fn first_words(mut stderr: ChildStderr) -> String {
    let mut words = Vec::new();
    let _ = (&mut stderr).take(2000).read_to_end(&mut words).await;
    let words = String::from_utf8_lossy(&words).into_owned();
    let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    words
}

/// The version of Powertools in a directory, if it is installed there.
pub(crate) fn powertools(directory: &std::path::Path) -> Option<String> {
    let file = directory.join("node_modules/@aws-lambda-powertools/idempotency/package.json");
    let package: serde_json::Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    Some(package["version"].as_str()?.to_owned())
}

/// Is there a node?
pub(crate) fn has_node() -> bool {
    let asked =
        std::process::Command::new("node").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

impl Handler {
    /// The version that the scoreboard shows.
    pub(crate) fn version(self, powertools: Option<&str>) -> String {
        match self {
            Handler::Naive => format!("aws-sdk-dynamodb {}", aws_sdk_dynamodb::meta::PKG_VERSION),
            Handler::Powertools => powertools.unwrap_or_default().to_owned(),
            Handler::Ichido => env!("CARGO_PKG_VERSION").to_owned(), // the workspace has one version
        }
    }
}
