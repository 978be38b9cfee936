//! All bounds, by name.
//!
//! A figure is AppSync's own where its page "endpoints and quotas" states one. The others keep one process healthy. A request
//! that exceeds a bound gets an error that says which one.

use std::time::Duration;

/// The largest body of a GraphQL request.
pub(crate) const MAX_REQUEST_BYTES: usize = 1024 * 1024;
/// The largest answer to a GraphQL request.
pub(crate) const MAX_RESPONSE_BYTES: usize = 5 * 1024 * 1024;
/// Tokens per document. This stops a document with ten thousand aliases before anything runs.
pub(crate) const MAX_QUERY_TOKENS: usize = 15_000;
/// How deep selections may nest. The parser's recursion limit is derived from it.
pub(crate) const MAX_QUERY_DEPTH: usize = 75;
/// Resolver calls per request.
pub(crate) const MAX_RESOLVERS: usize = 10_000;
/// Resolver calls of one request that are under way at the same time. What each of them holds is at most [`MAX_SCRIPT_JSON`].
pub(crate) const CONCURRENT_RESOLVERS: usize = 32;
/// Fields that a query or a subscription may select in all, fragments spread out. A field counts as often as it is selected, because each
/// time is work. Far fewer characters can select far more.
pub(crate) const MAX_SELECTED_FIELDS: usize = 100_000;
/// The same for what a query asks about the schema, where a field counts once per object of the schema that it is asked of. It is larger
/// because tools ask for a whole schema at once.
pub(crate) const MAX_INTROSPECTED_FIELDS: usize = 500_000;
/// Selections that are looked at while a query is executed: those of a list's objects once per element. An answer of 5 MB without repeated
/// selections needs about a tenth.
pub(crate) const MAX_VISITED_SELECTIONS: usize = 10_000_000;
/// What the handlers of one request may be given, in all: contexts as JSON. AppSync has no such bound. It is here because a handler
/// gets the whole object that its field belongs to, and all variables, as often as it is called.
pub(crate) const MAX_CONTEXT_BYTES: usize = 64 * 1024 * 1024;
/// How deep lists and objects may nest in a variable or an argument.
pub(crate) const MAX_INPUT_DEPTH: usize = 64;
/// Entries of `ctx.info.selectionSetList`. Further selections are not listed.
pub(crate) const MAX_SELECTION_LIST: usize = 2_000;
/// Characters of `ctx.info.selectionSetList` and `selectionSetGraphQL` together. Further selections are not listed.
pub(crate) const MAX_SELECTION_BYTES: usize = 128 * 1024;
/// How long a whole request may take.
pub(crate) const EXECUTION_TIME: Duration = Duration::from_secs(30);
/// Valid documents that are kept for the next request with the same text.
pub(crate) const CACHED_DOCUMENTS: usize = 512;
/// The longest document that is kept.
pub(crate) const CACHED_DOCUMENT_BYTES: usize = 16 * 1024;

/// The largest resolver file, in characters: the API's own bound (`Code`).
pub(crate) const MAX_CODE_CHARACTERS: usize = 32_768;
/// Mistakes of a resolver file that are listed.
pub(crate) const MAX_CODE_ERRORS: usize = 100;
/// How long one handler (`request` or `response`) may run.
pub(crate) const SCRIPT_TIME: Duration = Duration::from_secs(1);
/// How much memory one engine may use.
pub(crate) const SCRIPT_MEMORY: usize = 32 * 1024 * 1024;
/// How much stack one handler may use. A worker thread has 2 MB.
pub(crate) const SCRIPT_STACK: usize = 256 * 1024;
/// The largest context of a handler, and the largest answer from it.
pub(crate) const MAX_SCRIPT_JSON: usize = 5 * 1024 * 1024;
/// Calls per engine. It is then replaced, so that nothing accumulates in it.
pub(crate) const CALLS_PER_ENGINE: u32 = 100_000;
/// Idle engines that are kept.
pub(crate) const IDLE_ENGINES: usize = 16;
/// Errors that one handler may append.
pub(crate) const MAX_APPENDED_ERRORS: usize = 100;

/// Log lines that are kept of one handler.
pub(crate) const MAX_LOG_LINES: usize = 100;
/// The largest context of EvaluateCode, in characters.
pub(crate) const MAX_EVALUATED_CONTEXT: usize = 28_000;

/// Functions per pipeline.
pub(crate) const MAX_PIPELINE_FUNCTIONS: usize = 10;

/// The largest message to a subscriber.
pub(crate) const MAX_SUBSCRIPTION_PAYLOAD: usize = 240 * 1024;
/// The largest message from a WebSocket client.
pub(crate) const MAX_CLIENT_MESSAGE: usize = 128 * 1024;
/// Subscriptions per WebSocket.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 100;
/// WebSockets per server.
pub(crate) const MAX_CONNECTIONS: usize = 10_000;
/// Messages that may wait for a subscriber. One more, and the subscriber is dropped as too slow.
pub(crate) const SEND_QUEUE: usize = 256;
/// Publications that may wait for the task that serves subscribers. One more, and mutations wait too.
pub(crate) const PUBLISH_QUEUE: usize = 1024;
/// How often a keep-alive is sent.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How long a client should wait for a keep-alive (`connectionTimeoutMs`).
pub(crate) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a client that is dropped has to take its last message.
pub(crate) const CLOSE_TIME: Duration = Duration::from_millis(500);
/// How much is read at a time from a WebSocket. The default of the library is 128 KB per WebSocket.
pub(crate) const SOCKET_READ_BUFFER: usize = 4 * 1024;

/// Groups per subscription filter.
pub(crate) const MAX_FILTER_GROUPS: usize = 10;
/// Filters per group.
pub(crate) const MAX_FILTERS: usize = 5;
/// Values per `in` or `notIn`.
pub(crate) const MAX_IN_VALUES: usize = 5;
/// Values per `containsAny`.
pub(crate) const MAX_FILTER_VALUES: usize = 20;
/// Different invalidations of subscriptions per request.
pub(crate) const MAX_INVALIDATIONS: usize = 5;

/// The bounds that a program may change ([`Builder::limits`](crate::Builder::limits)). All others are constants.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How deep selections may nest.
    pub query_depth: usize,
    /// Resolver calls per request.
    pub resolvers: usize,
    /// How long a request may take.
    pub execution_time: Duration,
    /// The largest answer.
    pub response_bytes: usize,
    /// What the handlers of one request may be given, in all.
    pub context_bytes: usize,
    /// How long one handler may run.
    pub script_time: Duration,
    /// How much memory one engine may use.
    pub script_memory: usize,
    /// WebSockets per server.
    pub connections: usize,
    /// Subscriptions per WebSocket.
    pub subscriptions: usize,
    /// Messages that may wait for a subscriber.
    pub send_queue: usize,
    /// How often a keep-alive is sent.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            query_depth: MAX_QUERY_DEPTH,
            resolvers: MAX_RESOLVERS,
            execution_time: EXECUTION_TIME,
            response_bytes: MAX_RESPONSE_BYTES,
            context_bytes: MAX_CONTEXT_BYTES,
            script_time: SCRIPT_TIME,
            script_memory: SCRIPT_MEMORY,
            connections: MAX_CONNECTIONS,
            subscriptions: MAX_SUBSCRIPTIONS,
            send_queue: SEND_QUEUE,
            keep_alive: KEEP_ALIVE,
        }
    }
}
