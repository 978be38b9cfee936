//! The functions' log lines, from CloudWatch Logs or from the local platform, which answers the same calls.

use std::ops::Range;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use function::aws::call::{self, Name};
use ichido::{Clock as _, SystemClock, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::pages::{self, Page};

use crate::context::{Context, Error, failed};

/// How far back the attempts of a dead letter are searched: it is kept for 14 days.
pub(crate) const DAYS_OF_LETTERS: Duration = Duration::from_secs(15 * 24 * 60 * 60);
/// How many lines one search of one function returns, about.
pub(crate) const MOST_LINES: usize = 1_000;
/// How many pages one search reads at most. A page may be empty although there are more.
const MOST_PAGES: usize = 50;
/// AWS's code for a log group that does not exist.
const NO_GROUP: &str = "ResourceNotFoundException";

/// Fields that a line for people leaves out: it shows them already, or they tell an operator nothing.
const LEFT_OUT: [&str; 10] = [
    "timestamp",
    "level",
    "message",
    "function",
    "requestId",
    "traceId",
    "target",
    "strength",
    "dynamodbLatency",
    "fallbackMode",
];

/// A log line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub at: Timestamp,
    /// The line as the function wrote it.
    pub fields: Value,
}

impl Line {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields[name].as_str()
    }

    /// The time, the function, the message, and the other fields.
    pub(crate) fn for_people(&self) -> String {
        let text = |name: &str| self.text(name).unwrap_or_default();
        let level = match text("level") {
            "WARN" | "ERROR" => format!("{} ", text("level")),
            _ => String::new(),
        };
        let mut line = format!("{}  {:<18} {level}{}", text("timestamp"), text("function"), text("message"));
        if self.fields["fallbackMode"] == true {
            line.push_str("  (the store was down)");
        }
        for (name, value) in self.fields.as_object().into_iter().flatten() {
            match value {
                _ if LEFT_OUT.contains(&name.as_str()) => {}
                Value::Null => {}
                Value::String(text) => line.push_str(&format!("  {name}={text}")),
                other => line.push_str(&format!("  {name}={other}")),
            }
        }
        line
    }
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    /// Oldest first.
    pub lines: Vec<Line>,
    /// Whether these are all. If not, the newest are missing: AWS gives the oldest first.
    pub whole: bool,
}

/// The log lines of some functions that contain this text. Lines of metrics are left out.
pub(crate) async fn find(
    context: &Context<'_>,
    functions: &[&str],
    text: &str,
    within: Range<Timestamp>,
) -> Result<Found, Error> {
    let pattern = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut found = Found { lines: Vec::new(), whole: true };
    for function in functions {
        let group = format!("/aws/lambda/{function}{}", context.suffix()?);
        let of = of_group(context, &group, &pattern, &within).await?;
        found.lines.extend(of.lines);
        found.whole &= of.whole;
    }
    found.lines.sort_by_key(|line| line.at);
    Ok(found)
}

/// The time from so long ago until now, and a little longer: the clock of AWS may be ahead.
pub(crate) fn since(age: Duration) -> Range<Timestamp> {
    let now = SystemClock.now();
    now.saturating_sub(age)..now + Duration::from_secs(60)
}

async fn of_group(
    context: &Context<'_>,
    group: &str,
    pattern: &str,
    within: &Range<Timestamp>,
) -> Result<Found, Error> {
    let logs = context.logs();
    let millis = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or_default();
    let (mut lines, mut next) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let times = millis(within.start)..millis(within.end);
        let (events, token) = match logs.filter(group, pattern, times, next.take()).await {
            Ok(page) => page,
            // A function that never ran has no log group.
            Err(error) if error.code() == Some(NO_GROUP) => return Ok(Found { lines, whole: true }),
            Err(error) => {
                return Err(failed(
                    format!(
                        "could not read the log group {group}; check --env and the permission logs:FilterLogEvents"
                    ),
                    error,
                ));
            }
        };
        for event in events {
            let text = event.message.unwrap_or_default();
            let fields: Value = serde_json::from_str(&text).unwrap_or_default();
            if fields.is_object() && fields.get("FunctionName").is_none() {
                let at = Timestamp::from_millis(event.timestamp.and_then(|at| at.try_into().ok()).unwrap_or_default());
                lines.push(Line { at, fields });
            }
        }
        next = token;
        if next.is_none() {
            return Ok(Found { lines, whole: true });
        }
        if lines.len() >= MOST_LINES {
            break;
        }
    }
    Ok(Found { lines, whole: false })
}

