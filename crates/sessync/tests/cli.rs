//! The program as a user runs it, against the stand-in behind a socket.

mod support;

use std::fs;

use emulator::bigquery::{Fault, Faults};
use support::server::{Home, Moment, Server, text};
use support::{assert_same, expected, line, uploaded};

fn lines(count: i64) -> Vec<String> {
    (0..count).map(|at| line(&format!("uuid-{at}"), "s1", &format!("text {at}"), at)).collect()
}

#[test]
fn twice_in_a_row_uploads_once() {
    let server = Server::start(1);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(45));
    assert!(home.ok(&[]).contains("Uploaded 45 rows in 5 batches"));
    assert!(home.ok(&["upload"]).contains("Nothing to do"));
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "twice");
    let row = server.standin.rows(support::DATASET, support::TABLE).remove(3);
    assert_eq!(row["developer_id"], "dev");
    assert_eq!(row["project_name"], "app");
    assert!(row["source_file"].as_str().unwrap().ends_with("/a.jsonl"));
    assert!(serde_json::from_str::<serde_json::Value>(row["message"].as_str().unwrap()).unwrap()["role"].is_string());
    let status = home.json(&["status"]);
    assert_eq!((status["uploaded"].as_u64(), status["not_uploaded"].as_u64()), (Some(45), Some(0)));
    assert_eq!(home.json(&["verify"])["uploaded"], 45);
}

#[test]
fn killed_with_signal_nine_around_any_request_the_next_run_does_the_rest() {
    let server = Server::start(2);
    for (round, forgetful) in (0..24).zip([false, true].into_iter().cycle()) {
        let home = Home::new(&server);
        home.write("a.jsonl", &lines(60));
        server.standin.clear();
        server.standin.set_faults(Faults { forgetful, ..Faults::default() });
        let (number, moment) = (round / 4, if round % 4 < 2 { Moment::BeforeHandling } else { Moment::BeforeReplying });
        let child = std::sync::Arc::new(std::sync::Mutex::new(home.spawn(&["upload"])));
        let victim = child.clone();
        server.interfere(Box::new(move |at, when| {
            if (at, when) == (number, moment) {
                victim.lock().unwrap().kill().unwrap();
            }
        }));
        // Polled, so that the server can take the lock and kill it meanwhile.
        let status = loop {
            if let Some(status) = child.lock().unwrap().try_wait().unwrap() {
                break status;
            }
            std::thread::yield_now();
        };
        server.leave_alone();
        assert!(!status.success(), "round {round}: it should have been killed");
        home.ok(&["upload"]);
        assert_same(&uploaded(&server.standin), &expected(&home.root()), &format!("round {round}"));
        assert!(home.ok(&[]).contains("Nothing to do"));
    }
}

#[test]
fn two_at_once_upload_each_line_once() {
    let server = Server::start(3);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(200));
    let children: Vec<_> = (0..4).map(|_| home.spawn(&["upload"])).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "four at once");
}

#[test]
fn a_dry_run_shows_what_would_be_done_and_does_nothing() {
    let server = Server::start(4);
    let home = Home::new(&server);
    let secret = format!("ghp_{}", "a1B2c3".repeat(6));
    let mut all = lines(5);
    all.push(line("secret", "s1", &format!("my token is {secret}"), 7));
    all.push("garbage".into());
    home.write("a.jsonl", &all);
    let shown = home.ok(&["--dry-run"]);
    assert!(shown.contains("Would upload 6 of 7 lines"), "{shown}");
    assert!(shown.contains("1 github-token") && shown.contains("1 not_json") && !shown.contains(&secret), "{shown}");
    assert_eq!(server.standin.calls(), (0, 0));
    assert!(!home.state().exists());
    home.ok(&[]);
    let rows = serde_json::to_string(&server.standin.rows(support::DATASET, support::TABLE)).unwrap();
    assert!(!rows.contains(&secret) && rows.contains("[REDACTED:github-token]"), "secrets are not uploaded");
}

