//! Finds lines that name the same account or key, with a few bytes per line.

use sha2::{Digest as _, Sha256};

use super::line::Line;
use crate::amount::Delta;

/// The most lines of a file. Of so many, 200 MB are kept ([`Seen`]), in a vector that may take twice as much while it grows.
pub(super) const MAX_LINES: usize = 5_000_000;

/// What is kept of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    /// Digest of whose line it is: an account, or a sender's key.
    subject: [u8; 16],
    number: u64,
    /// Digest of what it says.
    content: u64,
    /// The balance of an account.
    units: u64,
}

/// All lines of a file.
#[derive(Debug, Default)]
pub(super) struct Index {
    accounts: Vec<Seen>,
    used: Vec<Seen>,
}

/// What the lines come to. A line that repeats another one is not counted.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) accounts: u64,
    pub(super) balances: Delta,
    pub(super) used: u64,
    /// Lines that repeat an earlier one word for word, in order.
    pub(super) repeated: Vec<u64>,
    /// Lines that contradict an earlier one, and that one.
    pub(super) contradictions: Vec<(u64, u64)>,
}

impl Index {
    pub(super) fn lines(&self) -> usize {
        self.accounts.len() + self.used.len()
    }

    pub(super) fn add(&mut self, number: u64, line: &Line) {
        match line {
            Line::Account(opening) => {
                let units = opening.balance.units();
                let seen = Seen { subject: digest(&[opening.did.as_str()]), number, content: units, units };
                self.accounts.push(seen);
            }
            Line::Used(used) => {
                let (amount, time) = (used.amount.to_string(), used.created_at.to_string());
                let content = digest::<8>(&[used.recipient.as_str(), &amount, &used.transaction_id, &time]);
                let subject = digest(&[used.sender.as_str(), used.key.as_str()]);
                self.used.push(Seen { subject, number, content: u64::from_be_bytes(content), units: 0 });
            }
        }
    }

    pub(super) fn totals(mut self) -> Totals {
        let mut totals = Totals::default();
        let accounts = distinct(&mut self.accounts, &mut totals);
        totals.accounts = accounts.0;
        totals.balances = Delta(accounts.1);
        totals.used = distinct(&mut self.used, &mut totals).0;
        totals.repeated.sort_unstable();
        totals.contradictions.sort_unstable();
        totals
    }
}

/// How many different subjects there are, and what they hold. Every other line is noted.
fn distinct(seen: &mut [Seen], totals: &mut Totals) -> (u64, i128) {
    seen.sort_unstable();
    let (mut count, mut sum) = (0, 0);
    let mut first: Option<&Seen> = None;
    for line in seen.iter() {
        match first {
            Some(first) if first.subject == line.subject && first.content == line.content => {
                totals.repeated.push(line.number);
            }
            Some(first) if first.subject == line.subject => totals.contradictions.push((line.number, first.number)),
            _ => {
                (count, sum) = (count + 1, sum + i128::from(line.units));
                first = Some(line);
            }
        }
    }
    (count, sum)
}

/// A digest of a list of texts. None of them contains the separator.
fn digest<const N: usize>(texts: &[&str]) -> [u8; N] {
    let digest = Sha256::digest(texts.join("\n"));
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Opening;

    fn account(did: &str, balance: &str) -> Line {
        Line::Account(Opening { did: did.parse().unwrap(), balance: balance.parse().unwrap() })
    }

    #[test]
    fn a_line_that_repeats_another_counts_once_and_one_that_contradicts_it_is_named() {
        let mut index = Index::default();
        let lines =
            [("did:key:a", "1"), ("did:key:b", "2"), ("did:key:a", "1"), ("did:key:a", "3"), ("did:key:b", "2.0")];
        for (at, (did, balance)) in lines.iter().enumerate() {
            index.add(at as u64 + 2, &account(did, balance));
        }
        let totals = index.totals();
        assert_eq!((totals.accounts, totals.balances.to_string().as_str()), (2, "3"));
        assert_eq!((totals.repeated, totals.contradictions), (vec![4, 6], vec![(5, 2)]));
    }

    #[test]
    fn a_line_costs_forty_bytes() {
        assert_eq!(size_of::<Seen>() * MAX_LINES, 200_000_000);
    }
}
