//! One program for most tests of this crate: each program would be linked with the whole of AWS's SDK again. `simulation` and `explored` are programs of
//! their own (Cargo.toml says why).

mod api;
mod import;
mod jwt;
mod ledger;
mod linearizability;
mod mistakes;
mod model;
mod shards;
mod statement;
mod support;
mod verify;

#[test]
fn no_file_with_tests_is_forgotten() {
    assert_eq!(testkit::forgotten_tests(env!("CARGO_MANIFEST_DIR")), [] as [String; 0]);
}
