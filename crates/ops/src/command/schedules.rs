//! `ichidoctl schedules`: lists schedules, pauses and resumes one, changes its rate, or runs it now.
//!
//! An update replaces the whole schedule. So the schedule is read first and written back as it was, except for the one
//! value that changes. A deployment does not notice the change: `ichidoctl mend` puts the template's values back.
//!
//! While a schedule is paused, its function does not run, and the alarms that watch the function could ring only because of
//! that. So pausing a schedule disables the actions of these alarms, and resuming it enables them again. The alarms of a
//! function that something else invokes too are left alone.

use aws_sdk_scheduler::operation::get_schedule::GetScheduleOutput;
use aws_sdk_scheduler::types::ScheduleState;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Environment, Error, Why, failed, partly};
use crate::infra;
use crate::operation::{self, Intent};
use crate::outside::alarms::{self, Watching};
use crate::outside::error::not_changed;
use crate::outside::invoke::{self, Raised};
use crate::outside::schedule::unchanged;
use crate::show;

/// How many pages of the account's schedules are read.
const MOST_PAGES: usize = 100;

#[derive(Debug, Subcommand)]
pub enum Schedules {
    /// List our schedules: state, rate, and the function that each invokes
    #[command(after_help = "Examples:
  ichidoctl schedules list --env prod
  ichidoctl schedules list --endpoint-url http://127.0.0.1:8787 --json")]
    List,
    /// Stop a schedule until it is resumed
    #[command(
        after_help = "The feed is not read while the schedule is paused. The alarms that watch its function page nobody until it is
resumed, unless something else invokes the function too.

Example:
  ichidoctl schedules pause github-feed-subscriber-schedule --env prod"
    )]
    Pause(Changed),
    /// Start a paused schedule again
    #[command(after_help = "Example:\n  ichidoctl schedules resume github-feed-subscriber-schedule --env prod")]
    Resume(Changed),
    /// Change how often a schedule runs
    #[command(
        after_help = "Example:\n  ichidoctl schedules rate github-feed-subscriber-schedule 'rate(15 minutes)' --env prod"
    )]
    Rate(Rate),
    /// Invoke the schedule's function once, now, and wait for its answer
    #[command(after_help = "Example:\n  ichidoctl schedules run github-feed-subscriber-schedule --env prod")]
    Run(Run),
}

#[derive(Debug, Args)]
pub struct One {
    /// The name of the schedule, or of its function; `-ENV` at the end may be left out
    pub name: String,
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub one: One,
    #[command(flatten)]
    pub why: Why,
}

#[derive(Debug, Args)]
pub struct Changed {
    #[command(flatten)]
    pub one: One,
    #[command(flatten)]
    pub why: Why,
    /// Whether it was shown as running, to whom it was shown.
    #[arg(skip)]
    pub shown_running: Option<bool>,
}

#[derive(Debug, Args)]
pub struct Rate {
    #[command(flatten)]
    pub changed: Changed,
    /// rate(15 minutes), 15 minutes, or a cron(…) expression
    pub expression: String,
}

impl Schedules {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Schedules::List => list(context).await,
            Schedules::Pause(changed) => changed.change(context, "pause", Some(ScheduleState::Disabled), None).await,
            Schedules::Resume(changed) => changed.change(context, "resume", Some(ScheduleState::Enabled), None).await,
            Schedules::Rate(rate) => {
                rate.changed.change(context, "rate", None, Some(expression(&rate.expression)?)).await
            }
            Schedules::Run(run) => run.run(context).await,
        }
    }
}

