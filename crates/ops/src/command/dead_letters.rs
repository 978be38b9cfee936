//! `ichidoctl dead-letters`: what was given up on, why, and after how many attempts; sent again, or dropped.

use clap::{Args, Subcommand};
use ichido::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, causes};
use crate::letters::{self, Letter};
use crate::logs;
use crate::show;

/// How much of a reason a list shows.
const REASON_CHARS: usize = 100;

#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// What was given up on, oldest first
    #[command(
        after_help = "Example:\n  ichidoctl dead-letters list --env prod\n  ichidoctl dead-letters list slack --endpoint-url http://127.0.0.1:8787 --json\n\nExit code 1 if there is one."
    )]
    List(List),
    /// One of them: the reason, the attempts with what they logged, and what would be sent again
    #[command(after_help = "Example:\n  ichidoctl dead-letters show slack 8b2c4e6a-… --env prod")]
    Show(Show),
    /// Send them again, all or some: through the same keys and probes, so that nothing is done twice
    #[command(
        after_help = "Remove the cause first: what fails again comes back. It asks, unless --yes.\n\nExample:\n  ichidoctl dead-letters redrive slack --env prod\n  ichidoctl dead-letters redrive github tag:github.com,2008:PushEvent/1 --env prod"
    )]
    Redrive(Chosen),
    /// Forget some: they are never sent
    #[command(
        after_help = "It asks, unless --yes.\n\nExample:\n  ichidoctl dead-letters drop slack 8b2c4e6a-… --env prod"
    )]
    Drop(Chosen),
}

#[derive(Debug, Args)]
pub struct List {
    /// Whose; all applications' if left out
    #[arg(value_enum)]
    pub application: Option<Application>,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Whose
    #[arg(value_enum)]
    pub application: Application,
    /// Which one: the ID of the list
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Chosen {
    /// Whose
    #[arg(value_enum)]
    pub application: Application,
    /// Which ones: the IDs of the list; redrive sends all if left out
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
}

impl DeadLetters {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            DeadLetters::List(list) => list.run(context).await,
            DeadLetters::Show(show) => show.run(context).await,
            DeadLetters::Redrive(chosen) => chosen.run(context, Deed::Redrive).await,
            DeadLetters::Drop(chosen) => chosen.run(context, Deed::Drop).await,
        }
    }
}

impl List {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let applications = self.application.map_or_else(|| Application::ALL.to_vec(), |application| vec![application]);
        let found = letters::all(context, &applications).await?;
        let all = &found.letters;
        letters::let_go(context, all).await;
        if context.json() {
            let unread: Vec<String> = found.unread.iter().map(|error| causes(error)).collect();
            context.value(&json!({ "deadLetters": all, "unread": unread }))?;
        } else if all.is_empty() {
            context.line("no dead letters")?;
        } else {
            let now = SystemClock.now();
            let rows: Vec<[String; 5]> = all
                .iter()
                .map(|letter| {
                    let attempts = letter.attempts.map(|attempts| attempts.to_string());
                    [
                        letter.application.to_owned(),
                        show::relative(letter.at, now),
                        attempts.unwrap_or_else(|| "-".to_owned()),
                        letter.id.clone(),
                        show::one_line(&format!("{} {}", letter.what, letter.reason), REASON_CHARS),
                    ]
                })
                .collect();
            show::table(context, ["OF", "GIVEN UP", "ATTEMPTS", "ID", "REASON"], &rows)?;
            found.complain(context)?;
        }
        Ok(if all.is_empty() { Ended::Well } else { Ended::Found })
    }
}

