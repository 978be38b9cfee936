//! The binary `ichidoctl`; everything is in the library.

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ops::run(ops::Cli::parse()).await
}
