//! `ichidoctl operations`: shows what operators did by hand, who they were and why.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use function::operation::Kept;
use ichido::{Clock as _, SystemClock, store};
use serde_json::{Value, json};

use super::trace::age;
use crate::applications::Application;
use crate::context::{Context, Ended, Error, failed};
use crate::show;

/// How much of a cell a list shows.
const CELL_CHARS: usize = 120;

#[derive(Debug, Args)]
#[command(
    after_help = "Kept are: freeze, unfreeze, reverse and grant, the release of a key, dead letters and entries of feeds that were sent again or
dropped, and changes of schedules. --json adds what was shown when each was confirmed.

Examples:
  ichidoctl operations --env prod
  ichidoctl operations tokens --since 90d --env prod --json

Exit code 1 if an operation has no clear end: it is under way, it may have happened, or
it happened in part."
)]
pub struct Operations {
    /// The application; without it, all of them
    #[arg(value_enum)]
    pub application: Option<Application>,
    /// How far back: 30m, 24h, 90d
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = age)]
    pub since: Duration,
    /// The table, if it is not the environment's own
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), requires = "application")]
    pub table: Option<String>,
}

impl Operations {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let mut found: Vec<(Application, Kept)> = Vec::new();
        let mut unread = Vec::new();
        match self.application {
            Some(application) => found.extend(self.of(context, application).await?),
            None => {
                for application in Application::ALL {
                    match self.of(context, application).await {
                        Ok(of) => found.extend(of),
                        Err(error) => unread.push(telemetry::causes(&error)),
                    }
                }
            }
        }
        if unread.len() == Application::ALL.len() {
            return Err(Error::Refused(unread.swap_remove(0)));
        }
        found.sort_by(|a, b| a.1.begun_at.cmp(&b.1.begun_at));
        let open = found.iter().any(|(_, kept)| kept.is_open());
        if context.json() {
            let shown: Vec<Value> = found.iter().map(|(application, kept)| as_json(*application, kept)).collect();
            context.value(&json!({ "operations": shown, "unread": unread }))?;
        } else {
            self.show(context, &found, &unread)?;
        }
        Ok(if open || !unread.is_empty() { Ended::NeedsAttention } else { Ended::Well })
    }

    async fn of(&self, context: &Context<'_>, application: Application) -> Result<Vec<(Application, Kept)>, Error> {
        let table = context.table_name(self.table.as_deref(), application.table())?;
        let (client, now) = (context.aws.dynamodb(), SystemClock.now());
        let kept = application.operations(&table).between(&client, now.saturating_sub(self.since), now).await;
        match kept {
            Ok(kept) => Ok(kept.into_iter().map(|kept| (application, kept)).collect()),
            // Not every application is deployed everywhere.
            Err(error) if self.application.is_none() && is_missing(&error) => Ok(Vec::new()),
            Err(error) => Err(failed(
                format!(
                    "could not read the table {table}; check --env, --table and the permissions dynamodb:Query and Scan"
                ),
                error,
            )),
        }
    }

    fn show(&self, context: &mut Context<'_>, found: &[(Application, Kept)], unread: &[String]) -> Result<(), Error> {
        if found.is_empty() {
            context.line(format_args!("nothing was done by hand in the last {}", show::age(self.since)))?;
        } else {
            let cell = |text: &str| show::one_line(text, CELL_CHARS);
            let rows: Vec<[String; 7]> = found
                .iter()
                .map(|(application, kept)| {
                    let outcome =
                        kept.outcome.as_deref().unwrap_or("has no end: it is under way, or may have happened");
                    [
                        kept.begun_at.clone(),
                        application.name().to_owned(),
                        kept.operation.clone(),
                        cell(&kept.on),
                        cell(&kept.by),
                        cell(&kept.reason),
                        cell(outcome),
                    ]
                })
                .collect();
            show::table(context, ["AT", "APPLICATION", "OPERATION", "ON", "BY", "REASON", "OUTCOME"], &rows)?;
        }
        for error in unread {
            context.line(format_args!("there may be more operations: {error}"))?;
        }
        Ok(())
    }
}

fn as_json(application: Application, kept: &Kept) -> Value {
    let mut shown = json!(kept);
    shown["application"] = application.name().into();
    // It was JSON when it was kept, unless it had to be cut.
    if let Ok(before) = serde_json::from_str::<Value>(&kept.shown) {
        shown["shown"] = before;
    }
    shown
}

fn is_missing(error: &store::Error) -> bool {
    matches!(error, store::Error::Configuration(_)) && telemetry::causes(error).contains("ResourceNotFoundException")
}
