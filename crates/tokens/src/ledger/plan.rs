//! A transfer, or a reversal, as data: the items of its one transaction, in order.
//!
//! Everything that could differ between two attempts (ids, times, shards) is decided before the first one,
//! so an attempt that is sent twice is the same attempt. Another plan of the same request, with other shards, has the same record,
//! so at most one of them is committed. The order of the steps is the order of the transaction's items,
//! and so the order of DynamoDB's reasons when it cancels the transaction ([`super::cancellation`]).

use std::collections::BTreeMap;

use ichido::Timestamp;

use super::entry::{Account, Entry, Kind, Postings, TransactionId};
use super::grant::Grant;
use super::transfer::Transfer;
use crate::amount::{Amount, Delta};
use crate::identity::did::Did;
use crate::settings::Rules;

/// One item of the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes the idempotency record, which must be absent or expired.
    Record,
    /// Takes from a balance, which must hold enough. If `unfrozen`, the account must not be frozen.
    Debit { account: Account, amount: Amount, unfrozen: bool },
    /// Adds to a balance. The account must exist (a shard of the treasury need not). If `unfrozen`, it must not be frozen.
    Credit { account: Account, amount: Amount, unfrozen: bool },
    /// Changes an account, or a shard of it, in a fold of them all, the one after `folds` others. What is taken must be in it. If
    /// `unfrozen`, the account must not be frozen.
    Fold { account: Account, delta: Delta, folds: u64, unfrozen: bool },
    /// Counts what the sender has sent on this UTC day, which must stay within the limit.
    Limit { sender: Did, at: Timestamp, amount: Amount, limit: Amount },
    /// Writes the ledger's entry.
    Entry,
}

/// The steps, and the entry that the last of them writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) entry: Entry,
}

/// Why there can be no plan, whatever the balances are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impossible {
    /// The amount is more than one transfer, or one day, may move.
    AboveLimit,
    /// Amount and fee together do not fit an amount.
    TooLarge,
    /// The treasury's shards together hold less than the amount.
    TreasuryTooPoor,
    /// The shards of the account that pays together hold less than the amount.
    TooPoor,
}

/// Balances of the treasury's shards, as last read. Needed only if the treasury pays.
pub(super) type Shards = Vec<(u8, Amount)>;

/// Which shards of the parties are changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Spread {
    pub(super) treasury: Shards,
    pub(super) payer: Payer,
    /// The shard to which a person is paid.
    pub(super) to: u8,
}

/// From where a person pays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Payer {
    /// From the account itself, which is all that most people have.
    #[default]
    Account,
    /// From its shards, which held this when they were read. They are folded: the account itself gets what all of them have, and
    /// pays. If `one`, a single shard that has enough pays, if there is one. The first of them is the account itself.
    Shards { balances: Vec<(u8, Delta)>, folds: u64, one: bool },
}

/// Plans a transfer.
///
/// The sender pays the amount and, beside it, the fee. The recipient gets the amount, the treasury the fee.
pub(super) fn transfer(
    request: &Transfer,
    fee: Amount,
    id: TransactionId,
    rules: &Rules,
    spread: &Spread,
) -> Result<Plan, Impossible> {
    if request.amount > rules.transfer_limit || request.amount > rules.daily_limit {
        return Err(Impossible::AboveLimit);
    }
    let debit = request.amount.checked_add(fee).ok_or(Impossible::TooLarge)?;
    let shard = Account::Treasury(shard_of(id, rules.treasury_shards));

    let Taken { mut postings, fold } = if request.sender == rules.treasury {
        Taken { postings: allocate(&spread.treasury, debit, id)?, fold: None }
    } else {
        take(&request.sender, debit, &spread.payer, id)?
    };
    let credited =
        if request.recipient == rules.treasury { shard.clone() } else { Account::shard(&request.recipient, spread.to) };
    *postings.entry(credited).or_default() += Delta::credit(request.amount);
    if !fee.is_zero() {
        *postings.entry(shard).or_default() += Delta::credit(fee);
    }

    let entry = Entry {
        id,
        kind: Kind::Transfer,
        sender: Some(request.sender.clone()),
        recipient: request.recipient.clone(),
        amount: request.amount,
        fee,
        message: request.message.clone(),
        reverses: None,
        postings,
    };
    let mut steps = steps(&entry, fold, true);
    if request.sender != rules.treasury {
        let limit = Step::Limit {
            sender: request.sender.clone(),
            at: id.created_at(),
            amount: request.amount,
            limit: rules.daily_limit,
        };
        steps.insert(steps.len() - 1, limit);
    }
    Ok(Plan { steps, entry })
}

