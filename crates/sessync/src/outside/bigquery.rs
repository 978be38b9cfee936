//! The calls to BigQuery, and what its answers mean.
//!
//! [`Error::effect`] says of every failure which of three it is: nothing happened and trying again may help, nothing
//! happened and trying again does not help, or it is uncertain whether anything happened. Only after the last one
//! BigQuery must be asked which rows it has.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::escaped;
use super::transport::{self, Method, Request, Response, Transport};
use crate::clock::Time;

/// How many rows of a query's result are fetched per call.
const PAGE_ROWS: u32 = 10_000;
/// How long BigQuery may hold a query call before it answers that the query still runs.
const QUERY_WAIT_MS: u64 = 10_000;
/// How long a question or a statement may take that is not part of an upload.
pub(crate) const QUESTION: Duration = Duration::from_secs(120);
/// How much of an answer that is not understood is shown.
const SHOWN_BYTES: usize = 200;
/// The end of the year 9999, for a query without an upper bound.
const FOREVER_MS: i64 = 253_402_300_799_000;

/// What comes before and after the rows in the request of an insert.
pub(crate) const BEFORE_ROWS: &str =
    r#"{"kind":"bigquery#tableDataInsertAllRequest","skipInvalidRows":false,"ignoreUnknownValues":false,"rows":["#;
pub(crate) const AFTER_ROWS: &str = "]}";

/// The table that rows go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub project: String,
    pub dataset: String,
    pub table: String,
    pub location: String,
}

impl Table {
    /// The table's name in SQL.
    pub fn sql(&self) -> String {
        format!("`{}.{}.{}`", self.project, self.dataset, self.table)
    }
}

/// The queries. The stand-in for BigQuery answers these and no others.
mod sql {
    use super::Table;

    /// Which rows of these batches does it have?
    pub(super) fn rows_of_batches(table: &Table) -> String {
        format!(
            "SELECT uuid, COUNT(*) AS n FROM {} WHERE upload_batch_id IN UNNEST(@batches) \
             AND timestamp BETWEEN TIMESTAMP_MILLIS(@since) AND TIMESTAMP_MILLIS(@until) GROUP BY uuid",
            table.sql()
        )
    }

    /// Which rows of a developer and a project does it have?
    pub(super) fn rows_of_project(table: &Table) -> String {
        format!(
            "SELECT uuid, COUNT(*) AS n FROM {} WHERE timestamp >= TIMESTAMP_MILLIS(@since) \
             AND developer_id = @developer AND project_name = @project GROUP BY uuid",
            table.sql()
        )
    }

    /// Which rows of a developer in other projects does it have?
    pub(super) fn rows_of_other_projects(table: &Table) -> String {
        format!(
            "SELECT uuid, COUNT(*) AS n FROM {} WHERE timestamp >= TIMESTAMP_MILLIS(@since) \
             AND developer_id = @developer AND IFNULL(project_name, '') != @other_than GROUP BY uuid",
            table.sql()
        )
    }

    /// Is it there?
    pub(super) fn nothing(table: &Table) -> String {
        format!("SELECT 1 FROM {} LIMIT 0", table.sql())
    }

    /// Which rows since a time does it have?
    pub(super) fn rows_since(table: &Table) -> String {
        format!(
            "SELECT uuid, COUNT(*) AS n FROM {} WHERE timestamp >= TIMESTAMP_MILLIS(@since) GROUP BY uuid",
            table.sql()
        )
    }
}

/// The number of rows per uuid.
pub type Rows = BTreeMap<String, u64>;

/// The answer to an insert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    All,
    /// No row was inserted, because of these. The others could have been.
    None(Vec<RowError>),
}

/// Why a row was not inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    pub row: usize,
    /// `false`: it was stopped because of another row, or by a failure that passes.
    pub invalid: bool,
    pub why: String,
}

/// Whether a call that failed can have had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// No, and the same call may work later.
    NoneYet,
    /// No, and the same call would fail again.
    None,
    /// Perhaps.
    Uncertain,
}

