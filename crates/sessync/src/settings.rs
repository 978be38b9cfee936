//! What the user sets: the variables and directories of the process, and the project's config file.
//!
//! One error names everything that is missing or wrong in the config, each with its key.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::dir::{self, Location};
use crate::outside::Places;
use crate::outside::auth::KeyFile;
use crate::outside::bigquery::Table;
use crate::source::files::Scope;
use crate::source::line::hash;
use crate::source::{self, Kind, Root};
use crate::trust::{self, Candidate, Untrusted, hex_digest};
use crate::upload::batch::Origin;

/// How old an intent must be before BigQuery's "it is not there" is believed.
const SETTLE: Duration = Duration::from_secs(10);
/// A larger config or key file is not read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// It is nearly always set, so it goes without saying.
pub(crate) const HOME: &str = "HOME";
/// Variables that name credentials or addresses, besides those of AWS. With `--auto` they need the user's trust.
const GUARDED: &[&str] = &[
    // The credentials of gcloud and AWS are below it.
    HOME,
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
    "GCE_METADATA_HOST",
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
/// Variables of AWS that name neither.
const HARMLESS_AWS: &[&str] = &["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PAGER", "AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"];

/// What the process finds in its environment. Nothing else in this crate reads variables. The libraries below it read
/// their own: the AWS SDK `AWS_*`, the HTTP client the proxy variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    pub(crate) directory: PathBuf,
    pub(crate) home: Option<PathBuf>,
    /// `XDG_STATE_HOME`
    pub(crate) state_home: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`
    pub(crate) claude: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`
    pub(crate) config_home: Option<PathBuf>,
    /// `CODEX_HOME`
    pub(crate) codex: Option<PathBuf>,
    /// `BIGQUERY_EMULATOR_HOST`
    pub(crate) emulator: Option<String>,
    /// `SESSYNC_TRUST=1`
    pub(crate) trusts: bool,
    pub(crate) places: Places,
    /// Name and value of the variables that name credentials or addresses.
    pub(crate) guarded: Vec<(String, String)>,
    /// `PATH`
    pub(crate) search_path: OsString,
    /// Whether a person types.
    pub(crate) terminal: bool,
}

impl Process {
    /// Reads the environment of this process.
    pub(crate) fn current() -> io::Result<Process> {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let gcloud = var("CLOUDSDK_CONFIG").map(PathBuf::from);
        let all = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        let is_guarded =
            |name: &str| GUARDED.contains(&name) || name.starts_with("AWS_") && !HARMLESS_AWS.contains(&name);
        Ok(Process {
            directory: std::env::current_dir()?,
            // A relative path would be one of the checkout.
            state_home: var("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            claude: var("CLAUDE_CONFIG_DIR").map(PathBuf::from),
            config_home: var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            codex: var("CODEX_HOME").map(PathBuf::from),
            emulator: var("BIGQUERY_EMULATOR_HOST"),
            trusts: var("SESSYNC_TRUST").as_deref() == Some("1"),
            places: Places {
                named: var("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
                gcloud: gcloud.or_else(|| home.as_ref().map(|home| home.join(".config/gcloud"))),
                metadata: var("GCE_METADATA_HOST"),
            },
            guarded: all.filter(|(name, value)| is_guarded(name) && !value.is_empty()).collect(),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            terminal: io::stdin().is_terminal(),
            home,
        })
    }

    /// The directory of Claude Code.
    pub(crate) fn claude_directory(&self) -> PathBuf {
        match (&self.claude, &self.home) {
            (Some(directory), _) => directory.clone(),
            (None, Some(home)) => home.join(".claude"),
            (None, None) => PathBuf::from(".claude"),
        }
    }

    /// The directories of all logs: Claude Code's, its newer one unless a variable names another, and Codex's.
    pub(crate) fn roots(&self) -> Vec<Root> {
        let root = |kind, path, prefix| Root { kind, path, prefix };
        let mut roots = vec![root(Kind::ClaudeCode, self.claude_directory().join("projects"), "")];
        let below_home = |name: &str| self.home.as_ref().map(|home| home.join(name));
        let config = self.config_home.clone().or_else(|| below_home(".config"));
        let newer =
            config.map(|config| config.join("claude/projects")).filter(|path| self.claude.is_none() && path.is_dir());
        roots.extend(newer.map(|path| root(Kind::ClaudeCode, path, source::CONFIG)));
        let codex = self.codex.clone().or_else(|| below_home(".codex")).map(|codex| codex.join("sessions"));
        roots.extend(codex.filter(|path| path.is_dir()).map(|path| root(Kind::Codex, path, source::CODEX)));
        roots
    }

    /// The directory of everything that sessync remembers.
    pub(crate) fn state(&self) -> Result<Location, Error> {
        let base = match (&self.state_home, &self.home) {
            (Some(directory), _) => directory.clone(),
            (None, Some(home)) if home.is_absolute() => home.join(".local/state"),
            (None, _) => return Err(Error::Homeless),
        };
        Ok(Location::private(base).join("sessync"))
    }

    /// Everything that sessync remembers of the project in this directory.
    pub(crate) fn project_home(&self) -> Result<Location, Error> {
        let project = self.directory.canonicalize().map_err(Error::State)?;
        Ok(self.state()?.join("projects").join(&project_key(&project)))
    }
}

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}

/// How a command was called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    /// `--config`
    pub(crate) config: Option<PathBuf>,
    /// `--all-projects`
    pub(crate) all: bool,
    /// `--auto`
    pub(crate) auto: bool,
}

