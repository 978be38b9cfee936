//! `sessync install-hook` and `uninstall-hook`: the hook that uploads at the end of every session.
//!
//! Promise: every other setting in the settings file keeps its place and its text. The old file is kept beside the
//! new one. A file that is not understood is not touched.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::report;
use crate::journal::disk::write_atomically;
use crate::redact::quoted;
use crate::settings::Process;

/// The settings file, below the project.
const SETTINGS: &str = ".claude/settings.json";
/// The member of the settings that has the hooks of each event.
const HOOKS: &str = "hooks";
/// When the hook runs.
const EVENT: &str = "SessionEnd";
/// How long Claude Code lets it run. That is longer than `--auto` takes.
const TIMEOUT_SECONDS: u32 = 60;
/// The `.gitignore` beside the config: except for the config, everything there belongs to this machine only.
const IGNORED: &str = "*\n!.gitignore\n!config.json\n";

/// Why the hook could not be installed or removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{} is not understood and was not changed: {reason}; correct it and try again", path.display())]
    NotUnderstood { path: PathBuf, reason: String },
    #[error("cannot read or write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// What was done.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Changed {
    settings: PathBuf,
    changed: bool,
    /// The copy of the old file.
    backup: Option<PathBuf>,
}

/// `sessync install-hook`
pub(super) fn run_install(
    process: &Process,
    command: Option<&str>,
    json: bool,
    out: &mut dyn Write,
) -> Result<u8, super::Error> {
    let command = command.map_or_else(|| default_command(process), str::to_owned);
    let changed = install(&process.directory, &command)?;
    print(&changed, &format!("Installed the hook: it runs `{command}` at the end of every session."), json, out)?;
    Ok(0)
}

/// `sessync uninstall-hook`
pub(super) fn run_uninstall(process: &Process, json: bool, out: &mut dyn Write) -> Result<u8, super::Error> {
    let changed = uninstall(&process.directory)?;
    print(&changed, "Removed the hook.", json, out)?;
    Ok(0)
}

fn print(changed: &Changed, done: &str, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return report::json(changed, out);
    }
    let path = changed.settings.display();
    match (changed.changed, &changed.backup) {
        (false, _) => writeln!(out, "Nothing to do in {path}."),
        (true, None) => writeln!(out, "{done} ({path})"),
        (true, Some(backup)) => writeln!(out, "{done} ({path}; the old file is kept as {})", backup.display()),
    }
}

/// What the hook runs. A session can end in another directory than it began in.
fn default_command(process: &Process) -> String {
    format!("cd \"${{CLAUDE_PROJECT_DIR:-.}}\" && {} upload --auto", program(process))
}

/// The name of this program if the shell finds this very program under it, otherwise its path.
fn program(process: &Process) -> String {
    const NAME: &str = "sessync";
    let Ok(this) = std::env::current_exe() else { return NAME.to_owned() };
    let mut directories = std::env::split_paths(&process.search_path);
    let found = directories.find_map(|directory| Some(directory.join(NAME)).filter(|path| path.is_file()));
    if found.and_then(|found| found.canonicalize().ok()) == this.canonicalize().ok() {
        return NAME.to_owned();
    }
    format!("'{}'", this.to_string_lossy().replace('\'', r"'\''"))
}

/// An object whose members keep their order and their text.
#[derive(Debug, Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        from.deserialize_map(Members)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Object {
    fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn remove(&mut self, name: &str) {
        self.0.retain(|(other, _)| other != name);
    }
}

/// Adds the hook, unless it is there.
fn install(project: &Path, command: &str) -> Result<Changed, Error> {
    ignore_state(&project.join(".claude/sessync"))?;
    edit(project, |text| {
        let (mut settings, mut hooks, mut entries) = parts(text)?;
        if entries.iter().any(|entry| is_ours(entry)) {
            return Ok(None);
        }
        let entry = serde_json::json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]});
        entries.push(raw(&entry)?);
        hooks.set(EVENT, raw(&entries)?);
        settings.set(HOOKS, raw(&hooks)?);
        pretty(&settings).map(Some)
    })
}

