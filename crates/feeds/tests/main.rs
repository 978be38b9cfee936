//! One program for most tests of this crate: each program would be linked with the whole of AWS's SDK again. `snapshots` and `explored` are programs of
//! their own (Cargo.toml says why).

mod corpus;
mod delivery;
mod fetching;
mod interrupted;
mod large_feed;
mod listed;
mod pace;
mod restoring;
mod support;
mod trouble;

#[test]
fn no_file_with_tests_is_forgotten() {
    assert_eq!(testkit::forgotten_tests(env!("CARGO_MANIFEST_DIR")), [] as [String; 0]);
}
