//! What a cancelled transaction means.
//!
//! The store names a reason for each item. Several can fail at once, so their precedence is part of the service's
//! promise, from first to last:
//!
//! 1. the idempotency record is there: a replay, or a mismatch; nothing else matters then (read by the library);
//! 2. a conflict, throttling or anything that is not a failed condition: nothing is known, the same attempt is sent again;
//! 3. the sender has no account · 4. the sender's is frozen · 5. the recipient has no account · 6. the recipient's is frozen ·
//! 7. not enough in the sender's balance · 8. the daily limit.
//!
//! 3 to 8 are refusals, and only of this attempt: before one is told to anybody, a fence makes sure that no other attempt
//! under the key has moved the money, or still can.

use crate::amount::Amount;
use crate::entry::Account;
use crate::plan::Step;

/// Why a transfer was not made, for good: as long as nothing changes, neither will the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    SenderNotFound,
    SenderFrozen,
    RecipientNotFound,
    RecipientFrozen,
    InsufficientBalance,
    LimitExceeded,
}

/// The store's reason for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing was wrong with this item.
    None,
    /// Its condition failed; the item as it was, if there was one.
    Condition(Option<Seen>),
    /// Another transaction, or write, had it.
    Conflict,
    /// Throttled, or something that this version does not know.
    Other,
}

/// What is looked at of an item whose condition failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub balance: Option<Amount>,
    pub frozen: bool,
}

/// What a cancellation says about the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The record's own condition failed: ask the record.
    Record,
    /// Nothing is known: the same attempt again.
    Again {
        conflict: bool,
    },
    /// A shard of the treasury had less than was last read: plan again with what the shards hold now.
    PlanAgain,
    Refused(Refusal),
}

/// Reads the reasons of a cancelled transaction in the order of precedence.
pub fn judge(steps: &[Step], reasons: &[Reason]) -> Verdict {
    let failed = |step: &Step, reason: &Reason| matches!((step, reason), (Step::Record, Reason::Condition(_)));
    if steps.iter().zip(reasons).any(|(step, reason)| failed(step, reason)) {
        return Verdict::Record;
    }
    let conflict = reasons.contains(&Reason::Conflict);
    if conflict || steps.len() != reasons.len() || reasons.contains(&Reason::Other) {
        return Verdict::Again { conflict };
    }
    let mut plan_again = false;
    let refusal = steps
        .iter()
        .zip(reasons)
        .filter_map(|(step, reason)| match reason {
            Reason::Condition(seen) => Some((step, seen)),
            _ => None,
        })
        .filter_map(|(step, seen)| match (step, seen) {
            (Step::Debit { account: Account::Treasury(_), .. }, _) => {
                plan_again = true;
                None
            }
            (Step::Debit { .. }, None) => Some(Refusal::SenderNotFound),
            (Step::Debit { unfrozen: true, .. }, Some(seen)) if seen.frozen => Some(Refusal::SenderFrozen),
            (Step::Debit { .. }, Some(_)) => Some(Refusal::InsufficientBalance),
            (Step::Credit { .. }, None) => Some(Refusal::RecipientNotFound),
            (Step::Credit { .. }, Some(_)) => Some(Refusal::RecipientFrozen),
            (Step::Limit { .. }, _) => Some(Refusal::LimitExceeded),
            (Step::Record | Step::Entry, _) => None,
        })
        .min();
    match refusal {
        Some(refusal) => Verdict::Refused(refusal),
        None if plan_again => Verdict::PlanAgain,
        None => Verdict::Again { conflict: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ichido::Timestamp;
    use proptest::prelude::*;

    const RICH: Seen = Seen { balance: Some(Amount::from_units(5)), frozen: false };
    const FROZEN: Seen = Seen { frozen: true, ..RICH };

    fn steps() -> Vec<Step> {
        let (alice, bob): (crate::did::Did, crate::did::Did) =
            ("did:key:alice".parse().unwrap(), "did:key:bob".parse().unwrap());
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
            Reason::Condition(Some(RICH)),
            Reason::Conflict,
            Reason::Condition(None),
            Reason::Other,
        ];
        assert_eq!(judge(&steps(), &reasons), Verdict::Record);
    }

    #[test]
    fn a_conflict_beside_a_failed_condition_refuses_nobody() {
        let reasons = [Reason::None, Reason::Condition(Some(RICH)), Reason::Conflict, Reason::None, Reason::None];
        assert_eq!(judge(&steps(), &reasons), Verdict::Again { conflict: true });
        let reasons = [Reason::None, Reason::Condition(Some(RICH)), Reason::Other, Reason::None, Reason::None];
        assert_eq!(judge(&steps(), &reasons), Verdict::Again { conflict: false });
        assert_eq!(judge(&steps(), &[]), Verdict::Again { conflict: false });
    }

    #[test]
    fn among_refusals_the_precedence_is_the_stated_one() {
        use Reason::{Condition, None as Fine};
        let limit = Condition(Some(Seen { balance: None, frozen: false }));
        for (debit, credit, limit, refusal) in [
            (Condition(None), Condition(None), limit.clone(), Refusal::SenderNotFound),
            (Condition(Some(FROZEN)), Condition(None), limit.clone(), Refusal::SenderFrozen),
            (Condition(Some(RICH)), Condition(None), limit.clone(), Refusal::RecipientNotFound),
            (Condition(Some(RICH)), Condition(Some(FROZEN)), limit.clone(), Refusal::RecipientFrozen),
            (Condition(Some(RICH)), Fine, limit.clone(), Refusal::InsufficientBalance),
            (Fine, Fine, limit, Refusal::LimitExceeded),
        ] {
            let reasons = [Fine, debit, credit, limit, Fine];
            assert_eq!(judge(&steps(), &reasons), Verdict::Refused(refusal));
        }
    }

    // `make fuzz` finds them by this name.
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
                if let Verdict::Refused(_) = judge(&steps(), &reasons) {
                    prop_assert!(!picks.iter().any(|pick| *pick >= 3) && reasons.len() == steps().len());
                    prop_assert!(!matches!(reasons[0], Reason::Condition(_)));
                }
            }
        }
    }
}
