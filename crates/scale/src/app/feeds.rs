//! Feeds: schedules start a subscriber per feed, all in the same second; each feed has something new for one destination.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use emulator::limits::aws;
use feeds::entry::Source;
use feeds::function::{listed, notifier};
use feeds::outside::destination;
use feeds::outside::sender::{Sender, StandIn};
use function::BoxFuture;
use ichido::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{App, Left, Outcome, Plan, Users};
use crate::clock::Simulated;
use crate::world::assumed;
use crate::world::lambda::ACCOUNT;
use crate::{Error, World};

pub const UNIT: &str = "feeds that are read in the same second";
pub const SUBSCRIBER: &str = "feeds-subscriber";
pub const NOTIFIER: &str = "feeds-notifier";
pub(super) const TEMPLATE: &str = include_str!("../../../../infra/templates/feeds.yaml");
/// Where the feeds are. Nothing is resolved or sent: a stand-in answers.
const FEED_HOST: &str = "feeds.example.com";
/// How many entries a feed has that were there before it was first read.
const OLD: usize = 2;
/// The time between two runs of a feed.
const PERIOD: Duration = Duration::from_secs(300);
/// Mastodon's documentation, Rate limits: 300 requests per account within five minutes.
const MASTODON_REQUESTS: u32 = 300;
const MASTODON_WINDOW: Duration = Duration::from_secs(300);
/// Mastodon's source, app/lib/rate_limiter.rb: an account makes 300 statuses in three hours. A status that is there already does not count.
const MASTODON_STATUSES: u32 = 300;
const MASTODON_STATUSES_WINDOW: Duration = Duration::from_secs(3 * 3_600);
/// Mastodon's documentation of `GET /api/v1/accounts/:id/statuses`: the most statuses of a page.
const MASTODON_PAGE: usize = 40;
/// Mastodon's documentation of `POST /api/v1/statuses`: idempotency keys are stored for up to one hour.
const MASTODON_KEYS: Duration = Duration::from_secs(3_600);
/// How long it may take until nothing is owed any more: runs after the last new entry.
const MORE_RUNS: u32 = 72;

/// Adds both functions.
fn install(world: &World, internet: &Arc<Internet>) -> Result<(), Error> {
    // Making a client reads the system's certificates, so it is made once.
    let client = destination::client().map_err(App::Feeds.failed("an HTTP client cannot be made"))?;
    let sender = Sender::to_stand_in(client, internet.clone());
    let env = world.environment(NOTIFIER)?;
    world.parameter(env.get("MASTODON_TOKEN_PARAMETER").unwrap_or_default(), "not-a-token");
    let (inside, to) = (world.clone(), sender.clone());
    world.function(SUBSCRIBER, |env| {
        Arc::new(move || {
            let (aws, clock): (_, Arc<dyn Clock>) = (inside.aws(), Arc::new(inside.clock()));
            let built = listed::build_with(env.clone(), aws, clock, Some(to.clone()));
            Box::pin(async move { built })
        })
    })?;
    let inside = world.clone();
    world.function(NOTIFIER, |env| {
        Arc::new(move || {
            let (aws, clock): (_, Arc<dyn Clock>) = (inside.aws(), Arc::new(inside.clock()));
            let built = notifier::build_with(Source::Listed, env.clone(), aws, clock, sender.clone());
            Box::pin(async move { built })
        })
    })?;
    Ok(())
}

/// Every feed is read every five minutes. The first time marks what is there; then each wave brings one new entry per feed.
pub(crate) async fn surge(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let internet = Arc::new(Internet::new(world.clock()));
    feed(world, plan, &internet, plan.waves.len(), 1).await
}

/// Mastodon is down for two hours, while feeds go on: then everything is owed at once.
pub(crate) async fn herd(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let internet = Arc::new(Internet::new(world.clock()));
    internet.fail_for(Duration::from_secs(2 * 3_600));
    feed(world, plan, &internet, 1, 20).await
}

async fn feed(
    world: &World,
    plan: &Plan,
    internet: &Arc<Internet>,
    news: usize,
    entries: usize,
) -> Result<Outcome, Error> {
    install(world, internet)?;
    let users = Users::default();
    let feeds = plan.load;
    let run = || async {
        fire(world, &users, feeds).await;
        tokio::time::sleep(PERIOD).await;
    };
    run().await;
    let mut wanted = Vec::new();
    for _ in 0..news {
        for feed in 0..feeds {
            wanted.extend((0..entries).map(|_| internet.publish(feed)));
        }
        run().await;
    }
    let mut runs = MORE_RUNS;
    while runs > 0 && internet.posted() < wanted.len() {
        run().await;
        runs -= if internet.is_down() { 0 } else { 1 };
    }
    let there = internet.posts(&users);
    let left = left(world)?;
    Ok(Outcome::compare(wanted.iter().map(String::as_str), &there, &left, &users))
}