#[test]
fn what_cannot_be_done_is_said_with_exit_code_one_and_usage_with_two() {
    let server = Server::start(5);
    let home = Home::new(&server);
    assert_eq!(home.run(&["--nonsense"]).status.code(), Some(2));
    assert_eq!(home.run(&["forget"]).status.code(), Some(2));
    assert!(home.ok(&["--version"]).starts_with("sessync "));
    assert!(home.ok(&["completions", "bash"]).contains("sessync"));
    let nothing = home.ok(&[]);
    assert!(nothing.contains("No logs found") && nothing.contains(home.logs().to_str().unwrap()), "{nothing}");
    let bad = line("bad", "s", "x", 1).replace("\"timestamp\":\"2", "\"timestamp\":\"someday 2");
    home.write("a.jsonl", &[bad, line("good", "s", "x", 2)]);
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("1 row set aside"), "{}", text(&output));
    assert_eq!(server.standin.rows(support::DATASET, support::TABLE).len(), 1);
    fs::write(home.project().join(".claude/sessync/config.json"), r#"{"table":"t"}"#).unwrap();
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    for key in ["project_id", "dataset", "developer_id", "user_email"] {
        assert!(text(&output).contains(key), "{key}: {}", text(&output));
    }
    assert!(home.run(&["--auto", "--of-another-version"]).status.success(), "a hook never fails its caller");
    let output = home.run(&["--auto"]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output));
}

#[test]
fn missing_tables_are_named_and_schema_creates_them() {
    let server = Server::start(6);
    server.standin.set_faults(Faults { strict_tables: true, ..Faults::default() });
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(3));
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("sessync schema --create"), "{}", text(&output));
    assert!(home.ok(&["schema"]).contains("CREATE TABLE IF NOT EXISTS `acme.logs.sessions`"));
    home.ok(&["schema", "--create"]);
    home.ok(&[]);
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "after schema --create");
}

#[test]
fn a_forgotten_line_is_uploaded_again_and_no_other() {
    let server = Server::start(7);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(30));
    home.ok(&[]);
    server.standin.forget_insert_ids();
    home.ok(&["forget", "uuid-7"]);
    assert_eq!(home.json(&[])["uploaded"], 1);
    assert_eq!(home.json(&[])["uploaded"], 0);
    let rows = server.standin.rows(support::DATASET, support::TABLE);
    assert_eq!(rows.iter().filter(|row| row["uuid"] == "uuid-7").count(), 2);
    assert_eq!(rows.len(), 31);
    assert_eq!(home.run(&["forget", "nobody"]).status.code(), Some(1));
    let output = home.run(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(1), "a doubled row is found");
    assert!(text(&output).contains("uuid-7"));
}

#[test]
fn a_damaged_journal_is_set_aside_and_rebuilt_from_the_destination() {
    let server = Server::start(8);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(40));
    home.ok(&[]);
    server.standin.forget_insert_ids();
    let journal = home.state().join("journal");
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let mut more = lines(40);
    more.push(line("new", "s1", "new", 99));
    home.write("a.jsonl", &more);
    assert_eq!(home.run(&["status"]).status.code(), Some(1));
    server.standin.fail_next_queries((0..1).map(|_| Fault::Refuse { status: 403, retry_after: None }));
    assert_eq!(home.run(&[]).status.code(), Some(1), "without the destination there is nothing to rebuild from");
    let output = home.run(&[]);
    assert!(text(&output).contains("rebuilt from BigQuery"), "{}", text(&output));
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "after a rebuild");
    let kept = fs::read_dir(home.state())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("journal.damaged-"));
    assert!(kept.count() >= 2, "the journal and the reason");
    assert!(home.ok(&[]).contains("Nothing to do"));
}

#[test]
fn the_old_state_file_is_imported_once_and_can_be_exported() {
    let server = Server::start(9);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(10));
    let sessync = home.project().join(".claude/sessync");
    let old = r#"{"last_upload_timestamp":"2024-12-24T10:35:00Z","uploaded_uuids":["uuid-0","uuid-1","uuid-2"],"last_upload_batch_id":"b","total_uploaded":3}"#;
    fs::write(sessync.join("upload-state.json"), old).unwrap();
    assert_eq!(home.json(&["status"])["not_uploaded"], 7);
    assert_eq!(home.json(&[])["uploaded"], 7);
    home.ok(&["export-state"]);
    assert!(fs::read_to_string(sessync.join(".gitignore")).unwrap().starts_with("*\n"), "it must not get into git");
    let state: serde_json::Value =
        serde_json::from_slice(&fs::read(sessync.join("upload-state.json")).unwrap()).unwrap();
    assert_eq!(state["uploaded_uuids"].as_array().unwrap().len(), 10);
    assert_eq!(state["total_uploaded"], 10);
    assert!(state["last_upload_batch_id"].is_string() && state["last_upload_timestamp"].is_string());
    home.config(serde_json::json!({"table": "other"}));
    assert_eq!(home.json(&[])["uploaded"], 10, "another destination has its own state");
    home.config(serde_json::json!({}));
    assert_eq!(home.json(&[])["uploaded"], 0, "and the first one still has its");
}

