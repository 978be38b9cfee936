//! The server: the deployed files on an embedded DynamoDB, in a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use appsync::{Api, LambdaError};
use ichido::SystemClock;
use mesh::settings::Settings;
use testkit::Dynamo;
use uuid::Uuid;

use super::Result;

pub(crate) const KEY: &str = "bench-key";
/// Nobody sends heartbeats here: the class outlives the benchmark.
const HEARTBEAT: Duration = Duration::from_secs(3600);

/// The API on a store of its own.
pub(crate) async fn api() -> Result<(Api, Dynamo)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let db = Dynamo::start(&["infra/templates/mesh.yaml"]).await;
    let settings = Settings {
        table: db.table("MeshTable").to_owned(),
        longest: HEARTBEAT,
        host_heartbeat: HEARTBEAT,
        polling_interval: Duration::from_secs(2),
        retention: Duration::from_secs(120),
        groups_per_caller: 50,
    };
    let handler =
        mesh::function::resolver::handler(settings, db.client(), Arc::new(SystemClock), Arc::new(Uuid::new_v4));
    let seconds = HEARTBEAT.as_secs().to_string();
    let api = Api::builder()
        .template(std::fs::read_to_string(root.join("infra/templates/mesh.yaml"))?, &[])
        .code_dir(root.join("infra/appsync"))
        .dynamodb(db.client())
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
        .build()?;
    Ok((api, db))
}

/// Serves until the parent goes away; prints the address.
pub(crate) async fn serve() -> Result<()> {
    let (api, _db) = api().await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    axum::serve(listener, api.router()).await?;
    Ok(())
}

/// The serving process, ended when it is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    pub(crate) address: SocketAddr,
}

impl Child {
    pub(crate) fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse()?, process })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
