//! The servers and their DynamoDB, each in a process of its own.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use appsync::{Api, LambdaError};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, StalledStreamProtectionConfig};
use emulator::dynamodb::Engine;
use ichido::SystemClock;
use mesh::settings::Settings;
use serde_json::json;
use template::{Table, Template};
use uuid::Uuid;

use super::Result;

pub(crate) const KEY: &str = "bench-key";
/// Nobody sends heartbeats here: the class outlives the benchmark.
const HEARTBEAT: Duration = Duration::from_secs(3600);

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The table of the mesh, as its template has it.
fn table() -> Result<Table> {
    let text = std::fs::read_to_string(workspace().join("infra/templates/mesh.yaml"))?;
    let parameters = BTreeMap::from([("Environment".to_owned(), json!("local"))]);
    let template = Template::read(&text, &parameters)?;
    template.tables().into_iter().find(|table| table.logical_id == "MeshTable").ok_or_else(|| "no MeshTable".into())
}

/// The API on a DynamoDB.
pub(crate) fn api(client: Client, table: &str) -> Result<Api> {
    let root = workspace();
    let settings = Settings {
        table: table.to_owned(),
        longest: HEARTBEAT,
        host_heartbeat: HEARTBEAT,
        polling_interval: Duration::from_secs(2),
        retention: Duration::from_secs(120),
        groups_per_caller: 50,
    };
    let handler =
        mesh::function::resolver::handler(settings, client.clone(), Arc::new(SystemClock), Arc::new(Uuid::new_v4));
    let seconds = HEARTBEAT.as_secs().to_string();
    Ok(Api::builder()
        .template(std::fs::read_to_string(root.join("infra/templates/mesh.yaml"))?, &[])
        .code_dir(root.join("infra/appsync"))
        .dynamodb(client)
        .environment("HOST_HEARTBEAT_SECONDS", &seconds)
        .environment("MEMBER_HEARTBEAT_SECONDS", &seconds)
        .lambda("mesh-resolver", move |payload| {
            let handler = handler.clone();
            async move {
                let event = function::LambdaEvent::new(payload, function::Context::default());
                handler(event).await.map_err(|error| LambdaError::new(error.to_string()))
            }
        })
        .api_keys([KEY])
        .build()?)
}

fn client(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("local"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .endpoint_url(endpoint)
        // As on the local platform (see `crates/function`).
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

/// Serves the API until it is killed; prints the address.
pub(crate) async fn serve(endpoint: &str) -> Result<()> {
    let api = api(client(endpoint), &table()?.name)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    axum::serve(listener, api.router()).await?;
    Ok(())
}

/// Serves a DynamoDB with the table until it is killed; prints the address.
pub(crate) async fn store() -> Result<()> {
    let database = dynoxide::Database::memory().map_err(|error| error.to_string())?;
    Engine::new(database.clone()).ensure_table(&table()?)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    dynoxide::server::serve_with_shutdown(listener, database, std::future::pending()).await?;
    Ok(())
}

/// Where graphql-yoga is, if it is installed.
pub(crate) fn yoga() -> Option<PathBuf> {
    let directory = workspace().join("bench/appsync");
    directory.join("node_modules/graphql-yoga").exists().then_some(directory)
}

/// A process that serves, ended when it is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    pub(crate) address: SocketAddr,
}

impl Child {
    /// Starts a command that prints its address as its first line.
    fn start(command: &mut Command) -> Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse()?, process })
    }

    pub(crate) fn store() -> Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg("store"))
    }

    pub(crate) fn ours(store: &Self) -> Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).args(["serve", &format!("http://{}", store.address)]))
    }

    pub(crate) fn yoga(store: &Self) -> Result<Self> {
        let directory = yoga().ok_or("graphql-yoga is not installed")?;
        let mut command = Command::new("node");
        command.arg("class.js").current_dir(directory).env("NODE_NO_WARNINGS", "1").env("NODE_ENV", "production");
        command.env("DYNAMODB_ENDPOINT", format!("http://{}", store.address)).env("TABLE_NAME", table()?.name);
        Self::start(&mut command)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
