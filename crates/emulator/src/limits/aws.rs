//! AWS's documented limits: the defaults of an account in ap-northeast-1 that nobody has raised. The documents were looked up in
//! November 2026. Each limit names the document, and its row where the document is a table.
//!
//! Where a document gives several numbers, the lowest that applies is used, and the comment says so.

use super::{Answer, Bound, Limit};

const KB: u64 = 1024;

const fn rate(per_second: u32, burst: u32) -> Bound {
    Bound::Rate { per_second: per_second as f64, burst: burst as f64 }
}

const fn no(status: u16, code: &'static str, message: &'static str) -> Answer {
    Answer { status, code, message }
}

const LIMITS_OF_DYNAMODB: &str =
    "Amazon DynamoDB Developer Guide, Quotas in Amazon DynamoDB (Limits.html, ServiceQuotas.html)";
const PARTITIONS: &str = "Amazon DynamoDB Developer Guide, Best practices for designing and using partition keys effectively; AWS Knowledge Center, on-demand-table-throttling-dynamodb: 1,000 write units and 3,000 read units per partition";
const NEW_TABLE: &str = "Amazon DynamoDB Developer Guide, DynamoDB on-demand capacity mode (on-demand-capacity-mode.html): a new table takes 4,000 write units or 12,000 read units at once, and twice its previous peak later";
const TRANSACTIONS: &str =
    "Amazon DynamoDB Developer Guide, Amazon DynamoDB Transactions: How it works (transaction-apis.html)";

/// The price of a quota that Service Quotas raises.
const FREE: &str = "a quota, raised on request, free of charge";
const NOTHING: &str = "nothing can be bought";
const SPREAD: &str = "nothing: a write unit costs $0.715 per million under any key; reading all shards costs one read each, $0.143 per million";
const WARM: &str =
    "waiting is free; warm throughput is paid once per unit that it adds (AWS's price page; not in the cost model)";

/// One key value is on one partition. DynamoDB may spread the items of one key over several partitions after minutes of heat
/// ("split for heat"); one item never exceeds this.
pub const DYNAMODB_PARTITION_WRITES: Limit = Limit {
    name: "dynamodb-partition-writes",
    what: "write units per second and partition key",
    bound: rate(1_000, 1_000),
    source: PARTITIONS,
    raised_by: "another key: the writes of one key are spread over several (shards)",
    price: SPREAD,
    answer: no(
        400,
        "ProvisionedThroughputExceededException",
        "Throughput exceeds the maximum write limit of a partition of the table.",
    ),
};
pub const DYNAMODB_PARTITION_READS: Limit = Limit {
    name: "dynamodb-partition-reads",
    what: "read units per second and partition key",
    bound: rate(3_000, 3_000),
    source: PARTITIONS,
    raised_by: "another key, or a copy in memory",
    price: "a copy in memory is free; so is another key: a read unit costs $0.143 per million under any key",
    answer: no(
        400,
        "ProvisionedThroughputExceededException",
        "Throughput exceeds the maximum read limit of a partition of the table.",
    ),
};
/// What a table takes that was never busier than half of it. Twice the previous peak is taken at once; more than that within 30 minutes
/// may be refused. It grows up to the quota of 40,000 ([`DYNAMODB_TABLE_QUOTA`]).
pub const DYNAMODB_TABLE_WRITES: Limit = Limit {
    name: "dynamodb-table-writes",
    what: "write units per second and on-demand table, until it has grown",
    bound: rate(4_000, 4_000),
    source: NEW_TABLE,
    raised_by: "half an hour of growing load, or warm throughput (UpdateTable); up to the quota of 40,000",
    price: WARM,
    answer: no(
        400,
        "ThrottlingException",
        "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly.",
    ),
};
pub const DYNAMODB_TABLE_READS: Limit = Limit {
    name: "dynamodb-table-reads",
    what: "read units per second and on-demand table, until it has grown",
    bound: rate(12_000, 12_000),
    source: NEW_TABLE,
    raised_by: "half an hour of growing load, or warm throughput (UpdateTable); up to the quota of 40,000",
    price: WARM,
    answer: no(
        400,
        "ThrottlingException",
        "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly.",
    ),
};
/// The default quota of one on-demand table, for each of reads and writes.
pub const DYNAMODB_TABLE_QUOTA: Limit = Limit {
    name: "dynamodb-table-quota",
    what: "request units per second and on-demand table",
    bound: rate(40_000, 40_000),
    source: LIMITS_OF_DYNAMODB,
    raised_by: "Service Quotas",
    price: FREE,
    answer: no(400, "RequestLimitExceeded", "Throughput exceeds the current throughput limit for your account."),
};
pub const DYNAMODB_ITEM_SIZE: Limit = Limit {
    name: "dynamodb-item-size",
    what: "bytes per item, with the names of its attributes",
    bound: Bound::Size(400 * KB),
    source: LIMITS_OF_DYNAMODB,
    raised_by: "nothing; a larger value goes to S3",
    price: NOTHING,
    answer: no(400, "ValidationException", "Item size has exceeded the maximum allowed size"),
};
pub const DYNAMODB_TRANSACTION_ACTIONS: Limit = Limit {
    name: "dynamodb-transaction-actions",
    what: "actions per transaction",
    bound: Bound::Size(100),
    source: TRANSACTIONS,
    raised_by: "nothing; the work is split",
    price: NOTHING,
    answer: no(400, "ValidationException", "Member must have length less than or equal to 100"),
};
pub const DYNAMODB_TRANSACTION_SIZE: Limit = Limit {
    name: "dynamodb-transaction-size",
    what: "bytes of all items of a transaction",
    bound: Bound::Size(4 * KB * KB),
    source: TRANSACTIONS,
    raised_by: "nothing; the work is split",
    price: NOTHING,
    answer: no(400, "ValidationException", "Transaction request size exceeded the limit of 4 MB"),
};
/// An item is in one transaction at a time.
pub const DYNAMODB_TRANSACTION_CONFLICT: Limit = Limit {
    name: "dynamodb-transaction-conflict",
    what: "transactions per item",
    bound: Bound::Alone,
    source: "Amazon DynamoDB Developer Guide, Amazon DynamoDB Transactions: How it works, Transaction conflict handling",
    raised_by: "another item: what many transactions write is spread over several (shards)",
    price: SPREAD,
    answer: no(400, "TransactionConflictException", "Transaction is ongoing for the item"),
};

