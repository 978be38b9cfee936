//! The command line: what may be said, and what each word does.
//!
//! Exit codes: 0 all done, 1 something could not be done (and what), 2 usage. With `--auto` it is always 0 and
//! nothing is printed: a hook must not fail its caller.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::clock::SystemClock;
use crate::commands::{self, Session};
use crate::config;
use crate::project::Surroundings;

/// How long a run with `--auto` may take.
pub const AUTO_TIME: Duration = Duration::from_secs(25);
/// After this it is ended from outside, wherever it is: a crash loses nothing.
const AUTO_END: Duration = Duration::from_secs(28);

/// Uploads Claude Code's session logs to BigQuery: every line once.
#[derive(Debug, Parser)]
#[command(name = "sessync", version, about, after_help = CONFIG_HELP.as_str())]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// The config; the state is kept beside it
    #[arg(long, global = true, value_name = "PATH", default_value = config::DEFAULT_PATH)]
    config: PathBuf,
    /// Show what would be uploaded, and what would be redacted, without doing it
    #[arg(long, global = true)]
    dry_run: bool,
    /// The logs of every project, not only of the one in this directory
    #[arg(long, global = true)]
    all_projects: bool,
    /// For hooks: quiet, bounded in time, never fails
    #[arg(long, global = true)]
    auto: bool,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

static CONFIG_HELP: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    let mut text = format!("Keys of the config (./{}):\n", config::DEFAULT_PATH);
    for (key, required, meaning) in config::KEYS {
        let required = if *required { "required: " } else { "" };
        text.push_str(&format!("  {key:<26}{required}{meaning}\n"));
    }
    text
});

#[derive(Debug, Subcommand)]
enum Command {
    /// Upload what is new (the default)
    Upload,
    /// What is uploaded and what is not, and how old that is
    Status,
    /// Compare the logs with what is in BigQuery
    Verify,
    /// Forget that a line was uploaded, so that it is uploaded again
    Forget {
        /// The line's uuid
        uuid: String,
    },
    /// Begin anew: the state is put aside, and the next upload sends everything
    Reset {
        /// Take what is in BigQuery as uploaded
        #[arg(long)]
        rebuild: bool,
    },
    /// Write the state as upload-state.json
    ExportState {
        /// Where to (`-`: standard output)
        #[arg(long, short, value_name = "PATH")]
        output: Option<PathBuf>,
        /// Add what is in BigQuery but in no log any more
        #[arg(long)]
        from_destination: bool,
    },
    /// Print the DDL of the table and its view
    Schema {
        /// Create them
        #[arg(long)]
        create: bool,
    },
    /// Upload at the end of every session of this project
    InstallHook {
        /// The command to run
        #[arg(long)]
        command: Option<String>,
    },
    /// Take the hook out
    UninstallHook,
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors to clap, with code 0. A closed pipe is nobody's fault.
            let _ = error.print();
            // A hook that was installed by another version must not fail its caller either.
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
        // Whoever reads has seen enough.
        Err(commands::Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let _ = writeln!(err, "sessync: {error}");
            1
        }
    }
}

fn dispatch(cli: &Cli, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8, commands::Error> {
    let around = Surroundings::of_process().map_err(commands::Error::Output)?;
    match &cli.command {
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "sessync", &mut text);
            out.write_all(&text)?;
            return Ok(0);
        }
        Some(Command::InstallHook { command }) => {
            return commands::install_hook(&around, command.as_deref(), cli.json, out);
        }
        Some(Command::UninstallHook) => return commands::uninstall_hook(&around, cli.json, out),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut session = Session::open(&cli.config, cli.all_projects, &around, SystemClock::default())?;
    session.json = cli.json;
    session.auto = cli.auto;
    session.bar = !cli.auto && !cli.json && io::stderr().is_terminal();
    if !session.project.config.unknown.is_empty() {
        writeln!(err, "sessync: the config has unknown keys: {}", session.project.config.unknown.join(", "))?;
    }
    runtime.block_on(async {
        match &cli.command {
            None | Some(Command::Upload) => session.upload(cli.dry_run, out, err).await,
            Some(Command::Status) => session.status(out).await,
            Some(Command::Verify) => session.verify(out).await,
            Some(Command::Forget { uuid }) => session.forget(uuid, out).await,
            Some(Command::Reset { rebuild }) => session.reset(*rebuild, out).await,
            Some(Command::ExportState { output, from_destination }) => {
                session.export_state(output.as_deref(), *from_destination, out).await
            }
            Some(Command::Schema { create }) => session.schema(*create, out).await,
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
