//! The command line, one file per command.
//!
//! Exit codes: 0 everything is done, 1 something could not be done (the message says what), 2 wrong usage. With
//! `--auto` the exit code is always 0 and nothing is printed, because a hook must not fail its caller. The exception is
//! a checkout that is not trusted: then one line says how to trust it. A failure is kept ([`crate::failure`]).

mod export_state;
mod forget;
mod hook;
mod notice;
mod print;
mod report;
mod reset;
mod schema;
mod self_check;
mod status;
mod trust;
mod upload;
mod verify;

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::clock::{Clock as _, SystemClock};
use crate::dir::Location;
use crate::failure;
use crate::journal::{self, legacy, lock, open};
use crate::outside::bigquery::{self, BigQuery};
use crate::outside::transport::{Network, Target};
use crate::settings::{self, Call, Process, Project};
use crate::source;
use crate::trust::Untrusted;
use print::Plain;

/// How long a run with `--auto` may upload.
const AUTO_TIME: Duration = Duration::from_secs(25);
/// After this time a run with `--auto` is ended, wherever it is. A crash loses nothing.
const AUTO_END: Duration = Duration::from_secs(28);
/// How long a command waits for another run to finish.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Uploads the session logs of Claude Code and of the Codex CLI to BigQuery: every line exactly once.
#[derive(Debug, Parser)]
#[command(name = "sessync", version, about, after_help = CONFIG_HELP.as_str())]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Path of the config file [default: .claude/sessync/config.json]
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Show what would be uploaded and redacted, and upload nothing
    #[arg(long, global = true)]
    dry_run: bool,
    /// Use the logs of all projects, not only those of the current directory
    #[arg(long, global = true)]
    all_projects: bool,
    /// For hooks: print nothing (in a checkout that is not trusted, one line), use only what `sessync trust` has allowed, upload for at most 25 seconds, end within 28, always exit with 0
    #[arg(long, global = true)]
    auto: bool,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

static CONFIG_HELP: LazyLock<String> = LazyLock::new(|| {
    let mut text = format!("Keys of the config file (./{}), with their defaults:\n", settings::DEFAULT_PATH);
    for (key, required, meaning) in settings::KEYS {
        let required = if *required { "required: " } else { "" };
        text.push_str(&format!("  {key:<26}{required}{meaning}\n"));
    }
    text
});

#[derive(Debug, Subcommand)]
enum Command {
    /// Upload new lines (the default command)
    Upload,
    /// Show how many lines are uploaded, how many are not, and how old the oldest of these is
    Status,
    /// Compare the logs with BigQuery: what is missing, what is there twice
    Verify,
    /// Forget that a line was uploaded; the next upload sends it again
    Forget {
        /// The line's uuid
        uuid: String,
    },
    /// Put the state aside; the next upload sends everything again
    Reset {
        /// Rebuild the state from BigQuery instead: the rows it has count as uploaded
        #[arg(long)]
        rebuild: bool,
    },
    /// Write the state as upload-state.json
    ExportState {
        /// The file to write (`-` is standard output)
        #[arg(long, short, value_name = "PATH")]
        output: Option<PathBuf>,
        /// Add the rows that BigQuery has and no log has any more
        #[arg(long)]
        from_destination: bool,
    },
    /// Print the SQL that creates the table and its view without duplicates
    Schema {
        /// Run it in BigQuery
        #[arg(long)]
        create: bool,
    },
    /// Show tokens and costs of Claude Code and Codex per day, project and model, from the files of this machine (needs no config)
    Report {
        /// Write a page with charts to this file
        #[arg(long, value_name = "PATH")]
        html: Option<PathBuf>,
    },
    /// Allow the config of this project to say where logs are sent and with which credentials
    Trust {
        /// Take it back
        #[arg(long)]
        revoke: bool,
    },
    /// Say whether config, trust, credentials, table, views and hook are right
    SelfCheck,
    /// For the SessionStart hook: say if uploads have failed for a day, or the project is not trusted
    Notice,
    /// Upload at the end of every session of Claude Code in this project (this sends the sessions of Codex too)
    InstallHook {
        /// The command that the hook runs; it must contain `sessync` and `--auto`
        #[arg(long)]
        command: Option<String>,
    },
    /// Remove the hook
    UninstallHook,
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
}

