//! The life of a key, made from the log lines of the library's events (`telemetry::Watch` writes them) and from its record.
//!
//! The local platform has the lines in memory. A deployed environment has them in CloudWatch Logs, without those of level DEBUG
//! (`renewed`, `worked`, `settled`); the record then says how the last claim ended. No back end reads those yet.

use std::time::Duration;

use ichido::Timestamp;
use serde_json::Value;

use crate::contract::{Attempt, Duplicate, End, Life, Moment, Probe, Record, Renewal, Work};

/// How many lines of one key are shown.
pub const MOST_LINES: usize = 2_000;

/// How a key may be stored that was asked for as `/keys/NAMESPACE/KEY`: as it is given, or with the namespace in front.
pub fn spellings(namespace: &str, key: &str) -> Vec<String> {
    let mut all = vec![key.to_owned()];
    if namespace != "_" && !key.starts_with(&format!("{namespace}#")) {
        all.push(format!("{namespace}#{key}"));
    }
    all
}

/// The namespace of a stored key: what its line or record says, else the part before the first `#`, else `_`.
pub fn namespace_of<'a>(said: Option<&'a str>, key: &'a str) -> &'a str {
    said.or_else(|| key.split_once('#').map(|(name, _)| name)).unwrap_or("_")
}

/// The life of `key`. `lines` are the log lines that name it, in any order; `records` what the tables have.
pub fn of(namespace: &str, key: &str, mut lines: Vec<Value>, records: Vec<Record>, at: String) -> Life {
    lines.sort_by(|one, other| {
        text(one, "timestamp").cmp(text(other, "timestamp")).then_with(|| rank(one).cmp(&rank(other)))
    });
    let whole = lines.len() <= MOST_LINES;
    let lines = &lines[lines.len().saturating_sub(MOST_LINES)..];
    let said = lines.iter().find_map(|line| line["namespace"].as_str());
    let mut life =
        Life { namespace: said.unwrap_or(namespace).to_owned(), key: key.to_owned(), at, whole, ..Life::default() };
    for line in lines {
        life.moments.push(moment(line));
        take(&mut life, line);
    }
    for record in &records {
        end_by_record(&mut life.attempts, record);
    }
    life.records = records;
    life
}

/// The order of lines of the same millisecond: a call decides, asks, works, and settles. Others stay in the middle.
fn rank(line: &Value) -> u8 {
    match text(line, "moment") {
        "decided" => 0,
        "doubted" => 1,
        "probed" => 2,
        "worked" => 4,
        "settled" | "fenced" | "unrecorded" => 5,
        _ => 3,
    }
}

fn text<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

fn some(line: &Value, name: &str) -> Option<String> {
    line[name].as_str().map(str::to_owned)
}

/// Who wrote a line: the invocation, or the function if the line belongs to none.
fn worker(line: &Value) -> String {
    some(line, "requestId").unwrap_or_else(|| text(line, "function").to_owned())
}

fn moment(line: &Value) -> Moment {
    Moment {
        at: text(line, "timestamp").to_owned(),
        what: text(line, "moment").to_owned(),
        level: text(line, "level").to_owned(),
        text: match text(line, "error") {
            "" => text(line, "message").to_owned(),
            error => format!("{}: {error}", text(line, "message")),
        },
        worker: worker(line),
        function: text(line, "function").to_owned(),
        fence: line["fence"].as_u64(),
    }
}

fn take(life: &mut Life, line: &Value) {
    let at = text(line, "timestamp").to_owned();
    let attempt = find(&mut life.attempts, line);
    match (text(line, "moment"), attempt) {
        ("decided", _) if line["result"] == "new" => life.attempts.push(begin(line, at)),
        ("decided", _) => life.duplicates.push(Duplicate {
            at,
            worker: worker(line),
            function: text(line, "function").to_owned(),
            told: text(line, "reason").to_owned(),
            until: some(line, "until"),
            fallback: line["fallbackMode"] == true,
        }),
        ("doubted", Some(attempt)) => {
            attempt.probe = Some(Probe { asked_at: at, answered_at: None, done: None });
        }
        ("probed", Some(attempt)) => {
            let asked_at = attempt.probe.take().map_or_else(|| at.clone(), |probe| probe.asked_at);
            attempt.probe = Some(Probe { asked_at, answered_at: Some(at), done: line["done"].as_bool() });
        }
        ("renewed", Some(attempt)) => {
            if let Some(lease_end) = some(line, "leaseEnd") {
                attempt.lease_end = Some(lease_end.clone());
                attempt.renewals.push(Renewal { at, lease_end });
            }
        }
        ("worked", Some(attempt)) => {
            let took = Duration::from_secs_f64(line["workMs"].as_f64().unwrap_or_default().max(0.0) / 1e3);
            attempt.work = Some(Work { from: earlier(&at, took), to: at, done: line["done"] == true });
        }
        ("settled", Some(attempt)) => attempt.end = Some(End { at, how: text(line, "state").to_owned() }),
        ("fenced", Some(attempt)) => attempt.end = Some(End { at, how: "refused".to_owned() }),
        ("unrecorded", Some(attempt)) => attempt.end = Some(End { at, how: "unrecorded".to_owned() }),
        _ => {}
    }
}

