//! A stand-in for BigQuery: the part of its HTTP API that sessync uses, as a function from request to reply.
//!
//! It keeps rows in memory, checks them against the given columns, and inserts either all rows of a request or none. On
//! request it has BigQuery's weaknesses: it forgets `insertId`s, loses answers after it accepted the rows, refuses requests,
//! or is slow. It knows the statements that sessync makes (`CREATE TABLE IF NOT EXISTS`, `CREATE OR REPLACE VIEW`,
//! `SELECT uuid, COUNT(*)`, `SELECT 1 FROM`) and refuses every other statement.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// BigQuery's limit for one request.
const MAX_REQUEST_BYTES: usize = 10 * 1024 * 1024;

/// The rows in one page of a query's result. There are few, so that tests exercise paging.
const PAGE_ROWS: usize = 1000;

/// A column of the stand-in's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `STRING`, `BOOL`, `TIMESTAMP` or `JSON`.
    pub kind: &'static str,
    /// Whether every row must have it.
    pub required: bool,
}

/// A fault of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request is refused with this status.
    Refuse { status: u16, retry_after: Option<u64> },
    /// The rows are accepted, but the answer does not arrive.
    AcceptThenLose,
    /// The connection breaks before any row is inserted.
    Lose,
    /// The answer takes this long.
    Slow(Duration),
}

/// Faults that stay until they are replaced.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// No `insertId` is remembered.
    pub forgetful: bool,
    /// A request with more rows than this gets status 413.
    pub max_rows: Option<usize>,
    /// A table must be created before it takes rows.
    pub strict_tables: bool,
    /// A request with a row whose uuid contains this is refused as a whole.
    pub refused_uuid: Option<String>,
    /// This share of the inserts meets this fault.
    pub inserts: Option<(Fault, f64)>,
}

/// A reply, and how the server around the stand-in must send it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// How long the server waits before it replies.
    pub delay: Duration,
    /// The server breaks the connection instead of replying.
    pub lost: bool,
}

/// One request to insert rows.
#[derive(Debug, Clone)]
pub struct Batch<'a> {
    pub project: &'a str,
    pub dataset: &'a str,
    pub table: &'a str,
    /// The request's body.
    pub request: &'a Value,
    /// How many of its rows are new to the table.
    pub new: usize,
    /// The status of the reply, also if the reply is lost; 0 if the request itself was lost.
    pub status: u16,
}

/// Called with each batch, accepted or refused.
pub type OnBatch = Box<dyn Fn(&Batch<'_>) + Send + Sync>;

/// The stand-in.
pub struct StandIn {
    columns: Vec<Column>,
    inner: Mutex<Inner>,
    on_batch: Option<OnBatch>,
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn").finish_non_exhaustive()
    }
}

struct Inner {
    tables: BTreeMap<String, Vec<Map<String, Value>>>,
    views: HashSet<String>,
    /// By table and `insertId`.
    remembered: HashSet<(String, String)>,
    faults: Faults,
    /// Faults of the next inserts, in order. They come before the lasting ones.
    next: VecDeque<Fault>,
    /// Faults of the next queries, in order.
    next_queries: VecDeque<Fault>,
    results: BTreeMap<String, Vec<(String, u64)>>,
    rng: fastrand::Rng,
    inserts: u64,
    queries: u64,
}

impl StandIn {
    /// Empty and without faults; every table has these columns. If only a share of the requests meets a fault, `seed` decides
    /// which ones.
    pub fn new(seed: u64, columns: impl IntoIterator<Item = Column>) -> StandIn {
        StandIn {
            columns: columns.into_iter().collect(),
            inner: Mutex::new(Inner {
                tables: BTreeMap::new(),
                views: HashSet::new(),
                remembered: HashSet::new(),
                faults: Faults::default(),
                next: VecDeque::new(),
                next_queries: VecDeque::new(),
                results: BTreeMap::new(),
                rng: fastrand::Rng::with_seed(seed),
                inserts: 0,
                queries: 0,
            }),
            on_batch: None,
        }
    }

