//! Batches of SQS, Kinesis and DynamoDB Streams: one `run` per record, and a response that names the failed ones.
//!
//! Lambda hands a batch of records to one invocation. Without more, one failed record brings the whole batch back, also what
//! was done. [`Batch`] puts each record under a `run` of its own, some at a time, and makes the response that tells Lambda
//! which records to deliver again. A record that was done and comes again all the same is not done again.
//!
//! Turn on `ReportBatchItemFailures` in the event source mapping (`FunctionResponseTypes`). Without it, Lambda ignores the
//! response and takes every batch as done: **failed records would be lost**.
//!
//! ```
//! use ichido::lambda::batch::{Batch, BatchResponse, SqsEvent, SqsMessage};
//! use ichido::{Claim, Failure, Namespace, OnDoubt, Once, OrFailure};
//! use lambda_runtime::{Error, LambdaEvent};
//!
//! #[derive(serde::Deserialize)]
//! struct Order { id: String, amount: String }
//! # async fn send(amount: u64, key: &str) -> Result<String, std::io::Error> { Ok(format!("{key} {amount}")) }
//!
//! async fn charge(message: &SqsMessage, claim: Claim) -> Result<String, Failure<Error>> {
//!     let order: Order = message.json().or_permanent()?;
//!     let amount = order.amount.parse().or_permanent()?; // poison: it will never be a number
//!     // pass the key on, if the destination has idempotency keys of its own
//!     send(amount, claim.key().as_str()).await.or_uncertain()
//! }
//!
//! async fn handler(once: &Once, event: LambdaEvent<SqsEvent>) -> Result<BatchResponse, Error> {
//!     let orders = Namespace::new("order");
//!     let response = Batch::new(once, &event, |message| {
//!         let order: Order = message.json()?;
//!         Ok::<_, Error>(orders.key([order.id])?)
//!     })
//!     .on_doubt(OnDoubt::Refuse)
//!     .observe(|message, ended| eprintln!("message {}: {ended}", message.message_id))
//!     .work(charge)
//!     .await;
//!     Ok(response)
//! }
//! ```
//!
//! # What becomes of a record
//!
//! | the record | is reported as failed | why |
//! |---|---|---|
//! | is done now, was done before, or was found by the probe | no | |
//! | fails [`Retry`](Failure::Retry) or [`Uncertain`](Failure::Uncertain) | yes | it comes again |
//! | fails [`Permanent`](Failure::Permanent), now or before: poison | no | the failure is recorded, and trying again would not help; so it blocks nothing |
//! | gets no key: the closure failed | yes | nothing is recorded of it; SQS moves it to the dead-letter queue in the end |
//! | is in flight elsewhere, or doubtful with [`OnDoubt::Refuse`] | yes | in flight is not done |
//! | has a key that was used with other digests | yes | nobody has done what this one asks for |
//! | would begin less than [`RESPONSE_MARGIN`] before the deadline | yes | the invocation must still respond |
//! | comes after a failed one of its group, its key or its shard | yes, or Lambda delivers it again anyway | the order |
//!
//! The response says nothing of poison and nothing of errors. [`Batch::observe`] sees both: log there.
//!
//! A panic in a work fails the whole invocation. All records come again, and those that were at work leave a doubt.
//!
//! # SQS
//!
//! In a standard queue, messages depend on nothing. Messages with the same key, sent twice or delivered twice in one batch,
//! go one after the other, so the second one gets the outcome of the first. In a FIFO queue (its ARN ends with `.fifo`),
//! messages of a group go in order. After a failure, the rest of the group is reported as failed without being run,
//! which keeps its order; other groups go on. Give the queue a redrive policy: it is what ends the retries. Its visibility
//! timeout should be at least six times the function's timeout, as AWS recommends; then a message does not come again while
//! its lease lasts.
//!
//! # Kinesis and DynamoDB Streams
//!
//! Lambda takes the lowest sequence number of the response as its checkpoint and delivers everything from there on again. So
//! the response names one record, the lowest failed one. After a failure, later records are not begun any more; those that
//! were done get their outcome when they come again. Records with the same partition key, or of the same item, go in order.
//! With [`concurrency(1)`](Batch::concurrency) the whole shard does. If two records of a batch have the same key but different
//! partition keys, one may find the other in flight; then it comes again, or [waits](Batch::wait).
//!
//! A record that never succeeds blocks its shard until Lambda gives it up: set `MaximumRetryAttempts` or
//! `MaximumRecordAgeInSeconds`, and a failure destination. To get past a record that cannot be decoded, name it by its
//! [event id](KinesisRecord::key) and decode it in the work, with [`or_permanent`](crate::OrFailure::or_permanent).
//!
//! # How Lambda reads the response
//!
//! - No identifier, or `null` in place of the list: the batch is done.
//! - An empty or unknown identifier: the whole batch has failed. A record that came without an identifier is reported so, if
//!   it fails.
//! - The function fails, times out or is killed: the whole batch has failed.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use lambda_runtime::LambdaEvent;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use super::record::{
    Change, DynamoDbEvent, DynamoDbRecord, Event, KinesisData, KinesisEvent, KinesisRecord, Order, Record, SqsEvent,
    SqsMessage, Undecodable,
};
use super::{Asks, BoxError, Decides, Named, RESPONSE_MARGIN, deadline};
use crate::claim::Claim;
use crate::clock::Timestamp;
use crate::key::Key;
use crate::once::{Once, lock};
use crate::record::State;
use crate::run::{self, Done, Failure, How, OnDoubt, Probed, Run, Undecided};

