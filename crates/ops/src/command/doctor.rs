//! `ichidoctl doctor`: compares what is deployed with the templates.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use crate::context::{Context, Ended, Error};
use crate::doctor::{Finding, Places, line, look};
use crate::infra::Described;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl doctor --env prod
  ichidoctl doctor --env prod --bad                           only the problems
  ichidoctl doctor --env local --endpoint-url http://127.0.0.1:4599 --json

It prints one line per table, index, TTL, schedule, alias, reserved concurrency, log group, alarm, secret, role and
permission. Exit code 1 if something differs from the templates, or cannot be checked. `ichidoctl mend` sets it back.")]
pub struct Doctor {
    /// Show only the problems
    #[arg(long)]
    pub bad: bool,
    /// Read the environment's description from this file (infra/cli/describe.ts prints it), not from the project's tree
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

impl Doctor {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let described = Described::of(context, self.settings.as_deref()).await?;
        let found = look(&Places::of(context, &described), &described, Timestamp::now()).await?;
        self.report(context, &described, &found)
    }

    fn report(&self, context: &mut Context<'_>, described: &Described, found: &[Finding]) -> Result<Ended, Error> {
        let bad = found.iter().filter(|finding| !finding.ok).count();
        let shown: Vec<&Finding> = found.iter().filter(|finding| !self.bad || !finding.ok).collect();
        if context.json() {
            context.value(&shown)?;
        } else {
            for finding in shown {
                context.line(line(finding))?;
            }
            if described.on_local_platform() {
                context.line(
                    "roles, permissions, reserved concurrency and log groups are not checked on the local platform",
                )?;
            }
            match bad {
                0 => context.line(format!("all {} checks agree with the templates", found.len()))?,
                _ => context.line(format!(
                    "{bad} of {} checks failed; make deploy ENV={} deploys what is new in the templates, and `ichidoctl mend` sets back what was changed by hand",
                    found.len(),
                    described.settings.name
                ))?,
            }
        }
        Ok(if bad == 0 { Ended::Well } else { Ended::NeedsAttention })
    }
}
