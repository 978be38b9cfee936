//! sessync has no function here, only its destination: BigQuery's stand-in, and a panel that shows rows arriving.

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
            "export BIGQUERY_EMULATOR_HOST={host}  # then as crates/sessync/README.md shows: sessync uploads to the stand-in"
        ))
    }
}
