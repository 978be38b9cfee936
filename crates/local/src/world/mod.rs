//! What surrounds the functions: everything that AWS would give them and that this platform has to play or record.
//!
//! | module | plays or records |
//! |---|---|
//! | `functions` | Lambda: one invocation of a handler |
//! | `invocations` | Lambda's asynchronous invocations and their retries |
//! | `store` | DynamoDB, with faults for handlers and without for tools |
//! | `queues` | SQS |
//! | `schedules` | EventBridge Scheduler |
//! | `throttles` | the throttles of API Gateway |
//! | [`metrics`], [`metric_filters`], [`alarms`] | CloudWatch |
//! | `live`, `rates`, `pattern` | events for the console, what happened in the last minutes, and log lines |
//! | `faults` | what is broken on purpose |
//! | `outbox` | requests with an effect that stand-ins received |

pub mod alarms;
pub(crate) mod faults;
pub(crate) mod functions;
pub(crate) mod invocations;
pub(crate) mod live;
pub mod metric_filters;
pub mod metrics;
pub(crate) mod outbox;
pub(crate) mod pattern;
pub(crate) mod queues;
pub(crate) mod rates;
pub(crate) mod schedules;
pub(crate) mod store;
pub(crate) mod throttles;
