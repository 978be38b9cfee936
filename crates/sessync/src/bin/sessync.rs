//! sessync: uploads session logs to BigQuery, every line once.

use std::process::ExitCode;

fn main() -> ExitCode {
    sessync::cli::main()
}
