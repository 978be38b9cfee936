//! The Lambda function `github-notifier`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(feeds::GITHUB_NOTIFIER)
}
