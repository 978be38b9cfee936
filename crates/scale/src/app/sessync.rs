//! Session logs: machines that share one state upload at the same moment, as hooks do when a working day ends.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::bigquery::{Column, Faults, StandIn};
use ichido::Once;
use ichido::dynamodb::{DynamoDb, Table as StateTable};
use serde_json::{Value, json};
use sessync::journal::Journal;
use sessync::journal::disk::{Disk, Fill};
use sessync::outside::bigquery::{BigQuery, Table};
use sessync::outside::shared::{PARTITION_KEY, Shared, TTL};
use sessync::outside::transport::{self, Request, Response, Transport};
use sessync::redact::Redactor;
use sessync::source::files::{self, Scope};
use sessync::upload::batch::Origin;
use sessync::upload::{Options, Patience, Upload};

use super::{App, Backoff, Left, Outcome, Plan, Users, all};
use crate::clock::Simulated;
use crate::world::assumed;
use crate::{Error, World};

pub const UNIT: &str = "machines that upload in the same second";
pub(super) const TEMPLATE: &str = include_str!("../../../../infra/templates/sessync.yaml");
const DATASET: &str = "logs";
const TABLE: &str = "sessions";
const DESTINATION: &str = "acme.logs.sessions";
/// The lines of one session, which is one batch.
const LINES: usize = 5;
/// How long a hook uploads (`--auto`).
const HOOK: Duration = Duration::from_secs(25);
/// sessync believes BigQuery's "not there" only after so long.
const SETTLE: Duration = Duration::from_secs(10);
/// The next session of a person ends about so much later, and its hook uploads what is left.
const NEXT_SESSION: Duration = Duration::from_secs(600);
/// A machine is given up after so many sessions: then its lines count as lost.
const SESSIONS: u32 = 60;

/// All machines upload at the same moment.
pub(crate) async fn surge(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let column = |of: &sessync::schema::Column| Column { name: of.name, kind: of.kind, required: of.required };
    let standin = Arc::new(StandIn::new(plan.seed, sessync::schema::COLUMNS.iter().map(column)));
    // BigQuery promises nothing about `insertId`. So nothing but the shared state keeps two machines from sending one line.
    standin.set_faults(Faults { forgetful: true, ..Faults::default() });
    let machines: Vec<Arc<Machine>> = (0..plan.load as usize)
        .map(|number| Machine::new(number, world, &standin).map(Arc::new))
        .collect::<Result<_, _>>()
        .map_err(App::Sessync.failed("the logs of a machine cannot be written"))?;
    let users = Users::default();
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let arrivals = machines.iter().map(|_| Duration::from_secs_f64(random.f64())).collect();
    all(world.clock(), arrivals, |number| {
        let (machine, users) = (machines[number].clone(), users.clone());
        let seed = plan.seed.wrapping_add(number as u64);
        async move { machine.live(&users, seed).await }
    })
    .await;
    let mut there: BTreeMap<String, u64> = BTreeMap::new();
    for row in standin.rows(DATASET, TABLE) {
        let uuid = row.get("uuid").and_then(Value::as_str).unwrap_or_default();
        *there.entry(uuid.to_owned()).or_default() += 1;
    }
    let wanted: Vec<String> = machines.iter().flat_map(|machine| machine.uuids()).collect();
    Ok(Outcome::compare(wanted.iter().map(String::as_str), &there, &Left::default(), &users))
}

/// One developer's machine.
struct Machine {
    number: usize,
    logs: tempfile::TempDir,
    disk: MemoryDisk,
    world: World,
    standin: Arc<StandIn>,
    table: String,
}

impl Machine {
    fn new(
        number: usize,
        world: &World,
        standin: &Arc<StandIn>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let machine = Machine {
            number,
            logs: tempfile::tempdir()?,
            disk: MemoryDisk::default(),
            world: world.clone(),
            standin: standin.clone(),
            table: world.table("SessyncStateTable")?,
        };
        let directory = machine.logs.path().join("-src-app");
        std::fs::create_dir_all(&directory)?;
        let lines: Vec<String> = machine.uuids().enumerate().map(|(at, uuid)| machine.line(&uuid, at)).collect();
        std::fs::write(directory.join("session.jsonl"), lines.concat())?;
        Ok(machine)
    }

    fn uuids(&self) -> impl Iterator<Item = String> + use<> {
        let number = self.number;
        (0..LINES).map(move |line| format!("00000000-0000-4000-8000-{number:08x}{line:04x}"))
    }

