//! The process: it binds the ports, builds the platform, serves, prints the addresses, and stops cleanly.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use feeds::list::{Destination, Listed};
use feeds::outside::fetch::Policy;
use function::Definition;
use serde_json::{Value, json};
use telemetry::terminal::{harmless, one_line};
use tokio::net::TcpListener;

use super::{data, listeners, router, tls};
use crate::platform::data::Data;
use crate::platform::options::{self, Options};
use crate::platform::{self, Platform};
use crate::tenants;
use crate::tenants::{Ground, Tenant};

/// Threads for requests. Two are enough for one person, and each one costs memory.
const WORKERS: usize = 2;
/// Threads for the store. More would not help: SQLite allows one writer at a time.
const BLOCKING: usize = 16;

/// Why the process ends with exit code 1. Each message is one sentence.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("port {port} cannot be opened ({source}); choose another port with {option}")]
    Port { port: u16, option: &'static str, source: io::Error },
    #[error(transparent)]
    Data(#[from] data::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error(transparent)]
    Platform(#[from] platform::Error),
    #[error("the list of feeds {file} cannot be read: {reason}")]
    Feeds { file: String, reason: String },
    #[error("the process could not set itself up: {0}")]
    Runtime(#[source] io::Error),
}

/// Runs `ichido-local` with this repository's applications.
pub fn main() -> ExitCode {
    ExitCode::from(main_with(tenants::all(), std::env::args_os()))
}

/// Runs it with other tenants and arguments, for functions of your own. Returns the exit code.
pub fn main_with(tenants: Vec<Arc<dyn Tenant>>, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // The workers of a duel are processes of this program.
    if let Some(code) = duel::worker() {
        return code;
    }
    let options = match options::read(arguments) {
        Ok(options) => options,
        Err((text, 0)) => {
            let _ = write!(io::stdout(), "{text}");
            return 0;
        }
        Err((sentence, code)) => {
            let _ = write!(io::stderr(), "{sentence}");
            return code;
        }
    };
    if options.functions {
        let _ = writeln!(io::stdout(), "{:#}", functions(&tenants));
        return 0;
    }
    match run(tenants, options) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ichido-local: {}", harmless(&error.to_string()));
            1
        }
    }
}

/// What `--functions` prints: the functions of all tenants, sorted by name. The infrastructure's tests compare the
/// variables with those that the templates set.
fn functions(tenants: &[Arc<dyn Tenant>]) -> Value {
    let of_tenant = |tenant: &Arc<dyn Tenant>| {
        let name = tenant.name();
        tenant.functions().into_iter().map(move |definition| (definition, name)).collect::<Vec<_>>()
    };
    let mut all: Vec<(Definition, &str)> = tenants.iter().flat_map(of_tenant).collect();
    all.sort_by_key(|(definition, _)| definition.name);
    let shown: Vec<Value> = all
        .iter()
        .map(
            |(definition, tenant)| json!({"name": definition.name, "crate": tenant, "variables": definition.variables}),
        )
        .collect();
    json!({"common": function::COMMON_VARIABLES, "functions": shown})
}

fn run(tenants: Vec<Arc<dyn Tenant>>, options: Options) -> Result<(), Error> {
    // The platform's own lines go to the terminal, those of the functions to the console.
    let _ = telemetry::init_watching(plain(), log_level());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING)
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let ended = runtime.block_on(serve_until_stopped(tenants, options));
    // Do not wait for threads that still block: everything acknowledged is on disk.
    runtime.shutdown_background();
    ended
}

/// From which level on lines are written.
pub(super) fn log_level() -> telemetry::Level {
    std::env::var("LOG_LEVEL").ok().and_then(|level| level.parse().ok()).unwrap_or(telemetry::Level::INFO)
}

/// Prints the platform's own warnings and errors as plain lines.
fn plain() -> telemetry::Sink {
    Arc::new(|line| {
        if let Some(line) = plain_line(line) {
            let _ = writeln!(io::stderr(), "{line}");
        }
    })
}

/// A warning or an error of the log as one line for people. Its JSON is decoded, so what a terminal obeys is escaped again.
fn plain_line(line: &str) -> Option<String> {
    let read = serde_json::from_str::<Value>(line).ok()?;
    let text = |name: &str| read[name].as_str().unwrap_or_default();
    if !matches!(text("level"), "WARN" | "ERROR") {
        return None;
    }
    let cause = match text("error") {
        "" => String::new(),
        error => format!(": {error}"),
    };
    Some(one_line(&format!("{} {}{cause}", text("level"), text("message"))).into_owned())
}

