//! `ichidoctl tokens`: prove the books, freeze an account, take a transfer back.

use std::sync::Arc;

use clap::{Args, Subcommand};
use ichido::{Clock, SystemClock};
use serde_json::json;
use tokens::did::Did;
use tokens::ledger::{self, BUDGET, Ledger, system_random};
use tokens::settings::Rules;
use tokens::transaction::TransactionId;
use tokens::verdict::Refusal;
use tokens::verify::{Report, verify};

use crate::context::{Context, Ended, Error};

/// The table's name in production: the template's default.
const TABLE: &str = "tokens-ledger";

#[derive(Debug, Subcommand)]
pub enum Tokens {
    /// Prove that every balance is the sum of its entries and that all of them are the grants
    #[command(
        after_help = "Example:\n  ichidoctl tokens verify --env prod\n  ichidoctl tokens verify --endpoint-url http://127.0.0.1:8787 --json\n\nExit code 1 if something is wrong or did not stand still long enough."
    )]
    Verify(Place),
    /// Freeze an account: it can neither send nor receive
    #[command(after_help = "Example:\n  ichidoctl tokens freeze did:key:alice --env prod")]
    Freeze(OneAccount),
    /// Unfreeze an account
    #[command(after_help = "Example:\n  ichidoctl tokens unfreeze did:key:alice --env prod")]
    Unfreeze(OneAccount),
    /// Take a transfer back, once, by a new entry of the ledger
    #[command(
        after_help = "Example:\n  ichidoctl tokens reverse did:key:alice 019b76da-a815-7d89-8443-c2a84079b3bc --reason 'sent twice by hand' --env prod"
    )]
    Reverse(Reverse),
}

#[derive(Debug, Args)]
pub struct Place {
    /// The table, if it does not bear the environment's name
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
}

#[derive(Debug, Args)]
pub struct OneAccount {
    /// Whose account
    pub did: String,
    #[command(flatten)]
    pub place: Place,
}

#[derive(Debug, Args)]
pub struct Reverse {
    /// Who had sent it
    pub sender: String,
    /// Which transfer
    pub transaction_id: String,
    /// Why; the owners of both accounts will read it
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
    let table = context.table_name(place.table.as_deref(), TABLE)?;
    let report = verify(&context.aws.dynamodb(), &table).await;
    let report = report.map_err(|error| failed(format!("the table {table} could not be verified"), error))?;
    if context.json() {
        context.value(&report)?;
    } else {
        show(context, &table, &report)?;
    }
    Ok(if report.is_clean() { Ended::Well } else { Ended::Found })
}

fn show(context: &mut Context<'_>, table: &str, report: &Report) -> Result<(), Error> {
    let Report { accounts, entries, balances, grants, findings, unsettled } = report;
    context.line(format_args!("{table}: {accounts} balances, {entries} entries, {grants} granted, {balances} held"))?;
    for finding in findings {
        // one line each, with the same members as in JSON
        let text = serde_json::to_string(finding).map_err(std::io::Error::from)?;
        context.line(format_args!("wrong  {text}"))?;
    }
    for account in unsettled {
        context.line(format_args!(
            "moving {account}: it changed during every look; run this again when there is less going on"
        ))?;
    }
    if report.is_clean() {
        context.line("proven: every balance is the sum of its entries, and all of them are the grants")?;
    }
    Ok(())
}

async fn set_frozen(context: &mut Context<'_>, account: &OneAccount, frozen: bool) -> Result<Ended, Error> {
    let did = parse_did(&account.did)?;
    let ledger = ledger(context, &account.place)?;
    let verb = if frozen { "Freeze" } else { "Unfreeze" };
    context.confirm(&format!("{verb} {did} in {}?", ledger.table_name()))?;
    let status = ledger.set_frozen(&did, frozen, "ichidoctl").await.map_err(|error| explain(error, "the account"))?;
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
        let entry = ledger.entry(&sender, id).await.map_err(|error| explain(error, "the transfer"))?;
        let entry =
            entry.ok_or_else(|| Error::Refused(format!("{sender} has sent no {id}; its history has the ids")))?;
        context.confirm(&format!("Take {} back from {} to {sender}?", entry.amount, entry.recipient))?;
        let answer = ledger.reverse(&sender, id, &self.reason, SystemClock.now() + BUDGET).await;
        let answer = answer.map_err(|error| explain(error, "the reversal"))?;
        if context.json() {
            let body: serde_json::Value = serde_json::from_str(&answer.body).map_err(std::io::Error::from)?;
            context.value(&json!({ "replayed": answer.replayed, "reversal": body }))?;
        } else if answer.replayed {
            context.line(format_args!("it had been taken back before: {}", answer.body))?;
        } else {
            context.line(format_args!("taken back: {}", answer.body))?;
        }
        Ok(Ended::Well)
    }
}

fn ledger(context: &Context<'_>, place: &Place) -> Result<Ledger, Error> {
    let table = context.table_name(place.table.as_deref(), TABLE)?;
    Ok(Ledger::new(context.aws.dynamodb(), &table, Rules::default(), Arc::new(SystemClock), system_random()))
}

fn parse_did(text: &str) -> Result<Did, Error> {
    text.parse().map_err(|error| refused(text, error))
}

fn refused(text: &str, error: impl std::fmt::Display) -> Error {
    Error::Refused(format!("{text:?}: {error}"))
}

fn failed(what: String, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Failed { what, source: Box::new(source) }
}

fn explain(error: ledger::Error, what: &str) -> Error {
    match error {
        ledger::Error::AccountNotFound => Error::Refused("there is no such account in this table".into()),
        ledger::Error::NotReversible => {
            Error::Refused("only transfers can be taken back, not grants or reversals".into())
        }
        ledger::Error::Refused(Refusal::InsufficientBalance) => {
            Error::Refused("the recipient has spent it already; freeze the account and ask for it back".into())
        }
        ledger::Error::Unresolved => {
            Error::Refused("the store gave no clear answer; run the same command again, it is safe to repeat".into())
        }
        other => failed(format!("{what} could not be changed"), other),
    }
}
