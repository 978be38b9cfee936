//! The applications that run here, one file each. To add one, write its file and add it to [`all`].
//!
//! A [`Tenant`] names its template, its functions and what they need around them. The platform does the rest: it takes tables,
//! queues, schedules, routes and alarms from the template, and gives the functions the variables of the template.

mod feeds;
mod mesh;
mod sessync;
mod slack;
mod tokens;

use std::sync::Arc;

use axum::Router;
use function::{BoxFuture, Definition};
use serde_json::{Map, Value};
use template::Schedule;

use crate::platform::Platform;
use crate::platform::data::Secrets;
use crate::platform::options::Options;
use crate::standins::StandIn;

/// What a tenant is told before anything runs: addresses, secrets and options.
#[derive(Clone, Debug)]
pub struct Ground {
    /// `http://127.0.0.1:8787`
    pub url: String,
    /// `http://127.0.0.1:8788`
    pub dynamodb_url: String,
    /// `https://127.0.0.1:8789`
    pub tls_url: String,
    /// The secrets of this data directory; they are the same after a restart.
    pub secrets: Secrets,
    pub options: Options,
    /// The feeds of the list (`--feeds`), or of the sample list.
    pub listed: Vec<::feeds::list::Listed>,
}

impl Ground {
    /// The address of a stand-in: `http://127.0.0.1:8787/standins/slack`.
    pub fn stand_in(&self, name: &str) -> String {
        format!("{}/standins/{name}", self.url)
    }
}

/// A page of the console: an ES module, described in this crate's README under "A page".
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// Its title in the menu.
    pub title: &'static str,
    /// `/apps/slack`
    pub path: &'static str,
    /// The module: `console::asset!("src/console/web/panels/slack.js")`.
    pub script: console::Asset,
}

/// Where an application keeps its records and dead letters, for the console.
#[derive(Clone, Debug)]
pub struct Keeps {
    /// The name by which the operator's tool knows it.
    pub application: &'static str,
    pub table: ichido::dynamodb::Table,
    /// The namespace of its keys that have no prefix.
    pub unprefixed: Option<&'static str>,
    pub functions: &'static [&'static str],
    /// The function that lists, resends and drops the dead letters in the table.
    pub dead_letters: Option<&'static str>,
}

/// An application. Only its name has no default.
pub trait Tenant: Send + Sync + 'static {
    /// Its name, which is the name of its crate: `slack`.
    fn name(&self) -> &'static str;

    /// The texts of its templates: `include_str!("../../../../infra/templates/slack.yaml")`.
    fn templates(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Parameters of its templates that differ from their defaults, such as the addresses of stand-ins.
    fn parameters(&self, _ground: &Ground) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Its functions. Their names must be those in the template.
    fn functions(&self) -> Vec<Definition> {
        Vec::new()
    }

    /// Variables of its functions that no template sets, because they make sense only on this machine.
    fn variables(&self, _ground: &Ground) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Names and values of its SSM parameters.
    fn secrets(&self, _ground: &Ground) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Schedules that no template has, because they depend on a list.
    fn schedules(&self, _ground: &Ground) -> Vec<Schedule> {
        Vec::new()
    }

    /// Members of `/_local/config`: what clients need to know.
    fn config(&self, _ground: &Ground) -> Map<String, Value> {
        Map::new()
    }

    /// Stand-ins for the outside APIs that it calls.
    fn stand_ins(&self, _ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        Vec::new()
    }

    /// Services of AWS that it serves itself, by the names that they have among the faults.
    fn services(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Paths that no template routes, such as a GraphQL API or a sample feed.
    fn router(&self, _platform: &Platform) -> Option<Router> {
        None
    }

    /// Its tables with records, for the console.
    fn keeps(&self) -> Vec<Keeps> {
        Vec::new()
    }

    /// Its page in the console.
    fn panel(&self) -> Option<Panel> {
        None
    }

    /// Makes sample data. It starts when everything serves, unless `--no-demo` is given, and may run until the platform stops.
    fn demo(&self, _platform: Platform) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    /// A shell command to try the application, printed at the start.
    fn try_it(&self, _ground: &Ground) -> Option<String> {
        None
    }
}

/// All tenants, in the order of the console's tabs.
pub fn all() -> Vec<Arc<dyn Tenant>> {
    vec![
        Arc::new(slack::Slack),
        Arc::new(feeds::Feeds),
        Arc::new(tokens::Tokens),
        Arc::new(sessync::Sessync),
        Arc::new(mesh::Mesh),
    ]
}
