//! A small model of the ledger, which the real one must equal.

use std::collections::HashMap;

use tokens::amount::{Amount, Rate};
use tokens::identity::did::Did;
use tokens::ledger::{Obstacle, Transfer};

#[derive(Debug, Default)]
pub struct Model {
    pub balances: HashMap<Did, u64>,
    pub frozen: HashMap<Did, bool>,
    pub fees: u64,
    pub rate: Rate,
    pub daily_limit: Option<Amount>,
    pub spent: HashMap<(Did, u64), u64>,
    pub records: HashMap<(Did, String), (u64, Transfer)>,
    pub made: Vec<Transfer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Made,
    Replayed,
    Mismatch(Vec<String>),
    Refused(Obstacle),
}

impl Model {
    /// What becomes of a transfer at `now` (milliseconds), with records that live for `window` milliseconds.
    pub fn transfer(&mut self, request: &Transfer, now: u64, window: u64) -> Expected {
        let key = (request.sender.clone(), request.key.to_string());
        if let Some((at, first)) = self.records.get(&key)
            && now < (at + window).div_ceil(1000) * 1000
        {
            let mut fields = Vec::new();
            if first.amount != request.amount {
                fields.push("amount".to_owned());
            }
            if first.message != request.message {
                fields.push("message".to_owned());
            }
            if first.recipient != request.recipient {
                fields.push("recipientDid".to_owned());
            }
            return if fields.is_empty() { Expected::Replayed } else { Expected::Mismatch(fields) };
        }
        let fee = self.rate.of(request.amount).units();
        let debit = request.amount.units() + fee;
        let day = now / (24 * 60 * 60 * 1000);
        let spent = self.spent.get(&(request.sender.clone(), day)).copied().unwrap_or(0);
        let frozen = |did: &Did| self.frozen.get(did).copied().unwrap_or(false);
        let refusal = match (self.balances.get(&request.sender), self.balances.get(&request.recipient)) {
            (None, _) => Some(Obstacle::SenderNotFound),
            _ if frozen(&request.sender) => Some(Obstacle::SenderFrozen),
            (_, None) => Some(Obstacle::RecipientNotFound),
            _ if frozen(&request.recipient) => Some(Obstacle::RecipientFrozen),
            (Some(balance), _) if *balance < debit => Some(Obstacle::InsufficientBalance),
            _ if self.daily_limit.is_some_and(|limit| spent + request.amount.units() > limit.units()) => {
                Some(Obstacle::LimitExceeded)
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Expected::Refused(refusal);
        }
        *self.balances.entry(request.sender.clone()).or_default() -= debit;
        *self.balances.entry(request.recipient.clone()).or_default() += request.amount.units();
        self.fees += fee;
        *self.spent.entry((request.sender.clone(), day)).or_default() += request.amount.units();
        self.records.insert(key, (now, request.clone()));
        self.made.push(request.clone());
        Expected::Made
    }
}