    /// A line as Claude Code writes it.
    fn line(&self, uuid: &str, at: usize) -> String {
        let line = json!({
            "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/src/app",
            "sessionId": format!("session-{}", self.number), "version": "2.0.1", "gitBranch": "main", "type": "user",
            "uuid": uuid, "timestamp": format!("2025-12-31T23:59:{at:02}.000Z"),
            "message": {"role": "user", "content": [{"type": "text", "text": format!("step {at}")}]},
        });
        format!("{line}\n")
    }

    /// The hooks of this person's sessions, until everything is uploaded.
    async fn live(&self, users: &Users, seed: u64) {
        let clock = self.world.clock();
        let began = clock.elapsed();
        let mut backoff = Backoff::new(seed);
        for session in 0..SESSIONS {
            match self.upload(seed.wrapping_add(u64::from(session) << 32)).await {
                Ok(()) => {
                    users.waited(clock.elapsed().saturating_sub(began));
                    return users.saw("uploaded");
                }
                Err(error) => users.saw(error),
            }
            // People do not begin and end their sessions together.
            backoff.wait().await;
            tokio::time::sleep(NEXT_SESSION.mul_f64(0.5 + fastrand::f64())).await;
        }
        users.saw("gave up");
    }

    /// One run of `sessync --auto`.
    async fn upload(&self, seed: u64) -> Result<(), String> {
        let clock = self.world.clock();
        let mut journal =
            Journal::open(self.disk.clone(), DESTINATION).map_err(|(error, _)| format!("journal: {error}"))?;
        let table =
            Table { project: "acme".into(), dataset: DATASET.into(), table: TABLE.into(), location: "US".into() };
        let bigquery = BigQuery::new(Direct { standin: self.standin.clone(), clock }, table);
        let state = StateTable::new(&self.table, PARTITION_KEY).ttl(TTL);
        let once = Once::builder(DynamoDb::new(self.world.aws().dynamodb(), state)).clock(clock).build();
        let shared = Shared::on(once, DESTINATION);
        let options = Options {
            batch_rows: 500,
            deduplication: true,
            origin: Origin {
                developer_id: format!("developer-{}", self.number),
                hostname: "box".into(),
                user_email: "developer@example.com".into(),
                project_name: "app".into(),
            },
            scope: Scope::Project("/src/app".into()),
            settle: SETTLE,
            patience: Patience { until: clock.elapsed() + HOOK },
            dry_run: false,
        };
        let found = files::find(self.logs.path(), &options.scope);
        let redactor = Redactor::none();
        let upload = Upload {
            bigquery: &bigquery,
            clock: &clock,
            journal: &mut journal,
            shared: Some(&shared),
            redactor: &redactor,
            options: &options,
            rng: fastrand::Rng::with_seed(seed),
            progress: &mut (),
        };
        let (_, ended) = upload.run(&found).await;
        ended.map_err(|error| summary(&error))
    }
}

/// The first words of an error: what a person would be told.
fn summary(error: &sessync::upload::Error) -> String {
    let text = error.to_string();
    text.split([';', ':']).next().unwrap_or_default().to_owned()
}

/// BigQuery's stand-in, without a network.
#[derive(Debug, Clone)]
struct Direct {
    standin: Arc<StandIn>,
    clock: Simulated,
}

impl Transport for Direct {
    async fn call(&self, request: Request, _: Duration) -> Result<Response, transport::Error> {
        sessync::clock::Clock::sleep(&self.clock, assumed::BIGQUERY).await;
        let body = request.body.unwrap_or_default();
        let reply = self.standin.handle(&request.method.to_string(), &request.path, &body);
        if reply.lost {
            return Err(transport::Error::Lost("the connection broke".to_owned()));
        }
        let retry_after = reply.headers.iter().find(|(name, _)| *name == "retry-after").map(|(_, value)| value.clone());
        Ok(Response { status: reply.status, retry_after, body: reply.body.into_bytes() })
    }
}

/// The state directory of a machine, in memory. Clones are the same.
#[derive(Debug, Clone, Default)]
struct MemoryDisk(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Disk for MemoryDisk {
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Read>>> {
        let file = telemetry::lock(&self.0).get(name).cloned();
        Ok(file.map(|bytes| Box::new(io::Cursor::new(bytes)) as Box<dyn Read>))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        telemetry::lock(&self.0).entry(name.to_owned()).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn replace(&mut self, name: &str, fill: Fill<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        telemetry::lock(&self.0).insert(name.to_owned(), bytes);
        Ok(())
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        if let Some(file) = telemetry::lock(&self.0).get_mut(name) {
            file.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    fn copy(&mut self, name: &str, to: &str) -> io::Result<()> {
        let bytes = telemetry::lock(&self.0).get(name).cloned().unwrap_or_default();
        self.replace(to, &mut |file: &mut dyn Write| file.write_all(&bytes))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        telemetry::lock(&self.0).remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(telemetry::lock(&self.0).keys().cloned().collect())
    }
}
