//! Replies once to each file that was handed over.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(slack::FILES)
}
