//! `ichidoctl tokens`: verifies the ledger, freezes an account, reverses a transfer, grants money, imports accounts.

pub mod import;

use std::borrow::Cow;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use ichido::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokens::amount::Amount;
use tokens::identity::did::Did;
use tokens::ledger::{self, Answer, BUDGET, Grant, Ledger, Obstacle, TransactionId, system_random};
use tokens::settings::Rules;
use tokens::verify::{Progress, Report, verify_from};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, Why, failed, unclear};
use crate::operation::{self, Intent};

#[derive(Debug, Subcommand)]
pub enum Tokens {
    /// Verify that every balance is the sum of its entries, and that all balances together are the grants
    #[command(after_help = "Examples:
  ichidoctl tokens verify --env prod
  ichidoctl tokens verify --endpoint-url http://127.0.0.1:8787 --json
  ichidoctl tokens verify --resume verify.json --env prod

Exit code 1 if something is wrong, or if an account changed too often to be verified.")]
    Verify(Verify),
    /// Freeze an account: it can neither send nor receive
    #[command(after_help = "Example:\n  ichidoctl tokens freeze did:key:alice --reason 'stolen token' --env prod")]
    Freeze(OneAccount),
    /// Unfreeze an account
    #[command(
        after_help = "Example:\n  ichidoctl tokens unfreeze did:key:alice --reason 'new token issued' --env prod"
    )]
    Unfreeze(OneAccount),
    /// Reverse a transfer with a new entry in the ledger; a second reversal has no effect
    #[command(after_help = "Example:
  ichidoctl tokens reverse did:key:alice 019b76da-a815-7d89-8443-c2a84079b3bc --reason 'sent twice by hand' --env prod")]
    Reverse(Reverse),
    /// Grant new money to an account, with a reason; once per key
    #[command(after_help = "Example:
  ichidoctl tokens grant did:key:alice 25 --reason 'prize of the spring contest' --key spring-contest-alice --env prod")]
    Grant(Granted),
    /// Open the accounts of another service with their balances, and remember the keys that were used there
    #[command(after_help = "Examples:
  ichidoctl tokens import accounts.csv --dry-run --env prod
  ichidoctl tokens import accounts.csv --env prod
  ichidoctl tokens import keys.jsonl --window 30d --env prod

It writes nothing if anything is wrong with the file. It may be run again at any time: what is there already is left as it is.
Exit code 1 if a dry run finds problems, 2 if an import was refused because of them.")]
    Import(import::Import),
}

#[derive(Debug, Args)]
pub struct Place {
    /// The table, if it is not the environment's own
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct Verify {
    /// Keep the progress in this file, and go on from it if it is there; it is removed at the end
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct OneAccount {
    /// The DID of the account's owner
    pub did: String,
    #[command(flatten)]
    pub why: Why,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct Reverse {
    /// The DID of the sender
    pub sender: String,
    /// The id of the transfer
    pub transaction_id: String,
    /// The reason, which the owners of both accounts can read
    #[arg(long, default_value = "")]
    pub reason: String,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct Granted {
    /// The DID of the account's owner
    pub did: String,
    /// How much
    pub amount: String,
    /// The reason, which the owner of the account can read
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// The name of this grant. With the same name, the command may be run again: the account gets the amount once
    #[arg(long)]
    pub key: Option<String>,
    #[command(flatten)]
    pub place: Place,
}

impl Tokens {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Tokens::Verify(verify) => verify.run(context).await,
            Tokens::Freeze(account) => set_frozen(context, account, true).await,
            Tokens::Unfreeze(account) => set_frozen(context, account, false).await,
            Tokens::Reverse(reverse) => reverse.run(context).await,
            Tokens::Grant(granted) => granted.run(context).await,
            Tokens::Import(import) => import.run(context).await,
        }
    }
}

/// How often the progress is shown and kept.
const SHOWN_EVERY: Duration = Duration::from_secs(5);

impl Verify {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let table = context.table_name(self.place.table.as_deref(), Application::Tokens.table())?;
        let progress = match &self.resume {
            Some(file) => read_progress(file, &table)?,
            None => Progress::default(),
        };
        let mut shown = SystemClock.now();
        let mut watch = |progress: &Progress| {
            if SystemClock.now().since(shown) < SHOWN_EVERY {
                return Ok(());
            }
            shown = SystemClock.now();
            let ((accounts, entries), suspects) = (progress.read(), progress.suspects());
            writeln!(io::stderr(), "read {accounts} balances and {entries} entries; {suspects} items to read again")?;
            self.resume.as_ref().map_or(Ok(()), |file| keep_progress(file, &table, progress))
        };
        let report = verify_from(progress, &context.aws.dynamodb(), &table, &mut watch).await;
        let report = report.map_err(|error| {
            failed(
                format!("could not verify the table {table}; check --env, --table and the permission dynamodb:Scan"),
                error,
            )
        })?;
        if let Some(file) = self.resume.as_ref().filter(|file| file.exists()) {
            fs::remove_file(file)?;
        }
        if context.json() {
            context.value(&report)?;
        } else {
            show(context, &table, &report)?;
        }
        Ok(if report.is_clean() { Ended::Well } else { Ended::NeedsAttention })
    }
}

/// The progress of a verification, and whose it is.
#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    table: Cow<'a, str>,
    progress: Cow<'a, Progress>,
}

