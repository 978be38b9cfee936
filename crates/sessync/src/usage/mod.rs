//! How many tokens were used, and what they cost.
//!
//! Claude Code writes one response of the API as several lines, each with the usage so far, and a resumed session
//! copies them into another file. A sum over lines counts tokens two times and more. So the usage of a response
//! is that of its last line, and a response is a message id and a request id. The view of `sessync schema` does the
//! same in SQL ([`crate::schema`]).
//!
//! The Codex CLI writes how many tokens a session has used so far, again and again (`token_count`), and before them the
//! model of the turn (`turn_context`). What one event adds to the one before it is counted as one response.

pub(crate) mod page;
pub(crate) mod prices;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::source::codex::USER_TYPE as CODEX;
use crate::source::line::{Line, hash};

/// Models that stand for no call of the API.
const SYNTHETIC: &str = "<synthetic>";

/// The tokens of one response, or a sum of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tokens {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    /// Both kinds.
    pub(crate) cache_creation_tokens: u64,
    /// Those of them that are kept for an hour, which costs more.
    #[serde(skip)]
    pub(crate) hour_tokens: u64,
}

impl Tokens {
    fn add(&mut self, other: &Tokens) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_creation_tokens = self.cache_creation_tokens.saturating_add(other.cache_creation_tokens);
        self.hour_tokens = self.hour_tokens.saturating_add(other.hour_tokens);
    }
}

impl Tokens {
    /// What was added since. If less was used than before, the count has begun anew.
    fn since(&self, before: &Tokens) -> Tokens {
        let is_less = self.input_tokens < before.input_tokens
            || self.output_tokens < before.output_tokens
            || self.cache_read_tokens < before.cache_read_tokens;
        if is_less {
            return *self;
        }
        Tokens {
            input_tokens: self.input_tokens - before.input_tokens,
            output_tokens: self.output_tokens - before.output_tokens,
            cache_read_tokens: self.cache_read_tokens - before.cache_read_tokens,
            ..Tokens::default()
        }
    }
}

/// One response of the API.
#[derive(Debug, Clone)]
struct Response {
    at: Time,
    project: String,
    model: String,
    subagent: bool,
    tokens: Tokens,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation: Option<Created>,
}

#[derive(Deserialize, Default)]
struct Created {
    #[serde(default)]
    ephemeral_5m_input_tokens: Option<u64>,
    #[serde(default)]
    ephemeral_1h_input_tokens: Option<u64>,
}

/// Collects the usage of lines.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    responses: HashMap<u128, Response>,
    /// By the session of Codex: its last model, and what it had used by then.
    sessions: HashMap<String, (String, Tokens)>,
}

/// What a line of Codex says of usage.
#[derive(Deserialize)]
struct CodexEvent {
    model: Option<String>,
    info: Option<CodexInfo>,
}

#[derive(Deserialize)]
struct CodexInfo {
    total_token_usage: Option<CodexUsage>,
}

#[derive(Deserialize)]
struct CodexUsage {
    #[serde(default)]
    input_tokens: u64,
    /// A part of the input.
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

impl Collector {
    /// Takes a line. Most lines have no usage.
    pub(crate) fn line(&mut self, line: &Line<'_>) {
        if line.user_type.as_deref() == Some(CODEX) {
            return self.codex(line);
        }
        if line.kind != "assistant" {
            return;
        }
        let Some(message) = line.message.and_then(|json| serde_json::from_str::<Message>(json).ok()) else { return };
        let (Some(usage), Some(at)) = (message.usage, Time::parse(&line.timestamp)) else { return };
        let model = message.model.unwrap_or_else(|| "unknown".to_owned());
        if model == SYNTHETIC {
            return;
        }
        let created = usage.cache_creation.unwrap_or_default();
        let hour = created.ephemeral_1h_input_tokens.unwrap_or(0);
        let five_minutes = created.ephemeral_5m_input_tokens.unwrap_or(0);
        let tokens = Tokens {
            input_tokens: usage.input_tokens.unwrap_or(0),
            output_tokens: usage.output_tokens.unwrap_or(0),
            cache_read_tokens: usage.cache_read_input_tokens.unwrap_or(0),
            // Older versions write only the sum, newer ones both.
            cache_creation_tokens: usage.cache_creation_input_tokens.unwrap_or(hour.saturating_add(five_minutes)),
            hour_tokens: hour,
        };
        let id = message.id.as_deref().unwrap_or(&line.uuid);
        let request = line.request_id.as_deref().unwrap_or("");
        let key = u128::from(hash(id.as_bytes())) << 64 | u128::from(hash(request.as_bytes()));
        let response = Response {
            at,
            project: project(line),
            model,
            subagent: line.is_sidechain == Some(true) || line.agent_id.is_some(),
            tokens,
        };
        match self.responses.get_mut(&key) {
            // The last line has the final usage; of two of the same time, the one with more.
            Some(known) if (known.at, known.tokens.output_tokens) > (at, tokens.output_tokens) => {}
            Some(known) => *known = response,
            None => {
                self.responses.insert(key, response);
            }
        }
    }

