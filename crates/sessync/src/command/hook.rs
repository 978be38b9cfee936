//! `sessync install-hook` and `uninstall-hook`: the hook that uploads at the end of every session, and the one that
//! says at the beginning of a session that uploads fail.
//!
//! Promise: every other setting in the settings file keeps its place and its text. The old file is kept beside the
//! new one. A file that is not understood is not touched.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::print;
use crate::dir::{Dir, Location, Readers, keep_state_out_of_git};
use crate::redact::quoted;
use crate::settings::Process;

/// The settings file, in the project's directory `.claude`.
const SETTINGS: &str = "settings.json";
/// A larger settings file is not read.
const MAX_SETTINGS_BYTES: u64 = 16 * 1024 * 1024;
/// The member of the settings that has the hooks of each event.
const HOOKS: &str = "hooks";
/// When the hooks run.
const END: &str = "SessionEnd";
const START: &str = "SessionStart";
/// How long Claude Code lets it run. That is longer than `--auto` takes.
const TIMEOUT_SECONDS: u32 = 60;

/// Why the hook could not be installed or removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{} is not understood and was not changed: {reason}; correct it and try again", path.display())]
    NotUnderstood { path: PathBuf, reason: String },
    #[error(
        "the command {0:?} has no `sessync` or no `--auto`, so it could not be recognised and removed later; name one with both, for example `sessync upload --auto`"
    )]
    NotOurs(String),
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
    let command = command.map_or_else(|| in_project(process, "upload --auto"), str::to_owned);
    if !runs_sessync(&command) {
        return Err(Error::NotOurs(command).into());
    }
    let changed = install(&process.directory, &command, &in_project(process, "notice --auto"))?;
    print_changed(
        &changed,
        &format!("Installed the hook: it runs `{command}` at the end of every session."),
        json,
        out,
    )?;
    Ok(0)
}

/// `sessync uninstall-hook`
pub(super) fn run_uninstall(process: &Process, json: bool, out: &mut dyn Write) -> Result<u8, super::Error> {
    let changed = uninstall(&process.directory)?;
    print_changed(&changed, "Removed the hook.", json, out)?;
    Ok(0)
}

fn print_changed(changed: &Changed, done: &str, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return print::json(changed, out);
    }
    let path = changed.settings.display();
    match (changed.changed, &changed.backup) {
        (false, _) => writeln!(out, "Nothing to do in {path}."),
        (true, None) => writeln!(out, "{done} ({path})"),
        (true, Some(backup)) => writeln!(out, "{done} ({path}; the old file is kept as {})", backup.display()),
    }
}

/// What a hook runs. A session can end in another directory than it began in.
fn in_project(process: &Process, command: &str) -> String {
    format!("cd \"${{CLAUDE_PROJECT_DIR:-.}}\" && {} {command}", program(process))
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

/// Adds the hooks, unless they are there.
fn install(project: &Path, upload: &str, notice: &str) -> Result<Changed, Error> {
    ignore_state(project)?;
    edit(project, |text| {
        let (mut settings, mut hooks) = parts(text)?;
        let mut changed = false;
        for (event, command) in [(END, upload), (START, notice)] {
            let mut entries = entries(&hooks, event)?;
            if entries.iter().any(|entry| is_ours(entry)) {
                continue;
            }
            let entry =
                serde_json::json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]});
            entries.push(raw(&entry)?);
            hooks.set(event, raw(&entries)?);
            changed = true;
        }
        settings.set(HOOKS, raw(&hooks)?);
        changed.then(|| pretty(&settings)).transpose()
    })
}

/// Removes the hooks, and the objects that would be empty without them.
fn uninstall(project: &Path) -> Result<Changed, Error> {
    edit(project, |text| {
        let (mut settings, mut hooks) = parts(text)?;
        let mut changed = false;
        for event in [END, START] {
            let mut entries = entries(&hooks, event)?;
            let before = entries.len();
            entries.retain(|entry| !is_ours(entry));
            if entries.len() == before {
                continue;
            }
            changed = true;
            match entries.is_empty() {
                true => hooks.remove(event),
                false => hooks.set(event, raw(&entries)?),
            }
        }
        match hooks.0.is_empty() {
            true => settings.remove(HOOKS),
            false => settings.set(HOOKS, raw(&hooks)?),
        }
        changed.then(|| pretty(&settings)).transpose()
    })
}