fn read_progress(file: &Path, table: &str) -> Result<Progress, Error> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Progress::default()),
        Err(error) => return Err(failed(format!("could not read {}", file.display()), error)),
    };
    let kept: Kept<'_> = serde_json::from_str(&text).map_err(|error| {
        failed(format!("{} is not the progress of a verification; name another file", file.display()), error)
    })?;
    if kept.table != table {
        let (file, other) = (file.display(), &kept.table);
        return Err(Error::Refused(format!("{file} is the progress of the table {other}; name another file")));
    }
    Ok(kept.progress.into_owned())
}

/// Written beside the file and renamed, so that the file is always whole. It has balances in it, so only its owner can read it.
fn keep_progress(file: &Path, table: &str, progress: &Progress) -> io::Result<()> {
    let kept = Kept { table: table.into(), progress: Cow::Borrowed(progress) };
    let new = file.with_extension("new");
    // What is left of a run that was killed may have other rights, and what somebody else put there may be a link.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&new)?.write_all(serde_json::to_string(&kept)?.as_bytes())?;
    fs::rename(new, file)
}

fn show(context: &mut Context<'_>, table: &str, report: &Report) -> Result<(), Error> {
    let Report { accounts, entries, balances, grants, never_read, findings, unsettled, stopped } = report;
    context.line(format_args!("{table}: {accounts} balances, {entries} entries, {grants} granted, {balances} held"))?;
    for finding in findings {
        // One line each, with the same members as with `--json`.
        let text = serde_json::to_string(finding).map_err(std::io::Error::from)?;
        context.line(format_args!("wrong         {text}"))?;
    }
    for account in unsettled {
        context.line(format_args!(
            "not verified  {account} changed during every read; run this again when there is less traffic"
        ))?;
    }
    if *never_read > 0 {
        context.line(format_args!(
            "not read      {never_read} keys that the first design has used: their names have to be escaped, which `ichidoctl tokens import` does"
        ))?;
    }
    if *stopped {
        context.line("stopped       too much seems to be wrong; mend what is listed, and run this again")?;
    }
    if report.is_clean() {
        context.line("proven: every balance is the sum of its entries, and all balances together are the grants")?;
    }
    Ok(())
}