#[test]
fn reset_begins_anew_and_rebuild_takes_what_is_there() {
    let server = Server::start(10);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(12));
    home.ok(&[]);
    home.ok(&["reset", "--rebuild"]);
    server.standin.forget_insert_ids();
    assert_eq!(home.json(&[])["uploaded"], 0);
    assert!(home.ok(&["--dry-run"]).contains("Would upload nothing"));
    home.ok(&["reset"]);
    assert_eq!(home.json(&[])["uploaded"], 12);
    fs::remove_dir_all(home.state_root()).unwrap();
    let said = home.ok(&["reset"]);
    assert!(said.contains("sends everything") && said.contains("sessync reset --rebuild"), "{said}");
}

#[test]
fn a_full_disk_stops_before_the_next_batch_and_loses_nothing() {
    let server = Server::start(11);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(400));
    let program = env!("CARGO_BIN_EXE_sessync");
    // The largest size of a file, in blocks of 512 bytes.
    for blocks in [1, 3, 5, 8, 12, 17] {
        let mut command = std::process::Command::new("/bin/sh");
        let inner = home.command(&[]);
        for (name, value) in inner.get_envs() {
            command.env(name, value.unwrap());
        }
        command.current_dir(home.project());
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec '{program}' upload");
        let output = command.args(["-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{blocks}: {}", text(&output));
        assert!(text(&output).contains("cannot be written"), "{blocks}: {}", text(&output));
        let there = uploaded(&server.standin);
        assert!(there.len() < 400 && there.values().all(|count| *count == 1), "{blocks}: {}", there.len());
        server.standin.forget_insert_ids();
    }
    home.ok(&[]);
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "after a full disk");
}

#[test]
fn a_state_directory_that_cannot_be_written_stops_before_anything_is_sent() {
    let server = Server::start(12);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(4));
    // Not a directory: even a user who may write everywhere cannot write below it.
    fs::create_dir_all(home.directory.path().join(".local")).unwrap();
    fs::write(home.directory.path().join(".local/state"), "").unwrap();
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(server.standin.calls().0, 0);
    assert!(text(&output).contains("state cannot be"), "{}", text(&output));
}

#[test]
fn the_hook_is_installed_runs_and_is_taken_out() {
    let server = Server::start(13);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(4));
    home.ok(&["install-hook"]);
    home.trust();
    let settings: serde_json::Value =
        serde_json::from_slice(&fs::read(home.project().join(".claude/settings.json")).unwrap()).unwrap();
    let command = settings["hooks"]["SessionEnd"][0]["hooks"][0]["command"].as_str().unwrap();
    let mut shell = std::process::Command::new("/bin/sh");
    shell.env_clear();
    for (name, value) in home.command(&[]).get_envs() {
        shell.env(name, value.unwrap());
    }
    let output = shell.current_dir(home.project()).args(["-c", command]).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output));
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "by the hook");
    home.ok(&["uninstall-hook"]);
    home.config(serde_json::json!({"enable_auto_upload": false}));
    home.trust();
    home.write("b.jsonl", &lines(9));
    home.ok(&["--auto"]);
    assert_eq!(server.standin.rows(support::DATASET, support::TABLE).len(), 4, "--auto may be turned off");
}

#[test]
fn all_projects_are_uploaded_when_asked_for() {
    let server = Server::start(14);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(3));
    let other = home.root().join("-elsewhere");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("b.jsonl"), line("other", "s", "x", 1) + "\n").unwrap();
    assert_eq!(home.json(&[])["uploaded"], 3);
    assert_eq!(home.json(&["--all-projects"])["uploaded"], 1);
}