/// How many records of a batch are at work at once, unless the batch says otherwise.
pub const DEFAULT_CONCURRENCY: usize = 10;

/// A batch that has not started. Set its options, then give it its [`work`](Batch::work).
#[must_use = "a batch does nothing until it is given its work"]
pub struct Batch<'e, R, F, P = Undecided> {
    once: &'e Once,
    records: &'e [R],
    deadline: Timestamp,
    name: F,
    on_doubt: P,
    concurrency: usize,
    wait: Option<Duration>,
    observe: Option<Box<Observe<'e, R>>>,
}

type Observe<'e, R> = dyn Fn(&R, &Ended<'_>) + Send + Sync + 'e;

impl<'e, R: Record, F> Batch<'e, R, F> {
    /// The batch of an event. `name` makes the key of a record, from an id of the business if there is one; each source's
    /// record has a method `key` for events without such an id. It may return a [`Key`] or a [`Named`]. Its error makes the record a failed
    /// one. Two functions that read the same stream need different namespaces.
    pub fn new<N, E>(once: &'e Once, event: &'e LambdaEvent<Event<R>>, name: F) -> Self
    where
        F: Fn(&'e R) -> Result<N, E>,
        N: Into<Named>,
        E: Into<BoxError>,
    {
        Self {
            once,
            records: &event.payload.records,
            deadline: deadline(&event.context),
            name,
            on_doubt: Undecided,
            concurrency: DEFAULT_CONCURRENCY,
            wait: None,
            observe: None,
        }
    }

    /// The destination cannot be asked. Says what happens when a record comes again whose work died, timed out or failed: its
    /// effect may have happened.
    pub fn on_doubt(self, choice: OnDoubt) -> Batch<'e, R, F, OnDoubt> {
        self.decided(choice)
    }

    /// Asks the destination when a record comes again whose work died, timed out or failed. The probe returns what the work
    /// would have returned, if the effect happened.
    pub fn probe<P, T, E, Fut>(self, probe: P) -> Batch<'e, R, F, Asks<P>>
    where
        P: Fn(&'e R, Claim) -> Fut,
        Fut: Future<Output = Result<Probed<T>, E>>,
    {
        self.decided(Asks(probe))
    }

    fn decided<P>(self, on_doubt: P) -> Batch<'e, R, F, P> {
        let Self { once, records, deadline, name, on_doubt: _, concurrency, wait, observe } = self;
        Batch { once, records, deadline, name, on_doubt, concurrency, wait, observe }
    }
}

impl<'e, R, F, P> Batch<'e, R, F, P> {
    /// How many records are at work at once. The default is [`DEFAULT_CONCURRENCY`]. One means: all in order.
    pub fn concurrency(mut self, records: usize) -> Self {
        self.concurrency = records.max(1);
        self
    }

