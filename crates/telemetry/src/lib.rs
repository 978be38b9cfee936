//! What the system says about itself: JSON log lines and CloudWatch metrics, through one writer.
//!
//! Promise: one line per event, valid JSON, written whole. Every line of an invocation carries its request id and
//! its trace id. Every metric name is in [`metric`] and nowhere else. Metrics leave as EMF lines (`_aws`), which
//! CloudWatch Logs turns into metrics without a call or a background task: those of one invocation are gathered
//! and written when it ends (also when its future is dropped), those marked `urgent` at once, because an instance
//! may be gone before its invocation ends.
//!
//! What it does not do: hide secrets. It writes what it is given; secrets have types that do not print themselves.
//!
//! ```
//! # async fn example() {
//! telemetry::init(telemetry::stdout(), telemetry::Level::INFO).ok();
//! let invocation = telemetry::Invocation {
//!     function: "slack-events".into(),
//!     request_id: "8f1c…".into(),
//!     trace: telemetry::trace::Trace::of_request("8f1c…"),
//! };
//! telemetry::invocation(invocation, async {
//!     tracing::info!(event_key = "Ev123", result = "new", "Deduplication check"); // {"level":"INFO",…,"eventKey":"Ev123"}
//!     telemetry::metric::DUPLICATES.add(1);
//!     telemetry::metric::DELIVERIES.with("Destination", "mastodon").add(1);
//! })
//! .await;
//! # }
//! ```

mod emf;
mod log;
pub mod metric;
mod scope;
pub mod trace;
mod watch;

use std::io::Write;
use std::sync::{Arc, OnceLock};

pub use log::causes;
pub use scope::{Invocation, invocation, scoped};
pub use tracing::Level;
pub use watch::Watch;

/// Where lines go: called with one whole line, without its newline.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// The process's writer; a scope ([`scoped`]) may put another in front of it.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A second start in one process: the first one's writer stays.
    #[error("telemetry was already started in this process")]
    AlreadyStarted,
}

/// Starts logs and metrics for this process. Our own crates are logged from `level`, all others from WARN.
pub fn init(sink: Sink, level: Level) -> Result<(), Error> {
    SINK.set(sink).map_err(|_| Error::AlreadyStarted)?;
    log::install(level)
}

/// Starts logs and metrics without a writer of the process: only what is [`scoped`] is heard. For tests, any number of times.
pub fn init_scoped(level: Level) {
    let _ = log::install(level);
}

/// The sink of a Lambda function: standard output, one line at a time.
pub fn stdout() -> Sink {
    Arc::new(|line| {
        let mut out = std::io::stdout().lock();
        // Nobody is left to tell when standard output is gone.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    })
}

/// Writes one line to the scope's sink, or else to the process's.
pub(crate) fn write(line: &str) {
    if !scope::write(line)
        && let Some(sink) = SINK.get()
    {
        sink(line);
    }
}
