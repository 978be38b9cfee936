//! What operators do through the API: it is written down who asked for it before it is done.

use function::operation::{DOUBTFUL, FAILED, Operation};

use super::{Error, Ledger, fault};
use crate::table;

impl Ledger {
    /// Carries out `work` for an operator. If it cannot be written who asked, nothing is done.
    pub(crate) async fn by_hand<T>(
        &self,
        operation: &Operation,
        work: impl Future<Output = Result<T, Error>>,
        done: impl FnOnce(&T) -> String,
    ) -> Result<T, Error> {
        let operations = table::operations(self.table_name());
        let client = &self.0.writer;
        let begun = operations.begin(client, operation, self.now()).await.map_err(fault)?;
        let result = work.await;
        let outcome = match &result {
            Ok(value) => done(value),
            // A newer version may have made a record that this one cannot read, and what belongs to it.
            Err(error @ (Error::Unresolved | Error::Record(_))) => format!("{DOUBTFUL}{}", telemetry::causes(error)),
            Err(error) => format!("{FAILED}{}", telemetry::causes(error)),
        };
        if let Err(error) = operations.end(client, &begun, &outcome, self.now()).await {
            let Operation { what, on, by, .. } = operation;
            tracing::error!(
                error = &error as &(dyn std::error::Error + 'static),
                "could not write the end of {what} of {on} by operator {by}; its trace says only that it began: {outcome}"
            );
        }
        result
    }
}