/// Plans the reversal of a transfer: every balance gets back what the transfer took from it, and the sender also the fee.
/// Frozen accounts and limits do not matter. What the treasury gives back may come from any of its shards.
pub(super) fn reversal(
    original: &Entry,
    reason: &str,
    id: TransactionId,
    rules: &Rules,
    spread: &Spread,
) -> Result<Plan, Impossible> {
    let units = |delta: Delta| u64::try_from(delta.0.unsigned_abs()).map(Amount::from_units);
    let mut changes: BTreeMap<Option<&Did>, Delta> = BTreeMap::new();
    for (account, delta) in &original.postings {
        *changes.entry(account.owner()).or_default() += Delta(-delta.0);
    }
    let treasury = changes.remove(&None).unwrap_or_default();
    let mut postings = Postings::new();
    let mut fold = None;
    for (did, change) in changes.into_iter().filter_map(|(did, change)| Some((did?, change))) {
        if change.0 < 0 {
            let amount = units(change).map_err(|_| Impossible::TooLarge)?;
            let taken = take(did, amount, &spread.payer, id)?;
            postings.extend(taken.postings);
            fold = taken.fold;
        } else {
            postings.insert(Account::shard(did, spread.to), change);
        }
    }
    if treasury.0 < 0 {
        let amount = units(treasury).map_err(|_| Impossible::TooLarge)?;
        postings.extend(allocate(&spread.treasury, amount, id)?);
    } else if treasury.0 > 0 {
        postings.insert(Account::Treasury(shard_of(id, rules.treasury_shards)), treasury);
    }
    let entry = Entry {
        id,
        kind: Kind::Reversal,
        sender: Some(original.recipient.clone()),
        recipient: original.sender.clone().unwrap_or_else(|| original.recipient.clone()),
        amount: original.amount,
        fee: original.fee,
        message: reason.to_owned(),
        reverses: Some(original.id),
        postings,
    };
    Ok(Plan { steps: steps(&entry, fold, false), entry })
}

/// Plans a grant. Frozen accounts and limits do not matter.
pub(super) fn grant(grant: &Grant, id: TransactionId, spread: &Spread) -> Plan {
    let entry = Entry {
        id,
        kind: Kind::Grant,
        sender: None,
        recipient: grant.recipient.clone(),
        amount: grant.amount,
        fee: Amount::ZERO,
        message: grant.reason.clone(),
        reverses: None,
        postings: Postings::from([(Account::shard(&grant.recipient, spread.to), Delta::credit(grant.amount))]),
    };
    Plan { steps: steps(&entry, None, false), entry }
}

/// Whether the treasury has to pay for the reversal of this entry. If so, its shards have to be read first.
pub(super) fn treasury_pays(original: &Entry) -> bool {
    original
        .postings
        .iter()
        .filter(|(account, _)| matches!(account, Account::Treasury(_)))
        .map(|(_, delta)| delta.0)
        .sum::<i128>()
        > 0
}

/// The record is first. Debits come before credits, people's accounts before the treasury's. The entry is last.
fn steps(entry: &Entry, fold: Option<Fold>, unfrozen: bool) -> Vec<Step> {
    let amount = |delta: &Delta| Amount::from_units(u64::try_from(delta.0.unsigned_abs()).unwrap_or(u64::MAX));
    let Fold { accounts, folds } = fold.unwrap_or_default();
    let others = || entry.postings.iter().filter(|(account, _)| !accounts.contains(account));
    let debits = others().filter(|(_, delta)| delta.0 < 0);
    let credits = others().filter(|(_, delta)| delta.0 > 0);
    let fold = accounts.iter().map(|account| {
        let delta = entry.postings.get(account).copied().unwrap_or_default();
        Step::Fold { account: account.clone(), delta, folds, unfrozen }
    });
    std::iter::once(Step::Record)
        .chain(fold)
        .chain(debits.map(|(account, delta)| Step::Debit { account: account.clone(), amount: amount(delta), unfrozen }))
        .chain(credits.map(|(account, delta)| Step::Credit {
            account: account.clone(),
            amount: amount(delta),
            unfrozen,
        }))
        .chain(std::iter::once(Step::Entry))
        .collect()
}

/// What a payment takes.
struct Taken {
    postings: Postings,
    fold: Option<Fold>,
}

