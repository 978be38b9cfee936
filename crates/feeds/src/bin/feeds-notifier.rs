//! The Lambda function `feeds-notifier`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(feeds::FEEDS_NOTIFIER)
}
