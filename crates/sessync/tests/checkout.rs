//! A checkout is data: it chooses no destination, no path and no credentials until the user has trusted it
//! (ARCHITECTURE.md, "What must always hold").

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use support::server::{Home, Server, text};
use support::{assert_same, expected, line, uploaded};

fn lines(count: i64) -> Vec<String> {
    (0..count).map(|at| line(&format!("uuid-{at}"), "s1", &format!("text {at}"), at)).collect()
}

/// The program as a user runs it, without the variable that trusts.
fn untrusting(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command.env_remove("SESSYNC_TRUST");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn rows(server: &Server) -> usize {
    server.standin.rows(support::DATASET, support::TABLE).len()
}

#[test]
fn nothing_is_written_or_truncated_through_links_that_a_checkout_brings_along() {
    let server = Server::start(40);
    for link in [
        "lock",
        "state",
        "state/dest",
        "state/dest/journal",
        "state/dest/dead-letters.jsonl",
        "upload-state.imported",
        "upload-state.json.tmp",
    ] {
        let home = Home::new(&server);
        home.write("a.jsonl", &lines(5));
        server.standin.clear();
        let outside = tempfile::tempdir().unwrap();
        let start_file = outside.path().join("shell-rc");
        fs::write(&start_file, "# precious\n").unwrap();
        let beside = home.project().join(".claude/sessync");
        let link_path = beside.join(link.replace("dest", &format!("{}@emulator", support::DESTINATION)));
        fs::create_dir_all(link_path.parent().unwrap()).unwrap();
        let is_directory = link == "state" || link == "state/dest";
        symlink(if is_directory { outside.path() } else { &start_file }, &link_path).unwrap();
        for arguments in
            [&["upload"][..], &["status"], &["forget", "uuid-1"], &["export-state"], &["reset"], &["install-hook"]]
        {
            let output = home.run(arguments);
            assert!(
                output.status.success() || arguments != ["upload"],
                "{link} must not keep anybody from uploading: {}",
                text(&output)
            );
        }
        assert_eq!(fs::read_to_string(&start_file).unwrap(), "# precious\n", "{link}");
        let names: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["shell-rc"], "{link}");
    }
}

#[test]
fn a_checkout_whose_whole_directory_is_a_link_writes_nothing_where_it_leads() {
    let server = Server::start(41);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    let outside = tempfile::tempdir().unwrap();
    let beside = home.project().join(".claude/sessync");
    fs::copy(beside.join("config.json"), outside.path().join("config.json")).unwrap();
    fs::remove_dir_all(&beside).unwrap();
    symlink(outside.path(), &beside).unwrap();
    for arguments in [&["upload"][..], &["export-state"], &["install-hook"], &["reset"]] {
        let _ = home.run(arguments);
    }
    let names: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["config.json"]);
}

#[test]
fn a_project_whose_claude_directory_is_a_link_is_uploaded_and_has_no_old_state() {
    let server = Server::start(54);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    let outside = tempfile::tempdir().unwrap();
    let claude = home.project().join(".claude");
    fs::rename(&claude, outside.path().join("claude")).unwrap();
    symlink(outside.path().join("claude"), &claude).unwrap();
    for arguments in [&["trust"][..], &["upload"], &["status"], &["verify"], &["forget", "uuid-1"], &["reset"]] {
        home.ok(arguments);
    }
    assert_eq!(rows(&server), 5);
    let names: Vec<_> =
        fs::read_dir(outside.path().join("claude/sessync")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["config.json"]);
}

#[test]
fn an_untrusted_checkout_decides_nothing_and_every_command_says_how_to_trust_it() {
    let server = Server::start(42);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    for arguments in [
        &["upload"][..],
        &["verify"],
        &["forget", "uuid-1"],
        &["reset"],
        &["reset", "--rebuild"],
        &["export-state"],
        &["schema", "--create"],
    ] {
        let output = run(&mut untrusting(&home, arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains("sessync trust"), "{arguments:?}: {}", text(&output));
    }
    assert_eq!(server.standin.calls(), (0, 0));
    assert!(!home.state_root().exists(), "nothing is remembered of a checkout that is not trusted");
    // What reads only this machine goes on.
    assert!(text(&run(&mut untrusting(&home, &["--dry-run"]))).contains("Would upload 5"));
    assert!(text(&run(&mut untrusting(&home, &["status"]))).contains("Not trusted"));
    let said = text(&run(&mut untrusting(&home, &["trust"])));
    assert!(said.contains("acme.logs.sessions") && said.contains("application-default credentials"), "{said}");
    assert!(run(&mut untrusting(&home, &["upload"])).status.success());
    assert_same(&uploaded(&server.standin), &expected(&home.root()), "after trust");
    // A changed config is another config.
    home.config(serde_json::json!({"table": "other"}));
    assert!(text(&run(&mut untrusting(&home, &["upload"]))).contains("changed since you trusted it"));
    assert!(run(&mut untrusting(&home, &["trust", "--revoke"])).status.success());
    home.config(serde_json::json!({}));
    assert!(text(&run(&mut untrusting(&home, &["upload"]))).contains("not trusted yet"));
}

#[test]
fn a_hook_in_an_untrusted_checkout_does_nothing_and_says_how_to_trust_it() {
    let server = Server::start(43);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    // SESSYNC_TRUST=1 is set here: it never counts with --auto.
    let output = home.run(&["upload", "--auto"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output));
    assert!(text(&output).contains("sessync trust"), "{}", text(&output));
    assert!(text(&home.run(&["trust", "--auto"])).is_empty() || !home.state_root().exists(), "a hook cannot trust");
    assert_eq!(server.standin.calls(), (0, 0));
    assert!(!home.state_root().exists());
    let notice: serde_json::Value = serde_json::from_str(&home.ok(&["notice", "--auto"])).unwrap();
    assert!(notice["systemMessage"].as_str().unwrap().contains("sessync trust"), "{notice}");
    home.trust();
    let output = home.run(&["upload", "--auto"]);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output));
    assert_eq!(rows(&server), 5);
    assert_eq!(home.ok(&["notice", "--auto"]), "");
}

