//! `tracing` events and spans, if the feature `tracing` is on. `Traced` has their names.

use std::future::Future;
use std::sync::Arc;

use crate::key::Key;
use crate::observe::Observer;

#[cfg(feature = "tracing")]
pub(crate) fn default_observer() -> Arc<dyn Observer> {
    Arc::new(Traced)
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn default_observer() -> Arc<dyn Observer> {
    Arc::new(crate::observe::Ignore)
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn work<F: Future>(_: &Key, _: u64, work: F) -> F {
    work
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn probe<F: Future>(_: &Key, _: u64, probe: F) -> F {
    probe
}

#[cfg(feature = "tracing")]
pub(crate) fn work<F: Future>(key: &Key, fence: u64, work: F) -> impl Future<Output = F::Output> + use<F> {
    use tracing::Instrument;
    let span = tracing::debug_span!(target: "ichido", "ichido.work", otel.kind = "internal", ichido.key = %key, ichido.fence = fence);
    work.instrument(span)
}

#[cfg(feature = "tracing")]
pub(crate) fn probe<F: Future>(key: &Key, fence: u64, probe: F) -> impl Future<Output = F::Output> + use<F> {
    use tracing::Instrument;
    let span = tracing::debug_span!(target: "ichido", "ichido.probe", otel.kind = "client", ichido.key = %key, ichido.fence = fence);
    probe.instrument(span)
}

#[cfg(feature = "tracing")]
pub use self::traced::Traced;

#[cfg(feature = "tracing")]
mod traced {
    use std::time::Duration;

    use serde_json::{Map, Value};
    use tracing::{Level, event};

    use crate::observe::{Event, Observer};
    use crate::text::causes;

    /// Turns what happens into `tracing` events with stable names and fields. It is the default observer.
    ///
    /// | what | name | level | fields besides `ichido.key` |
    /// |---|---|---|---|
    /// | event | `ichido.decided` | DEBUG | `ichido.strength`, `ichido.decision`, `ichido.reason`, `ichido.fallback`, `ichido.store_ms`, `ichido.first`, `ichido.owner`, `ichido.fence`, `ichido.lease_end`, `ichido.until` |
    /// | event | `ichido.doubted`, `ichido.probed` | DEBUG | `ichido.fence`; `ichido.done` |
    /// | event | `ichido.renewed`, `ichido.worked` | DEBUG | `ichido.fence`; `ichido.lease_end`; `ichido.done`, `ichido.work_ms` |
    /// | event | `ichido.settled` | DEBUG | `ichido.fence`, `ichido.state`, `ichido.store_ms` |
    /// | event | `ichido.fenced` | WARN | `ichido.fence` |
    /// | event | `ichido.store_failed` | WARN | `db.operation.name`, `error.type`, `exception.message` |
    /// | event | `ichido.breaker_opened`, `ichido.breaker_closed` | WARN, INFO | |
    /// | event | `ichido.admitted_without_store`, `ichido.unrecorded`, `ichido.journal_full` | WARN | |
    /// | event | `ichido.reconciled` | INFO; WARN on a conflict | `ichido.conflict` |
    /// | span | `ichido.work`, `ichido.probe` | DEBUG | `ichido.fence`, `otel.kind` |
    ///
    /// All have the target `ichido`. The names of events and fields are part of the API. `ichido.first` is JSON: the
    /// attributes in the record. If the id of a trace is among them, a duplicate can link to that trace.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Traced;

    impl Observer for Traced {
        fn observe(&self, event: &Event<'_>) {
            match event {
                Event::Decided { key, strength, decision, reason, store_latency, fallback, first, attempt, until } => {
                    event!(
                        name: "ichido.decided", target: "ichido", Level::DEBUG,
                        ichido.key = %key,
                        ichido.strength = strength.name(),
                        ichido.decision = decision.name(),
                        ichido.reason = reason.name(),
                        ichido.fallback = fallback,
                        ichido.store_ms = store_latency.map(millis),
                        ichido.first = (!first.is_empty()).then(|| json(first)),
                        ichido.owner = attempt.map(|attempt| attempt.owner.as_str()),
                        ichido.fence = attempt.map(|attempt| attempt.fence),
                        ichido.lease_end = attempt.map(|attempt| tracing::field::display(attempt.lease_end)),
                        ichido.until = until.map(tracing::field::display),
                        "checked {key}: {} ({})", decision.name(), reason.name()
                    )
                }
                Event::Doubted { key, fence } => event!(
                    name: "ichido.doubted", target: "ichido", Level::DEBUG,
                    ichido.key = %key, ichido.fence = fence,
                    "an earlier worker may have performed {key}"
                ),
                Event::Probed { key, fence, done } => event!(
                    name: "ichido.probed", target: "ichido", Level::DEBUG,
                    ichido.key = %key, ichido.fence = fence, ichido.done = done,
                    "asked the destination about {key}: {}", if *done { "it was performed" } else { "it was not performed" }
                ),
                Event::Renewed { key, attempt } => event!(
                    name: "ichido.renewed", target: "ichido", Level::DEBUG,
                    ichido.key = %key, ichido.fence = attempt.fence, ichido.lease_end = %attempt.lease_end,
                    "renewed the claim on {key} until {}", attempt.lease_end
                ),
                Event::Worked { key, fence, done, took } => event!(
                    name: "ichido.worked", target: "ichido", Level::DEBUG,
                    ichido.key = %key, ichido.fence = fence, ichido.done = done, ichido.work_ms = millis(*took),
                    "{} {key}", if *done { "performed" } else { "the work ended without an outcome; it may have performed" }
                ),
                Event::Settled { key, fence, state, store_latency } => event!(
                    name: "ichido.settled", target: "ichido", Level::DEBUG,
                    ichido.key = %key, ichido.fence = fence, ichido.state = state.name(), ichido.store_ms = store_latency.map(millis),
                    "settled the claim on {key} as {}", state.name()
                ),
                Event::Fenced { key, fence } => event!(
                    name: "ichido.fenced", target: "ichido", Level::WARN,
                    ichido.key = %key, ichido.fence = fence,
                    "a late worker tried to settle {key} with fence {fence}; its claim had been taken over, so nothing was changed"
                ),
                Event::StoreFailed { key, operation, error } => event!(
                    name: "ichido.store_failed", target: "ichido", Level::WARN,
                    ichido.key = %key, db.operation.name = operation.name(), error.type = error.kind().name(),
                    exception.message = %causes(*error),
                    "the store failed in {} for {key}", operation.name()
                ),
                Event::BreakerOpened => event!(
                    name: "ichido.breaker_opened", target: "ichido", Level::WARN,
                    "the store failed several times in a row; namespaces that fail open do not ask it for a while"
                ),
                Event::BreakerClosed => event!(
                    name: "ichido.breaker_closed", target: "ichido", Level::INFO,
                    "the store answers again"
                ),
                Event::AdmittedWithoutStore { key } => event!(
                    name: "ichido.admitted_without_store", target: "ichido", Level::WARN,
                    ichido.key = %key,
                    "admitted {key} without the store, because the store is down"
                ),
                Event::Unrecorded { key } => event!(
                    name: "ichido.unrecorded", target: "ichido", Level::WARN,
                    ichido.key = %key,
                    "performed {key}, but could not record its outcome in the store"
                ),
                Event::JournalFull { key } => event!(
                    name: "ichido.journal_full", target: "ichido", Level::WARN,
                    ichido.key = %key,
                    "the local memory for outages is full; could not remember {key}"
                ),
                Event::Reconciled { key, conflict: false } => event!(
                    name: "ichido.reconciled", target: "ichido", Level::INFO,
                    ichido.key = %key, ichido.conflict = false,
                    "wrote {key}, which was admitted during an outage, to the store"
                ),
                Event::Reconciled { key, conflict: true } => event!(
                    name: "ichido.reconciled", target: "ichido", Level::WARN,
                    ichido.key = %key, ichido.conflict = true,
                    "did not write {key}, which was admitted during an outage: another instance had recorded it before"
                ),
            }
        }
    }

    fn millis(latency: Duration) -> f64 {
        latency.as_secs_f64() * 1000.0
    }

    fn json(attributes: &[(String, Value)]) -> String {
        Value::Object(attributes.iter().cloned().collect::<Map<_, _>>()).to_string()
    }
}
