//! Realtime groups of nodes: a GraphQL API on AppSync.
//!
//! A host creates a group; nodes join it, report data and fire events; everybody in the group receives them. Most of
//! this runs as JavaScript inside AppSync, in `infra/appsync/`, and never comes here. This crate is the Lambda function
//! `mesh-resolver`, which does the operations that take more than a few requests to the table, or a hash.
//!
//! # One message
//!
//! A message never enters this crate. Its way runs through `infra/appsync/`; read the files in this order:
//!
//! 1. `infra/appsync/schema.graphql`: the mutation that publishes, and the subscriptions that it reaches.
//! 2. `infra/appsync/resolvers/publishEvents.js` (for a report: `infra/appsync/resolvers/reportDataByNode.js`), its `request`:
//!    makes the message out of the arguments.
//! 3. `infra/appsync/functions/checkBounds.js`: refuses what is too long or too large.
//! 4. `infra/appsync/functions/checkMessageId.js`: recognises a repeated publish by the library's record of the first one.
//! 5. `infra/appsync/functions/takeSequence.js`: takes the group's next number, if the group is alive.
//! 6. `infra/appsync/functions/writeMessage.js`: writes the message and the library's record in one transaction, if
//!    the node is a member.
//! 7. `infra/appsync/functions/declareVoid.js`: if the message was refused, says so in the group's stream.
//! 8. The resolver of step 2 again, its `response`: the answer. AppSync sends it to every subscriber of the group
//!    (on one machine `crates/appsync` does).
//! 9. `clients/mesh/mesh.js`: puts the messages into their order and fetches what it missed.
//!
//! `infra/templates/mesh.yaml` says which resolver has which steps.
//!
//! # One call of `mesh-resolver`
//!
//! `infra/appsync/resolvers/lambda.js` sends the field and its arguments to `function/resolver.rs`, which calls `domain.rs`,
//! `create.rs`, `leave.rs` or `dissolve.rs`. Only `table/` knows the names of the table's attributes.
//!
//! # Failures
//!
//! | what happens | what comes of it |
//! |---|---|
//! | `createGroup` is called fifty times at once | one group: the record of host and domain is the first item of the transaction (`join`) |
//! | the group of that record has ended | the transaction that makes the new group replaces the record |
//! | `dissolveGroup` dies half-way | the group has ended already; the same call, repeated, does the rest |
//! | the answer to `dissolveGroup` (with a `messageId`), `leaveGroup` or `createGroup` is lost | the same call, repeated, succeeds, notifies again and ends the subscriptions that the first one should have ended |
//! | a node joins while its group is dissolved | refused: the transaction of `joinGroup` checks the group, which ends first |
//! | a node publishes while its group is dissolved | refused, or the message is deleted: nodes expire before messages are deleted, and publishing checks the node |
//! | DynamoDB fails, or a permission is missing | the caller gets `Unavailable` and tries again; the function fails with the cause, and resolvers write it to AppSync's log: alarms ring |
//!
//! Invariant: a node that is not a member, or whose group is gone or has expired, can publish nothing
//! (`tests/operations.rs`, `tests/races.rs`).

mod create;
mod dissolve;
mod domain;
pub mod function;
mod group;
mod leave;
pub mod settings;
pub mod table;

use ::function::Definition;

/// `createDomain`, `createGroup`, `leaveGroup` and `dissolveGroup`.
pub const RESOLVER: Definition = Definition {
    name: "mesh-resolver",
    variables: settings::VARIABLES,
    build: |env, aws| Box::pin(function::resolver::build(env, aws)),
};

/// Every function of this application.
pub fn functions() -> Vec<Definition> {
    vec![RESOLVER]
}
