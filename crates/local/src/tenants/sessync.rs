//! sessync, which is a command and has no function: the stand-in for BigQuery, a page that shows the rows, and a demonstration that
//! kills an upload and lets the next one recover.
//!
//! The demonstration runs the program `sessync` that was built beside this one, because only a process can be killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::json;
use tokio::process::Command;

use crate::platform::Platform;
use crate::standins;
use crate::standins::StandIn;
use crate::tenants::{Ground, Panel, Tenant};

/// How many lines the demonstration uploads, and in batches of how many.
const LINES: usize = 200;
const BATCH: usize = 20;

pub(super) struct Sessync;

impl Tenant for Sessync {
    fn name(&self) -> &'static str {
        "sessync"
    }

    fn stand_ins(&self, _ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        vec![Arc::new(standins::bigquery::BigQuery::default())]
    }

    fn router(&self, platform: &Platform) -> Option<Router> {
        Some(Router::new().route("/_local/sessync/demo", post(demonstrate)).with_state(platform.clone()))
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel {
            title: "Session logs",
            path: "/apps/sessync",
            script: console::asset!("src/console/web/panels/sessync.js"),
        })
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        let host = ground.url.trim_start_matches("http://");
        Some(format!(
            "export BIGQUERY_EMULATOR_HOST={host}  # sessync then uploads to the stand-in; see crates/sessync/README.md"
        ))
    }
}

/// `POST /_local/sessync/demo`: uploads lines, kills the upload after its first batch, and uploads again.
async fn demonstrate(State(platform): State<Platform>) -> Response {
    match demonstration(&platform).await {
        Ok(told) => axum::Json(told).into_response(),
        Err(error) => {
            let message = format!("the demonstration could not run: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, axum::Json(json!({ "message": message }))).into_response()
        }
    }
}

async fn demonstration(platform: &Platform) -> std::io::Result<serde_json::Value> {
    let place = Place::make()?;
    let (_, mut events) = platform.live().follow(u64::MAX);
    let mut first = place.sessync(platform)?.spawn()?;
    let batch = async {
        while let Ok(event) = events.recv().await {
            if event.kind == "outbox" && event.what["sink"] == "bigquery" {
                break;
            }
        }
    };
    let killed = tokio::select! {
        () = batch => first.start_kill().is_ok(),
        _ = first.wait() => false,
    };
    let _ = first.wait().await;
    let ours = |platform: &Platform| {
        let batches = platform.outbox().list(Some("bigquery"), false);
        let rows = batches.iter().flat_map(|batch| batch.request["rows"].as_array().into_iter().flatten());
        rows.filter(|row| row["json"]["session_id"] == place.session.as_str()).count()
    };
    let arrived = ours(platform);
    let second = place.sessync(platform)?.output().await?;
    let said = String::from_utf8_lossy(if second.status.success() { &second.stdout } else { &second.stderr });
    Ok(json!({
        "lines": LINES, "killed": killed, "arrivedBeforeTheKill": arrived, "rows": ours(platform),
        "ok": second.status.success(), "said": said.trim(), "session": place.session,
    }))
}

/// A directory with a project, its session log and sessync's state. It is removed at the end.
struct Place {
    root: PathBuf,
    session: String,
}

impl Place {
    fn make() -> std::io::Result<Self> {
        let session = format!("demo-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let root = std::env::temp_dir().join(format!("ichido-{}-{session}", std::process::id()));
        let place = Self { root, session };
        let project = place.root.join("project");
        let named = project.to_string_lossy().replace(['/', '.'], "-");
        let logs = place.root.join("claude").join("projects").join(named);
        for directory in [&project.join(".claude/sessync"), &place.root.join("state"), &logs] {
            make_private(directory)?;
        }
        let config = json!({
            "project_id": "p", "dataset": "logs", "table": "sessions", "developer_id": "me", "user_email": "me@example.com",
            "upload_batch_size": BATCH,
        });
        std::fs::write(project.join(".claude/sessync/config.json"), config.to_string())?;
        let mut lines = String::new();
        for n in 1..=LINES {
            let line = json!({
                "uuid": format!("{}-{n}", place.session), "timestamp": "2026-11-01T00:00:00Z", "sessionId": place.session, "type": "user",
                "cwd": project, "message": {"role": "user", "content": format!("line {n}")},
            });
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
        std::fs::write(logs.join(format!("{}.jsonl", place.session)), lines)?;
        Ok(place)
    }

    fn sessync(&self, platform: &Platform) -> std::io::Result<Command> {
        let program = std::env::current_exe()?.with_file_name("sessync");
        if !program.is_file() {
            let why =
                format!("{} is not there; build it with `cargo build --workspace --bin sessync`", program.display());
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, why));
        }
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.root)
            .env("XDG_STATE_HOME", self.root.join("state"))
            .env("CLAUDE_CONFIG_DIR", self.root.join("claude"))
            .env("BIGQUERY_EMULATOR_HOST", platform.ground().url.trim_start_matches("http://"))
            .env("SESSYNC_TRUST", "1")
            .current_dir(self.root.join("project"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Only we may read it: sessync refuses a state that others can write to.
fn make_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
