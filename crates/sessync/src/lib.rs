//! sessync uploads Claude Code's session logs to BigQuery: every line exactly once.
//!
//! # One log line
//!
//! 1. `sessync upload` ([`command`]) finds the project's log files ([`source`]), takes the project's lock and opens its
//!    [`journal`].
//! 2. If an earlier run was interrupted, the run ([`upload`]) first asks BigQuery which rows of its batches arrived.
//! 3. It reads what is new in each file, line by line. The journal knows the key of every uploaded line, so a line that
//!    was copied into another file is left out.
//! 4. It replaces secrets ([`redact`]), builds a row, and puts it into a batch.
//! 5. When the batch is full, it writes the batch's *intent* (id and keys) to the journal, syncs the disk, and sends the
//!    batch to BigQuery ([`outside`]).
//! 6. It writes to the journal what became of the batch. Only then do the files count as read that far.
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | the process, at any point | the next run asks BigQuery about every intent without an end, and reads again what did not arrive |
//! | a request gets no answer | BigQuery is asked for the rows of the batch before anything is sent again |
//! | BigQuery is throttled or down | the batch is tried again for up to five minutes; then the run ends with an error, and the next one goes on |
//! | BigQuery refuses a row | the row is set aside in `dead-letters.jsonl` with the reason; the other rows of the batch are sent again |
//! | the journal is damaged | it is set aside with the reason and rebuilt from the rows that BigQuery has |
//! | the disk is full or read-only | the run stops before the next batch |
//! | a log file cannot be read | it is reported, and the run goes on with the other files |
//! | another run of the project | this one waits 30 seconds; with `--auto` it ends at once |
//! | a checkout that is not trusted | nothing is sent and nothing is remembered; the message says how to trust it ([`command`]) |
//! | a hook | the failure is kept and told: by `status`, at the next start, and after a day when a session begins |
//! | another machine, with a shared state | the machines take turns; a machine that dies is taken over after its lease |
//!
//! # Commands
//!
//! One file each in `command/`: `upload` (the default), `status`, `verify`, `forget`, `reset`, `export-state`, `schema`,
//! `report`, `self-check`, `trust`, `notice`, `install-hook` and `uninstall-hook` (`hook.rs`). `command/mod.rs` has the command line itself.

pub mod clock;
pub mod command;
pub mod dir;
mod failure;
pub mod journal;
pub mod outside;
pub mod redact;
pub mod schema;
mod settings;
pub mod source;
mod trust;
pub mod upload;
mod usage;
