//! The resources that the local platform and the operator's tool work with: one file per type.
//!
//! Each file has what a reader gets of one resource and the method of [`Template`](crate::Template) that lists them.

mod alarm;
mod function;
mod metric_filter;
mod queue;
mod route;
mod schedule;
mod table;

pub use alarm::Alarm;
pub use function::Function;
pub use metric_filter::MetricFilter;
pub use queue::Queue;
pub use route::{DEFAULT_ROUTE, Route, Throttle};
pub use schedule::Schedule;
pub use table::Table;