async fn set_frozen(context: &mut Context<'_>, account: &OneAccount, frozen: bool) -> Result<Ended, Error> {
    let did = parse_did(&account.did)?;
    let ledger = ledger(context, &account.place)?;
    // If it cannot be read now, because it is paid all the time for example, it can still be frozen.
    let holding = match ledger.holding(&did).await {
        Ok(None) => return Err(explain(ledger::Error::AccountNotFound, "could not read the account")),
        holding => holding.ok().flatten(),
    };
    let now = holding.as_ref().map_or_else(String::new, |it| format!(" It is {} and holds {}.", it.status, it.balance));
    let (verb, what) = if frozen { ("Freeze", "freeze") } else { ("Unfreeze", "unfreeze") };
    let question = format!("{verb} {did} in {}?{now}", ledger.table_name());
    context.confirm(&question)?;
    let intent = Intent {
        reason: &account.why.reason,
        before: json!(holding),
        ..intent(&ledger, what, did.as_str(), &question)
    };
    let traced = operation::begin(context, intent).await?;
    let status = ledger.set_frozen(&did, frozen, traced.by()).await;
    let status = status.map_err(|error| explain(error, "could not change the account"));
    traced.end(context, &status, |status| format!("set the status of account {did} to {status} by hand")).await;
    let status = status?;
    if context.json() {
        context.value(&json!({ "did": did, "status": status }))?;
    } else {
        context.line(format_args!("{did} is {status}"))?;
    }
    Ok(Ended::Well)
}

impl Reverse {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let sender = parse_did(&self.sender)?;
        let id: TransactionId = self.transaction_id.parse().map_err(|error| refused(&self.transaction_id, error))?;
        let ledger = ledger(context, &self.place)?;
        let entry = ledger.entry(&sender, id).await.map_err(|error| explain(error, "could not read the transfer"))?;
        let entry = entry.ok_or_else(|| {
            Error::Refused(format!("{sender} has sent no transfer {id}; the history of the account has the ids"))
        })?;
        let question = format!("Return {} from {} to {sender}?", entry.amount, entry.recipient);
        context.confirm(&question)?;
        let on = id.to_string();
        let intent =
            Intent { reason: &self.reason, before: json!(entry.view()), ..intent(&ledger, "reverse", &on, &question) };
        let traced = operation::begin(context, intent).await?;
        let answer = ledger.reverse(&sender, id, &self.reason, SystemClock.now() + BUDGET).await;
        let answer = answer.map_err(|error| explain(error, "could not reverse the transfer"));
        let done = |answer: &Answer| {
            let before = if answer.replayed { "; it was reversed before, so nothing changed" } else { "" };
            format!("reversed transfer {id} of {sender} by hand{before}")
        };
        traced.end(context, &answer, done).await;
        let answer = answer?;
        if context.json() {
            let body: serde_json::Value = serde_json::from_str(&answer.body).map_err(std::io::Error::from)?;
            context.value(&json!({ "replayed": answer.replayed, "reversal": body }))?;
        } else if answer.replayed {
            context.line(format_args!("it was reversed before: {}", answer.body))?;
        } else {
            context.line(format_args!("reversed: {}", answer.body))?;
        }
        Ok(Ended::Well)
    }
}