/// An account with all its shards, also the empty ones, and how often they were folded before. All are written, so that a reader who
/// sees the same number everywhere has seen either all of a fold or nothing of it.
#[derive(Default)]
struct Fold {
    accounts: Vec<Account>,
    folds: u64,
}

/// Takes from a person.
fn take(did: &Did, amount: Amount, payer: &Payer, id: TransactionId) -> Result<Taken, Impossible> {
    let debit = Delta::debit(amount);
    let only = |account| Taken { postings: Postings::from([(account, debit)]), fold: None };
    let Payer::Shards { balances, folds, one } = payer else { return Ok(only(Account::Of(did.clone()))) };
    let total: Delta = balances.iter().map(|(_, balance)| *balance).sum();
    if (total + debit).0 < 0 {
        return Err(Impossible::TooPoor);
    }
    let able: Vec<u8> =
        balances.iter().filter(|(_, balance)| (*balance + debit).0 >= 0).map(|(shard, _)| *shard).collect();
    if *one && !able.is_empty() {
        let chosen = usize::try_from(id.lot() % able.len() as u64).unwrap_or(0);
        return Ok(only(Account::shard(did, able[chosen])));
    }
    let mut postings = Postings::new();
    let mut account = debit;
    for (shard, balance) in balances.iter().filter(|(shard, balance)| *shard > 0 && balance.0 > 0) {
        postings.insert(Account::shard(did, *shard), Delta(-balance.0));
        account += *balance;
    }
    if account.0 != 0 {
        postings.insert(Account::Of(did.clone()), account);
    }
    let accounts = balances.iter().map(|(shard, _)| Account::shard(did, *shard)).collect();
    Ok(Taken { postings, fold: Some(Fold { accounts, folds: *folds }) })
}

/// The treasury is several items, because all transfers would conflict on a single one. The random part of the id chooses.
fn shard_of(id: TransactionId, shards: u8) -> u8 {
    u8::try_from(id.lot() % u64::from(shards.max(1))).unwrap_or(0)
}

