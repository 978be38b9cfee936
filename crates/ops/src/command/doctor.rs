//! `ichidoctl doctor`: compares what is deployed with the templates.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use crate::context::{Context, Ended, Error};
use crate::doctor::{Finding, Places, line, look};
use crate::infra::Described;
use crate::outside::error::NO_CREDENTIALS;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl doctor --env prod
  ichidoctl doctor --env prod --bad                           only the problems
  ichidoctl doctor --env local --endpoint-url http://127.0.0.1:4599 --json

It prints one line per table, index, TTL, schedule, alias, alarm, secret, role and permission. Exit code 1 if something
differs from the templates, or cannot be checked.")]
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
        let found = look(&Places::of(context, !described.on_local_platform()), &described, Timestamp::now()).await;
        // Without credentials nothing was asked, so nothing is known about what is deployed.
        if found.iter().any(|finding| finding.notes.iter().any(|note| note == NO_CREDENTIALS)) {
            return Err(Error::Refused(NO_CREDENTIALS.to_owned()));
        }
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
                context.line("roles and permissions were not checked: the local platform has no IAM")?;
            }
            match bad {
                0 => context.line(format!("all {} checks agree with the templates", found.len()))?,
                _ => context.line(format!(
                    "{bad} of {} checks failed; make deploy ENV={} deploys what is new in the templates, and what was changed by hand is changed back by hand",
                    found.len(),
                    described.settings.name
                ))?,
            }
        }
        Ok(if bad == 0 { Ended::Well } else { Ended::NeedsAttention })
    }
}
