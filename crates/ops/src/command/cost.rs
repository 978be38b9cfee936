//! `ichidoctl cost`: shows what one month costs, as `make cost` does. `infra/cost.ts` computes it.

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

Run it in the project's source tree.")]
pub struct Cost {
    /// Subtract what AWS's free tier covers each month
    #[arg(long)]
    pub free_tier: bool,
    /// A file with the usage of one month, instead of infra/cost/usage.json
    #[arg(long, value_name = "FILE")]
    pub usage: Option<PathBuf>,
}

impl Cost {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let json = context.json();
        let printed = self.compute(context, json).await?;
        context.write(&printed)?;
        Ok(Ended::Well)
    }

    /// What the model prints, as JSON or for people.
    pub(crate) async fn compute(&self, context: &Context<'_>, json: bool) -> Result<String, Error> {
        let environment = context.environment()?;
        let tree = find_tree().ok_or_else(|| {
            Error::Refused("the prices are in infra/cost; run this in the project's source tree".to_owned())
        })?;
        let mut command = tokio::process::Command::new(tree.join("scripts/cost"));
        command.env("ENV", environment.name()).env("FREE_TIER", if self.free_tier { "on" } else { "off" });
        match &self.usage {
            // The script changes its directory, so the path must be absolute.
            Some(usage) => command.env(
                "USAGE",
                usage.canonicalize().map_err(|error| failed(format!("could not read {}", usage.display()), error))?,
            ),
            None => command.env_remove("USAGE"),
        };
        if json {
            command.arg("--json");
        }
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().await;
        let output = output.map_err(|error| failed("could not start scripts/cost", error))?;
        if !output.status.success() {
            return Err(Error::Refused(format!("scripts/cost failed ({}); its messages are above", output.status)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