impl Show {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let all = letters::all(context, &[self.application]).await?.letters;
        letters::let_go(context, &all).await;
        let found: Vec<&Letter> = all.iter().filter(|letter| letter.id == self.id).collect();
        if found.is_empty() {
            return Err(unknown(self.application, &self.id));
        }
        // What the attempts logged: by the request's id, or the entry's.
        let history = logs::find(context, self.application.functions(), &self.id, logs::DAYS_OF_LETTERS).await;
        let (history, unread) = match history {
            Ok(history) => (history, None),
            Err(error) => (Vec::new(), Some(causes(&error))),
        };
        if context.json() {
            let lines: Vec<&Value> = history.iter().map(|line| &line.fields).collect();
            context.value(&json!({ "deadLetters": found, "history": lines }))?;
            return Ok(Ended::Well);
        }
        let now = SystemClock.now();
        for letter in found {
            context.line(format_args!("{}  {}", letter.application, letter.id))?;
            let attempts = letter.attempts.map_or_else(|| "not counted".to_owned(), |attempts| attempts.to_string());
            for (name, value) in [
                ("given up", format!("{} ({})", show::moment(letter.at), show::relative(letter.at, now))),
                ("by", format!("{}, kept in {}", letter.function, letter.place)),
                ("attempts", attempts),
                ("what", letter.what.clone()),
                ("reason", letter.reason.clone()),
                ("event", letter.payload.to_string()),
            ] {
                context.line(format_args!("  {name:<9} {value}"))?;
            }
        }
        context.line("what the attempts logged:")?;
        for line in &history {
            context.line(format_args!("  {}", line.for_people()))?;
        }
        if let Some(error) = unread {
            context.line(format_args!("  unknown: {error}"))?;
        } else if history.is_empty() {
            context.line("  nothing that is still kept")?;
        }
        Ok(Ended::Well)
    }
}

/// What becomes of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Redrive,
    Drop,
}

impl Chosen {
    async fn run(&self, context: &mut Context<'_>, deed: Deed) -> Result<Ended, Error> {
        if deed == Deed::Drop && self.ids.is_empty() {
            return Err(Error::Refused("say which: `ichidoctl dead-letters list` has the IDs".to_owned()));
        }
        let found = letters::all(context, &[self.application]).await?;
        let all = &found.letters;
        let wanted = |letter: &&Letter| self.ids.is_empty() || self.ids.contains(&letter.id);
        let mut chosen: Vec<&Letter> = all.iter().filter(wanted).collect();
        // An entry may be dead at two destinations; it is one to its function.
        chosen.dedup_by(|a, b| a.held.is_none() && b.held.is_none() && a.id == b.id);
        let done = match self.ids.iter().find(|id| !all.iter().any(|letter| letter.id == **id)) {
            Some(missing) => Err(unknown(self.application, missing)),
            None => deed_on(context, self.application, &chosen, deed).await,
        };
        // Whatever was not deleted is free again at once.
        letters::let_go(context, all).await;
        if !context.json() {
            found.complain(context)?;
        }
        done
    }
}

async fn deed_on(
    context: &mut Context<'_>,
    application: Application,
    chosen: &[&Letter],
    deed: Deed,
) -> Result<Ended, Error> {
    let (name, count) = (application.name(), chosen.len());
    if chosen.is_empty() {
        if context.json() {
            context.value(&json!([]))?;
        } else {
            context.line(format_args!("no dead letters of {name}"))?;
        }
        return Ok(Ended::Well);
    }
    context.confirm(&match deed {
        Deed::Redrive => format!("Send {count} of {name} again? What failed them should be mended first."),
        Deed::Drop => format!("Forget {count} of {name} for ever?"),
    })?;
    let mut failures = 0;
    let mut told = Vec::new();
    for letter in chosen {
        let outcome = match deed {
            Deed::Redrive => letters::redrive(context, letter).await,
            Deed::Drop => letters::drop(context, letter).await,
        };
        let said = match (&outcome, deed, &letter.held) {
            (Err(error), ..) => causes(error),
            (Ok(()), Deed::Drop, _) => "dropped".to_owned(),
            (Ok(()), Deed::Redrive, Some(_)) => "sent again".to_owned(),
            (Ok(()), Deed::Redrive, None) => "owed again: the next run of its schedule delivers it".to_owned(),
        };
        failures += usize::from(outcome.is_err());
        context.log(&json!({
            "level": if outcome.is_ok() { "INFO" } else { "ERROR" }, "message": "a dead letter was handled by hand",
            "application": name, "id": letter.id, "done": said,
        }))?;
        if !context.json() {
            context.line(format_args!("{}  {said}", letter.id))?;
        }
        told.push(json!({"id": letter.id, "ok": outcome.is_ok(), "done": said}));
    }
    if context.json() {
        context.value(&told)?;
    }
    Ok(if failures == 0 { Ended::Well } else { Ended::Found })
}

fn unknown(application: Application, id: &str) -> Error {
    let name = application.name();
    Error::Refused(format!("{name} has no dead letter {id}; `ichidoctl dead-letters list {name}` has their IDs"))
}
