//! Starts and stops a platform for tests. The tests in `crates/ops/tests/operator` use it too.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The variable with the arguments of the process. The command line belongs to the test harness.
pub(crate) const ARGUMENTS: &str = "PLATFORM_ARGUMENTS";
/// Far longer than needed, even for a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A platform that is killed when the test is over, however the test ends.
pub(crate) struct Local {
    child: Child,
    pub(crate) url: String,
    pub(crate) dynamodb_url: String,
    pub(crate) tls_url: String,
    /// What it printed when it was ready.
    pub(crate) announcement: String,
}

impl Local {
    /// The workshop, without a data directory and without a demo.
    pub(crate) fn start() -> Self {
        Self::with(&["--memory", "--no-demo"])
    }

    /// The workshop with these options, on free ports.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::with_variables(arguments, &[])
    }

    /// The workshop with these options and variables.
    pub(crate) fn with_variables(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::of_test("workshop_process", arguments, variables)
    }

    /// This test binary, with the test of this name as its process.
    pub(crate) fn of_test(test: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", test, "--ignored", "--nocapture", "--quiet"]);
        let ports = ["--port=0", "--dynamodb-port=0", "--tls-port=0"];
        let all: Vec<&str> = ports.into_iter().chain(arguments.iter().copied()).collect();
        command.env(ARGUMENTS, all.join("\n")).envs(variables.iter().copied());
        Self::spawned(command)
    }

    /// The workshop with its data in `directory`.
    pub(crate) fn keeping(directory: &Path, more: &[&str]) -> Self {
        let data = format!("--data={}", directory.display());
        let all: Vec<&str> = ["--no-demo", &data].into_iter().chain(more.iter().copied()).collect();
        Self::with(&all)
    }

    /// Starts any command that prints the platform's announcement, and waits for it.
    pub(crate) fn spawned(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("a process");
        let stdout = child.stdout.take().expect("its output");
        let (sender, lines) = mpsc::channel();
        // Reads until the process ends, so that the process never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut announcement = String::new();
        while !announcement.contains("Ctrl-C stops it.") {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => announcement += &format!("{line}\n"),
                Err(_) => {
                    let _ = child.kill();
                    panic!("the platform did not start; it printed:\n{announcement}");
                }
            }
        }
        let address = |what: &str| {
            let line = announcement.lines().find(|line| line.trim_start().starts_with(what)).expect("an address");
            let start = line.find("http").expect("a URL");
            line[start..].split_whitespace().next().expect("a URL").to_owned()
        };
        let (url, dynamodb_url, tls_url) = (address("console"), address("DynamoDB"), address("the same over TLS"));
        Self { child, url, dynamodb_url, tls_url, announcement }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Sends SIGTERM, and returns how the process ended.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill");
        assert!(sent.success());
        self.child.wait().expect("its end")
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments that [`Local::of_test`] gave this process, after a name; `None` if it is not such a process.
pub(crate) fn given_arguments() -> Option<impl Iterator<Item = std::ffi::OsString>> {
    let arguments = std::env::var(ARGUMENTS).ok()?;
    let arguments: Vec<String> = arguments.split('\n').filter(|each| !each.is_empty()).map(str::to_owned).collect();
    Some(std::iter::once("platform".to_owned()).chain(arguments).map(Into::into))
}
