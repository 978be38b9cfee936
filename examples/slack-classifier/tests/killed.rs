//! The function is killed before and after each of its calls to the outside, and run again: one answer per file, and none is lost.
//!
//! Everything outside is real HTTP on loopback, through a relay that the kit can stop: the classifier and Slack's Web API.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Query;
use axum::routing::{get, post};
use axum::{Json, Router};
use function::secret::Source;
use function::{Context, Secret};
use ichido::Clock;
use ichido_testkit::relay::Relay;
use serde_json::{Value, json};
use slack::effect::Reply;
use slack::event::Upload;
use slack::function::files::{STORE, SlackFiles};
use slack::outside::paced::Paced;
use slack::settings::Fallback;
use slack::table::ProcessedEvents;
use slack::table::history::History;
use slack::table::limits::Limits;
use slack_api::WebApi;
use slack_classifier::{Classifier, Classify};
use testkit::{Dynamo, ManualClock, Outside, effects, interrupt};
use tokio::net::TcpListener;

/// Longer than the lease and the allowed clock skew.
const LATER: Duration = Duration::from_secs(63);
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the services outside have seen.
#[derive(Clone, Default)]
struct Seen {
    posts: Arc<Mutex<Vec<Value>>>,
    /// The idempotency key of each question.
    questions: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    /// The file of each reply.
    fn replied_to(&self) -> Vec<String> {
        let posts = self.posts.lock().expect("no panic");
        posts
            .iter()
            .map(|post| post["metadata"]["event_payload"]["file"].as_str().expect("a file").to_owned())
            .collect()
    }
}

struct World {
    dynamo: Dynamo,
    clock: ManualClock,
    seen: Seen,
    relay: Relay,
    _server: tokio::task::JoinHandle<()>,
}

/// A classifier and a Slack, on one port.
async fn serve(seen: Seen) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let (asked, posted, read) = (seen.clone(), seen.clone(), seen);
    let classify = move |headers: axum::http::HeaderMap, Json(_): Json<Value>| async move {
        let key = headers["idempotency-key"].to_str().expect("text").to_owned();
        asked.questions.lock().expect("no panic").push(key);
        Json(json!({"label": "invoice", "confidence": 0.93}))
    };
    let post_message = move |Json(message): Json<Value>| async move {
        let mut posts = posted.posts.lock().expect("no panic");
        posts.push(message);
        Json(json!({"ok": true, "ts": format!("1800000000.{:06}", posts.len())}))
    };
    let replies = move |Query(asked): Query<Vec<(String, String)>>| async move {
        let of = |name: &str| asked.iter().find(|(each, _)| each == name).map(|(_, value)| value.clone());
        let posts = read.posts.lock().expect("no panic");
        let messages = posts
            .iter()
            .filter(|post| post["thread_ts"].as_str() == of("ts").as_deref())
            .map(|post| json!({"ts": "1800000000.000001", "metadata": post["metadata"]}));
        Json(json!({"ok": true, "messages": messages.collect::<Vec<_>>()}))
    };
    let app = Router::new()
        .route("/classify", post(classify))
        .route("/api/chat.postMessage", post(post_message))
        .route("/api/conversations.replies", get(replies));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap_or_default() });
    (address, server)
}

impl World {
    async fn new(outside: Outside) -> Self {
        let clock = ManualClock::new();
        let dynamo =
            Dynamo::start(&["infra/templates/slack.yaml"]).await.with_clock(&clock).with_outside(outside.clone());
        let seen = Seen::default();
        let (address, server) = serve(seen.clone()).await;
        let relay = Relay::start(&outside, address).await.expect("a relay");
        Self { dynamo, clock, seen, relay, _server: server }
    }

    /// A new instance of the function.
    fn slack_files(&self) -> SlackFiles {
        let clock = Arc::new(self.clock.clone());
        let (client, table) = (self.dynamo.client(), self.dynamo.table("ProcessedEventsTable"));
        let token = Source::Fixed(Secret::new("not-a-token"));
        let slack = WebApi::new(format!("{}/api", self.relay.url()), token).expect("a client");
        let slack = Paced::new(Arc::new(slack), Limits::new(&client, table, clock.clone()), clock.clone());
        let classifier = Classifier::new(format!("{}/classify", self.relay.url())).expect("a client");
        let effect = Arc::new(Classify { classifier, reply: Reply::new(Arc::new(slack), clock.clone()) });
        let history = History::new(&client, table, clock.clone());
        let table = ProcessedEvents::new(&client, table, Fallback::Closed, STORE, clock, telemetry::Watch);
        SlackFiles { table, history, effect, same_content: None }
    }

    /// One invocation.
    async fn run(&self, files: &[&str]) -> Result<(), String> {
        let upload: Upload = serde_json::from_value(json!({
            "event_key": "Ev1", "team": "T1", "channel": "C1", "ts": format!("{}.000100", testkit::clock::START_MS / 1000),
            "files": files.iter().map(|id| json!({"id": id, "name": format!("{id}.pdf")})).collect::<Vec<_>>(),
        }))
        .expect("an upload");
        let mut context = Context::default();
        context.deadline = (self.clock.now() + TIMEOUT).as_millis();
        self.slack_files().handle(&upload, &context).await.map(drop).map_err(|error| error.to_string())
    }
}

#[tokio::test]
async fn killed_at_each_call_and_run_again_one_answer_per_file_and_none_lost() {
    let files = ["F1", "F2"];
    let report = interrupt::at_every_call(
        async |outside: Outside| World::new(outside).await,
        async |world: &World| world.run(&files).await,
        async |world: &World| world.clock.advance(LATER),
        async |world: &World| {
            effects(world.seen.replied_to()).each_once(files);
            for post in world.seen.posts.lock().expect("no panic").iter() {
                assert_eq!(post["text"], "This looks like: invoice (93 %).");
            }
        },
    )
    .await;
    // Per file: the claim, the question, the post and the completion. Once: whether Slack limits the rate, and the history. Each
    // before and after.
    assert_eq!(report.stops, 2 * (4 * files.len() + 2));
}

#[tokio::test]
async fn every_attempt_at_a_file_asks_with_the_same_key() {
    let world = World::new(Outside::new()).await;
    world.run(&["F1"]).await.expect("done");
    world.run(&["F1"]).await.expect("done before");
    let questions = world.seen.questions.lock().expect("no panic").clone();
    assert_eq!(questions, [format!("FILE#T1#C1#{}.000100#F1", testkit::clock::START_MS / 1000)], "asked once");
}

#[test]
fn it_reads_every_variable_that_slack_files_reads() {
    let own = slack_classifier::FILES.variables;
    assert!(slack::FILES.variables.iter().all(|variable| own.contains(variable)));
    assert_eq!(slack_classifier::FILES.name, slack::FILES.name);
}
