//! A sleep without a runtime: a thread waits, then wakes the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Completes `duration` after it was made. Its thread starts at the first poll and ends when this is dropped.
#[derive(Debug)]
pub(super) struct ThreadSleep {
    /// `None`: too far away to be reached.
    end: Option<Instant>,
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

#[derive(Debug, Default)]
struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The time is over, or nobody waits for it any more.
    over: bool,
    waker: Option<Waker>,
}

impl ThreadSleep {
    pub(super) fn new(duration: Duration) -> Self {
        Self { end: Instant::now().checked_add(duration), shared: Arc::default(), thread: None }
    }
}

impl Future for ThreadSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.shared.lock();
            if state.over {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
        }
        if self.thread.is_none() {
            let (shared, end) = (Arc::clone(&self.shared), self.end);
            match thread::Builder::new().name("ichido-sleep".to_owned()).spawn(move || shared.wait(end)) {
                Ok(handle) => self.thread = Some(handle.thread().clone()),
                // The system has no thread left. To wait here is late for others, but to wait for nothing would be wrong.
                Err(_) => {
                    self.shared.wait(self.end);
                    return Poll::Ready(());
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for ThreadSleep {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            self.shared.lock().over = true;
            thread.unpark();
        }
    }
}

impl Shared {
    fn wait(&self, end: Option<Instant>) {
        loop {
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            {
                let mut state = self.lock();
                if left.is_zero() {
                    state.over = true;
                }
                if state.over {
                    if let Some(waker) = state.waker.take() {
                        waker.wake();
                    }
                    return;
                }
            }
            thread::park_timeout(left);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        crate::once::lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Wake;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Runs a future on this thread, without a runtime.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    #[test]
    fn a_sleep_lasts_at_least_its_time_without_a_runtime() {
        let duration = Duration::from_millis(5);
        let started = Instant::now();
        block_on(ThreadSleep::new(duration));
        // A lower bound holds on the slowest machine too.
        assert!(started.elapsed() >= duration);
    }

    #[test]
    fn a_dropped_sleep_ends_its_thread() {
        let mut sleep = Box::pin(ThreadSleep::new(Duration::MAX));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let shared = Arc::clone(&sleep.shared);
        drop(sleep);
        // The thread holds the other reference. If it never ended, neither would this test.
        while Arc::strong_count(&shared) > 1 {
            thread::yield_now();
        }
    }
}
