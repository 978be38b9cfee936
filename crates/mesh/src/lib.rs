//! Realtime groups of nodes: what takes more than a few requests to the table.
//!
//! The mesh is a GraphQL API on AppSync. Most of its operations are resolvers in JavaScript
//! (`infra/appsync/`), which talk to DynamoDB without any function. Three are not so light and come here, to
//! `mesh-resolver`: [`create`] is idempotent for host and domain, also when it is called fifty times at once;
//! [`leave`] undoes a membership; [`dissolve`] removes everything that a group has left in the table.
//!
//! | what happens | what comes of it |
//! |---|---|
//! | `createGroup` fifty times at once | one group: the record of host and domain is the first item of the transaction (`join`) |
//! | the group of the record is over | the record is replaced, in the transaction that makes the new group |
//! | `dissolveGroup` dies half-way | the group has ended already; the same call goes on where it stopped |
//! | a node joins or publishes while its group is dissolved | refused: joining checks the group, publishing checks the node, and both go before what they could leave behind |
//!
//! Invariant: a node that is not a member, or whose group is gone or expired, can publish nothing (`tests/`).

pub mod create;
pub mod dissolve;
pub mod group;
pub mod leave;
pub mod resolver;
pub mod settings;
pub mod table;

use function::Definition;

/// `createGroup`, `leaveGroup` and `dissolveGroup`.
pub const RESOLVER: Definition = Definition {
    name: "mesh-resolver",
    variables: settings::VARIABLES,
    build: |env, aws| Box::pin(resolver::build(env, aws)),
};

/// Every function of this application.
pub fn functions() -> Vec<Definition> {
    vec![RESOLVER]
}
