//! What a cancelled transaction means.
//!
//! DynamoDB names a reason for each item. Several items can fail at once, so their precedence is part of the service's
//! promise, from first to last:
//!
//! 1. the idempotency record is there: a replay, or a mismatch; nothing else matters then (the library reads the record);
//! 2. a conflict, throttling or anything else that is not a failed condition: nothing is known, the same attempt is sent again;
//! 3. the sender has no account · 4. the sender is frozen · 5. the recipient has no account · 6. the recipient is frozen ·
//! 7. the sender's balance is too low · 8. the daily limit is reached.
//!
//! 3 to 8 are only about this attempt. Before the client is told, a tombstone makes sure that no other attempt under the
//! key has moved the money, or still can.

use aws_sdk_dynamodb::types::CancellationReason;

use super::account::Status;
use super::entry::Account;
use super::plan::Step;
use crate::table;

/// What stands in the way of a transfer. As long as it is not removed, the same request gets the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Obstacle {
    #[error("the sender has no account")]
    SenderNotFound,
    #[error("the sender's account is frozen")]
    SenderFrozen,
    #[error("the recipient has no account")]
    RecipientNotFound,
    #[error("the recipient's account is frozen")]
    RecipientFrozen,
    #[error("the account holds less than the amount and its fee")]
    InsufficientBalance,
    #[error("the transfer is above a limit")]
    LimitExceeded,
}

/// DynamoDB's reason for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reason {
    /// Nothing was wrong with this item.
    None,
    /// Its condition failed. The status of the item as it was, if there was one.
    Condition(Option<Status>),
    /// Another transaction, or write, was using it.
    Conflict,
    /// Throttled, or something that this version does not know.
    Other,
}

impl Reason {
    pub(super) fn of(reason: &CancellationReason) -> Self {
        match reason.code() {
            None | Some("None") => Reason::None,
            Some("ConditionalCheckFailed") => Reason::Condition(reason.item().map(table::status)),
            Some("TransactionConflict") => Reason::Conflict,
            Some(_) => Reason::Other,
        }
    }
}

/// Why a transaction was cancelled, all its items taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The record's own condition failed: the record has to be asked.
    Record,
    /// Something that passes: the same attempt may succeed.
    Passing {
        conflict: bool,
    },
    /// A shard of the treasury had less than was last read: the plan has to be made again.
    ShardTooPoor,
    Obstacle(Obstacle),
}

/// Whether the condition of the item at this position failed, and nothing else stood in the way of any item.
pub(super) fn only_condition(reasons: &[Reason], position: usize) -> bool {
    reasons.iter().enumerate().all(|(at, reason)| match reason {
        Reason::None => at != position,
        Reason::Condition(_) => at == position,
        Reason::Conflict | Reason::Other => false,
    }) && position < reasons.len()
}

