//! A world for the two functions: an embedded DynamoDB, a Slack, Lambda's queue, and a clock that the test sets.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use function::http::Request;
use function::secret::Source;
use function::{Context, Secret};
use futures::future::BoxFuture;
use ichido::observe::{Event, Observer};
use ichido::{Clock, Timestamp};
use serde_json::{Value, json};
use slack::effect::Reply;
use slack::event::{Own, Upload};
use slack::function::events::{self, SlackEvents};
use slack::function::files::{self, SlackFiles};
use slack::outside::hand_over::{self, HandOver};
use slack::outside::paced::Paced;
use slack::same_content::{Channels, SameContent};
use slack::settings::Fallback;
use slack::signature::{self, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use slack::table::contents::Contents;
use slack::table::history::History;
use slack::table::limits::Limits;
use slack::table::{Bound, ProcessedEvents};
use slack_api::{Content, Look, Message, Page, Post, Slack};
use telemetry::lock;
use testkit::outside::Cut;
use testkit::{Dynamo, ManualClock, Outside};

pub const SIGNING_SECRET: &str = "not-a-secret";
pub const TEMPLATE: &str = "infra/templates/slack.yaml";
/// The timeouts of the template.
pub const EVENTS_TIMEOUT: Duration = Duration::from_secs(3);
pub const FILES_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a content is known.
pub const WINDOW: Duration = Duration::from_secs(24 * 3_600);

pub fn own() -> Own {
    Own { bot_id: "B0OURS".into(), user_id: "U0OURS".into() }
}

/// Everything outside of the functions. Clones share it.
#[derive(Clone)]
pub struct World {
    pub dynamo: Dynamo,
    pub clock: ManualClock,
    pub slack: FakeSlack,
    pub queue: Queue,
    pub fallback: Fallback,
    /// Admissions without the store, by instance and key.
    pub admissions: Admissions,
}

impl World {
    pub async fn new() -> Self {
        Self::with(Outside::new()).await
    }

    pub async fn with(outside: Outside) -> Self {
        let clock = ManualClock::new();
        let dynamo = Dynamo::start(&[TEMPLATE]).await.with_clock(&clock).with_outside(outside.clone());
        Self {
            dynamo,
            slack: FakeSlack::new(outside.clone(), clock.clone()),
            queue: Queue { outside, state: Arc::default() },
            fallback: Fallback::Open,
            admissions: Admissions::default(),
            clock,
        }
    }

    pub fn table(&self) -> &str {
        self.dynamo.table("ProcessedEventsTable")
    }

    /// A new instance of `slack-events`: nothing in its memory.
    pub fn slack_events(&self) -> Arc<SlackEvents> {
        Arc::new(SlackEvents {
            table: self.processed_events(events::STORE),
            history: self.history(),
            own: own(),
            signing_secrets: Source::Fixed(Secret::new(SIGNING_SECRET)),
            hand_over: Arc::new(self.queue.clone()),
            clock: Arc::new(self.clock.clone()),
        })
    }

    /// A new instance of `slack-files`.
    pub fn slack_files(&self) -> Arc<SlackFiles> {
        Arc::new(self.slack_files_with(None))
    }

    /// A new instance of `slack-files` that handles a content once in these channels.
    pub fn slack_files_by_content(&self, channels: &str) -> Arc<SlackFiles> {
        let clock = Arc::new(self.clock.clone());
        Arc::new(self.slack_files_with(Some(SameContent {
            channels: Channels::read(channels).expect("channels"),
            contents: Contents::new(&self.dynamo.client(), self.table(), WINDOW, files::STORE, clock.clone()),
            slack: self.paced(),
            reply: Reply::new(self.paced(), clock),
        })))
    }

    fn slack_files_with(&self, same_content: Option<SameContent>) -> SlackFiles {
        let effect = Arc::new(Reply::new(self.paced(), Arc::new(self.clock.clone())));
        SlackFiles { table: self.processed_events(files::STORE), history: self.history(), effect, same_content }
    }

    fn history(&self) -> History {
        History::new(&self.dynamo.client(), self.table(), Arc::new(self.clock.clone()))
    }

    /// Slack, as an instance calls it: within the limits that were met.
    pub fn paced(&self) -> Arc<dyn Slack> {
        let clock = Arc::new(self.clock.clone());
        let limits = Limits::new(&self.dynamo.client(), self.table(), clock.clone());
        Arc::new(Paced::new(Arc::new(self.slack.clone()), limits, clock))
    }

    fn processed_events(&self, bound: Bound) -> ProcessedEvents {
        let (client, clock) = (self.dynamo.client(), Arc::new(self.clock.clone()));
        ProcessedEvents::new(&client, self.table(), self.fallback, bound, clock, self.admissions.instance())
    }

    /// The context of an invocation that begins now.
    pub fn invocation(&self, request_id: &str, timeout: Duration) -> Context {
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        context.deadline = (self.clock.now() + timeout).as_millis();
        context
    }

    /// A request as Slack makes it.
    pub fn signed(&self, body: &Value) -> Request {
        let body = body.to_string().into_bytes();
        let at = self.clock.now().as_secs();
        let headers = [
            (TIMESTAMP_HEADER.to_owned(), at.to_string()),
            (SIGNATURE_HEADER.to_owned(), signature::sign(SIGNING_SECRET, at, &body)),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        let (method, path) = ("POST".to_owned(), "/slack/events".to_owned());
        Request { method, path, headers: headers.into(), body, ..Request::default() }
    }

    /// What Slack gets: the status of the answer, 500 for an error.
    pub async fn deliver(&self, events: &SlackEvents, envelope: &Value) -> u16 {
        let invocation = self.invocation("request-1", EVENTS_TIMEOUT);
        match events.answer(&self.signed(envelope), &invocation).await {
            Ok(response) => response.status,
            Err(_) => 500,
        }
    }

    /// One invocation of `slack-files`.
    pub async fn invoke(&self, files: &SlackFiles, upload: &Upload) -> Result<Vec<Value>, files::Unfinished> {
        files.handle(upload, &self.invocation("request-2", FILES_TIMEOUT)).await
    }

    /// The records in the table by their keys, without the history and the limits.
    pub fn records(&self) -> BTreeMap<String, Value> {
        self.items().into_iter().filter(|(key, _)| slack::table::is_record(key)).collect()
    }

    /// Everything in the table.
    pub fn items(&self) -> BTreeMap<String, Value> {
        let items = self.dynamo.items(self.table()).into_iter();
        items.map(|item| (item["event_key"]["S"].as_str().unwrap_or_default().to_owned(), item)).collect()
    }

    /// An event with these files, posted now.
    pub fn event(&self, id: &str, files: &[&str]) -> Value {
        envelope(id, &format!("{}.000100", self.clock.now().as_secs()), files)
    }
}

/// A file event as Slack sends it.
pub fn envelope(id: &str, ts: &str, files: &[&str]) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|id| json!({"id": id, "name": format!("{id}.pdf"), "mimetype": "application/pdf", "size": 1_250_000}))
        .collect();
    json!({
        "token": "unused", "team_id": "T0TEAM", "api_app_id": "A0APP", "type": "event_callback",
        "event_id": id, "event_time": 1_700_000_000,
        "authorizations": [{"team_id": "T0TEAM", "user_id": "U0OURS", "is_bot": true}],
        "event": {
            "type": "message", "subtype": "file_share", "channel": "C0GENERAL", "channel_type": "channel",
            "user": "U0ALICE", "ts": ts, "event_ts": ts, "text": "the quarterly numbers", "files": files,
        },
    })
}

