//! `ichidoctl tokens`: verifies the ledger, freezes an account, reverses a transfer.

use std::sync::Arc;

use clap::{Args, Subcommand};
use ichido::{Clock, SystemClock};
use serde_json::json;
use tokens::identity::did::Did;
use tokens::ledger::{self, BUDGET, Ledger, Obstacle, TransactionId, system_random};
use tokens::settings::Rules;
use tokens::verify::{Report, verify};

use crate::applications::Application;
use crate::context::{Context, Ended, Error, failed};

#[derive(Debug, Subcommand)]
pub enum Tokens {
    /// Verify that every balance is the sum of its entries, and that all balances together are the grants
    #[command(after_help = "Examples:
  ichidoctl tokens verify --env prod
  ichidoctl tokens verify --endpoint-url http://127.0.0.1:8787 --json

Exit code 1 if something is wrong, or if an account changed too often to be verified.")]
    Verify(Place),
    /// Freeze an account: it can neither send nor receive
    #[command(after_help = "Example:\n  ichidoctl tokens freeze did:key:alice --env prod")]
    Freeze(OneAccount),
    /// Unfreeze an account
    #[command(after_help = "Example:\n  ichidoctl tokens unfreeze did:key:alice --env prod")]
    Unfreeze(OneAccount),
    /// Reverse a transfer with a new entry in the ledger; a second reversal has no effect
    #[command(after_help = "Example:
  ichidoctl tokens reverse did:key:alice 019b76da-a815-7d89-8443-c2a84079b3bc --reason 'sent twice by hand' --env prod")]
    Reverse(Reverse),
}

#[derive(Debug, Args)]
pub struct Place {
    /// The table, if it is not the environment's own
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct OneAccount {
    /// The DID of the account's owner
    pub did: String,
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

impl Tokens {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        match self {
            Tokens::Verify(place) => verify_table(context, place).await,
            Tokens::Freeze(account) => set_frozen(context, account, true).await,
            Tokens::Unfreeze(account) => set_frozen(context, account, false).await,
            Tokens::Reverse(reverse) => reverse.run(context).await,
        }
    }
}

async fn verify_table(context: &mut Context<'_>, place: &Place) -> Result<Ended, Error> {
    let table = context.table_name(place.table.as_deref(), Application::Tokens.table())?;
    let report = verify(&context.aws.dynamodb(), &table).await;
    let report = report.map_err(|error| {
        failed(
            format!("could not verify the table {table}; check --env, --table and the permission dynamodb:Scan"),
            error,
        )
    })?;
    if context.json() {
        context.value(&report)?;
    } else {
        show(context, &table, &report)?;
    }
    Ok(if report.is_clean() { Ended::Well } else { Ended::NeedsAttention })
}

fn show(context: &mut Context<'_>, table: &str, report: &Report) -> Result<(), Error> {
    let Report { accounts, entries, balances, grants, findings, unsettled } = report;
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
    if report.is_clean() {
        context.line("proven: every balance is the sum of its entries, and all balances together are the grants")?;
    }
    Ok(())
}

async fn set_frozen(context: &mut Context<'_>, account: &OneAccount, frozen: bool) -> Result<Ended, Error> {
    let did = parse_did(&account.did)?;
    let ledger = ledger(context, &account.place)?;
    let verb = if frozen { "Freeze" } else { "Unfreeze" };
    context.confirm(&format!("{verb} {did} in {}?", ledger.table_name()))?;
    let status = ledger
        .set_frozen(&did, frozen, "ichidoctl")
        .await
        .map_err(|error| explain(error, "could not change the account"))?;
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
        context.confirm(&format!("Return {} from {} to {sender}?", entry.amount, entry.recipient))?;
        let answer = ledger.reverse(&sender, id, &self.reason, SystemClock.now() + BUDGET).await;
        let answer = answer.map_err(|error| explain(error, "could not reverse the transfer"))?;
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
        ledger::Error::Unresolved => {
            Error::Refused("the store gave no clear answer; run the same command again, which is safe".into())
        }
        other => failed(what, other),
    }
}
