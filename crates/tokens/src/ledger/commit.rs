//! One plan, committed once.
//!
//! An attempt can end in these ways, and not all of them are known:
//!
//! | the store says | what is known | what is done |
//! |---|---|---|
//! | committed | the money moved | success |
//! | cancelled, the record is there | somebody's attempt under this key had moved it | success if it is ours or the same request, else a mismatch |
//! | cancelled by a conflict, or throttled | this attempt did nothing | the same attempt again |
//! | cancelled, a fence is there | an earlier request under this key was refused; no attempt that did not know of it can be committed | another attempt, in the fence's place |
//! | cancelled by conditions | this attempt did nothing; earlier ones may have, or still may | a fence is put up where the record would be: if the record is there, success; if not, nothing under this key can land any more, and it is a refusal |
//! | nothing, or an error inside the store | nothing: it may have moved, it may still move | the same attempt again |
//!
//! "The same attempt" is meant literally: the same ids, the same times, the same client token, so that the store itself
//! recognises it, and the record in front recognises it if the store does not. When the budget is spent the record is
//! read a last time; if that settles nothing, the answer is [`Error::Unresolved`], never a refusal.
//!
//! Why the fence: an attempt whose answer was lost may land at any later time, also one of an earlier request under the
//! same key that has long been answered with 503. A refusal after a mere look at the record would then be an error for
//! money that moved. The fence ([`Join::fence`]) costs what the look would: one call, and only before a refusal. It is no
//! outcome: the next request under the key takes its place.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsError, TransactWriteItemsOutput};
use aws_sdk_dynamodb::types::{
    CancellationReason, KeysAndAttributes, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use ichido::dynamodb::{Join, Recorded, Verdict as Found, classify};
use ichido::{Timestamp, store};
use telemetry::metric;
use uuid::Uuid;

use super::{ATTEMPT, Error, Ledger};
use crate::amount::Amount;
use crate::entry::{Account, MAX_SHARDS};
use crate::instant;
use crate::plan::{Impossible, Plan, Shards, Step};
use crate::table::{self, Item, number, text};
use crate::verdict::{Reason, Refusal, Seen, Verdict, judge};

/// The first pause between two attempts; each next one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Not longer, or those who were unlucky wait while newcomers pass them: a transaction takes about ten milliseconds.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long the counter of a day is kept after it: long enough to answer a question about it.
const COUNTER_KEPT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// A plan whose transaction has been committed.
pub(super) enum Committed {
    /// By this request.
    Made,
    /// By an earlier one.
    Before(Recorded),
}

/// Makes a plan of what the treasury's shards hold.
pub(super) trait Planner: Fn(&Shards) -> Result<Plan, Impossible> + Sync {}
impl<F: Fn(&Shards) -> Result<Plan, Impossible> + Sync> Planner for F {}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Sent {
    Committed,
    /// Did nothing, for these reasons.
    Cancelled(Vec<CancellationReason>),
    /// Did nothing.
    Throttled,
    /// May have been done, may still be.
    Unknown,
    /// Did nothing, and will not work until somebody mends it.
    Fault(store::Error),
}

impl Ledger {
    /// Commits what `plan` makes, at `now`, within the time until `until`.
    pub(super) async fn commit(
        &self,
        join: &Join,
        now: Timestamp,
        until: Timestamp,
        treasury_pays: bool,
        plan: impl Planner,
    ) -> Result<Committed, Error> {
        // Takes the place of the fence that it has met, if any.
        let mut join = join.clone();
        // Some earlier attempt of this request may still land.
        let mut may_land = false;
        let mut attempt: Option<Attempt> = None;
        let mut pauses = Pauses::default();
        loop {
            // What this round would refuse with, if nothing speaks against it.
            let mut refusal = None;
            // The record stood in the way but did not come with the answer.
            let mut recorded = false;
            if attempt.is_none() {
                match self.prepare(&join, now, until, treasury_pays, &plan).await {
                    // Too late to be sent and asked about: the last look is all that the time is left for.
                    Ok(Prepared::Attempt(_)) if treasury_pays && self.now() >= until => {}
                    Ok(Prepared::Attempt(prepared)) => attempt = Some(prepared),
                    Ok(Prepared::Impossible(impossible)) => refusal = Some(impossible),
                    Ok(Prepared::Unknown) => {}
                    // an earlier plan of this request may still land
                    Err(_) if may_land => return Err(Error::Unresolved),
                    Err(error) => return Err(error),
                }
            }
            if let Some(current) = &attempt {
                let answer = self.send(current).await;
                match Told::from(join.verdict(&answer)?) {
                    Told::Settled(result) => return result,
                    Told::Fenced(fence) => {
                        join = join.replaces(&fence);
                        attempt = None;
                    }
                    Told::Nothing => match Sent::of(answer) {
                        Sent::Committed => return Ok(Committed::Made),
                        Sent::Throttled => {}
                        Sent::Unknown => may_land = true,
                        Sent::Fault(fault) if !may_land => return Err(Error::Store(fault)),
                        Sent::Fault(_) => return Err(Error::Unresolved),
                        Sent::Cancelled(reasons) => match judge(&current.plan.steps, &read_reasons(&reasons)) {
                            Verdict::Refused(refused) => refusal = Some(refused),
                            Verdict::Record => recorded = true,
                            Verdict::PlanAgain => attempt = None,
                            Verdict::Again { conflict } => metric::TRANSFER_CONFLICTS.add(u64::from(conflict)),
                        },
                    },
                }
            }
            let pause = pauses.next(self.random());
            let last = self.now() + pause >= until;
            let asked = match refusal {
                // Of the writer, which sends once: each fence is a new one.
                Some(refusal) => match join.fence(&self.0.writer, now, &format!("{refusal:?}")).await {
                    Ok(None) => return Err(Error::Refused(refusal)),
                    Err(store::Error::Transient(_)) if last && self.now() < until + ATTEMPT => {
                        join.look(&self.0.writer, now).await
                    }
                    asked => asked,
                },
                // Asked once, as everything here: whoever reads for longer is stopped before there is an answer.
                None if recorded || last => join.look(&self.0.writer, now).await,
                None => Ok(None),
            };
            match asked {
                Ok(Some(there)) => match Told::from(there) {
                    Told::Settled(result) => return result,
                    Told::Fenced(fence) => {
                        join = join.replaces(&fence);
                        attempt = None;
                    }
                    Told::Nothing => {}
                },
                Ok(None) | Err(store::Error::Transient(_)) => {}
                Err(fault) if !may_land => return Err(Error::Store(fault)),
                Err(_) => return Err(Error::Unresolved),
            }
            if last {
                return Err(Error::Unresolved);
            }
            self.0.clock.sleep(pause).await;
        }
    }

    /// Plans, and freezes the plan as the items of a transaction.
    async fn prepare(
        &self,
        join: &Join,
        now: Timestamp,
        until: Timestamp,
        treasury_pays: bool,
        plan: &impl Planner,
    ) -> Result<Prepared, Error> {
        let shards = match treasury_pays {
            false => Vec::new(),
            true => match self.shards(Some(until)).await {
                Ok(shards) => shards,
                Err(Error::Unresolved) => return Ok(Prepared::Unknown),
                Err(error) => return Err(error),
            },
        };
        let plan = match plan(&shards) {
            Ok(plan) => plan,
            Err(Impossible::AboveLimit | Impossible::TooLarge) => {
                return Ok(Prepared::Impossible(Refusal::LimitExceeded));
            }
            Err(Impossible::TreasuryTooPoor) => return Ok(Prepared::Impossible(Refusal::InsufficientBalance)),
        };
        let items = plan.steps.iter().map(|step| self.item(step, &plan, join, now)).collect::<Result<_, _>>()?;
        // Never made from the client's key: another request under the same key has other ids, and the store would refuse
        // it as changed instead of letting the record judge.
        let token = uuid::Builder::from_random_bytes(self.random().to_be_bytes()).into_uuid();
        Ok(Prepared::Attempt(Attempt { plan, items, token }))
    }

    async fn send(&self, attempt: &Attempt) -> Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>> {
        self.send_items(attempt.items.clone(), attempt.token).await
    }

    pub(super) async fn send_items(
        &self,
        items: Vec<TransactWriteItem>,
        token: Uuid,
    ) -> Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>> {
        let call = self.0.writer.transact_write_items().set_transact_items(Some(items));
        call.client_request_token(token.to_string()).send().await
    }

    fn item(&self, step: &Step, plan: &Plan, join: &Join, now: Timestamp) -> Result<TransactWriteItem, Error> {
        Ok(match step {
            Step::Record => join.item(now)?,
            Step::Debit { account, amount, unfrozen } => {
                let update = self.balance_update(account, *amount)?;
                let update = update.update_expression("SET balance = balance - :amount ADD entries :one");
                // the treasury has no status: it cannot be frozen
                let unfrozen = *unfrozen && matches!(account, Account::Of(_));
                of_update(conditional(update, unfrozen, "balance >= :amount"))
            }
            // ADD creates the shard at its first fee
            Step::Credit { account: account @ Account::Treasury(_), amount, .. } => {
                of_update(self.balance_update(account, *amount)?.update_expression("ADD balance :amount, entries :one"))
            }
            Step::Credit { account, amount, unfrozen } => {
                let update = self.balance_update(account, *amount)?;
                let update = update.update_expression("SET balance = balance + :amount ADD entries :one");
                of_update(conditional(update, *unfrozen, "attribute_exists(PK)"))
            }
            Step::Limit { sender, at, amount, limit } => {
                let room = limit.checked_sub(*amount).unwrap_or_default();
                let kept_until = *at + instant::left_of_day(*at) + COUNTER_KEPT;
                let update = Update::builder()
                    .table_name(self.table_name())
                    .key(table::PK, text(table::limit_pk(sender, *at)?))
                    .key(table::SK, text(table::SPENT_SK))
                    .update_expression("SET #ttl = :ttl ADD spent :amount")
                    .condition_expression("attribute_not_exists(spent) OR spent <= :room")
                    .expression_attribute_names("#ttl", table::TTL)
                    .expression_attribute_values(":ttl", number(kept_until.as_secs_ceil()))
                    .expression_attribute_values(":amount", number(amount.units()))
                    .expression_attribute_values(":room", number(room.units()))
                    .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
                of_update(update)
            }
            Step::Entry => of_put(self.new_item(table::entry_item(&plan.entry)?)),
        })
    }

    /// A write of an item that must not be there yet.
    pub(super) fn new_item(&self, item: Item) -> aws_sdk_dynamodb::types::builders::PutBuilder {
        Put::builder()
            .table_name(self.table_name())
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(PK)")
    }

    fn balance_update(
        &self,
        account: &Account,
        amount: Amount,
    ) -> Result<aws_sdk_dynamodb::types::builders::UpdateBuilder, Error> {
        Ok(Update::builder()
            .table_name(self.table_name())
            .key(table::PK, text(table::account_pk(account)?))
            .key(table::SK, text(table::BALANCE_SK))
            .expression_attribute_values(":amount", number(amount.units()))
            .expression_attribute_values(":one", number(1))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld))
    }

    /// What the treasury's shards hold, all that there can be. With `until`, each question is asked once, and none after it.
    pub(super) async fn shards(&self, until: Option<Timestamp>) -> Result<Shards, Error> {
        /// Rounds for what the store left out under load.
        const ROUNDS: usize = 5;
        let mut keys = KeysAndAttributes::builder().consistent_read(true);
        for shard in 0..MAX_SHARDS {
            let pk = table::account_pk(&Account::Treasury(shard))?;
            keys = keys.keys(Item::from([(table::PK.into(), text(pk)), (table::SK.into(), text(table::BALANCE_SK))]));
        }
        let mut left = keys.build().ok();
        let mut shards = Shards::new();
        let client = if until.is_some() { &self.0.writer } else { &self.0.reader };
        for round in 0..ROUNDS {
            if round > 0 && until.is_some_and(|until| self.now() >= until) {
                break;
            }
            let Some(keys) = left.take() else { break };
            let read = client.batch_get_item().request_items(self.table_name(), keys).send().await;
            let read = read.map_err(super::read_error)?;
            for item in read.responses.unwrap_or_default().remove(self.table_name()).unwrap_or_default() {
                let balance = table::read_balance(&item)?;
                if let Account::Treasury(shard) = balance.account {
                    shards.push((shard, table::units(&item, table::BALANCE)?));
                }
            }
            left = read.unprocessed_keys.unwrap_or_default().remove(self.table_name());
        }
        shards.sort_unstable();
        if left.is_none() { Ok(shards) } else { Err(Error::Unresolved) }
    }
}