/// What `slack-files` would be given for this event.
pub fn upload(envelope: &Value) -> Upload {
    match slack::event::read(envelope.to_string().as_bytes(), &own()) {
        Ok(slack::event::Received::Upload(upload)) => upload,
        other => panic!("not an upload: {other:?}"),
    }
}

/// How Slack fails at one call.
#[derive(Debug, Clone)]
pub enum Trouble {
    Refuse(&'static str),
    RateLimit(Duration),
    /// It performs the call, and the answer is lost.
    Lose,
    /// The call is lost. Nobody can tell that from a lost answer.
    LoseBefore,
}

/// Slack: threads of messages.
#[derive(Clone)]
pub struct FakeSlack {
    outside: Outside,
    clock: ManualClock,
    state: Arc<Mutex<SlackState>>,
}

#[derive(Default)]
struct SlackState {
    posts: Vec<(String, Post)>,
    post_troubles: VecDeque<Trouble>,
    thread_troubles: VecDeque<Trouble>,
    /// When `chat.postMessage` was called.
    tried_at: Vec<Timestamp>,
    looks: usize,
    /// What is known of files by their ids.
    contents: BTreeMap<String, Result<Content, Trouble>>,
    /// Deleted messages.
    deleted: BTreeSet<String>,
    page_size: usize,
}

impl FakeSlack {
    fn new(outside: Outside, clock: ManualClock) -> Self {
        let state = SlackState { page_size: 2, ..SlackState::default() };
        Self { outside, clock, state: Arc::new(Mutex::new(state)) }
    }