const QUOTAS_OF_LAMBDA: &str = "AWS Lambda Developer Guide, Lambda quotas (gettingstarted-limits.html)";

/// The whole account. A new account begins with less, often with 10.
pub const LAMBDA_CONCURRENCY: Limit = Limit {
    name: "lambda-concurrency",
    what: "invocations at the same time per account and region",
    bound: Bound::AtOnce(1_000),
    source: QUOTAS_OF_LAMBDA,
    raised_by: "Service Quotas, up to tens of thousands",
    price: FREE,
    answer: no(429, "TooManyRequestsException", "Rate Exceeded."),
};
/// A function that has a part of the account's concurrency to itself, and no more than that. By default none has. Whoever plays Lambda sets
/// what `reservedConcurrency` in infra/environments.ts gives a function.
pub const LAMBDA_RESERVED: Limit = Limit {
    name: "lambda-reserved-concurrency",
    what: "invocations of one function at the same time",
    bound: Bound::AtOnce(u64::MAX),
    source: "AWS Lambda Developer Guide, Configuring reserved concurrency for a function: none by default",
    raised_by: "reservedConcurrency in infra/environments.ts",
    price: "a setting, free of charge; the account's pool is smaller by as much",
    answer: no(429, "TooManyRequestsException", "Rate Exceeded."),
};
/// Filled continuously, as the document says that Lambda tries to.
pub const LAMBDA_SCALING: Limit = Limit {
    name: "lambda-scaling",
    what: "new instances of a function: 1,000 every 10 seconds",
    bound: rate(100, 1_000),
    source: "AWS Lambda Developer Guide, Lambda scaling behavior (scaling-behavior.html), Concurrency scaling rate",
    raised_by: "provisioned concurrency",
    price: "about $3 per month for each instance of 256 MB that is kept (arm64), used or not (AWS's price page; not in the cost model)",
    answer: no(429, "TooManyRequestsException", "Rate Exceeded."),
};
/// Ten requests per second for each unit of concurrency.
pub const LAMBDA_REQUESTS: Limit = Limit {
    name: "lambda-requests",
    what: "synchronous invocations per second and function",
    bound: rate(10_000, 10_000),
    source: "AWS Lambda Developer Guide, Lambda quotas: ten times the concurrent executions",
    raised_by: "more concurrency",
    price: FREE,
    answer: no(429, "TooManyRequestsException", "Rate Exceeded."),
};
pub const LAMBDA_SYNC_PAYLOAD: Limit = Limit {
    name: "lambda-payload",
    what: "bytes of a synchronous request or answer",
    bound: Bound::Size(6 * KB * KB),
    source: QUOTAS_OF_LAMBDA,
    raised_by: "nothing",
    price: NOTHING,
    answer: no(
        413,
        "RequestTooLargeException",
        "Request must be smaller than 6291456 bytes for the InvokeFunction operation",
    ),
};
pub const LAMBDA_EVENT_PAYLOAD: Limit = Limit {
    name: "lambda-event-payload",
    what: "bytes of an asynchronous event",
    bound: Bound::Size(KB * KB),
    source: QUOTAS_OF_LAMBDA,
    raised_by: "nothing",
    price: NOTHING,
    answer: no(
        413,
        "RequestTooLargeException",
        "Request must be smaller than 1048576 bytes for the InvokeFunction operation",
    ),
};

