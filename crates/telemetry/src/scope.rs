//! The running invocation: its ids, its metrics, and where its lines go.

use std::future::Future;
use std::sync::Mutex;

use crate::emf::Batch;
use crate::metric::Metric;
use crate::trace::Trace;
use crate::{Sink, emf};

/// The ids of an invocation, which are on each of its lines.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The function's name, which is the first dimension of every metric.
    pub function: String,
    /// Lambda's id of the request.
    pub request_id: String,
    /// The trace to which it belongs.
    pub trace: Trace,
}

struct Scope {
    invocation: Invocation,
    /// Numbers that are not written yet. The mutex is held for a push, never across an await.
    metrics: Mutex<Batch>,
}

tokio::task_local! {
    static SCOPE: Scope;
    static SINK: Sink;
}

/// Runs `work` as an invocation: its log lines carry its ids, its metrics are written when it ends, or when it is dropped.
pub async fn invocation<F: Future>(invocation: Invocation, work: F) -> F::Output {
    let scope = Scope { invocation, metrics: Mutex::default() };
    SCOPE.scope(scope, work).await
}

/// Runs `work` with its lines going to `sink` instead of the process's writer.
pub async fn scoped<F: Future>(sink: Sink, work: F) -> F::Output {
    SINK.scope(sink, work).await
}

impl Scope {
    fn take(&self) -> Batch {
        std::mem::take(&mut *crate::lock(&self.metrics))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let batch = self.take();
        emf::write(&batch, Some(&self.invocation));
    }
}

/// Reads from the running invocation; `None` outside one.
pub(crate) fn current<T>(read: impl FnOnce(&Invocation) -> T) -> Option<T> {
    SCOPE.try_with(|scope| read(&scope.invocation)).ok()
}

/// Adds to the invocation's numbers, or writes at once if there is no invocation or the number is urgent.
pub(crate) fn record(metric: Metric, value: f64) {
    let kept = !metric.is_urgent() && SCOPE.try_with(|scope| crate::lock(&scope.metrics).add(metric, value)).is_ok();
    if !kept {
        emf::write(&Batch::of(metric, value), current(Clone::clone).as_ref());
    }
}

/// Writes to the scope's sink; false if there is none.
pub(crate) fn write(line: &str) -> bool {
    SINK.try_with(|sink| sink(line)).is_ok()
}