    /// Calls `on_batch` with every batch.
    pub fn on_batch(mut self, on_batch: OnBatch) -> StandIn {
        self.on_batch = Some(on_batch);
        self
    }

    /// Replaces the lasting faults.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// From now on, a request with a row whose uuid contains this is refused as a whole. The answer does not name the row.
    pub fn refuse_rows_with(&self, uuid: &str) {
        self.lock().faults.refused_uuid = Some(uuid.to_owned());
    }

    /// Lets each of the next inserts meet one of these faults, in order.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().next.extend(faults);
    }

    /// Lets each of the next queries meet one of these faults, in order.
    pub fn fail_next_queries(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().next_queries.extend(faults);
    }

    /// Forgets every `insertId`, as BigQuery does after about a minute.
    pub fn forget_insert_ids(&self) {
        self.lock().remembered.clear();
    }

    /// The rows of a table, in the order of their arrival.
    pub fn rows(&self, dataset: &str, table: &str) -> Vec<Map<String, Value>> {
        let inner = self.lock();
        let suffix = format!(".{dataset}.{table}");
        inner.tables.iter().filter(|(name, _)| name.ends_with(&suffix)).flat_map(|(_, rows)| rows.clone()).collect()
    }

    /// How many inserts and how many queries there were.
    pub fn calls(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.inserts, inner.queries)
    }

    /// Drops all tables and forgets every `insertId`.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.tables.clear();
        inner.remembered.clear();
    }

    /// Answers one request. `path` may have a query.
    pub fn handle(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> =
            path.trim_start_matches("/bigquery/v2").split('/').filter(|part| !part.is_empty()).collect();
        match (method, parts.as_slice()) {
            ("POST", ["projects", project, "datasets", dataset, "tables", table, "insertAll"]) => {
                self.insert(project, dataset, table, body)
            }
            ("POST", ["projects", _, "queries"]) => self.query(body),
            ("GET", ["projects", _, "queries", job]) => {
                let page = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("pageToken="))
                    .and_then(|page| page.parse().ok());
                self.lock().page(job, page.unwrap_or(0))
            }
            _ => failure(404, "notFound", &format!("the stand-in for BigQuery does not answer {method} {path}")),
        }
    }

    fn insert(&self, project: &str, dataset: &str, table: &str, body: &[u8]) -> Reply {
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            return failure(400, "parseError", "the request is not JSON");
        };
        let mut inner = self.lock();
        inner.inserts += 1;
        let fault = inner.next.pop_front().or_else(|| {
            let (fault, rate) = inner.faults.inserts.clone()?;
            (inner.rng.f64() < rate).then_some(fault)
        });
        let name = format!("{project}.{dataset}.{table}");
        let (mut reply, new) = match &fault {
            Some(Fault::Refuse { status, retry_after }) => (refusal(*status, *retry_after), 0),
            Some(Fault::Lose) => (Reply { lost: true, ..reply(200, json!({})) }, 0),
            _ if body.len() > MAX_REQUEST_BYTES => {
                (failure(413, "uploadTooLarge", "Request payload size exceeds the limit: 10485760 bytes."), 0)
            }
            _ => inner.insert_rows(&name, &request, &self.columns),
        };
        drop(inner);
        let batch = Batch {
            project,
            dataset,
            table,
            request: &request,
            new,
            status: if fault == Some(Fault::Lose) { 0 } else { reply.status },
        };
        if let Some(on_batch) = &self.on_batch {
            on_batch(&batch);
        }
        match fault {
            Some(Fault::AcceptThenLose) => reply.lost = true,
            Some(Fault::Slow(delay)) => reply.delay = delay,
            _ => {}
        }
        reply
    }

    fn query(&self, body: &[u8]) -> Reply {
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            return failure(400, "parseError", "the request is not JSON");
        };
        let mut inner = self.lock();
        inner.queries += 1;
        let mut delay = Duration::ZERO;
        match inner.next_queries.pop_front() {
            Some(Fault::Refuse { status, retry_after }) => return refusal(status, retry_after),
            Some(Fault::Lose | Fault::AcceptThenLose) => return Reply { lost: true, ..reply(200, json!({})) },
            Some(Fault::Slow(time)) => delay = time,
            None => {}
        }
        Reply { delay, ..inner.answer(&request) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // After a panic elsewhere the tables may lack some rows of one request, but they are still usable.
        telemetry::lock(&self.inner)
    }
}