/// A project: its config, and where its logs, its state and its destination are.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) config: Config,
    /// The directories of all logs.
    pub(crate) roots: Vec<Root>,
    pub(crate) scope: Scope,
    /// The project's directory, without links.
    pub(crate) path: PathBuf,
    /// The directory of the config. Earlier versions kept the state there.
    pub(crate) beside_config: Location,
    /// Everything that sessync remembers.
    pub(crate) state_root: Location,
    /// Everything that it remembers of this project.
    pub(crate) home: Location,
    /// The name of the destination. Each destination has its own state.
    pub(crate) destination: String,
    pub(crate) key: Option<KeyFile>,
    /// What the user trusts or does not.
    pub(crate) candidate: Candidate,
    /// Whether the config may be used for more than reading.
    pub(crate) trust: Result<(), Untrusted>,
    is_emulated: bool,
}

impl Project {
    /// Reads the config and finds out where everything is.
    pub(crate) fn open(call: &Call, process: &Process) -> Result<Project, Error> {
        let path = process.directory.join(call.config.as_deref().unwrap_or(Path::new(DEFAULT_PATH)));
        let (config, content) = load(&path, process.home.as_deref(), &process.directory)?;
        let unreadable = |error: io::Error| Error::Unreadable { path: path.clone(), reason: error.to_string() };
        let canonical = path.canonicalize().map_err(unreadable)?;
        let project = process.directory.canonicalize().map_err(unreadable)?;
        let checkout = checkout(&project);
        let table = &config.table;
        let mut destination = format!("{}.{}.{}", table.project, table.dataset, table.table);
        // What a stand-in has says nothing about what BigQuery has.
        if process.emulator.is_some() {
            destination.push_str("@emulator");
        }
        let key = config.key_path.as_ref().or(process.places.named.as_ref());
        let key = key.map(|key| key_file(&process.directory.join(key), checkout));
        let uses_aws = config.state != StateKind::File;
        let candidate = Candidate {
            config: hex_digest(&content),
            key: key.as_ref().and_then(|key| key.content.as_deref()).map(hex_digest),
            variables: process
                .guarded
                .iter()
                .filter(|(name, _)| uses_aws || !name.starts_with("AWS_"))
                .cloned()
                .collect(),
            path: canonical,
        };
        let state = process.state()?;
        let vouched = !call.auto
            && (process.trusts || call.config.is_some() && process.terminal && !candidate.path.starts_with(checkout));
        let away = process.emulator.as_deref().filter(|host| call.auto && !is_loopback(host));
        let trust = match (vouched, away) {
            (true, _) => Ok(()),
            (_, Some(host)) => Err(Untrusted::Emulator(host.to_owned())),
            (false, None) => trust::check(&state, &candidate, &project, call.auto).map_err(Error::State)?,
        };
        Ok(Project {
            roots: process.roots(),
            scope: if call.all { Scope::All } else { Scope::Project(process.directory.clone()) },
            beside_config: match &call.config {
                Some(_) => Location::plain(path.parent().unwrap_or(Path::new("/"))),
                None => Location::plain(&process.directory).join(".claude").join("sessync"),
            },
            home: process.project_home()?,
            state_root: state,
            path: project,
            destination,
            is_emulated: process.emulator.is_some(),
            key,
            candidate,
            trust,
            config,
        })
    }

    /// The state of this destination.
    pub(crate) fn state(&self) -> Location {
        self.home.join(&self.destination_name())
    }

