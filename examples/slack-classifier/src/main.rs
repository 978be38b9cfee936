//! `slack-files` with an effect of our own. Deployed in place of the one in `crates/slack`.

use std::process::ExitCode;

fn main() -> ExitCode {
    function::serve(slack_classifier::FILES)
}