/// The entries that the table still has as owed or as dead letters, by their titles.
fn left(world: &World) -> Result<Left, Error> {
    let mut left = Left::default();
    for item in world.items(&world.table("FeedsStateTable")?)? {
        let title = item["entry_data"]["M"]["title"]["S"].as_str().unwrap_or_default().to_owned();
        match item["state"]["S"].as_str() {
            Some("dead") => left.dead.insert(title),
            Some("owed") => left.owed.insert(title),
            _ => continue,
        };
    }
    Ok(left)
}

/// EventBridge Scheduler starts all schedules whose time has come. It tries again what it could not start.
async fn fire(world: &World, users: &Users, feeds: u32) {
    for feed in 0..feeds {
        let limit = &aws::SCHEDULER_INVOCATIONS;
        if world.limits().take(limit, ACCOUNT, 1.0).is_err() {
            while !world.limits().has_taken(limit, ACCOUNT, 1.0) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        let event = json!({"feed": {
            "name": name(feed), "url": format!("https://{FEED_HOST}/{feed}"), "period": "5 minutes",
            "destinations": ["mastodon"], "text": "{title}",
        }});
        if world.lambda().accept(SUBSCRIBER, event).is_err() {
            users.saw("a run was not accepted");
        }
    }
}

fn name(feed: u32) -> String {
    format!("feed-{feed}")
}

fn title(feed: u32, entry: usize) -> String {
    format!("feed {feed} entry {entry}")
}

/// All feeds, and Mastodon. Clones are the same.
#[derive(Debug, Clone)]
struct Internet {
    clock: Simulated,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// How many entries each feed has.
    entries: BTreeMap<u32, usize>,
    /// When each was published, by its title.
    published: BTreeMap<String, Duration>,
    /// Mastodon's statuses: the text, and when it was posted.
    posts: Vec<(String, Duration)>,
    /// Mastodon's idempotency keys, the number of the status, and when it was posted.
    keys: BTreeMap<String, (usize, Duration)>,
    down_until: Duration,
    /// The present window of Mastodon's rate limit, and the requests in it.
    window: (u64, u32),
    /// The present window of its limit on statuses, and those in it.
    statuses: (u64, u32),
    /// The requests that Mastodon answered.
    answered: u64,
    /// How often Mastodon answered 429, because of requests and because of statuses.
    refused: (u64, u64),
}

impl Internet {
    fn new(clock: Simulated) -> Self {
        Self { clock, state: Arc::default() }
    }

    /// Mastodon answers 503 for so long.
    fn fail_for(&self, time: Duration) {
        telemetry::lock(&self.state).down_until = self.clock.elapsed() + time;
    }

    fn is_down(&self) -> bool {
        self.clock.elapsed() < telemetry::lock(&self.state).down_until
    }

    /// Adds an entry to a feed, and returns its title.
    fn publish(&self, feed: u32) -> String {
        let mut state = telemetry::lock(&self.state);
        let number = state.entries.entry(feed).or_insert(OLD);
        let title = title(feed, *number);
        *number += 1;
        state.published.insert(title.clone(), self.clock.elapsed());
        title
    }

    /// How many entries were posted, however often.
    fn posted(&self) -> usize {
        let state = telemetry::lock(&self.state);
        state.posts.iter().map(|(text, _)| text).collect::<BTreeSet<_>>().len()
    }

    /// How often each entry was posted.
    fn posts(&self, users: &Users) -> BTreeMap<String, u64> {
        let state = telemetry::lock(&self.state);
        let mut posts = BTreeMap::new();
        for (text, at) in &state.posts {
            *posts.entry(text.clone()).or_default() += 1;
            let published = state.published.get(text).copied().unwrap_or_default();
            users.waited(at.saturating_sub(published));
            users.saw("post");
        }
        let counts = [
            (state.answered, "request to Mastodon"),
            (state.refused.0, "Mastodon's limit on requests answered 429"),
            (state.refused.1, "Mastodon's limit on statuses answered 429"),
        ];
        for (count, what) in counts {
            (0..count).for_each(|_| users.saw(what));
        }
        posts
    }

    fn atom(&self, feed: u32) -> String {
        let entries = telemetry::lock(&self.state).entries.get(&feed).copied().unwrap_or(OLD);
        let mut text =
            format!("<feed xmlns=\"http://www.w3.org/2005/Atom\"><id>urn:feed:{feed}</id><title>{feed}</title>");
        for entry in (0..entries).rev() {
            let (title, link) = (title(feed, entry), format!("https://{FEED_HOST}/{feed}/{entry}"));
            let _ = write!(
                text,
                "<entry><id>urn:entry:{feed}:{entry}</id><title>{title}</title><link href=\"{link}\"/>\
                 <updated>2026-01-01T00:00:00Z</updated></entry>"
            );
        }
        text.push_str("</feed>");
        text
    }

    async fn serve(&self, request: reqwest::Request) -> http::Response<String> {
        let path = request.url().path().to_owned();
        if request.url().host_str() == Some(FEED_HOST) {
            tokio::time::sleep(assumed::FEED).await;
            let feed = path.trim_start_matches('/').parse().unwrap_or_default();
            return plain(200, self.atom(feed));
        }
        tokio::time::sleep(assumed::MASTODON).await;
        if self.is_down() {
            return answer(503, &json!({"error": "down"}));
        }
        if let Err(reset) = self.count_request() {
            return too_many(reset);
        }
        if path.ends_with("/statuses") && request.method() == reqwest::Method::POST {
            return self.post(&request).map_or_else(too_many, |status| answer(200, &status));
        }
        if path.ends_with("verify_credentials") {
            return answer(200, &json!({"id": "7"}));
        }
        if path.ends_with("/statuses") {
            return answer(200, &self.statuses(&request));
        }
        answer(200, &json!({"configuration": {"statuses": {"max_characters": 500}}}))
    }

    /// Counts a request to Mastodon. `Err`: there were too many; then it takes more.
    fn count_request(&self) -> Result<(), Timestamp> {
        let now = self.clock.elapsed();
        let window = now.as_secs() / MASTODON_WINDOW.as_secs();
        let mut state = telemetry::lock(&self.state);
        if state.window.0 != window {
            state.window = (window, 0);
        }
        state.window.1 += 1;
        if state.window.1 <= MASTODON_REQUESTS {
            state.answered += 1;
            return Ok(());
        }
        state.refused.0 += 1;
        Err(self.at(MASTODON_WINDOW * (window as u32 + 1)))
    }

    /// A time of the run, as others see it.
    fn at(&self, elapsed: Duration) -> Timestamp {
        self.clock.now().saturating_sub(self.clock.elapsed()) + elapsed
    }

    /// `POST /api/v1/statuses`: an idempotency key has one status, for as long as Mastodon remembers it. `Err`: the account has made too many;
    /// then it may make more.
    fn post(&self, request: &reqwest::Request) -> Result<Value, Timestamp> {
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        let mut state = telemetry::lock(&self.state);
        let now = self.clock.elapsed();
        let known = state.keys.get(key).filter(|(_, at)| now.saturating_sub(*at) < MASTODON_KEYS);
        let number = match known {
            Some((number, _)) => *number,
            None => {
                let window = now.as_secs() / MASTODON_STATUSES_WINDOW.as_secs();
                if state.statuses.0 != window {
                    state.statuses = (window, 0);
                }
                if state.statuses.1 >= MASTODON_STATUSES {
                    state.refused.1 += 1;
                    return Err(self.at(MASTODON_STATUSES_WINDOW * (window as u32 + 1)));
                }
                state.statuses.1 += 1;
                state.posts.push((body["status"].as_str().unwrap_or_default().to_owned(), now));
                let number = state.posts.len() - 1;
                state.keys.insert(key.to_owned(), (number, now));
                number
            }
        };
        Ok(json!({"id": number.to_string()}))
    }

    /// A page of the statuses, newest first.
    fn statuses(&self, request: &reqwest::Request) -> Value {
        let before = request.url().query_pairs().find(|(name, _)| name == "max_id");
        let before = before.and_then(|(_, id)| id.parse().ok()).unwrap_or(usize::MAX);
        let state = telemetry::lock(&self.state);
        let older = state.posts.iter().enumerate().take(before).rev().take(MASTODON_PAGE);
        let shown = older.map(|(number, (text, at))| {
            json!({"id": number.to_string(), "created_at": self.at(*at).to_string(), "content": format!("<p>{text}</p>")})
        });
        shown.collect()
    }
}

impl StandIn for Internet {
    fn answer(&self, request: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, reqwest::Error>> {
        let internet = self.clone();
        Box::pin(async move { Ok(internet.serve(request).await.into()) })
    }
}

/// Mastodon names the time when it takes more. It has no `Retry-After`.
fn too_many(reset: Timestamp) -> http::Response<String> {
    let mut refused = answer(429, &json!({"error": "Too many requests"}));
    if let Ok(reset) = reset.to_string().parse() {
        refused.headers_mut().insert("x-ratelimit-reset", reset);
    }
    refused
}

fn answer(status: u16, body: &Value) -> http::Response<String> {
    plain(status, body.to_string())
}

fn plain(status: u16, body: String) -> http::Response<String> {
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response
}
