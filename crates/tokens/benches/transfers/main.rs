//! Transfers per second and latency of the ledger and of a simpler design ([`first_design`]), in the same harness.
//!
//! The store is the embedded engine with the delays and the conflicts of AWS ([`aws`]). Each client sends one transfer after
//! another. Three questions: what a transfer costs in calls and time if transfers do not meet, what happens if all pay one
//! recipient, beside the former, and how much CPU the handler itself takes.

mod aws;
mod first_design;

use std::io::{Write, stdout};
use std::sync::Arc;
use std::time::{Duration, Instant};

use emulator::dynamodb::http_client;
use emulator::issuer::Issuer;
use function::Secret;
use function::secret::Source;
use futures::future::join_all;
use ichido::{Clock, SystemClock};
use testkit::Outside;
use testkit::faults::Faulty;
use testkit::usage::cpu;
use tokens::amount::MAX;
use tokens::function::api::Api;
use tokens::identity::did::Did;
use tokens::identity::jwt::Expectations;
use tokens::identity::keys::Keys;
use tokens::ledger::{BUDGET, Error, Ledger, Transfer, system_random};
use tokens::settings::Rules;

use aws::{Aws, Instant as Nothing};
use first_design::FirstDesign;

/// How long each case runs, unless `--seconds` says otherwise.
const SECONDS: u64 = 4;
const SENDERS: [usize; 3] = [1, 10, 100];
const HANDLER_CALLS: u32 = 2_000;

#[derive(Clone, Copy)]
enum Shape {
    Disjoint,
    OneRecipient,
}

/// Who moves the money.
#[derive(Clone)]
enum Service {
    Ours(Ledger),
    First(FirstDesign),
}

