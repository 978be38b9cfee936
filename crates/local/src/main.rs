//! `ichido-local`: all of ichido on one machine.

use std::process::ExitCode;

fn main() -> ExitCode {
    local::main()
}