impl Inner {
    fn insert_rows(&mut self, name: &str, request: &Value, columns: &[Column]) -> (Reply, usize) {
        if self.faults.strict_tables && !self.tables.contains_key(name) {
            return (failure(404, "notFound", &format!("Not found: Table {name}")), 0);
        }
        let rows = request["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        if rows.is_empty() {
            return (failure(400, "invalid", "No rows present in the request."), 0);
        }
        if self.faults.max_rows.is_some_and(|max| rows.len() > max) {
            return (failure(413, "uploadTooLarge", "too many rows"), 0);
        }
        if let Some(refused) = &self.faults.refused_uuid
            && rows.iter().any(|row| row["json"]["uuid"].as_str().is_some_and(|uuid| uuid.contains(refused)))
        {
            return (failure(400, "invalid", "The request could not be read."), 0);
        }
        let wrong: Vec<Option<(String, String)>> = rows.iter().map(|row| check(&row["json"], columns)).collect();
        if wrong.iter().any(Option::is_some) {
            let errors: Vec<Value> = wrong
                .into_iter()
                .enumerate()
                .map(|(index, wrong)| match wrong {
                    Some((location, message)) => json!({"index": index, "errors": [
                        {"reason": "invalid", "location": location, "debugInfo": "", "message": message}]}),
                    None => json!({"index": index, "errors": [
                        {"reason": "stopped", "location": "", "debugInfo": "", "message": ""}]}),
                })
                .collect();
            let body = json!({"kind": "bigquery#tableDataInsertAllResponse", "insertErrors": errors});
            return (reply(200, body), 0);
        }
        let mut new = 0;
        for row in rows {
            let known = match (&row["insertId"], self.faults.forgetful) {
                (Value::String(id), false) => !self.remembered.insert((name.to_owned(), id.clone())),
                _ => false,
            };
            if let (false, Value::Object(columns)) = (known, &row["json"]) {
                self.tables.entry(name.to_owned()).or_default().push(columns.clone());
                new += 1;
            }
        }
        (reply(200, json!({"kind": "bigquery#tableDataInsertAllResponse"})), new)
    }

