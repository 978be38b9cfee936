//! Operations by hand leave a trace: who did what, to what, why, what was shown when it was confirmed, and what became of it.
//!
//! The trace is one item per operation in the table of the application that it concerns ([`function::operation`]), and one line of JSON
//! on standard error. The item is written after the operator has confirmed and before anything is changed. If it cannot be written,
//! or if AWS does not say who the caller is, nothing is changed.

use function::operation::{Begun, DOUBTFUL, FAILED, NO_REASON, Operation, Operations, PARTLY};
use ichido::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::applications::Application;
use crate::context::{Context, Error, failed};
use crate::outside::error::is_unclear;

/// How much of what was shown is kept, in characters. An item takes 400 KB.
const MOST_SHOWN: usize = 8_000;
/// How much of what became of it is kept.
const MOST_OUTCOME: usize = 2_000;

/// What an operator has confirmed.
#[derive(Debug)]
pub(crate) struct Intent<'a> {
    pub application: Application,
    pub table: &'a str,
    /// What is done: `freeze`.
    pub what: &'a str,
    /// What it is done to.
    pub on: &'a str,
    pub reason: &'a str,
    /// The question that was asked, if there was one.
    pub question: Option<&'a str>,
    /// What is changed, as it was before.
    pub before: Value,
}

/// An operation that is in the table and may be carried out.
#[derive(Debug)]
pub(crate) struct Traced {
    place: Operations,
    begun: Begun,
    application: Application,
    operation: Operation,
}

/// Writes that an operation begins.
pub(crate) async fn begin(context: &mut Context<'_>, intent: Intent<'_>) -> Result<Traced, Error> {
    let Intent { application, table, what, on, reason, question, before } = intent;
    let confirmed = question.map(|_| context.confirmed());
    let shown = json!({ "question": question, "confirmed": confirmed, "before": before }).to_string();
    let reason = if reason.trim().is_empty() { NO_REASON } else { reason };
    let operation = Operation {
        what: what.to_owned(),
        on: on.to_owned(),
        by: context.caller().await?,
        reason: reason.to_owned(),
        shown: cut(&shown, MOST_SHOWN),
    };
    let place = application.operations(table);
    let begun = place.begin(&context.aws.dynamodb(), &operation, SystemClock.now()).await.map_err(|error| {
        failed(
            format!(
                "could not write into {table} who does this, so nothing was changed; check the permission dynamodb:PutItem"
            ),
            error,
        )
    })?;
    Ok(Traced { place, begun, application, operation })
}

impl Traced {
    /// Who does it.
    pub(crate) fn by(&self) -> &str {
        &self.operation.by
    }

    /// Writes what became of it, into the table and to standard error. `done` says what was done. If that fails, the operation is what
    /// it is, and its beginning is in the table.
    pub(crate) async fn end<T>(
        self,
        context: &Context<'_>,
        result: &Result<T, Error>,
        done: impl FnOnce(&T) -> String,
    ) {
        let Traced { place, begun, application, operation } = self;
        let Operation { what, on, by, reason, .. } = operation;
        let (level, outcome) = match result {
            Ok(done_with) => ("WARN", done(done_with)),
            Err(error @ Error::Partly { .. }) => ("ERROR", format!("{PARTLY}{}", telemetry::causes(error))),
            // An answer may be lost after AWS has done what it was asked.
            Err(error) if is_unclear(error) => ("ERROR", format!("{DOUBTFUL}{}", telemetry::causes(error))),
            Err(error) => ("ERROR", format!("{FAILED}{}", telemetry::causes(error))),
        };
        let outcome = cut(&outcome, MOST_OUTCOME);
        let ended = place.end(&context.aws.dynamodb(), &begun, &outcome, SystemClock.now()).await;
        let said = if result.is_ok() { outcome } else { format!("{what} of {on} by hand {outcome}") };
        // Whether somebody reads the log changes nothing about the operation.
        let _ = context.log(&json!({
            "level": level, "message": said, "operation": what, "application": application.name(), "on": on,
            "by": by, "reason": reason,
        }));
        if let Err(error) = ended {
            let _ = context.log(&json!({
                "level": "ERROR", "operation": what, "application": application.name(), "on": on,
                "message": format!("could not write the end of this operation; its trace says only that it began: {}", telemetry::causes(&error)),
            }));
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!((cut("ああ", 2), cut("あああ", 2)), ("ああ".to_owned(), "ああ…".to_owned()));
    }
}