/// Removes the hook, and the objects that would be empty without it.
fn uninstall(project: &Path) -> Result<Changed, Error> {
    edit(project, |text| {
        let (mut settings, mut hooks, mut entries) = parts(text)?;
        let before = entries.len();
        entries.retain(|entry| !is_ours(entry));
        if entries.len() == before {
            return Ok(None);
        }
        match entries.is_empty() {
            true => hooks.remove(EVENT),
            false => hooks.set(EVENT, raw(&entries)?),
        }
        match hooks.0.is_empty() {
            true => settings.remove(HOOKS),
            false => settings.set(HOOKS, raw(&hooks)?),
        }
        pretty(&settings).map(Some)
    })
}

fn edit(
    project: &Path,
    change: impl FnOnce(&str) -> Result<Option<String>, serde_json::Error>,
) -> Result<Changed, Error> {
    let path = project.join(SETTINGS);
    let io_error = |source| Error::Io { path: path.clone(), source };
    let old = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error(error)),
    };
    let new = change(old.as_deref().unwrap_or("{}"))
        .map_err(|error| Error::NotUnderstood { path: path.clone(), reason: error.to_string() })?;
    let Some(new) = new else { return Ok(Changed { settings: path, changed: false, backup: None }) };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(io_error)?;
    }
    let backup = match old {
        None => None,
        Some(old) => {
            let backup = path.with_extension("json.before-sessync");
            write_atomically(&backup, &mut |to| to.write_all(old.as_bytes())).map_err(io_error)?;
            Some(backup)
        }
    };
    write_atomically(&path, &mut |to| to.write_all(new.as_bytes())).map_err(io_error)?;
    Ok(Changed { settings: path, changed: true, backup })
}

/// The settings, their hooks, and the entries of the event.
fn parts(text: &str) -> Result<(Object, Object, Vec<Box<RawValue>>), serde_json::Error> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let settings: Object = serde_json::from_str(text)?;
    let hooks: Object = match settings.get(HOOKS) {
        Some(hooks) => serde_json::from_str(hooks.get())?,
        None => Object::default(),
    };
    let entries = match hooks.get(EVENT) {
        Some(entries) => serde_json::from_str(entries.get())?,
        None => Vec::new(),
    };
    Ok((settings, hooks, entries))
}

/// Whether an entry runs sessync.
fn is_ours(entry: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        hooks: Vec<Command>,
    }
    #[derive(Deserialize)]
    struct Command {
        #[serde(default)]
        command: String,
    }
    serde_json::from_str::<Entry>(entry.get()).is_ok_and(|entry| {
        !entry.hooks.is_empty()
            && entry.hooks.iter().all(|hook| hook.command.contains("sessync") && hook.command.contains("--auto"))
    })
}

fn raw(value: &impl Serialize) -> Result<Box<RawValue>, serde_json::Error> {
    serde_json::value::to_raw_value(value)
}

fn pretty(settings: &Object) -> Result<String, serde_json::Error> {
    // Only the hooks were changed: they are laid out anew. Every other member is written as it was.
    let members: Vec<String> = settings
        .0
        .iter()
        .map(|(name, value)| {
            let text = match value.get() {
                text if name != HOOKS || text.contains('\n') || text.len() < 60 => text.to_owned(),
                text => serde_json::from_str::<serde_json::Value>(text)
                    .and_then(|value| serde_json::to_string_pretty(&value))
                    .map(|text| text.replace('\n', "\n  "))?,
            };
            Ok(format!("  {}: {text}", quoted(name)))
        })
        .collect::<Result<_, serde_json::Error>>()?;
    Ok(if members.is_empty() { "{}\n".to_owned() } else { format!("{{\n{}\n}}\n", members.join(",\n")) })
}

