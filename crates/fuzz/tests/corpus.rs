//! Every kept input runs through its target, without instrumentation.

use std::path::Path;

use fuzz::TARGETS;

/// Small inputs are quick, and can be read by a person.
const MAX_INPUT_BYTES: u64 = 4 * 1024;

#[test]
fn no_kept_input_breaks_its_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut failed = Vec::new();
    for target in TARGETS {
        let mut inputs = 0;
        for entry in std::fs::read_dir(corpus.join(target.name)).expect("every target has a corpus") {
            let path = entry.expect("a file").path();
            let data = std::fs::read(&path).expect("an input");
            assert!(data.len() as u64 <= MAX_INPUT_BYTES, "{} is too large to keep", path.display());
            inputs += 1;
            if std::panic::catch_unwind(|| (target.check)(&data)).is_err() {
                failed.push(format!("cargo run -p fuzz -- {} {}", target.name, path.display()));
            }
        }
        assert!(inputs > 0, "the corpus of {} is empty", target.name);
    }
    assert!(failed.is_empty(), "replay the inputs that failed with:\n{}", failed.join("\n"));
}

#[test]
fn every_corpus_and_every_dictionary_belongs_to_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (directory, extension) in [("corpus", ""), ("dictionary", ".txt")] {
        for entry in std::fs::read_dir(root.join(directory)).expect("a directory") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
            let of = name.strip_suffix(extension).and_then(fuzz::target);
            assert!(of.is_some(), "{directory}/{name} belongs to no target");
        }
    }
}
