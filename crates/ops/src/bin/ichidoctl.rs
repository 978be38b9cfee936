//! `ichidoctl`, the operator's tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    ops::command::main()
}