/// Keeps the state out of git. Adds what is missing to a `.gitignore` that is there already.
fn ignore_state(directory: &Path) -> Result<(), Error> {
    let path = directory.join(".gitignore");
    let io_error = |source| Error::Io { path: path.clone(), source };
    fs::create_dir_all(directory).map_err(io_error)?;
    let old = fs::read_to_string(&path).unwrap_or_default();
    if old.lines().any(|line| line.trim() == "*") {
        return Ok(());
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    write_atomically(&path, &mut |to| write!(to, "{old}{gap}{IGNORED}")).map_err(io_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "sessync upload --auto";

    fn project(settings: Option<&str>) -> tempfile::TempDir {
        let project = tempfile::tempdir().unwrap();
        if let Some(text) = settings {
            fs::create_dir_all(project.path().join(".claude")).unwrap();
            fs::write(project.path().join(SETTINGS), text).unwrap();
        }
        project
    }

    fn settings(project: &tempfile::TempDir) -> String {
        fs::read_to_string(project.path().join(SETTINGS)).unwrap()
    }

    #[test]
    fn it_is_merged_with_what_is_there_and_taken_out_again() {
        let before = "{\n  \"zebra\": {\n    \"b\": 1,   \"a\": 2.50\n  },\n  \"hooks\": {\"Stop\": [{\"hooks\": []}], \"SessionEnd\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"echo bye\"}]}]},\n  \"alpha\": true\n}\n";
        let project = project(Some(before));
        let changed = install(project.path(), COMMAND).unwrap();
        assert_eq!(fs::read_to_string(changed.backup.unwrap()).unwrap(), before);
        let after = settings(&project);
        assert!(after.contains("\"b\": 1,   \"a\": 2.50"), "{after}");
        assert!(after.find("zebra") < after.find("hooks") && after.find("hooks") < after.find("alpha"), "{after}");
        let value: serde_json::Value = serde_json::from_str(&after).unwrap();
        assert_eq!(value["hooks"]["SessionEnd"][0]["hooks"][0]["command"], "echo bye");
        assert_eq!(value["hooks"]["SessionEnd"][1]["hooks"][0]["command"], COMMAND);

        assert!(!install(project.path(), COMMAND).unwrap().changed, "a second time changes nothing");
        assert!(uninstall(project.path()).unwrap().changed);
        let value: serde_json::Value = serde_json::from_str(&settings(&project)).unwrap();
        let original: serde_json::Value = serde_json::from_str(before).unwrap();
        assert_eq!(value, original);
        assert!(!uninstall(project.path()).unwrap().changed);
    }

    #[test]
    fn a_long_setting_on_one_line_keeps_its_text() {
        let long = r#""permissions": {"deny": ["Read(./.env)"],   "allow": ["Bash(cargo test:*)", "Bash(cargo fmt:*)"], "ratio": 2.50}"#;
        let project = project(Some(&format!("{{{long}}}")));
        install(project.path(), COMMAND).unwrap();
        assert!(settings(&project).contains(long), "{}", settings(&project));
    }

    #[test]
    fn a_project_without_settings_gets_them_and_the_state_is_kept_out_of_git() {
        let project = project(None);
        install(project.path(), COMMAND).unwrap();
        assert!(settings(&project).contains(COMMAND));
        let ignored = fs::read_to_string(project.path().join(".claude/sessync/.gitignore")).unwrap();
        assert!(ignored.lines().any(|line| line == "*"));
        uninstall(project.path()).unwrap();
        assert_eq!(settings(&project), "{}\n");
    }

    #[test]
    fn settings_that_are_not_understood_are_left_alone() {
        for text in ["{ // a comment\n}", "[]", r#"{"hooks": {"SessionEnd": {}}}"#] {
            let project = project(Some(text));
            assert!(matches!(install(project.path(), COMMAND), Err(Error::NotUnderstood { .. })), "{text}");
            assert_eq!(settings(&project), text);
        }
    }
}
