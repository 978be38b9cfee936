//! sessync: every line of Claude Code's session logs in BigQuery, once.
//!
//! A run finds a project's log files ([`discovery`]), reads what is new in them ([`files`], [`reader`],
//! [`mod@line`]), leaves out the lines that are uploaded already ([`digest`], [`seen`]), takes out the secrets
//! ([`redact`]) and sends the rest in batches ([`row`], [`upload`], [`bigquery`]).
//!
//! The promise: a line is at the destination once. Before a batch is sent, its intent is on the disk
//! ([`journal`]); after it was accepted, that is. A run that finds an intent without its end asks the
//! destination which of the rows are there. Nothing is guessed, so a crash at any point loses no line and
//! doubles none.

pub mod auth;
pub mod bigquery;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod deliver;
pub mod digest;
pub mod discovery;
pub mod files;
pub mod hook;
pub mod journal;
pub mod legacy;
pub mod line;
pub mod lock;
pub mod network;
pub mod project;
pub mod reader;
pub mod redact;
pub mod report;
pub mod row;
pub mod schema;
pub mod seen;
pub mod shared;
pub mod transport;
pub mod upload;
