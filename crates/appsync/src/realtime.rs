//! Subscriptions: who listens to what, and mutations' answers on their way to them.
//!
//! Promises: a subscriber gets only what the mutation selected, under the subscriber's own names;
//! messages of one subscription arrive in the order in which their mutations ended; a reader that
//! does not keep up is dropped with an error and delays nobody. A subscription hears what ends
//! after its `start_ack`, nothing before.
//!
//! Subscribers with the same query, variables and filters are one group: their message is made
//! once. Groups are served by a task of their own, so a mutation does not wait for its listeners.

mod connection;
mod filter;
mod project;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use apollo_compiler::ast::OperationType;
use apollo_compiler::executable::ExecutableDocument;
use apollo_compiler::validation::Valid;
use axum::extract::ws::Utf8Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};

use crate::api::Inner;
use crate::auth::{Accepted, Caller};
use crate::engine::Invalidation;
use crate::execute::{Execution, Publication};
use crate::input;
use crate::limits::{MAX_SUBSCRIPTION_PAYLOAD, PUBLISH_QUEUE};
use crate::response::{Data, Error, RaisedParts};
use crate::selection;

pub(crate) use connection::serve;
use filter::Filter;

/// A subscription's place among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

/// What listens: a socket, or a [`Subscription`] in this process.
#[derive(Clone)]
pub(crate) struct Outbox {
    connection: ConnectionId,
    queue: mpsc::Sender<Out>,
    /// Rung when the reader is too slow.
    overflow: Arc<Notify>,
}

/// A message to a client.
#[derive(Debug)]
pub(crate) enum Out {
    /// To a socket.
    Text(Utf8Bytes),
    /// The subscription with this id was ended by an invalidation.
    Ended(String),
}

/// What a subscription asks for.
pub(crate) struct Plan {
    document: Arc<Valid<ExecutableDocument>>,
    operation: Option<String>,
    variables: Map<String, Value>,
    arguments: Map<String, Value>,
    field: String,
    accepted: Accepted,
    filter: Option<Filter>,
    invalidation: Option<Filter>,
    /// Equal keys ask for the same.
    key: String,
}

struct Group {
    plan: Arc<Plan>,
    members: Vec<(String, Outbox)>,
}

enum Event {
    Publish(Publication),
    Invalidate(Invalidation),
}

/// All subscriptions of an API.
#[derive(Default)]
pub(crate) struct Hub {
    /// By the field of the subscription type, then by the plan's key. A plain mutex: it is held
    /// for lookups and for filling queues, never across an await.
    topics: Mutex<HashMap<String, HashMap<String, Group>>>,
    /// To the task that serves the groups; made when the first publication comes.
    queue: Mutex<Option<mpsc::Sender<Event>>>,
    connections: AtomicUsize,
    next: AtomicU64,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("connections", &self.connections).finish_non_exhaustive()
    }
}

fn guarded<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub(crate) fn has_subscribers(&self, field: &str) -> bool {
        guarded(&self.topics).get(field).is_some_and(|groups| !groups.is_empty())
    }

    /// How many sockets are open.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many subscriptions there are.
    pub(crate) fn subscriptions(&self) -> usize {
        guarded(&self.topics).values().flat_map(HashMap::values).map(|group| group.members.len()).sum()
    }

    fn outbox(&self, capacity: usize) -> (Outbox, mpsc::Receiver<Out>) {
        let (queue, receiver) = mpsc::channel(capacity);
        let connection = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        (Outbox { connection, queue, overflow: Arc::new(Notify::new()) }, receiver)
    }

    fn add(&self, id: &str, plan: Plan, outbox: &Outbox) {
        let mut topics = guarded(&self.topics);
        let groups = topics.entry(plan.field.clone()).or_default();
        groups
            .entry(plan.key.clone())
            .or_insert_with(|| Group { plan: Arc::new(plan), members: Vec::new() })
            .members
            .push((id.to_owned(), outbox.clone()));
    }

    /// Removes the subscriptions for which `leaves` is true.
    fn remove(&self, mut leaves: impl FnMut(&str, &Outbox) -> bool) {
        guarded(&self.topics).retain(|_, groups| {
            groups.retain(|_, group| {
                group.members.retain(|(id, outbox)| !leaves(id, outbox));
                !group.members.is_empty()
            });
            !groups.is_empty()
        });
    }

    fn leave(&self, connection: ConnectionId) {
        self.remove(|_, outbox| outbox.connection == connection);
    }

    fn unsubscribe(&self, connection: ConnectionId, id: &str) {
        self.remove(|other, outbox| outbox.connection == connection && other == id);
    }

    fn queue(&self, api: &Arc<Inner>) -> mpsc::Sender<Event> {
        let mut queue = guarded(&self.queue);
        if let Some(queue) = queue.as_ref().filter(|queue| !queue.is_closed()) {
            return queue.clone();
        }
        let (sender, receiver) = mpsc::channel(PUBLISH_QUEUE);
        tokio::spawn(dispatch(Arc::downgrade(api), receiver));
        *queue = Some(sender.clone());
        sender
    }
}