/// A frozen plan.
struct Attempt {
    plan: Plan,
    items: Vec<TransactWriteItem>,
    token: Uuid,
}

enum Prepared {
    Attempt(Attempt),
    Impossible(Refusal),
    /// The shards could not be read now.
    Unknown,
}

/// What the record says.
enum Told {
    Settled(Result<Committed, Error>),
    /// That an earlier request was refused.
    Fenced(Recorded),
    Nothing,
}

impl From<Found> for Told {
    fn from(verdict: Found) -> Self {
        match verdict {
            Found::New => Told::Settled(Ok(Committed::Made)),
            Found::Replay(recorded) => Told::Settled(Ok(Committed::Before(recorded))),
            Found::Mismatch { fields, .. } => Told::Settled(Err(Error::Mismatch { fields })),
            Found::Fenced(fence) => Told::Fenced(fence),
            Found::NotOurs => Told::Nothing,
        }
    }
}

impl Sent {
    pub(super) fn of(answer: Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>>) -> Self {
        /// Refused at the store's door, before anything was done.
        const THROTTLED: [&str; 5] = [
            "ThrottlingException",
            "Throttling",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
            "SlowDown",
        ];
        let error = match answer {
            Ok(_) => return Sent::Committed,
            Err(error) => error,
        };
        match &error {
            SdkError::ConstructionFailure(_) => return Sent::Fault(classify(error)),
            SdkError::ServiceError(context) => {
                if let TransactWriteItemsError::TransactionCanceledException(cancelled) = context.err() {
                    return Sent::Cancelled(cancelled.cancellation_reasons().to_vec());
                }
                if context.err().is_transaction_in_progress_exception() || context.raw().status().as_u16() >= 500 {
                    return Sent::Unknown;
                }
                let code = context.err().code().unwrap_or_default();
                if THROTTLED.contains(&code.rsplit('#').next().unwrap_or(code)) {
                    return Sent::Throttled;
                }
            }
            // no answer, half an answer, or none that could be read
            _ => return Sent::Unknown,
        }
        match classify(error) {
            // a code that only the library knows as passing: it says nothing about what was done
            store::Error::Transient(_) => Sent::Unknown,
            fault => Sent::Fault(fault),
        }
    }
}

