//! `ichidoctl tokens import`: takes over the accounts and the used keys of another service.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use ichido::{Clock as _, SystemClock};
use serde_json::json;
use tokens::import::{self, Done, Findings, Missing, Phase};
use tokens::settings::Window;

use super::{Place, SHOWN_EVERY, intent, ledger};
use crate::context::{Context, Ended, Error, failed, partly, unclear};
use crate::operation::{self, Intent};

#[derive(Debug, Args)]
pub struct Import {
    /// CSV with a header, or JSON Lines: `did,balance` of accounts, or
    /// `senderDid,idempotencyKey,recipientDid,amount,transactionId,createdAt` of used keys
    pub file: PathBuf,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// The reason of the grants that open the accounts, which their owners can read
    #[arg(long, value_name = "TEXT", default_value = "opening balance")]
    pub reason: String,
    /// How long a key is remembered after its transfer: the IDEMPOTENCY_WINDOW of the service, such as 7d, or never
    #[arg(long, value_name = "TIME", default_value = "7d")]
    pub window: Window,
    #[command(flatten)]
    pub place: Place,
}

impl Import {
    pub async fn run(&self, context: &mut Context<'_>) -> Result<Ended, Error> {
        if self.reason.trim().is_empty() {
            return Err(Error::Refused("the opening balances need a reason: --reason TEXT".into()));
        }
        let ledger = ledger(context, &self.place)?;
        let import = import::Import { ledger: &ledger, file: &self.file, reason: &self.reason, window: self.window };
        let mut shown = SystemClock.now();
        let mut watch = |phase: Phase, lines: u64| {
            if SystemClock.now().since(shown) >= SHOWN_EVERY {
                shown = SystemClock.now();
                let doing = match phase {
                    Phase::ReadingFile => "read",
                    Phase::LookingAtTable => "compared with the table",
                    Phase::Writing => "imported",
                    Phase::Proving => "proved",
                };
                // What it is told here helps nobody if it cannot be written.
                let _ = writeln!(io::stderr(), "{doing} {lines} lines");
            }
        };
        let findings = import.check(&mut watch).await.map_err(|error| self.explain(error))?;
        let table = ledger.table_name();
        if self.dry_run || findings.problem_count > 0 {
            if context.json() {
                context.value(&json!({ "dryRun": self.dry_run, "table": table, "found": findings }))?;
            } else {
                self.show(context, table, &findings)?;
            }
        }
        match (findings.problem_count, self.dry_run) {
            (0, true) => return Ok(Ended::Well),
            (_, true) => return Ok(Ended::NeedsAttention),
            (0, false) => {}
            (count, false) => {
                let file = self.file.display();
                return Err(Error::Refused(format!("nothing was imported from {file}: {count} problems")));
            }
        }
        let missing = findings.missing();
        let mut traced = None;
        if missing != Missing::default() {
            let question = format!(
                "Open {} accounts with {}, remember {} used keys and rewrite {} records of the first design in {table}?",
                missing.accounts, missing.balances, missing.keys, missing.records
            );
            context.confirm(&question)?;
            let file = self.file.display().to_string();
            // Its name does not say what was in the file.
            let before = json!({
                "sha256": findings.sha256(), "accounts": findings.accounts, "balances": findings.balances,
                "keys": findings.keys, "repeatedLines": findings.repeated_lines.len(), "missing": missing,
            });
            let intent = Intent { reason: &self.reason, before, ..intent(&ledger, "import", &file, &question) };
            traced = Some(operation::begin(context, intent).await?);
        }
        let done = import.carry_out(&findings, &mut watch).await.map_err(|error| self.explain(error));
        if let Some(traced) = traced {
            let said = |done: &Done| {
                let Done { accounts, balances, keys, .. } = done;
                format!("opened {accounts} accounts with {balances} and remembered {keys} used keys by hand")
            };
            traced.end(context, &done, said).await;
        }
        let done = done?;
        if context.json() {
            context.value(&json!({ "dryRun": false, "table": table, "found": findings, "done": done }))?;
        } else {
            self.show_ignored(context, &findings)?;
            show_done(context, table, &done)?;
        }
        Ok(Ended::Well)
    }

