//! The Lambda function `github-subscriber`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(feeds::GITHUB_SUBSCRIBER)
}