/// What went wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("BigQuery cannot be reached: {0}; check the network and run sessync again")]
    NotSent(String),
    #[error("BigQuery did not answer: {0}; run sessync again, it will ask what arrived")]
    Lost(String),
    #[error("BigQuery failed (status {status}): {message}; run sessync again later, it will ask what arrived")]
    Server { status: u16, message: String },
    #[error("BigQuery asks to slow down: {message}; run sessync again later")]
    Throttled { message: String, after: Option<Duration> },
    #[error(
        "the BigQuery quota is used up: {0}; wait, or ask for more in the Google Cloud console (IAM & Admin, Quotas)"
    )]
    Quota(String),
    #[error("the request is too large for BigQuery; set a smaller `upload_batch_size` in the config")]
    TooLarge,
    #[error("BigQuery refuses the request: {0}; check that the table has the columns of `sessync schema`")]
    Refused(String),
    #[error("not signed in (401): {0}; check service_account_key_path, or run `gcloud auth application-default login`")]
    Unauthorized(String),
    #[error(
        "not permitted (403): {0}; the account needs the roles BigQuery Data Editor (on the dataset) and BigQuery Job User (on the project)"
    )]
    Forbidden(String),
    #[error(
        "the Google Cloud project has no billing (403): {0}; enable billing, without it BigQuery accepts no streamed rows"
    )]
    Billing(String),
    #[error(
        "there is no dataset {0}; create it with `bq mk --location=LOCATION --dataset {0}`, or correct `dataset` in the config"
    )]
    MissingDataset(String),
    #[error(
        "there is no table {0}; create it with `sessync schema --create` (a new table accepts rows after a minute or two)"
    )]
    MissingTable(String),
    #[error(
        "the table's columns are not those of `sessync schema`: {0}; add the missing columns, or use another table"
    )]
    Schema(String),
    #[error("BigQuery's answer cannot be understood: {0}; is BIGQUERY_EMULATOR_HOST or a proxy set to another server?")]
    Answer(String),
    #[error("BigQuery has more than {0} lines of this developer and project; use a `project_name` of its own")]
    TooMany(u64),
    #[error(transparent)]
    Credentials(super::auth::Error),
}

impl Error {
    /// Whether the call that failed can have had an effect.
    pub fn effect(&self) -> Effect {
        match self {
            Error::NotSent(_) | Error::Throttled { .. } => Effect::NoneYet,
            Error::Lost(_) | Error::Server { .. } | Error::Answer(_) => Effect::Uncertain,
            _ => Effect::None,
        }
    }

    /// Whether the same call would fail again, whatever effect this one had.
    pub fn is_final(&self) -> bool {
        matches!(self, Error::Answer(_)) || self.effect() == Effect::None
    }

    /// How long BigQuery asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Throttled { after, .. } => *after,
            _ => None,
        }
    }
}

impl From<transport::Error> for Error {
    fn from(error: transport::Error) -> Self {
        match error {
            transport::Error::NotSent(text) => Error::NotSent(text),
            transport::Error::Lost(text) => Error::Lost(text),
            transport::Error::Credentials(error) => Error::Credentials(error),
        }
    }
}

/// BigQuery, for one table.
#[derive(Debug)]
pub struct BigQuery<T> {
    transport: T,
    table: Table,
}

