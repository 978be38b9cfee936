//! Answers `__schema` and `__type`.

use apollo_compiler::introspection;
use apollo_compiler::validation::Valid;
use serde_json::Value;

use super::Execution;
use crate::response::Error;

impl Execution<'_> {
    /// The introspection fields of the operation, by their keys. `None` if it has none or they are not allowed.
    pub(super) fn introspect(&self) -> Option<Value> {
        let asks = self
            .operation
            .root_fields(self.document)
            .any(|field| field.name.starts_with("__") && field.name != "__typename");
        if !asks {
            return None;
        }
        if !self.api.introspection {
            self.push(Error::typed("ValidationError", "Introspection is disabled for this API.".to_owned()));
            return None;
        }
        let variables = serde_json::to_value(self.variables)
            .ok()
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default();
        let executed = introspection::check_max_depth(self.document, self.operation).and_then(|()| {
            introspection::partial_execute(
                &self.api.schema.valid,
                &self.api.schema.implementers,
                self.document,
                self.operation,
                &Valid::assume_valid(variables),
            )
        });
        match executed {
            Ok(response) => {
                for error in response.errors {
                    self.push(Error::request(error.message));
                }
                let value = serde_json::to_value(response.data).unwrap_or(Value::Null);
                self.count(value.to_string().len());
                Some(value)
            }
            Err(error) => {
                self.push(Error::typed("ValidationError", error.message().to_string()));
                None
            }
        }
    }
}