/// Reads the reasons of a cancelled transaction in the order of precedence.
pub(super) fn cause_of(steps: &[Step], reasons: &[Reason]) -> Cause {
    let failed = |step: &Step, reason: &Reason| matches!((step, reason), (Step::Record, Reason::Condition(_)));
    if steps.iter().zip(reasons).any(|(step, reason)| failed(step, reason)) {
        return Cause::Record;
    }
    let conflict = reasons.contains(&Reason::Conflict);
    if conflict || steps.len() != reasons.len() || reasons.contains(&Reason::Other) {
        return Cause::Passing { conflict };
    }
    let mut shard_too_poor = false;
    let obstacle = steps
        .iter()
        .zip(reasons)
        .filter_map(|(step, reason)| match reason {
            Reason::Condition(status) => Some((step, status)),
            _ => None,
        })
        .filter_map(|(step, status)| match (step, status) {
            (Step::Debit { account: Account::Treasury(_), .. }, _) => {
                shard_too_poor = true;
                None
            }
            (Step::Debit { .. }, None) => Some(Obstacle::SenderNotFound),
            (Step::Debit { unfrozen: true, .. }, Some(Status::Frozen)) => Some(Obstacle::SenderFrozen),
            (Step::Debit { .. }, Some(_)) => Some(Obstacle::InsufficientBalance),
            (Step::Credit { .. }, None) => Some(Obstacle::RecipientNotFound),
            (Step::Credit { .. }, Some(_)) => Some(Obstacle::RecipientFrozen),
            (Step::Limit { .. }, _) => Some(Obstacle::LimitExceeded),
            (Step::Record | Step::Entry, _) => None,
        })
        .min();
    match obstacle {
        Some(obstacle) => Cause::Obstacle(obstacle),
        None if shard_too_poor => Cause::ShardTooPoor,
        None => Cause::Passing { conflict: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::Amount;
    use crate::identity::did::Did;
    use ichido::Timestamp;
    use proptest::prelude::*;

    const OPEN: Status = Status::Open;
    const FROZEN: Status = Status::Frozen;

    fn steps() -> Vec<Step> {
        let (alice, bob): (Did, Did) = ("did:key:alice".parse().unwrap(), "did:key:bob".parse().unwrap());
        let amount = Amount::from_units(10);
        vec![
            Step::Record,
            Step::Debit { account: Account::Of(alice.clone()), amount, unfrozen: true },
            Step::Credit { account: Account::Of(bob), amount, unfrozen: true },
            Step::Limit { sender: alice, at: Timestamp::from_millis(0), amount, limit: amount },
            Step::Entry,
        ]
    }

    #[test]
    fn the_record_comes_before_everything() {
        let reasons = [
            Reason::Condition(None),
            Reason::Condition(Some(OPEN)),
            Reason::Conflict,
            Reason::Condition(None),
            Reason::Other,
        ];
        assert_eq!(cause_of(&steps(), &reasons), Cause::Record);
    }

    #[test]
    fn a_conflict_beside_a_failed_condition_refuses_nobody() {
        let reasons = [Reason::None, Reason::Condition(Some(OPEN)), Reason::Conflict, Reason::None, Reason::None];
        assert_eq!(cause_of(&steps(), &reasons), Cause::Passing { conflict: true });
        let reasons = [Reason::None, Reason::Condition(Some(OPEN)), Reason::Other, Reason::None, Reason::None];
        assert_eq!(cause_of(&steps(), &reasons), Cause::Passing { conflict: false });
        assert_eq!(cause_of(&steps(), &[]), Cause::Passing { conflict: false });
    }

    #[test]
    fn among_refusals_the_precedence_is_the_stated_one() {
        use Reason::{Condition, None as Fine};
        let limit = Condition(Some(OPEN));
        for (debit, credit, limit, refusal) in [
            (Condition(None), Condition(None), limit.clone(), Obstacle::SenderNotFound),
            (Condition(Some(FROZEN)), Condition(None), limit.clone(), Obstacle::SenderFrozen),
            (Condition(Some(OPEN)), Condition(None), limit.clone(), Obstacle::RecipientNotFound),
            (Condition(Some(OPEN)), Condition(Some(FROZEN)), limit.clone(), Obstacle::RecipientFrozen),
            (Condition(Some(OPEN)), Fine, limit.clone(), Obstacle::InsufficientBalance),
            (Fine, Fine, limit, Obstacle::LimitExceeded),
        ] {
            let reasons = [Fine, debit, credit, limit, Fine];
            assert_eq!(cause_of(&steps(), &reasons), Cause::Obstacle(refusal));
        }
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn no_list_of_reasons_refuses_while_anything_but_conditions_failed(picks in prop::collection::vec(0..5_u8, 0..7)) {
                let reasons: Vec<Reason> = picks
                    .iter()
                    .map(|pick| match pick {
                        0 => Reason::None,
                        1 => Reason::Condition(None),
                        2 => Reason::Condition(Some(FROZEN)),
                        3 => Reason::Conflict,
                        _ => Reason::Other,
                    })
                    .collect();
                if let Cause::Obstacle(_) = cause_of(&steps(), &reasons) {
                    prop_assert!(!picks.iter().any(|pick| *pick >= 3) && reasons.len() == steps().len());
                    prop_assert!(!matches!(reasons[0], Reason::Condition(_)));
                }
            }
        }
    }
}
