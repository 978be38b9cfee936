//! Feeds of a list, in the real binary: `--feeds FILE`.

use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};

use crate::support::client::{answer, http};
use crate::support::process::Local;

/// A feed on loopback that shows what the test wants.
#[derive(Clone, Default)]
struct Feed(Arc<Mutex<String>>);

impl Feed {
    async fn start(&self) -> String {
        let serve = |State(feed): State<Feed>| async move { feed.0.lock().expect("no panic").clone() };
        let app = Router::new().route("/feed.xml", get(serve)).with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/feed.xml", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, app).await });
        url
    }

    fn show(&self, entries: &[u32]) {
        let items: String = entries
            .iter()
            .map(|n| {
                format!("<item><guid>{n}</guid><title>Post {n}</title><link>https://blog.example/{n}</link></item>")
            })
            .collect();
        *self.0.lock().expect("no panic") = format!("<rss version=\"2.0\"><channel>{items}</channel></rss>");
    }
}

fn start(arguments: &[&str]) -> Local {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
    command.args(["--memory", "--no-demo", "--port=0", "--dynamodb-port=0", "--tls-port=0"]).args(arguments);
    Local::spawned(command)
}

fn list(directory: &std::path::Path, entries: &Value) -> String {
    let path = directory.join("feeds.json");
    std::fs::write(&path, entries.to_string()).expect("a file");
    format!("--feeds={}", path.display())
}

async fn run(local: &Local, name: &str) -> Value {
    answer(http().post(format!("{}/_local/schedules/{name}/run", local.url))).await.1
}

async fn sent(local: &Local, sink: &str) -> Vec<Value> {
    let all = local.get(&format!("/_local/outbox?sink={sink}")).await;
    all.as_array().expect("a list").iter().map(|entry| entry["request"].clone()).collect()
}

#[tokio::test]
async fn one_more_feed_is_posted_to_every_destination_once_whatever_fails_in_between() {
    let feed = Feed::default();
    let url = feed.start().await;
    feed.show(&[1]);
    let directory = tempfile::tempdir().expect("a directory");
    // The stand-in's address is known only after the start, and a list before it: so the port is chosen here.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let blog = json!({
        "name": "blog", "url": url, "period": "15 minutes", "text": "{title} {link}", "channel": "C0BLOG",
        "destinations": ["mastodon", "pushover", "slack", "webhook"],
        "webhook": {"url": format!("http://127.0.0.1:{port}/standins/webhook/blog")},
    });
    let file = list(directory.path(), &json!([blog]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_ichido-local"));
    let port = format!("--port={port}");
    command.args(["--memory", "--no-demo", &port, "--dynamodb-port=0", "--tls-port=0", &file]);
    let local = Local::spawned(command);

    let schedules = local.get("/_local/schedules").await;
    let names: Vec<&str> = schedules.as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    for name in ["github-subscriber", "hatebu-subscriber", "blog"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let first = run(&local, "blog").await;
    assert_eq!((&first["ok"], &first["result"]["entries"]), (&json!(true), &json!(1)), "{first}");
    assert!(sent(&local, "mastodon").await.is_empty(), "the first read only marks");

    feed.show(&[3, 2, 1]);
    let broken = json!({"mode": "accept_then_lose"});
    local.put_faults(json!({"slack": broken, "webhook": broken, "mastodon": {"mode": "refuse", "status": 503}})).await;
    let failed = run(&local, "blog").await;
    assert_eq!(failed["result"]["owed"], 2, "{failed}");
    local.put_faults(json!({})).await;
    let mut owed = Value::Null;
    for _ in 0..60 {
        owed = run(&local, "blog").await["result"]["owed"].clone();
        if owed == 0 {
            break;
        }
        // A claim whose answer was lost is held until its invocation would have ended.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(owed, 0);
    let expected = ["Post 2 https://blog.example/2", "Post 3 https://blog.example/3"];
    for (sink, member) in [("mastodon", "status"), ("slack", "text"), ("webhook", "text"), ("pushover", "message")] {
        let mut texts: Vec<String> =
            sent(&local, sink).await.iter().map(|it| it[member].as_str().unwrap_or_default().to_owned()).collect();
        texts.sort();
        assert_eq!(texts, expected, "{sink}");
    }
    assert_eq!(sent(&local, "slack").await[0]["channel"], "C0BLOG");
    let shown = local.get("/_local/feeds/blog").await;
    assert_eq!((&shown["total"], &shown["entries"][0]["id"]), (&json!(3), &json!("3")), "{shown}");
}

#[tokio::test]
async fn a_list_that_is_wrong_is_one_sentence_and_nothing_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let entry = |key: &str, value: Value| {
        let mut entry =
            json!({"name": "blog", "url": "https://x.example/", "period": "1 hour", "destinations": ["mastodon"]});
        entry[key] = value;
        json!([entry])
    };
    for (entries, said) in [
        (entry("perod", json!("x")), "entry 1 (blog): unknown field `perod`"),
        (entry("name", json!("github")), "built-in"),
        (entry("url", json!("http://192.168.1.1/feed")), "entry 1 (blog): url: "),
        (json!({}), "not a JSON array"),
    ] {
        let file = list(directory.path(), &entries);
        let output = Command::new(env!("CARGO_BIN_EXE_ichido-local"))
            .args(["--memory", "--port=0", "--dynamodb-port=0", "--tls-port=0", &file])
            .output();
        let output = output.expect("a process");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains(said), "{said} is not in {error}");
    }
}

#[tokio::test]
async fn a_link_local_address_is_not_asked_on_this_machine_either() {
    let local = start(&["--github-feed=http://169.254.169.254/latest/meta-data/"]);
    let ran = run(&local, "github-subscriber").await;
    assert_eq!(ran["error"]["errorType"], "Fetch", "{ran}");
    let local = start(&["--github-feed=https://10.1.2.3/feed"]);
    let ran = run(&local, "github-subscriber").await;
    let message = ran["error"]["errorMessage"].as_str().unwrap_or_default();
    assert!(message.contains("not on the public internet"), "{ran}");
}
