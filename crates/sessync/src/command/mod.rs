//! The command line, one file per command.
//!
//! Exit codes: 0 everything is done, 1 something could not be done (the message says what), 2 wrong usage. With
//! `--auto` the exit code is always 0 and nothing is printed, because a hook must not fail its caller.

mod export_state;
mod forget;
mod hook;
mod report;
mod reset;
mod schema;
mod status;
mod upload;
mod verify;

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::clock::SystemClock;
use crate::journal::{self, legacy, lock, open};
use crate::outside::bigquery::{self, BigQuery};
use crate::outside::transport::{Network, Target};
use crate::settings::{self, Process, Project};
use crate::source;

/// How long a run with `--auto` may upload.
const AUTO_TIME: Duration = Duration::from_secs(25);
/// After this time a run with `--auto` is ended, wherever it is. A crash loses nothing.
const AUTO_END: Duration = Duration::from_secs(28);
/// How long a command waits for another run to finish.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Uploads Claude Code's session logs to BigQuery: every line exactly once.
#[derive(Debug, Parser)]
#[command(name = "sessync", version, about, after_help = CONFIG_HELP.as_str())]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Path of the config file; the state is kept beside it
    #[arg(long, global = true, value_name = "PATH", default_value = settings::DEFAULT_PATH)]
    config: PathBuf,
    /// Show what would be uploaded and redacted, and upload nothing
    #[arg(long, global = true)]
    dry_run: bool,
    /// Use the logs of all projects, not only those of the current directory
    #[arg(long, global = true)]
    all_projects: bool,
    /// For hooks: print nothing, upload for at most 25 seconds, end within 28, always exit with 0
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
    /// Upload at the end of every session of this project
    InstallHook {
        /// The command that the hook runs
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
    fn open(config: &Path, all: bool, process: &Process) -> Result<Session, Error> {
        let project = Project::open(config, all, process)?;
        let target = match &process.emulator {
            Some(host) => Target::Emulator(host.clone()),
            None => Target::Google { key_path: project.config.key_path.clone(), places: process.places.clone() },
        };
        let bigquery = BigQuery::new(Network::new(target), project.config.table.clone());
        let claude = process.claude_directory();
        Ok(Session { project, bigquery, clock: SystemClock::default(), claude, json: false, auto: false, bar: false })
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
        return ExitCode::from(run(&cli, &mut io::stdout().lock(), &mut io::stderr()));
    }
    std::thread::spawn(|| {
        std::thread::sleep(AUTO_END);
        std::process::exit(0);
    });
    std::panic::set_hook(Box::new(|_| {}));
    let _ = std::panic::catch_unwind(|| run(&cli, &mut io::sink(), &mut io::sink()));
    ExitCode::SUCCESS
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
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut session = Session::open(&cli.config, cli.all_projects, &process)?;
    session.json = cli.json;
    session.auto = cli.auto;
    session.bar = !cli.auto && !cli.json && io::stderr().is_terminal();
    if !session.project.config.unknown.is_empty() {
        writeln!(err, "sessync: the config has unknown keys: {}", session.project.config.unknown.join(", "))?;
    }
    runtime.block_on(async {
        match &cli.command {
            None | Some(Command::Upload) => upload::run(&session, cli.dry_run, out, err).await,
            Some(Command::Status) => status::run(&session, out).await,
            Some(Command::Verify) => verify::run(&session, out).await,
            Some(Command::Forget { uuid }) => forget::run(&session, uuid, out).await,
            Some(Command::Reset { rebuild }) => reset::run(&session, *rebuild, out).await,
            Some(Command::ExportState { output, from_destination }) => {
                export_state::run(&session, output.as_deref(), *from_destination, out).await
            }
            Some(Command::Schema { create }) => schema::run(&session, *create, out).await,
            Some(Command::InstallHook { .. } | Command::UninstallHook | Command::Completions { .. }) => Ok(0),
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
