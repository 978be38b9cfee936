//! Slack's file events: Slack delivers each upload of one workspace, repeats what is not acknowledged, and takes the replies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use function::http::Request;
use function::secret::Source;
use function::{BoxFuture, Env};
use ichido::Clock;
use serde_json::{Value, json};
use slack::effect::Reply;
use slack::event::Own;
use slack::function::events::{self, SlackEvents};
use slack::function::files::{self, SlackFiles};
use slack::outside::hand_over::AsyncInvoke;
use slack::outside::paced::Paced;
use slack::settings::Fallback;
use slack::signature::{self, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use slack::table::ProcessedEvents;
use slack::table::history::History;
use slack::table::limits::Limits;
use slack_api::{Content, Look, Message, Page, Post, Slack};

use super::{Left, Outcome, Plan, Users, all};
use crate::clock::Simulated;
use crate::world::assumed;
use crate::{Error, World};

pub const UNIT: &str = "uploads per second";
pub const EVENTS: &str = "slack-events";
pub const FILES: &str = "slack-files";
pub const ROUTE: &str = "POST /slack/events";
pub(super) const TEMPLATE: &str = include_str!("../../../../infra/templates/slack.yaml");
const SIGNING_SECRET: &str = "not-a-secret";
/// Uploads go round so many channels.
const CHANNELS: usize = 2_000;
/// Slack's documentation of the Events API: it repeats an event that is not acknowledged within three seconds, at once, after one
/// minute and after five.
const SLACK_REPEATS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(300)];
const SLACK_WAITS: Duration = Duration::from_secs(3);
/// Slack's documentation of rate limits: `chat.postMessage` takes about one message per second and channel, with short bursts.
const POSTS_PER_SECOND: f64 = 1.0;
const POSTS_AT_ONCE: f64 = 5.0;
/// Over what [`assumed::SLACK_POSTS_PER_MINUTE`] is counted.
const MINUTE: Duration = Duration::from_secs(60);
/// Slack's documentation of `app_rate_limited`: an app gets at most so many events of one workspace in an hour.
const SLACK_PER_HOUR: u32 = 30_000;
/// A run with that many events would take a minute. A hundredth of everything shows the same.
pub(crate) const SMALLER: f64 = 100.0;
/// How long it may take until everything that was handed over is done.
const DRAIN: Duration = Duration::from_secs(6 * 3_600);

/// Adds both functions.
fn install(world: &World, workspace: &Workspace) -> Result<(), Error> {
    let env = world.environment(EVENTS)?;
    world.parameter(env.get("SLACK_SIGNING_SECRET_PARAMETER").unwrap_or_default(), SIGNING_SECRET);
    let inside = world.clone();
    world.function(EVENTS, |env| {
        Arc::new(move || {
            let (world, env) = (inside.clone(), env.clone());
            Box::pin(async move { start_events(&world, &env).await })
        })
    })?;
    let (inside, slack) = (world.clone(), workspace.clone());
    world.function(FILES, |env| {
        Arc::new(move || {
            let (world, env, slack) = (inside.clone(), env.clone(), slack.clone());
            Box::pin(async move { start_files(&world, &env, slack).await })
        })
    })?;
    Ok(())
}

/// An instance of `slack-events`, as its `build` makes it, in simulated time.
async fn start_events(world: &World, env: &Env) -> Result<function::Handler, function::Error> {
    let (aws, clock): (_, Arc<dyn Clock>) = (world.aws(), Arc::new(world.clock()));
    let mut vars = env.reader();
    let (table, files) = (vars.required("DEDUP_TABLE_NAME"), vars.required("SLACK_FILES_FUNCTION"));
    let parameter = vars.required("SLACK_SIGNING_SECRET_PARAMETER");
    vars.finish()?;
    let signing_secrets = Source::named(aws.clone(), parameter);
    // As `settings::Events::read` does: an instance without its secret does not start.
    let (secret, ()) = tokio::join!(signing_secrets.get(), aws.warm(&table));
    secret?;
    let dynamodb = aws.dynamodb();
    Ok(events::handler(Arc::new(SlackEvents {
        table: ProcessedEvents::new(&dynamodb, &table, Fallback::Open, events::STORE, clock.clone(), telemetry::Watch),
        history: History::new(&dynamodb, &table, clock.clone()),
        own: own(),
        signing_secrets,
        hand_over: Arc::new(AsyncInvoke::new(&aws.invoker(), files)),
        clock,
    })))
}

