//! The operator's tool as its user meets it: the binary `ichidoctl` against a running local platform, which answers the
//! same AWS calls as AWS. What is printed is kept as snapshots; times, ages and made-up ids are replaced first.

mod console;
mod dead_letters;
mod feeds;
mod keys;
mod mend;
mod operations;
mod restore;
mod rollouts;
mod runbooks;
mod schedules;
mod secrets;
mod slack;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod trace;

use support::process;

/// Not a test: the platform that the tests start.
#[test]
#[ignore = "the other tests start it as a process"]
fn platform_process() {
    let Some(arguments) = process::given_arguments() else { return };
    let code = ::local::main_with(::local::tenants::all(), arguments);
    std::process::exit(i32::from(code));
}
