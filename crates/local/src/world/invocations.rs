//! Asynchronous invocations, carried out and retried as Lambda does.
//!
//! Promise: when [`Invocations::accept`] has returned, the function runs until it succeeds. If its retries or its maximum
//! age are used up, the event goes to the function's on-failure queue. Kill -9 at any point loses no invocation; an attempt
//! that it interrupted is made again.
//!
//! Lambda waits one minute before the first retry and two minutes before the second. Here `--retry-scale` shortens the
//! waits. On AWS a lease has ended before Lambda retries; two rules keep that true here:
//! - After a failure of kind `InFlight`, the retry waits until the attempt that may hold the claim must be over.
//! - An attempt that a restart interrupted is repeated at once. If that fails too, it is not counted, and the next attempt
//!   waits for the deadline of the interrupted one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use telemetry::trace::Trace;

use tokio::sync::Semaphore;

use crate::platform::clock::{now_ms, rfc3339, shown_ms};
use crate::platform::journal::{self, Journal};
use crate::world::functions::{Failure, Function, Functions};
use crate::world::live::Live;
use crate::world::queues::Queues;

/// Lambda's waits before the first and the second retry.
const WAITS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
/// How many invocations run at once. Others wait, in memory and on disk.
const AT_ONCE: usize = 100;
/// How long after the deadline of an attempt its lease has ended for everybody. Leases are a little longer than the
/// deadline, and clocks may differ by the library's bound.
const GRACE: Duration = Duration::from_secs(2 * ichido::MAX_CLOCK_SKEW.as_secs() + 1);
/// The shortest wait after a throttle: any number of them may follow each other.
const THROTTLED: Duration = Duration::from_millis(100);
/// The kind of failure that says that another invocation is working on the event.
const IN_FLIGHT: &str = "InFlight";

/// An accepted invocation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Accepted {
    id: String,
    function: String,
    payload: Value,
    trace: String,
    at_ms: u64,
    /// Attempts that failed.
    #[serde(default)]
    failed: u32,
    /// The last failure.
    #[serde(default)]
    failure: Option<(String, String)>,
    /// When the next attempt is due.
    #[serde(default)]
    due_ms: u64,
    /// The deadline of an attempt that a restart interrupted; it may hold a claim until then.
    #[serde(default)]
    interrupted_until_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
enum Record {
    Accepted(Box<Accepted>),
    Started { id: String, deadline_ms: u64 },
    Failed { id: String, failed: u32, kind: String, message: String, due_ms: u64 },
    Ended { id: String },
}

/// All asynchronous invocations. All clones are the same.
#[derive(Clone)]
pub(crate) struct Invocations(Arc<Inner>);

struct Inner {
    journal: Journal,
    functions: Arc<Functions>,
    queues: Arc<Queues>,
    live: Arc<Live>,
    scale: f64,
    at_once: Semaphore,
}

impl std::fmt::Debug for Invocations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocations").finish_non_exhaustive()
    }
}

/// Invocations that were accepted before a restart and have not ended; see [`Invocations::resume`].
#[derive(Debug)]
pub(crate) struct Pending(Vec<Accepted>);

impl Invocations {
    /// Opens the list with the invocations that have not ended.
    pub(crate) fn open(
        path: Option<&Path>,
        functions: Arc<Functions>,
        queues: Arc<Queues>,
        live: Arc<Live>,
        scale: f64,
    ) -> Result<(Self, Pending), journal::Error> {
        let owed = |records: Vec<Record>| {
            let owed = fold(records);
            (owed.clone(), owed.into_iter().map(|accepted| Record::Accepted(Box::new(accepted))).collect())
        };
        let (journal, owed) = Journal::open(path, owed)?;
        let inner = Inner { journal, functions, queues, live, scale, at_once: Semaphore::new(AT_ONCE) };
        Ok((Self(Arc::new(inner)), Pending(owed)))
    }

    /// Goes on with the invocations that were accepted before a restart.
    pub(crate) fn resume(&self, pending: Pending) {
        for accepted in pending.0 {
            self.drive(accepted);
        }
    }

    /// Accepts an invocation. When this has returned, it will be carried out.
    pub(crate) fn accept(
        &self,
        function: &Function,
        payload: Value,
        id: String,
        trace: &Trace,
    ) -> Result<(), journal::Error> {
        let accepted = Accepted {
            id,
            function: function.declared.name.clone(),
            payload,
            trace: trace.header().to_owned(),
            at_ms: now_ms(),
            failed: 0,
            failure: None,
            due_ms: 0,
            interrupted_until_ms: None,
        };
        self.0.journal.append(&Record::Accepted(Box::new(accepted.clone())))?;
        self.drive(accepted);
        Ok(())
    }

