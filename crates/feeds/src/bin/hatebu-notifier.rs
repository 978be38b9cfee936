//! The Lambda function `hatebu-notifier`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(feeds::HATEBU_NOTIFIER)
}