/// The whole account, all APIs.
pub const HTTP_API_ACCOUNT: Limit = Limit {
    name: "http-api-account",
    what: "requests per second per account and region",
    bound: rate(10_000, 5_000),
    source: "Amazon API Gateway Developer Guide, Amazon API Gateway quotas (limits.html), API Gateway account-level quotas",
    raised_by: "Service Quotas; AWS sets the burst by the rate",
    price: FREE,
    answer: no(429, "", "Too Many Requests"),
};
/// Our own limit on each route. Its number is that of the most generous route; whoever plays API Gateway sets each route's own.
pub const HTTP_API_ROUTE: Limit = Limit {
    name: "http-api-route",
    what: "requests per second and route",
    bound: rate(400, 800),
    source: "infra/templates/shared.yaml, RouteSettings: our own limit, so that a flood of one route does not reach the others",
    raised_by: "throttling in infra/environments.ts",
    price: "a setting, free of charge; each request that it lets through costs $1.29 per million, and what it does",
    answer: no(429, "", "Too Many Requests"),
};

/// GetParameter, GetParameters, GetParametersByPath and PutParameter share it. The document names no burst.
pub const SSM_PARAMETERS: Limit = Limit {
    name: "ssm-parameters",
    what: "reads of parameters per second per account and region",
    bound: rate(40, 40),
    source: "AWS General Reference, AWS Systems Manager endpoints and quotas, Parameter Store, Max throughput: default 40",
    raised_by: "the setting high-throughput-enabled of Parameter Store: up to thousands per second",
    price: "$0.05 per 10,000 parameters that are read, every read from then on (AWS's price page; not in the cost model)",
    answer: no(400, "ThrottlingException", "Rate exceeded"),
};

/// Schedules that start something. ap-northeast-1 is one of the regions with the higher number.
pub const SCHEDULER_INVOCATIONS: Limit = Limit {
    name: "scheduler-invocations",
    what: "invocations of targets per second per account and region",
    bound: rate(1_000, 1_000),
    source: "Amazon EventBridge Scheduler User Guide, Quotas for Amazon EventBridge Scheduler, Invocations throttle limit",
    raised_by: "Service Quotas, up to tens of thousands; Scheduler itself tries again",
    price: FREE,
    answer: no(429, "ThrottlingException", "Rate exceeded"),
};

const QUOTAS_OF_APPSYNC: &str = "AWS General Reference, AWS AppSync endpoints and quotas (appsync.html)";