fn begin(line: &Value, at: String) -> Attempt {
    let strength = text(line, "strength").to_owned();
    let mut attempt = Attempt {
        worker: worker(line),
        function: text(line, "function").to_owned(),
        owner: some(line, "owner"),
        fence: line["fence"].as_u64(),
        claimed_at: at.clone(),
        lease_end: some(line, "leaseEnd"),
        taken_over: line["reason"] == "taken over",
        fallback: line["fallbackMode"] == true,
        strength,
        ..Attempt::default()
    };
    // A join's record is written together with its effect.
    if attempt.strength == "join" {
        attempt.work = Some(Work { from: at.clone(), to: at.clone(), done: true });
    }
    // A mark is written before the effect, of which the library knows nothing.
    if attempt.strength == "join" || attempt.strength == "mark" {
        attempt.end = Some(End { at, how: "completed".to_owned() });
    }
    attempt
}

/// The attempt that a line is about: the last one of its worker with its fence. Lines without a fence are about the worker's last.
fn find<'a>(attempts: &'a mut [Attempt], line: &Value) -> Option<&'a mut Attempt> {
    let (who, fence) = (worker(line), line["fence"].as_u64());
    let at = attempts
        .iter()
        .rposition(|attempt| attempt.worker == who && (fence.is_none() || attempt.fence == fence))
        // The task that releases a dropped claim belongs to no invocation.
        .or_else(|| attempts.iter().rposition(|attempt| fence.is_some() && attempt.fence == fence))?;
    attempts.get_mut(at)
}

/// The record says how the claim with its fence ended, if no line did.
fn end_by_record(attempts: &mut [Attempt], record: &Record) {
    let Some(changed_at) = &record.changed_at else { return };
    if record.state == "claimed" {
        return;
    }
    let of_record = attempts.iter_mut().rev().find(|attempt| attempt.fence.is_some() && attempt.fence == record.fence);
    if let Some(attempt) = of_record.filter(|attempt| attempt.end.is_none()) {
        attempt.end = Some(End { at: changed_at.clone(), how: record.state.clone() });
    }
}

