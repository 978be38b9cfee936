//! The session files of the Codex CLI: `~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-SESSION.jsonl`.
//!
//! The first line (`session_meta`) names the session, its directory and the version. Every other line has a time, a
//! type and a payload. Lines have no uuid, so sessync makes one from the bytes of the line. Equal lines therefore
//! have the same uuid: a line that a resumed session copies into another file is the same line.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Source;
use super::files::{Discovery, Log, Scope};
use super::line::{Head, Line, Reason, json, required, string};
use super::reader::Lines;

/// What the column `user_type` says of its lines.
pub(crate) const USER_TYPE: &str = "codex";

/// The Codex CLI.
#[derive(Debug)]
pub struct Codex;

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Meta {
    id: Option<String>,
    cwd: Option<String>,
    cli_version: Option<String>,
    git: Option<Git>,
}

#[derive(Deserialize)]
struct Git {
    branch: Option<String>,
}

impl Source for Codex {
    /// All of them, whatever the scope: the directory is by day, and only the files say whose they are.
    fn find(&self, root: &Path, prefix: &str, _: &Scope) -> Discovery {
        Discovery::below(root, prefix)
    }

    fn head(&self, log: &Log) -> io::Result<Head> {
        let mut lines = Lines::new(File::open(&log.path)?, 0, log.stat.size);
        let first = lines.next_line()?.and_then(|raw| raw.text.map(<[u8]>::to_vec)).unwrap_or_default();
        let entry = serde_json::from_slice::<Entry<'_>>(&first).ok();
        let is_meta = |entry: &Entry<'_>| string(entry.kind).is_some_and(|kind| kind == "session_meta");
        let meta = entry.filter(is_meta).and_then(|entry| serde_json::from_str::<Meta>(entry.payload?.get()).ok());
        // The name of the file ends with the session's id, a uuid.
        let name = log.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let from_name = name.get(name.len().saturating_sub(36)..).unwrap_or(&name).to_owned();
        Ok(match meta {
            Some(meta) => Head {
                session: Some(meta.id.unwrap_or(from_name)),
                cwd: meta.cwd,
                version: meta.cli_version,
                branch: meta.git.and_then(|git| git.branch),
            },
            None => Head { session: Some(from_name), ..Head::default() },
        })
    }

    fn is_foreign(&self, log: &Log, scope: &Scope) -> io::Result<bool> {
        let Scope::Project(project) = scope else { return Ok(false) };
        // A session that does not say where it ran is nobody's.
        Ok(!self.head(log)?.cwd.is_some_and(|cwd| Path::new(&cwd).starts_with(project)))
    }

    fn line<'a>(&self, head: &'a Head, text: &'a [u8]) -> Result<Line<'a>, Reason> {
        let whole = std::str::from_utf8(text).map_err(|_| Reason::NotUtf8)?;
        if !whole.trim_start().starts_with('{') {
            return Err(Reason::NotJson);
        }
        let entry: Entry<'a> = serde_json::from_str(whole).map_err(|_| Reason::NotJson)?;
        let timestamp = required(entry.timestamp, Reason::NoTimestamp)?;
        let kind = required(entry.kind, Reason::NoType)?;
        let payload = entry.payload.and_then(|payload| serde_json::from_str::<Payload<'a>>(payload.get()).ok());
        let kind = match payload {
            Some(Payload { kind: Some(of), role: Some(role) }) if kind == "response_item" && of == "message" => role,
            Some(Payload { kind: Some(of), .. }) => of,
            _ => kind,
        };
        let uuid = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, text).to_string();
        let of_head = |value: &'a Option<String>| value.as_deref().map(Cow::Borrowed);
        Ok(Line {
            uuid: Cow::Owned(uuid),
            timestamp,
            session_id: of_head(&head.session).filter(|id| !id.is_empty()).ok_or(Reason::NoSessionId)?,
            kind,
            message: json(entry.payload),
            tool_use_result: None,
            agent_id: None,
            is_sidechain: None,
            parent_uuid: None,
            user_type: Some(Cow::Borrowed(USER_TYPE)),
            slug: None,
            request_id: None,
            cwd: of_head(&head.cwd),
            git_branch: of_head(&head.branch),
            version: of_head(&head.version),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::source::line::Key;

    const META: &str = r#"{"timestamp":"2026-11-01T00:00:00.000Z","type":"session_meta","payload":{"id":"0199a213-81c0-7800-8aa1-bbab2a035a53","cwd":"/src/app","cli_version":"0.46.0","git":{"branch":"main"}}}"#;
    const USER: &str = r#"{"timestamp":"2026-11-01T00:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}"#;
    const COUNT: &str =
        r#"{"timestamp":"2026-11-01T00:00:02.000Z","type":"event_msg","payload":{"type":"token_count","info":null}}"#;

    fn sessions(text: &str) -> (tempfile::TempDir, Vec<Log>) {
        let root = tempfile::tempdir().unwrap();
        let day = root.path().join("2026/11/01");
        std::fs::create_dir_all(&day).unwrap();
        std::fs::write(day.join("rollout-2026-11-01T00-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"), text)
            .unwrap();
        let logs = Codex.find(root.path(), "codex/", &Scope::All).logs;
        (root, logs)
    }

    #[test]
    fn a_line_gets_what_the_first_line_of_its_file_says() {
        let (_root, logs) = sessions(&format!("{META}\n{USER}\n{COUNT}\n"));
        assert!(logs[0].name.starts_with("codex/2026/11/01/rollout-"), "{}", logs[0].name);
        let head = Codex.head(&logs[0]).unwrap();
        let line = Codex.line(&head, USER.as_bytes()).unwrap();
        assert_eq!(
            (&*line.kind, line.cwd.as_deref(), line.version.as_deref()),
            ("user", Some("/src/app"), Some("0.46.0"))
        );
        assert_eq!(
            (&*line.session_id, line.git_branch.as_deref()),
            ("0199a213-81c0-7800-8aa1-bbab2a035a53", Some("main"))
        );
        assert!(line.message.unwrap().contains("hello"));
        assert_eq!(Codex.line(&head, COUNT.as_bytes()).unwrap().kind, "token_count");
        assert_eq!(Codex.line(&head, b"[1]").unwrap_err(), Reason::NotJson);
        assert_eq!(Codex.line(&head, br#"{"type":"message","role":"user"}"#).unwrap_err(), Reason::NoTimestamp);
    }

    #[test]
    fn a_line_is_the_same_in_every_file_and_unlike_every_other() {
        let one = Head { session: Some("s1".to_owned()), ..Head::default() };
        let two = Head { session: Some("s2".to_owned()), ..Head::default() };
        let key = |head: &Head, text: &str| Key::of(&Codex.line(head, text.as_bytes()).unwrap());
        assert_eq!(key(&one, USER), key(&two, USER));
        assert_ne!(key(&one, USER), key(&one, COUNT));
    }

    #[test]
    fn a_session_belongs_to_the_directory_it_ran_in() {
        let (_root, logs) = sessions(&format!("{META}\n{USER}\n"));
        let foreign = |project: &str| Codex.is_foreign(&logs[0], &Scope::Project(PathBuf::from(project))).unwrap();
        assert!(!foreign("/src/app") && !foreign("/src") && foreign("/src/app2") && foreign("/other"));
        let (_root, logs) = sessions("junk\n");
        assert!(Codex.is_foreign(&logs[0], &Scope::Project(PathBuf::from("/src/app"))).unwrap());
        assert_eq!(Codex.head(&logs[0]).unwrap().session.as_deref(), Some("0199a213-81c0-7800-8aa1-bbab2a035a53"));
    }
}
