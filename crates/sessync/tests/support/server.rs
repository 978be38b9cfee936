//! The stand-in behind a real socket, and the real program in front of it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, Response, Uri};
use emulator::bigquery::StandIn;

/// When, in the handling of a request, the test interferes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    BeforeHandling,
    BeforeReplying,
}

type Interference = Box<dyn Fn(u64, Moment) + Send + Sync>;

struct Shared {
    standin: Arc<StandIn>,
    requests: AtomicU64,
    interfere: Mutex<Option<Interference>>,
}

/// A stand-in on a port of its own.
pub struct Server {
    pub standin: Arc<StandIn>,
    pub address: String,
    shared: Arc<Shared>,
    /// The server ends with its runtime.
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub fn start(seed: u64) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let standin = Arc::new(super::standin(seed));
        let shared =
            Arc::new(Shared { standin: standin.clone(), requests: AtomicU64::new(0), interfere: Mutex::new(None) });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let app = axum::Router::new()
            .fallback(handle)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(shared.clone());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Server { standin, address, shared, _runtime: runtime }
    }

    /// From now on, calls this with the number of each request and the moment.
    pub fn interfere(&self, with: Interference) {
        self.shared.requests.store(0, Ordering::SeqCst);
        *self.shared.interfere.lock().unwrap() = Some(with);
    }

    pub fn leave_alone(&self) {
        *self.shared.interfere.lock().unwrap() = None;
    }
}

async fn handle(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, body: Bytes) -> Response<Body> {
    let number = shared.requests.fetch_add(1, Ordering::SeqCst);
    let interfere = |moment| {
        if let Some(interfere) = &*shared.interfere.lock().unwrap() {
            interfere(number, moment);
        }
    };
    interfere(Moment::BeforeHandling);
    let reply = shared.standin.handle(method.as_str(), &uri.to_string(), &body);
    interfere(Moment::BeforeReplying);
    tokio::time::sleep(reply.delay).await;
    if reply.lost {
        // A body that fails before its end breaks the connection.
        let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("lost"))]);
        return Response::builder().header("content-length", "100").body(Body::from_stream(broken)).unwrap();
    }
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(reply.body)).unwrap()
}

/// A home directory with a project, and the program.
pub struct Home {
    pub directory: tempfile::TempDir,
    pub address: String,
}

impl Home {
    pub fn new(server: &Server) -> Home {
        let home = Home { directory: tempfile::tempdir().unwrap(), address: server.address.clone() };
        fs::create_dir_all(home.project().join(".claude/sessync")).unwrap();
        home.config(serde_json::json!({}));
        home
    }

    pub fn project(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("src/app")
    }

    /// Writes the config, with these values instead of the usual ones.
    pub fn config(&self, values: serde_json::Value) {
        let mut config = serde_json::json!({
            "project_id": "acme", "dataset": super::DATASET, "table": super::TABLE, "location": "US", "upload_batch_size": 10,
            "developer_id": "dev", "user_email": "dev@example.com", "project_name": "app",
        });
        for (key, value) in values.as_object().unwrap() {
            config[key] = value.clone();
        }
        fs::write(self.project().join(".claude/sessync/config.json"), config.to_string()).unwrap();
    }

    /// The directory of all logs.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join(".claude/projects")
    }

    pub fn logs(&self) -> PathBuf {
        let name = sessync::source::files::names(&self.project()).remove(0);
        self.root().join(name)
    }

    /// Writes a log with these lines, whose `cwd` is the project.
    pub fn write(&self, name: &str, lines: &[String]) -> PathBuf {
        fs::create_dir_all(self.logs()).unwrap();
        let path = self.logs().join(name);
        let cwd = self.project().display().to_string();
        let text: String = lines.iter().map(|line| line.replace("/src/app", &cwd) + "\n").collect();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessync"));
        command
            .args(arguments)
            .current_dir(self.project())
            .env_clear()
            .env("HOME", self.directory.path())
            .env("PATH", "/usr/bin:/bin")
            .env("BIGQUERY_EMULATOR_HOST", &self.address)
            .env("SESSYNC_TRUST", "1")
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it printed. Fails unless it exited with 0.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Trusts the config as it is now. A hook needs that; other runs are trusted by a variable.
    pub fn trust(&self) {
        self.ok(&["trust"]);
    }

    /// Everything that sessync remembers.
    pub fn state_root(&self) -> PathBuf {
        self.directory.path().join(".local/state/sessync")
    }

    /// Everything that it remembers of the project.
    pub fn remembered(&self) -> PathBuf {
        let projects = self.state_root().join("projects");
        let first = fs::read_dir(&projects).ok().and_then(|mut entries| entries.next());
        first.map_or_else(|| projects.join("none"), |entry| entry.unwrap().path())
    }

    pub fn state(&self) -> PathBuf {
        self.remembered().join(format!("{}@emulator", super::DESTINATION))
    }
}

pub fn text(output: &Output) -> String {
    format!("{} {}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
