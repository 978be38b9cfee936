//! The part of BigQuery that sessync uses: the stand-in of `crates/emulator`, with the columns of `sessync schema`, at the path
//! that sessync uses with `BIGQUERY_EMULATOR_HOST`.
//!
//! The outbox lists a batch if it brought new rows. A batch whose rows were all recognised by their `insertId` had no effect.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use emulator::bigquery::{Column, Reply, StandIn as Tables, refusal};
use function::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use sessync::schema::COLUMNS;

use crate::standins::{Answer, Request, StandIn};
use crate::world::outbox::Entry;

/// The stand-in.
#[derive(Debug)]
pub(crate) struct BigQuery {
    tables: Tables,
    /// New rows of the last batch. Written and read under the lock below, so that it belongs to this request.
    new: Arc<AtomicUsize>,
    /// Lets one request in at a time.
    turn: Mutex<()>,
}

impl Default for BigQuery {
    fn default() -> Self {
        let new = Arc::new(AtomicUsize::new(0));
        let told = new.clone();
        let columns = COLUMNS.iter().map(|of| Column { name: of.name, kind: of.kind, required: of.required });
        let tables = Tables::new(0, columns).on_batch(Box::new(move |batch| told.store(batch.new, Ordering::SeqCst)));
        Self { tables, new, turn: Mutex::default() }
    }
}

impl BigQuery {
    /// The answer to a request, and how many new rows the request brought.
    fn handle(&self, method: &str, path: &str, body: &[u8]) -> (Reply, usize) {
        let _turn = telemetry::lock(&self.turn);
        self.new.store(0, Ordering::SeqCst);
        let reply = self.tables.handle(method, path, body);
        (reply, self.new.load(Ordering::SeqCst))
    }
}

impl StandIn for BigQuery {
    fn name(&self) -> &'static str {
        "bigquery"
    }

    fn mounts(&self) -> Vec<&'static str> {
        vec!["/bigquery/v2"]
    }

    fn asks_for_effect(&self, request: &Request) -> bool {
        request.method == Method::POST && request.path.ends_with("/insertAll")
    }

    fn answer(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let query: String =
                url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&request.query).finish();
            let path = if query.is_empty() { request.path.clone() } else { format!("{}?{query}", request.path) };
            let (reply, new) = self.handle(request.method.as_str(), &path, &request.raw);
            let answer = answered(reply);
            if new > 0 { answer.with_effect(json!({ "rows": new })) } else { answer }
        })
    }

    fn refusal(&self, status: u16) -> Answer {
        answered(refusal(status, (status == 429).then_some(1)))
    }

    fn restore(&self, accepted: &[Entry]) {
        for entry in accepted {
            let request: &Value = &entry.request;
            self.handle("POST", &entry.path, request.to_string().as_bytes());
        }
        // BigQuery forgets insertIds after about a minute, so after a restart they may be unknown.
        self.tables.forget_insert_ids();
    }
}

/// The reply of the emulator as the platform sends it.
fn answered(reply: Reply) -> Answer {
    let mut answer = Answer::of(reply.status, "application/json; charset=UTF-8", reply.body);
    answer.headers = reply.headers.into_iter().filter(|(name, _)| *name != "content-type").collect();
    answer
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    const INSERT: &str = "/bigquery/v2/projects/p/datasets/d/tables/t/insertAll";

    fn request(body: Value) -> Request {
        Request {
            method: Method::POST,
            path: INSERT.to_owned(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            raw: body.to_string().into(),
            body,
            now_ms: 0,
        }
    }

    #[tokio::test]
    async fn what_is_not_a_batch_of_rows_has_no_effect() {
        let answer = BigQuery::default().answer(request(json!({"rows": []}))).await;
        assert_eq!((answer.status, answer.effect), (400, None));
    }

    #[test]
    fn a_refusal_has_the_words_of_googles_apis() {
        let body: Value = serde_json::from_slice(&BigQuery::default().refusal(503).body).expect("JSON");
        assert_eq!(body["error"]["errors"][0]["reason"], "backendError");
    }
}
