//! Every bound in one place, by name.
//!
//! The figures are AppSync's own where it states one (its "endpoints and quotas" page); the rest
//! are what keeps one process healthy. A request that meets a bound gets an error that names it.

use std::time::Duration;

/// The largest body of a GraphQL request.
pub const MAX_REQUEST_BYTES: usize = 1024 * 1024;
/// The largest answer to a GraphQL request.
pub const MAX_RESPONSE_BYTES: usize = 5 * 1024 * 1024;
/// Tokens in a document: what stops ten thousand aliases before anything runs.
pub const MAX_QUERY_TOKENS: usize = 15_000;
/// How deep selections may nest, and how deep the parser recurses.
pub const MAX_QUERY_DEPTH: usize = 75;
/// Resolver invocations a request.
pub const MAX_RESOLVERS: usize = 10_000;
/// How deep lists and objects may nest in a variable or an argument.
pub const MAX_INPUT_DEPTH: usize = 64;
/// Entries of `ctx.info.selectionSetList`; what a document selects beyond them is not listed.
pub const MAX_SELECTION_LIST: usize = 2_000;
/// How long a request may take as a whole.
pub const EXECUTION_TIME: Duration = Duration::from_secs(30);
/// Parsed and validated documents kept for the next request with the same text.
pub const CACHED_DOCUMENTS: usize = 512;
/// The longest document text that is kept.
pub const CACHED_DOCUMENT_BYTES: usize = 16 * 1024;

/// The largest resolver file.
pub const MAX_CODE_BYTES: usize = 32_000;
/// How long one handler (`request` or `response`) may run.
pub const SCRIPT_TIME: Duration = Duration::from_secs(1);
/// How much memory one engine may hold.
pub const SCRIPT_MEMORY: usize = 32 * 1024 * 1024;
/// How much stack one handler may use: well under the 2 MB of a worker thread.
pub const SCRIPT_STACK: usize = 256 * 1024;
/// The largest context handed to a handler and the largest answer taken from it.
pub const MAX_SCRIPT_JSON: usize = 5 * 1024 * 1024;
/// Calls an engine serves before it is replaced, so that nothing accumulates in it.
pub const CALLS_AN_ENGINE: u32 = 100_000;
/// Idle engines kept.
pub const IDLE_ENGINES: usize = 16;
/// Errors a handler may append.
pub const MAX_APPENDED_ERRORS: usize = 100;

/// Functions a pipeline may have.
pub const MAX_PIPELINE_FUNCTIONS: usize = 10;

/// The largest message to a subscriber.
pub const MAX_SUBSCRIPTION_PAYLOAD: usize = 240 * 1024;
/// The largest message from a client on a socket.
pub const MAX_CLIENT_MESSAGE: usize = 128 * 1024;
/// Subscriptions a socket.
pub const MAX_SUBSCRIPTIONS: usize = 100;
/// Sockets a server.
pub const MAX_CONNECTIONS: usize = 10_000;
/// Messages that wait for a reader before it is dropped as too slow.
pub const SEND_QUEUE: usize = 256;
/// Publications that wait for the dispatcher before mutations wait too.
pub const PUBLISH_QUEUE: usize = 1024;
/// How often a keep-alive is sent.
pub const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How long a client should wait for a keep-alive (`connectionTimeoutMs`).
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a dropped client gets to take its last message.
pub const CLOSE_TIME: Duration = Duration::from_millis(500);
/// What a socket reads at a time. The default of the WebSocket library is 128 KB, for each socket.
pub const SOCKET_READ_BUFFER: usize = 4 * 1024;

/// Groups and filters in one subscription filter.
pub const MAX_FILTER_GROUPS: usize = 10;
/// Filters in one group.
pub const MAX_FILTERS: usize = 5;
/// Values in one `in`, `notIn` or `containsAny`.
pub const MAX_FILTER_VALUES: usize = 20;

/// The bounds that an embedding program may change; everything else is a constant above.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How deep selections may nest.
    pub query_depth: usize,
    /// Resolver invocations a request.
    pub resolvers: usize,
    /// How long a request may take.
    pub execution_time: Duration,
    /// The largest answer.
    pub response_bytes: usize,
    /// How long one handler may run.
    pub script_time: Duration,
    /// How much memory one engine may hold.
    pub script_memory: usize,
    /// Sockets a server.
    pub connections: usize,
    /// Subscriptions a socket.
    pub subscriptions: usize,
    /// Messages that wait for a reader.
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
            script_time: SCRIPT_TIME,
            script_memory: SCRIPT_MEMORY,
            connections: MAX_CONNECTIONS,
            subscriptions: MAX_SUBSCRIPTIONS,
            send_queue: SEND_QUEUE,
            keep_alive: KEEP_ALIVE,
        }
    }
}
