//! A world for the tests: the real subscriber and notifier with their real clients, an embedded table, and servers on loopback
//! that stand in for the feed, Mastodon, Pushover, Slack and a webhook and can fail. The test sets the clock.

#![allow(dead_code, unreachable_pub, missing_debug_implementations, reason = "each test uses what it needs of it")]

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Query, State as Shared},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use feeds::{
    delivery::{
        message::{Request, Response as Answer},
        notify::{Memory, Notifier, Secrets},
        owed::{Deliverer, GiveUp},
        text::Template,
    },
    entry::Source,
    function::subscriber::{RunReport, Subscriber},
    list::{FeedName, Listed},
    outside::{
        destination,
        fetch::{Fetcher, Policy},
        invoke::{self, Invoke},
        mastodon::{Mastodon, Visibility},
        pushover::{Pushover, WhenUnsure},
        slack::Slack,
        webhook::{self, Webhook},
    },
    reading::{
        self, Reader,
        filter::{Filter, Pattern},
        first_run::FirstRun,
        pace::{DEFAULT_LONGEST, Pace},
    },
    table::Table,
};
use function::{BoxFuture, Secret, secret};
use ichido::{Clock, Once};
use serde_json::{Value, json};
use slack_api::WebApi;
use testkit::{Dynamo, ManualClock, Outside};

pub const FEED_HOST: &str = "feed.test";
pub const HOOK_HOST: &str = "hook.test";
pub const HOOK_KEY: &str = "hook-key";
/// How long Mastodon remembers a key.
const KEY_HOUR: Duration = Duration::from_secs(3_600);

/// What goes wrong with one request to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// It is refused with this status and has no effect.
    Refuse(u16),
    /// It has its effect, and the answer is lost.
    LoseAnswer,
}

pub type Faults = Arc<dyn Fn() -> Fault + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Post {
    pub id: u64,
    pub text: String,
    pub visibility: String,
    pub at_ms: u64,
}

#[derive(Default)]
pub struct Destinations {
    pub posts: Vec<Post>,
    pub pushes: Vec<Value>,
    /// Slack's messages, oldest first.
    pub messages: Vec<Value>,
    /// What the webhook took: the `Idempotency-Key` and the body, also if it was there before.
    pub hooks: Vec<(String, Value)>,
    keys: HashMap<String, (u64, u64)>,
    /// How often statuses were read.
    pub searches: usize,
    pub max_characters: Option<usize>,
    /// How long each request takes, in real time: for the bench.
    pub delay: Duration,
    pub mastodon_requests: usize,
}

#[derive(Clone)]
pub struct FeedAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl FeedAnswer {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        FeedAnswer { status: 200, headers: vec![], body: body.into() }
    }
}

#[derive(Clone)]
pub struct World {
    pub db: Dynamo,
    pub clock: ManualClock,
    pub outside: Outside,
    pub destinations: Arc<Mutex<Destinations>>,
    pub feed: Arc<Mutex<FeedAnswer>>,
    /// Where the feed's own address redirects to, and with which status.
    pub moved_to: Arc<Mutex<Option<(u16, String)>>>,
    /// The headers of each request for the feed.
    pub asked: Arc<Mutex<Vec<HeaderMap>>>,
    pub mastodon_faults: Arc<Mutex<Faults>>,
    pub pushover_faults: Arc<Mutex<Faults>>,
    pub slack_faults: Arc<Mutex<Faults>>,
    pub webhook_faults: Arc<Mutex<Faults>>,
    /// Of a feed of the list: its destinations, and further keys of its entry.
    pub listed: Vec<&'static str>,
    pub entry: Value,
    /// Made once, because making a client reads the system's certificates.
    pub client: reqwest::Client,
    pub fetcher: Fetcher,
    pub port: u16,
    pub source: Source,
    pub first_run: FirstRun,
    pub parallel: usize,
    pub shadow: bool,
    pub ignore_title: &'static str,
    pub pushover_title: &'static str,
    pub when_unsure: WhenUnsure,
    pub adaptive: bool,
    pub give_up: GiveUp,
}