    fn codex(&mut self, line: &Line<'_>) {
        let says_model = line.message.is_some_and(|json| memchr::memmem::find(json.as_bytes(), b"\"model\"").is_some());
        if line.kind != "token_count" && !says_model {
            return;
        }
        let Some(event) = line.message.and_then(|json| serde_json::from_str::<CodexEvent>(json).ok()) else { return };
        let unknown = || ("codex".to_owned(), Tokens::default());
        let (model, before) = self.sessions.entry(line.session_id.clone().into_owned()).or_insert_with(unknown);
        if let Some(named) = event.model {
            *model = named;
        }
        let usage = event.info.filter(|_| line.kind == "token_count").and_then(|info| info.total_token_usage);
        let (Some(usage), Some(at)) = (usage, Time::parse(&line.timestamp)) else { return };
        let total = Tokens {
            input_tokens: usage.input_tokens.saturating_sub(usage.cached_input_tokens),
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cached_input_tokens,
            ..Tokens::default()
        };
        let added = total.since(before);
        *before = total;
        if added == Tokens::default() {
            return;
        }
        let key = u128::from(hash(line.uuid.as_bytes())) << 64;
        let response = Response { at, project: project(line), model: model.clone(), subagent: false, tokens: added };
        // A line that a resumed session repeats has the same uuid.
        self.responses.entry(key).or_insert(response);
    }

    /// The sums by day, project and model.
    pub(crate) fn report(&self) -> Report {
        let mut days: BTreeMap<(String, String, String), Row> = BTreeMap::new();
        let mut total = Row::default();
        for response in self.responses.values() {
            let day: String = response.at.to_string().chars().take(10).collect();
            let key = (day, response.project.clone(), response.model.clone());
            let cost = prices::cost(&response.model, response.at, &response.tokens);
            for row in [days.entry(key).or_default(), &mut total] {
                row.responses += 1;
                row.tokens.add(&response.tokens);
                match cost {
                    Some(cost) => row.cost += cost,
                    None => row.unpriced += 1,
                }
                if response.subagent {
                    row.subagents.add(&response.tokens);
                }
            }
        }
        let named = |((day, project, model), row): ((String, String, String), Row)| Day { day, project, model, row };
        Report { days: days.into_iter().map(named).collect(), total }
    }
}

/// The project of a line: the name of its directory.
fn project(line: &Line<'_>) -> String {
    let directory = line.cwd.as_deref().unwrap_or("unknown");
    directory.trim_end_matches('/').rsplit('/').next().unwrap_or(directory).to_owned()
}

/// What was used.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) days: Vec<Day>,
    pub(crate) total: Row,
}

/// What one model used for one project on one day (UTC).
#[derive(Debug, Serialize)]
pub(crate) struct Day {
    pub(crate) day: String,
    pub(crate) project: String,
    pub(crate) model: String,
    #[serde(flatten)]
    pub(crate) row: Row,
}

