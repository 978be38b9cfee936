//! `ichidoctl doctor`: is what is deployed as the templates say?

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use crate::context::{Context, Ended, Error};
use crate::doctor::{Finding, Places, line, look};
use crate::infra::Described;
use crate::rollout::cloud::NO_CREDENTIALS;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl doctor --env prod
  ichidoctl doctor --env prod --bad                           only what is wrong
  ichidoctl doctor --env local --endpoint-url http://127.0.0.1:4599 --json

A line a thing: tables, indexes, TTL, schedules, aliases, alarms, secrets, roles and permissions. Exit code 1 if something is
not as the templates say, or cannot be asked.")]
pub struct Doctor {
    /// Only what is wrong
    #[arg(long)]
    pub bad: bool,
    /// The environment's description, as infra/cli/describe.ts prints it, instead of asking the tree
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

impl Doctor {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let described = Described::of(context, self.settings.as_deref()).await?;
        let found = look(&Places::of(context, !described.on_local_platform()), &described, Timestamp::now()).await;
        // Nothing was asked: that is no finding about what is deployed.
        if found.iter().any(|finding| finding.notes.iter().any(|note| note == NO_CREDENTIALS)) {
            return Err(Error::Refused(NO_CREDENTIALS.to_owned()));
        }
        self.report(context, &described, &found)
    }

    pub fn report(&self, context: &mut Context<'_>, described: &Described, found: &[Finding]) -> Result<Ended, Error> {
        let bad = found.iter().filter(|finding| !finding.ok).count();
        let shown: Vec<&Finding> = found.iter().filter(|finding| !self.bad || !finding.ok).collect();
        if context.json() {
            context.value(&shown)?;
        } else {
            for finding in shown {
                context.line(line(finding))?;
            }
            if described.on_local_platform() {
                context.line("roles and permissions were not looked at: the local platform has no IAM")?;
            }
            match bad {
                0 => context.line(format!("all {} are as the templates say", found.len()))?,
                _ => context.line(format!(
                    "{bad} of {} are not as the templates say; make deploy ENV={} puts right what a deployment makes",
                    found.len(),
                    described.settings.name
                ))?,
            }
        }
        Ok(if bad == 0 { Ended::Well } else { Ended::Found })
    }
}