async fn serve_until_stopped(tenants: Vec<Arc<dyn Tenant>>, options: Options) -> Result<(), Error> {
    let started = std::time::Instant::now();
    let main = bind(options.port, "--port").await?;
    let dynamodb = bind(options.dynamodb_port, "--dynamodb-port").await?;
    let over_tls = bind(options.tls_port, "--tls-port").await?;
    let data = if options.memory { Data::in_memory()? } else { Data::open(&options.data)? };
    let certificate = data.file("cert.pem");
    let config = tls::config(data.directory())?;
    let address = |listener: &TcpListener| listener.local_addr().map_err(Error::Runtime);
    let url = format!("http://{}", address(&main)?);
    let listed = listed(&options, &url)?;
    let ground = Ground {
        listed,
        url,
        dynamodb_url: format!("http://{}", address(&dynamodb)?),
        tls_url: format!("https://{}", address(&over_tls)?),
        secrets: data.secrets(),
        options,
    };
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let platform = Platform::build(tenants, ground, data, &environment)?;
    let router = router::main(&platform);
    let listeners = [
        tokio::spawn(listeners::listen(main, None, router.clone(), platform.stopped())),
        tokio::spawn(listeners::listen(over_tls, Some(config), router, platform.stopped())),
        tokio::spawn(listeners::listen(dynamodb, None, router::dynamodb(&platform), platform.stopped())),
    ];
    platform.start().await?;
    // Before anybody is told that it runs: a signal that comes then stops it cleanly.
    let stopped = loopback::stopped();
    announce(&platform, certificate.as_deref(), started.elapsed());
    stopped.await;
    let _ = writeln!(io::stdout(), "\nStopping.");
    platform.stop();
    for listener in listeners {
        let _ = listener.await;
    }
    Ok(())
}

/// The sample list, with feeds of two more formats. Its addresses are those of the default port.
const SAMPLE_LIST: &str = include_str!("../../sample-feeds.json");
const SAMPLE_URL: &str = "http://127.0.0.1:8787";

/// The feeds that share functions: those of `--feeds`, else the samples, else none.
fn listed(options: &Options, url: &str) -> Result<Vec<Listed>, Error> {
    let (file, text) = match &options.feeds {
        Some(path) => {
            let file = path.display().to_string();
            let read = std::fs::read_to_string(path);
            (file.clone(), read.map_err(|error| Error::Feeds { file, reason: error.to_string() })?)
        }
        None if options.no_demo => return Ok(Vec::new()),
        None => ("of samples".to_owned(), SAMPLE_LIST.replace(SAMPLE_URL, url)),
    };
    let read = feeds::list::read(&text, &Policy::local(), &Destination::ALL);
    read.map_err(|error| Error::Feeds { file, reason: error.to_string() })
}

async fn bind(port: u16, option: &'static str) -> Result<TcpListener, Error> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.map_err(|source| Error::Port {
        port,
        option,
        source,
    })
}

/// How `ichidoctl` is started from a directory: in a checkout cargo builds it first.
fn ichidoctl(directory: &std::path::Path) -> &'static str {
    match directory.join("crates/ops/Cargo.toml").exists() {
        true => "cargo run --quiet --bin ichidoctl --",
        false => "ichidoctl",
    }
}

/// Prints the addresses, and one command per application to try it.
fn announce(platform: &Platform, certificate: Option<&std::path::Path>, took: std::time::Duration) {
    let ground = platform.ground();
    let data = match &ground.options {
        Options { memory: true, .. } => "not kept (--memory)".to_owned(),
        Options { data, .. } => data.display().to_string(),
    };
    let certificate = certificate.map_or_else(|| "not kept (--memory)".to_owned(), |path| path.display().to_string());
    let mut text = format!("ichido-local is ready after {} ms\n\n", took.as_millis());
    for (what, place) in [
        ("console", ground.url.clone()),
        ("AWS endpoint", format!("AWS_ENDPOINT_URL={}", ground.url)),
        ("operator's tool", format!("{} --endpoint-url {} --help", ichidoctl(std::path::Path::new(".")), ground.url)),
        ("DynamoDB, for tools", ground.dynamodb_url.clone()),
        ("the same over TLS", format!("{} (certificate: {certificate})", ground.tls_url)),
        ("data", data),
    ] {
        text.push_str(&format!("  {what:<20} {place}\n"));
    }
    let mut commands = String::new();
    for tenant in platform.tenants() {
        if let Some(command) = tenant.try_it(ground) {
            commands.push_str(&format!("  {:<8} {command}\n", tenant.name()));
        }
    }
    if !commands.is_empty() {
        text.push_str("\nTry it:\n");
        text.push_str(&commands);
    }
    text.push_str("\nCtrl-C stops it.\n");
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_cannot_write_to_the_terminal() {
        let line =
            json!({"level": "WARN", "message": "could not read \u{1b}[2J", "error": "a\nERROR b\u{202e}"}).to_string();
        assert_eq!(plain_line(&line).as_deref(), Some("WARN could not read \\u{1b}[2J: a\\nERROR b\\u{202e}"));
        assert_eq!(plain_line(r#"{"level": "INFO", "message": "started"}"#), None);
    }

    #[test]
    fn who_has_no_checkout_is_not_told_to_use_cargo() {
        let checkout = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(ichidoctl(&checkout), "cargo run --quiet --bin ichidoctl --");
        assert_eq!(ichidoctl(&std::env::temp_dir()), "ichidoctl");
    }
}
