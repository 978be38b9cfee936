//! `ichidoctl dead-letters`: shows what was given up, why, and after how many attempts; sends it again, or drops it.

use clap::{Args, Subcommand};
use ichido::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, Why};
use crate::dead_letter::{self, Letter};
use crate::operation::{self, Intent};
use crate::outside::logs;
use crate::show;

/// How much of a reason a list shows.
const REASON_CHARS: usize = 100;
/// How many dead letters are shown before a question about them.
const MOST_SHOWN: usize = 50;

#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// List all dead letters, oldest first
    #[command(after_help = "Examples:
  ichidoctl dead-letters list --env prod
  ichidoctl dead-letters list slack --endpoint-url http://127.0.0.1:8787 --json

Exit code 1 if there is a dead letter.")]
    List(List),
    /// Show one dead letter: the reason, what each attempt logged, and the event
    #[command(after_help = "Example:\n  ichidoctl dead-letters show slack 8b2c4e6a-… --env prod")]
    Show(Show),
    /// Send dead letters again, all or some
    #[command(
        after_help = "Remove the cause first, or they come back. They go through the same keys and probes as the first time.
It asks first, unless --yes is given.

Examples:
  ichidoctl dead-letters redrive slack --env prod
  ichidoctl dead-letters redrive github tag:github.com,2008:PushEvent/1 --env prod"
    )]
    Redrive(Chosen),
    /// Delete dead letters without sending them
    #[command(after_help = "It asks first, unless --yes is given.

Example:
  ichidoctl dead-letters drop slack 8b2c4e6a-… --env prod")]
    Drop(Chosen),
}

#[derive(Debug, Args)]
pub struct List {
    /// The application; without it, all of them
    #[arg(value_enum)]
    pub application: Option<Application>,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The application
    #[arg(value_enum)]
    pub application: Application,
    /// The ID, as `dead-letters list` shows it
    pub id: String,
}

#[derive(Debug, Args)]
pub struct Chosen {
    /// The application
    #[arg(value_enum)]
    pub application: Application,
    /// The IDs, as `dead-letters list` shows them; without an ID, redrive sends all
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    #[command(flatten)]
    pub why: Why,
}

impl DeadLetters {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            DeadLetters::List(list) => list.run(context).await,
            DeadLetters::Show(show) => show.run(context).await,
            DeadLetters::Redrive(chosen) => chosen.run(context, Change::Redrive).await,
            DeadLetters::Drop(chosen) => chosen.run(context, Change::Drop).await,
        }
    }
}

impl List {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let applications = self.application.map_or_else(|| Application::ALL.to_vec(), |application| vec![application]);
        let found = dead_letter::read(context, &applications).await?;
        let all = &found.letters;
        dead_letter::let_go(context, all).await;
        if context.json() {
            let unread: Vec<String> = found.unread.iter().map(|error| telemetry::causes(error)).collect();
            context.value(&json!({ "deadLetters": all, "unread": unread }))?;
        } else if all.is_empty() && found.unread.is_empty() {
            context.line("no dead letters")?;
        } else {
            table(context, all)?;
            found.complain(context)?;
        }
        Ok(if all.is_empty() && found.unread.is_empty() { Ended::Well } else { Ended::NeedsAttention })
    }
}

/// What a list says of dead letters.
fn table<'a>(context: &mut Context<'_>, letters: impl IntoIterator<Item = &'a Letter>) -> Result<(), Error> {
    let now = SystemClock.now();
    let rows: Vec<[String; 5]> = letters
        .into_iter()
        .map(|letter| {
            let attempts = letter.attempts.map(|attempts| attempts.to_string());
            [
                letter.application.to_owned(),
                show::relative(letter.at, now),
                attempts.unwrap_or_else(|| "-".to_owned()),
                letter.id.clone(),
                reason(letter),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    show::table(context, ["APPLICATION", "GIVEN UP", "ATTEMPTS", "ID", "REASON"], &rows)
}

/// What a list says of why it was given up.
fn reason(letter: &Letter) -> String {
    show::one_line(&format!("{} {}", letter.what, letter.reason), REASON_CHARS)
}

impl Show {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let all = dead_letter::read(context, &[self.application]).await?.letters;
        dead_letter::let_go(context, &all).await;
        let found: Vec<&Letter> = all.iter().filter(|letter| letter.id == self.id).collect();
        if found.is_empty() {
            return Err(unknown(self.application, &self.id));
        }
        // The attempts logged the id of the request, or of the entry.
        let logged = found[0].payload["entryId"].as_str().unwrap_or(&self.id);
        let within = logs::since(logs::DAYS_OF_LETTERS);
        let history = logs::find(context, self.application.functions(), logged, within).await;
        let (history, unread) = match history {
            Ok(history) => (history.lines, None),
            Err(error) => (Vec::new(), Some(telemetry::causes(&error))),
        };
        if context.json() {
            let lines: Vec<&Value> = history.iter().map(|line| &line.fields).collect();
            context.value(&json!({ "deadLetters": found, "history": lines }))?;
            return Ok(Ended::Well);
        }
        let now = SystemClock.now();
        for letter in found {
            context.line(format_args!("{}  {}", letter.application, letter.id))?;
            let attempts = letter.attempts.map_or_else(|| "unknown".to_owned(), |attempts| attempts.to_string());
            for (name, value) in [
                ("given up at", format!("{} ({})", letter.at, show::relative(letter.at, now))),
                ("function", letter.function.clone()),
                ("stored in", letter.place.clone()),
                ("attempts", attempts),
                (if letter.message.is_some() { "condition" } else { "destination" }, letter.what.clone()),
                ("reason", letter.reason.clone()),
                ("event", letter.payload.to_string()),
            ] {
                context.line(format_args!("  {name:<12} {value}"))?;
            }
        }
        context.line("what the attempts logged:")?;
        for line in &history {
            context.line(format_args!("  {}", line.for_people()))?;
        }
        if let Some(error) = unread {
            context.line(format_args!("  could not be read: {error}"))?;
        } else if history.is_empty() {
            context.line("  no log line is left")?;
        }
        Ok(Ended::Well)
    }
}

/// What is done with the chosen dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Redrive,
    Drop,
}