/// Hands what a mutation did on to its subscribers. Waits only when very many publications wait.
pub(crate) async fn publish(api: &Arc<Inner>, publications: Vec<Publication>, invalidations: Vec<Invalidation>) {
    if publications.is_empty() && invalidations.is_empty() {
        return;
    }
    let queue = api.hub.queue(api);
    let events = publications.into_iter().map(Event::Publish).chain(invalidations.into_iter().map(Event::Invalidate));
    for event in events {
        // The task ends only with the API, and then nobody listens.
        let _ = queue.send(event).await;
    }
}

async fn dispatch(api: Weak<Inner>, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        let Some(api) = api.upgrade() else { return };
        match event {
            Event::Publish(publication) => deliver(&api, &publication),
            Event::Invalidate(invalidation) => invalidate(&api, &invalidation),
        }
    }
}

fn deliver(api: &Inner, publication: &Publication) {
    let mut slow = Vec::new();
    {
        let topics = guarded(&api.hub.topics);
        let Some(groups) = topics.get(&publication.subscription) else { return };
        for group in groups.values().filter(|group| group.plan.wants(&publication.data)) {
            let payload = group.plan.payload(api, &publication.data);
            let too_large = payload.len() > MAX_SUBSCRIPTION_PAYLOAD;
            for (id, outbox) in &group.members {
                let id = Value::String(id.clone());
                let text = if too_large {
                    let message = format!("The message is larger than {MAX_SUBSCRIPTION_PAYLOAD} bytes.");
                    json!({"id": id, "type": "error", "payload": {"errors": [{"errorType": "PayloadSizeLimitExceeded", "message": message}]}})
                        .to_string()
                } else {
                    format!("{{\"id\":{id},\"type\":\"data\",\"payload\":{payload}}}")
                };
                if let Err(mpsc::error::TrySendError::Full(_)) = outbox.queue.try_send(Out::Text(text.into())) {
                    outbox.overflow.notify_one();
                    slow.push(outbox.connection);
                }
            }
        }
    }
    for connection in slow {
        api.hub.leave(connection);
    }
}

fn invalidate(api: &Inner, invalidation: &Invalidation) {
    let data = filter::plain_object(&invalidation.payload);
    let mut topics = guarded(&api.hub.topics);
    let Some(groups) = topics.get_mut(&invalidation.subscription_field) else { return };
    groups.retain(|_, group| {
        let ends = group.plan.invalidation.as_ref().is_some_and(|filter| filter.matches(&data));
        if ends {
            for (id, outbox) in &group.members {
                let _ = outbox.queue.try_send(Out::Ended(id.clone()));
            }
        }
        !ends
    });
}

