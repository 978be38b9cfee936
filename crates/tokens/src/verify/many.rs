//! A table with as many accounts as one likes, which are made up when they are read and kept by nobody: what is in memory is
//! the verification's. `ACCOUNTS=1000000` tries a million, and prints the most memory that the process has used.

use std::io::Write as _;

use super::source::{Page, Source};
use super::*;
use crate::amount::{Amount, Delta};
use crate::identity::did::Did;
use crate::ledger::{Account, Entry, History, Kind, Postings, TransactionId};
use crate::table::{Item, Name, account_of, sample};

/// Accounts per page. DynamoDB's pages have 1 MB, which is about as much.
const PAGE: u64 = 1_000;

/// How much is kept between two pages, as JSON.
const MOST_KEPT: usize = 1_000;

struct MadeUp {
    accounts: u64,
}

impl MadeUp {
    fn did(number: u64) -> Did {
        format!("did:key:{number:09}").parse().unwrap()
    }

    fn number(did: &Did) -> u64 {
        did.as_str().rsplit(':').next().unwrap().parse().unwrap()
    }

    fn account(number: u64) -> Item {
        sample::balance(&Account::Of(Self::did(number)), i128::from(number + 1), 1, 0)
    }

    fn entry(number: u64) -> Item {
        let mut random = [0; 10];
        random[2..].copy_from_slice(&number.to_be_bytes());
        let (did, amount) = (Self::did(number), Amount::from_units(number + 1));
        sample::entry(&Entry {
            id: TransactionId::new(ichido::Timestamp::from_millis(1_700_000_000_000 + number), random),
            kind: Kind::Grant,
            sender: None,
            recipient: did.clone(),
            amount,
            fee: Amount::ZERO,
            message: "opening balance".into(),
            reverses: None,
            postings: Postings::from([(Account::Of(did), Delta::credit(amount))]),
        })
    }
}

impl Source for MadeUp {
    async fn scan(&self, start: Option<Name>) -> Result<Page, Error> {
        let first = start.map_or(0, |name| match account_of(&name) {
            Some(Account::Of(did)) => Self::number(&did) + 1,
            _ => 0,
        });
        let after = (first + PAGE).min(self.accounts);
        let items = (first..after).flat_map(|number| [Self::entry(number), Self::account(number)]).collect();
        let next = (after < self.accounts).then(|| Name::of(&Self::account(after - 1)).key());
        Ok((items, next))
    }

    async fn get(&self, names: &[Name]) -> Result<Vec<Item>, Error> {
        let accounts = names.iter().filter_map(account_of).filter_map(|account| match account {
            Account::Of(did) => Some(Self::account(Self::number(&did))),
            Account::Shard(..) | Account::Treasury(_) => None,
        });
        Ok(accounts.collect())
    }

    async fn history(&self, history: History, did: &Did, _: Option<Item>) -> Result<Page, Error> {
        let entries = match history {
            History::Sent => Vec::new(),
            History::Received => vec![Self::entry(Self::number(did))],
        };
        Ok((entries, None))
    }
}

#[tokio::test]
async fn a_verification_keeps_as_much_for_many_accounts_as_for_a_few() {
    let accounts = std::env::var("ACCOUNTS").ok().and_then(|number| number.parse().ok());
    let (accounts, told) = (accounts.unwrap_or(10_000), accounts.is_some());
    let mut pages = 0;
    let mut watch = |progress: &Progress| {
        pages += 1;
        let kept = serde_json::to_string(progress).unwrap();
        assert!(kept.len() <= MOST_KEPT, "after {pages} pages: {kept}");
        Ok(())
    };
    let report = run(Progress::default(), &MadeUp { accounts }, &SystemClock, &mut watch).await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!((report.accounts, report.entries, pages), (accounts, accounts, accounts.div_ceil(PAGE)));
    assert_eq!(report.grants.0, i128::from(accounts) * i128::from(accounts + 1) / 2);
    if told {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("unknown");
        writeln!(std::io::stderr(), "{accounts} accounts, {pages} pages, most memory {most}").unwrap();
    }
}
