//! The body of a response that went through the layer.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::http_body::{Body, Frame, SizeHint};
use bytes::Bytes;
use http_body_util::BodyExt as _;

/// The body of a response: what the layer has read or recorded, and then what is left of the handler's own body. A response
/// that only passes through keeps its body as it is.
pub struct ReplayBody<B> {
    start: Option<Bytes>,
    rest: Option<Pin<Box<B>>>,
}

impl<B> ReplayBody<B> {
    /// A body that only passes through.
    pub(super) fn untouched(body: B) -> Self {
        Self { start: None, rest: Some(Box::pin(body)) }
    }

    /// A body of exactly these bytes.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { start: Some(bytes).filter(|bytes| !bytes.is_empty()), rest: None }
    }
}

impl<B: Body<Data = Bytes>> ReplayBody<B> {
    /// Reads the body until it ends or has more than `limit` bytes. `Some`: these are all of its bytes.
    pub(super) async fn read(body: B, limit: usize) -> Result<(Self, Option<Bytes>), B::Error> {
        let mut body = Box::pin(body);
        let mut start = Vec::new();
        while let Some(frame) = body.frame().await {
            // Trailers are not passed on.
            if let Ok(data) = frame?.into_data() {
                start.extend_from_slice(&data);
                if start.len() > limit {
                    return Ok((Self { start: Some(start.into()), rest: Some(body) }, None));
                }
            }
        }
        let bytes = Bytes::from(start);
        Ok((Self::whole(bytes.clone()), Some(bytes)))
    }
}

impl<B: Body<Data = Bytes>> Body for ReplayBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(start) = self.start.take() {
            return Poll::Ready(Some(Ok(Frame::data(start))));
        }
        match &mut self.rest {
            Some(rest) => rest.as_mut().poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.start.is_none() && self.rest.as_ref().is_none_or(|rest| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let start = self.start.as_ref().map_or(0, |start| start.len() as u64);
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), |rest| rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(start.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(start)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody").field("start", &self.start.as_ref().map(Bytes::len)).finish_non_exhaustive()
    }
}
