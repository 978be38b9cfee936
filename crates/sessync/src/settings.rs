//! What the user sets: the variables and directories of the process, and the project's config file.
//!
//! One error names everything that is missing or wrong in the config, each with its key.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::outside::Places;
use crate::outside::bigquery::Table;
use crate::source::files::Scope;
use crate::upload::batch::Origin;

/// How old an intent must be before BigQuery's "it is not there" is believed.
const SETTLE: Duration = Duration::from_secs(10);

/// What the process finds in its environment. Nothing else in this crate reads variables. The libraries below it read
/// their own: the AWS SDK `AWS_*`, the HTTP client the proxy variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    pub(crate) directory: PathBuf,
    pub(crate) home: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`
    pub(crate) claude: Option<PathBuf>,
    /// `BIGQUERY_EMULATOR_HOST`
    pub(crate) emulator: Option<String>,
    pub(crate) places: Places,
    /// `PATH`
    pub(crate) search_path: OsString,
}

impl Process {
    /// Reads the environment of this process.
    pub(crate) fn current() -> io::Result<Process> {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let gcloud = var("CLOUDSDK_CONFIG").map(PathBuf::from);
        Ok(Process {
            directory: std::env::current_dir()?,
            claude: var("CLAUDE_CONFIG_DIR").map(PathBuf::from),
            emulator: var("BIGQUERY_EMULATOR_HOST"),
            places: Places {
                named: var("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
                gcloud: gcloud.or_else(|| home.as_ref().map(|home| home.join(".config/gcloud"))),
                metadata: var("GCE_METADATA_HOST"),
            },
            search_path: std::env::var_os("PATH").unwrap_or_default(),
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
}

/// A project: its config, and where its logs, its state and its destination are.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) config: Config,
    /// The directory of all logs.
    pub(crate) root: PathBuf,
    pub(crate) scope: Scope,
    /// The directory of the config. The state is below it.
    pub(crate) directory: PathBuf,
    /// The name of the destination. Each destination has its own state.
    pub(crate) destination: String,
    is_emulated: bool,
}

impl Project {
    /// Reads the config and finds out where everything is.
    pub(crate) fn open(config_path: &Path, all: bool, process: &Process) -> Result<Project, Error> {
        let path = process.directory.join(config_path);
        let config = load(&path, process.home.as_deref(), &process.directory)?;
        let table = &config.table;
        let mut destination = format!("{}.{}.{}", table.project, table.dataset, table.table);
        // What a stand-in has says nothing about what BigQuery has.
        if process.emulator.is_some() {
            destination.push_str("@emulator");
        }
        Ok(Project {
            root: process.claude_directory().join("projects"),
            scope: if all { Scope::All } else { Scope::Project(process.directory.clone()) },
            directory: path.parent().unwrap_or(Path::new(".")).to_owned(),
            destination,
            is_emulated: process.emulator.is_some(),
            config,
        })
    }

    /// The state of this destination.
    pub(crate) fn state_directory(&self) -> PathBuf {
        let safe = |each: char| if each.is_alphanumeric() || "-_.@".contains(each) { each } else { '-' };
        let name: String = self.destination.chars().map(safe).collect();
        self.directory.join("state").join(name)
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

/// The name of this machine.
fn hostname() -> String {
    let file = |path: &str| fs::read_to_string(path).ok();
    let command = || {
        let output = std::process::Command::new("hostname").output().ok()?;
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
    #[error("correct the config {}: {}", path.display(), problems.join("; "))]
    Wrong { path: PathBuf, problems: Vec<String> },
}

/// Reads a config. `home` is what `~` stands for; `directory` is the project's.
fn load(path: &Path, home: Option<&Path>, directory: &Path) -> Result<Config, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
        _ => Error::Unreadable { path: path.to_owned(), reason: error.to_string() },
    })?;
    let values: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
    parse(values, home, directory).map_err(|problems| Error::Wrong { path: path.to_owned(), problems })
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
    fn every_key_is_documented_in_the_readme() {
        let readme = include_str!("../README.md");
        for (key, ..) in KEYS {
            assert!(readme.contains(&format!("`{key}`")), "{key}");
        }
    }
}