#[test]
fn status_says_how_old_the_oldest_line_is_that_is_not_uploaded() {
    let server = Server::start(15);
    let home = Home::new(&server);
    let old = line("old", "s", "x", 1).replace("\"timestamp\":\"2026-09-21", "\"timestamp\":\"2024-01-01");
    assert!(old.contains("2024-01-01"), "{old}");
    home.write("a.jsonl", &[old]);
    let shown = home.ok(&["status"]);
    assert!(
        shown.contains("1 line, the oldest of 2024-01-01") && shown.contains("deletes transcripts after 30 days"),
        "{shown}"
    );
    fs::write(home.directory.path().join(".claude/settings.json"), r#"{"cleanupPeriodDays": 99999}"#).unwrap();
    let shown = home.ok(&["status"]);
    assert!(!shown.contains("Warning"), "{shown}");
}

#[test]
fn a_project_whose_state_is_gone_asks_the_destination_before_it_sends_anything() {
    let server = Server::start(16);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(25));
    home.ok(&[]);
    server.standin.forget_insert_ids();
    fs::remove_dir_all(home.state_root()).unwrap();
    let output = home.run(&["--json"]);
    assert!(text(&output).contains("BigQuery has 25 rows"), "{}", text(&output));
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "after the state was lost");
}

#[test]
fn a_rebuild_reads_the_rows_of_this_developer_and_project_only() {
    let server = Server::start(17);
    let (home, colleague) = (Home::new(&server), Home::new(&server));
    home.write("a.jsonl", &lines(5));
    home.ok(&[]);
    colleague.config(serde_json::json!({"developer_id": "colleague"}));
    colleague.write("a.jsonl", &(0..3000).map(|at| line(&format!("theirs-{at}"), "s1", "x", at)).collect::<Vec<_>>());
    colleague.ok(&[]);
    assert_eq!(home.json(&["reset", "--rebuild"])["rows"], 5);
    home.ok(&["export-state", "--from-destination"]);
    let exported = fs::read_to_string(home.project().join(".claude/sessync/upload-state.json")).unwrap();
    assert!(!exported.contains("theirs-"), "another developer's lines are not ours");
}

#[test]
fn a_project_under_another_name_finds_the_lines_that_it_has_uploaded_under_the_old_one() {
    let server = Server::start(30);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(25));
    home.write("b.jsonl", &lines(5));
    home.ok(&[]);
    server.standin.forget_insert_ids();
    // The checkout is renamed, and the directory of its logs with it.
    let moved = home.project().parent().unwrap().join("renamed");
    fs::rename(home.project(), &moved).unwrap();
    let name = sessync::source::files::names(&moved).remove(0);
    fs::rename(home.logs(), home.root().join(name)).unwrap();
    let config = moved.join(".claude/sessync/config.json");
    fs::write(&config, fs::read_to_string(&config).unwrap().replace(",\"project_name\":\"app\"", "")).unwrap();
    let output = home.command(&[]).current_dir(&moved).output().unwrap();
    assert!(text(&output).contains("BigQuery has 25 rows"), "{}", text(&output));
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "after the checkout was renamed");
    // A name in the config that was changed by hand is no other case, and other projects are not taken in.
    let other = Home::new(&server);
    other.config(serde_json::json!({"project_name": "another"}));
    other.write("c.jsonl", &[line("other-1", "s1", "x", 1)]);
    other.ok(&[]);
    fs::write(&config, fs::read_to_string(&config).unwrap().replace("{", "{\"project_name\":\"by-hand\",")).unwrap();
    let output = home.command(&["reset", "--rebuild", "--json"]).current_dir(&moved).output().unwrap();
    assert!(text(&output).contains("\"rows\":25"), "{}", text(&output));
}