    pub fn trouble_posts(&self, troubles: impl IntoIterator<Item = Trouble>) {
        lock(&self.state).post_troubles.extend(troubles);
    }

    pub fn trouble_threads(&self, troubles: impl IntoIterator<Item = Trouble>) {
        lock(&self.state).thread_troubles.extend(troubles);
    }

    pub fn posts(&self) -> Vec<Post> {
        lock(&self.state).posts.iter().map(|(_, post)| post.clone()).collect()
    }

    /// These files have this content.
    pub fn put_content(&self, files: &[&str], content: &str) {
        self.put_contents(files, Ok(Content::Sha256(content.to_owned())));
    }

    /// What reading these files gives.
    pub fn put_contents(&self, files: &[&str], content: Result<Content, Trouble>) {
        let mut state = lock(&self.state);
        state.contents.extend(files.iter().map(|file| ((*file).to_owned(), content.clone())));
    }

    pub fn delete_message(&self, ts: &str) {
        lock(&self.state).deleted.insert(ts.to_owned());
    }

    /// How often a thread was looked at.
    pub fn looks(&self) -> usize {
        lock(&self.state).looks
    }

    pub fn tried_at(&self) -> Vec<Timestamp> {
        lock(&self.state).tried_at.clone()
    }

    /// The file of each reply.
    pub fn replied_to(&self) -> Vec<String> {
        let file = |post: Post| post.metadata.event_payload["file"].as_str().unwrap_or_default().to_owned();
        self.posts().into_iter().map(file).collect()
    }

    /// How often each file was replied to.
    pub fn replies(&self) -> BTreeMap<String, usize> {
        let mut replies = BTreeMap::new();
        for file in self.replied_to() {
            *replies.entry(file).or_default() += 1;
        }
        replies
    }

    /// Somebody else's reply.
    pub fn put(&self, post: Post) {
        lock(&self.state).post(post);
    }
}

impl SlackState {
    fn post(&mut self, post: Post) -> String {
        let ts = format!("1800000000.{:06}", self.posts.len());
        self.posts.push((ts.clone(), post));
        ts
    }
}

fn error(trouble: Trouble) -> slack_api::Error {
    match trouble {
        Trouble::Refuse(code) => slack_api::Error::Refused { code: code.into() },
        Trouble::RateLimit(after) => slack_api::Error::RateLimited { after },
        Trouble::Lose | Trouble::LoseBefore => slack_api::Error::Unanswered("the connection was reset".into()),
    }
}

/// The address of a message.
pub fn permalink(channel: &str, ts: &str) -> String {
    format!("https://acme.slack.com/archives/{channel}/p{}", ts.replace('.', ""))
}

fn cut_off(cut: Cut) -> slack_api::Error {
    slack_api::Error::Unanswered(cut.to_string())
}

impl Slack for FakeSlack {
    fn post<'a>(&'a self, post: &'a Post, _within: Duration) -> BoxFuture<'a, Result<String, slack_api::Error>> {
        let answer = async move {
            let mut state = lock(&self.state);
            state.tried_at.push(self.clock.now());
            match state.post_troubles.pop_front() {
                None => Ok(state.post(post.clone())),
                Some(Trouble::Lose) => {
                    state.post(post.clone());
                    Err(error(Trouble::Lose))
                }
                Some(trouble) => Err(error(trouble)),
            }
        };
        Box::pin(async { self.outside.request("chat.postMessage", answer).await.map_err(cut_off)? })
    }

    fn thread<'a>(&'a self, look: &'a Look, _within: Duration) -> BoxFuture<'a, Result<Page, slack_api::Error>> {
        let answer = async move {
            let mut state = lock(&self.state);
            state.looks += 1;
            if let Some(trouble) = state.thread_troubles.pop_front() {
                return Err(error(trouble));
            }
            if state.deleted.contains(&look.thread_ts) {
                return Err(error(Trouble::Refuse("thread_not_found")));
            }
            let from: usize = look.cursor.as_deref().map_or(0, |cursor| cursor.parse().expect("our own cursor"));
            let thread: Vec<Message> = state
                .posts
                .iter()
                .filter(|(_, post)| post.channel == look.channel && post.thread_ts == look.thread_ts)
                .map(|(ts, post)| Message { ts: ts.clone(), metadata: Some(post.metadata.clone()) })
                .collect();
            let to = thread.len().min(from + state.page_size);
            let next = (to < thread.len()).then(|| to.to_string());
            Ok(Page { messages: thread[from..to].to_vec(), next })
        };
        Box::pin(async { self.outside.request("conversations.replies", answer).await.map_err(cut_off)? })
    }