    fn answer(&mut self, request: &Value) -> Reply {
        let sql = request["query"].as_str().unwrap_or_default();
        let parameter = |name: &str| {
            let all = request["queryParameters"].as_array();
            all.and_then(|all| all.iter().find(|each| each["name"] == name)).map(|each| each["parameterValue"].clone())
        };
        let number = |name: &str| parameter(name).and_then(|value| value["value"].as_str()?.parse::<i64>().ok());
        let Some(table) = sql.split('`').nth(1).map(str::to_owned) else {
            return failure(
                400,
                "invalidQuery",
                "the stand-in for BigQuery knows only the statements that sessync makes",
            );
        };
        let complete = |rows: Vec<Value>| {
            reply(
                200,
                json!({"kind": "bigquery#queryResponse", "jobComplete": true, "totalRows": rows.len().to_string(), "rows": rows}),
            )
        };
        if sql.starts_with("CREATE TABLE IF NOT EXISTS") {
            self.tables.entry(table).or_default();
            return complete(Vec::new());
        }
        if sql.starts_with("CREATE OR REPLACE VIEW") {
            self.views.insert(table);
            return complete(Vec::new());
        }
        if sql.starts_with("SELECT 1 FROM") {
            let is_there =
                self.tables.contains_key(&table) || self.views.contains(&table) || !self.faults.strict_tables;
            return match is_there {
                true => complete(Vec::new()),
                false => failure(404, "notFound", &format!("Not found: Table {table}")),
            };
        }
        if !sql.starts_with("SELECT uuid, COUNT(*) AS n FROM") {
            return failure(
                400,
                "invalidQuery",
                "the stand-in for BigQuery knows only the statements that sessync makes",
            );
        }
        let Some(rows) = self.tables.get(&table).map(Vec::as_slice).or((!self.faults.strict_tables).then_some(&[]))
        else {
            return failure(404, "notFound", &format!("Not found: Table {table}"));
        };
        let batches: Option<Vec<String>> = parameter("batches").map(|value| {
            let values = value["arrayValues"].as_array().cloned().unwrap_or_default();
            values.iter().filter_map(|value| value["value"].as_str().map(str::to_owned)).collect()
        });
        let text = |name: &str| parameter(name).and_then(|value| value["value"].as_str().map(str::to_owned));
        let (developer, project, other_than) = (text("developer"), text("project"), text("other_than"));
        let (since, until) = (number("since").unwrap_or(i64::MIN), number("until").unwrap_or(i64::MAX));
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows {
            let column = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
            let at = millis(column("timestamp")).unwrap_or(0);
            let in_batch = batches.as_ref().is_none_or(|ids| ids.iter().any(|id| id == column("upload_batch_id")));
            let is = |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| wanted == column(name));
            let of_project = is("developer_id", &developer)
                && is("project_name", &project)
                && other_than.as_ref().is_none_or(|name| name != column("project_name"));
            if in_batch && of_project && (since..=until).contains(&at) {
                *counts.entry(column("uuid").to_owned()).or_default() += 1;
            }
        }
        let job = format!("job-{}", self.queries);
        self.results.insert(job.clone(), counts.into_iter().collect());
        self.page(&job, 0)
    }

    fn page(&mut self, job: &str, from: usize) -> Reply {
        let Some(all) = self.results.get(job) else { return failure(404, "notFound", "Not found: Job") };
        let until = from.saturating_add(PAGE_ROWS).min(all.len());
        let rows: Vec<Value> = all[from.min(until)..until]
            .iter()
            .map(|(uuid, count)| json!({"f": [{"v": uuid}, {"v": count.to_string()}]}))
            .collect();
        let mut body = json!({
            "kind": "bigquery#queryResponse", "jobComplete": true, "jobReference": {"jobId": job, "location": "US"},
            "totalRows": all.len().to_string(), "rows": rows,
        });
        if until < all.len() {
            body["pageToken"] = until.to_string().into();
        } else {
            self.results.remove(job);
        }
        reply(200, body)
    }
}

/// What is wrong with a row: where, and what.
fn check(row: &Value, columns: &[Column]) -> Option<(String, String)> {
    let Some(row) = row.as_object() else { return Some((String::new(), "the row is not an object".to_owned())) };
    for name in row.keys() {
        if !columns.iter().any(|column| column.name == name) {
            return Some((name.clone(), format!("no such field: {name}.")));
        }
    }
    for column in columns {
        let value = row.get(column.name).unwrap_or(&Value::Null);
        let wrong = match (value, column.kind) {
            (Value::Null, _) if column.required => Some(format!("Missing required field: {}.", column.name)),
            (Value::Null, _) => None,
            (Value::Bool(_), "BOOL") => None,
            (Value::String(text), "TIMESTAMP") if millis(text).is_none() => {
                Some(format!("Could not parse '{text}' as a timestamp."))
            }
            (Value::String(text), "JSON") if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() => {
                Some("Invalid JSON in a JSON column.".to_owned())
            }
            (Value::String(_), "STRING" | "TIMESTAMP" | "JSON") => None,
            _ => Some(format!("Cannot convert value to {}.", column.kind)),
        };
        if let Some(message) = wrong {
            return Some((column.name.to_owned(), message));
        }
    }
    None
}

/// The milliseconds since 1970 that an RFC 3339 text names.
fn millis(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond())
}

fn reply(status: u16, body: Value) -> Reply {
    let headers = vec![("content-type", "application/json".to_owned())];
    Reply { status, headers, body: body.to_string(), delay: Duration::ZERO, lost: false }
}

fn failure(status: u16, reason: &str, message: &str) -> Reply {
    let errors = json!([{"domain": "global", "reason": reason, "message": message}]);
    reply(status, json!({"error": {"code": status, "message": message, "errors": errors}}))
}