/// An instance of `slack-files`, likewise. Slack's own token is read as it is in `settings::Files::read`.
async fn start_files(world: &World, env: &Env, workspace: Workspace) -> Result<function::Handler, function::Error> {
    let (aws, clock): (_, Arc<dyn Clock>) = (world.aws(), Arc::new(world.clock()));
    let mut vars = env.reader();
    let table = vars.required("DEDUP_TABLE_NAME");
    let parameter = vars.required("SLACK_BOT_TOKEN_PARAMETER");
    vars.finish()?;
    world.parameter(&parameter, "xoxb-not-a-token");
    let token = Source::named(aws.clone(), parameter);
    let (token, ()) = tokio::join!(token.get(), aws.warm(&table));
    token?;
    let dynamodb = aws.dynamodb();
    let limits = Limits::new(&dynamodb, &table, clock.clone());
    let slack: Arc<dyn Slack> = Arc::new(Paced::new(Arc::new(workspace), limits, clock.clone()));
    Ok(files::handler(Arc::new(SlackFiles {
        table: ProcessedEvents::new(&dynamodb, &table, Fallback::Open, files::STORE, clock.clone(), telemetry::Watch),
        history: History::new(&dynamodb, &table, clock.clone()),
        effect: Arc::new(Reply::new(slack, clock)),
        same_content: None,
    })))
}

fn own() -> Own {
    Own { bot_id: "B0OURS".into(), user_id: "U0OURS".into() }
}

/// People upload files in all channels.
pub(crate) async fn surge(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    uploads(world, &Workspace::new(world.clock()), plan.arrivals(), CHANNELS).await
}

/// All uploads come within one second: as many as the load says.
pub(crate) async fn at_once(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let arrivals = (0..plan.load).map(|n| Duration::from_secs_f64(f64::from(n) / f64::from(plan.load))).collect();
    uploads(world, &Workspace::new(world.clock()), arrivals, CHANNELS).await
}

/// Slack's own API is down for two minutes, while uploads go on coming.
pub(crate) async fn slack_is_down(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    const DOWN: Duration = Duration::from_secs(120);
    let workspace = Workspace::new(world.clock());
    workspace.fail_for(DOWN);
    uploads(world, &workspace, steady(plan.load, DOWN * 2), 20).await
}

/// DynamoDB is down for a minute, while uploads go on coming, every four seconds all at the same moment: so each needs an instance of its
/// own, and Slack takes all replies.
pub(crate) async fn store_is_down(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    const DOWN: Duration = Duration::from_secs(60);
    let faults = world.store().faults().clone();
    let outage = tokio::spawn(async move {
        tokio::time::sleep(DOWN / 2).await;
        faults.down();
        tokio::time::sleep(DOWN).await;
        faults.heal();
    });
    let outcome = uploads(world, &Workspace::new(world.clock()), bunches(plan.load, DOWN * 2, 4), CHANNELS).await;
    outage.abort();
    outcome
}

/// Everything that Slack sends to one app of one workspace in an hour comes as fast as the load, at a hundredth of its size. What Slack
/// takes in a minute is a hundredth. The route's limit has to be a hundredth, too.
pub(crate) async fn hour_at_once(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let apart = SMALLER / f64::from(plan.load);
    let many = f64::from(SLACK_PER_HOUR) / SMALLER;
    let arrivals = (0..many as u32).map(|n| Duration::from_secs_f64(f64::from(n) * apart)).collect();
    let per_minute = (f64::from(assumed::SLACK_POSTS_PER_MINUTE) / SMALLER) as u32;
    uploads(world, &Workspace::taking(world.clock(), per_minute), arrivals, CHANNELS).await
}

/// So many per second, for so long.
fn steady(load: u32, time: Duration) -> Vec<Duration> {
    let apart = 1.0 / f64::from(load);
    let many = time.as_secs() * u64::from(load);
    (0..many).map(|n| Duration::from_secs_f64(n as f64 * apart)).collect()
}

/// So many at the same moment, every so many seconds, for so long.
fn bunches(load: u32, time: Duration, every: usize) -> Vec<Duration> {
    (0..time.as_secs()).step_by(every).flat_map(|second| (0..load).map(move |_| Duration::from_secs(second))).collect()
}