    fn content<'a>(
        &'a self,
        file: &'a str,
        _max_bytes: u64,
        _within: Duration,
    ) -> BoxFuture<'a, Result<Content, slack_api::Error>> {
        let answer = async move {
            let known = lock(&self.state).contents.get(file).cloned();
            known.unwrap_or(Ok(Content::Forbidden)).map_err(error)
        };
        Box::pin(async { self.outside.request("files.info", answer).await.map_err(cut_off)? })
    }

    fn permalink<'a>(
        &'a self,
        channel: &'a str,
        ts: &'a str,
        _within: Duration,
    ) -> BoxFuture<'a, Result<Option<String>, slack_api::Error>> {
        let answer = async move { (!lock(&self.state).deleted.contains(ts)).then(|| permalink(channel, ts)) };
        Box::pin(async { self.outside.request("chat.getPermalink", answer).await.map_err(cut_off) })
    }
}

/// Lambda's queue of asynchronous invocations.
#[derive(Clone)]
pub struct Queue {
    outside: Outside,
    state: Arc<Mutex<QueueState>>,
}

#[derive(Default)]
struct QueueState {
    uploads: VecDeque<Upload>,
    accepted: usize,
    troubles: VecDeque<hand_over::Error>,
}

impl Queue {
    pub fn trouble(&self, troubles: impl IntoIterator<Item = hand_over::Error>) {
        lock(&self.state).troubles.extend(troubles);
    }

    /// How many hand-overs were accepted so far.
    pub fn accepted(&self) -> usize {
        lock(&self.state).accepted
    }

    /// The oldest upload. It stays in the queue until [`done`](Self::done).
    pub fn first(&self) -> Option<Upload> {
        lock(&self.state).uploads.front().cloned()
    }

    pub fn done(&self) {
        lock(&self.state).uploads.pop_front();
    }
}

impl HandOver for Queue {
    fn hand_over<'a>(&'a self, upload: &'a Upload) -> BoxFuture<'a, Result<(), hand_over::Error>> {
        let answer = async move {
            let mut state = lock(&self.state);
            let trouble = state.troubles.pop_front();
            if !matches!(trouble, Some(hand_over::Error::Refused(_))) {
                state.uploads.push_back(upload.clone());
                state.accepted += 1;
            }
            trouble.map_or(Ok(()), Err)
        };
        Box::pin(async {
            let cut_off = |cut: Cut| hand_over::Error::Unanswered(cut.to_string());
            self.outside.request("Invoke", answer).await.map_err(cut_off)?
        })
    }
}

/// Who admitted which key without the store.
#[derive(Clone, Default)]
pub struct Admissions(Arc<Mutex<AdmissionsState>>);

#[derive(Default)]
struct AdmissionsState {
    instances: usize,
    admitted: BTreeMap<(usize, String), usize>,
    reconciled: usize,
    /// How many completions the store could not record, although it had admitted the work.
    unrecorded: usize,
}

pub struct Instance(Admissions, usize);

impl Admissions {
    fn instance(&self) -> Instance {
        let mut state = lock(&self.0);
        state.instances += 1;
        Instance(self.clone(), state.instances)
    }

    /// How often each instance admitted each key.
    pub fn by_instance_and_key(&self) -> BTreeMap<(usize, String), usize> {
        lock(&self.0).admitted.clone()
    }

    pub fn total(&self) -> usize {
        lock(&self.0).admitted.values().sum()
    }

    pub fn reconciled(&self) -> usize {
        lock(&self.0).reconciled
    }

    pub fn unrecorded(&self) -> usize {
        lock(&self.0).unrecorded
    }
}

impl Observer for Instance {
    fn observe(&self, event: &Event<'_>) {
        telemetry::Watch.observe(event);
        let mut state = lock(&self.0.0);
        match event {
            Event::AdmittedWithoutStore { key, .. } => {
                *state.admitted.entry((self.1, key.to_string())).or_default() += 1;
            }
            Event::Reconciled { .. } => state.reconciled += 1,
            Event::Unrecorded { key, .. } if !state.admitted.contains_key(&(self.1, key.to_string())) => {
                state.unrecorded += 1
            }
            _ => {}
        }
    }
}
