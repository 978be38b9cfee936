//! `ichidoctl cost`: what a month costs. It is `make cost`: prices, usage and the synthesized templates are TypeScript's, in
//! `infra/cost.ts`, and there is one of each.

use std::path::PathBuf;
use std::process::Stdio;

use clap::Args;

use crate::context::{Context, Ended, Error, failed};
use crate::infra::find_tree;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl cost --env prod
  ichidoctl cost --env prod --free-tier
  ichidoctl cost --env prod --usage my-usage.json --json

Run it in the project's tree.")]
pub struct Cost {
    /// With what AWS gives away every month
    #[arg(long)]
    pub free_tier: bool,
    /// What is used in a month, instead of infra/cost/usage.json
    #[arg(long, value_name = "FILE")]
    pub usage: Option<PathBuf>,
}

impl Cost {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let environment = context.environment()?;
        let tree = find_tree().ok_or_else(|| {
            Error::Refused("prices and usage are in infra/cost: run this in the project's tree".to_owned())
        })?;
        let mut command = tokio::process::Command::new(tree.join("scripts/cost"));
        command.env("ENV", environment.name()).env("FREE_TIER", if self.free_tier { "on" } else { "off" });
        match &self.usage {
            // the script changes its directory
            Some(usage) => command.env(
                "USAGE",
                usage.canonicalize().map_err(|error| failed(format!("{} cannot be read", usage.display()), error))?,
            ),
            None => command.env_remove("USAGE"),
        };
        if context.json() {
            command.arg("--json");
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().await;
        let output = output.map_err(|error| failed("scripts/cost could not be started", error))?;
        if !output.status.success() {
            return Err(Error::Refused(format!("scripts/cost failed ({}); what it said is above", output.status)));
        }
        context.write(&String::from_utf8_lossy(&output.stdout))?;
        Ok(Ended::Well)
    }
}