impl<T: Transport> BigQuery<T> {
    pub fn new(transport: T, table: Table) -> Self {
        BigQuery { transport, table }
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Inserts all rows or none. `rows` is their JSON list. `now` is needed for a date in `Retry-After`.
    pub async fn insert(&self, request: Bytes, now: Time, timeout: Duration) -> Result<Inserted, Error> {
        let Table { project, dataset, table, .. } = &self.table;
        let request = Request {
            method: Method::Post,
            path: format!(
                "/bigquery/v2/projects/{}/datasets/{}/tables/{}/insertAll",
                escaped(project),
                escaped(dataset),
                escaped(table)
            ),
            body: Some(request),
        };
        let answer = self.transport.call(request, timeout).await?;
        if answer.status != 200 {
            return Err(self.failure(&answer, now));
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            #[serde(default)]
            insert_errors: Vec<Errors>,
        }
        #[derive(Deserialize)]
        struct Errors {
            #[serde(default)]
            index: usize,
            #[serde(default)]
            errors: Vec<Reason>,
        }
        let answer: Answer = understood(&answer.body)?;
        if answer.insert_errors.is_empty() {
            return Ok(Inserted::All);
        }
        let mut row_errors = Vec::with_capacity(answer.insert_errors.len());
        for Errors { index, errors } in answer.insert_errors {
            let invalid = errors.iter().find(|error| error.reason == "invalid");
            if let Some(error) = invalid.filter(|error| error.message.starts_with("no such field")) {
                // Every row has the same columns, so the table is wrong and not the row.
                return Err(Error::Schema(error.text()));
            }
            row_errors.push(RowError {
                row: index,
                invalid: invalid.is_some(),
                why: errors.iter().map(Reason::text).collect::<Vec<_>>().join("; "),
            });
        }
        Ok(Inserted::None(row_errors))
    }

    /// Which rows of these batches BigQuery has.
    pub(crate) async fn rows_of_batches(
        &self,
        batches: &[&str],
        span: Option<(Time, Time)>,
        now: Time,
        timeout: Duration,
    ) -> Result<Rows, Error> {
        // One second more on either side: BigQuery keeps microseconds.
        let (since, until) = span.map_or((0, FOREVER_MS), |(since, until)| (since.0 - 1000, until.0 + 1000));
        let values: Vec<Value> = batches.iter().map(|batch| json!({"value": batch})).collect();
        let parameters = json!([
            {"name": "batches", "parameterType": {"type": "ARRAY", "arrayType": {"type": "STRING"}}, "parameterValue": {"arrayValues": values}},
            int64("since", since),
            int64("until", until),
        ]);
        self.rows(sql::rows_of_batches(&self.table), parameters, now, timeout).await
    }

    /// Calls `each` with the uuids since a time, and how many rows each has.
    pub(crate) async fn rows_since(
        &self,
        since: Time,
        now: Time,
        timeout: Duration,
        each: &mut (dyn FnMut(&str, u64) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        self.each_row(sql::rows_since(&self.table), json!([int64("since", since.0)]), now, timeout, each).await
    }

    /// Calls `each` with the uuids of one developer's rows in one project, and how many rows each has.
    pub(crate) async fn rows_of_project(
        &self,
        developer: &str,
        project: &str,
        now: Time,
        timeout: Duration,
        each: &mut (dyn FnMut(&str, u64) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        let parameters = json!([int64("since", 0), string("developer", developer), string("project", project)]);
        self.each_row(sql::rows_of_project(&self.table), parameters, now, timeout, each).await
    }

    /// Calls `each` with the uuids of one developer's rows since a time in all projects but one, and how many rows each
    /// has.
    pub(crate) async fn rows_of_other_projects(
        &self,
        developer: &str,
        project: &str,
        since: Time,
        now: Time,
        timeout: Duration,
        each: &mut (dyn FnMut(&str, u64) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        let parameters =
            json!([int64("since", since.0), string("developer", developer), string("other_than", project)]);
        self.each_row(sql::rows_of_other_projects(&self.table), parameters, now, timeout, each).await
    }

    /// Whether a table or a view is there and may be read. The answer is in the result: nothing is read.
    pub(crate) async fn is_there(&self, table: &Table, now: Time, timeout: Duration) -> Result<(), Error> {
        self.query(sql::nothing(table), json!([]), now, timeout, &mut |_| Ok(())).await
    }

    /// Runs a statement that has no result.
    pub async fn execute(&self, statement: &str, now: Time, timeout: Duration) -> Result<(), Error> {
        self.query(statement.to_owned(), json!([]), now, timeout, &mut |_| Ok(())).await
    }

    async fn rows(&self, sql: String, parameters: Value, now: Time, timeout: Duration) -> Result<Rows, Error> {
        let mut rows = Rows::new();
        self.each_row(sql, parameters, now, timeout, &mut |uuid, count| {
            rows.insert(uuid.to_owned(), count);
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    async fn each_row(
        &self,
        sql: String,
        parameters: Value,
        now: Time,
        timeout: Duration,
        each: &mut (dyn FnMut(&str, u64) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        self.query(sql, parameters, now, timeout, &mut |fields| {
            let [uuid, count] = fields else {
                return Err(Error::Answer("a row of the result does not have two columns".to_owned()));
            };
            let count = count.parse().map_err(|_| Error::Answer(format!("{count:?} is not a number")))?;
            each(uuid, count)
        })
        .await
    }

    async fn query(
        &self,
        sql: String,
        parameters: Value,
        now: Time,
        timeout: Duration,
        row: &mut (dyn FnMut(&[String]) -> Result<(), Error> + Send),
    ) -> Result<(), Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            #[serde(default)]
            job_complete: bool,
            job_reference: Option<Job>,
            #[serde(default)]
            rows: Vec<RowOfFields>,
            page_token: Option<String>,
            #[serde(default)]
            errors: Vec<Reason>,
        }
        #[derive(Deserialize, Clone)]
        #[serde(rename_all = "camelCase")]
        struct Job {
            job_id: String,
            location: Option<String>,
        }
        #[derive(Deserialize)]
        struct RowOfFields {
            f: Vec<Field>,
        }
        #[derive(Deserialize)]
        struct Field {
            v: Option<String>,
        }
        let project = escaped(&self.table.project);
        let mut request = Request {
            method: Method::Post,
            path: format!("/bigquery/v2/projects/{project}/queries"),
            body: Some(
                json!({
                    "query": sql, "useLegacySql": false, "useQueryCache": false, "location": self.table.location,
                    "timeoutMs": QUERY_WAIT_MS, "maxResults": PAGE_ROWS,
                    "parameterMode": "NAMED", "queryParameters": parameters,
                })
                .to_string()
                .into(),
            ),
        };
        let mut job: Option<Job> = None;
        loop {
            let answer = self.transport.call(request, timeout).await?;
            if answer.status != 200 {
                return Err(self.failure(&answer, now));
            }
            let answer: Answer = understood(&answer.body)?;
            if let Some(error) = answer.errors.first().filter(|_| !answer.job_complete) {
                return Err(Error::Refused(error.text()));
            }
            for fields in &answer.rows {
                let fields: Vec<String> = fields.f.iter().map(|field| field.v.clone().unwrap_or_default()).collect();
                row(&fields)?;
            }
            if answer.job_complete && answer.page_token.is_none() {
                return Ok(());
            }
            job = job.or(answer.job_reference);
            let Some(job) = &job else { return Err(Error::Answer("a query has no job".to_owned())) };
            let location = job.location.as_deref().unwrap_or(&self.table.location);
            let page = answer.page_token.map_or(String::new(), |token| format!("&pageToken={}", escaped(&token)));
            request = Request {
                method: Method::Get,
                path: format!(
                    "/bigquery/v2/projects/{project}/queries/{}?location={}&maxResults={PAGE_ROWS}&timeoutMs={QUERY_WAIT_MS}{page}",
                    escaped(&job.job_id),
                    escaped(location),
                ),
                body: None,
            };
        }
    }

    /// What an answer other than 200 means.
    fn failure(&self, answer: &Response, now: Time) -> Error {
        #[derive(Deserialize)]
        struct Body {
            error: Failure,
        }
        #[derive(Deserialize, Default)]
        struct Failure {
            #[serde(default)]
            message: String,
            #[serde(default)]
            errors: Vec<Reason>,
        }
        let failure = serde_json::from_slice::<Body>(&answer.body).map(|body| body.error).unwrap_or_default();
        let reason = failure.errors.first().map_or("", |error| error.reason.as_str());
        let message = match failure.message.is_empty() {
            true => format!("status {}", answer.status),
            false => failure.message.clone(),
        };
        let billing = message.to_ascii_lowercase();
        match (answer.status, reason) {
            (413, _) => Error::TooLarge,
            (429, _) | (403, "rateLimitExceeded") => Error::Throttled {
                message,
                after: answer.retry_after.as_deref().and_then(|text| http_client::parse_retry_after(text, now.into())),
            },
            (503, _) if answer.retry_after.is_some() && reason == "backendError" => {
                Error::Server { status: 503, message }
            }
            (401, _) => Error::Unauthorized(message),
            (403, "quotaExceeded") => Error::Quota(message),
            (403, "billingNotEnabled" | "billingTierLimitExceeded") => Error::Billing(message),
            (403, _) if billing.contains("billing") || billing.contains("free tier") => Error::Billing(message),
            (403, _) => Error::Forbidden(message),
            (404, _) if message.contains("Dataset") => {
                Error::MissingDataset(format!("{}:{}", self.table.project, self.table.dataset))
            }
            (404, _) => Error::MissingTable(self.table.sql()),
            (status @ (500.. | 408), _) => Error::Server { status, message },
            _ => Error::Refused(message),
        }
    }
}

/// The answer, or what came instead of one.
fn understood<'a, A: Deserialize<'a>>(body: &'a [u8]) -> Result<A, Error> {
    serde_json::from_slice(body).map_err(|error| {
        let start = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
        Error::Answer(format!("{error}; it begins with {start:?}"))
    })
}

#[derive(Deserialize)]
struct Reason {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    location: String,
}

impl Reason {
    fn text(&self) -> String {
        let Reason { reason, message, location } = self;
        match (location.is_empty(), message.is_empty()) {
            (_, true) => reason.clone(),
            (true, _) => format!("{reason}: {message}"),
            (false, _) => format!("{reason}: {message} ({location})"),
        }
    }
}

fn int64(name: &str, value: i64) -> Value {
    json!({"name": name, "parameterType": {"type": "INT64"}, "parameterValue": {"value": value.to_string()}})
}

fn string(name: &str, value: &str) -> Value {
    json!({"name": name, "parameterType": {"type": "STRING"}, "parameterValue": {"value": value}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Answers(u16, &'static str, Option<&'static str>);

    impl Transport for Answers {
        async fn call(&self, _: Request, _: Duration) -> Result<Response, transport::Error> {
            Ok(Response { status: self.0, body: self.1.into(), retry_after: self.2.map(str::to_owned) })
        }
    }

    fn insert(status: u16, body: &'static str, retry_after: Option<&'static str>) -> Result<Inserted, Error> {
        let table = Table { project: "p".into(), dataset: "d".into(), table: "t".into(), location: "US".into() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bigquery = BigQuery::new(Answers(status, body, retry_after), table);
        runtime.block_on(bigquery.insert(Bytes::from_static(b"{}"), Time(0), Duration::ZERO))
    }

    #[test]
    fn each_failure_has_its_own_error_and_says_whether_anything_may_have_happened() {
        type Is = fn(&Error) -> bool;
        let cases: [(u16, &str, Is, Effect); 11] = [
            (401, "{}", |e| matches!(e, Error::Unauthorized(_)), Effect::None),
            (
                403,
                r#"{"error":{"message":"Access Denied","errors":[{"reason":"accessDenied"}]}}"#,
                |e| matches!(e, Error::Forbidden(_)),
                Effect::None,
            ),
            (
                403,
                r#"{"error":{"message":"Streaming insert is not allowed in the free tier"}}"#,
                |e| matches!(e, Error::Billing(_)),
                Effect::None,
            ),
            (
                403,
                r#"{"error":{"message":"x","errors":[{"reason":"quotaExceeded"}]}}"#,
                |e| matches!(e, Error::Quota(_)),
                Effect::None,
            ),
            (
                403,
                r#"{"error":{"message":"x","errors":[{"reason":"rateLimitExceeded"}]}}"#,
                |e| matches!(e, Error::Throttled { .. }),
                Effect::NoneYet,
            ),
            (
                404,
                r#"{"error":{"message":"Not found: Dataset p:d"}}"#,
                |e| matches!(e, Error::MissingDataset(_)),
                Effect::None,
            ),
            (
                404,
                r#"{"error":{"message":"Not found: Table p:d.t"}}"#,
                |e| matches!(e, Error::MissingTable(_)),
                Effect::None,
            ),
            (413, "", |e| matches!(e, Error::TooLarge), Effect::None),
            (429, "", |e| matches!(e, Error::Throttled { .. }), Effect::NoneYet),
            (503, "oops", |e| matches!(e, Error::Server { status: 503, .. }), Effect::Uncertain),
            (200, "not json", |e| matches!(e, Error::Answer(_)), Effect::Uncertain),
        ];
        for (status, body, is, effect) in cases {
            let error = insert(status, body, None).unwrap_err();
            assert!(is(&error), "{status} {body}: {error:?}");
            assert_eq!(error.effect(), effect, "{status} {body}");
        }
    }

    #[test]
    fn invalid_rows_are_told_from_stopped_ones_and_a_wrong_table_from_a_wrong_row() {
        let body = r#"{"insertErrors":[{"index":0,"errors":[{"reason":"stopped"}]},{"index":1,"errors":[{"reason":"invalid","location":"timestamp","message":"bad"}]}]}"#;
        let Inserted::None(errors) = insert(200, body, None).unwrap() else { panic!("rows were inserted") };
        assert_eq!(errors.iter().map(|error| error.invalid).collect::<Vec<_>>(), [false, true]);
        assert_eq!(errors[1].why, "invalid: bad (timestamp)");
        let body = r#"{"insertErrors":[{"index":0,"errors":[{"reason":"invalid","message":"no such field: slug."}]}]}"#;
        assert!(matches!(insert(200, body, None), Err(Error::Schema(_))));
    }

    #[test]
    fn retry_after_may_be_seconds_or_a_date() {
        assert_eq!(insert(429, "", Some("7")).unwrap_err().retry_after(), Some(Duration::from_secs(7)));
        let date = insert(429, "", Some("Thu, 01 Jan 1970 00:00:09 GMT")).unwrap_err();
        assert_eq!(date.retry_after(), Some(Duration::from_secs(9)));
        assert_eq!(insert(429, "", Some("soon")).unwrap_err().retry_after(), None);
    }
}
