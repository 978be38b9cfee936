//! sessync, which is a command and has no function: only the stand-in for BigQuery, and a panel that shows the rows.

use std::sync::Arc;

use crate::standins;
use crate::standins::StandIn;
use crate::tenants::{Ground, Panel, Tenant};

pub(super) struct Sessync;

impl Tenant for Sessync {
    fn name(&self) -> &'static str {
        "sessync"
    }

    fn stand_ins(&self, _ground: &Ground) -> Vec<Arc<dyn StandIn>> {
        vec![Arc::new(standins::bigquery::BigQuery::default())]
    }

    fn panel(&self) -> Option<Panel> {
        Some(Panel { title: "Session logs", script: include_str!("../console/web/panels/sessync.js") })
    }

    fn try_it(&self, ground: &Ground) -> Option<String> {
        let host = ground.url.trim_start_matches("http://");
        Some(format!(
            "export BIGQUERY_EMULATOR_HOST={host}  # sessync then uploads to the stand-in; see crates/sessync/README.md"
        ))
    }
}