    fn drive(&self, accepted: Accepted) {
        let invocations = self.clone();
        tokio::spawn(async move {
            let (id, function) = (accepted.id.clone(), accepted.function.clone());
            if let Err(error) = invocations.carry_out(accepted).await {
                // The journal cannot be written, but it still has the invocation: the next start goes on with it.
                tracing::error!(
                    target: "local",
                    request_id = id,
                    function,
                    error = %error,
                    "stopped the asynchronous invocation {id} of {function}; the next start of ichido-local continues it"
                );
            }
        });
    }

    async fn carry_out(&self, mut accepted: Accepted) -> Result<(), journal::Error> {
        let Some(function) = self.0.functions.find(&accepted.function) else {
            let Accepted { id, function, .. } = &accepted;
            tracing::warn!(
                target: "local",
                request_id = id,
                function,
                "dropped the asynchronous invocation {id}: the function {function} no longer exists"
            );
            return self.end(&accepted);
        };
        loop {
            sleep_until(accepted.due_ms).await;
            let permit = self.0.at_once.acquire().await;
            let deadline_ms = now_ms().saturating_add(ichido::whole_millis(function.declared.timeout));
            self.0.journal.append(&Record::Started { id: accepted.id.clone(), deadline_ms })?;
            let trace = Trace::from_header(&accepted.trace);
            let invoked =
                self.0.functions.invoke(&function, accepted.payload.clone(), accepted.id.clone(), trace).await;
            drop(permit);
            let failure = invoked.outcome.as_ref().err();
            self.0.live.tell(
                "invocation",
                json!({
                    "function": accepted.function, "type": "Event", "requestId": accepted.id, "attempt": accepted.failed + 1,
                    "ms": shown_ms(invoked.duration), "error": failure.map(|failure| failure.kind.clone()),
                    "message": failure.map(|failure| failure.message.clone()),
                    "traceId": Trace::from_header(&accepted.trace).map(|trace| trace.id().to_owned()),
                }),
            );
            let Some(failure) = failure else { return self.end(&accepted) };
            accepted.failure = Some((failure.kind.clone(), failure.message.clone()));
            match accepted.interrupted_until_ms.take() {
                // Not counted: on AWS the claim of the interrupted attempt would have ended before this attempt.
                Some(until) => accepted.due_ms = until.saturating_add(ichido::whole_millis(GRACE)),
                None => {
                    // An event that was throttled goes back to Lambda's queue; only its age ends it.
                    if !failure.is_throttled() {
                        accepted.failed += 1;
                    }
                    let age = Duration::from_millis(now_ms().saturating_sub(accepted.at_ms));
                    let exhausted = accepted.failed > function.declared.retries;
                    if exhausted || age > function.declared.event_age {
                        let condition = if exhausted { "RetriesExhausted" } else { "EventAgeExceeded" };
                        self.give_up(&function, &accepted, failure, condition)?;
                        return self.end(&accepted);
                    }
                    let wait = wait(accepted.failed, failure, function.declared.timeout, self.0.scale);
                    accepted.due_ms = now_ms().saturating_add(ichido::whole_millis(wait));
                }
            }
            self.0.journal.append(&Record::Failed {
                id: accepted.id.clone(),
                failed: accepted.failed,
                kind: failure.kind.clone(),
                message: failure.message.clone(),
                due_ms: accepted.due_ms,
            })?;
        }
    }

    /// Sends an event that is given up to the on-failure queue, in Lambda's format. The caller records the end afterwards, so
    /// a crash in between sends the event twice rather than never.
    fn give_up(
        &self,
        function: &Function,
        accepted: &Accepted,
        failure: &Failure,
        condition: &str,
    ) -> Result<(), journal::Error> {
        let Accepted { id, function: name, failed, .. } = accepted;
        tracing::error!(
            target: "local",
            request_id = id,
            function = name,
            attempts = failed,
            error = failure.kind,
            "gave up the asynchronous invocation {id} of {name} after {failed} failed attempts"
        );
        let Some(destination) = &function.declared.on_failure else { return Ok(()) };
        let record = json!({
            "version": "1.0",
            "timestamp": rfc3339(now_ms()),
            "requestContext": {
                "requestId": accepted.id,
                "functionArn": template::arn("lambda", &format!("function:{}:live", accepted.function)),
                "condition": condition,
                "approximateInvokeCount": accepted.failed,
            },
            "requestPayload": accepted.payload,
            "responseContext": {"statusCode": 200, "executedVersion": "1", "functionError": "Unhandled"},
            "responsePayload": failure.body(),
        });
        let queue = destination.rsplit(':').next().unwrap_or_default();
        if destination.contains(":sqs:") && self.0.queues.has(queue) {
            self.0.queues.send(queue, record.to_string(), BTreeMap::new())?;
            self.0.live.tell(
                "dead-letter",
                json!({"queue": queue, "function": accepted.function, "requestId": accepted.id, "error": failure.kind}),
            );
        } else {
            tracing::error!(
                target: "local",
                request_id = id,
                function = name,
                destination,
                "lost the event of the asynchronous invocation {id}: there is no queue {destination}"
            );
        }
        Ok(())
    }

