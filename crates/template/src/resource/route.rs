use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::json::{decimal, number, text_of};
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

/// The name under which [`Template::throttles`] has what holds for routes that the stage does not name.
pub const DEFAULT_ROUTE: &str = "$default";

/// How many requests a route lets through: on average per second, and at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    pub rate: f64,
    pub burst: f64,
}

impl Throttle {
    fn of(settings: &Value) -> Option<Self> {
        Some(Throttle {
            rate: decimal(&settings["ThrottlingRateLimit"])?,
            burst: decimal(&settings["ThrottlingBurstLimit"])?,
        })
    }
}

impl Template {
    /// The throttles of the HTTP API's stage (`AWS::ApiGatewayV2::Stage`), by the keys of the routes.
    pub fn throttles(&self) -> BTreeMap<String, Throttle> {
        let mut found = BTreeMap::new();
        for (_, stage) in self.of_kind("AWS::ApiGatewayV2::Stage") {
            let of_all = Throttle::of(&stage["DefaultRouteSettings"]);
            found.extend(of_all.map(|throttle| (DEFAULT_ROUTE.to_owned(), throttle)));
            let named = stage["RouteSettings"].as_object().into_iter().flatten();
            found.extend(named.filter_map(|(key, settings)| Some((key.clone(), Throttle::of(settings)?))));
        }
        found
    }

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