    /// A record that is in flight elsewhere is waited for, at most this long, and never so long that the invocation could not
    /// respond any more. The default is not to wait: the record is reported as failed and comes again.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = Some(longest);
        self
    }

    /// Tells this closure how each record ended, when it ends. Log here: the response holds neither errors nor poison.
    pub fn observe(mut self, observe: impl Fn(&R, &Ended<'_>) + Send + Sync + 'e) -> Self {
        self.observe = Some(Box::new(observe));
        self
    }
}

impl<R, F, P> fmt::Debug for Batch<'_, R, F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("records", &self.records.len())
            .field("deadline", &self.deadline)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// How a record ended.
#[non_exhaustive]
pub enum Ended<'a> {
    /// Its effect is done, now or earlier.
    Done(How),
    /// Its work failed permanently, now or earlier. The failure is recorded, and the response does not name the record.
    Poison {
        /// Why it failed.
        reason: &'a str,
    },
    /// It is not done. Lambda will deliver it again.
    Failed {
        /// Why it failed.
        error: &'a dyn fmt::Display,
    },
    /// It was not begun, because a record before it failed. Lambda will deliver it again.
    Skipped,
}

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(How::Fresh) => f.write_str("done"),
            Self::Done(How::Replayed) => f.write_str("done before"),
            Self::Done(How::Probed) => f.write_str("done before, as the probe found"),
            Self::Poison { reason } => write!(f, "failed permanently, and that is recorded: {reason}"),
            Self::Failed { error } => write!(f, "failed and will come again: {error}"),
            Self::Skipped => f.write_str("not begun, because a record before it failed; it will come again"),
        }
    }
}

impl fmt::Debug for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ended({self})")
    }
}

/// What the function returns to Lambda: the records to deliver again.
///
/// ```
/// # use ichido::lambda::batch::{BatchItemFailure, BatchResponse};
/// let response = BatchResponse { batch_item_failures: vec![BatchItemFailure { item_identifier: "id2".into() }] };
/// assert_eq!(serde_json::to_string(&response)?, r#"{"batchItemFailures":[{"itemIdentifier":"id2"}]}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "Lambda takes the batch as done if it does not get this response"]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// Empty if the whole batch is done.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// A record to deliver again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// The message id, or the sequence number.
    pub item_identifier: String,
}

impl BatchResponse {
    /// The identifiers of the failed records.
    pub fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.batch_item_failures.iter().map(|failure| failure.item_identifier.as_str())
    }
}

impl<'e, R: Record, F, P> Batch<'e, R, F, P> {
    /// Does the work of each record, unless it is done already, and returns which ones failed.
    // The bound `Send` is checked here, for all lifetimes. An `async fn` would leave it to its callers, where rustc cannot
    // see it for closures with borrowed arguments.
    pub fn work<T, E, W, Fut, N, NE>(self, work: W) -> impl Future<Output = BatchResponse> + Send
    where
        F: Fn(&'e R) -> Result<N, NE>,
        N: Into<Named>,
        NE: Into<BoxError>,
        T: Serialize + DeserializeOwned + Send,
        E: fmt::Display + Send,
        W: Fn(&'e R, Claim) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
        P: Decides<&'e R, T, E>,
    {
        let Self { once, records, deadline, name, on_doubt, concurrency, wait, observe } = self;
        let agenda = Agenda::new(records, |record| name(record).map(Into::into).map_err(Into::into));
        let workers = concurrency.min(agenda.lanes.len());
        let agenda = Mutex::new(agenda);
        let each = Each { once, deadline, wait, on_doubt, observe };
        async move {
            all((0..workers).map(|_| async {
                loop {
                    // A statement of its own, so that the lock is not held during the work.
                    let next = lock(&agenda).begin();
                    let Some((rank, record, named)) = next else { return };
                    let failed = each.handle(record, named, &work).await;
                    lock(&agenda).end(rank, failed);
                }
            }))
            .await;
            let agenda = lock(&agenda);
            agenda.not_begun().for_each(|record| each.tell(record, &Ended::Skipped));
            agenda.response()
        }
    }
}

/// What the records of a batch share.
struct Each<'e, R, P> {
    once: &'e Once,
    deadline: Timestamp,
    wait: Option<Duration>,
    on_doubt: P,
    observe: Option<Box<Observe<'e, R>>>,
}

enum Attempted<E> {
    Done(How),
    Poison(String),
    Failed(run::Error<E>),
}

impl<'e, R: Record, P> Each<'e, R, P> {
    fn tell(&self, record: &R, ended: &Ended<'_>) {
        if let Some(observe) = &self.observe {
            observe(record, ended);
        }
    }

