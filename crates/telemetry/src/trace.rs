//! One trace id from the first request to the effect.
//!
//! The first request gets an id from API Gateway or Lambda (`X-Amzn-Trace-Id`). A function that invokes another one passes it on
//! in the same header, so that the log lines of both functions, and X-Ray, have the same id.

use std::sync::Arc;

/// The header in which AWS services pass a trace on.
pub const HEADER: &str = "x-amzn-trace-id";

/// The trace to which an invocation belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The whole header: `Root=1-…;Parent=…;Sampled=1`.
    header: Arc<str>,
    /// The part that names the trace.
    id: Arc<str>,
}

impl Trace {
    /// The trace of a header as AWS sends it; `None` if it names no trace.
    pub fn from_header(header: &str) -> Option<Self> {
        let id = header.split(';').find_map(|part| part.trim().strip_prefix("Root="))?;
        (!id.is_empty()).then(|| Self { header: header.into(), id: id.into() })
    }

    /// A new trace for a request that has none.
    pub fn of_request(request_id: &str) -> Self {
        Self { header: format!("Root={request_id}").into(), id: request_id.into() }
    }

    /// The id that the log lines carry.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What to send in [`HEADER`] with a call that belongs to this trace.
    pub fn header(&self) -> &str {
        &self.header
    }
}

/// The trace of the running invocation.
pub fn current() -> Option<Trace> {
    crate::scope::current(|invocation| invocation.trace.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_header_is_the_id_and_the_header_travels_unchanged() {
        let header = "Root=1-67891233-abcdef012345678912345678;Parent=53995c3f42cd8ad8;Sampled=1";
        let trace = Trace::from_header(header).expect("a trace");
        assert_eq!(trace.id(), "1-67891233-abcdef012345678912345678");
        assert_eq!(trace.header(), header);
    }

    #[test]
    fn a_header_without_a_root_is_no_trace() {
        assert_eq!(Trace::from_header("Self=1-2-3"), None);
        assert_eq!(Trace::from_header("Root="), None);
    }

    #[test]
    fn a_request_of_its_own_starts_a_trace_that_others_can_read() {
        let trace = Trace::of_request("c0ffee");
        assert_eq!(Trace::from_header(trace.header()), Some(trace));
    }
}