fn earlier(at: &str, by: Duration) -> String {
    let Ok(time) = at.parse::<jiff::Timestamp>() else { return at.to_owned() };
    let ms = u64::try_from(time.as_millisecond()).unwrap_or_default();
    Timestamp::from_millis(ms).saturating_sub(by).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(second: u32, request: &str, moment: &str, rest: Value) -> Value {
        let mut line = json!({
            "timestamp": format!("2026-11-17T12:00:{second:02}.000Z"), "level": "INFO", "message": "m", "eventKey": "FILE#1",
            "function": "slack-files", "requestId": request, "moment": moment,
        });
        for (name, value) in rest.as_object().into_iter().flatten() {
            line[name] = value.clone();
        }
        line
    }

    fn new(second: u32, request: &str, fence: u64, reason: &str) -> Value {
        let lease_end = format!("2026-11-17T12:00:{:02}.000Z", second + 20);
        let rest = json!({
            "result": "new", "reason": reason, "strength": "run", "fence": fence, "leaseEnd": lease_end,
            "owner": format!("owner-{fence}"), "namespace": "FILE",
        });
        line(second, request, "decided", rest)
    }

    fn read(lines: Vec<Value>, records: Vec<Record>) -> Life {
        of("_", "FILE#1", lines, records, "2026-11-17T12:01:00.000Z".to_owned())
    }

    #[test]
    fn a_worker_that_dies_is_taken_over_and_is_refused_when_it_comes_back() {
        let lines = vec![
            new(0, "a", 1, "absent"),
            line(
                5,
                "c",
                "decided",
                json!({"result": "in flight", "reason": "in flight", "until": "2026-11-17T12:00:20.000Z"}),
            ),
            new(21, "b", 2, "taken over"),
            line(21, "b", "doubted", json!({"fence": 2})),
            line(22, "b", "probed", json!({"fence": 2, "done": false})),
            line(24, "b", "worked", json!({"fence": 2, "done": true, "workMs": 1500.0})),
            line(24, "b", "settled", json!({"fence": 2, "state": "completed"})),
            line(25, "a", "fenced", json!({"fence": 1, "level": "WARN"})),
            line(26, "d", "decided", json!({"result": "duplicate", "reason": "completed"})),
        ];
        // CloudWatch returns lines in any order.
        let life = read(lines.into_iter().rev().collect(), Vec::new());
        assert_eq!((life.namespace.as_str(), life.moments.len()), ("FILE", 9));
        let [first, second] = &life.attempts[..] else { panic!("two attempts: {:?}", life.attempts) };
        let end = |attempt: &Attempt| attempt.end.as_ref().map(|end| end.how.clone());
        assert_eq!((first.worker.as_str(), end(first).as_deref(), first.taken_over), ("a", Some("refused"), false));
        assert_eq!((second.worker.as_str(), end(second).as_deref(), second.taken_over), ("b", Some("completed"), true));
        let probe = second.probe.as_ref().expect("a probe");
        assert_eq!((probe.done, probe.asked_at.as_str()), (Some(false), "2026-11-17T12:00:21.000Z"));
        let moments: Vec<&str> = life.moments[2..4].iter().map(|moment| moment.what.as_str()).collect();
        assert_eq!(moments, ["decided", "doubted"], "of the same millisecond");
        let work = second.work.as_ref().expect("work");
        assert_eq!((work.from.as_str(), work.to.as_str()), ("2026-11-17T12:00:22.500Z", "2026-11-17T12:00:24.000Z"));
        let told: Vec<&str> = life.duplicates.iter().map(|duplicate| duplicate.told.as_str()).collect();
        assert_eq!(told, ["in flight", "completed"]);
        assert_eq!(life.duplicates[0].until.as_deref(), Some("2026-11-17T12:00:20.000Z"));
    }

    #[test]
    fn a_renewal_makes_the_lease_longer_and_a_claim_that_nobody_settled_has_no_end() {
        let renewed = line(10, "a", "renewed", json!({"fence": 1, "leaseEnd": "2026-11-17T12:00:30.000Z"}));
        let life = read(vec![new(0, "a", 1, "absent"), renewed], Vec::new());
        assert_eq!(life.attempts[0].lease_end.as_deref(), Some("2026-11-17T12:00:30.000Z"));
        assert_eq!(life.attempts[0].renewals.len(), 1);
        assert!(life.attempts[0].end.is_none());
    }

    #[test]
    fn without_lines_of_level_debug_the_record_says_how_the_last_claim_ended() {
        let record = Record {
            state: "completed".to_owned(),
            fence: Some(2),
            changed_at: Some("2026-11-17T12:00:24.000Z".to_owned()),
            ..Record::default()
        };
        let life = read(vec![new(0, "a", 1, "absent"), new(21, "b", 2, "taken over")], vec![record]);
        assert!(life.attempts[0].end.is_none());
        let end = life.attempts[1].end.as_ref().expect("an end");
        assert_eq!((end.how.as_str(), end.at.as_str()), ("completed", "2026-11-17T12:00:24.000Z"));
    }

    #[test]
    fn a_claim_that_a_task_of_its_own_releases_is_found_by_its_fence() {
        let mut released = line(3, "a", "settled", json!({"fence": 1, "state": "released"}));
        released["requestId"] = Value::Null;
        let life = read(vec![new(0, "a", 1, "absent"), released], Vec::new());
        assert_eq!(life.attempts[0].end.as_ref().map(|end| end.how.as_str()), Some("released"));
    }

    #[test]
    fn a_join_is_completed_when_it_is_decided() {
        let joined = line(1, "a", "decided", json!({"result": "new", "reason": "absent", "strength": "join"}));
        let life = read(vec![joined], Vec::new());
        assert_eq!(life.attempts[0].end.as_ref().map(|end| end.how.as_str()), Some("completed"));
        assert!(life.attempts[0].work.as_ref().is_some_and(|work| work.done));
    }

    #[test]
    fn a_mark_admits_and_says_nothing_of_the_effect() {
        let marked = line(1, "a", "decided", json!({"result": "new", "reason": "absent", "strength": "mark"}));
        let life = read(vec![marked], Vec::new());
        assert_eq!(life.attempts[0].end.as_ref().map(|end| end.how.as_str()), Some("completed"));
        assert!(life.attempts[0].work.is_none());
    }

    #[test]
    fn a_key_is_found_with_and_without_its_namespace_in_front() {
        assert_eq!(spellings("FILE", "T1#F1"), ["T1#F1", "FILE#T1#F1"]);
        assert_eq!(spellings("FILE", "FILE#T1"), ["FILE#T1"]);
        assert_eq!(spellings("_", "Ev1"), ["Ev1"]);
        assert_eq!(namespace_of(None, "FILE#T1"), "FILE");
        assert_eq!(namespace_of(Some("events"), "Ev1"), "events");
        assert_eq!(namespace_of(None, "Ev1"), "_");
    }
}