fn read_reasons(reasons: &[CancellationReason]) -> Vec<Reason> {
    reasons
        .iter()
        .map(|reason| match reason.code() {
            None | Some("None") => Reason::None,
            Some("ConditionalCheckFailed") => Reason::Condition(reason.item().map(|item| Seen {
                balance: table::units(item, table::BALANCE).ok(),
                frozen: table::string(item, table::STATUS).is_ok_and(|status| status == table::FROZEN),
            })),
            Some("TransactionConflict") => Reason::Conflict,
            Some(_) => Reason::Other,
        })
        .collect()
}

fn conditional(
    update: aws_sdk_dynamodb::types::builders::UpdateBuilder,
    unfrozen: bool,
    condition: &str,
) -> aws_sdk_dynamodb::types::builders::UpdateBuilder {
    if !unfrozen {
        return update.condition_expression(condition);
    }
    update
        .condition_expression(format!("{condition} AND #status = :open"))
        .expression_attribute_names("#status", table::STATUS)
        .expression_attribute_values(":open", text(table::OPEN))
}

fn of_update(update: aws_sdk_dynamodb::types::builders::UpdateBuilder) -> TransactWriteItem {
    TransactWriteItem::builder().set_update(update.build().ok()).build()
}

pub(super) fn of_put(put: aws_sdk_dynamodb::types::builders::PutBuilder) -> TransactWriteItem {
    TransactWriteItem::builder().set_put(put.build().ok()).build()
}

/// Pauses between attempts: longer each time, and of random length, so that those who met do not meet again.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Pauses(FIRST_PAUSE)
    }
}

impl Pauses {
    pub(super) fn next(&mut self, random: u128) -> Duration {
        let longest = u128::max(self.0.as_millis(), 1);
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        Duration::from_millis(u64::try_from(1 + random % longest).unwrap_or(1))
    }
}