/// Sums.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) responses: u64,
    #[serde(flatten)]
    pub(crate) tokens: Tokens,
    /// What of it sub-agents used.
    pub(crate) subagents: Tokens,
    #[serde(rename = "cost_usd", serialize_with = "prices::as_dollars")]
    pub(crate) cost: prices::Cost,
    /// Responses of models without a known price. Their cost is not in the sum.
    pub(crate) unpriced: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::source::line;

    /// A line of a response, with these values instead of the usual ones.
    fn response(id: &str, request: Option<&str>, at: &str, usage: Value, more: Value) -> String {
        let mut line = json!({
            "uuid": format!("{id}-{at}"), "timestamp": at, "sessionId": "s", "type": "assistant", "cwd": "/src/app", "requestId": request,
            "message": {"id": id, "role": "assistant", "model": "claude-sonnet-4-5-20250929", "usage": usage, "content": []},
        });
        for (key, value) in more.as_object().unwrap() {
            line[key] = value.clone();
        }
        line.to_string()
    }

    fn report(lines: &[String]) -> Report {
        let mut collector = Collector::default();
        for text in lines {
            if let Ok(line) = line::parse(text.as_bytes()) {
                collector.line(&line);
            }
        }
        collector.report()
    }

    const AT: [&str; 3] = ["2026-11-01T10:00:00.000Z", "2026-11-01T10:00:01.000Z", "2026-11-01T10:00:02.000Z"];

    fn usage(output: u64) -> Value {
        json!({"input_tokens": 10, "output_tokens": output, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000})
    }

    #[test]
    fn a_response_of_several_lines_counts_once_with_its_last_usage() {
        let lines =
            [(0, 1), (1, 1), (2, 50)].map(|(at, output)| response("m1", Some("r1"), AT[at], usage(output), json!({})));
        let total = report(&lines).total;
        assert_eq!((total.responses, total.tokens.input_tokens, total.tokens.output_tokens), (1, 10, 50));
        assert_eq!((total.tokens.cache_read_tokens, total.tokens.cache_creation_tokens), (1000, 100));
        // In any order, because a resumed session can be read first.
        let mut turned = lines.to_vec();
        turned.reverse();
        assert_eq!(report(&turned).total.tokens, total.tokens);
    }

    #[test]
    fn lines_that_a_resumed_session_repeats_are_not_counted_again() {
        let line = response("m1", Some("r1"), AT[0], usage(5), json!({}));
        let copy = response("m1", Some("r1"), AT[0], usage(5), json!({"sessionId": "resumed", "uuid": "another"}));
        assert_eq!(report(&[line, copy]).total.tokens.output_tokens, 5);
    }

    #[test]
    fn the_same_message_id_in_another_request_is_another_response() {
        let lines = ["r1", "r2"].map(|request| response("m1", Some(request), AT[0], usage(5), json!({})));
        assert_eq!(report(&lines).total.responses, 2);
    }

    #[test]
    fn without_a_request_id_the_message_id_decides_and_without_both_the_line_does() {
        let lines = [0, 1].map(|at| response("m1", None, AT[at], usage(5), json!({})));
        assert_eq!(report(&lines).total.responses, 1);
        let bare = |uuid: &str| {
            response(
                "x",
                None,
                AT[0],
                usage(5),
                json!({"uuid": uuid, "message": {"model": "claude-opus-4-1", "usage": usage(5)}}),
            )
        };
        assert_eq!(report(&[bare("u1"), bare("u2")]).total.responses, 2);
    }

    #[test]
    fn what_is_no_response_counts_nothing() {
        let synthetic = response(
            "m1",
            None,
            AT[0],
            usage(5),
            json!({"message": {"id": "e", "model": "<synthetic>", "usage": usage(7)}}),
        );
        let user = response("m2", None, AT[0], usage(5), json!({"type": "user"}));
        let task =
            response("m3", None, AT[0], json!(null), json!({"toolUseResult": {"totalTokens": 999, "usage": usage(9)}}));
        let odd = response("m4", None, AT[0], json!("many"), json!({}));
        assert_eq!(report(&[synthetic, user, task, odd, "junk".into()]).total.responses, 0);
    }

    #[test]
    fn sub_agents_are_in_the_sum_and_apart() {
        let main = response("m1", Some("r1"), AT[0], usage(5), json!({}));
        let side = response("m2", Some("r2"), AT[0], usage(7), json!({"isSidechain": true}));
        let agent = response("m3", Some("r3"), AT[0], usage(11), json!({"agentId": "a1"}));
        let total = report(&[main, side, agent]).total;
        assert_eq!((total.tokens.output_tokens, total.subagents.output_tokens), (23, 18));
    }

    #[test]
    fn caches_for_an_hour_cost_more_than_those_for_minutes() {
        let of = |created: Value| json!({"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 1_000_000, "cache_creation": created});
        let minutes = response("m1", Some("r1"), AT[0], of(json!({"ephemeral_5m_input_tokens": 1_000_000})), json!({}));
        let hour = response("m2", Some("r2"), AT[0], of(json!({"ephemeral_1h_input_tokens": 1_000_000})), json!({}));
        let old = response("m3", Some("r3"), AT[0], json!({"cache_creation_input_tokens": 1_000_000}), json!({}));
        let dollars = |line: &String| {
            serde_json::to_value(report(std::slice::from_ref(line)).total).unwrap()["cost_usd"].as_f64().unwrap()
        };
        assert_eq!((dollars(&minutes), dollars(&hour), dollars(&old)), (3.75, 6.0, 3.75));
    }

    #[test]
    fn days_projects_and_models_are_apart_and_a_model_without_a_price_is_said() {
        let lines = [
            response("m1", Some("r1"), "2026-11-01T23:59:59Z", usage(1), json!({})),
            response("m2", Some("r2"), "2026-11-02T00:00:00Z", usage(2), json!({})),
            response("m3", Some("r3"), "2026-11-02T00:00:00Z", usage(3), json!({"cwd": "/src/other"})),
            response(
                "m4",
                Some("r4"),
                "2026-11-02T00:00:00Z",
                usage(4),
                json!({"message": {"id": "m4", "model": "nobody-knows", "usage": usage(4)}}),
            ),
        ];
        let report = report(&lines);
        let rows: Vec<_> = report
            .days
            .iter()
            .map(|day| (day.day.as_str(), day.project.as_str(), day.row.tokens.output_tokens, day.row.unpriced))
            .collect();
        assert_eq!(
            rows,
            [
                ("2026-11-01", "app", 1, 0),
                ("2026-11-02", "app", 2, 0),
                ("2026-11-02", "app", 4, 1),
                ("2026-11-02", "other", 3, 0)
            ]
        );
    }

    #[test]
    fn codex_counts_from_the_beginning_of_a_session_so_only_what_is_new_is_added() {
        use crate::source::Source as _;
        use crate::source::codex::Codex;
        let head = crate::source::line::Head {
            session: Some("s".to_owned()),
            cwd: Some("/src/app".to_owned()),
            ..Default::default()
        };
        let entry = |at: &str, kind: &str, payload: Value| {
            json!({"timestamp": at, "type": kind, "payload": payload}).to_string()
        };
        let count = |at: &str, input: u64, cached: u64, output: u64| {
            let total = json!({"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output, "total_tokens": input + output});
            entry(
                at,
                "event_msg",
                json!({"type": "token_count", "info": {"total_token_usage": total, "last_token_usage": total}}),
            )
        };
        let lines = [
            entry(AT[0], "turn_context", json!({"cwd": "/src/app", "model": "gpt-5-codex"})),
            entry(AT[0], "event_msg", json!({"type": "token_count", "info": null})),
            count(AT[0], 100, 40, 10),
            count(AT[1], 100, 40, 10),
            count("2026-11-02T00:00:00Z", 300, 140, 30),
        ];
        let mut collector = Collector::default();
        // A resumed session repeats what it had.
        for text in lines.iter().chain(&lines[..3]) {
            collector.line(&Codex.line(&head, text.as_bytes()).unwrap());
        }
        let report = collector.report();
        let days: Vec<_> = report
            .days
            .iter()
            .map(|day| {
                (
                    day.day.as_str(),
                    day.project.as_str(),
                    day.model.as_str(),
                    day.row.tokens.input_tokens,
                    day.row.tokens.output_tokens,
                )
            })
            .collect();
        assert_eq!(days, [("2026-11-01", "app", "gpt-5-codex", 60, 10), ("2026-11-02", "app", "gpt-5-codex", 100, 20)]);
        assert_eq!(report.total.tokens.cache_read_tokens, 140);
        assert_eq!(report.total.unpriced, 2);
    }
}
