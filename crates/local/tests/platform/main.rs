//! The platform as its users meet it: a process of its own, on free ports, in a directory of its own, spoken to over its sockets.
//!
//! The process is this very test binary ([`workshop_process`]) with the [`support::workshop`] as its tenant, whose functions do on
//! purpose what an application should not; the real binary is tested in `start`.

mod aws;
mod door;
mod kill;
mod lambda;
mod local;
mod outside;
mod start;
mod strangers;
#[path = "../support/mod.rs"]
mod support;

/// Not a test: the process that the tests start. Its arguments are in a variable, because the harness has its own.
#[test]
#[ignore = "the other tests start it as a process"]
fn workshop_process() {
    let Some(arguments) = support::process::given_arguments() else { return };
    let code = ::local::main_with(vec![std::sync::Arc::new(support::workshop::Workshop)], arguments);
    std::process::exit(i32::from(code));
}
