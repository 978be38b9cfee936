//! One program for most tests of this crate: each program would be linked with the whole of AWS's SDK again. `quiet` and `once` are programs of
//! their own (Cargo.toml says why).

mod envelopes;
mod events;
mod files;
mod hand_over;
mod history;
mod interrupted;
mod limits;
mod many_ids;
mod same_content;
mod start;
mod support;
mod taking_over;

#[test]
fn no_file_with_tests_is_forgotten() {
    assert_eq!(testkit::forgotten_tests(env!("CARGO_MANIFEST_DIR")), [] as [String; 0]);
}
