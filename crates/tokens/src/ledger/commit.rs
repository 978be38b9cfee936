//! Commits one plan, once.
//!
//! An attempt can end in these ways:
//!
//! | DynamoDB's answer | what is known | what is done |
//! |---|---|---|
//! | committed | the money moved | success |
//! | cancelled, the record is there | an attempt under this key had moved it | success if it was this request or an equal one, else a mismatch |
//! | cancelled by a conflict about the account that is paid | this attempt did nothing | another attempt, which pays another shard of the account |
//! | cancelled by another conflict, or throttled | this attempt did nothing | the same attempt again |
//! | cancelled: the account that pays has too little itself | this attempt did nothing | the account is read with its shards; if they have enough together, another attempt folds them |
//! | cancelled, a tombstone is there | an earlier request under this key was refused; no attempt that did not know the tombstone can be committed | another attempt, which replaces the tombstone |
//! | cancelled by conditions | this attempt did nothing; earlier ones may have been committed, or may still be | a tombstone is written where the record would be. If the record is there, success. If not, nothing sent so far under this key can be committed any more, and the request is refused |
//! | none, or an error inside DynamoDB | nothing: the money may have moved, or may still move | the same attempt again |
//!
//! Another attempt of a request has another client token and the same record, so it cannot be committed beside an earlier one.
//!
//! "The same attempt" has the same ids, the same times and the same client token. So DynamoDB itself recognises it, and
//! if it does not, the record does. When the time is over, the record is read one last time. If that settles nothing, the
//! answer is [`Error::Unresolved`], never a refusal.
//!
//! Why the tombstone: an attempt whose answer was lost may be committed at any later time. That includes an attempt of an
//! earlier request under the same key that was answered with 503 long ago. If a request were refused after a mere look at
//! the record, the client would get an error for money that then moves. The tombstone ([`Join::tombstone`]) costs as
//! much as the look: one call, and only before a refusal. It is no outcome: the next request under the key replaces it.

use std::time::Duration;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::{TransactWriteItemsError, TransactWriteItemsOutput};
use aws_sdk_dynamodb::types::TransactWriteItem;
use ichido::dynamodb::{Join, Recorded, Verdict, classify};
use ichido::{Timestamp, store};
use telemetry::metric;
use uuid::Uuid;

use super::account::Held;
use super::cancellation::{Cause, Obstacle, Reason, cause_of};
use super::entry::{ACCOUNT_SHARDS, Account};
use super::plan::{Impossible, Payer, Plan, Spread, Step};
use super::{ATTEMPT, Error, Ledger};
use crate::identity::did::Did;
use crate::table;

/// The first pause between two attempts; each next one may be twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// A transaction takes about ten milliseconds. With longer pauses, requests that met others would wait while newer ones
/// pass them.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// A credit that has met another one waits for up to this many times as long as its attempt took, each time, and at most this long. If
/// attempts take long, many are under way, and another one would only be one more that meets them.
const CREDIT_WAITS: u32 = 4;
const LONGEST_CREDIT_PAUSE: Duration = Duration::from_millis(500);

/// A plan whose transaction has been committed.
pub(super) enum Committed {
    /// By this request.
    Now,
    /// By an earlier one.
    Before(Recorded),
}

/// Makes a plan for these shards.
pub(super) trait Planner: Fn(&Spread) -> Result<Plan, Impossible> + Sync {}
impl<F: Fn(&Spread) -> Result<Plan, Impossible> + Sync> Planner for F {}

/// The people whose accounts a plan changes.
#[derive(Debug, Default)]
pub(super) struct Parties {
    pub(super) payer: Option<Did>,
    pub(super) payee: Option<Did>,
    pub(super) treasury_pays: bool,
}

impl Parties {
    /// Whether something has to be read before a plan can be made.
    fn are_read_first(&self, route: &Route) -> bool {
        self.treasury_pays || route.from_shards
    }
}