    fn end(&self, accepted: &Accepted) -> Result<(), journal::Error> {
        self.0.journal.append(&Record::Ended { id: accepted.id.clone() })
    }
}

/// How long to wait after this many failures.
fn wait(failed: u32, failure: &Failure, timeout: Duration, scale: f64) -> Duration {
    let lambda = WAITS[usize::try_from(failed.saturating_sub(1)).unwrap_or(usize::MAX).min(WAITS.len() - 1)];
    let scaled = lambda.mul_f64(scale);
    if failure.is_throttled() {
        return scaled.max(THROTTLED);
    }
    if failure.kind == IN_FLIGHT { scaled.max(timeout.min(lambda) + GRACE) } else { scaled }
}

async fn sleep_until(due_ms: u64) {
    let left = due_ms.saturating_sub(now_ms());
    if left > 0 {
        tokio::time::sleep(Duration::from_millis(left)).await;
    }
}

/// The invocations that have not ended, in the order in which they were accepted.
fn fold(records: Vec<Record>) -> Vec<Accepted> {
    let mut owed: BTreeMap<String, (usize, Accepted)> = BTreeMap::new();
    for (at, record) in records.into_iter().enumerate() {
        match record {
            Record::Accepted(accepted) => {
                owed.insert(accepted.id.clone(), (at, *accepted));
            }
            Record::Started { id, deadline_ms } => {
                if let Some((_, accepted)) = owed.get_mut(&id) {
                    accepted.interrupted_until_ms = Some(deadline_ms);
                    accepted.due_ms = 0;
                }
            }
            Record::Failed { id, failed, kind, message, due_ms } => {
                if let Some((_, accepted)) = owed.get_mut(&id) {
                    accepted.failed = failed;
                    accepted.failure = Some((kind, message));
                    accepted.due_ms = due_ms;
                    accepted.interrupted_until_ms = None;
                }
            }
            Record::Ended { id } => {
                owed.remove(&id);
            }
        }
    }
    let mut owed: Vec<_> = owed.into_values().collect();
    owed.sort_by_key(|(at, _)| *at);
    owed.into_iter().map(|(_, accepted)| accepted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(id: &str) -> Record {
        Record::Accepted(Box::new(Accepted {
            id: id.into(),
            function: "f".into(),
            payload: json!({}),
            trace: "Root=1".into(),
            at_ms: 1,
            failed: 0,
            failure: None,
            due_ms: 0,
            interrupted_until_ms: None,
        }))
    }

    #[test]
    fn what_did_not_end_is_owed_in_the_order_in_which_it_was_accepted() {
        let owed = fold(vec![accepted("b"), accepted("a"), accepted("c"), Record::Ended { id: "a".into() }]);
        assert_eq!(owed.iter().map(|owed| owed.id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn an_attempt_that_never_ended_is_known_to_have_been_interrupted() {
        let failed = Record::Failed { id: "a".into(), failed: 1, kind: "K".into(), message: "m".into(), due_ms: 7 };
        let owed = fold(vec![accepted("a"), Record::Started { id: "a".into(), deadline_ms: 5 }, failed]);
        assert_eq!((owed[0].failed, owed[0].due_ms, owed[0].interrupted_until_ms), (1, 7, None));
        let owed = fold(vec![accepted("a"), Record::Started { id: "a".into(), deadline_ms: 5 }]);
        assert_eq!((owed[0].failed, owed[0].interrupted_until_ms), (0, Some(5)));
    }

    #[test]
    fn retries_are_scaled_except_where_a_lease_must_pass() {
        let failure = |kind: &str| Failure { kind: kind.into(), message: String::new() };
        let timeout = Duration::from_secs(30);
        assert_eq!(wait(1, &failure("Slack"), timeout, 0.02), Duration::from_millis(1_200));
        assert_eq!(wait(2, &failure("Slack"), timeout, 0.02), Duration::from_millis(2_400));
        assert_eq!(wait(1, &failure("InFlight"), timeout, 0.02), timeout + GRACE);
        assert_eq!(wait(1, &failure("InFlight"), Duration::from_secs(900), 0.02), Duration::from_secs(60) + GRACE);
    }
}