/// Delivers an upload at each of these moments, waits until nothing is left to do, and counts the replies.
async fn uploads(
    world: &World,
    workspace: &Workspace,
    arrivals: Vec<Duration>,
    channels: usize,
) -> Result<Outcome, Error> {
    install(world, workspace)?;
    let users = Users::default();
    let wanted: Vec<String> = (0..arrivals.len()).map(file).collect();
    all(world.clock(), arrivals, |number| {
        let (world, users, workspace) = (world.clone(), users.clone(), workspace.clone());
        async move {
            workspace.uploaded(number);
            deliver(&world, &users, number, channels).await;
        }
    })
    .await;
    let until = world.clock().elapsed() + DRAIN;
    while world.lambda().pending() > 0 && world.clock().elapsed() < until {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let there = workspace.replies(&users);
    let letters = world.lambda().dead_letters(FILES);
    let files = letters.iter().flat_map(|letter| letter["files"].as_array().into_iter().flatten());
    let dead: BTreeSet<String> = files.filter_map(|file| file["id"].as_str()).map(str::to_owned).collect();
    let left = Left { dead, owed: BTreeSet::new() };
    Ok(Outcome::compare(wanted.iter().map(String::as_str), &there, &left, &users))
}

/// What Slack does with one event: it repeats it until it is acknowledged, or gives it up.
async fn deliver(world: &World, users: &Users, number: usize, channels: usize) {
    let clock = world.clock();
    let began = clock.elapsed();
    let at = clock.now().as_secs();
    let envelope = envelope(number, at, channels);
    for (retry, wait) in std::iter::once(Duration::ZERO).chain(SLACK_REPEATS).enumerate() {
        tokio::time::sleep((began + wait).saturating_sub(clock.elapsed())).await;
        let request = signed(&envelope, clock.now().as_secs(), retry);
        let answer = tokio::time::timeout(SLACK_WAITS, world.request(ROUTE, EVENTS, &request)).await;
        match answer {
            Ok(response) if response.status == 200 => return,
            Ok(response) => users.saw(format!("event refused with {}", response.status)),
            Err(_) => users.saw("event not answered in time"),
        }
    }
    users.saw("event given up by Slack");
}

fn file(number: usize) -> String {
    format!("F{number:06}")
}

fn channel(number: usize, channels: usize) -> String {
    format!("C{:05}", number % channels.max(1))
}

fn envelope(number: usize, at: u64, channels: usize) -> Value {
    let ts = format!("{at}.{:06}", number % 1_000_000);
    let id = file(number);
    json!({
        "token": "unused", "team_id": "T0TEAM", "api_app_id": "A0APP", "type": "event_callback",
        "event_id": format!("Ev{number:06}"), "event_time": at,
        "authorizations": [{"team_id": "T0TEAM", "user_id": "U0OURS", "is_bot": true}],
        "event": {
            "type": "message", "subtype": "file_share", "channel": channel(number, channels), "channel_type": "channel",
            "user": "U0ALICE", "ts": ts, "event_ts": ts, "text": "the quarterly numbers",
            "files": [{"id": id, "name": format!("{id}.pdf"), "mimetype": "application/pdf", "size": 1_250_000}],
        },
    })
}

fn signed(envelope: &Value, at: u64, retry: usize) -> Request {
    let body = envelope.to_string().into_bytes();
    let mut headers: BTreeMap<String, String> = [
        (TIMESTAMP_HEADER.to_owned(), at.to_string()),
        (SIGNATURE_HEADER.to_owned(), signature::sign(SIGNING_SECRET, at, &body)),
        ("content-type".to_owned(), "application/json".to_owned()),
    ]
    .into();
    if retry > 0 {
        headers.insert("x-slack-retry-num".to_owned(), retry.to_string());
    }
    let (method, path) = ("POST".to_owned(), "/slack/events".to_owned());
    Request { method, path, headers, body, route_key: ROUTE.to_owned(), ..Request::default() }
}

/// One workspace: it takes replies, no faster than Slack allows per channel and in the whole workspace. Clones are the same.
#[derive(Debug, Clone)]
struct Workspace {
    clock: Simulated,
    /// How many messages it takes in a minute.
    per_minute: u32,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Replies: where, when, and what they say about which file.
    posts: Vec<(String, Duration, Post)>,
    /// What each channel still takes, and as of when.
    tokens: BTreeMap<String, (f64, Duration)>,
    /// The present minute of the workspace, and the messages in it.
    minute: (u64, u32),
    /// How often the workspace had taken enough for its minute.
    refused: u64,
    /// When each file was uploaded.
    uploaded: BTreeMap<String, Duration>,
    /// While it is set, Slack answers nothing.
    down_until: Duration,
}

impl Workspace {
    fn new(clock: Simulated) -> Self {
        Self::taking(clock, assumed::SLACK_POSTS_PER_MINUTE)
    }

    /// One that takes so many messages in a minute.
    fn taking(clock: Simulated, per_minute: u32) -> Self {
        Self { clock, per_minute, state: Arc::default() }
    }

    /// Somebody uploads this file now.
    fn uploaded(&self, number: usize) {
        telemetry::lock(&self.state).uploaded.insert(file(number), self.clock.elapsed());
    }

    /// Slack does not answer calls for so long.
    fn fail_for(&self, time: Duration) {
        telemetry::lock(&self.state).down_until = self.clock.elapsed() + time;
    }

    /// How often each file was replied to.
    fn replies(&self, users: &Users) -> BTreeMap<String, u64> {
        let mut replies = BTreeMap::new();
        let state = telemetry::lock(&self.state);
        for (_, at, post) in &state.posts {
            let file = post.metadata.event_payload["file"].as_str().unwrap_or_default();
            *replies.entry(file.to_owned()).or_default() += 1;
            let uploaded = state.uploaded.get(file).copied().unwrap_or_default();
            users.waited(at.saturating_sub(uploaded));
            users.saw("reply");
        }
        for _ in 0..state.refused {
            users.saw("the workspace's own limit answered 429");
        }
        replies
    }

    fn take(&self, post: &Post) -> Result<String, slack_api::Error> {
        let now = self.clock.elapsed();
        let mut state = telemetry::lock(&self.state);
        if now < state.down_until {
            return Err(slack_api::Error::Unreachable("connection refused".to_owned()));
        }
        let minute = now.as_secs() / MINUTE.as_secs();
        if state.minute.0 != minute {
            state.minute = (minute, 0);
        }
        if state.minute.1 >= self.per_minute {
            state.refused += 1;
            return Err(slack_api::Error::RateLimited { after: MINUTE * (minute as u32 + 1) - now });
        }
        let (tokens, at) = state.tokens.get(&post.channel).copied().unwrap_or((POSTS_AT_ONCE, now));
        let tokens = (tokens + now.saturating_sub(at).as_secs_f64() * POSTS_PER_SECOND).min(POSTS_AT_ONCE);
        let enough = tokens >= 1.0;
        state.tokens.insert(post.channel.clone(), (if enough { tokens - 1.0 } else { tokens }, now));
        if !enough {
            return Err(slack_api::Error::RateLimited { after: Duration::from_secs(1) });
        }
        state.minute.1 += 1;
        let ts = format!("1900000000.{:06}", state.posts.len());
        state.posts.push((ts.clone(), now, post.clone()));
        Ok(ts)
    }
}

impl Slack for Workspace {
    fn post<'a>(&'a self, post: &'a Post, _: Duration) -> BoxFuture<'a, Result<String, slack_api::Error>> {
        Box::pin(async move {
            tokio::time::sleep(assumed::SLACK).await;
            self.take(post)
        })
    }

    fn thread<'a>(&'a self, look: &'a Look, _: Duration) -> BoxFuture<'a, Result<Page, slack_api::Error>> {
        Box::pin(async move {
            tokio::time::sleep(assumed::SLACK).await;
            let state = telemetry::lock(&self.state);
            let is_here = |post: &Post| post.channel == look.channel && post.thread_ts == look.thread_ts;
            let here = state.posts.iter().filter(|(_, _, post)| is_here(post));
            let messages =
                here.map(|(ts, _, post)| Message { ts: ts.clone(), metadata: Some(post.metadata.clone()) }).collect();
            Ok(Page { messages, next: None })
        })
    }

    fn content<'a>(&'a self, _: &'a str, _: u64, _: Duration) -> BoxFuture<'a, Result<Content, slack_api::Error>> {
        Box::pin(async { Ok(Content::Forbidden) })
    }

    fn permalink<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<Option<String>, slack_api::Error>> {
        Box::pin(async { Ok(None) })
    }
}