/// Why a command could not be done.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error("{0}")]
    Untrusted(Untrusted),
    #[error(transparent)]
    Open(#[from] open::Error),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Lock(#[from] lock::Error),
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error(transparent)]
    Upload(#[from] crate::upload::Error),
    #[error(transparent)]
    BigQuery(#[from] bigquery::Error),
    #[error(transparent)]
    Legacy(#[from] legacy::Error),
    #[error(transparent)]
    Hook(#[from] hook::Error),
    #[error("a pattern in `redact` is not a regular expression: {0}; correct it in the config")]
    Redact(#[from] regex::Error),
    #[error("the state in {} cannot be moved: {source}; make its parent directory writable", path.display())]
    Move { path: PathBuf, source: io::Error },
    #[error("the page {} cannot be written: {source}; choose another path", path.display())]
    Page { path: PathBuf, source: io::Error },
    #[error("the current directory cannot be used: {0}; change to a directory that exists")]
    Directory(#[source] io::Error),
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// What every command works with.
#[derive(Debug)]
struct Session {
    project: Project,
    bigquery: BigQuery<Network>,
    clock: SystemClock,
    /// The directory of Claude Code.
    claude: PathBuf,
    json: bool,
    auto: bool,
    /// Whether to show a progress bar.
    bar: bool,
}

impl Session {
    fn open(call: &Call, process: &Process) -> Result<Session, Error> {
        let project = Project::open(call, process)?;
        let target = match &process.emulator {
            Some(host) => Target::Emulator(host.clone()),
            None => Target::Google { key: project.key.clone(), places: process.places.clone() },
        };
        let bigquery = BigQuery::new(Network::new(target), project.config.table.clone());
        let claude = process.claude_directory();
        let (clock, auto) = (SystemClock::default(), call.auto);
        Ok(Session { project, bigquery, clock, claude, json: false, auto, bar: false })
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // To clap, help and version are errors with code 0. If nobody reads the output, that is no failure.
            let _ = error.print();
            // A hook that another version of sessync installed must not fail its caller either.
            if error.use_stderr() && std::env::args().any(|argument| argument == "--auto") {
                return ExitCode::SUCCESS;
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if !cli.auto {
        return ExitCode::from(run(&cli, &mut Plain(io::stdout().lock()), &mut Plain(io::stderr())));
    }
    std::thread::spawn(|| {
        std::thread::sleep(AUTO_END);
        if let Some(home) = RUNNING.get() {
            let message = format!("it did not end within {} seconds", AUTO_END.as_secs());
            let _ = failure::keep(home, SystemClock::default().now(), &message);
        }
        std::process::exit(0);
    });
    std::panic::set_hook(Box::new(|_| {}));
    let ran = std::panic::catch_unwind(|| match &cli.command {
        Some(Command::Notice) => drop(dispatch(&cli, &mut Plain(io::stdout()), &mut io::sink())),
        _ => run_hook(&cli),
    });
    if ran.is_err()
        && let Some(home) = RUNNING.get()
    {
        let _ = failure::keep(home, SystemClock::default().now(), "sessync panicked; run `sessync` to see why");
    }
    ExitCode::SUCCESS
}

/// The project whose hook is running, for what ends it from outside.
static RUNNING: OnceLock<Location> = OnceLock::new();

/// Runs a hook: what went wrong is kept, because nobody sees the output.
fn run_hook(cli: &Cli) {
    let result = dispatch(cli, &mut io::sink(), &mut io::sink());
    // Nothing more can be done about a failure that cannot be kept.
    let _ = match &result {
        Err(Error::Untrusted(untrusted)) => writeln!(Plain(io::stderr()), "sessync: {untrusted}"),
        // No project of sessync's, or another run that does the work.
        Err(Error::Settings(settings::Error::Missing(_)) | Error::Lock(lock::Error::Held(_))) => Ok(()),
        Ok(code) => match (RUNNING.get(), code) {
            (Some(home), 0) => failure::clear(home),
            (Some(home), _) => failure::keep(home, SystemClock::default().now(), INCOMPLETE),
            (None, _) => Ok(()),
        },
        Err(error) => match trusted_home(cli) {
            Some(home) => failure::keep(&home, SystemClock::default().now(), &error.to_string()),
            None => Ok(()),
        },
    };
}

const INCOMPLETE: &str = "not every line could be uploaded; run `sessync` to see which";

/// Where to keep a failure: only a checkout that was trusted once gets a place in the state.
fn trusted_home(cli: &Cli) -> Option<Location> {
    if let Some(home) = RUNNING.get() {
        return Some(home.clone());
    }
    let process = Process::current().ok()?;
    let config = cli.config.as_deref().unwrap_or(settings::DEFAULT_PATH.as_ref());
    let config = process.directory.join(config).canonicalize().ok()?;
    crate::trust::knows(&process.state().ok()?, &config).ok()?.then(|| process.project_home().ok())?
}

fn run(cli: &Cli, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match dispatch(cli, out, err) {
        Ok(code) => code,
        // The reader of the output has seen enough.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let _ = writeln!(err, "sessync: {error}");
            1
        }
    }
}

fn dispatch(cli: &Cli, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8, Error> {
    let process = Process::current().map_err(Error::Directory)?;
    let call = Call { config: cli.config.clone(), all: cli.all_projects, auto: cli.auto };
    match &cli.command {
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "sessync", &mut text);
            out.write_all(&text)?;
            return Ok(0);
        }
        Some(Command::InstallHook { command }) => {
            return hook::run_install(&process, command.as_deref(), cli.json, out);
        }
        Some(Command::UninstallHook) => return hook::run_uninstall(&process, cli.json, out),
        Some(Command::Notice) => return notice::run(&call, &process, out),
        Some(Command::Report { html }) => {
            return report::run(&process, cli.all_projects, html.as_deref(), cli.json, out);
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut session = Session::open(&call, &process)?;
    session.json = cli.json;
    session.bar = !cli.auto && !cli.json && io::stderr().is_terminal();
    if !session.project.config.unknown.is_empty() {
        writeln!(err, "sessync: the config has unknown keys: {}", session.project.config.unknown.join(", "))?;
    }
    match &cli.command {
        // A person must do this.
        Some(Command::Trust { revoke }) => {
            return if cli.auto { Ok(0) } else { trust::run(&session, &process, *revoke, out) };
        }
        // These only read what is on this machine.
        Some(Command::Status | Command::SelfCheck | Command::Schema { create: false }) => {}
        None | Some(Command::Upload) if cli.dry_run => {}
        _ => session.project.trust.clone().map_err(Error::Untrusted)?,
    }
    if cli.auto {
        let _ = RUNNING.set(session.project.home.clone());
    } else if !matches!(cli.command, Some(Command::Status | Command::SelfCheck))
        && let Ok(Some(failure)) = failure::last(&session.project.home)
    {
        writeln!(err, "sessync: {failure}")?;
    }
    runtime.block_on(async {
        match &cli.command {
            None | Some(Command::Upload) => upload::run(&session, cli.dry_run, out, err).await,
            Some(Command::Status) => status::run(&session, out).await,
            Some(Command::SelfCheck) => self_check::run(&session, &process, out).await,
            Some(Command::Verify) => verify::run(&session, out).await,
            Some(Command::Forget { uuid }) => forget::run(&session, uuid, out).await,
            Some(Command::Reset { rebuild }) => reset::run(&session, *rebuild, out).await,
            Some(Command::ExportState { output, from_destination }) => {
                export_state::run(&session, output.as_deref(), *from_destination, out).await
            }
            Some(Command::Schema { create }) => schema::run(&session, *create, out).await,
            Some(
                Command::InstallHook { .. }
                | Command::UninstallHook
                | Command::Completions { .. }
                | Command::Trust { .. }
                | Command::Report { .. }
                | Command::Notice,
            ) => Ok(0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_stand_before_and_after_the_command() {
        for line in [&["sessync", "--auto"][..], &["sessync", "upload", "--auto"], &["sessync", "--auto", "upload"]] {
            assert!(Cli::try_parse_from(line).unwrap().auto, "{line:?}");
        }
        assert_eq!(Cli::try_parse_from(["sessync", "--nonsense"]).unwrap_err().exit_code(), 2);
    }
}