// -------------------------------------------------------------------------------------------------------------------- the service

/// CloudWatch Logs.
#[derive(Debug, Clone)]
pub(crate) struct Logs(SdkConfig);

#[derive(Debug, Deserialize)]
struct Event {
    /// Epoch milliseconds.
    timestamp: Option<i64>,
    message: Option<String>,
}

/// A log group.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    #[serde(rename = "logGroupName", default)]
    pub name: String,
    /// How long it keeps its lines; for ever if nothing is said.
    pub retention_in_days: Option<i32>,
}

/// What Logs Insights says about a query.
#[derive(Debug, Deserialize)]
pub(crate) struct Answered {
    /// `Complete` at the end; before it `Scheduled` and `Running`.
    pub status: Option<String>,
    results: Option<Vec<Vec<Field>>>,
}

#[derive(Debug, Deserialize)]
struct Field {
    field: Option<String>,
    value: Option<String>,
}

/// A row that Logs Insights found.
#[derive(Debug)]
pub(crate) struct Row(Vec<Field>);

impl Answered {
    pub(crate) fn rows(self) -> impl Iterator<Item = Row> {
        self.results.unwrap_or_default().into_iter().map(Row)
    }
}

impl Row {
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|field| field.field.as_deref() == Some(name))?.value.as_deref()
    }
}

impl Logs {
    pub(crate) fn new(config: &SdkConfig) -> Self {
        Self(config.clone())
    }

