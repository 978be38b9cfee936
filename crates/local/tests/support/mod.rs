//! Helpers of the tests. The tests of `crates/ops` use [`client`] and [`process`] too.

pub(crate) mod client;
pub(crate) mod process;
pub(crate) mod workshop;