/// Whether the hooks of this project are installed: that at the end of a session, and that at its beginning.
pub(super) fn installed(project: &Path) -> Result<(bool, bool), Error> {
    let place = Location::plain(project).join(".claude");
    let failed = |source| Error::Io { path: place.path().join(SETTINGS), source };
    let Some(dir) = place.open().map_err(failed)? else { return Ok((false, false)) };
    let Some(text) = read(&dir)? else { return Ok((false, false)) };
    let has = |event| Ok(entries(&parts(&text)?.1, event)?.iter().any(|entry| is_ours(entry)));
    let not_understood = |error: serde_json::Error| Error::NotUnderstood {
        path: place.path().join(SETTINGS),
        reason: error.to_string(),
    };
    Ok((has(END).map_err(not_understood)?, has(START).map_err(not_understood)?))
}

fn read(dir: &Dir) -> Result<Option<String>, Error> {
    let failed = |source| Error::Io { path: dir.path().join(SETTINGS), source };
    let Some(content) = dir.read(SETTINGS, MAX_SETTINGS_BYTES).map_err(failed)? else { return Ok(None) };
    String::from_utf8(content).map(Some).map_err(|error| failed(io::Error::other(error)))
}

fn edit(
    project: &Path,
    change: impl FnOnce(&str) -> Result<Option<String>, serde_json::Error>,
) -> Result<Changed, Error> {
    let place = Location::plain(project).join(".claude");
    let path = place.path().join(SETTINGS);
    let io_error = |source| Error::Io { path: path.clone(), source };
    let dir = place.create().map_err(io_error)?;
    let old = read(&dir)?;
    let new = change(old.as_deref().unwrap_or("{}"))
        .map_err(|error| Error::NotUnderstood { path: path.clone(), reason: error.to_string() })?;
    let Some(new) = new else { return Ok(Changed { settings: path, changed: false, backup: None }) };
    let backup = match old {
        None => None,
        Some(old) => {
            let backup = format!("{SETTINGS}.before-sessync");
            dir.replace(&backup, Readers::Usual, &mut |to| to.write_all(old.as_bytes())).map_err(io_error)?;
            Some(dir.path().join(backup))
        }
    };
    dir.replace(SETTINGS, Readers::Usual, &mut |to| to.write_all(new.as_bytes())).map_err(io_error)?;
    Ok(Changed { settings: path, changed: true, backup })
}

/// The settings and their hooks.
fn parts(text: &str) -> Result<(Object, Object), serde_json::Error> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let settings: Object = serde_json::from_str(text)?;
    let hooks: Object = match settings.get(HOOKS) {
        Some(hooks) => serde_json::from_str(hooks.get())?,
        None => Object::default(),
    };
    Ok((settings, hooks))
}

/// The entries of an event.
fn entries(hooks: &Object, event: &str) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    match hooks.get(event) {
        Some(entries) => serde_json::from_str(entries.get()),
        None => Ok(Vec::new()),
    }
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
    serde_json::from_str::<Entry>(entry.get())
        .is_ok_and(|entry| !entry.hooks.is_empty() && entry.hooks.iter().all(|hook| runs_sessync(&hook.command)))
}

