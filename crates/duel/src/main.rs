//! `duel`: the demonstration in the terminal. `make demo` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    duel::worker().map_or_else(duel::screen::main, ExitCode::from)
}