/// Our schedules: those that invoke one of our functions in this environment, whatever their names are.
pub(crate) async fn ours(context: &Context<'_>) -> Result<Vec<GetScheduleOutput>, Error> {
    let suffix = context.suffix()?;
    // The local platform lists its schedules with the names of production, whatever it was asked with.
    let also = if context.environment()? == Environment::Local { "" } else { suffix };
    let functions: Vec<String> = Application::ALL
        .iter()
        .flat_map(|application| application.functions())
        .flat_map(|function| [format!("{function}{suffix}"), format!("{function}{also}")])
        .collect();
    let client = context.scheduler();
    let (mut found, mut next) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let page = client.list_schedules().set_next_token(next.take()).send().await.map_err(|error| {
            failed("could not list the schedules; check the endpoint and the permission scheduler:ListSchedules", error)
        })?;
        for summary in page.schedules {
            let arn = summary.target().map(|target| target.arn().to_owned()).unwrap_or_default();
            if !functions.contains(&template::function_name(&Value::from(arn))) {
                continue;
            }
            let name = summary.name.unwrap_or_default();
            let whole = client.get_schedule().name(&name).set_group_name(summary.group_name).send().await;
            found.push(whole.map_err(|error| {
                failed(format!("could not read the schedule {name}; check the permission scheduler:GetSchedule"), error)
            })?);
        }
        next = page.next_token;
        if next.is_none() {
            break;
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

async fn list(context: &mut Context<'_>) -> Result<Ended, Error> {
    let all = ours(context).await?;
    if context.json() {
        context.value(&all.iter().map(as_json).collect::<Vec<_>>())?;
    } else if all.is_empty() {
        context.line("found no schedule; are the feeds deployed to this environment?")?;
    } else {
        let rows: Vec<[String; 4]> = all
            .iter()
            .map(|schedule| {
                [
                    schedule.name().unwrap_or_default().to_owned(),
                    state(schedule).to_owned(),
                    schedule.schedule_expression().unwrap_or_default().to_owned(),
                    function(schedule),
                ]
            })
            .collect();
        show::table(context, ["SCHEDULE", "STATE", "RATE", "INVOKES"], &rows)?;
    }
    Ok(Ended::Well)
}

impl One {
    async fn find(&self, context: &Context<'_>) -> Result<GetScheduleOutput, Error> {
        let mut all = ours(context).await?;
        let suffix = context.suffix()?;
        let full = format!("{}{suffix}", self.name);
        let named = |schedule: &GetScheduleOutput| {
            let (name, function) = (schedule.name().unwrap_or_default(), function(schedule));
            let asked = [Some(self.name.as_str()), Some(full.as_str()), self.name.strip_suffix(suffix)];
            [name, function.as_str()].iter().any(|known| asked.contains(&Some(*known)))
        };
        match all.iter().position(named) {
            Some(at) => Ok(all.swap_remove(at)),
            None => {
                let known: Vec<&str> = all.iter().filter_map(|schedule| schedule.name()).collect();
                Err(Error::Refused(format!(
                    "there is no schedule {}; the schedules are {}",
                    self.name,
                    known.join(", ")
                )))
            }
        }
    }
}

impl Run {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let schedule = self.one.find(context).await?;
        let input = schedule.target().and_then(|target| target.input());
        let input: Value = input.and_then(|input| serde_json::from_str(input).ok()).unwrap_or_else(|| json!({}));
        let function = function(&schedule);
        let name = schedule.name().unwrap_or_default();
        let (application, table) = place(context, name, &function)?;
        let intent = Intent {
            application,
            table: &table,
            what: "run",
            on: name,
            reason: &self.why.reason,
            question: None,
            before: as_json(&schedule),
        };
        let traced = operation::begin(context, intent).await?;
        let heard = invoke::hear(context, &function, &input).await;
        let ran = |heard: &Result<Value, Raised>| match heard {
            Ok(_) => format!("ran {function} by hand"),
            Err(raised) => format!("ran {function} by hand: {}", raised.said),
        };
        traced.end(context, &heard, ran).await;
        let answer = match heard? {
            Ok(answer) => answer,
            // It ran. What it says is for somebody to look at.
            Err(Raised { said, .. }) => {
                if context.json() {
                    context.value(&json!({ "function": function, "error": said }))?;
                } else {
                    context.line(said)?;
                }
                return Ok(Ended::NeedsAttention);
            }
        };
        if context.json() {
            context.value(&json!({ "function": function, "answer": answer }))?;
        } else {
            context.line(format_args!("{function} answered {answer}"))?;
        }
        Ok(Ended::Well)
    }
}

impl Changed {
    async fn change(
        &self,
        context: &mut Context<'_>,
        what: &str,
        state_wanted: Option<ScheduleState>,
        expression: Option<String>,
    ) -> Result<Ended, Error> {
        let before = self.one.find(context).await?;
        let enabled = state_wanted.as_ref().map(|state| *state == ScheduleState::Enabled);
        let name = before.name().unwrap_or_default().to_owned();
        if self.shown_running.is_some_and(|running| running != (state(&before) == "ENABLED")) {
            let now = if state(&before) == "ENABLED" { "running" } else { "paused" };
            return Err(Error::Refused(format!(
                "{name} is {now} already: somebody else changed it. Nothing was changed"
            )));
        }
        let function = function(&before);
        let (application, table) = place(context, &name, &function)?;
        let intent = Intent {
            application,
            table: &table,
            what,
            on: &name,
            reason: &self.why.reason,
            question: None,
            before: as_json(&before),
        };
        let traced = operation::begin(context, intent).await?;
        let made = make(context, &before, &function, expression, state_wanted).await;
        let done = |made: &Made| {
            let rate = made.after.schedule_expression().unwrap_or_default();
            let alarms = match (enabled, made.watching.names.as_slice()) {
                (None, _) | (_, []) => String::new(),
                (Some(true), names) => format!("; these alarms page again: {}", names.join(", ")),
                (Some(false), names) => format!("; these alarms page nobody: {}", names.join(", ")),
            };
            format!("changed the schedule {name} by hand: now {}, {rate}{alarms}", state(&made.after))
        };
        traced.end(context, &made, done).await;
        let Made { after, watching, only_scheduled } = made?;
        let rate = after.schedule_expression().unwrap_or_default();
        if !context.json() {
            context.line(format_args!(
                "{name} is {}, {rate}; `ichidoctl mend` sets it back to what the template says",
                state(&after)
            ))?;
        }
        if context.json() {
            let mut shown = as_json(&after);
            if enabled.is_some() {
                shown["alarms"] = json!(watching.names);
            }
            context.value(&shown)?;
        } else if let Some(enabled) = enabled {
            if only_scheduled {
                tell(context, &watching, enabled)?;
            } else {
                context.line(format_args!("{function} has other callers too, so its alarms page as before"))?;
            }
        }
        Ok(Ended::Well)
    }
}

/// The application whose function the schedule `name` invokes, and its table, which keeps what was done by hand.
fn place(context: &Context<'_>, name: &str, function: &str) -> Result<(Application, String), Error> {
    let plain = function.strip_suffix(context.suffix()?).unwrap_or(function);
    let application = Application::of_function(plain)
        .ok_or_else(|| Error::Refused(format!("{name} invokes {function}, which is of no application")))?;
    Ok((application, context.table_name(None, application.table())?))
}

/// A changed schedule.
struct Made {
    after: GetScheduleOutput,
    /// The alarms whose paging was changed with it.
    watching: Watching,
    /// Whether nothing but the schedule invokes its function.
    only_scheduled: bool,
}

/// Changes a schedule, and the paging of the alarms that watch its function.
async fn make(
    context: &Context<'_>,
    before: &GetScheduleOutput,
    function: &str,
    expression: Option<String>,
    wanted: Option<ScheduleState>,
) -> Result<Made, Error> {
    update(context, before, expression, wanted.clone()).await?;
    follow(context, before, function, wanted).await.map_err(|error| match error {
        overtaken @ Error::Partly { .. } => overtaken,
        error => {
            let name = before.name().unwrap_or_default();
            partly(
                format!("changed the schedule {name}, but not all that follows from it; run the command again"),
                error,
            )
        }
    })
}

/// Reads a schedule that was changed, and lets the alarms that watch its function follow it.
async fn follow(
    context: &Context<'_>,
    before: &GetScheduleOutput,
    function: &str,
    wanted: Option<ScheduleState>,
) -> Result<Made, Error> {
    let after = again(context, before).await?;
    let enabled = wanted.as_ref().map(|state| *state == ScheduleState::Enabled);
    let mut only_scheduled = infra::is_only_scheduled(&infra::with_suffix(context.suffix()?)?, function);
    if enabled == Some(false) && only_scheduled {
        // The feeds of the list share a function, and its alarm watches those that still run.
        let others = ours(context).await?;
        only_scheduled = !others.iter().any(|other| {
            other.name() != after.name() && self::function(other) == function && state(other) != "DISABLED"
        });
    }
    let Some(enabled) = enabled.filter(|_| only_scheduled) else {
        return Ok(Made { after, watching: Watching::default(), only_scheduled });
    };
    let watching = alarms::page(context, function, enabled).await?;
    // Somebody may have changed it back meanwhile. Its alarms follow what it is.
    let now = again(context, before).await?;
    if now.state() != wanted.as_ref() {
        alarms::page(context, function, state(&now) == "ENABLED").await?;
        let (name, state) = (now.name().unwrap_or_default(), state(&now));
        let now = Error::Refused(format!("it is {state}, and its alarms were set to match"));
        return Err(partly(format!("changed the schedule {name}, but somebody else changed it at the same time"), now));
    }
    Ok(Made { after, watching, only_scheduled })
}

/// Changes the rate or the state.
async fn update(
    context: &Context<'_>,
    before: &GetScheduleOutput,
    expression: Option<String>,
    state: Option<ScheduleState>,
) -> Result<(), Error> {
    let (client, name) = (context.scheduler(), before.name().unwrap_or_default());
    unchanged(&client, before)
        .set_schedule_expression(expression.or_else(|| before.schedule_expression.clone()))
        .set_state(state.or_else(|| before.state.clone()))
        .send()
        .await
        .map_err(|error| {
            not_changed(
                format!("could not change the schedule {name}; check the permissions scheduler:UpdateSchedule and iam:PassRole on its role"),
                error,
            )
        })?;
    Ok(())
}

/// Reads a schedule again after it was changed.
async fn again(context: &Context<'_>, before: &GetScheduleOutput) -> Result<GetScheduleOutput, Error> {
    let name = before.name().unwrap_or_default();
    let read = context.scheduler().get_schedule().name(name).set_group_name(before.group_name.clone()).send().await;
    read.map_err(|error| {
        failed(format!("could not read the schedule {name} again; check the permission scheduler:GetSchedule"), error)
    })
}

/// Says which alarms page again, or do not page.
fn tell(context: &mut Context<'_>, watching: &Watching, enabled: bool) -> Result<(), Error> {
    let names = watching.names.join(", ");
    match (watching.names.is_empty(), enabled) {
        (true, _) => context.line("no alarm watches its function"),
        (false, false) => context.line(format_args!("until it is resumed, these alarms page nobody: {names}")),
        (false, true) => {
            context.line(format_args!("these alarms page again: {names}"))?;
            if !watching.ringing.is_empty() {
                // CloudWatch tells only about changes, so an alarm that rang during the pause stays silent until it has ended.
                let ringing = watching.ringing.join(", ");
                context.line(format_args!("these alarms still ring; CloudWatch reports them again only after they have been OK: {ringing}. `ichidoctl schedules run` may end them sooner"))?;
            }
            Ok(())
        }
    }
}

pub(crate) fn state(schedule: &GetScheduleOutput) -> &str {
    schedule.state().map_or("ENABLED", ScheduleState::as_str)
}

pub(super) fn function(schedule: &GetScheduleOutput) -> String {
    let arn = schedule.target().map(|target| target.arn().to_owned()).unwrap_or_default();
    template::function_name(&Value::from(arn))
}

fn as_json(schedule: &GetScheduleOutput) -> Value {
    json!({
        "name": schedule.name(), "group": schedule.group_name(), "state": state(schedule),
        "expression": schedule.schedule_expression(), "function": function(schedule),
    })
}

/// A schedule expression; `15 minutes` becomes `rate(15 minutes)`.
fn expression(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let known = ["rate(", "cron(", "at("].iter().any(|kind| text.starts_with(kind)) && text.ends_with(')');
    let bare = text.split_once(' ').is_some_and(|(number, unit)| {
        number.parse::<u32>().is_ok_and(|number| number > 0)
            && ["minute", "minutes", "hour", "hours", "day", "days"].contains(&unit)
    });
    match (known, bare) {
        (true, _) => Ok(text.to_owned()),
        (_, true) => Ok(format!("rate({text})")),
        _ => Err(Error::Refused(format!("{text:?} is not a rate; write rate(15 minutes), rate(1 hour) or cron(…)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_an_expression_or_plain_words() {
        assert_eq!(expression("rate(15 minutes)").ok().as_deref(), Some("rate(15 minutes)"));
        assert_eq!(expression("1 hour").ok().as_deref(), Some("rate(1 hour)"));
        for nonsense in ["", "often", "rate(5 minutes", "0 minutes", "5 fortnights"] {
            assert!(expression(nonsense).is_err(), "{nonsense}");
        }
    }
}