#[test]
fn variables_that_name_credentials_or_addresses_need_trust_with_auto() {
    let server = Server::start(44);
    for (name, value) in [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/tmp/evil.json"),
        ("CLOUDSDK_CONFIG", "/tmp/evil"),
        ("GCE_METADATA_HOST", "evil.example"),
        ("HTTPS_PROXY", "http://evil.example"),
        ("http_proxy", "http://evil.example"),
        ("SSL_CERT_FILE", "/tmp/evil.pem"),
    ] {
        let home = Home::new(&server);
        home.write("a.jsonl", &lines(2));
        home.trust();
        server.standin.clear();
        let before = server.standin.calls();
        let output = run(home.command(&["--auto"]).env(name, value));
        assert!(text(&output).contains(name) && text(&output).contains("sessync trust"), "{name}: {}", text(&output));
        assert_eq!(server.standin.calls(), before, "{name}");
        if name == "http_proxy" {
            // With trust it would be used, and there is no such proxy.
            continue;
        }
        // In a shell where it is set, the user can trust it.
        assert!(run(home.command(&["trust"]).env(name, value)).status.success());
        let output = run(home.command(&["--auto"]).env(name, value));
        assert!(output.stderr.is_empty(), "{name}: {}", text(&output));
    }
    // Somebody who guesses where the record is could still bring other credentials along.
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(2));
    home.trust();
    let state = home.directory.path().join(".local/state");
    let output = run(home.command(&["--auto"]).env("XDG_STATE_HOME", state).env("HOME", home.project()));
    assert!(text(&output).contains("the variable HOME"), "{}", text(&output));
    // Those of AWS count only where AWS is used.
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(2));
    home.trust();
    server.standin.clear();
    assert!(run(home.command(&["--auto"]).env("AWS_ENDPOINT_URL", "http://evil.example")).stderr.is_empty());
    assert_eq!(rows(&server), 2);
    home.config(serde_json::json!({"state": {"dynamodb": {"table": "t", "region": "eu-west-1"}}}));
    home.trust();
    let output = run(home.command(&["--auto"]).env("AWS_ENDPOINT_URL", "http://evil.example"));
    assert!(text(&output).contains("AWS_ENDPOINT_URL"), "{}", text(&output));
}

#[test]
fn with_auto_a_stand_in_must_be_on_this_machine() {
    let server = Server::start(45);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(2));
    home.trust();
    for host in ["example.com:8787", "http://127.0.0.1@example.com", "10.0.0.1:80"] {
        let output = run(home.command(&["--auto"]).env("BIGQUERY_EMULATOR_HOST", host));
        assert!(text(&output).contains("BIGQUERY_EMULATOR_HOST"), "{host}: {}", text(&output));
    }
    assert_eq!(rows(&server), 0);
    home.ok(&["--auto"]);
    assert_eq!(rows(&server), 2);
}

#[test]
fn a_hook_does_not_believe_a_record_of_trust_that_came_with_the_checkout() {
    let server = Server::start(46);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(2));
    home.trust();
    // The settings of a hook can set these, too.
    let evil = home.project().join("evil");
    fs::create_dir_all(evil.join("sessync")).unwrap();
    fs::set_permissions(evil.join("sessync"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::copy(home.state_root().join("trust.json"), evil.join("sessync/trust.json")).unwrap();
    let output = run(home.command(&["--auto"]).env("XDG_STATE_HOME", &evil));
    assert!(text(&output).contains("written in another directory"), "{}", text(&output));
    let output = run(home.command(&["--auto"]).env("XDG_STATE_HOME", "evil"));
    assert!(output.status.success(), "a relative path is ignored");
    assert_eq!(rows(&server), 2);
}

#[test]
fn a_config_from_outside_the_checkout_still_needs_a_terminal_or_trust() {
    let server = Server::start(47);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(2));
    let outside = home.directory.path().join("mine.json");
    fs::rename(home.project().join(".claude/sessync/config.json"), &outside).unwrap();
    let path = outside.to_str().unwrap();
    assert!(text(&run(&mut untrusting(&home, &["--config", path]))).contains("sessync trust"));
    assert!(run(&mut untrusting(&home, &["trust", "--config", path])).status.success());
    assert!(run(&mut untrusting(&home, &["--config", path, "--auto"])).stderr.is_empty());
    assert_eq!(rows(&server), 2);
}