/// 5,000 or 10,000, by region: this is the lower. Earlier lists say 2,000. A request of up to 1,500 KB-seconds takes one token.
pub const APPSYNC_REQUESTS: Limit = Limit {
    name: "appsync-requests",
    what: "request tokens per second per account and region",
    bound: rate(5_000, 5_000),
    source: "AWS AppSync Developer Guide, Using token counts to optimize your requests: 5,000 or 10,000 by region",
    raised_by: "Service Quotas",
    price: FREE,
    answer: no(429, "TooManyRequestsException", "Rate exceeded"),
};
pub const APPSYNC_INBOUND: Limit = Limit {
    name: "appsync-inbound-messages",
    what: "messages per second that mutations publish, per API",
    bound: rate(10_000, 10_000),
    source: QUOTAS_OF_APPSYNC,
    raised_by: "Service Quotas",
    price: FREE,
    answer: no(429, "TooManyRequestsException", "Rate exceeded"),
};
pub const APPSYNC_OUTBOUND: Limit = Limit {
    name: "appsync-outbound-messages",
    what: "messages per second that subscribers get, per API, in units of 5 KB",
    bound: rate(1_000_000, 1_000_000),
    source: QUOTAS_OF_APPSYNC,
    raised_by: "Service Quotas",
    price: FREE,
    answer: no(429, "TooManyRequestsException", "Rate exceeded"),
};
pub const APPSYNC_CONNECTIONS: Limit = Limit {
    name: "appsync-connections",
    what: "new connections per second per API",
    bound: rate(2_000, 2_000),
    source: QUOTAS_OF_APPSYNC,
    raised_by: "Service Quotas",
    price: FREE,
    answer: no(429, "LimitExceededError", "Rate limit exceeded"),
};
/// 100 in the earlier list, 200 in the later one.
pub const APPSYNC_SUBSCRIPTIONS: Limit = Limit {
    name: "appsync-subscriptions",
    what: "subscriptions per connection",
    bound: Bound::AtOnce(100),
    source: QUOTAS_OF_APPSYNC,
    raised_by: "Service Quotas, or a second connection",
    price: "free of charge; a second connection costs $0.08 per million minutes",
    answer: no(429, "MaxSubscriptionsReachedError", "Max number of 100 subscriptions reached"),
};
pub const APPSYNC_MESSAGE: Limit = Limit {
    name: "appsync-message-size",
    what: "bytes of a message to subscribers",
    bound: Bound::Size(240 * KB),
    source: QUOTAS_OF_APPSYNC,
    raised_by: "nothing; clients fetch the message (getMessagesSince)",
    price: "a query per message, $4 per million",
    answer: no(413, "PayloadTooLarge", "Payload size is too large"),
};

/// The whole account. Assumed: that Lambda's own deliveries count, and that an invocation needs one. No document says so. So this is never
/// the first limit.
pub const LOGS_PUT: Limit = Limit {
    name: "logs-put",
    what: "batches of log lines per second per account and region",
    bound: rate(5_000, 5_000),
    source: "Amazon CloudWatch Logs User Guide, CloudWatch Logs quotas, PutLogEvents; assumed: it counts what Lambda delivers, one batch per invocation",
    raised_by: "Service Quotas",
    price: FREE,
    answer: no(400, "ThrottlingException", "Rate exceeded"),
};
/// Everything that is known here. `PutMetricData` has a rate, too, but nothing of ours calls it: our metrics are log lines (EMF), which
/// [`LOGS_PUT`] limits.
pub const ALL: &[&Limit] = &[
    &DYNAMODB_PARTITION_WRITES,
    &DYNAMODB_PARTITION_READS,
    &DYNAMODB_TABLE_WRITES,
    &DYNAMODB_TABLE_READS,
    &DYNAMODB_TABLE_QUOTA,
    &DYNAMODB_ITEM_SIZE,
    &DYNAMODB_TRANSACTION_ACTIONS,
    &DYNAMODB_TRANSACTION_SIZE,
    &DYNAMODB_TRANSACTION_CONFLICT,
    &LAMBDA_CONCURRENCY,
    &LAMBDA_RESERVED,
    &LAMBDA_SCALING,
    &LAMBDA_REQUESTS,
    &LAMBDA_SYNC_PAYLOAD,
    &LAMBDA_EVENT_PAYLOAD,
    &HTTP_API_ACCOUNT,
    &HTTP_API_ROUTE,
    &SSM_PARAMETERS,
    &SCHEDULER_INVOCATIONS,
    &APPSYNC_REQUESTS,
    &APPSYNC_INBOUND,
    &APPSYNC_OUTBOUND,
    &APPSYNC_CONNECTIONS,
    &APPSYNC_SUBSCRIPTIONS,
    &APPSYNC_MESSAGE,
    &LOGS_PUT,
];

/// The limit of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Limit> {
    ALL.iter().copied().find(|limit| limit.name == name)
}
