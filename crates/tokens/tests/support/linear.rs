//! Finds an order of operations, each between its call and its return, that one account could have gone through.
//!
//! It is the search of Wing and Gong with Lowe's memory: take any operation that began before every other pending one
//! ended, and go on if the account allows it; go back if not. An operation whose answer was never known may be taken at
//! any later point, or never.

use std::collections::HashSet;

/// What an operation did to one account, or learnt about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// So much left it.
    Debited(u64),
    /// There was less than this.
    Refused(u64),
    /// So much came in.
    Credited(u64),
    /// It held exactly this.
    Read(u64),
}

/// One operation: when it was called, when it returned (`None`: its result was never known), and what it observed.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub called: u64,
    pub returned: Option<u64>,
    pub observed: Observed,
}

/// An order that explains the history, if there is one.
pub fn explain(start: u64, history: &[Operation]) -> Option<Vec<usize>> {
    let mut search = Search { history, tried: HashSet::new(), order: Vec::new() };
    let mut done = vec![false; history.len()];
    search.go(&mut done, start).then_some(search.order)
}

struct Search<'a> {
    history: &'a [Operation],
    /// Sets of operations already taken, and the balance they led to: a dead end is not walked twice.
    tried: HashSet<(Vec<bool>, u64)>,
    order: Vec<usize>,
}

impl Search<'_> {
    fn go(&mut self, done: &mut Vec<bool>, balance: u64) -> bool {
        let known = |(operation, done): (&Operation, &bool)| !*done && operation.returned.is_some();
        if !self.history.iter().zip(done.iter()).any(known) {
            return true;
        }
        if !self.tried.insert((done.clone(), balance)) {
            return false;
        }
        // Nothing may be taken that was called only after some other, not yet taken, had returned.
        let pending = self.history.iter().zip(done.iter()).filter(|(_, done)| !**done);
        let deadline = pending.filter_map(|(operation, _)| operation.returned).min().unwrap_or(u64::MAX);
        for (index, operation) in self.history.iter().enumerate() {
            if done[index] || operation.called > deadline {
                continue;
            }
            let after = match operation.observed {
                Observed::Debited(amount) => balance.checked_sub(amount),
                Observed::Refused(amount) => (balance < amount).then_some(balance),
                Observed::Credited(amount) => Some(balance + amount),
                Observed::Read(value) => (balance == value).then_some(balance),
            };
            let Some(after) = after else { continue };
            done[index] = true;
            self.order.push(index);
            if self.go(done, after) {
                return true;
            }
            self.order.pop();
            done[index] = false;
        }
        false
    }
}
