//! The Lambda function `feeds-subscriber`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(feeds::FEEDS_SUBSCRIBER)
}