#[derive(Clone)]
struct Server {
    outside: Outside,
    clock: ManualClock,
    destinations: Arc<Mutex<Destinations>>,
    feed: Arc<Mutex<FeedAnswer>>,
    moved_to: Arc<Mutex<Option<(u16, String)>>>,
    asked: Arc<Mutex<Vec<HeaderMap>>>,
    mastodon_faults: Arc<Mutex<Faults>>,
    pushover_faults: Arc<Mutex<Faults>>,
    slack_faults: Arc<Mutex<Faults>>,
    webhook_faults: Arc<Mutex<Faults>>,
}

impl World {
    pub async fn new(source: Source) -> Self {
        Self::within(source, Outside::new()).await
    }

    /// A world whose every call to the outside goes through `outside`.
    pub async fn within(source: Source, outside: Outside) -> Self {
        let clock = ManualClock::new();
        let db = Dynamo::start(&["infra/templates/feeds.yaml"]).await.with_clock(&clock).with_outside(outside.clone());
        let fine: Faults = Arc::new(|| Fault::None);
        let server = Server {
            outside: outside.clone(),
            clock: clock.clone(),
            destinations: Arc::default(),
            feed: Arc::new(Mutex::new(FeedAnswer::ok(atom(&[])))),
            asked: Arc::default(),
            moved_to: Arc::default(),
            mastodon_faults: Arc::new(Mutex::new(fine.clone())),
            pushover_faults: Arc::new(Mutex::new(fine.clone())),
            slack_faults: Arc::new(Mutex::new(fine.clone())),
            webhook_faults: Arc::new(Mutex::new(fine)),
        };
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new()
            .route("/feed", any(serve_feed))
            .route("/api/v1/statuses", post(serve_post))
            .route("/api/v1/accounts/verify_credentials", get(async || axum::Json(json!({"id": "7"}))))
            .route("/api/v1/accounts/{id}/statuses", get(serve_statuses))
            .route("/api/v2/instance", get(serve_instance))
            .route("/1/messages.json", post(serve_push))
            .route("/api/chat.postMessage", post(serve_slack_post))
            .route("/api/conversations.history", get(serve_slack_history))
            .route("/hook", post(serve_hook))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        World {
            client: destination::client().unwrap(),
            fetcher: Fetcher::new(policy(), Arc::new(clock.clone()), || 0.5).unwrap(),
            db,
            clock,
            outside,
            destinations: server.destinations,
            feed: server.feed,
            moved_to: server.moved_to,
            asked: server.asked,
            mastodon_faults: server.mastodon_faults,
            pushover_faults: server.pushover_faults,
            slack_faults: server.slack_faults,
            webhook_faults: server.webhook_faults,
            listed: vec!["mastodon", "pushover", "slack", "webhook"],
            entry: json!({}),
            port,
            source,
            first_run: FirstRun::All,
            parallel: 1,
            shadow: false,
            ignore_title: "",
            pushover_title: "",
            when_unsure: WhenUnsure::Repeat,
            adaptive: false,
            give_up: GiveUp::default(),
        }
    }

    pub fn table_name(&self) -> &str {
        self.db.table(match self.source {
            Source::Github => "GithubStateTable",
            Source::Hatebu => "HatebuStateTable",
            Source::Listed => "FeedsStateTable",
        })
    }

    pub fn table(&self) -> Table {
        let table = Table::new(self.db.client(), self.table_name());
        if self.source == Source::Listed { table.of_feed(self.feed_of_list().name) } else { table }
    }

    /// The feed's entry of the list.
    pub fn feed_of_list(&self) -> Listed {
        let mut entry = json!({
            "name": "blog", "url": self.feed_url(), "period": "5 minutes", "destinations": self.listed, "text": "{title} {link}",
        });
        if self.listed.contains(&"slack") {
            entry["channel"] = json!("C0123456789");
        }
        if self.listed.contains(&"webhook") {
            entry["webhook"] = json!({ "url": format!("http://{HOOK_HOST}:{}/hook", self.port) });
        }
        for (key, value) in self.entry.as_object().unwrap() {
            entry[key] = value.clone();
        }
        Listed::of_entry(entry, &self.policy()).unwrap()
    }

