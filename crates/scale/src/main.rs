//! `scale`: what breaks first. `make scale` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    scale::report::main()
}