/// Which shards the next attempt uses, and what the earlier ones have shown.
#[derive(Debug, Default)]
struct Route {
    /// The shard that is paid.
    to: u8,
    /// The account that is paid had no shards.
    none_to_pay: bool,
    /// A credit met another one.
    met: bool,
    /// The account that pays cannot pay alone.
    from_shards: bool,
    /// A fold met something else. If one shard can pay alone, it does.
    from_one: bool,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Sent {
    Committed,
    /// Did nothing, for these reasons, one per item.
    Cancelled(Vec<Reason>),
    /// Did nothing.
    Throttled,
    /// May have been committed, or may still be.
    Unknown,
    /// Did nothing, and will not work until somebody repairs the set-up.
    Fault(store::Error),
}

impl Ledger {
    /// Commits what `plan` makes, together with its record, as of `now` and not later than `until`.
    pub(super) async fn commit(
        &self,
        record: Join,
        now: Timestamp,
        until: Timestamp,
        parties: &Parties,
        plan: impl Planner,
    ) -> Result<Committed, Error> {
        let mut route = Route::default();
        if parties.payee.as_ref().is_some_and(|payee| self.0.hot.is(payee, now)) {
            route.to = self.another_shard(0);
        }
        let result = self.commit_by(&mut route, record, now, until, parties, plan).await;
        if let (Some(payee), true, Ok(_)) = (&parties.payee, route.met && route.to > 0, &result) {
            self.0.hot.met(payee, self.now());
        }
        result
    }

