//! What one path works on: a subscriber per run, a notifier per invocation, and what must hold of what they did.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use feeds::delivery::message::{Request, Response};
use feeds::delivery::notify::{Memory, Notifier, Secrets};
use feeds::delivery::owed::Deliverer;
use feeds::delivery::text::Template;
use feeds::entry::Source;
use feeds::function::subscriber::Subscriber;
use feeds::list::FeedName;
use feeds::outside::destination;
use feeds::outside::fetch::{Fetcher, Policy};
use feeds::outside::invoke::{self, Invoke};
use feeds::outside::mastodon::{Mastodon, Visibility};
use feeds::outside::pushover::{Pushover, WhenUnsure};
use feeds::outside::sender::Sender;
use feeds::reading::Reader;
use feeds::reading::filter::{Filter, Pattern};
use feeds::reading::first_run::FirstRun;
use feeds::reading::pace::{DEFAULT_LONGEST, Pace};
use feeds::table::Table;
use function::{BoxFuture, Secret, secret};
use futures::channel::oneshot;
use ichido::observe::{Event, Observer};
use ichido::{Clock, Once, Owner};
use serde_json::Value;
use testkit::explore::{Group, Path};

use super::support::{FEED_HOST, id};
use super::wire::{TABLE, Wire};
use super::{AFTERWARDS, NOBODY, Run, Scenario, lane_of};

const PERIOD: Duration = Duration::from_secs(300);
/// How much time a run has, and an invocation of the notifier.
const RUN: Duration = Duration::from_secs(120);
const INVOCATION: Duration = Duration::from_secs(40);
/// The machines of notifiers have numbers from here on.
const NOTIFIERS: Group = 10;

/// Made once, because making a client reads the system's certificates.
static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| destination::client().unwrap());
static FETCHER: LazyLock<Fetcher> = LazyLock::new(|| {
    let policy = Policy::public().pin(FEED_HOST, std::net::Ipv4Addr::LOCALHOST.into());
    Fetcher::new(policy, Arc::new(testkit::ManualClock::new()), || 0.5).unwrap()
});

pub(super) struct World {
    pub(super) path: Path,
    pub(super) wire: Wire,
    scenario: Scenario,
    /// How often each run has invoked the notifier.
    invocations: [AtomicU32; AFTERWARDS + 1],
    /// One per run, because making one takes as long as several calls.
    clients: [OnceLock<Client>; AFTERWARDS + 1],
}