/// From which shards the treasury pays. If some shard has enough, one of those pays, chosen at random so that payments do
/// not meet. Else several pay, the richest first.
fn allocate(shards: &Shards, amount: Amount, id: TransactionId) -> Result<Postings, Impossible> {
    let able: Vec<u8> = shards.iter().filter(|(_, balance)| *balance >= amount).map(|(shard, _)| *shard).collect();
    if !able.is_empty() {
        let chosen = usize::try_from(id.lot() % able.len() as u64).unwrap_or(0);
        return Ok(Postings::from([(Account::Treasury(able[chosen]), Delta::debit(amount))]));
    }
    let mut by_wealth = shards.clone();
    by_wealth.sort_by_key(|(shard, balance)| (std::cmp::Reverse(*balance), *shard));
    let mut left = amount;
    let mut postings = Postings::new();
    for (shard, balance) in by_wealth {
        let part = left.min(balance);
        if part.is_zero() {
            break;
        }
        postings.insert(Account::Treasury(shard), Delta::debit(part));
        left = left.checked_sub(part).unwrap_or_default();
    }
    if left.is_zero() { Ok(postings) } else { Err(Impossible::TreasuryTooPoor) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(rate: &str) -> Rules {
        Rules { tax_rate: rate.parse().unwrap(), ..Rules::default() }
    }

    fn did(name: &str) -> Did {
        format!("did:key:{name}").parse().unwrap()
    }

    fn request(amount: &str) -> Transfer {
        Transfer {
            sender: did("alice"),
            recipient: did("bob"),
            amount: amount.parse().unwrap(),
            message: "for lunch".into(),
            key: "k".parse().unwrap(),
        }
    }

    fn transfer(request: &Transfer, id: TransactionId, rules: &Rules, shards: &Shards) -> Result<Plan, Impossible> {
        let spread = Spread { treasury: shards.clone(), ..Spread::default() };
        super::transfer(request, request.fee(rules), id, rules, &spread)
    }

    fn id(lot: u8) -> TransactionId {
        TransactionId::new(Timestamp::from_millis(1_700_000_000_000), [lot; 10])
    }

    #[test]
    fn a_transfer_without_fee_is_five_steps_with_the_record_first_and_the_entry_last() {
        let plan = transfer(&request("100"), id(1), &rules("0"), &vec![]).unwrap();
        let amount = Amount::whole(100).unwrap();
        assert_eq!(
            plan.steps,
            [
                Step::Record,
                Step::Debit { account: Account::Of(did("alice")), amount, unfrozen: true },
                Step::Credit { account: Account::Of(did("bob")), amount, unfrozen: true },
                Step::Limit {
                    sender: did("alice"),
                    at: id(1).created_at(),
                    amount,
                    limit: Rules::default().daily_limit
                },
                Step::Entry,
            ]
        );
    }

    #[test]
    fn a_fee_is_paid_once_by_the_sender_on_top_of_the_amount() {
        let plan = transfer(&request("100"), id(1), &rules("0.025"), &vec![]).unwrap();
        let text: Vec<String> =
            plan.entry.postings.iter().map(|(account, delta)| format!("{account} {delta}")).collect();
        assert_eq!(text, ["did:key:alice -102.5", "did:key:bob 100", &format!("treasury#{} 2.5", shard_of(id(1), 8))]);
        assert_eq!(plan.entry.fee.to_string(), "2.5");
    }

    #[test]
    fn the_treasury_as_a_party_carries_no_fee_and_never_touches_an_item_twice() {
        let rules = rules("0.5");
        let to_treasury = Transfer { recipient: rules.treasury.clone(), ..request("10") };
        let plan = transfer(&to_treasury, id(9), &rules, &vec![]).unwrap();
        assert_eq!(plan.entry.postings.len(), 2);
        assert_eq!(plan.entry.fee, Amount::ZERO);

        let from_treasury = Transfer { sender: rules.treasury.clone(), ..request("10") };
        let poor = vec![(0, Amount::whole(4).unwrap()), (1, Amount::whole(5).unwrap())];
        assert_eq!(transfer(&from_treasury, id(9), &rules, &poor), Err(Impossible::TreasuryTooPoor));
        let spread =
            vec![(0, Amount::whole(4).unwrap()), (1, Amount::whole(5).unwrap()), (7, Amount::whole(3).unwrap())];
        let plan = transfer(&from_treasury, id(9), &rules, &spread).unwrap();
        let text: Vec<String> =
            plan.entry.postings.iter().map(|(account, delta)| format!("{account} {delta}")).collect();
        assert_eq!(text, ["did:key:bob 10", "treasury#0 -4", "treasury#1 -5", "treasury#7 -1"]);
    }

    #[test]
    fn limits_are_known_before_any_balance_is() {
        let rules = Rules { transfer_limit: Amount::whole(50).unwrap(), ..rules("0") };
        assert_eq!(transfer(&request("50.00000001"), id(1), &rules, &vec![]), Err(Impossible::AboveLimit));
        assert!(transfer(&request("50"), id(1), &rules, &vec![]).is_ok());
    }

    fn shards(balances: &[i128], one: bool) -> Spread {
        let balances = (0..).zip(balances.iter().map(|balance| Delta(*balance))).collect();
        Spread { payer: Payer::Shards { balances, folds: 4, one }, ..Spread::default() }
    }

    #[test]
    fn a_fold_writes_every_shard_and_leaves_the_rest_in_the_account() {
        let request = Transfer { amount: Amount::from_units(70), ..request("1") };
        let plan =
            super::transfer(&request, Amount::ZERO, id(1), &rules("0"), &shards(&[20, 30, 0, 40], false)).unwrap();
        let fold = |shard, delta| Step::Fold {
            account: Account::shard(&did("alice"), shard),
            delta: Delta(delta),
            folds: 4,
            unfrozen: true,
        };
        assert_eq!(plan.steps[1..5], [fold(0, 0), fold(1, -30), fold(2, 0), fold(3, -40)]);
        assert!(matches!(&plan.steps[5], Step::Credit { account, .. } if *account == Account::Of(did("bob"))));
        assert_eq!(plan.entry.postings.len(), 3, "what does not change is not posted");
        let plan = super::transfer(&request, Amount::ZERO, id(1), &rules("0"), &shards(&[20, 30, 0, 19], false));
        assert_eq!(plan.unwrap_err(), Impossible::TooPoor);
    }

    #[test]
    fn one_shard_pays_alone_only_if_it_is_asked_to_and_can() {
        let payer = |balances: &[i128], one: bool| {
            let request = Transfer { amount: Amount::from_units(35), ..request("1") };
            let spread = Spread { to: 7, ..shards(balances, one) };
            super::transfer(&request, Amount::ZERO, id(1), &rules("0"), &spread).unwrap().steps[1].clone()
        };
        let alone =
            Step::Debit { account: Account::shard(&did("alice"), 3), amount: Amount::from_units(35), unfrozen: true };
        assert_eq!(payer(&[20, 30, 0, 40], true), alone);
        assert!(matches!(payer(&[20, 30, 0, 40], false), Step::Fold { .. }));
        assert!(matches!(payer(&[20, 30, 0, 30], true), Step::Fold { .. }));
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn whatever_shards_pay_nothing_is_negative_and_everybody_gets_what_is_theirs(
                units in 1..=100_u64,
                balances in prop::collection::vec(0..60_i128, 1..5),
                one in any::<bool>(),
                to in 0..4_u8,
                lot in any::<u8>(),
            ) {
                let rules = rules("0.1");
                let request = Transfer { amount: Amount::from_units(units), ..request("1") };
                let fee = request.fee(&rules);
                let owed = i128::from(units + fee.units());
                let spread = Spread { to, ..shards(&balances, one) };
                let total: i128 = balances.iter().sum();
                match super::super::transfer(&request, fee, id(lot), &rules, &spread) {
                    Err(impossible) => prop_assert!(impossible == Impossible::TooPoor && total < owed),
                    Ok(plan) => {
                        prop_assert_eq!(plan.entry.created_money(), Delta(0));
                        prop_assert_eq!(plan.entry.change_of(&did("alice")), Delta(-owed));
                        prop_assert_eq!(plan.entry.change_of(&did("bob")), Delta(i128::from(units)));
                        for (shard, balance) in balances.iter().enumerate() {
                            let account = Account::shard(&did("alice"), u8::try_from(shard).unwrap());
                            let delta = plan.entry.postings.get(&account).copied().unwrap_or_default();
                            prop_assert!(balance + delta.0 >= 0);
                        }
                        // It is taken back from the account itself, whichever shard was paid.
                        let back = reversal(&plan.entry, "", id(lot), &rules, &Spread { treasury: vec![(0, fee)], ..Spread::default() }).unwrap();
                        prop_assert_eq!(back.entry.change_of(&did("alice")), Delta(owed));
                        prop_assert_eq!(back.entry.postings.get(&Account::Of(did("bob"))), Some(&Delta(-i128::from(units))));
                    }
                }
            }

            #[test]
            fn postings_sum_to_zero_and_a_reversal_undoes_them(
                units in 1..=1_000_000_000_000_u64,
                rate in 0..99_999_999_u64,
                party in 0..3_u8,
                shards in prop::collection::vec(0..1_000_000_000_000_u64, 8),
                lot in any::<u8>(),
            ) {
                let rules = rules(&Amount::from_units(rate).to_string());
                let mut request = Transfer { amount: Amount::from_units(units), ..request("1") };
                match party {
                    1 => request.sender = rules.treasury.clone(),
                    2 => request.recipient = rules.treasury.clone(),
                    _ => {}
                }
                let shards: Shards = (0..8).zip(shards.into_iter().map(Amount::from_units)).collect();
                let total: u64 = shards.iter().map(|(_, balance)| balance.units()).sum();
                match transfer(&request, id(lot), &rules, &shards) {
                    Err(Impossible::TreasuryTooPoor) => prop_assert!(party == 1 && total < units),
                    Err(_) => prop_assert!(units > rules.transfer_limit.units()),
                    Ok(plan) => {
                        prop_assert_eq!(plan.entry.created_money(), Delta(0));
                        prop_assert_eq!(&plan.steps[0], &Step::Record);
                        prop_assert_eq!(plan.steps.last(), Some(&Step::Entry));
                        // enough in the shards to give back what they got
                        let treasury: Shards = (0..8).map(|shard| (shard, Amount::from_units(units * 2))).collect();
                        let rich = Spread { treasury, ..Spread::default() };
                        let back = reversal(&plan.entry, "a mistake", id(lot.wrapping_add(1)), &rules, &rich).unwrap();
                        prop_assert_eq!(back.entry.created_money(), Delta(0));
                        let sum = |postings: &Postings, treasury: bool| -> i128 {
                            postings.iter().filter(|(a, _)| matches!(a, Account::Treasury(_)) == treasury).map(|(_, d)| d.0).sum()
                        };
                        prop_assert_eq!(sum(&plan.entry.postings, true), -sum(&back.entry.postings, true));
                        for (account, delta) in plan.entry.postings.iter().filter(|(a, _)| matches!(a, Account::Of(_))) {
                            prop_assert_eq!(back.entry.postings.get(account), Some(&Delta(-delta.0)));
                        }
                    }
                }
            }
        }
    }
}