    async fn commit_by(
        &self,
        route: &mut Route,
        mut record: Join,
        now: Timestamp,
        until: Timestamp,
        parties: &Parties,
        plan: impl Planner,
    ) -> Result<Committed, Error> {
        // An earlier attempt of this request may still be committed.
        let mut may_land = false;
        let mut attempt: Option<Attempt> = None;
        let mut pauses = Pauses::default();
        loop {
            // Why this round would refuse the request.
            let mut obstacle = None;
            // The record's condition failed, but the answer did not show the record.
            let mut ask_record = false;
            let mut pace = Pace::Longer;
            if attempt.is_none() {
                match self.prepare(&record, now, until, parties, route, &plan).await {
                    // Too late to send it and to ask about it afterwards. The time is only enough for the last look.
                    Ok(Prepared::Attempt(_)) if parties.are_read_first(route) && self.now() >= until => {}
                    Ok(Prepared::Attempt(prepared)) => attempt = Some(prepared),
                    Ok(Prepared::Impossible(impossible)) => obstacle = Some(impossible),
                    Ok(Prepared::Unknown) => {}
                    // An attempt of an earlier plan may still be committed.
                    Err(_) if may_land => return Err(Error::Unresolved),
                    Err(error) => return Err(error),
                }
            }
            if let Some(current) = &attempt {
                let began = self.now();
                let answer = self.send(current.items.clone(), current.token).await;
                let took = self.now().since(began);
                match RecordSays::from(record.verdict(&answer)?) {
                    RecordSays::Settled(result) => return result,
                    RecordSays::Tombstone(tombstone) => {
                        record = record.replaces(&tombstone);
                        attempt = None;
                    }
                    RecordSays::Nothing => match Sent::of(answer) {
                        Sent::Committed => return Ok(Committed::Now),
                        Sent::Throttled => {}
                        Sent::Unknown => may_land = true,
                        Sent::Fault(fault) if !may_land => return Err(Error::Store(fault)),
                        Sent::Fault(_) => return Err(Error::Unresolved),
                        Sent::Cancelled(reasons) => match cause_of(&current.plan.steps, &reasons) {
                            Cause::Obstacle(found) => obstacle = Some(found),
                            Cause::Record => ask_record = true,
                            Cause::TreasuryShardTooPoor => attempt = None,
                            Cause::TooPoor => {
                                if !std::mem::replace(&mut route.from_shards, true) {
                                    pace = Pace::AtOnce;
                                }
                                attempt = None;
                            }
                            Cause::NoShard => {
                                if !std::mem::replace(&mut route.none_to_pay, true) {
                                    pace = Pace::AtOnce;
                                }
                                route.to = 0;
                                attempt = None;
                            }
                            Cause::Passing { conflict, on_credit } => {
                                metric::TRANSFER_CONFLICTS.add(u64::from(conflict));
                                let folds = current.plan.steps.iter().any(|step| matches!(step, Step::Fold { .. }));
                                if conflict && folds {
                                    route.from_one = true;
                                    attempt = None;
                                }
                                if let (true, Some(payee)) = (on_credit, &parties.payee) {
                                    self.move_credit(route, payee, until).await;
                                    pace = Pace::Credit((took * CREDIT_WAITS).clamp(FIRST_PAUSE, LONGEST_CREDIT_PAUSE));
                                    attempt = None;
                                }
                            }
                        },
                    },
                }
            }
            let pause = match pace {
                Pace::AtOnce => Duration::ZERO,
                Pace::Credit(longest) => Pauses(longest).next(self.random()),
                Pace::Longer => pauses.next(self.random()),
            };
            let last = self.now() + pause >= until;
            // With the writer, which sends once. A second tombstone would be another one, and a repeated read could take
            // longer than the function has.
            let there = match obstacle {
                Some(obstacle) => match record.tombstone(&self.0.writer, now, &format!("{obstacle:?}")).await {
                    Ok(None) => return Err(Error::Refused(obstacle)),
                    Err(store::Error::Transient(_)) if last && self.now() < until + ATTEMPT => {
                        record.look(&self.0.writer, now).await
                    }
                    there => there,
                },
                None if ask_record || last => record.look(&self.0.writer, now).await,
                None => Ok(None),
            };
            match there {
                Ok(Some(there)) => match RecordSays::from(there) {
                    RecordSays::Settled(result) => return result,
                    RecordSays::Tombstone(tombstone) => {
                        record = record.replaces(&tombstone);
                        attempt = None;
                    }
                    RecordSays::Nothing => {}
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

    /// Lets the next attempt pay another shard. An account that met two conflicts of one request and has no shards gets them.
    async fn move_credit(&self, route: &mut Route, payee: &Did, until: Timestamp) {
        route.met = true;
        let now = self.now();
        if route.none_to_pay {
            // Another request of this instance may have made them.
            route.none_to_pay = !self.0.hot.is(payee, now) && (now >= until || !self.make_shards(payee).await);
            if !route.none_to_pay {
                self.0.hot.met(payee, now);
            }
        }
        if !route.none_to_pay {
            route.to = self.another_shard(route.to);
        }
    }

    /// Any shard but this one.
    fn another_shard(&self, shard: u8) -> u8 {
        let further = 1 + self.random() % u128::from(ACCOUNT_SHARDS);
        u8::try_from((u128::from(shard) + further) % (u128::from(ACCOUNT_SHARDS) + 1)).unwrap_or(0)
    }

    /// Makes the plan, and of the plan the items of a transaction, which then never change.
    async fn prepare(
        &self,
        record: &Join,
        now: Timestamp,
        until: Timestamp,
        parties: &Parties,
        route: &Route,
        plan: &impl Planner,
    ) -> Result<Prepared, Error> {
        let mut spread = Spread { to: route.to, ..Spread::default() };
        if parties.treasury_pays {
            spread.treasury = match self.shards(Some(until)).await {
                Ok(shards) => shards,
                Err(Error::Unresolved) => return Ok(Prepared::Unknown),
                Err(error) => return Err(error),
            };
        }
        let mut earlier: Option<Held> = None;
        let plan = loop {
            let mut held = None;
            if let (Some(payer), true) = (&parties.payer, route.from_shards) {
                if self.now() >= until {
                    return Ok(Prepared::Unknown);
                }
                held = match self.read_held(&self.0.writer, payer).await {
                    Ok(Some(held)) if held.is_torn() => return Ok(Prepared::Unknown),
                    Ok(held) => held,
                    Err(Error::Unresolved) => return Ok(Prepared::Unknown),
                    Err(error) => return Err(error),
                };
                spread.payer = payer_of(held.as_ref(), route.from_one);
            }
            match (plan(&spread), held, &earlier) {
                // The shards were not read at one moment, so it is not known yet that they held too little. They are read once more.
                (Err(Impossible::TooPoor), Some(held), None) if held.has_shards() => earlier = Some(held),
                (Err(Impossible::TooPoor), Some(held), Some(earlier)) if !held.nothing_was_taken_since(earlier) => {
                    return Ok(Prepared::Unknown);
                }
                (planned, ..) => break planned,
            }
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(Impossible::AboveLimit | Impossible::TooLarge) => {
                return Ok(Prepared::Impossible(Obstacle::LimitExceeded));
            }
            Err(Impossible::TreasuryTooPoor | Impossible::TooPoor) => {
                return Ok(Prepared::Impossible(Obstacle::InsufficientBalance));
            }
        };
        let items = plan.steps.iter().map(|step| self.item(step, &plan, record, now)).collect::<Result<_, _>>()?;
        // Never made from the client's key. Another request under the same key has other ids, and DynamoDB would refuse
        // it as changed before the condition of the record is checked.
        Ok(Prepared::Attempt(Attempt { plan, items, token: self.new_token() }))
    }

    fn item(&self, step: &Step, plan: &Plan, record: &Join, now: Timestamp) -> Result<TransactWriteItem, Error> {
        let table = self.table_name();
        Ok(match step {
            Step::Record => record.item(now)?,
            Step::Debit { account, amount, unfrozen } => table::debit(table, account, *amount, *unfrozen)?,
            Step::Credit { account, amount, unfrozen } => table::credit(table, account, *amount, *unfrozen)?,
            Step::Fold { account, delta, folds, unfrozen } => table::fold(table, account, *delta, *folds, *unfrozen)?,
            Step::Limit { sender, at, amount, limit } => table::count_as_sent(table, sender, *at, *amount, *limit)?,
            Step::Entry => table::new_entry(table, &plan.entry)?,
        })
    }

    /// Sends a transaction, once.
    pub(super) async fn send(
        &self,
        items: Vec<TransactWriteItem>,
        token: Uuid,
    ) -> Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>> {
        let call = self.0.writer.transact_write_items().set_transact_items(Some(items));
        call.client_request_token(token.to_string()).send().await
    }
}

/// How soon the next attempt is made.
enum Pace {
    /// The last one has shown how the plan has to be made.
    AtOnce,
    /// A credit has moved. It waits for at most this long, and not longer each time: those who wait longest would be passed by those who
    /// have just come.
    Credit(Duration),
    Longer,
}

/// From where somebody pays who has this.
fn payer_of(held: Option<&Held>, one: bool) -> Payer {
    let Some(held) = held else { return Payer::Account };
    let shard = |account: &Account| if let Account::Shard(_, shard) = account { *shard } else { 0 };
    let balances = held.balances.iter().map(|balance| (shard(&balance.account), balance.balance)).collect();
    Payer::Shards { balances, folds: held.folds(), one: one || !held.has_shards() }
}

/// A plan and its transaction, which is sent as often as needed.
struct Attempt {
    plan: Plan,
    items: Vec<TransactWriteItem>,
    token: Uuid,
}

enum Prepared {
    Attempt(Attempt),
    Impossible(Obstacle),
    /// The shards could not be read now.
    Unknown,
}

/// What the record tells about this request.
enum RecordSays {
    Settled(Result<Committed, Error>),
    /// An earlier request was refused.
    Tombstone(Recorded),
    Nothing,
}

impl From<Verdict> for RecordSays {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::New => RecordSays::Settled(Ok(Committed::Now)),
            Verdict::Replay(recorded) => RecordSays::Settled(Ok(Committed::Before(recorded))),
            Verdict::Mismatch { fields, .. } => RecordSays::Settled(Err(Error::Mismatch { fields })),
            Verdict::Tombstone(tombstone) => RecordSays::Tombstone(tombstone),
            Verdict::NotOurs => RecordSays::Nothing,
        }
    }
}

impl Sent {
    pub(super) fn of(answer: Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError>>) -> Self {
        /// DynamoDB refused the call before it did anything.
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
                    return Sent::Cancelled(cancelled.cancellation_reasons().iter().map(Reason::of).collect());
                }
                if context.err().is_transaction_in_progress_exception() || context.raw().status().as_u16() >= 500 {
                    return Sent::Unknown;
                }
                let code = context.err().code().unwrap_or_default();
                if THROTTLED.contains(&code.rsplit('#').next().unwrap_or(code)) {
                    return Sent::Throttled;
                }
            }
            // No answer, half an answer, or one that cannot be read.
            _ => return Sent::Unknown,
        }
        match classify(error) {
            // The library knows that the code is temporary, but not whether anything was done.
            store::Error::Transient(_) => Sent::Unknown,
            fault => Sent::Fault(fault),
        }
    }
}

/// Pauses between attempts: longer each time, and of random length, so that requests that met do not meet again.
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