    /// A page of the lines of a group that fit a pattern, between two times in epoch milliseconds.
    async fn filter(
        &self,
        group: &str,
        pattern: &str,
        within: Range<i64>,
        next: Option<String>,
    ) -> Result<Page<Event>, call::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Filtered {
            events: Option<Vec<Event>>,
            next_token: Option<String>,
        }
        let request = json!({
            "logGroupName": group, "filterPattern": pattern, "startTime": within.start, "endTime": within.end,
        });
        let page: Filtered = self.call("FilterLogEvents", &pages::after(request, "nextToken", next)).await?;
        Ok((page.events.unwrap_or_default(), page.next_token))
    }

    /// The groups whose names begin like this.
    pub(crate) async fn groups(&self, prefix: &str) -> Result<Vec<Group>, call::Error> {
        pages::all(|next| self.page_of_groups(prefix, next)).await
    }

    async fn page_of_groups(&self, prefix: &str, next: Option<String>) -> Result<Page<Group>, call::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Described {
            log_groups: Option<Vec<Group>>,
            next_token: Option<String>,
        }
        let request = pages::after(json!({ "logGroupNamePrefix": prefix }), "nextToken", next);
        let page: Described = self.call("DescribeLogGroups", &request).await?;
        Ok((page.log_groups.unwrap_or_default(), page.next_token))
    }

    /// Gives Logs Insights a query over some groups, between two times in epoch seconds. Returns the id of the query.
    pub(crate) async fn start_query(
        &self,
        groups: &[String],
        query: &str,
        within: Range<i64>,
    ) -> Result<String, call::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Started {
            query_id: Option<String>,
        }
        let request = json!({
            "logGroupNames": groups, "startTime": within.start, "endTime": within.end, "queryString": query,
        });
        let started: Started = self.call("StartQuery", &request).await?;
        Ok(started.query_id.unwrap_or_default())
    }

    /// What Logs Insights has found so far.
    pub(crate) async fn query_results(&self, id: &str) -> Result<Answered, call::Error> {
        self.call("GetQueryResults", &json!({ "queryId": id })).await
    }

    /// Sets how long a group keeps its lines.
    pub(crate) async fn keep(&self, group: &str, days: i32) -> Result<(), call::Error> {
        let _: Value =
            self.call("PutRetentionPolicy", &json!({"logGroupName": group, "retentionInDays": days})).await?;
        Ok(())
    }

    async fn call<T: DeserializeOwned>(&self, operation: &'static str, request: &Value) -> Result<T, call::Error> {
        call::json(&self.0, Name { service: "logs", operation }, "Logs_20140328", request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Shared;
    use crate::outside::captured::Service;

    const GROUP: &str = "/aws/lambda/slack-events";

    async fn search(service: &Service) -> Result<Found, Error> {
        let mut out = Vec::new();
        let aws = function::Aws::new(service.config("ap-northeast-1"));
        let within = Timestamp::from_millis(1_000)..Timestamp::from_millis(2_000);
        of_group(&Context::with(&Shared::default(), aws, &mut out), GROUP, "\"Ev1\"", &within).await
    }

    #[tokio::test]
    async fn lines_are_searched_page_by_page() {
        let service = Service::answering(&[
            (200, r#"{"events": [], "nextToken": "t", "searchedLogStreams": []}"#),
            (
                200,
                r#"{"events": [{"timestamp": 1500, "message": "{\"message\": \"a\"}"}, {"timestamp": 1, "message": "no JSON"}]}"#,
            ),
        ]);
        let found = search(&service).await.unwrap();
        assert_eq!((found.lines.len(), found.whole, found.lines[0].at), (1, true, Timestamp::from_millis(1_500)));
        let [first, second] = &service.sent()[..] else { panic!("two requests") };
        assert_eq!(first.address, "https://logs.ap-northeast-1.amazonaws.com/");
        assert_eq!(first.signed_for(), ("ap-northeast-1", "logs"));
        assert_eq!(first.header("x-amz-target"), "Logs_20140328.FilterLogEvents");
        let mut asked =
            json!({"logGroupName": GROUP, "filterPattern": "\"Ev1\"", "startTime": 1_000, "endTime": 2_000});
        assert_eq!(first.json(), asked);
        asked["nextToken"] = json!("t");
        assert_eq!(second.json(), asked);
    }

    #[tokio::test]
    async fn a_group_that_is_not_there_has_no_lines_and_one_that_may_not_be_read_is_an_error() {
        let missing =
            r#"{"__type": "ResourceNotFoundException", "message": "The specified log group does not exist."}"#;
        let found = search(&Service::answering(&[(400, missing)])).await.unwrap();
        assert!(found.lines.is_empty() && found.whole);
        let denied = r#"{"__type": "AccessDeniedException", "message": "not you"}"#;
        let error = search(&Service::answering(&[(400, denied)])).await.unwrap_err();
        assert!(error.to_string().contains("check --env and the permission logs:FilterLogEvents"), "{error}");
    }

    #[tokio::test]
    async fn groups_queries_and_retention_are_asked_for_as_aws_expects() {
        let service = Service::answering(&[
            (200, r#"{"logGroups": [{"logGroupName": "/a", "retentionInDays": 30}], "nextToken": "t"}"#),
            (200, r#"{"logGroups": [{"logGroupName": "/ab"}]}"#),
            (200, r#"{"queryId": "q"}"#),
            (200, r#"{"status": "Complete", "results": [[{"field": "new", "value": "3"}, {"field": "@ptr"}]]}"#),
            (200, ""),
        ]);
        let logs = Logs::new(&service.config("ap-northeast-1"));
        let groups = logs.groups("/a").await.unwrap();
        let groups: Vec<_> = groups.iter().map(|group| (group.name.as_str(), group.retention_in_days)).collect();
        assert_eq!(groups, [("/a", Some(30)), ("/ab", None)]);
        assert_eq!(logs.start_query(&["/a".to_owned()], "stats 1", 60..120).await.unwrap(), "q");
        let answered = logs.query_results("q").await.unwrap();
        assert_eq!(answered.status.as_deref(), Some("Complete"));
        let rows: Vec<Row> = answered.rows().collect();
        assert_eq!((rows.len(), rows[0].value("new"), rows[0].value("@ptr")), (1, Some("3"), None));
        logs.keep("/a", 14).await.unwrap();
        let sent: Vec<_> =
            service.sent().iter().map(|sent| (sent.header("x-amz-target").to_owned(), sent.json())).collect();
        let of = |operation: &str, body: Value| (format!("Logs_20140328.{operation}"), body);
        let query = json!({"logGroupNames": ["/a"], "startTime": 60, "endTime": 120, "queryString": "stats 1"});
        assert_eq!(
            sent,
            [
                of("DescribeLogGroups", json!({"logGroupNamePrefix": "/a"})),
                of("DescribeLogGroups", json!({"logGroupNamePrefix": "/a", "nextToken": "t"})),
                of("StartQuery", query),
                of("GetQueryResults", json!({"queryId": "q"})),
                of("PutRetentionPolicy", json!({"logGroupName": "/a", "retentionInDays": 14})),
            ]
        );
    }
}
