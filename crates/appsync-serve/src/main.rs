//! `appsync serve`: an AWS AppSync on this machine, from a schema and the CloudFormation template that deploys it.
//!
//! # One change of a file
//!
//! 1. `watch` sees that the schema, the template or a resolver file is another one.
//! 2. `load` reads all of them and builds a new API. The tables of the template are created in the embedded DynamoDB.
//! 3. `serve` puts the new API in the place of the old one, and ends the old one's WebSockets, so that their clients connect again.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | an option, or a file at the start | the program says what is wrong and ends |
//! | a file after a change | the program says what is wrong and serves the API that it had |
//! | a Lambda function that is not there | the program says so at the start; only the fields that need it fail |
//! | a request from another machine, or from a web page of another site | 403 |
//!
//! The program knows no application.

mod lambda;
mod load;
mod log;
mod options;
mod page;
mod serve;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::options::{Command, Options};

fn main() -> ExitCode {
    let Options { command: Command::Serve(serve) } = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("could not start: {error}")),
    };
    match runtime.block_on(serve::serve(serve)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "appsync: {}", log::shown_whole(why));
    ExitCode::FAILURE
}
