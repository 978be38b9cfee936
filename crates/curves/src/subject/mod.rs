//! The subjects, one module each, all of one shape: `measure` prepares each size, measures every operation there, and returns
//! one curve per operation.

mod accounts;
mod domain;
mod entries;
mod feeds;
mod groups;
mod history;
mod keys;
mod lines;
mod members;
pub(crate) mod memory;
mod resolvers;
mod subscribers;

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

use crate::Result;
use crate::curve::{Curve, Expected, Point};
use crate::prices::Prices;

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Keys in the library's table
    Keys,
    /// Keys in the library's local memory
    Memory,
    /// Accounts of the ledger
    Accounts,
    /// Entries of one account's history
    History,
    /// Feeds of the list
    Feeds,
    /// Entries of one feed
    Entries,
    /// Groups of the mesh
    Groups,
    /// Groups in one domain of the mesh
    Domain,
    /// Members of one group of the mesh
    Members,
    /// Lines of session logs
    Lines,
    /// Resolvers of the local AppSync
    Resolvers,
    /// Subscribers of the local AppSync
    Subscribers,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("a subject", |value| value.get_name()))
    }
}

impl Subject {
    pub(crate) async fn measure(self, sizes: Sizes, prices: &Prices) -> Result<Vec<Curve>> {
        match self {
            Self::Keys => keys::measure(sizes, prices).await,
            Self::Memory => memory::measure(sizes),
            Self::Accounts => accounts::measure(sizes, prices).await,
            Self::History => history::measure(sizes, prices).await,
            Self::Feeds => feeds::measure(sizes, prices).await,
            Self::Entries => entries::measure(sizes, prices).await,
            Self::Groups => groups::measure(sizes, prices).await,
            Self::Domain => domain::measure(sizes, prices).await,
            Self::Members => members::measure(sizes, prices).await,
            Self::Lines => lines::measure(sizes, prices),
            Self::Resolvers => resolvers::measure(sizes, prices).await,
            Self::Subscribers => subscribers::measure(sizes, prices).await,
        }
    }
}

/// Too small to say anything, and quick.
const TINY: [u64; 4] = [2, 4, 8, 16];

/// How large the sizes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sizes {
    Tiny,
    Small,
    Full,
}

impl Sizes {
    fn of<T>(self, tiny: T, small: T, full: T) -> T {
        match self {
            Self::Tiny => tiny,
            Self::Small => small,
            Self::Full => full,
        }
    }

    /// Whether slopes say anything at these sizes.
    pub(crate) fn can_be_judged(self) -> bool {
        self != Self::Tiny
    }

    /// Four sizes up to this one, a decade apart.
    fn decades(self, small: u64, full: u64) -> [u64; 4] {
        let decades = |largest: u64| [largest / 1_000, largest / 100, largest / 10, largest];
        self.of(TINY, decades(small), decades(full))
    }
}

/// An operation of a subject, whose points are added size by size.
fn curve(
    subject: &'static str,
    operation: &'static str,
    of: &'static str,
    unit: &'static str,
    expected: Expected,
) -> Curve {
    Curve { subject, operation, of, unit, expected, points: Vec::<Point>::new() }
}
