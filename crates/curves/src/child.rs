//! Child processes of this program: what is measured there shares no memory with what was measured before.
//!
//! A variable says what a child is: a size of the local memory, or sessync itself, whose command line it then has.

use std::io::{Write as _, stderr, stdout};
use std::process::{Command, ExitCode, Stdio};

use crate::Result;
use crate::curve::Point;
use crate::subject;

/// `memory SIZE` or `sessync`.
const CHILD: &str = "ICHIDO_CURVES_CHILD";

/// If this process is a child, does its work.
pub(crate) fn main() -> Option<ExitCode> {
    let role = std::env::var(CHILD).ok()?;
    if role == "sessync" {
        return Some(sessync::command::main());
    }
    Some(match print_point(&role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "curves: {role}: {error}");
            ExitCode::FAILURE
        }
    })
}

fn print_point(role: &str) -> Result<()> {
    let size = role.strip_prefix("memory ").ok_or_else(|| format!("there is no child {role:?}"))?.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let point = runtime.block_on(subject::memory::point(size))?;
    writeln!(stdout(), "{}", serde_json::to_string(&point)?)?;
    Ok(())
}

/// A point that a child measures.
pub(crate) fn point(role: &str) -> Result<Point> {
    let output = Command::new(std::env::current_exe()?).env(CHILD, role).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the child process {role:?} failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The command line of sessync, without any variable of this process.
pub(crate) fn sessync() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env_clear().env(CHILD, "sessync");
    Ok(command)
}