    /// Where earlier versions kept it.
    pub(crate) fn old_state(&self) -> Location {
        self.beside_config.join("state").join(&self.destination_name())
    }

    pub(crate) fn destination_name(&self) -> String {
        let safe = |each: char| if each.is_alphanumeric() || "-_.@".contains(each) { each } else { '-' };
        self.destination.chars().map(safe).collect()
    }

    /// What every row says about where it comes from.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            developer_id: self.config.developer_id.clone(),
            hostname: hostname(),
            user_email: self.config.user_email.clone(),
            project_name: self.config.project_name.clone(),
        }
    }

    /// How old an intent must be before "it is not there" is believed. A stand-in shows rows at once.
    pub(crate) fn settle(&self) -> Duration {
        if self.is_emulated { Duration::ZERO } else { SETTLE }
    }
}

/// The name of a project's state: its directory's name for people, and a hash of its path.
fn project_key(project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let name: String =
        name.chars().filter(|each| each.is_ascii_alphanumeric() || "-_".contains(*each)).take(40).collect();
    format!("{name}-{:016x}", hash(project.as_os_str().as_encoded_bytes()))
}

/// The outermost directory around a project that git manages, or else the project itself: what came with it.
fn checkout(project: &Path) -> &Path {
    project.ancestors().filter(|path| path.join(".git").exists()).last().unwrap_or(project)
}

/// A key file. One that is in the checkout is read now: what is trusted is then what is used.
fn key_file(path: &Path, checkout: &Path) -> KeyFile {
    let canonical = path.canonicalize();
    let came_along = path.starts_with(checkout) || canonical.is_ok_and(|path| path.starts_with(checkout));
    let content = came_along.then(|| dir::read_named(path, MAX_FILE_BYTES).unwrap_or_default());
    KeyFile { path: path.to_owned(), content }
}

/// Whether a host and port, or a URL, is on this machine.
fn is_loopback(host: &str) -> bool {
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
    let Ok(url) = reqwest::Url::parse(url.trim()) else { return false };
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

/// The name of this machine.
fn hostname() -> String {
    let file = |path: &str| fs::read_to_string(path).ok();
    let command = || {
        // By its path: a hook's settings can set PATH.
        let output = std::process::Command::new("/bin/hostname").output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    file("/proc/sys/kernel/hostname")
        .or_else(|| file("/etc/hostname"))
        .or_else(command)
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The default path of the config, below the project.
pub(crate) const DEFAULT_PATH: &str = ".claude/sessync/config.json";
const DEFAULT_BATCH: u64 = 500;
/// BigQuery recommends 500 rows and accepts more. More than this gains nothing.
const MAX_BATCH: u64 = 10_000;

/// Every key: its name, whether it is required, what it means (and the default).
pub(crate) const KEYS: &[(&str, bool, &str)] = &[
    ("project_id", true, "the Google Cloud project"),
    ("dataset", true, "the BigQuery dataset"),
    ("table", true, "the table in the dataset"),
    ("location", false, "the location of the dataset (\"US\")"),
    ("upload_batch_size", false, "rows per request, at most (500)"),
    ("enable_auto_upload", false, "whether the hook (`--auto`) uploads (true)"),
    ("enable_deduplication", false, "whether to leave out lines that are already uploaded (true)"),
    ("developer_id", true, "who works here; a column of every row"),
    ("user_email", true, "that person's address; a column of every row"),
    ("project_name", false, "a column of every row (the name of the working directory)"),
    (
        "service_account_key_path",
        false,
        "a service account's key file, `~/` is the home directory (application-default credentials)",
    ),
    ("redact", false, "a list of additional regular expressions for secrets ([])"),
    (
        "state",
        false,
        "\"file\", or {\"dynamodb\": {\"table\": NAME, \"region\": REGION}} to share it between machines (\"file\")",
    ),
];

/// The config.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) table: Table,
    pub(crate) batch_rows: usize,
    pub(crate) auto_upload: bool,
    pub(crate) deduplication: bool,
    pub(crate) developer_id: String,
    pub(crate) user_email: String,
    pub(crate) project_name: String,
    pub(crate) key_path: Option<PathBuf>,
    pub(crate) redact: Vec<String>,
    pub(crate) state: StateKind,
    /// Keys that sessync does not know.
    pub(crate) unknown: Vec<String>,
}

/// Where the state is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateKind {
    File,
    DynamoDb { table: String, region: Option<String> },
}

/// What is wrong with the config.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("there is no config at {}; write one (`sessync --help` lists its keys), or name another with --config", .0.display())]
    Missing(PathBuf),
    #[error("the config {} cannot be read: {reason}; it must be a JSON object", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("there is no home directory; set HOME, or XDG_STATE_HOME to a directory for the state")]
    Homeless,
    #[error("the state cannot be used: {0}")]
    State(io::Error),
    #[error("correct the config {}: {}", path.display(), problems.join("; "))]
    Wrong { path: PathBuf, problems: Vec<String> },
}

