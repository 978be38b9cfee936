//! Parses and validates documents, and keeps the valid ones for the next request with the same text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use apollo_compiler::executable::ExecutableDocument;
use apollo_compiler::parser::Parser;
use apollo_compiler::validation::{DiagnosticList, Valid};

use crate::limits::{CACHED_DOCUMENT_BYTES, CACHED_DOCUMENTS, MAX_QUERY_TOKENS, MAX_REQUEST_BYTES};
use crate::lock::lock;
use crate::response::{Error, Location};
use crate::schema::Schema;

/// The valid documents of an API, by their text.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    valid: Mutex<HashMap<String, Arc<Valid<ExecutableDocument>>>>,
}

impl Documents {
    /// A document, parsed and validated.
    pub(crate) fn parse(
        &self,
        schema: &Schema,
        query_depth: usize,
        query: &str,
    ) -> Result<Arc<Valid<ExecutableDocument>>, Vec<Error>> {
        if let Some(document) = lock(&self.valid).get(query) {
            return Ok(Arc::clone(document));
        }
        if query.len() > MAX_REQUEST_BYTES {
            return Err(vec![Error::typed(
                "QuerySizeLimitReached",
                format!("The query is larger than {MAX_REQUEST_BYTES} bytes."),
            )]);
        }
        let mut parser = Parser::new().token_limit(MAX_QUERY_TOKENS).recursion_limit(query_depth * 4 + 20);
        let parsed = parser.parse_executable(&schema.valid, query, "query.graphql");
        let document = parsed
            .map_err(|error| validation_errors(&error.errors))?
            .validate(&schema.valid)
            .map_err(|error| validation_errors(&error.errors))?;
        let document = Arc::new(document);
        if query.len() <= CACHED_DOCUMENT_BYTES {
            let mut documents = lock(&self.valid);
            if documents.len() >= CACHED_DOCUMENTS {
                documents.clear();
            }
            documents.insert(query.to_owned(), Arc::clone(&document));
        }
        Ok(document)
    }
}

/// What validation complains about, in AppSync's words where it has its own.
fn validation_errors(errors: &DiagnosticList) -> Vec<Error> {
    errors
        .iter()
        .map(|diagnostic| {
            let kind = diagnostic.error.unstable_error_name();
            let message = diagnostic.error.unstable_compat_message().unwrap_or_else(|| diagnostic.error.to_string());
            let message = match kind {
                Some("UndefinedField") => format!("Validation error of type FieldUndefined: {message}"),
                Some(kind) => format!("Validation error of type {kind}: {message}"),
                None => format!("Validation error: {message}"),
            };
            let locations: Vec<Location> =
                diagnostic.line_column_range().map(|range| range.start.into()).into_iter().collect();
            Error { locations, ..Error::request(message) }
        })
        .collect()
}
