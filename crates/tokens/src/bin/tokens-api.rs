//! The Lambda function `tokens-api`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(tokens::API)
}
