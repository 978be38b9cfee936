//! The config file: what is uploaded, where to, under whose name.
//!
//! Everything that is missing or wrong is said at once, each with its key.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::bigquery::Table;

/// Where the config is unless told otherwise, below the project.
pub const DEFAULT_PATH: &str = ".claude/sessync/config.json";
const DEFAULT_BATCH: u64 = 500;
/// BigQuery recommends 500 and takes more; beyond this there is nothing to gain.
const MAX_BATCH: u64 = 10_000;

/// Every key: its name, whether it must be there, what it means.
pub const KEYS: &[(&str, bool, &str)] = &[
    ("project_id", true, "the Google Cloud project"),
    ("dataset", true, "the BigQuery dataset"),
    ("table", true, "the table in it"),
    ("location", false, "where the dataset is (\"US\")"),
    ("upload_batch_size", false, "rows in one request (500)"),
    ("enable_auto_upload", false, "whether `--auto`, that is the hook, uploads (true)"),
    ("enable_deduplication", false, "whether lines already uploaded are left out (true)"),
    ("developer_id", true, "who: a column of every row"),
    ("user_email", true, "who: a column of every row"),
    ("project_name", false, "a column of every row (the working directory's name)"),
    ("service_account_key_path", false, "a key file, `~` is the home (application-default credentials)"),
    ("redact", false, "a list of further regular expressions for secrets ([])"),
    (
        "state",
        false,
        "\"file\", or {\"dynamodb\": {\"table\": NAME, \"region\": REGION}} shared by machines (\"file\")",
    ),
];

/// The config.
#[derive(Debug, Clone)]
pub struct Config {
    pub table: Table,
    pub batch_rows: usize,
    pub auto_upload: bool,
    pub deduplication: bool,
    pub developer_id: String,
    pub user_email: String,
    pub project_name: String,
    pub key_path: Option<PathBuf>,
    pub redact: Vec<String>,
    pub state: StateKind,
    /// Keys that mean nothing.
    pub unknown: Vec<String>,
}

/// Where the state is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateKind {
    File,
    DynamoDb { table: String, region: Option<String> },
}

/// What is wrong with the config.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no config at {}; README shows one", .0.display())]
    Missing(PathBuf),
    #[error("the config {} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("the config {} is not right: {}", path.display(), problems.join("; "))]
    Wrong { path: PathBuf, problems: Vec<String> },
}

/// Reads a config. `home` is what `~` stands for, `directory` the project's directory.
pub fn load(path: &Path, home: Option<&Path>, directory: &Path) -> Result<Config, Error> {
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

    /// A name that goes into SQL: nothing that could end a quoted name.
    fn name(&mut self, key: &str) -> String {
        let name = self.required(key);
        if !name.chars().all(|each| each.is_alphanumeric() || matches!(each, '-' | '_' | ':' | '.')) {
            self.problems.push(format!("{key} may hold letters, digits, '-', '_', '.' and ':' only"));
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
            if regex_syntax_error(pattern) {
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

fn regex_syntax_error(pattern: &str) -> bool {
    regex::Regex::new(pattern).is_err()
}

/// `~` is the home.
pub fn expand(path: &str, home: Option<&Path>) -> PathBuf {
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