/// Reads a subscription: everything that may be refused is refused here.
pub(crate) async fn plan(
    api: &Arc<Inner>,
    query: &str,
    variables: &Map<String, Value>,
    operation_name: Option<&str>,
    caller: &Caller,
) -> Result<Plan, Vec<Error>> {
    let refuse = |error_type: &str, message: String| Err(vec![Error::typed(error_type, message)]);
    let accepted = match api.gate.accept(caller, api.host.now_ms()) {
        Ok(accepted) => accepted,
        Err(error) => return refuse(error.error_type(), error.to_string()),
    };
    let document = api.parse(query)?;
    let operation = match document.operations.get(operation_name) {
        Ok(operation) => operation,
        Err(error) => return refuse("BadRequestException", error.message().to_string()),
    };
    if operation.operation_type != OperationType::Subscription {
        return refuse(
            "UnsupportedOperation",
            format!("{} not supported through the realtime channel", operation.operation_type.name()),
        );
    }
    if selection::depth(&document, &operation.selection_set) > api.limits.query_depth {
        return refuse(
            "QueryDepthLimitReached",
            format!("The query is nested deeper than {}.", api.limits.query_depth),
        );
    }
    let coerced = match input::variables(&api.schema, operation, variables) {
        Ok(variables) => variables,
        Err(error) => return refuse("ValidationError", error.message),
    };
    let execution = Execution::new(api, &document, operation, &coerced, &accepted, caller);
    let Some(root) = api.schema.root(OperationType::Subscription) else {
        return refuse("ValidationError", "The schema has no subscriptions.".to_owned());
    };
    let selector = selection::Selector { schema: &api.schema, document: &document, variables: &coerced };
    let fields = selector.fields(root, [&operation.selection_set]);
    let Some((nodes, first)) = fields.values().next().and_then(|nodes| Some((nodes, *nodes.first()?))) else {
        return refuse("ValidationError", "The subscription selects nothing.".to_owned());
    };
    let Some(definition) = api.schema.field(root, &first.name) else {
        return refuse("ValidationError", format!("There is no subscription '{}'.", first.name));
    };
    if !api.schema.modes(root, definition, api.gate.default_mode()).contains(&accepted.mode) {
        let raised = crate::resolve::unauthorized(root, &first.name);
        return refuse("Unauthorized", raised.message);
    }
    let arguments = match input::arguments(&api.schema, definition, first, &coerced) {
        Ok(arguments) => arguments,
        Err(error) => return refuse("ValidationError", error.message),
    };
    let mut filters = (None, None);
    if let Some(resolver) = api.resolver(root, &first.name) {
        let outcome = execution.call(root, resolver, nodes, &Value::Object(arguments.clone()), &Value::Null).await;
        if outcome.failed || !outcome.errors.is_empty() {
            let of = |raised: crate::engine::Raised| Error {
                raised: Some(RaisedParts {
                    error_type: raised.error_type,
                    data: Value::Null,
                    error_info: raised.error_info,
                }),
                ..Error::request(raised.message)
            };
            return Err(outcome.errors.into_iter().map(of).collect());
        }
        filters = (outcome.filter, outcome.invalidation_filter);
    }
    let read = |value: &Option<Value>| value.as_ref().map(Filter::read).transpose();
    let (filter, invalidation) = match (read(&filters.0), read(&filters.1)) {
        (Ok(filter), Ok(invalidation)) => (filter, invalidation),
        (Err(error), _) | (_, Err(error)) => return refuse("ValidationError", error.to_string()),
    };
    let field = first.name.to_string();
    drop(execution);
    let key = json!([query, operation_name, coerced, filters.0, filters.1, accepted.mode.directive()]).to_string();
    Ok(Plan {
        document: Arc::clone(&document),
        operation: operation_name.map(ToOwned::to_owned),
        variables: coerced,
        arguments,
        field,
        accepted,
        filter,
        invalidation,
        key,
    })
}

impl Plan {
    /// Whether a mutation's answer is for this subscription.
    fn wants(&self, data: &Data) -> bool {
        match &self.filter {
            // A filter that a resolver set takes the place of the arguments.
            Some(filter) => filter.matches(data),
            None => filter::arguments_match(&self.arguments, data),
        }
    }

    /// `{"data": …}` for this subscription.
    fn payload(&self, api: &Inner, data: &Data) -> String {
        let response = project::project(api, self, data);
        serde_json::to_string(&response).unwrap_or_else(|_| "{\"data\":null}".to_owned())
    }
}

/// A subscription that was refused, with what a client would have got instead of `start_ack`.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", errors.first().map_or("refused", |error| error.message.as_str()))]
pub struct Refused {
    /// Why.
    pub errors: Vec<Error>,
}

/// A subscription in this process, for programs that embed an API and for tests.
#[derive(Debug)]
pub struct Subscription {
    api: Arc<Inner>,
    connection: ConnectionId,
    receiver: mpsc::Receiver<Out>,
    overflow: Arc<Notify>,
}

impl Subscription {
    pub(crate) fn start(api: &Arc<Inner>, plan: Plan) -> Self {
        let (outbox, receiver) = api.hub.outbox(api.limits.send_queue);
        api.hub.add("in-process", plan, &outbox);
        Self { api: Arc::clone(api), connection: outbox.connection, receiver, overflow: Arc::clone(&outbox.overflow) }
    }

    /// The next answer (`{"data": …}`); nothing once the subscription has ended.
    pub async fn next(&mut self) -> Option<Value> {
        tokio::select! {
            biased;
            message = self.receiver.recv() => match message? {
                Out::Text(text) => {
                    let message: Value = serde_json::from_str(text.as_str()).ok()?;
                    message.get("payload").cloned()
                }
                Out::Ended(_) => None,
            },
            () = self.overflow.notified() => None,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.api.hub.leave(self.connection);
    }
}