#[test]
fn verify_finds_a_row_that_is_there_twice_also_after_a_rebuild() {
    let server = Server::start(31);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    home.ok(&[]);
    server.standin.forget_insert_ids();
    home.ok(&["forget", "uuid-3"]);
    home.ok(&[]);
    for _ in 0..2 {
        home.ok(&["reset", "--rebuild"]);
        let output = home.run(&["verify", "--json"]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((found["doubled"].as_u64(), found["missing"].as_u64()), (Some(1), Some(0)), "{found}");
        home.ok(&[]);
    }
}

#[test]
fn a_secret_in_an_identifying_column_is_not_uploaded_and_its_line_is_uploaded_once() {
    let server = Server::start(32);
    let home = Home::new(&server);
    let secret = format!("ghp_{}", "a1B2c3D4".repeat(5).get(..36).unwrap());
    let with = |uuid: &str, session: &str, at: i64| line(uuid, session, "x", at);
    home.write("a.jsonl", &[with(&secret, "s1", 1), with("u2", &format!("s {secret}"), 2), with("u3", "s3", 3)]);
    assert_eq!(home.json(&[])["uploaded"], 3);
    let rows = serde_json::to_string(&server.standin.rows(support::DATASET, support::TABLE)).unwrap();
    assert!(!rows.contains(&secret) && rows.contains("[REDACTED:github-token]"), "{rows}");
    home.ok(&["reset", "--rebuild"]);
    server.standin.forget_insert_ids();
    assert_eq!(home.json(&[])["uploaded"], 0);
    assert_eq!(home.json(&["verify"])["uploaded"], 3);
}

#[test]
fn equal_lines_of_codex_are_one_and_the_summary_says_so() {
    let server = Server::start(33);
    let home = Home::new(&server);
    let day = home.directory.path().join(".codex/sessions/2026/11/01");
    fs::create_dir_all(&day).unwrap();
    let meta = serde_json::json!({"timestamp": "2026-11-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s1", "cwd": home.project()}});
    let said = serde_json::json!({"timestamp": "2026-11-01T00:00:01Z", "type": "event_msg", "payload": {"type": "agent_message"}});
    fs::write(day.join("rollout-s1.jsonl"), format!("{meta}\n{said}\n{said}\n")).unwrap();
    let said = home.ok(&[]);
    assert!(said.contains("Uploaded 2 rows") && said.contains("1 line equal to one that is uploaded"), "{said}");
}

#[test]
fn a_control_character_in_a_name_does_not_reach_the_terminal_or_the_page() {
    let server = Server::start(34);
    let home = Home::new(&server);
    let bad = "evil\u{1b}[2J";
    let response = serde_json::json!({
        "uuid": "u1", "timestamp": "2026-11-01T00:00:00Z", "sessionId": "s", "type": "assistant", "requestId": "r1", "cwd": "/src/app",
        "message": {"id": "m1", "model": bad, "usage": {"input_tokens": 1, "output_tokens": 1}},
    });
    home.write(&format!("{bad}.jsonl"), &[response.to_string(), "junk".to_owned()]);
    let page = home.directory.path().join("usage.html");
    let mut said = home.ok(&["report", "--html", page.to_str().unwrap()]);
    said.push_str(&home.ok(&[]));
    let project = home.project().parent().unwrap().join(bad);
    fs::rename(home.project(), &project).unwrap();
    let output = home.command(&[]).env_remove("SESSYNC_TRUST").current_dir(&project).output().unwrap();
    said.push_str(&text(&output));
    let output = home.command(&["--auto"]).current_dir(&project).output().unwrap();
    said.push_str(&text(&output));
    assert!(said.matches("evil\\u{1b}[2J").count() >= 4, "{said}");
    assert!(!said.contains('\u{1b}') && !fs::read_to_string(&page).unwrap().contains('\u{1b}'));
}

#[test]
fn a_hook_that_could_not_be_recognised_later_is_not_installed() {
    let server = Server::start(35);
    let home = Home::new(&server);
    for command in ["my-wrapper", "sessync upload", "my-wrapper --auto"] {
        let output = home.run(&["install-hook", "--command", command]);
        assert!(!output.status.success() && text(&output).contains("--auto"), "{}", text(&output));
    }
    assert!(!home.project().join(".claude/settings.json").exists());
    home.ok(&["install-hook", "--command", "nice sessync upload --auto"]);
    assert!(home.ok(&["uninstall-hook"]).contains("Removed"));
}