impl Chosen {
    async fn run(&self, context: &mut Context<'_>, change: Change) -> Result<Ended, Error> {
        if change == Change::Drop && self.ids.is_empty() {
            return Err(Error::Refused(
                "name the IDs of the dead letters to drop; `ichidoctl dead-letters list` shows them".to_owned(),
            ));
        }
        let found = dead_letter::read(context, &[self.application]).await?;
        let all = &found.letters;
        let wanted = |letter: &&Letter| self.ids.is_empty() || self.ids.contains(&letter.id);
        let mut chosen: Vec<&Letter> = all.iter().filter(wanted).collect();
        // One entry may be a dead letter for two destinations. Its function resends and drops it as one.
        chosen.dedup_by(|a, b| a.message.is_none() && b.message.is_none() && a.id == b.id);
        let done = match self.ids.iter().find(|id| !all.iter().any(|letter| letter.id == **id)) {
            Some(missing) => Err(unknown(self.application, missing)),
            None => change_all(context, self.application, &chosen, change, &self.why).await,
        };
        // What was not deleted is visible to others again at once.
        dead_letter::let_go(context, all).await;
        if !context.json() {
            found.complain(context)?;
        }
        done
    }
}

async fn change_all(
    context: &mut Context<'_>,
    application: Application,
    chosen: &[&Letter],
    change: Change,
    why: &Why,
) -> Result<Ended, Error> {
    let (name, count) = (application.name(), chosen.len());
    if chosen.is_empty() {
        if context.json() {
            context.value(&json!([]))?;
        } else {
            context.line(format_args!("{name} has no dead letters"))?;
        }
        return Ok(Ended::Well);
    }
    let question = match change {
        Change::Redrive => format!("Send {} of {name} again? Remove the cause first.", counted(count)),
        Change::Drop => format!("Delete {} of {name} without sending?", counted(count)),
    };
    // A page has shown them already.
    if !context.json() && !context.on_page() {
        table(context, chosen.iter().copied().take(MOST_SHOWN))?;
        if count > MOST_SHOWN {
            context.line(format_args!("and {} more, which are not shown", count - MOST_SHOWN))?;
        }
    }
    context.confirm(&question)?;
    let place = context.table_name(None, application.table())?;
    let mut failures = 0;
    let mut told = Vec::new();
    for (number, letter) in chosen.iter().enumerate() {
        let intent = Intent {
            application,
            table: &place,
            what: if change == Change::Redrive { "redrive" } else { "drop" },
            on: &letter.id,
            reason: &why.reason,
            question: Some(&question),
            // What was not shown is not kept as if it had been.
            before: if number < MOST_SHOWN { of_letter(letter) } else { Value::Null },
        };
        let result = changed(context, intent, letter, change).await;
        let said = match (&result, change, &letter.message) {
            (Err(error), ..) => telemetry::causes(error),
            (Ok(()), Change::Drop, _) => "dropped".to_owned(),
            (Ok(()), Change::Redrive, Some(_)) => "sent again".to_owned(),
            (Ok(()), Change::Redrive, None) => "owed again; the next run of the feed delivers it".to_owned(),
        };
        failures += usize::from(result.is_err());
        if !context.json() {
            context.line(format_args!("{}  {said}", letter.id))?;
        }
        told.push(json!({"id": letter.id, "ok": result.is_ok(), "done": said}));
    }
    if context.json() {
        context.value(&told)?;
    }
    Ok(if failures == 0 { Ended::Well } else { Ended::NeedsAttention })
}

/// Sends one dead letter again, or drops it, and leaves a trace.
async fn changed(context: &mut Context<'_>, intent: Intent<'_>, letter: &Letter, change: Change) -> Result<(), Error> {
    let name = intent.application.name();
    let traced = operation::begin(context, intent).await?;
    let (result, verb) = match change {
        Change::Redrive => (dead_letter::redrive(context, letter).await, "resent"),
        Change::Drop => (dead_letter::drop(context, letter).await, "dropped"),
    };
    traced.end(context, &result, |_| format!("{verb} dead letter {} of {name} by hand", letter.id)).await;
    result
}

/// What the list says of a dead letter. The event itself is not kept: it may have what somebody typed.
fn of_letter(letter: &Letter) -> Value {
    json!({ "at": letter.at.to_string(), "attempts": letter.attempts, "reason": reason(letter) })
}

/// `1 dead letter`, `3 dead letters`.
fn counted(count: usize) -> String {
    if count == 1 { "1 dead letter".to_owned() } else { format!("{count} dead letters") }
}

fn unknown(application: Application, id: &str) -> Error {
    let name = application.name();
    Error::Refused(format!("{name} has no dead letter {id}; `ichidoctl dead-letters list {name}` shows the IDs"))
}
