//! JSON log lines and CloudWatch metrics, through one writer.
//!
//! Promise: one line per event, valid JSON, written whole. Every line of an invocation carries its request id and
//! its trace id. Every number that our functions report is defined in [`metric`] and nowhere else. The numbers of one
//! invocation are the fields of one line, which is written when it ends, also when its future is dropped. Those that an alarm
//! watches are declared in CloudWatch's embedded metric format (`_aws`), so that CloudWatch Logs makes metrics of them without a
//! call or a background task. Those marked `urgent` are written at once, because an instance may be gone before its invocation ends.
//!
//! It does not hide secrets. It writes what it is given; secrets have types that do not print themselves.
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
//!     tracing::info!(event_key = "Ev123", result = "new", "checked Ev123: new (absent)"); // {"level":"INFO",…,"eventKey":"Ev123"}
//!     telemetry::metric::DUPLICATES.add(1);
//! })
//! .await;
//! # }
//! ```

mod emf;
mod lock;
mod log;
pub mod metric;
mod scope;
pub mod terminal;
pub mod trace;
mod watch;

use std::io::Write;
use std::sync::{Arc, OnceLock};

pub use lock::lock;
pub use log::causes;
pub use scope::{Invocation, invocation, scoped};
pub use tracing::Level;
pub use watch::{TARGET as WATCH_TARGET, Watch};

/// Where lines go. It is called with one whole line, without the newline.
pub type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// The process's writer, unless a scope ([`scoped`]) has its own.
static SINK: OnceLock<Sink> = OnceLock::new();

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This is the second start in one process. The writer of the first one stays.
    #[error("telemetry was already started in this process")]
    AlreadyStarted,
}

/// Starts logs and metrics for this process. Our own crates are logged from `level`, all others from WARN.
pub fn init(sink: Sink, level: Level) -> Result<(), Error> {
    SINK.set(sink).map_err(|_| Error::AlreadyStarted)?;
    log::install(level)
}

/// The same, with every line of [`Watch`], whatever the level.
pub fn init_watching(sink: Sink, level: Level) -> Result<(), Error> {
    SINK.set(sink).map_err(|_| Error::AlreadyStarted)?;
    log::install_watching(level)
}

/// Starts logs and metrics without a writer of the process: only lines of a scope ([`scoped`]) are written. For tests; can be
/// called again.
pub fn init_scoped(level: Level) {
    let _ = log::install(level);
}

/// The sink of a Lambda function: standard output, one line at a time.
pub fn stdout() -> Sink {
    Arc::new(|line| {
        let mut out = std::io::stdout().lock();
        // If standard output is gone, there is nobody left to tell.
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
