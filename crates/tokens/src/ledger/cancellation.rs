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
//! Two failed conditions are about the plan, not about the request, and another plan is made: a credit to a shard that is not there,
//! and a debit for which the account itself, or a shard, has too little. Whether that is the seventh is known when all shards were read.
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
        /// The conflict was about the account that is paid.
        on_credit: bool,
    },
    /// A shard of the treasury had less than was last read: the plan has to be made again.
    TreasuryShardTooPoor,
    /// The account itself cannot pay, but may have shards; or a shard had less than was last read. They have to be read, and the plan has
    /// to be made again.
    TooPoor,
    /// The account that is paid has no such shard.
    NoShard,
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
        let met = |step: &Step, reason: &Reason| match (step, reason) {
            (Step::Credit { account, .. }, Reason::Conflict) => account.owner().is_some(),
            _ => false,
        };
        let on_credit = steps.iter().zip(reasons).any(|(step, reason)| met(step, reason));
        return Cause::Passing { conflict, on_credit };
    }
    let no_shard = |step: &Step, reason: &Reason| {
        matches!((step, reason), (Step::Credit { account: Account::Shard(..), .. }, Reason::Condition(None)))
    };
    if steps.iter().zip(reasons).any(|(step, reason)| no_shard(step, reason)) {
        return Cause::NoShard;
    }
    let (mut treasury_too_poor, mut too_poor) = (false, false);
    let obstacle = steps
        .iter()
        .zip(reasons)
        .filter_map(|(step, reason)| match reason {
            Reason::Condition(status) => Some((step, status)),
            _ => None,
        })
        .filter_map(|(step, status)| match (step, status) {
            (Step::Debit { account: Account::Treasury(_), .. }, _) => {
                treasury_too_poor = true;
                None
            }
            (Step::Debit { account: Account::Of(_), .. }, None) => Some(Obstacle::SenderNotFound),
            (Step::Debit { unfrozen: true, .. } | Step::Fold { unfrozen: true, .. }, Some(Status::Frozen)) => {
                Some(Obstacle::SenderFrozen)
            }
            (Step::Debit { .. } | Step::Fold { .. }, _) => {
                too_poor = true;
                None
            }
            (Step::Credit { .. }, None) => Some(Obstacle::RecipientNotFound),
            (Step::Credit { .. }, Some(_)) => Some(Obstacle::RecipientFrozen),
            (Step::Limit { .. }, _) => Some(Obstacle::LimitExceeded),
            (Step::Record | Step::Entry, _) => None,
        })
        .min();
    match obstacle {
        // Another plan tells whether all shards together have too little, which is said before a limit is.
        Some(Obstacle::LimitExceeded) | None if too_poor => Cause::TooPoor,
        Some(obstacle) => Cause::Obstacle(obstacle),
        None if treasury_too_poor => Cause::TreasuryShardTooPoor,
        None => Cause::Passing { conflict: false, on_credit: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::{Amount, Delta};
    use crate::identity::did::Did;
    use ichido::Timestamp;
    use proptest::prelude::*;

    const OPEN: Status = Status::Open;
    const FROZEN: Status = Status::Frozen;

    fn steps() -> Vec<Step> {
        steps_to(0)
    }

    fn steps_to(shard: u8) -> Vec<Step> {
        let (alice, bob): (Did, Did) = ("did:key:alice".parse().unwrap(), "did:key:bob".parse().unwrap());
        let amount = Amount::from_units(10);
        vec![
            Step::Record,
            Step::Debit { account: Account::Of(alice.clone()), amount, unfrozen: true },
            Step::Credit { account: Account::shard(&bob, shard), amount, unfrozen: true },
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
        assert_eq!(cause_of(&steps(), &reasons), Cause::Passing { conflict: true, on_credit: true });
        let reasons = [Reason::None, Reason::Condition(Some(OPEN)), Reason::Other, Reason::None, Reason::None];
        assert_eq!(cause_of(&steps(), &reasons), Cause::Passing { conflict: false, on_credit: false });
        assert_eq!(cause_of(&steps(), &[]), Cause::Passing { conflict: false, on_credit: false });
    }

    #[test]
    fn only_a_conflict_about_the_account_that_is_paid_moves_the_credit() {
        for at in 0..5 {
            let mut reasons = vec![Reason::None; 5];
            reasons[at] = Reason::Conflict;
            for shard in [0, 3] {
                let cause = cause_of(&steps_to(shard), &reasons);
                assert_eq!(cause, Cause::Passing { conflict: true, on_credit: at == 2 });
            }
        }
        let fee = Step::Credit { account: Account::Treasury(0), amount: Amount::from_units(1), unfrozen: true };
        let cause = cause_of(&[Step::Record, fee], &[Reason::None, Reason::Conflict]);
        assert_eq!(cause, Cause::Passing { conflict: true, on_credit: false });
    }

    #[test]
    fn a_shard_that_is_not_there_says_nothing_about_the_recipient() {
        use Reason::{Condition, None as Fine};
        let reasons = [Fine, Condition(None), Condition(None), Fine, Fine];
        assert_eq!(cause_of(&steps_to(3), &reasons), Cause::NoShard);
        let frozen = [Fine, Fine, Condition(Some(FROZEN)), Fine, Fine];
        assert_eq!(cause_of(&steps_to(3), &frozen), Cause::Obstacle(Obstacle::RecipientFrozen));
    }

    #[test]
    fn nobody_is_too_poor_before_all_shards_were_read() {
        use Reason::{Condition, None as Fine};
        let cause =
            |credit: Reason, limit: Reason| cause_of(&steps(), &[Fine, Condition(Some(OPEN)), credit, limit, Fine]);
        assert_eq!(cause(Fine, Fine), Cause::TooPoor);
        assert_eq!(cause(Fine, Condition(Some(OPEN))), Cause::TooPoor, "a limit is told later");
        assert_eq!(cause(Condition(None), Fine), Cause::Obstacle(Obstacle::RecipientNotFound));
        let alice: Did = "did:key:alice".parse().unwrap();
        let fold = |unfrozen| Step::Fold { account: Account::shard(&alice, 2), delta: Delta(-1), folds: 0, unfrozen };
        assert_eq!(cause_of(&[fold(true)], &[Condition(Some(OPEN))]), Cause::TooPoor);
        assert_eq!(cause_of(&[fold(true)], &[Condition(None)]), Cause::TooPoor);
        assert_eq!(cause_of(&[fold(true)], &[Condition(Some(FROZEN))]), Cause::Obstacle(Obstacle::SenderFrozen));
        assert_eq!(cause_of(&[fold(false)], &[Condition(Some(FROZEN))]), Cause::TooPoor);
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
