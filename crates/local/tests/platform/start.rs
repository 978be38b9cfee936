//! The real binary: how it starts, what it prints, how it ends.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::process::Local;

fn real(arguments: &[&str]) -> Local {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
    command.args(["--port=0", "--dynamodb-port=0", "--tls-port=0"]).args(arguments);
    Local::spawned(command)
}

/// Runs the real binary to its end, and returns its exit code, standard output and standard error.
fn run_to_end(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("output").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("errors").read_to_string(&mut err).expect("text");
    (child.wait().expect("its end").code(), out, err)
}

#[tokio::test]
async fn it_serves_explains_itself_and_stops_cleanly() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = real(&["--no-demo", &format!("--data={}", directory.path().display())]);
    assert_eq!(local.get("/healthz").await["status"], "ok");
    for said in ["console", "AWS_ENDPOINT_URL=http://127.0.0.1:", "DynamoDB, for tools", "cert.pem", "Try it:"] {
        assert!(local.announcement.contains(said), "{said:?} is not in:\n{}", local.announcement);
    }
    assert!(directory.path().join("cert.pem").exists());
    assert_eq!(local.terminate().code(), Some(0));
    // And again, with the data of the first start.
    let again = real(&["--no-demo", &format!("--data={}", directory.path().display())]);
    assert_eq!(again.terminate().code(), Some(0));
}

#[test]
fn help_lists_every_option() {
    let (code, out, _) = run_to_end(&["--help"]);
    assert_eq!(code, Some(0));
    for option in [
        "--port",
        "--dynamodb-port",
        "--tls-port",
        "--data",
        "--memory",
        "--no-demo",
        "--github-feed",
        "--hatebu-feed",
        "--retry-scale",
    ] {
        assert!(out.contains(option), "{option}");
    }
}

/// Checks for exit code 1 and one sentence that contains `said`.
fn refused(arguments: &[&str], said: &str) {
    let (code, out, err) = run_to_end(arguments);
    assert_eq!((code, out.as_str(), err.lines().count()), (Some(1), "", 1), "{err}");
    assert!(err.starts_with("ichido-local: ") && err.contains(said), "{err}");
}

#[test]
fn what_is_wrong_is_one_sentence_and_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let free = ["--port=0", "--dynamodb-port=0", "--tls-port=0", "--no-demo"];
    let with = |more: &str| free.iter().copied().chain([more]).map(str::to_owned).collect::<Vec<_>>();
    let refused =
        |arguments: Vec<String>, said: &str| refused(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), said);

    refused(vec![format!("--port={port}")], &format!("port {port} cannot be opened"));
    refused(vec!["--frobnicate".to_owned()], "--frobnicate");
    refused(vec!["--retry-scale=fast".to_owned()], "a number from 0 to 1");

    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").expect("a file");
    refused(with(&format!("--data={}", file.display())), "cannot be used");

    let newer = directory.path().join("newer");
    std::fs::create_dir(&newer).expect("a directory");
    std::fs::write(newer.join("format"), "999\n").expect("a format");
    refused(with(&format!("--data={}", newer.display())), "has format 999 and was written by a newer version");
}

#[tokio::test]
async fn two_processes_do_not_share_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = format!("--data={}", directory.path().display());
    let _first = Local::with(&["--no-demo", &data]);
    refused(&["--port=0", "--dynamodb-port=0", "--tls-port=0", &data], "is in use by another ichido-local");
}

#[tokio::test]
async fn a_wrong_variable_of_a_function_is_said_at_the_start() {
    // An empty variable counts as missing.
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "workshop_process", "--ignored", "--nocapture", "--quiet"]);
    let arguments = ["--port=0", "--dynamodb-port=0", "--tls-port=0", "--memory"].join("\n");
    command
        .env(crate::support::process::ARGUMENTS, arguments)
        .env("WORKSHOP_ECHO__GREETING", "")
        .current_dir(directory.path());
    let output = command.output().expect("an end");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains(
            "the function workshop-echo does not start: the function's variables are not right: GREETING is missing"
        ),
        "{said}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn it_is_small_when_idle() {
    // What it takes for itself. The pages of its program are the machine's cache, and a debug build has many.
    const MOST_KB: u64 = 20 * 1024;
    let local = real(&["--memory", "--no-demo"]);
    local.get("/healthz").await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", local.pid())).expect("its status");
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its size");
    let kb: u64 = own.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kb < MOST_KB, "{kb} kB");
}
