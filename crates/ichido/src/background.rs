//! Work that must outlive the call that started it.

use std::future::Future;

/// Gives `task` to the runtime. If there is none, `task` is dropped: what it would have cleaned up ends with its lease.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "tokio")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(task);
        return;
    }
    drop(task);
}