    /// True if the record must come again.
    async fn handle<T, E, W, Fut>(&self, record: &'e R, named: Result<Named, BoxError>, work: &W) -> bool
    where
        T: Serialize + DeserializeOwned + Send,
        E: fmt::Display + Send,
        W: Fn(&'e R, Claim) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
        P: Decides<&'e R, T, E>,
    {
        let attempted = match named {
            Ok(named) => self.attempt(record, named, work).await,
            Err(error) => {
                self.tell(record, &Ended::Failed { error: &error });
                return true;
            }
        };
        match &attempted {
            Attempted::Done(how) => self.tell(record, &Ended::Done(*how)),
            Attempted::Poison(reason) => self.tell(record, &Ended::Poison { reason }),
            Attempted::Failed(error) => self.tell(record, &Ended::Failed { error }),
        }
        matches!(attempted, Attempted::Failed(_))
    }

    async fn attempt<T, E, W, Fut>(&self, record: &'e R, named: Named, work: &W) -> Attempted<E>
    where
        T: Serialize + DeserializeOwned + Send,
        E: fmt::Display + Send,
        W: Fn(&'e R, Claim) -> Fut + Send + Sync,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
        P: Decides<&'e R, T, E>,
    {
        let deadline = self.deadline;
        if self.once.now() >= deadline.saturating_sub(RESPONSE_MARGIN) {
            return Attempted::Failed(run::Error::DeadlinePassed { deadline });
        }
        let key = named.key().clone();
        let permanent = AtomicBool::new(false);
        let run = named.run(self.once, deadline, self.wait);
        let works = |record, claim| {
            let working = work(record, claim);
            async {
                let worked = working.await;
                permanent.store(matches!(worked, Err(Failure::Permanent(_))), Ordering::Relaxed);
                worked
            }
        };
        match self.on_doubt.work(run, record, works).await {
            Ok(done) => Attempted::Done(done.how),
            // The value is of no use here.
            Err(run::Error::DoneWithoutValue(_)) => Attempted::Done(How::Replayed),
            Err(run::Error::Failed { reason }) => Attempted::Poison(reason),
            Err(error) if permanent.into_inner() => self.poison(&key, error).await,
            Err(error) => Attempted::Failed(error),
        }
    }

    /// The work has failed permanently. If that could not be recorded, or another call has taken over, the record must come
    /// again: whoever forgets it now forgets it for good.
    async fn poison<E>(&self, key: &Key, error: run::Error<E>) -> Attempted<E> {
        match self.once.look(key).await.map(|record| record.map(|record| record.state)) {
            Ok(Some(State::Failed { reason })) => Attempted::Poison(reason),
            Ok(Some(State::Completed { .. })) => Attempted::Done(How::Replayed),
            _ => Attempted::Failed(error),
        }
    }
}

impl<'e, R, T, E, P, Asking> Decides<&'e R, T, E> for Asks<P>
where
    R: Record,
    P: Fn(&'e R, Claim) -> Asking + Send + Sync,
    Asking: Future<Output = Result<Probed<T>, E>> + Send,
    T: Serialize + DeserializeOwned + Send,
    E: fmt::Display + Send,
{
    async fn work<W, Fut>(&self, run: Run<'_>, record: &'e R, work: W) -> Result<Done<T>, run::Error<E>>
    where
        W: FnOnce(&'e R, Claim) -> Fut + Send,
        Fut: Future<Output = Result<T, Failure<E>>> + Send,
    {
        run.probe(|claim| (self.0)(record, claim)).work(|claim| work(record, claim)).await
    }
}

/// Which record is next, and which ones have failed. The rank of a record is its place in the batch. In a stream it is the
/// place of its sequence number, because that is what Lambda goes by.
struct Agenda<'e, R> {
    records: Vec<Entry<'e, R>>,
    /// The ranks that are not begun, by what must go in order. A lane with a failed record is not continued.
    lanes: Vec<VecDeque<usize>>,
    /// The first rank of each lane that may go on.
    ready: BinaryHeap<Reverse<usize>>,
    failed: BTreeSet<usize>,
    /// Everything from the first failed record on comes again.
    is_stream: bool,
}

struct Entry<'e, R> {
    record: &'e R,
    /// `None` as soon as the record is begun.
    named: Option<Result<Named, BoxError>>,
    lane: usize,
}

/// What the records of a lane have in common.
#[derive(PartialEq, Eq, Hash)]
enum Lane<'e> {
    Key(String),
    Group(Cow<'e, str>),
    Stream(Cow<'e, str>),
    /// A record without a key goes by itself.
    Alone(usize),
}

impl<'e, R: Record> Agenda<'e, R> {
    fn new(records: &'e [R], name: impl Fn(&'e R) -> Result<Named, BoxError>) -> Self {
        let mut records: Vec<&R> = records.iter().collect();
        let is_stream = records.iter().any(|record| matches!(record.order(), Order::Stream(_)));
        if is_stream {
            records.sort_by_key(|record| numeric(record.identifier()));
        }
        let mut agenda = Self {
            records: Vec::new(),
            lanes: Vec::new(),
            ready: BinaryHeap::new(),
            failed: BTreeSet::new(),
            is_stream,
        };
        let mut known = HashMap::new();
        for (rank, record) in records.into_iter().enumerate() {
            let named = name(record);
            let lane = match (record.order(), &named) {
                (Order::Group(group), _) => Lane::Group(group),
                (Order::Stream(key), _) => Lane::Stream(key),
                (Order::Free, Ok(named)) => Lane::Key(named.key().as_str().to_owned()),
                (Order::Free, Err(_)) => Lane::Alone(rank),
            };
            let lane = *known.entry(lane).or_insert(agenda.lanes.len());
            if lane == agenda.lanes.len() {
                agenda.lanes.push(VecDeque::new());
                agenda.ready.push(Reverse(rank));
            } else if let Some(waiting) = agenda.lanes.get_mut(lane) {
                waiting.push_back(rank);
            }
            agenda.records.push(Entry { record, named: Some(named), lane });
        }
        agenda
    }

    /// The first record that may begin. A worker that gets none can end: each lane that can go on has a worker of its own,
    /// which comes back for the next record.
    fn begin(&mut self) -> Option<(usize, &'e R, Result<Named, BoxError>)> {
        let Reverse(rank) = *self.ready.peek()?;
        if self.is_stream && self.failed.first().is_some_and(|failed| *failed < rank) {
            return None;
        }
        self.ready.pop();
        let entry = self.records.get_mut(rank)?;
        Some((rank, entry.record, entry.named.take()?))
    }

    fn end(&mut self, rank: usize, failed: bool) {
        if failed {
            self.failed.insert(rank);
        } else if let Some(entry) = self.records.get(rank)
            && let Some(next) = self.lanes.get_mut(entry.lane).and_then(VecDeque::pop_front)
        {
            self.ready.push(Reverse(next));
        }
    }

    fn not_begun(&self) -> impl Iterator<Item = &'e R> {
        self.records.iter().filter(|entry| entry.named.is_some()).map(|entry| entry.record)
    }

    fn response(&self) -> BatchResponse {
        let comes_again =
            self.records.iter().enumerate().filter(|(rank, entry)| entry.named.is_some() || self.failed.contains(rank));
        let most = if self.is_stream { 1 } else { usize::MAX };
        // SQS may deliver a message twice in one batch.
        let mut named = HashSet::new();
        let identifiers = comes_again.take(most).map(|(_, entry)| entry.record.identifier());
        let failures = identifiers.filter(|identifier| named.insert(*identifier));
        BatchResponse {
            batch_item_failures: failures.map(|id| BatchItemFailure { item_identifier: id.to_owned() }).collect(),
        }
    }
}

/// Sorts decimal numbers of any length: by their length first. An absent one comes before all.
fn numeric(number: &str) -> (usize, &str) {
    let number = if number.is_empty() { number } else { number.trim_start_matches('0') };
    (number.len(), number)
}

/// Completes when all of them have. A wake-up polls each one, which is cheap because they are few: one per record at work.
async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        pending.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