#[test]
fn an_answer_that_is_not_understood_ends_the_run_at_once_and_keeps_the_batch() {
    let server = Server::start(18);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(3));
    home.ok(&[]);
    home.write("a.jsonl", &lines(6));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = requests.clone();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let mut buffer = vec![0; 65536];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\nconnection: close\r\n\r\n<html>please sign in</ht",
            );
        }
    });
    let output = home.command(&[]).env("BIGQUERY_EMULATOR_HOST", &address).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("<html>please sign in"), "it says what came: {}", text(&output));
    assert_eq!(requests.load(std::sync::atomic::Ordering::SeqCst), 1, "it does not try again");
    home.ok(&[]);
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "the next run asks what arrived");
}

#[test]
fn an_imported_state_file_that_is_edited_or_deleted_is_noticed_once() {
    let server = Server::start(19);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(4));
    let file = home.project().join(".claude/sessync/upload-state.json");
    fs::write(&file, r#"{"uploaded_uuids":["uuid-0"],"total_uploaded":1}"#).unwrap();
    assert!(!text(&home.run(&[])).contains("no effect"));
    fs::write(&file, r#"{"uploaded_uuids":[],"total_uploaded":0}"#).unwrap();
    assert!(home.ok(&["status"]).contains("changed after it was imported"));
    assert!(text(&home.run(&[])).contains("no effect"));
    assert!(!text(&home.run(&[])).contains("no effect"), "once");
    fs::remove_file(&file).unwrap();
    assert!(text(&home.run(&[])).contains("deleted after it was imported"));
    home.ok(&["export-state"]);
    assert!(!text(&home.run(&[])).contains("no effect"), "what sessync writes itself is no change");
}

#[test]
fn a_hook_that_fails_is_told_by_status_at_the_next_start_and_after_a_day_by_a_session() {
    let server = Server::start(20);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(4));
    home.trust();
    let refuse = || {
        server.standin.fail_next_queries([Fault::Refuse { status: 403, retry_after: None }]);
        server.standin.fail_next([Fault::Refuse { status: 403, retry_after: None }]);
        let output = home.run(&["upload", "--auto"]);
        assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output));
    };
    refuse();
    refuse();
    let status = home.json(&["status"]);
    assert_eq!(status["last_failure"]["runs"], 2, "{status}");
    assert!(home.ok(&["status"]).contains("not permitted (403)"));
    assert_eq!(home.ok(&["notice", "--auto"]), "", "not yet");
    let file = home.remembered().join("failure.json");
    let kept = fs::read_to_string(&file).unwrap();
    let mut failure: serde_json::Value = serde_json::from_str(&kept).unwrap();
    failure["since"] = "2020-01-01T00:00:00Z".into();
    fs::write(&file, failure.to_string()).unwrap();
    let notice: serde_json::Value = serde_json::from_str(&home.ok(&["notice", "--auto"])).unwrap();
    assert!(notice["systemMessage"].as_str().unwrap().contains("since 2020-01-01"), "{notice}");
    server.standin.fail_next_queries([]);
    server.standin.set_faults(Faults::default());
    let output = home.run(&[]);
    assert!(text(&output).contains("the hook has failed 2 times"), "{}", text(&output));
    while home.run(&["--auto"]).status.success() && home.json(&["status"])["last_failure"] != serde_json::Value::Null {}
    assert_eq!(home.ok(&["notice", "--auto"]), "");
}

#[test]
fn a_report_needs_no_config_and_counts_each_response_once() {
    let server = Server::start(21);
    let home = Home::new(&server);
    fs::remove_file(home.project().join(".claude/sessync/config.json")).unwrap();
    let usage =
        |output: u64| serde_json::json!({"input_tokens": 1000, "output_tokens": output, "cache_read_input_tokens": 5});
    let response = |at: u64, output: u64| {
        serde_json::json!({
            "uuid": format!("u{at}"), "timestamp": format!("2026-11-01T00:00:0{at}Z"), "sessionId": "s", "type": "assistant",
            "requestId": "r1", "cwd": "/src/app", "message": {"id": "m1", "model": "claude-sonnet-4-5-20250929<b>", "usage": usage(output)},
        })
        .to_string()
        .replace("<b>", if at == 9 { "<b>" } else { "" })
    };
    home.write("a.jsonl", &[response(1, 1), response(2, 1), response(3, 400)]);
    let report = home.json(&["report"]);
    let day = &report["days"][0];
    assert_eq!((day["day"].as_str(), day["project"].as_str()), (Some("2026-11-01"), Some("app")), "{report}");
    assert_eq!((day["input_tokens"].as_u64(), day["output_tokens"].as_u64()), (Some(1000), Some(400)), "{report}");
    assert_eq!((day["cache_read_tokens"].as_u64(), day["cache_creation_tokens"].as_u64()), (Some(5), Some(0)));
    assert_eq!(day["cost_usd"].as_f64(), Some(0.009_002));
    assert!(home.ok(&["report"]).contains("total"));
    let page = home.directory.path().join("usage.html");
    home.ok(&["report", "--html", page.to_str().unwrap()]);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("<svg") && text.contains("2026-11-01") && !text.contains("<script"), "{text}");
    for address in ["http://", "https://", "src=", "@import"] {
        assert!(!text.contains(address), "the page needs nothing from elsewhere: {address}");
    }
}

