//! The platform as its users see it: its own process on free ports, with its own data directory, used over its sockets.
//!
//! The process is this test binary ([`workshop_process`]) with [`support::workshop`] as its only tenant. The functions of the
//! workshop misbehave on purpose. `start` tests the real binary.

mod aws;
mod console;
mod feeds;
mod gateway;
mod kill;
mod lambda;
mod local;
mod outside;
mod start;
mod strangers;
#[path = "../support/mod.rs"]
mod support;

/// Not a test: the process that the tests start. Its arguments come in a variable, because the test harness reads the command
/// line.
#[test]
#[ignore = "the other tests start it as a process"]
fn workshop_process() {
    let Some(arguments) = support::process::given_arguments() else { return };
    let code = ::local::main_with(vec![std::sync::Arc::new(support::workshop::Workshop)], arguments);
    std::process::exit(i32::from(code));
}
