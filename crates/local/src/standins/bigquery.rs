//! BigQuery, as far as sessync speaks to it: the emulator's, with the columns of `sessync schema`, mounted where
//! `BIGQUERY_EMULATOR_HOST` points.
//!
//! A batch is in the outbox if it brought rows that the table did not have; one whose rows `insertId` recognised had no effect.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use emulator::bigquery::{Column, Reply, StandIn as Tables};
use function::BoxFuture;
use http::Method;
use serde_json::{Value, json};
use sessync::schema::COLUMNS;

use crate::standins::{Answer, Request, StandIn};
use crate::world::outbox::Entry;

/// The stand-in.
#[derive(Debug)]
pub struct BigQuery {
    tables: Tables,
    /// New rows of the last batch. Read under the lock below, so that it is this request's.
    new: Arc<AtomicUsize>,
    /// One request at a time.
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
    /// The answer, and how many rows it brought.
    fn handle(&self, method: &str, path: &str, body: &[u8]) -> (Reply, usize) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
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
            let mut answer = Answer::of(reply.status, "application/json; charset=UTF-8", reply.body);
            answer.headers = reply.headers;
            if new > 0 { answer.with_effect(json!({ "rows": new })) } else { answer }
        })
    }

    fn refusal(&self, status: u16) -> Answer {
        let (reason, message) = match status {
            401 => ("authError", "Request had invalid authentication credentials."),
            403 => ("accessDenied", "Access Denied."),
            429 => ("rateLimitExceeded", "Exceeded rate limits."),
            _ => ("backendError", "Error encountered during execution. Retrying may solve the problem."),
        };
        let errors = json!([{"domain": "global", "reason": reason, "message": message}]);
        let answer = Answer::json(status, json!({"error": {"code": status, "message": message, "errors": errors}}));
        if status == 429 { answer.header("retry-after", "1") } else { answer }
    }

    fn restore(&self, accepted: &[Entry]) {
        for entry in accepted {
            let request: &Value = &entry.request;
            self.handle("POST", &entry.path, request.to_string().as_bytes());
        }
        // BigQuery forgets after a minute or so; a restart takes at least a moment of it.
        self.tables.forget_insert_ids();
    }
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
    fn a_refusal_is_worded_as_googles_apis_word_it() {
        let body: Value = serde_json::from_slice(&BigQuery::default().refusal(503).body).expect("JSON");
        assert_eq!(body["error"]["errors"][0]["reason"], "backendError");
    }
}