/// A refusal with this status, in BigQuery's words.
pub fn refusal(status: u16, retry_after: Option<u64>) -> Reply {
    let (reason, message) = match status {
        401 => ("authError", "Request had invalid authentication credentials."),
        403 => ("accessDenied", "Access Denied."),
        413 => ("uploadTooLarge", "Request payload size exceeds the limit."),
        429 => ("rateLimitExceeded", "Exceeded rate limits."),
        500.. => ("backendError", "Error encountered during execution. Retrying may solve the problem."),
        _ => ("invalid", "refused"),
    };
    let mut reply = failure(status, reason, message);
    if let Some(seconds) = retry_after {
        reply.headers.push(("retry-after", seconds.to_string()));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "/bigquery/v2/projects/p/datasets/d/tables/t/insertAll";

    fn stand_in() -> StandIn {
        let column = |name, kind, required| Column { name, kind, required };
        StandIn::new(0, [column("uuid", "STRING", true), column("timestamp", "TIMESTAMP", true)])
    }

    fn row(uuid: &str) -> Value {
        json!({"insertId": uuid, "json": {"uuid": uuid, "timestamp": "2026-01-01T00:00:00Z"}})
    }

    fn insert(stand_in: &StandIn, rows: &[Value]) -> Value {
        let reply = stand_in.handle("POST", TABLE, json!({ "rows": rows }).to_string().as_bytes());
        serde_json::from_str(&reply.body).unwrap()
    }

    #[test]
    fn one_row_that_does_not_fit_the_columns_refuses_all() {
        let stand_in = stand_in();
        for (wrong, message) in [
            (json!({"json": {"uuid": "b"}}), "Missing required field: timestamp."),
            (json!({"json": {"uuid": "b", "colour": "red"}}), "no such field: colour."),
            (json!({"json": {"uuid": "b", "timestamp": "noon"}}), "Could not parse 'noon' as a timestamp."),
            (json!({"json": "b"}), "the row is not an object"),
        ] {
            let answer = insert(&stand_in, &[row("a"), wrong]);
            assert_eq!(answer["insertErrors"][0]["errors"][0]["reason"], "stopped");
            assert_eq!(answer["insertErrors"][1]["errors"][0]["message"], message);
        }
        assert!(stand_in.rows("d", "t").is_empty());
    }

    #[test]
    fn an_insert_id_is_recognised_until_it_is_forgotten() {
        let stand_in = stand_in();
        insert(&stand_in, &[row("a")]);
        insert(&stand_in, &[row("a")]);
        assert_eq!(stand_in.rows("d", "t").len(), 1);
        stand_in.forget_insert_ids();
        insert(&stand_in, &[row("a")]);
        assert_eq!(stand_in.rows("d", "t").len(), 2);
    }

    #[test]
    fn what_it_does_not_understand_is_refused_and_no_request_makes_it_panic() {
        let stand_in = stand_in();
        let rows: Vec<Value> = (0..=PAGE_ROWS).map(|number| row(&number.to_string())).collect();
        insert(&stand_in, &rows);
        let query = |sql: &str| stand_in.handle("POST", "/bigquery/v2/projects/p/queries", sql.as_bytes());
        for sql in ["", "{}", r#"{"query": "SELECT 1"}"#, r#"{"query": "DROP TABLE `p.d.t`"}"#] {
            assert_eq!(query(sql).status, 400, "{sql}");
        }
        let page = query(r#"{"query": "SELECT uuid, COUNT(*) AS n FROM `p.d.t`"}"#);
        let page: Value = serde_json::from_str(&page.body).unwrap();
        assert_eq!(page["pageToken"], PAGE_ROWS.to_string());
        let job = page["jobReference"]["jobId"].as_str().unwrap();
        let last = format!("/bigquery/v2/projects/p/queries/{job}?pageToken={}", usize::MAX);
        assert_eq!(stand_in.handle("GET", &last, b"").status, 200);
        assert_eq!(stand_in.handle("GET", "/bigquery/v2/nothing", b"").status, 404);
    }
}
