//! How long things take that are not simulated: the network, other people's servers, the start of an instance.
//!
//! They are assumptions: no document promises them. They decide how many invocations run at the same time, and how long a transaction
//! has its items to itself. The time of our own code is not counted: it takes less than a millisecond per call.

use std::time::Duration;

use emulator::limits::Latency;

/// DynamoDB's documentation speaks of single-digit milliseconds. A transaction has two phases.
pub const DYNAMODB: Latency =
    Latency { read: Duration::from_millis(4), write: Duration::from_millis(5), transaction: Duration::from_millis(12) };
/// A call of SSM, with the decryption by KMS.
pub const SSM: Duration = Duration::from_millis(15);
/// Lambda's own part of an invocation by its API.
pub const INVOKE: Duration = Duration::from_millis(15);
/// A new instance, from the request to the first line of our code.
pub const COLD_START: Duration = Duration::from_millis(150);
/// API Gateway's own part of a request.
pub const GATEWAY: Duration = Duration::from_millis(10);
/// AppSync's own part of a request.
pub const APPSYNC: Duration = Duration::from_millis(10);
/// infra/cost/usage.json: `slack-files` takes 400 ms, most of it Slack's.
pub const SLACK: Duration = Duration::from_millis(300);
/// Slack's documentation of `chat.postMessage` says that a workspace takes several hundred messages per minute from an app, beside one per
/// second and channel. This is a guess at that number.
pub const SLACK_POSTS_PER_MINUTE: u32 = 600;
/// infra/cost/usage.json: a notifier takes 700 ms, most of it the destination's.
pub const MASTODON: Duration = Duration::from_millis(500);
/// infra/cost/usage.json: a subscriber takes 500 ms, most of it the feed's.
pub const FEED: Duration = Duration::from_millis(400);
/// `insertAll` with a few hundred rows.
pub const BIGQUERY: Duration = Duration::from_millis(300);