impl Service {
    async fn transfer(&self, transfer: &Transfer) -> Ended {
        match self {
            Service::Ours(ledger) => match ledger.transfer(transfer, SystemClock.now() + BUDGET).await {
                Ok(_) => Ended::Made,
                Err(Error::Unresolved) => Ended::GaveUp,
                Err(error) => panic!("{error:?}"),
            },
            Service::First(first) => {
                if first.transfer(transfer).await {
                    Ended::Made
                } else {
                    Ended::GaveUp
                }
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Ended {
    Made,
    GaveUp,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test` runs benches too, to see whether they compile and start.
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let seconds = arguments.iter().position(|argument| argument == "--seconds");
    let seconds = seconds.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(SECONDS);
    say(format_args!(
        "store: embedded, {} ms per read, {} ms per write, {} ms per transaction; conflicts as on AWS\n",
        aws::READ.as_millis(),
        aws::WRITE.as_millis(),
        aws::TRANSACTION.as_millis()
    ));
    say(format_args!(
        "{:<14}{:>8}  {:<14}{:>10}{:>10}{:>10}{:>12}{:>11}{:>9}",
        "shape", "senders", "design", "made/s", "p50 ms", "p99 ms", "calls each", "conflicts", "gave up"
    ));
    let mut beside = Vec::new();
    for shape in [Shape::Disjoint, Shape::OneRecipient] {
        for senders in SENDERS {
            for ours in [true, false] {
                let measured = case(shape, senders, ours, Duration::from_secs(seconds)).await;
                if ours {
                    beside.push(measured);
                }
            }
        }
    }
    say(format_args!("\none recipient beside disjoint accounts, both with one write"));
    say(format_args!("{:>8}{:>18}{:>18}{:>24}", "senders", "made/s", "p99 ms", "p99 / p50 of disjoint"));
    let (disjoint, hot) = beside.split_at(SENDERS.len());
    for ((senders, disjoint), hot) in SENDERS.iter().zip(disjoint).zip(hot) {
        let rates = format!("{:.0} / {:.0}", hot.rate, disjoint.rate);
        let slowest = format!("{:.1} / {:.1}", hot.p99, disjoint.p99);
        say(format_args!("{senders:>8}{rates:>18}{slowest:>18}{:>24.1}", hot.p99 / disjoint.p50));
    }
    handler_cpu().await;
}

/// Transfers per second, and milliseconds.
struct Measured {
    rate: f64,
    p50: f64,
    p99: f64,
}

async fn case(shape: Shape, senders: usize, ours: bool, time: Duration) -> Measured {
    let store = Aws::new();
    let client = store.client();
    let rules = Rules { daily_limit: MAX, transfer_limit: MAX, initial_grant: MAX, ..Rules::default() };
    let ledger = Ledger::new(store.quick_client(), aws::TABLE, rules.clone(), Arc::new(SystemClock), system_random());
    for n in 0..senders {
        for did in [sender(n), recipient(shape, n)] {
            ledger.open(&did, SystemClock.now() + BUDGET).await.expect("an account");
        }
    }
    let (service, name) = if ours {
        (Service::Ours(Ledger::new(client, aws::TABLE, rules, Arc::new(SystemClock), system_random())), "one write")
    } else {
        (Service::First(FirstDesign::new(client)), "first design")
    };
    store.reset();
    let began = Instant::now();
    let runs = join_all((0..senders).map(|n| {
        let service = service.clone();
        async move {
            let (mut latencies, mut gave_up) = (Vec::new(), 0_u64);
            for k in 0.. {
                if began.elapsed() >= time {
                    break;
                }
                let transfer = Transfer {
                    sender: sender(n),
                    recipient: recipient(shape, n),
                    amount: "1".parse().expect("an amount"),
                    message: String::new(),
                    key: format!("{n}-{k}").parse().expect("a key"),
                };
                let started = Instant::now();
                if service.transfer(&transfer).await == Ended::Made {
                    latencies.push(started.elapsed())
                } else {
                    gave_up += 1
                }
            }
            (latencies, gave_up)
        }
    }))
    .await;
    let took = began.elapsed().as_secs_f64();
    let gave_up: u64 = runs.iter().map(|(_, gave_up)| gave_up).sum();
    let mut latencies: Vec<Duration> = runs.into_iter().flat_map(|(latencies, _)| latencies).collect();
    latencies.sort_unstable();
    let at =
        |share: f64| latencies.get((latencies.len() as f64 * share) as usize).map_or(0.0, |d| d.as_secs_f64() * 1e3);
    let made = latencies.len().max(1) as f64;
    let (calls, conflicts) = store.counts();
    say(format_args!(
        "{:<14}{senders:>8}  {name:<14}{:>10.0}{:>10.1}{:>10.1}{:>12.2}{conflicts:>11}{gave_up:>9}",
        match shape {
            Shape::Disjoint => "disjoint",
            Shape::OneRecipient => "one recipient",
        },
        latencies.len() as f64 / took,
        at(0.5),
        at(0.99),
        calls as f64 / made,
    ));
    Measured { rate: latencies.len() as f64 / took, p50: at(0.5), p99: at(0.99) }
}

fn sender(n: usize) -> Did {
    format!("did:key:sender{n}").parse().expect("a DID")
}

fn recipient(shape: Shape, n: usize) -> Did {
    let n = match shape {
        Shape::Disjoint => n,
        Shape::OneRecipient => 0,
    };
    format!("did:key:recipient{n}").parse().expect("a DID")
}

/// CPU of a whole request, from the event to the answer, over a store that answers at once and does nothing.
async fn handler_cpu() {
    let faulty = Faulty::new(Nothing, SystemClock, 0);
    let client = aws::client_over(http_client(faulty, Outside::new()));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ledger = Ledger::new(client, aws::TABLE, Rules::default(), Arc::clone(&clock), system_random());
    let issuer = Issuer::new("https://issuer.example", "tokens", "bench").expect("a key");
    let keys = Keys::new(Source::Fixed(Secret::new(issuer.jwks().to_string())));
    let expectations = Expectations { issuer: "https://issuer.example".into(), audience: "tokens".into() };
    let api = Api::new(ledger, expectations, keys, clock);
    let token = issuer.token(sender(0), SystemClock.now() + Duration::from_secs(3600)).expect("a token");
    let mut request =
        function::http::Request { method: "POST".into(), path: "/tokens/transfer".into(), ..Default::default() };
    request.headers.insert("authorization".into(), format!("Bearer {token}"));
    request.body = br#"{"recipientDid":"did:key:bob","amount":"1.5","message":"for lunch"}"#.to_vec();
    for _ in 0..100 {
        assert_eq!(api.handle(&request, None).await.status, 200);
    }
    let before = cpu();
    for _ in 0..HANDLER_CALLS {
        let event = request.to_event();
        let request = function::http::Request::from_event(&event).expect("a request");
        let _ = api.handle(&request, None).await.into_value();
    }
    let each = (cpu() - before).as_secs_f64() * 1e6 / f64::from(HANDLER_CALLS);
    say(format_args!(
        "\nhandler: {each:.0} µs CPU per transfer (token, plan, request signing and writing, answer; the store takes none)"
    ));
}

fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(stdout(), "{text}");
}