/// Reads a config. `home` is what `~` stands for; `directory` is the project's. Returns the file's content too.
fn load(path: &Path, home: Option<&Path>, directory: &Path) -> Result<(Config, Vec<u8>), Error> {
    let content = dir::read_named(path, MAX_FILE_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
        _ => Error::Unreadable { path: path.to_owned(), reason: error.to_string() },
    })?;
    let values: Map<String, Value> = serde_json::from_slice(&content)
        .map_err(|error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
    let config = parse(values, home, directory).map_err(|problems| Error::Wrong { path: path.to_owned(), problems })?;
    Ok((config, content))
}

fn parse(values: Map<String, Value>, home: Option<&Path>, directory: &Path) -> Result<Config, Vec<String>> {
    let mut reader = Reader { values, problems: Vec::new() };
    let table = Table {
        project: reader.name("project_id"),
        dataset: reader.name("dataset"),
        table: reader.name("table"),
        location: reader.string("location").unwrap_or_else(|| "US".to_owned()),
    };
    let directory_name = directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let config = Config {
        table,
        batch_rows: reader.number("upload_batch_size", DEFAULT_BATCH, 1..=MAX_BATCH) as usize,
        auto_upload: reader.bool("enable_auto_upload", true),
        deduplication: reader.bool("enable_deduplication", true),
        developer_id: reader.required("developer_id"),
        user_email: reader.required("user_email"),
        project_name: reader.string("project_name").unwrap_or(directory_name),
        key_path: reader.string("service_account_key_path").map(|path| expand(&path, home)),
        redact: reader.patterns("redact"),
        state: reader.state("state"),
        unknown: reader.values.keys().filter(|key| !KEYS.iter().any(|(known, ..)| known == key)).cloned().collect(),
    };
    if reader.problems.is_empty() { Ok(config) } else { Err(reader.problems) }
}

struct Reader {
    values: Map<String, Value>,
    problems: Vec<String>,
}

impl Reader {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.values.get(key).filter(|value| !value.is_null()).cloned()
    }

    fn string(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if text.trim().is_empty() => None,
            Value::String(text) => Some(text),
            _ => {
                self.problems.push(format!("{key} must be a string"));
                None
            }
        }
    }

    fn required(&mut self, key: &str) -> String {
        let before = self.problems.len();
        self.string(key).unwrap_or_else(|| {
            if self.problems.len() == before {
                self.problems.push(format!("{key} is missing"));
            }
            String::new()
        })
    }

    /// A name that goes into SQL. It must not contain anything that ends a quoted name.
    fn name(&mut self, key: &str) -> String {
        let name = self.required(key);
        if !name.chars().all(|each| each.is_alphanumeric() || matches!(each, '-' | '_' | ':' | '.')) {
            self.problems.push(format!("{key} may contain only letters, digits, '-', '_', '.' and ':'"));
        }
        name
    }

    fn bool(&mut self, key: &str, default: bool) -> bool {
        match self.take(key) {
            None => default,
            Some(Value::Bool(value)) => value,
            Some(_) => {
                self.problems.push(format!("{key} must be true or false"));
                default
            }
        }
    }

    fn number(&mut self, key: &str, default: u64, range: std::ops::RangeInclusive<u64>) -> u64 {
        let Some(value) = self.take(key) else { return default };
        value.as_u64().filter(|number| range.contains(number)).unwrap_or_else(|| {
            self.problems.push(format!("{key} must be a number from {} to {}", range.start(), range.end()));
            default
        })
    }

    fn patterns(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let list: Option<Vec<String>> = serde_json::from_value(value).ok();
        let Some(list) = list else {
            self.problems.push(format!("{key} must be a list of strings"));
            return Vec::new();
        };
        for pattern in &list {
            if regex::Regex::new(pattern).is_err() {
                self.problems.push(format!("{key}: {pattern:?} is not a regular expression"));
            }
        }
        list
    }

    fn state(&mut self, key: &str) -> StateKind {
        let value = match self.take(key) {
            None => return StateKind::File,
            Some(Value::String(kind)) if kind == "file" => return StateKind::File,
            Some(value) => value,
        };
        let shared = &value["dynamodb"];
        match (shared["table"].as_str(), shared.get("region").map(Value::as_str)) {
            (Some(table), None) => StateKind::DynamoDb { table: table.to_owned(), region: None },
            (Some(table), Some(Some(region))) => {
                StateKind::DynamoDb { table: table.to_owned(), region: Some(region.to_owned()) }
            }
            _ => {
                self.problems.push(format!("{key} must be \"file\" or {{\"dynamodb\": {{\"table\": NAME}}}}"));
                StateKind::File
            }
        }
    }
}

