//! `ichidoctl mend`: sets back, from the templates, what somebody changed by hand.
//!
//! The doctor finds, this command sets back. A deployment cannot: CloudFormation changes only what differs between two
//! templates, and it does not look at what is there. What one call can correct is corrected; everything else is named with
//! what to do instead. Afterwards the doctor looks again.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use crate::applications::Application;
use crate::context::{Context, Ended, Error};
use crate::doctor::{Account, Finding, Places, instead, line, look};
use crate::infra::Described;
use crate::operation::{self, Intent};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ichidoctl mend --env prod --plan                            shows what it would set back
  ichidoctl mend --env prod

It sets back tables (deletion protection, billing, TTL, point-in-time recovery), schedules, alarms, reserved concurrency and
how long logs are kept. It also ends a pause of a schedule. It asks first, unless --yes is given. Exit code 1 if something
still differs from the templates.")]
pub struct Mend {
    /// Only show what would be set back
    #[arg(long)]
    pub plan: bool,
    /// Read the environment's description from this file (infra/cli/describe.ts prints it), not from the project's tree
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

impl Mend {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let described = Described::of(context, self.settings.as_deref()).await?;
        let places = Places::of(context, &described);
        let found = look(&places, &described, Timestamp::now()).await?;
        let (mendable, left): (Vec<&Finding>, Vec<&Finding>) =
            found.iter().filter(|finding| !finding.ok).partition(|finding| finding.mend.is_some());
        if self.plan || mendable.is_empty() {
            return report(context, "would set back", &mendable, &left);
        }
        for finding in &mendable {
            if !context.json() {
                context.line(line(finding))?;
            }
        }
        let question = match mendable.len() {
            1 => "Set it back to what the template says?".to_owned(),
            many => format!("Set these {many} back to what the templates say?"),
        };
        context.confirm(&question)?;
        let account = Account::of(&places, &described).await.map_err(Error::Refused)?;
        // Only for the log. A schedule is not set back without it.
        let by = context.caller().await.ok();
        for finding in &mendable {
            let Some(mend) = &finding.mend else { continue };
            let work = mend.apply(&places, &account);
            let done = match mend.function_of_schedule() {
                Some(function) => {
                    let short = function.strip_suffix(described.settings.suffix.as_str()).unwrap_or(&function);
                    set_back(context, short, finding, &question, work).await
                }
                None => work.await,
            };
            let (level, verb) = if done.is_ok() { ("INFO", "set back") } else { ("ERROR", "could not set back") };
            context.log(&json!({
                "level": level, "message": format!("ichidoctl mend {verb} {} {}", finding.kind, finding.name),
                "kind": finding.kind, "name": finding.name, "by": by, "before": finding.notes, "error": done.err(),
            }))?;
        }
        let after = look(&places, &described, Timestamp::now()).await?;
        let is_left = |finding: &&Finding| {
            after.iter().any(|after| {
                let same = !after.ok && after.kind == finding.kind && after.name == finding.name;
                same && after.mend.is_some()
            })
        };
        let mended: Vec<&Finding> = mendable.into_iter().filter(|finding| !is_left(finding)).collect();
        let left: Vec<&Finding> = after.iter().filter(|finding| !finding.ok).collect();
        report(context, "set back", &mended, &left)
    }
}

/// Sets back a schedule that starts this function, and leaves a trace, as every other change of a schedule does.
async fn set_back(
    context: &mut Context<'_>,
    function: &str,
    finding: &Finding,
    question: &str,
    work: impl Future<Output = Result<(), String>>,
) -> Result<(), String> {
    let application = Application::of_function(function).ok_or("it starts a function of no application")?;
    let table = context.table_name(None, application.table()).map_err(|error| error.to_string())?;
    let intent = Intent {
        application,
        table: &table,
        what: "mend",
        on: &finding.name,
        reason: "the template says so",
        question: Some(question),
        before: json!(finding.notes),
    };
    let traced = operation::begin(context, intent).await.map_err(|error| telemetry::causes(&error))?;
    let done = work.await.map_err(Error::Refused);
    let said = format!("set the schedule {} back by hand to what the template says", finding.name);
    traced.end(context, &done, |_| said).await;
    done.map_err(|error| error.to_string())
}

/// Says what was, or would be, set back, and what else differs.
fn report(context: &mut Context<'_>, verb: &str, mended: &[&Finding], left: &[&Finding]) -> Result<Ended, Error> {
    if context.json() {
        context.value(&json!({ "mended": mended, "left": left }))?;
    } else {
        for finding in mended {
            context.line(format_args!("{verb} {} {}: {}", finding.kind, finding.name, finding.notes.join("; ")))?;
        }
        for finding in left {
            context.line(line(finding))?;
            context.line(format_args!(
                "    {}",
                finding.mend.as_ref().map_or_else(
                    || instead(finding.kind),
                    |_| "AWS refused the change; the line on standard error says why"
                )
            ))?;
        }
        if mended.is_empty() && left.is_empty() {
            context.line("everything agrees with the templates")?;
        }
    }
    let differs = !left.is_empty() || (verb.starts_with("would") && !mended.is_empty());
    Ok(if differs { Ended::NeedsAttention } else { Ended::Well })
}
