//! Many clients, few accounts, and everything that can go wrong: 20,000 transfers here, a million in the long run. One account is paid
//! so often that it has shards; it pays, too, and is frozen now and then.
//!
//! A world is 2,500 transfers on a ledger of its own. Its seed decides everything in it. `TRANSFERS=1000000` is the long
//! run, with seeds 1 to 400. `SEED=n` replays one world exactly. At the end of each world the table itself is checked: the
//! sum of all balances is that of the grants, and no balance is negative (`verify`); every acknowledged transfer is there
//! exactly once; no refused one is there; no key has two transfers.

#![expect(clippy::print_stdout, reason = "a long run shows how far it is")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use support::*;
use testkit::faults::{Fault, Rule};
use tokens::amount::Amount;
use tokens::ledger::{Error, Ledger, Transfer};
use tokens::settings::Rules;

const NAMES: [&str; 6] = ["alice", "bob", "carol", "dave", "erin", "frank"];
/// Who is paid by everybody.
const HOT: usize = 0;
const CLIENTS: u64 = 8;
/// How many transfers a world has. At each transaction the embedded engine looks at every client token of the last ten
/// minutes, so more worlds are quicker than larger ones, and try more.
const WORLD: u64 = 2_500;
/// The worlds are divided among this many tests, which run side by side.
const PARTS: u64 = 4;
/// The longest time that a write is on its way. It is longer than the ledger waits for an answer.
const STRAGGLER: Duration = Duration::from_secs(10);
/// How often a client sends the same transfer before it gives up.
const PATIENCE: usize = 12;

/// What a client knows of one key in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// It was told that this transaction was made.
    Acknowledged(String),
    Refused,
    /// It gave up without an answer.
    Unknown,
}

#[derive(Debug, Default)]
struct Tally {
    made: u64,
    replayed: u64,
    refused: u64,
    unknown: u64,
    crashed: u64,
}

/// Ends after a number of polls, which may be between any two steps of its work.
struct Mortal<F> {
    life: F,
    polls: u32,
}

impl<F: Future + Unpin> Future for Mortal<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        let polled = Pin::new(&mut self.life).poll(context).map(Some);
        if polled.is_pending() && self.polls == 0 {
            return Poll::Ready(None);
        }
        polled
    }
}

struct Client {
    ledger: Ledger,
    random: fastrand::Rng,
    known: Vec<(String, Known)>,
    tally: Tally,
}

impl Client {
    async fn live(mut self, number: u64, transfers: u64, world: Arc<World>) -> Self {
        let treasury = world.ledger.rules().treasury.to_string();
        for n in 0..transfers {
            let from = self.random.usize(..NAMES.len());
            let hot = from != HOT && self.random.bool();
            let to = if hot { HOT } else { (from + 1 + self.random.usize(..NAMES.len() - 1)) % NAMES.len() };
            let key = format!("{number}-{n}");
            // The treasury gives back what fees have taken. Otherwise nobody would have anything left to send.
            let from = if self.random.u8(..16) == 0 { treasury.as_str() } else { NAMES[from] };
            let mut request = transfer(from, NAMES[to], "1", &key);
            request.amount = Amount::from_units(self.random.u64(1..40_000_000_000));
            // At the end, the message finds the entry of a key.
            request.message.clone_from(&key);
            let known = self.pursue(&request, &world).await;
            self.known.push((key, known));
            if self.random.u16(..200) == 0 {
                self.freeze_for_a_moment(&world).await;
            }
        }
        self
    }

    /// Freezes the hot account, and unfreezes it. Either may have no effect.
    async fn freeze_for_a_moment(&mut self, world: &World) {
        for frozen in [true, false] {
            match self.ledger.set_frozen(&did(NAMES[HOT]), frozen, "simulation").await {
                Ok(_) | Err(Error::Unresolved) => {}
                Err(other) => panic!("{other:?}"),
            }
            world.clock.wait(Duration::from_millis(self.random.u64(1..30))).await;
        }
    }

    async fn pursue(&mut self, request: &Transfer, world: &World) -> Known {
        let mut body: Option<String> = None;
        for _ in 0..PATIENCE {
            // One in six dies somewhere on the way, which may be after the commit.
            let polls = if self.random.u8(..6) == 0 { self.random.u32(1..6) } else { u32::MAX };
            let until = world.until();
            let life = pin!(self.ledger.transfer(request, until));
            match (Mortal { life, polls }).await {
                None => self.tally.crashed += 1,
                Some(Ok(answer)) => {
                    if answer.replayed {
                        self.tally.replayed += 1
                    } else {
                        self.tally.made += 1
                    }
                    if let Some(first) = &body {
                        assert_eq!(*first, answer.body, "two answers to one key");
                    }
                    body = Some(answer.body);
                    // Some clients ask again.
                    if self.random.u8(..8) != 0 {
                        break;
                    }
                }
                Some(Err(Error::Refused(_))) => {
                    assert_eq!(body, None, "refused after it was acknowledged");
                    self.tally.refused += 1;
                    // The balance may be higher later, so some try the same key again.
                    if self.random.u8(..4) != 0 {
                        return Known::Refused;
                    }
                    world.clock.wait(Duration::from_millis(self.random.u64(1..100))).await;
                }
                Some(Err(Error::Unresolved)) => {}
                Some(Err(other)) => panic!("{other:?}"),
            }
        }
        match body {
            Some(body) => Known::Acknowledged(id(&body)),
            None => {
                self.tally.unknown += 1;
                Known::Unknown
            }
        }
    }
}