    pub fn policy(&self) -> Policy {
        policy()
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    /// A notifier as a new process would have it.
    pub fn notifier(&self) -> Notifier {
        let base: url::Url = format!("http://127.0.0.1:{}/", self.port).parse().unwrap();
        let secret = |text: &str| secret::Source::Fixed(Secret::new(text));
        let template = match self.source {
            Source::Github => "[GH] {title} {link}",
            Source::Hatebu => "[B!] id:{author} {comment} > {title} {link}",
            Source::Listed => "{title}",
        };
        let slack = WebApi::new(format!("{base}api"), secret("xoxb")).unwrap();
        let webhook = Webhook::new(self.policy(), secret(HOOK_KEY), self.clock()).unwrap();
        let client = self.client.clone();
        let pushover =
            Pushover::new(client.clone(), base.clone(), secret("t"), secret("u"), self.when_unsure, self.clock());
        Notifier {
            source: self.source,
            once: Once::builder(self.table().claims()).clock(self.clock.clone()).build(),
            table: Table::new(self.db.client(), self.table_name()),
            mastodon: Some(Mastodon::new(client, base, secret("token"), Visibility::Unlisted, self.clock())),
            pushover: (self.source != Source::Hatebu).then_some(pushover),
            slack: (self.source == Source::Listed).then(|| Slack::new(slack, self.clock())),
            webhook: (self.source == Source::Listed).then_some(webhook),
            secrets: Secrets { policy: self.policy(), named: None },
            pushover_title: Pattern::parse("PUSHOVER_TITLE", self.pushover_title).unwrap(),
            template: Template::parse(template).unwrap(),
            shadow: self.shadow,
            clock: self.clock(),
            memory: Memory::default(),
        }
    }

    /// A subscriber as a new process would have it.
    pub fn subscriber(&self) -> Subscriber {
        self.subscriber_with(Arc::new(InProcess { notifier: self.notifier(), clock: self.clock.clone() }))
    }

    pub fn subscriber_with(&self, notifier: Arc<dyn Invoke>) -> Subscriber {
        let (name, feed, destinations) = match self.source {
            Source::Listed => {
                let Listed { name, entry, destinations, .. } = self.feed_of_list();
                (name, entry, destinations.into_iter().map(|it| it.name().to_owned()).collect())
            }
            _ => (FeedName::listed("built-in").unwrap(), Value::Null, vec!["mastodon".to_owned()]),
        };
        let url = match self.source {
            Source::Listed => self.feed_of_list().entry["url"].as_str().unwrap().to_owned(),
            _ => self.feed_url(),
        };
        let filter = match self.source {
            Source::Listed => self.feed_of_list().filter,
            _ => {
                Filter { ignore_title: Pattern::parse("IGNORE_TITLE", self.ignore_title).unwrap(), ..Filter::default() }
            }
        };
        Subscriber {
            feed: name.clone(),
            table: self.table(),
            reader: Reader {
                feed: name,
                source: self.source,
                url: secret::Source::Fixed(Secret::new(url)),
                table: self.table(),
                fetcher: self.fetcher.clone(),
                first_run: self.first_run,
                filter,
            },
            deliverer: Deliverer {
                table: self.table(),
                notifier,
                feed,
                destinations,
                give_up: self.give_up,
                parallel: self.parallel,
                clock: self.clock(),
            },
            pace: Pace {
                adaptive: self.adaptive,
                period: Duration::from_secs(300),
                run_every: Duration::from_secs(300),
                longest: DEFAULT_LONGEST,
            },
            told_every: Duration::from_secs(300),
            clock: self.clock(),
        }
    }

    pub fn feed_url(&self) -> String {
        format!("http://{FEED_HOST}:{}/feed?token=NOTREAL", self.port)
    }

    /// One run of a new process, with two minutes of time.
    pub async fn run(&self) -> Result<RunReport, reading::Error> {
        self.subscriber().run(Clock::now(&self.clock) + Duration::from_secs(120)).await
    }

    pub fn show(&self, body: impl Into<Vec<u8>>) {
        *self.feed.lock().unwrap() = FeedAnswer::ok(body);
    }

    pub fn show_with(&self, answer: FeedAnswer) {
        *self.feed.lock().unwrap() = answer;
    }

    pub fn mastodon_fails(&self, faults: impl Fn() -> Fault + Send + Sync + 'static) {
        *self.mastodon_faults.lock().unwrap() = Arc::new(faults);
    }

    pub fn pushover_fails(&self, faults: impl Fn() -> Fault + Send + Sync + 'static) {
        *self.pushover_faults.lock().unwrap() = Arc::new(faults);
    }

    pub fn slack_fails(&self, faults: impl Fn() -> Fault + Send + Sync + 'static) {
        *self.slack_faults.lock().unwrap() = Arc::new(faults);
    }

    pub fn webhook_fails(&self, faults: impl Fn() -> Fault + Send + Sync + 'static) {
        *self.webhook_faults.lock().unwrap() = Arc::new(faults);
    }

    /// The texts of Slack's messages.
    pub fn messages(&self) -> Vec<String> {
        let destinations = self.destinations.lock().unwrap();
        destinations.messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The texts of what the webhook took, each key once.
    pub fn hooked(&self) -> Vec<String> {
        let destinations = self.destinations.lock().unwrap();
        let mut keys = std::collections::HashSet::new();
        let first = destinations.hooks.iter().filter(|(key, _)| keys.insert(key));
        first.map(|(_, body)| body["text"].as_str().unwrap().to_owned()).collect()
    }

    pub fn posts(&self) -> Vec<String> {
        self.destinations.lock().unwrap().posts.iter().map(|post| post.text.clone()).collect()
    }

    pub fn pushes(&self) -> Vec<String> {
        let destinations = self.destinations.lock().unwrap();
        destinations.pushes.iter().map(|push| push["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The markers in the table by entry id, in DynamoDB's JSON.
    pub fn items(&self) -> HashMap<String, Value> {
        let items = self.db.items(self.table_name()).into_iter();
        items.map(|item| (item["entry_id"]["S"].as_str().unwrap().to_owned(), item)).collect()
    }

    pub fn state_of(&self, id: &str) -> String {
        let items = self.items();
        items.get(id).map_or_else(|| "(absent)".to_owned(), |item| item["state"]["S"].as_str().unwrap_or("").to_owned())
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// The notifier in the same process. As with Lambda, the caller waits, and each invocation has 40 s.
pub struct InProcess {
    pub notifier: Notifier,
    pub clock: ManualClock,
}

impl Invoke for InProcess {
    fn invoke<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Answer, invoke::Error>> {
        Box::pin(async move {
            let deadline = Clock::now(&self.clock) + Duration::from_secs(40);
            let answer = self.notifier.notify(request, deadline).await;
            answer.map_err(|error| invoke::Error::Function { kind: "Event".into(), message: error.to_string() })
        })
    }
}

async fn serve_feed(
    Shared(server): Shared<Server>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let moved_to = server.moved_to.lock().unwrap().clone();
    if let Some((status, to)) = moved_to.filter(|_| !query.contains_key("moved")) {
        return Response::builder().status(status).header("location", to).body(Body::empty()).unwrap();
    }
    server
        .outside
        .call("feed", async {
            server.asked.lock().unwrap().push(headers.clone());
            let answer = server.feed.lock().unwrap().clone();
            let etag = answer.headers.iter().find(|(name, _)| name == "etag").map(|(_, value)| value.clone());
            let asked = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
            let mut response = Response::builder();
            if answer.status == 200 && etag.is_some() && etag.as_deref() == asked {
                return response.status(304).body(Body::empty()).unwrap();
            }
            for (name, value) in &answer.headers {
                response = response.header(name, value);
            }
            response.status(answer.status).body(Body::from(answer.body)).unwrap()
        })
        .await
}

/// Status 200, and then the connection breaks.
fn lost() -> Response {
    let broken = futures::stream::once(async { Err::<bytes::Bytes, _>(std::io::Error::other("lost")) });
    Response::builder().status(200).body(Body::from_stream(broken)).unwrap()
}

fn fault(faults: &Mutex<Faults>) -> Fault {
    let faults = faults.lock().unwrap().clone();
    faults()
}

async fn slow(server: &Server) {
    let delay = server.destinations.lock().unwrap().delay;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

async fn serve_post(Shared(server): Shared<Server>, headers: HeaderMap, body: bytes::Bytes) -> Response {
    slow(&server).await;
    server
        .outside
        .call("mastodon", async {
            let fault = fault(&server.mastodon_faults);
            server.destinations.lock().unwrap().mastodon_requests += 1;
            if let Fault::Refuse(status) = fault {
                return (StatusCode::from_u16(status).unwrap(), axum::Json(json!({"error": "no"}))).into_response();
            }
            assert_eq!(headers[header::AUTHORIZATION], "Bearer token");
            let key = headers["idempotency-key"].to_str().unwrap().to_owned();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let now = server.clock.now_ms();
            let id = {
                let mut destinations = server.destinations.lock().unwrap();
                let known = destinations.keys.get(&key).copied();
                match known.filter(|(_, at)| now - at < KEY_HOUR.as_millis() as u64) {
                    Some((id, _)) => id,
                    None => {
                        let id = 1000 + destinations.posts.len() as u64;
                        destinations.posts.push(Post {
                            id,
                            text: body["status"].as_str().unwrap().to_owned(),
                            visibility: body["visibility"].as_str().unwrap().to_owned(),
                            at_ms: now,
                        });
                        destinations.keys.insert(key, (id, now));
                        id
                    }
                }
            };
            if fault == Fault::LoseAnswer {
                return lost();
            }
            axum::Json(json!({"id": id.to_string(), "url": format!("https://mastodon.example/@me/{id}")}))
                .into_response()
        })
        .await
}

async fn serve_slack_post(Shared(server): Shared<Server>, headers: HeaderMap, body: bytes::Bytes) -> Response {
    server
        .outside
        .call("slack", async {
            let fault = fault(&server.slack_faults);
            if let Fault::Refuse(status) = fault {
                return StatusCode::from_u16(status).unwrap().into_response();
            }
            assert_eq!(headers[header::AUTHORIZATION], "Bearer xoxb");
            let mut message: Value = serde_json::from_slice(&body).unwrap();
            let now = server.clock.now_ms();
            let mut destinations = server.destinations.lock().unwrap();
            let ts = format!("{}.{:03}{:03}", now / 1_000, now % 1_000, destinations.messages.len());
            message["ts"] = json!(ts);
            destinations.messages.push(message);
            if fault == Fault::LoseAnswer {
                return lost();
            }
            axum::Json(json!({"ok": true, "ts": ts})).into_response()
        })
        .await
}

async fn serve_slack_history(Shared(server): Shared<Server>, Query(query): Query<HashMap<String, String>>) -> Response {
    server
        .outside
        .call("history", async {
            if let Fault::Refuse(status) = fault(&server.slack_faults) {
                return StatusCode::from_u16(status).unwrap().into_response();
            }
            let mut destinations = server.destinations.lock().unwrap();
            destinations.searches += 1;
            assert_eq!((query["channel"].as_str(), query["include_all_metadata"].as_str()), ("C0123456789", "true"));
            let oldest: f64 = query["oldest"].parse().unwrap();
            let newer = |message: &&Value| message["ts"].as_str().unwrap().parse::<f64>().unwrap() >= oldest;
            let messages: Vec<&Value> = destinations.messages.iter().rev().filter(newer).collect();
            axum::Json(json!({"ok": true, "messages": messages})).into_response()
        })
        .await
}

/// A receiver that checks the signature and remembers keys.
async fn serve_hook(Shared(server): Shared<Server>, headers: HeaderMap, body: bytes::Bytes) -> Response {
    server
        .outside
        .call("webhook", async {
            let fault = fault(&server.webhook_faults);
            if let Fault::Refuse(status) = fault {
                return StatusCode::from_u16(status).unwrap().into_response();
            }
            let text = |name: &str| headers[name].to_str().unwrap();
            let signed = webhook::signature(&Secret::new(HOOK_KEY), text("x-ichido-timestamp").parse().unwrap(), &body);
            assert_eq!(text("x-ichido-signature"), signed);
            let key = text("idempotency-key").to_owned();
            server.destinations.lock().unwrap().hooks.push((key, serde_json::from_slice(&body).unwrap()));
            if fault == Fault::LoseAnswer {
                return lost();
            }
            StatusCode::ACCEPTED.into_response()
        })
        .await
}

async fn serve_statuses(
    Shared(server): Shared<Server>,
    Path(_): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    server
        .outside
        .call("statuses", async {
            if let Fault::Refuse(status) = fault(&server.mastodon_faults) {
                return StatusCode::from_u16(status).unwrap().into_response();
            }
            let mut destinations = server.destinations.lock().unwrap();
            destinations.searches += 1;
            let before: u64 = query.get("max_id").map_or(u64::MAX, |id| id.parse().unwrap());
            let limit: usize = query["limit"].parse().unwrap();
            let page = destinations.posts.iter().rev().filter(|post| post.id < before).take(limit).map(|post| {
                let at = jiff::Timestamp::from_millisecond(post.at_ms as i64).unwrap();
                let text = post.text.replace('&', "&amp;").replace('<', "&lt;");
                json!({"id": post.id.to_string(), "created_at": at.to_string(), "content": format!("<p>{text}</p>")})
            });
            axum::Json(page.collect::<Vec<_>>()).into_response()
        })
        .await
}

async fn serve_instance(Shared(server): Shared<Server>) -> Response {
    let max = server.destinations.lock().unwrap().max_characters.unwrap_or(500);
    axum::Json(json!({"configuration": {"statuses": {"max_characters": max, "characters_reserved_per_url": 23}}}))
        .into_response()
}

async fn serve_push(Shared(server): Shared<Server>, axum::Json(body): axum::Json<Value>) -> Response {
    slow(&server).await;
    server
        .outside
        .call("pushover", async {
            let fault = fault(&server.pushover_faults);
            if let Fault::Refuse(status) = fault {
                let answer = json!({"status": 0, "errors": ["no"], "request": "r"});
                return (StatusCode::from_u16(status).unwrap(), axum::Json(answer)).into_response();
            }
            let mut destinations = server.destinations.lock().unwrap();
            destinations.pushes.push(body);
            if fault == Fault::LoseAnswer {
                return lost();
            }
            axum::Json(json!({"status": 1, "request": format!("r{}", destinations.pushes.len())})).into_response()
        })
        .await
}

fn policy() -> Policy {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Policy::public().pin(FEED_HOST, here).pin(HOOK_HOST, here)
}

/// Long enough for the leases of a process that died to end.
pub const A_WHILE: Duration = Duration::from_secs(5 * 60);

/// Runs until nothing is owed any more. After an error the caller begins again. If the answer to the write of an entry is lost,
/// the run takes the entry for another run's and does not count it, so the table is asked too.
pub async fn until_settled(world: &World) -> Result<(), String> {
    for _ in 0..10 {
        let report = world.run().await.map_err(|error| error.to_string())?;
        let owed = |item: &Value| item["pending"]["S"].as_str().is_some_and(|pending| pending != "dead");
        if report.owed == 0 && !world.items().values().any(owed) {
            return Ok(());
        }
        world.advance(A_WHILE);
    }
    Err("still owed".into())
}

/// An Atom document with these entries, newest first. Entry `n` was published in minute `n`.
pub fn atom(entries: &[usize]) -> String {
    let entries: String = entries.iter().map(|n| atom_entry(*n)).collect();
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom"><id>tag:github.com,2008:/masutaka.private</id><link type="text/html" rel="alternate" href="https://github.com/masutaka"/><title>Private Feed for masutaka</title><updated>2026-01-01T00:00:00Z</updated>{entries}</feed>"#
    )
}

pub fn atom_entry(n: usize) -> String {
    format!(
        r#"<entry><id>{}</id><published>2025-01-01T{:02}:{:02}:00Z</published><link type="text/html" rel="alternate" href="https://github.com/masutaka/repo/compare/{n}"/><title type="html">masutaka pushed {n}</title><author><name>masutaka</name></author></entry>"#,
        id(n),
        n / 60 % 24,
        n % 60,
    )
}

pub fn id(n: usize) -> String {
    format!("tag:github.com,2008:PushEvent/{n}")
}

pub fn post_of(n: usize) -> String {
    format!("[GH] masutaka pushed {n} https://github.com/masutaka/repo/compare/{n}")
}

pub fn push_of(n: usize) -> String {
    format!("masutaka pushed {n}")
}

/// Exactly these, each once, in any order.
#[track_caller]
pub fn assert_once(found: Vec<String>, expected: impl IntoIterator<Item = String>) {
    let mut found = found;
    let mut expected: Vec<String> = expected.into_iter().collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