/// Replaces `~` by the home directory.
fn expand(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if path == "~" => home.map_or_else(|| PathBuf::from(path), Path::to_owned),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Config, Vec<String>> {
        let Value::Object(values) = value else { panic!("not an object") };
        parse(values, Some(Path::new("/home/me")), Path::new("/src/thing"))
    }

    fn least() -> Value {
        json!({"project_id": "p", "dataset": "d", "table": "t", "developer_id": "me", "user_email": "me@example.com"})
    }

    #[test]
    fn everything_that_is_missing_or_wrong_is_named_at_once() {
        let problems =
            read(json!({"table": "a`b", "upload_batch_size": 0, "redact": ["("], "state": "cloud"})).unwrap_err();
        let all = problems.join("\n");
        for key in
            ["project_id", "dataset", "table", "developer_id", "user_email", "upload_batch_size", "redact", "state"]
        {
            assert!(all.contains(key), "{key} in {all}");
        }
    }

    #[test]
    fn what_may_be_left_out_has_its_default() {
        let config = read(least()).unwrap();
        assert_eq!((config.batch_rows, config.deduplication, config.auto_upload), (500, true, true));
        assert_eq!((config.project_name.as_str(), config.table.location.as_str()), ("thing", "US"));
        assert_eq!(config.state, StateKind::File);
    }

    #[test]
    fn a_home_is_expanded_and_an_unknown_key_reported() {
        let mut value = least();
        value["service_account_key_path"] = "~/keys/k.json".into();
        value["bucket"] = "x".into();
        value["state"] = json!({"dynamodb": {"table": "s"}});
        let config = read(value).unwrap();
        assert_eq!(config.key_path.unwrap(), Path::new("/home/me/keys/k.json"));
        assert_eq!(config.unknown, ["bucket"]);
        assert_eq!(config.state, StateKind::DynamoDb { table: "s".to_owned(), region: None });
    }

    #[test]
    fn a_config_from_outside_the_checkout_is_trusted_at_a_terminal_and_one_from_inside_is_not() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("repository/part");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir(home.path().join("repository/.git")).unwrap();
        let process =
            Process { directory: project, home: Some(home.path().to_owned()), terminal: true, ..Process::default() };
        let trusted = |config: &Path, auto: bool, process: &Process| {
            std::fs::write(config, least().to_string()).unwrap();
            let call = Call { config: Some(config.to_owned()), all: false, auto };
            Project::open(&call, process).unwrap().trust.is_ok()
        };
        let outside = home.path().join("mine.json");
        assert!(trusted(&outside, false, &process));
        assert!(!trusted(&outside, true, &process), "a hook has no terminal that counts");
        assert!(!trusted(&outside, false, &Process { terminal: false, ..process.clone() }));
        assert!(!trusted(&home.path().join("repository/other.json"), false, &process), "the same checkout");
        let by_variable = Process { terminal: false, trusts: true, ..process };
        assert!(trusted(&outside, false, &by_variable) && !trusted(&outside, true, &by_variable));
    }

    #[test]
    fn only_an_address_of_this_machine_is_loopback() {
        for host in
            ["127.0.0.1:8787", "localhost", "LOCALHOST:1", "[::1]:80", "http://127.1.2.3/", "https://localhost:1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "example.com",
            "127.0.0.1.example.com",
            "127.0.0.1@example.com",
            "http://localhost:80@example.com/",
            "http://[::1].example.com/",
            "[::1]:80@example.com",
            "localhost.example.com",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "",
            "http://",
            "example.com#localhost",
            "example.com/127.0.0.1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn every_key_is_documented_in_the_readme() {
        let readme = include_str!("../README.md");
        for (key, ..) in KEYS {
            assert!(readme.contains(&format!("`{key}`")), "{key}");
        }
    }
}
