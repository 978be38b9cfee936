//! `ichidoctl`: what an operator does by hand.
//!
//! # One command
//!
//! 1. [`command`] reads the command line and makes the [`context`]: the options that all commands share, the AWS clients,
//!    and where to write.
//! 2. The command (`command/NAME.rs`, one file each) asks AWS for what there is.
//! 3. If it is to change something that cannot be undone, it shows what it found and asks the operator.
//! 4. It changes only what it has shown. If somebody else changed it in between, nothing happens.
//! 5. It leaves a line of JSON about the change on standard error, and prints the result: text for a person, or JSON
//!    with `--json`.
//!
//! Two commands go beyond one question and one change. [`rollout`] moves traffic step by step and decides with a state
//! machine. [`doctor`] compares everything that is deployed with the templates.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | no environment is named | nothing; the error says how to name one. Production is never the default |
//! | AWS refuses a call, or does not answer | the command ends with code 2; the error names the call, the permission that it needs, and the cause |
//! | one of several places cannot be read | what could be read is shown, and the error below it |
//! | somebody else changed what is to be changed | nothing is changed, and the command says so |
//! | the process is killed during a rollout | the alias says how far it came; the same command goes on, `--abort` goes back |
//! | an alarm rings during a rollout | traffic goes back to the old version |
//!
//! Exit codes: 0 all is well, 1 somebody has to look at something, 2 the command could not do what was asked.
//!
//! # Commands
//!
//! `rollout`, `rollback`, `doctor`, `cost`, `keys`, `dead-letters`, `schedules`, `trace`, `tokens`.
//!
//! Invariant: `applications.rs` knows where an application keeps its things, and `tokens` calls the ledger of the crate
//! `tokens`. Nothing else here knows how an application works.

pub mod applications;
pub mod command;
pub mod context;
mod dead_letter;
mod doctor;
mod infra;
mod outside;
mod record;
pub mod rollout;
mod show;
