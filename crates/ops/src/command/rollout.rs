//! `ichidoctl rollout`: moves traffic to new versions step by step, and back if something goes wrong.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::context::{Context, Ended, Environment, Error, failed};
use crate::infra::Described;
use crate::rollout::alias::{DEPLOYED, Standing, Version};
use crate::rollout::machine::Goal;
use crate::rollout::plan::{self, Item, Pace, TICK, Watch};
use crate::rollout::together::{choose, item, move_all};
use crate::rollout::view;

/// On the local AWS nothing is at stake, and nobody waits 15 s for the next look.
const LOCAL_TICK: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl rollout --env prod --plan                     shows what would happen
  ichidoctl rollout --env prod                            moves every function that has a new version
  ichidoctl rollout --env prod --function slack-events    moves one function
  ichidoctl rollout --env prod --abort                    goes back, also if the rollout's process was killed
  ichidoctl rollout --env prod --json                     prints one event per line

If the process is killed, run the same command again: it goes on. Ctrl-C goes back. Exit code 1 if traffic went back.")]
pub struct Rollout {
    #[command(flatten)]
    pub choice: Choice,
    /// Only show what would happen
    #[arg(long)]
    pub plan: bool,
    /// Return to the old version from a rollout that is under way, at once
    #[arg(long, conflicts_with_all = ["plan", "to"])]
    pub abort: bool,
    /// The steps in percent, instead of the environment's: 10,50,100
    #[arg(long, value_name = "PERCENT", value_delimiter = ',')]
    pub steps: Option<Vec<u8>>,
    /// How long each step is watched, instead of the environment's time; not shorter than the alarms' window
    #[arg(long, value_name = "SECONDS")]
    pub bake: Option<u64>,
    /// Do not watch this alarm, because it rings already; can be repeated
    #[arg(long, value_name = "ALARM")]
    pub despite: Vec<String>,
    /// Read the environment's description from this file (infra/cli/describe.ts prints it), not from the project's tree
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

/// Which functions, and to which version.
#[derive(Debug, Args)]
pub struct Choice {
    /// Only this function; can be repeated
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// To this version, with exactly one --function
    #[arg(long, value_name = "VERSION")]
    pub to: Option<u64>,
}

impl Choice {
    /// The version, which belongs to one function.
    pub(super) fn version(&self) -> Result<Option<Version>, Error> {
        if self.to.is_some() && self.functions.len() != 1 {
            return Err(Error::Refused("--to needs exactly one function: name it with --function".to_owned()));
        }
        Ok(self.to.map(Version))
    }
}

impl Rollout {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let described = Described::of(context, self.settings.as_deref()).await?;
        let mut pace =
            Pace::new(&described.settings.rollout, self.steps.as_deref(), self.bake.map(Duration::from_secs))
                .map_err(|error| Error::Refused(error.to_string()))?;
        let local = context.environment()? == Environment::Local;
        pace.tick = if local { LOCAL_TICK } else { TICK };
        let Choice { functions, .. } = &self.choice;
        let names = choose(functions, &described.functions(), &described.settings.suffix)?;
        let to = self.choice.version()?;

        let mut items = Vec::new();
        for function in names {
            let watch = Watch::of(&function, &described, &self.despite)
                .map_err(|error| failed("the alarms of the templates could not be read", error))?;
            items.push(item(context, &function, watch, pace.tick, to).await?);
        }
        if self.abort {
            let moving = |item: &&Item| !functions.is_empty() || !matches!(item.standing, Standing::Settled { .. });
            let items: Vec<_> = items.iter().filter(moving).map(|item| (item, Goal::Abort)).collect();
            if items.is_empty() && !context.json() {
                context.line("no rollout is under way")?;
            }
            return move_all(context, items, &pace).await;
        }
        refuse_unfinished(&items)?;
        if !local {
            refuse_short_bake(&items, &pace)?;
        }
        if self.plan {
            return show(context, &items, &pace);
        }
        let forward = |item| Item::target(item).map(|to| (item, Goal::Forward(to)));
        let items: Vec<_> = items.iter().filter_map(forward).collect();
        if items.is_empty() {
            if !context.json() {
                context.line("nothing to do: what was deployed last has all traffic")?;
            }
            return Ok(Ended::Well);
        }
        move_all(context, items, &pace).await
    }
}

/// What a deployment that did not finish has left is not what was meant to be rolled out.
fn refuse_unfinished(items: &[Item]) -> Result<(), Error> {
    let unfinished = |item: &&Item| item.deployed.is_none() && matches!(item.standing, Standing::Settled { .. });
    match items.iter().find(unfinished) {
        Some(Item { function, .. }) => Err(Error::Refused(format!(
            "{function} has no alias {DEPLOYED}, so no deployment of it has finished: repeat make deploy, or choose a version with --function and --to"
        ))),
        None => Ok(()),
    }
}

/// `--bake` may be longer than the alarms' window, and not shorter.
fn refuse_short_bake(items: &[Item], pace: &Pace) -> Result<(), Error> {
    let watched = pace.steps.len() > 1 || !pace.bake.is_zero();
    let window = items.iter().filter(|item| item.target().is_some()).map(|item| item.watch.window).max();
    match window {
        Some(window) if watched && !pace.stretch && pace.bake < window => {
            Err(Error::Refused(plan::Error::ShortBake { bake: pace.bake, window }.to_string()))
        }
        _ => Ok(()),
    }
}

fn show(context: &mut Context<'_>, items: &[Item], pace: &Pace) -> Result<Ended, Error> {
    if context.json() {
        let shown: Vec<_> = items.iter().map(|item| item.shown(pace)).collect();
        context.value(&shown)?;
    } else {
        view::plan(items, pace).lines().try_for_each(|line| context.line(line))?;
    }
    Ok(Ended::Well)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::alias::Alias;

    #[test]
    fn without_a_finished_deployment_there_is_nothing_to_roll_out() {
        let item = |other, deployed| {
            let alias = Alias { version: Version(1), other, description: String::new(), revision: String::new() };
            [Item::new("slack-events", &alias, deployed, Watch::default())]
        };
        let refused = refuse_unfinished(&item(None, None)).unwrap_err().to_string();
        assert!(refused.contains("slack-events has no alias deployed"), "{refused}");
        assert!(refuse_unfinished(&item(None, Some(Version(2)))).is_ok());
        assert!(refuse_unfinished(&item(Some((Version(2), 10)), None)).is_ok(), "what is under way can end");
    }
}
