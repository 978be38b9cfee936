//! `ichidoctl rollback`: back to the version before the last rollout, in one command.
//!
//! It needs nothing but the binary and the right to change the alias: no tree, no node. It waits for nobody.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::rollout::{chosen, go, item};
use crate::context::{Context, Ended, Error};
use crate::infra::{function_names, with_suffix};
use crate::rollout::alias::{ALL, Note, Run, Standing, Version};
use crate::rollout::machine::Goal;
use crate::rollout::plan::{Item, Pace, Watch};

/// Between two tries, if Lambda does not answer.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl rollback --env prod --function slack-events             one function
  ichidoctl rollback --env prod                                     all functions of the last rollout
  ichidoctl rollback --env prod --function slack-events --to 12     to a version of your choice
  ichidoctl rollback --env prod --plan                              what would happen")]
pub struct Rollback {
    /// Only this function; can be repeated. Those of the last rollout otherwise
    #[arg(long = "function", value_name = "NAME")]
    pub functions: Vec<String>,
    /// To this version instead of the one before; with one --function
    #[arg(long, value_name = "VERSION")]
    pub to: Option<u64>,
    /// Only show what would happen
    #[arg(long)]
    pub plan: bool,
}

impl Rollback {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        if self.to.is_some() && self.functions.len() != 1 {
            return Err(Error::Refused("--to is for one function: say which with --function".to_owned()));
        }
        let suffix = context.suffix()?;
        let mut items = Vec::new();
        for function in chosen(&self.functions, &function_names(&with_suffix(suffix)?), suffix)? {
            items.push(item(context, &function, Watch::default(), RETRY, None).await?);
        }
        let items: Vec<&Item> = if self.functions.is_empty() { last_run(&items) } else { items.iter().collect() };
        if items.is_empty() {
            return Err(Error::Refused(
                "no rollout is known that could be taken back; --function NAME --to VERSION goes anywhere".to_owned(),
            ));
        }
        if self.plan {
            return self.show(context, &items);
        }
        let pace = Pace { steps: vec![ALL], bake: Duration::ZERO, stretch: false, tick: RETRY };
        go(context, &items, &pace, |_| Goal::Rollback(self.to.map(Version))).await
    }

    fn show(&self, context: &mut Context<'_>, items: &[&Item]) -> Result<Ended, Error> {
        let rows: Vec<_> = items.iter().map(|item| (item.function.as_str(), live(item), self.target(item))).collect();
        if context.json() {
            let rows = rows.iter().map(|(function, live, to)| json!({"function": function, "live": live, "to": to}));
            context.value(&rows.collect::<Vec<_>>())?;
        } else {
            for (function, live, to) in rows {
                context.line(match to {
                    Some(to) => format!("{function}  version {live} -> {to}"),
                    None => format!("{function}  version {live}, no version before is known"),
                })?;
            }
        }
        Ok(Ended::Well)
    }

    fn target(&self, item: &Item) -> Option<Version> {
        self.to.map(Version).or(match item.standing {
            Standing::Moving { old, .. } => Some(old),
            Standing::Foreign { main, .. } => Some(main),
            Standing::Settled { .. } => item.standing.before(),
        })
    }
}

fn live(item: &Item) -> Version {
    match item.standing {
        Standing::Settled { live, .. } => live,
        Standing::Moving { new, .. } => new,
        Standing::Foreign { other, .. } => other,
    }
}

/// The functions of the last rollout: those that are under way, or else those of the run that finished last.
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
        Item::new(function, &alias, Version(9), Watch::default())
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
