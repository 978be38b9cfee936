//! What the tests share. The tests of `ops` use [`client`] and [`process`] too.

pub(crate) mod client;
pub(crate) mod process;
pub(crate) mod workshop;