    fn show(&self, context: &mut Context<'_>, table: &str, findings: &Findings) -> Result<(), Error> {
        let file = self.file.display();
        let Findings { accounts, balances, keys, .. } = findings;
        context.line(format_args!("{file}: {accounts} accounts with {balances}, {keys} used keys"))?;
        self.show_ignored(context, findings)?;
        for problem in &findings.problems {
            match problem.line {
                Some(line) => context.line(format_args!("problem   line {line}: {}", problem.what))?,
                None => context.line(format_args!("problem   {}", problem.what))?,
            }
        }
        let shown = findings.problems.len() as u64;
        if findings.problem_count > shown {
            context.line(format_args!("problem   and {} more", findings.problem_count - shown))?;
        }
        if findings.problem_count > 0 {
            return Ok(());
        }
        context.line(format_args!(
            "{table}: has {} of these accounts with {}, {} of these keys, {} records of the first design",
            findings.accounts_done, findings.balances_done, findings.keys_done, findings.earlier_records
        ))?;
        if findings.unreachable > 0 {
            context.line(format_args!(
                "left      {} records of the first design, because no client can send their sender or key to this service",
                findings.unreachable
            ))?;
        }
        let missing = findings.missing();
        context.line(format_args!(
            "would open {} accounts with {}, remember {} used keys, rewrite {} records of the first design; nothing was written",
            missing.accounts, missing.balances, missing.keys, missing.records
        ))
    }

    /// What of the file is not imported, although nothing is wrong with it.
    fn show_ignored(&self, context: &mut Context<'_>, findings: &Findings) -> Result<(), Error> {
        if let Some(first) = findings.repeated_lines.first() {
            let count = findings.repeated_lines.len();
            context.line(format_args!(
                "ignored   {count} lines that say the same as an earlier one, the first at line {first}"
            ))?;
        }
        if findings.keys_too_old > 0 {
            context.line(format_args!(
                "ignored   {} keys that were used more than {} ago; --window keeps them longer",
                findings.keys_too_old, self.window
            ))?;
        }
        Ok(())
    }

    fn explain(&self, error: import::Error) -> Error {
        let file = self.file.display();
        match error {
            import::Error::File(error) => failed(format!("could not read {file}"), error),
            import::Error::Ledger(error) => failed(
                "could not import; check --env, --table and the permissions dynamodb:Scan, BatchGetItem, PutItem and \
                 TransactWriteItems; then run the same command again, which is safe",
                error,
            ),
            import::Error::Stopped { done, cause } => {
                let Done { accounts, balances, keys, rewritten, .. } = *done;
                let what = format!(
                    "{file}: stopped when it had opened {accounts} accounts with {balances}, remembered {keys} used keys and rewritten \
                     {rewritten} records of the first design, which stay"
                );
                match self.explain(*cause) {
                    cause @ Error::Unclear { .. } => unclear(what, cause),
                    cause => partly(what, cause),
                }
            }
            error @ (import::Error::Unresolved { .. } | import::Error::UnresolvedRecord) => {
                unclear(format!("{file}: not everything was imported, as far as is known"), error)
            }
            other => Error::Refused(format!("{file}: {other}")),
        }
    }
}

fn show_done(context: &mut Context<'_>, table: &str, done: &Done) -> Result<(), Error> {
    let Done { accounts, balances, keys, rewritten, .. } = done;
    context.line(format_args!(
        "{table}: opened {accounts} accounts with {balances}, remembered {keys} used keys, rewrote {rewritten} records of the first design"
    ))?;
    context.line(format_args!(
        "proved: the balances of the file, {} in {} accounts, are what was granted; {} used keys are remembered",
        done.balances_proved, done.accounts_proved, done.keys_proved
    ))
}
