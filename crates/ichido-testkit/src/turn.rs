//! Lets other tasks go first, on any runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pending once.
#[derive(Debug, Default)]
pub(crate) struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
