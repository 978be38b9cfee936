use std::time::Duration;

use serde_json::Value;

use crate::json::{number, text_of};
use crate::{Error, Template, function_name};

/// API Gateway's own default, which is also its maximum.
const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// `AWS::ApiGatewayV2::Route`.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// `POST /slack/events`
    pub key: String,
    /// The name of the function that answers it.
    pub function: String,
    pub timeout: Duration,
}

impl Template {
    /// The routes of the HTTP API.
    ///
    /// # Errors
    /// When one has no key or no target, or its integration is not in the template.
    pub fn routes(&self) -> Result<Vec<Route>, Error> {
        let route = |(id, properties): (&str, &Value)| {
            let target = text_of(&properties["Target"]).ok_or_else(|| Error::missing(id, "Target"))?;
            let integration = target.strip_prefix("integrations/").unwrap_or(&target);
            let integration = self.resources.get(integration).ok_or_else(|| Error::unknown(id, integration))?;
            let timeout = number(&integration.properties["TimeoutInMillis"]).unwrap_or(DEFAULT_TIMEOUT_MS);
            Ok(Route {
                key: text_of(&properties["RouteKey"]).ok_or_else(|| Error::missing(id, "RouteKey"))?,
                function: function_name(&integration.properties["IntegrationUri"]),
                timeout: Duration::from_millis(timeout),
            })
        };
        self.of_kind("AWS::ApiGatewayV2::Route").map(route).collect()
    }
}