#[test]
fn a_key_file_in_the_checkout_is_trusted_with_its_content() {
    let server = Server::start(48);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(2));
    let key = home.project().join("key.json");
    fs::write(&key, r#"{"type":"service_account","token_uri":"https://tokens.example/x"}"#).unwrap();
    home.config(serde_json::json!({"service_account_key_path": "key.json"}));
    let said = home.ok(&["trust"]);
    assert!(said.contains("https://tokens.example/x"), "{said}");
    assert!(run(&mut untrusting(&home, &["upload"])).status.success());
    fs::write(&key, r#"{"type":"service_account","token_uri":"https://evil.example/x"}"#).unwrap();
    assert!(text(&run(&mut untrusting(&home, &["upload"]))).contains("key file"));
}

#[test]
fn a_config_that_is_huge_endless_or_no_file_is_refused_at_once() {
    let server = Server::start(49);
    let home = Home::new(&server);
    let config = home.project().join(".claude/sessync/config.json");
    fs::write(&config, vec![b' '; 2 * 1024 * 1024]).unwrap();
    assert!(text(&home.run(&[])).contains("more than"));
    fs::remove_file(&config).unwrap();
    symlink("/dev/zero", &config).unwrap();
    assert!(text(&home.run(&[])).contains("regular file"));
    fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    assert!(text(&home.run(&[])).contains("regular file"));
    assert!(home.run(&["--auto"]).status.success());
}

#[test]
fn state_that_others_can_write_to_is_refused_and_what_is_written_only_its_owner_can_read() {
    let server = Server::start(50);
    let home = Home::new(&server);
    let bad = line("bad", "s", "x", 1).replace("\"timestamp\":\"2", "\"timestamp\":\"someday 2");
    home.write("a.jsonl", &[bad, line("good", "s", "x", 2)]);
    home.run(&[]);
    home.ok(&["trust"]);
    let mut seen = 0;
    let mut open = vec![home.state_root()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o077, 0, "{}", path.display());
        seen += 1;
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 8, "journal, dead letters, trust, lock and their directories: {seen}");
    assert!(home.state().join("dead-letters.jsonl").exists());
    assert_eq!(fs::read_to_string(home.state_root().join(".gitignore")).unwrap(), "*\n");
    let beside: Vec<_> = fs::read_dir(home.project().join(".claude/sessync"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(beside, ["config.json"], "nothing is kept in the checkout");
    fs::set_permissions(home.state(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("written by others"), "{}", text(&output));
}

/// Makes the state look as an earlier version left it, beside the config.
fn as_before(home: &Home) {
    let beside = home.project().join(".claude/sessync");
    let old = beside.join("state").join(format!("{}@emulator", support::DESTINATION));
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    copy(&home.state(), &old);
    fs::write(beside.join("lock"), "1").unwrap();
    fs::remove_dir_all(home.state_root()).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn the_state_of_an_earlier_version_is_moved_over_once_and_told() {
    let server = Server::start(51);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    home.ok(&[]);
    as_before(&home);
    server.standin.forget_insert_ids();
    assert_eq!(home.json(&["status"])["uploaded"], 5, "the old state is read until it is moved");
    let output = home.run(&[]);
    assert!(text(&output).contains("moved the state") && text(&output).contains("Nothing to do"), "{}", text(&output));
    assert!(
        !home.project().join(".claude/sessync/state").exists() && !home.project().join(".claude/sessync/lock").exists()
    );
    assert!(!text(&home.run(&[])).contains("moved the state"), "it is told once");
    assert_eq!(rows(&server), 5);
    assert_eq!(home.json(&["verify"])["uploaded"], 5);
}

#[test]
fn a_move_that_was_interrupted_begins_again() {
    let server = Server::start(52);
    let home = Home::new(&server);
    home.write("a.jsonl", &lines(5));
    home.ok(&[]);
    as_before(&home);
    server.standin.forget_insert_ids();
    // The journal is copied last: everything else was there when it was interrupted.
    let old = home.project().join(".claude/sessync/state").join(format!("{}@emulator", support::DESTINATION));
    home.ok(&["trust"]);
    fs::create_dir_all(home.state_root().join("projects")).unwrap();
    home.run(&["reset", "--rebuild", "--nonsense"]);
    let keep = tempfile::tempdir().unwrap();
    copy(&old, keep.path());
    home.ok(&[]);
    fs::remove_file(home.state().join("journal")).unwrap();
    fs::remove_file(home.state().join("moved")).unwrap();
    copy(keep.path(), &old);
    assert!(text(&home.run(&[])).contains("moved the state"));
    assert_eq!(rows(&server), 5);
}
