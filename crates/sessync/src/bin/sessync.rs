//! sessync: uploads session logs to BigQuery, every line exactly once.

use std::process::ExitCode;

fn main() -> ExitCode {
    sessync::command::main()
}
