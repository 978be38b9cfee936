//! `ichidoctl`: what an operator does by hand.
//!
//! # One command
//!
//! 1. [`command`] reads the command line and makes the [`context`]: the options that all commands share, the AWS clients,
//!    and where to write.
//! 2. The command (`command/NAME.rs`, one file each) asks AWS for what there is.
//! 3. Before a change that cannot be undone, it asks the operator.
//! 4. Before an operation that an auditor asks about, it writes into the table of the application who does it and why (`operation.rs`).
//! 5. It changes only what it has read: a claim with that fence, an alias with that revision, the messages that it holds.
//!    A schedule has no such condition; the last change wins.
//! 6. It prints the result: text for a person, or JSON with `--json`. Every change also writes one line of JSON to standard error.
//!    A rollout is recorded in the alias.
//!
//! Three commands go beyond one question and one change. [`rollout`] moves traffic step by step and decides with a state
//! machine. `doctor` compares everything that is deployed with the templates, and `mend` sets back what differs.
//! `console` serves the pages of `crates/console`, which ask the same questions and make the same changes.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | no environment is named | nothing; the error says how to name one. Production is never the default |
//! | AWS refuses a call, or does not answer | the command ends with code 2; the error names the call, the permission that it needs, and the cause |
//! | AWS does not say who the caller is, or the trace cannot be written | nothing is changed, and the error says so |
//! | the process is killed during an operation by hand | its trace has no end, and `operations` says that it may have happened |
//! | one of several places cannot be read | what could be read is shown, and the error below it |
//! | somebody else changed the claim or the alias in between | nothing is changed, and the command says so |
//! | the process is killed during a rollout | the alias says how far it came; the same command goes on, `--abort` goes back |
//! | an alarm rings during a rollout | traffic goes back to the old version |
//!
//! Exit codes: 0 all is well, 1 somebody has to look at something, 2 the command could not do what was asked.
//!
//! # Commands
//!
//! `rollout`, `rollback`, `doctor`, `mend`, `restore`, `console`, `cost`, `keys`, `dead-letters`, `schedules`, `slack`, `trace`, `operations`, `tokens`.
//!
//! Invariant: `applications.rs` knows where an application keeps its things, `tokens` calls the ledger of the crate `tokens`,
//! and `restore` lets the crate `feeds` say what an item of a copy means. `slack` lets the crate `slack` read and
//! judge its history. Nothing else here knows how an application works.

pub mod applications;
pub mod command;
pub mod context;
mod dead_letter;
mod deployed;
mod doctor;
mod infra;
mod operation;
mod outside;
mod record;
mod restoring;
pub mod rollout;
mod show;
