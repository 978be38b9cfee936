//! `ichido-local`: the whole of ichido on one machine.

use std::process::ExitCode;

fn main() -> ExitCode {
    local::main()
}