#[test]
fn a_self_check_names_what_is_wrong_and_nothing_when_all_is_right() {
    let server = Server::start(22);
    server.standin.set_faults(Faults { strict_tables: true, ..Faults::default() });
    let home = Home::new(&server);
    let wrong = |output: &std::process::Output| -> Vec<String> {
        let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        findings
            .iter()
            .filter(|finding| finding["ok"] == false)
            .map(|finding| finding["what"].as_str().unwrap().to_owned())
            .collect()
    };
    let output = home.command(&["self-check", "--json"]).env_remove("SESSYNC_TRUST").output().unwrap();
    assert_eq!(wrong(&output), ["trust", "destination", "hook"]);
    assert_eq!((output.status.code(), server.standin.calls()), (Some(1), (0, 0)));
    home.trust();
    assert_eq!(wrong(&home.run(&["self-check", "--json"])), ["table", "view", "usage view", "hook"]);
    home.ok(&["schema", "--create"]);
    home.ok(&["install-hook"]);
    let shown = home.ok(&["self-check"]);
    assert!(shown.lines().count() <= 20 && !shown.contains("WRONG"), "{shown}");
    let output = home.command(&["self-check", "--json"]).env("BIGQUERY_EMULATOR_HOST", "127.0.0.1:1").output().unwrap();
    assert_eq!(wrong(&output), ["table", "view", "usage view"], "without a network, credentials are not wrong");
}

#[test]
fn sessions_of_codex_and_of_the_newer_directory_are_uploaded_once_too() {
    let server = Server::start(23);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(3));
    let newer = home.directory.path().join(".config/claude/projects").join(home.logs().file_name().unwrap());
    fs::create_dir_all(&newer).unwrap();
    fs::rename(home.write("b.jsonl", &[line("newer", "s2", "x", 9)]), newer.join("a.jsonl")).unwrap();
    let day = home.directory.path().join(".codex/sessions/2026/11/01");
    fs::create_dir_all(&day).unwrap();
    let session = |id: &str, cwd: &std::path::Path| {
        let meta = serde_json::json!({"timestamp": "2026-11-01T00:00:00Z", "type": "session_meta", "payload": {"id": id, "cwd": cwd}});
        let said = serde_json::json!({"timestamp": "2026-11-01T00:00:01Z", "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": id}]}});
        fs::write(day.join(format!("rollout-2026-11-01T00-00-00-{id}.jsonl")), format!("{meta}\n{said}\n")).unwrap();
    };
    session("0199a213-81c0-7800-8aa1-000000000001", &home.project());
    session("0199a213-81c0-7800-8aa1-000000000002", std::path::Path::new("/somewhere/else"));
    assert_eq!(home.json(&[])["uploaded"], 6);
    assert!(home.ok(&[]).contains("Nothing to do"));
    let rows = server.standin.rows(support::DATASET, support::TABLE);
    let codex: Vec<_> =
        rows.iter().filter(|row| row["source_file"].as_str().unwrap().starts_with("codex/2026/11/01/")).collect();
    assert_eq!(codex.len(), 2);
    assert!(codex.iter().all(|row| row["session_id"] == "0199a213-81c0-7800-8aa1-000000000001"));
    assert_eq!(home.json(&["verify"])["uploaded"], 6);
}
