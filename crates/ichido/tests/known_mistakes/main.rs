//! What other idempotency implementations got wrong in public. `docs/known-mistakes.md` has the reports.
//!
//! A test that the page names first makes the mistake itself, in the naive form, and then disturbs the library in the same
//! way. The others are about the same mistakes and have no naive form.
//!
//! All tests use the DynamoDB store on the embedded engine.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod batches;
mod crashes;
mod keys;
mod naive;
mod owners;
mod requests;
mod time;
