//! The Lambda function `hatebu-subscriber`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(feeds::HATEBU_SUBSCRIBER)
}