/// Whether a hook with this command is recognised as sessync's.
fn runs_sessync(command: &str) -> bool {
    command.contains("sessync") && command.contains("--auto")
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

/// Keeps everything beside the config out of git. Adds what is missing to a `.gitignore` that is there already.
fn ignore_state(project: &Path) -> Result<(), Error> {
    let place = Location::plain(project).join(".claude").join("sessync");
    let io_error = |source| Error::Io { path: place.path(), source };
    keep_state_out_of_git(&place.create().map_err(io_error)?).map_err(io_error)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOTICE: &str = "sessync notice --auto";
    const COMMAND: &str = "sessync upload --auto";

    fn project(settings: Option<&str>) -> tempfile::TempDir {
        let project = tempfile::tempdir().unwrap();
        if let Some(text) = settings {
            fs::create_dir_all(project.path().join(".claude")).unwrap();
            fs::write(project.path().join(".claude").join(SETTINGS), text).unwrap();
        }
        project
    }

    fn settings(project: &tempfile::TempDir) -> String {
        fs::read_to_string(project.path().join(".claude").join(SETTINGS)).unwrap()
    }

    #[test]
    fn it_is_merged_with_what_is_there_and_taken_out_again() {
        let before = "{\n  \"zebra\": {\n    \"b\": 1,   \"a\": 2.50\n  },\n  \"hooks\": {\"Stop\": [{\"hooks\": []}], \"SessionEnd\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"echo bye\"}]}]},\n  \"alpha\": true\n}\n";
        let project = project(Some(before));
        let changed = install(project.path(), COMMAND, NOTICE).unwrap();
        assert_eq!(fs::read_to_string(changed.backup.unwrap()).unwrap(), before);
        let after = settings(&project);
        assert!(after.contains("\"b\": 1,   \"a\": 2.50"), "{after}");
        assert!(after.find("zebra") < after.find("hooks") && after.find("hooks") < after.find("alpha"), "{after}");
        let value: serde_json::Value = serde_json::from_str(&after).unwrap();
        assert_eq!(value["hooks"]["SessionEnd"][0]["hooks"][0]["command"], "echo bye");
        assert_eq!(value["hooks"]["SessionEnd"][1]["hooks"][0]["command"], COMMAND);
        assert_eq!(value["hooks"]["SessionStart"][0]["hooks"][0]["command"], NOTICE);
        assert_eq!(installed(project.path()).unwrap(), (true, true));

        assert!(!install(project.path(), COMMAND, NOTICE).unwrap().changed, "a second time changes nothing");
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
        install(project.path(), COMMAND, NOTICE).unwrap();
        assert!(settings(&project).contains(long), "{}", settings(&project));
    }

    #[test]
    fn a_project_without_settings_gets_them_and_the_state_is_kept_out_of_git() {
        let project = project(None);
        install(project.path(), COMMAND, NOTICE).unwrap();
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
            assert!(matches!(install(project.path(), COMMAND, NOTICE), Err(Error::NotUnderstood { .. })), "{text}");
            assert_eq!(settings(&project), text);
        }
    }

    #[test]
    fn a_hook_of_an_earlier_version_gets_its_notice() {
        let project = project(None);
        install(project.path(), COMMAND, NOTICE).unwrap();
        let only_end = settings(&project).replace("SessionStart", "Stop").replace(NOTICE, "true");
        fs::write(project.path().join(".claude").join(SETTINGS), only_end).unwrap();
        assert!(install(project.path(), COMMAND, NOTICE).unwrap().changed);
        let value: serde_json::Value = serde_json::from_str(&settings(&project)).unwrap();
        assert_eq!(value["hooks"]["SessionEnd"].as_array().unwrap().len(), 1);
        assert_eq!(value["hooks"]["SessionStart"][0]["hooks"][0]["command"], NOTICE);
    }

    #[test]
    fn a_settings_file_or_directory_that_is_a_link_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("rc"), "precious").unwrap();
        let linked = project(Some("{}"));
        let settings = linked.path().join(".claude").join(SETTINGS);
        fs::remove_file(&settings).unwrap();
        std::os::unix::fs::symlink(outside.path().join("rc"), &settings).unwrap();
        assert!(matches!(install(linked.path(), COMMAND, NOTICE), Err(Error::Io { .. })));
        let linked = project(None);
        std::os::unix::fs::symlink(outside.path(), linked.path().join(".claude")).unwrap();
        assert!(matches!(install(linked.path(), COMMAND, NOTICE), Err(Error::Io { .. })));
        assert_eq!(fs::read_to_string(outside.path().join("rc")).unwrap(), "precious");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
