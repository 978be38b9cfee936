//! kill -9 under load: no acknowledged write is missing, and every accepted invocation is carried out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::client::{aws, eventually, http};
use crate::support::process::Local;

/// How many writers there are, and how many acknowledgements of each kind there must be before the process is killed.
const WRITERS: u64 = 8;
const ENOUGH: usize = 60;

#[derive(Default)]
struct Acknowledged {
    written: Mutex<BTreeSet<String>>,
    accepted: Mutex<BTreeSet<String>>,
}

/// Invokes synchronously and asynchronously in turn, until the platform no longer answers.
async fn load(url: String, next: Arc<AtomicU64>, acknowledged: Arc<Acknowledged>) {
    let client = http();
    let invoke = |kind: &'static str, id: String| {
        let request = client.post(format!("{url}/2015-03-31/functions/workshop-note/invocations"));
        request.header("x-amz-invocation-type", kind).body(json!({ "id": id }).to_string()).send()
    };
    loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let (written, accepted) = (format!("sync-{number}"), format!("async-{number}"));
        match invoke("RequestResponse", written.clone()).await {
            Ok(response) => match response.json::<Value>().await {
                Ok(answer) if answer["result"] == "new" => acknowledged.written.lock().await.insert(written),
                _ => return,
            },
            Err(_) => return,
        };
        match invoke("Event", accepted.clone()).await {
            Ok(response) if response.status() == 202 => acknowledged.accepted.lock().await.insert(accepted),
            _ => return,
        };
    }
}

async fn ids(local: &Local) -> BTreeSet<String> {
    let (client, mut ids, mut from) = (aws(&local.dynamodb_url).dynamodb(), BTreeSet::new(), None);
    loop {
        let scan = client.scan().table_name("workshop-notes").consistent_read(true).set_exclusive_start_key(from);
        let page = scan.send().await.expect("a scan");
        ids.extend(page.items().iter().filter_map(|item| item.get("id")?.as_s().ok().cloned()));
        from = page.last_evaluated_key().cloned();
        if from.is_none() {
            return ids;
        }
    }
}

#[tokio::test]
async fn kill_9_under_load_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let acknowledged = Arc::new(Acknowledged::default());
    let next = Arc::new(AtomicU64::new(0));
    for _round in 0..3 {
        let local = Local::keeping(directory.path(), &[]);
        let before = acknowledged.written.lock().await.len();
        let writers: Vec<_> =
            (0..WRITERS).map(|_| tokio::spawn(load(local.url.clone(), next.clone(), acknowledged.clone()))).collect();
        eventually("enough writes", || async {
            (acknowledged.written.lock().await.len() >= before + ENOUGH).then_some(())
        })
        .await;
        local.kill();
        for writer in writers {
            writer.await.expect("a writer ends");
        }
    }
    let local = Local::keeping(directory.path(), &[]);
    let there = ids(&local).await;
    let written = acknowledged.written.lock().await;
    let lost: Vec<_> = written.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let accepted = acknowledged.accepted.lock().await;
    assert!(accepted.len() >= ENOUGH);
    eventually("everything accepted, carried out", || async {
        let there = ids(&local).await;
        accepted.difference(&there).next().is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_invocation_that_kill_9_interrupted_is_made_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &["--retry-scale=0"]);
    // It hangs until its timeout, so the process dies in the middle of it.
    local.invoke("workshop-mischief", "Event", json!({"do": "hang"})).await;
    local.kill();
    let local = Local::keeping(directory.path(), &["--retry-scale=0"]);
    eventually("the dead letter", || async {
        let queues = local.get("/_local/queues").await;
        (queues[0]["visible"] == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_invocation_that_waits_for_its_retry_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let local = Local::keeping(directory.path(), &["--retry-scale=0.05"]);
    local.invoke("workshop-mischief", "Event", json!({"do": "fail"})).await;
    eventually("the first failure", || async {
        let metrics = local.get("/_local/metrics").await;
        let errors = metrics.as_array()?.iter().find(|metric| metric["name"] == "Errors")?["sum"].as_f64()?;
        (errors >= 1.0).then_some(())
    })
    .await;
    local.kill();
    let local = Local::keeping(directory.path(), &["--retry-scale=0"]);
    let letter = eventually("the dead letter", || async {
        let sqs = crate::lambda::sqs(&local.url);
        let url = sqs.get_queue_url().queue_name("workshop-failures").send().await.ok()?.queue_url()?.to_owned();
        sqs.receive_message().queue_url(url).send().await.ok()?.messages().first().cloned()
    })
    .await;
    let record: Value = serde_json::from_str(letter.body().expect("a body")).expect("JSON");
    assert_eq!(record["requestContext"]["approximateInvokeCount"], 3, "the attempts before the restart count");
}
