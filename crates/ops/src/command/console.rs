//! `ichidoctl console`: serves the console of an environment on this machine, with the operator's own credentials.
//!
//! Promise: it listens on loopback alone, and answers only who knows the address that it prints. It only reads, unless it was started
//! with `--allow-changes`. Then each change is the command's of the same name, made only if what was shown is still true (EventBridge
//! Scheduler has no conditional update, so a schedule is read just before), and logged with the caller's identity.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use console::guard::guarded;
use serde_json::json;
use tokio::net::TcpListener;

use super::trace::age;
use crate::context::{Context, Ended, Error, failed};
use crate::deployed::Deployed;

/// How many random bytes the address has.
const TOKEN_BYTES: usize = 24;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl console --env prod                        only reads
  ichidoctl console --env prod --allow-changes        also releases claims, sends dead letters again, pauses schedules
  ichidoctl console --env local --port 9100           make dev, as the console of an environment shows it

Open the address that it prints. It is a secret of this run: whoever has it sees what you may see. Ctrl-C ends it.")]
pub struct Console {
    /// The port; without it, any free one
    #[arg(long, value_name = "P", default_value_t = 0)]
    pub port: u16,
    /// Also make changes, after a question; each is logged with your identity
    #[arg(long)]
    pub allow_changes: bool,
    /// How far back the life of a key is searched in the logs: 30m, 24h, 7d
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = age)]
    pub since: Duration,
    /// Read the environment's description from this file (infra/cli/describe.ts prints it), not from the project's tree
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

impl Console {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let caller = if self.allow_changes { Some(context.caller().await?) } else { None };
        let backend = Deployed::new(context, self.since, self.settings.clone(), caller.clone())?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.map_err(|error| {
            failed(format!("could not listen on port {}; choose another one with --port", self.port), error)
        })?;
        let token = token()?;
        let unserved = |error: std::io::Error| failed("the console could not be served", error);
        let address = format!("http://{}/{token}/", listener.local_addr().map_err(unserved)?);
        let routes = guarded(console::routes(backend.clone(), &format!("/{token}/")), &token, "ichidoctl console");
        // Listened for before the address is printed, so that a signal right after it ends the console in order.
        let stopped = loopback::stopped();
        let environment = context.environment()?.name();
        if context.json() {
            context.value(&json!({"address": address, "environment": environment, "changesAs": caller}))?;
        } else {
            let may = match &caller {
                Some(caller) => format!("changes are made as {caller}"),
                None => "it only reads; --allow-changes allows more".to_owned(),
            };
            context.line(format_args!("the console of {environment} is at {address}"))?;
            context.line(format_args!("{may}; Ctrl-C ends it"))?;
        }
        axum::serve(listener, routes).with_graceful_shutdown(stopped).await.map_err(unserved)?;
        backend.settled().await;
        Ok(Ended::Well)
    }
}

/// A part of the address that nobody can guess.
fn token() -> Result<String, Error> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| failed("this machine gave no random bytes for the address", error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
