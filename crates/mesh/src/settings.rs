//! What the function reads from its environment. One error names everything that is missing or wrong.

use std::time::Duration;

use function::{Env, Error};

/// Every variable that the function reads.
pub const VARIABLES: &[&str] = &[
    "TABLE_NAME",
    "MESH_MAX_CONNECTION_TIME_MINUTES",
    "HOST_HEARTBEAT_SECONDS",
    "POLLING_INTERVAL_SECONDS",
    "MESSAGE_RETENTION_SECONDS",
    "GROUPS_PER_CALLER",
];

/// A group or a membership ends after this many missed heartbeats.
pub(crate) const HEARTBEATS_UNTIL_GONE: u32 = 5;

/// The function's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub table: String,
    /// The longest life of a group.
    pub longest: Duration,
    pub host_heartbeat: Duration,
    pub polling_interval: Duration,
    /// How long messages are kept, and the records by which repeated publishes are recognised.
    pub retention: Duration,
    /// How many living groups one address or identity may have made in a domain.
    pub groups_per_caller: usize,
}

impl Settings {
    pub fn read(env: &Env) -> Result<Self, Error> {
        let mut vars = env.reader();
        let table = vars.required("TABLE_NAME");
        let minutes: u64 = vars.parsed("MESH_MAX_CONNECTION_TIME_MINUTES", 50);
        if !(1..=24 * 60).contains(&minutes) {
            vars.invalid("MESH_MAX_CONNECTION_TIME_MINUTES", "1 to 1440 minutes");
        }
        let heartbeat: u64 = vars.parsed("HOST_HEARTBEAT_SECONDS", 30);
        if !(1..=3600).contains(&heartbeat) {
            vars.invalid("HOST_HEARTBEAT_SECONDS", "1 to 3600 seconds");
        }
        let polling: u64 = vars.parsed("POLLING_INTERVAL_SECONDS", 2);
        let retention: u64 = vars.parsed("MESSAGE_RETENTION_SECONDS", 120);
        let groups_per_caller: usize = vars.parsed("GROUPS_PER_CALLER", 50);
        if groups_per_caller == 0 {
            vars.invalid("GROUPS_PER_CALLER", "1 or more groups");
        }
        vars.finish()?;
        Ok(Self {
            table,
            longest: Duration::from_secs(minutes * 60),
            host_heartbeat: Duration::from_secs(heartbeat),
            polling_interval: Duration::from_secs(polling),
            retention: Duration::from_secs(retention),
            groups_per_caller,
        })
    }
}