impl World {
    pub(super) fn new(path: &Path, scenario: &Scenario) -> Self {
        path.clock().set_ms(scenario.begins_ms);
        let wire = Wire::new(path, scenario);
        Self { path: path.clone(), wire, scenario: scenario.clone(), invocations: Default::default(), clients: Default::default() }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.path.clock().clone())
    }

    fn table(&self, run: Run) -> Table {
        Table::new(self.clients[run].get_or_init(|| self.wire.of(run).client()).clone(), TABLE)
    }

    fn sender(&self, run: Run) -> Sender {
        Sender::to_stand_in(CLIENT.clone(), Arc::new(self.wire.of(run)))
    }

    /// One run of the subscriber, as a new process would make it. Returns why it failed.
    pub(super) async fn run(self: Arc<Self>, run: Run) -> Option<String> {
        let until = self.path.clock().now() + RUN;
        let ended = self.subscriber(run).run(until).await;
        let lane = lane_of(run);
        self.path.note(lane, || match &ended {
            Ok(report) => format!("→ {} new, {} settled, {} owed", report.new, report.settled, report.owed),
            Err(error) => format!("→ {}", error.kind()),
        });
        ended.err().map(|error| error.to_string())
    }

    fn subscriber(self: &Arc<Self>, run: Run) -> Subscriber {
        let table = self.table(run);
        let feed = FeedName::listed("explored").unwrap();
        Subscriber {
            feed: feed.clone(),
            table: table.clone(),
            reader: Reader {
                feed,
                source: Source::Github,
                url: secret::Source::Fixed(Secret::new(format!("http://{FEED_HOST}/feed"))),
                table: table.clone(),
                fetcher: FETCHER.clone().with_sender(self.sender(run)),
                first_run: FirstRun::All,
                filter: Filter::default(),
            },
            deliverer: Deliverer {
                table,
                notifier: Arc::new(Invoked { world: Arc::clone(self), run }),
                feed: Value::Null,
                destinations: vec!["mastodon".to_owned()],
                give_up: self.scenario.give_up,
                parallel: 1,
                clock: self.clock(),
            },
            pace: Pace { adaptive: false, period: PERIOD, run_every: PERIOD, longest: DEFAULT_LONGEST },
            told_every: PERIOD,
            clock: self.clock(),
        }
    }

    fn notifier(self: &Arc<Self>, run: Run, invocation: u32) -> Notifier {
        let base: url::Url = "http://destination.test/".parse().unwrap();
        let secret = |text: &str| secret::Source::Fixed(Secret::new(text));
        let table = self.table(run);
        let claims = AtomicU32::new(0);
        let owners = move || {
            let claim = claims.fetch_add(1, Ordering::Relaxed);
            Owner::from(format!("owner-{run}-{invocation}-{claim}").as_str())
        };
        let once = Once::builder(table.claims()).clock(self.path.clock().clone()).owners(owners);
        let when_unsure = self.scenario.when_unsure;
        let pushover =
            Pushover::new(self.sender(run), base.clone(), secret("t"), secret("u"), when_unsure, self.clock());
        Notifier {
            source: Source::Github,
            once: once.observer(Watch { world: Arc::clone(self), run }).build(),
            table,
            mastodon: Some(Mastodon::new(self.sender(run), base, secret("t"), Visibility::Unlisted, self.clock())),
            pushover: self.scenario.pushover.then_some(pushover),
            slack: None,
            webhook: None,
            secrets: Secrets { policy: Policy::public(), named: None },
            pushover_title: Pattern::parse("PUSHOVER_TITLE", "").unwrap(),
            template: Template::parse("[GH] {title} {link}").unwrap(),
            shadow: false,
            clock: self.clock(),
            memory: Memory::default(),
        }
    }

    pub(super) fn fingerprint(&self, state: &mut dyn Hasher) {
        self.wire.fingerprint(state);
        for invocations in &self.invocations {
            state.write_u32(invocations.load(Ordering::Relaxed));
        }
    }

    /// Nobody has more than it may have.
    pub(super) fn nothing_is_repeated(&self) -> Result<(), String> {
        let outside = self.wire.outside();
        for n in &self.scenario.new {
            let posts = outside.posts_of(*n);
            if posts > 1 {
                return Err(format!("posted twice: Mastodon has entry {n} {posts} times"));
            }
            let key = format!("DELIVERY#pushover#{}", id(*n));
            let take_overs = match self.scenario.when_unsure {
                WhenUnsure::Repeat => outside.take_overs.get(&key).copied().unwrap_or(0),
                WhenUnsure::Never => 0,
            };
            let pushes = outside.pushes_of(*n);
            if pushes > 1 + take_overs {
                return Err(format!("pushed too often: entry {n} {pushes} times, with {take_overs} take-overs"));
            }
        }
        Ok(())
    }

    /// Is a delivery still to be made?
    pub(super) fn owes(&self) -> bool {
        self.wire.items().iter().any(|item| item["pending"]["S"] == "owed")
    }

    /// Every entry has been delivered to every destination, or is a dead letter.
    pub(super) fn nothing_has_vanished(&self) -> Result<(), String> {
        let items = self.wire.items();
        let outside = self.wire.outside();
        for n in &self.scenario.new {
            let Some(item) = items.iter().find(|item| item["entry_id"]["S"] == id(*n).as_str()) else {
                if outside.shown.contains(n) {
                    return Err(format!("vanished: the feed shows entry {n}, and the table does not have it"));
                }
                continue; // it left the feed before it was recorded
            };
            for destination in self.scenario.destinations() {
                let delivery = &item["deliveries"]["M"][*destination]["M"];
                let has = match *destination {
                    "mastodon" => outside.posts_of(*n) > 0,
                    _ => outside.pushes_of(*n) > 0,
                };
                match delivery["state"]["S"].as_str() {
                    Some("delivered") if !has => {
                        return Err(format!("told but not done: {destination} does not have entry {n}: {delivery}"));
                    }
                    Some("delivered" | "dead") => {}
                    _ => return Err(format!("vanished: entry {n} is not settled for {destination}: {item}")),
                }
            }
            let dead = item["deliveries"].to_string().contains("\"dead\"");
            if dead != (item["pending"]["S"] == "dead") {
                return Err(format!("vanished: a dead letter is not found as one: {item}"));
            }
        }
        Ok(())
    }
}

/// The notifier on a machine of its own. Who invoked it waits, and gets an error if it dies.
struct Invoked {
    world: Arc<World>,
    run: Run,
}

impl Invoke for Invoked {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, invoke::Error>> {
        let (world, run, request) = (Arc::clone(&self.world), self.run, request.clone());
        let invocation = world.invocations[run].fetch_add(1, Ordering::Relaxed);
        let group = if run == AFTERWARDS { NOBODY } else { NOTIFIERS * (run as Group + 1) + invocation };
        let (tell, told) = oneshot::channel();
        let path = world.path.clone();
        path.spawn(lane_of(run), group, async move {
            let deadline = world.path.clock().now() + INVOCATION;
            let _ = tell.send(world.notifier(run, invocation).notify(&request, deadline).await);
        });
        Box::pin(async move {
            let failed = |kind: &str, message| invoke::Error::Function { kind: kind.to_owned(), message };
            match told.await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(error)) => Err(failed("Event", error.to_string())),
                Err(_) => Err(failed("Unhandled", "it died".to_owned())),
            }
        })
    }
}

struct Watch {
    world: Arc<World>,
    run: Run,
}

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        if let Event::Doubted { key, .. } = event {
            self.world.path.note(lane_of(self.run), || format!("is in doubt about {key}"));
            *self.world.wire.outside().take_overs.entry(key.to_string()).or_default() += 1;
        }
    }
}