impl Granted {
    async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        let recipient = parse_did(&self.did)?;
        let amount: Amount = self.amount.parse().map_err(|error| refused(&self.amount, error))?;
        if amount.is_zero() {
            return Err(Error::Refused("a grant must be more than 0".into()));
        }
        if self.reason.trim().is_empty() {
            return Err(Error::Refused("a grant needs a reason: --reason TEXT".into()));
        }
        let ledger = ledger(context, &self.place)?;
        let key = match &self.key {
            Some(key) => key.parse().map_err(|error| refused(key, error))?,
            None => ledger.new_idempotency_key(),
        };
        let holding = ledger.holding(&recipient).await.ok().flatten();
        let question = format!("Create {amount} for {recipient} in {}?", ledger.table_name());
        context.confirm(&question)?;
        let grant = Grant { recipient, amount, reason: self.reason.clone(), key };
        let intent = Intent {
            reason: &self.reason,
            before: json!({ "key": grant.key, "amount": amount, "account": holding }),
            ..intent(&ledger, "grant", grant.recipient.as_str(), &question)
        };
        let traced = operation::begin(context, intent).await?;
        let answer = ledger.grant(&grant, SystemClock.now() + BUDGET).await.map_err(|error| match error {
            ledger::Error::Refused(_) => Error::Refused("there is no such account in this table".into()),
            ledger::Error::Mismatch { fields } => Error::Refused(format!(
                "the key {} was used for a grant that differs in {}",
                grant.key,
                fields.join(", ")
            )),
            error @ ledger::Error::Unresolved => unclear(
                format!(
                    "the store gave no clear answer; run the same command again with --key {}, which is safe",
                    grant.key
                ),
                error,
            ),
            other => explain(other, "could not make the grant"),
        });
        let Grant { recipient, amount, key, .. } = &grant;
        let done = |answer: &Answer| {
            let before = if answer.replayed { "; it was granted before, so nothing changed" } else { "" };
            format!("granted {amount} to {recipient} under the key {key} by hand{before}")
        };
        traced.end(context, &answer, done).await;
        let answer = answer?;
        if context.json() {
            let body: serde_json::Value = serde_json::from_str(&answer.body).map_err(io::Error::from)?;
            context.value(&json!({ "replayed": answer.replayed, "key": grant.key, "grant": body }))?;
        } else if answer.replayed {
            context.line(format_args!("it was granted before: {}", answer.body))?;
        } else {
            context.line(format_args!("granted under the key {}: {}", grant.key, answer.body))?;
        }
        Ok(Ended::Well)
    }
}

/// What is about to be done to the ledger.
fn intent<'a>(ledger: &'a Ledger, what: &'a str, on: &'a str, question: &'a str) -> Intent<'a> {
    Intent {
        application: Application::Tokens,
        table: ledger.table_name(),
        what,
        on,
        reason: "",
        question: Some(question),
        before: Value::Null,
    }
}

fn ledger(context: &Context<'_>, place: &Place) -> Result<Ledger, Error> {
    let table = context.table_name(place.table.as_deref(), Application::Tokens.table())?;
    Ok(Ledger::new(context.aws.dynamodb(), &table, Rules::default(), Arc::new(SystemClock), system_random()))
}

fn parse_did(text: &str) -> Result<Did, Error> {
    text.parse().map_err(|error| refused(text, error))
}

fn refused(text: &str, error: impl std::fmt::Display) -> Error {
    Error::Refused(format!("{text:?}: {error}"))
}

fn explain(error: ledger::Error, what: &str) -> Error {
    match error {
        ledger::Error::AccountNotFound => Error::Refused("there is no such account in this table".into()),
        ledger::Error::NotReversible => {
            Error::Refused("only a transfer can be reversed, not a grant or a reversal".into())
        }
        ledger::Error::Refused(Obstacle::InsufficientBalance) => {
            Error::Refused("the recipient has spent the amount already; freeze the account and ask for it back".into())
        }
        error @ ledger::Error::Unresolved => {
            unclear("the store gave no clear answer; run the same command again, which is safe", error)
        }
        // A newer version may have made a record that this one cannot read, and what belongs to it.
        error @ ledger::Error::Record(_) => unclear(what, error),
        other => failed(what, other),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_can_read_the_progress_of_a_verification() {
        let file = std::env::temp_dir().join(format!("ichidoctl-progress-{}.json", std::process::id()));
        keep_progress(&file, "tokens-dev", &Progress::default()).unwrap();
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert!(read_progress(&file, "tokens-dev").is_ok());
        fs::remove_file(&file).unwrap();
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn progress_is_written_neither_into_an_older_file_nor_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let [file, new, other] = ["progress.json", "progress.new", "other"].map(|name| directory.path().join(name));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &new).unwrap();
        keep_progress(&file, "tokens-dev", &Progress::default()).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        fs::write(&new, "left by a run that was killed").unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        keep_progress(&file, "tokens-dev", &Progress::default()).unwrap();
        assert_eq!(fs::symlink_metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(read_progress(&file, "tokens-dev").is_ok());
    }
}