fn id(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["transactionId"].as_str().unwrap().to_owned()
}

async fn simulate(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let rules = Rules { tax_rate: "0.01".parse().unwrap(), daily_limit: tokens::amount::MAX, ..Rules::default() };
    let world = Arc::new(World::new(rules.clone(), seed).await);
    world.open(&NAMES).await;
    let faults = world.db.faults();
    for (fault, rate) in [
        // Others are paying it, too.
        (Fault::ConflictOn("ACCOUNT#did:key:alice"), 0.1),
        (Fault::LoseAnswer, 0.04),
        (Fault::Conflict, 0.04),
        (Fault::Throttle, 0.02),
        (Fault::Error, 0.01),
        (Fault::Down, 0.01),
        (Fault::Slow(Duration::from_millis(7)), 0.05),
        (Fault::Late(Duration::from_millis(11)), 0.05),
        // Longer than an attempt may take: it is done, but nobody waits for the answer any more.
        (Fault::Late(Duration::from_secs(3)), 0.01),
        // on its way while its request and later ones are answered
        (Fault::Straggle(Duration::from_millis(40)), 0.03),
        (Fault::Straggle(STRAGGLER), 0.01),
    ] {
        faults.put(Rule::new(fault).rate(rate));
    }
    // One task per client, so that a client that sleeps does not make the others poll.
    let mut running = Vec::new();
    for number in 0..CLIENTS {
        let ledger = world.instance(rules.clone(), random.u64(..));
        let random = fastrand::Rng::with_seed(random.u64(..));
        let client = Client { ledger, random, known: Vec::new(), tally: Tally::default() };
        running.push(tokio::spawn(client.live(number, WORLD / CLIENTS, Arc::clone(&world))));
    }
    let mut clients = Vec::new();
    for client in running {
        clients.push(client.await.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    faults.heal();
    world.clock.wait(STRAGGLER * 2).await;

    let report = world.verify().await;
    assert!(report.is_clean(), "seed {seed}: {report:#?}");
    assert_eq!(report.balances.to_string(), "6000", "seed {seed}");

    let shards = world.items("ACCOUNT#did:key:alice");
    let number = |item: &serde_json::Value, name: &str| item[name]["N"].as_str().unwrap_or("0").parse::<u64>().unwrap();
    let paid = shards.iter().filter(|shard| number(shard, "entries") > 1).count();
    let folds = shards.iter().map(|shard| number(shard, "folds")).min().unwrap();
    assert!(shards.len() == 48 && paid > 10 && folds > 3, "seed {seed}: {paid} were paid, {folds} folds");

    let mut entries: HashMap<String, Vec<String>> = HashMap::new();
    for item in world.items("SENT#") {
        let text = |name: &str| item[name]["S"].as_str().unwrap().to_owned();
        entries.entry(text("message")).or_default().push(text("transactionId"));
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for client in &clients {
        for (key, known) in &client.known {
            let there = entries.get(key).map(Vec::as_slice).unwrap_or_default();
            let ok = match known {
                Known::Acknowledged(id) => there == [id.clone()],
                Known::Refused => there.is_empty(),
                Known::Unknown => there.len() <= 1,
            };
            assert!(ok, "seed {seed}, key {key}: {known:?}, but there is {there:?}");
        }
        let Tally { made, replayed, refused, unknown, crashed } = client.tally;
        for (name, count) in
            [("made", made), ("replayed", replayed), ("refused", refused), ("unknown", unknown), ("crashed", crashed)]
        {
            *counts.entry(name).or_default() += count;
        }
    }
    // A simulation in which nothing goes wrong proves nothing.
    let enough = WORLD / 50;
    for name in ["made", "replayed", "refused", "crashed"] {
        assert!(counts[name] >= enough, "seed {seed}: {counts:?}");
    }
    println!("seed {seed}: {counts:?}, {folds} folds of the hot account");
}

/// The worlds of one part: every fourth seed, or `SEED` alone if it is this part's.
async fn part(part: u64) {
    let worlds = number("TRANSFERS", 20_000).div_ceil(WORLD);
    let seeds = match number("SEED", 0) {
        0 => 1..=worlds,
        seed => seed..=seed,
    };
    for seed in seeds.filter(|seed| seed % PARTS == part) {
        simulate(seed).await;
    }
}

macro_rules! parts {
    ($($name:ident: $part:expr),*) => {$(
        #[tokio::test]
        async fn $name() {
            part($part).await;
        }
    )*};
}

parts! {
    money_is_conserved_through_every_fault_part_0: 0,
    money_is_conserved_through_every_fault_part_1: 1,
    money_is_conserved_through_every_fault_part_2: 2,
    money_is_conserved_through_every_fault_part_3: 3
}
