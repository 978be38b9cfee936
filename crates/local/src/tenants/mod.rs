//! How an application moves in: one small registration.
//!
//! A tenant brings its template, its functions and what it needs around them. The platform does the rest: tables, queues,
//! schedules, routes and alarms come from the template; the functions get the template's variables.

mod feeds;
mod mesh;
mod sessync;
mod slack;
mod tokens;

use std::sync::Arc;

use axum::Router;
use function::{BoxFuture, Definition};
use serde_json::{Map, Value};

use crate::platform::Platform;
use crate::platform::data::Secrets;
use crate::platform::options::Options;
use crate::standins::StandIn;

/// The ground on which a tenant is built: what is known before anything runs.
#[derive(Clone, Debug)]
pub struct Ground {
    /// `http://127.0.0.1:8787`
    pub url: String,
    /// `http://127.0.0.1:8788`
    pub dynamodb_url: String,
    /// `https://127.0.0.1:8789`
    pub tls_url: String,
    /// The same in every start of this data directory.
    pub secrets: Secrets,
    pub options: Options,
}

impl Ground {
    /// Where a stand-in is reached: `http://127.0.0.1:8787/standins/slack`.
    pub fn stand_in(&self, name: &str) -> String {
        format!("{}/standins/{name}", self.url)
    }
}

/// A panel of the console: an ES module, see `console/panels/README` in this crate's README.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// What the tab says.
    pub title: &'static str,
    /// The module's text.
    pub script: &'static str,
}

/// An application. Everything but its name has a default.
pub trait Tenant: Send + Sync + 'static {
    /// Its name, which is its crate's: `slack`.
    fn name(&self) -> &'static str;

    /// Its templates' text: `include_str!("../../../../infra/templates/slack.yaml")`.
    fn templates(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Parameters of its templates that are not their defaults: where stand-ins are.
    fn parameters(&self, _ground: &Ground) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Its functions, by the names that the template gives them.
    fn functions(&self) -> Vec<Definition> {
        Vec::new()
    }

    /// Variables of its functions that no template has, because they make sense on this machine only.
    fn variables(&self, _ground: &Ground) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// SSM parameters by name.
    fn secrets(&self, _ground: &Ground) -> Vec<(String, String)> {
        Vec::new()
    }

    /// What clients need to know: members of `/_local/config`.
    fn config(&self, _ground: &Ground) -> Map<String, Value> {
        Map::new()
    }

    /// The outside APIs that it talks to.
    fn stand_ins(&self, _ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        Vec::new()
    }

    /// Paths that no template routes: a GraphQL API, a sample feed.
    fn router(&self, _platform: &Platform) -> Option<Router> {
        None
    }

    /// Its panel in the console.
    fn panel(&self) -> Option<Panel> {
        None
    }

    /// Sample data and whatever moves by itself; runs once everything serves, unless `--no-demo`. It may run for ever;
    /// it is stopped with the platform.
    fn demo(&self, _platform: Platform) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// One command that tries it, printed at the start.
    fn try_it(&self, _ground: &Ground) -> Option<String> {
        None
    }
}

/// Everybody, in the order of the console's tabs.
pub fn all() -> Vec<Arc<dyn Tenant>> {
    vec![
        Arc::new(slack::Slack),
        Arc::new(feeds::Feeds),
        Arc::new(tokens::Tokens),
        Arc::new(sessync::Sessync),
        Arc::new(mesh::Mesh),
    ]
}
