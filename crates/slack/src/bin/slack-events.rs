//! Accepts Slack's events, each once, and hands their files over.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(slack::EVENTS)
}
