//! `ichidoctl rollback`: returns all traffic to the version before the last rollout, in one command.
//!
//! It needs only this binary and the permission to change the alias: no checkout, no node. It does not wait for a rollout
//! that is under way.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::rollout::Choice;
use crate::context::{Context, Ended, Error};
use crate::infra::{function_names, with_suffix};
use crate::rollout::alias::{ALL, Note, Run, Standing, Version};
use crate::rollout::machine::Goal;
use crate::rollout::plan::{Item, Pace, Watch};
use crate::rollout::together::{choose, item, move_all};

/// The wait before the next try if Lambda does not answer.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl rollback --env prod --function slack-events             one function
  ichidoctl rollback --env prod                                     all functions of the last rollout
  ichidoctl rollback --env prod --function slack-events --to 12     to the version of your choice
  ichidoctl rollback --env prod --plan                              shows what would happen

Rolling back one function twice has no further effect.")]
pub struct Rollback {
    #[command(flatten)]
    pub choice: Choice,
    /// Only show what would happen
    #[arg(long)]
    pub plan: bool,
}

impl Rollback {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let to = self.choice.version()?;
        let suffix = context.suffix()?;
        let Choice { functions, .. } = &self.choice;
        let mut items = Vec::new();
        for function in choose(functions, &function_names(&with_suffix(suffix)?), suffix)? {
            items.push(item(context, &function, Watch::default(), RETRY, None).await?);
        }
        let items: Vec<&Item> = if functions.is_empty() { last_run(&items) } else { items.iter().collect() };
        if items.is_empty() {
            return Err(Error::Refused(
                "found no rollout to roll back; choose a version yourself with --function NAME --to VERSION".to_owned(),
            ));
        }
        if self.plan {
            return show(context, &items, to);
        }
        let pace = Pace { steps: vec![ALL], bake: Duration::ZERO, stretch: false, tick: RETRY };
        let items = items.into_iter().map(|item| (item, Goal::Rollback(to))).collect();
        move_all(context, items, &pace).await
    }
}

fn show(context: &mut Context<'_>, items: &[&Item], to: Option<Version>) -> Result<Ended, Error> {
    let rows: Vec<_> = items.iter().map(|item| (item.function.as_str(), live(item), target(item, to))).collect();
    if context.json() {
        let rows = rows.iter().map(|(function, live, to)| json!({"function": function, "live": live, "to": to}));
        context.value(&rows.collect::<Vec<_>>())?;
    } else {
        for (function, live, to) in rows {
            context.line(match to {
                Some(to) => format!("{function}  version {live} -> {to}"),
                None => format!("{function}  version {live}; the version before it is not known"),
            })?;
        }
    }
    Ok(Ended::Well)
}

fn target(item: &Item, to: Option<Version>) -> Option<Version> {
    to.or(match item.standing {
        Standing::Moving { old, .. } => Some(old),
        Standing::Foreign { main, .. } => Some(main),
        Standing::Settled { .. } => item.standing.before(),
    })
}

fn live(item: &Item) -> Version {
    match item.standing {
        Standing::Settled { live, .. } => live,
        Standing::Moving { new, .. } => new,
        Standing::Foreign { other, .. } => other,
    }
}

/// The functions of the last rollout: those whose rollout is under way, or else those of the run that finished last.
fn last_run(items: &[Item]) -> Vec<&Item> {
    let moving: Vec<&Item> = items
        .iter()
        .filter(|item| matches!(item.standing, Standing::Moving { .. } | Standing::Foreign { .. }))
        .collect();
    if !moving.is_empty() {
        return moving;
    }
    let finished = |item: &Item| -> Option<(Timestamp, Run)> {
        match &item.standing {
            Standing::Settled { last: Some(Note::Live { run, at, .. }), .. } => Some((*at, run.clone())),
            _ => None,
        }
    };
    let Some((_, run)) = items.iter().filter_map(finished).max_by_key(|(at, _)| *at) else { return Vec::new() };
    items.iter().filter(|item| finished(item).is_some_and(|(_, by)| by == run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::alias::{Alias, Change};

    fn item(function: &str, change: Change) -> Item {
        let alias = Alias {
            version: change.version,
            other: change.other,
            description: change.note.to_string(),
            revision: String::new(),
        };
        Item::new(function, &alias, Some(Version(9)), Watch::default())
    }

    #[test]
    fn without_a_name_the_last_rollout_is_taken_back_and_no_other() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let run = |name: &str| Run(name.to_owned());
        let items = [
            item("a", Change::finish(Version(1), Version(2), &run("early"), at(100))),
            item("b", Change::finish(Version(1), Version(2), &run("late"), at(200))),
            item("c", Change::finish(Version(4), Version(5), &run("late"), at(230))),
            item("d", Change::back(Version(1), Version(2), "an alarm", &run("latest"), at(300))),
        ];
        let names = |items: &[Item]| last_run(items).iter().map(|item| item.function.clone()).collect::<Vec<_>>();
        assert_eq!(names(&items), ["b", "c"]);
        let moving = item("e", Change::step(Version(1), Version(2), 10, &run("now"), 0, at(400)));
        assert_eq!(names(&[items.to_vec(), vec![moving]].concat()), ["e"]);
        assert!(names(&[]).is_empty());
    }
}
