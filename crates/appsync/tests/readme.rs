//! The example in the README is the example that runs.

use std::path::Path;
use std::process::Command;

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of the README, by language, in order.
fn blocks(language: &str) -> Vec<String> {
    let readme = file("README.md");
    let fence = format!("```{language}\n");
    readme.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_printed_files_are_the_examples_files() {
    assert_eq!(blocks("graphql")[0], file("examples/notes/schema.graphql"));
    assert_eq!(blocks("js"), [file("examples/notes/resolvers/addNote.js"), file("examples/notes/resolvers/note.js")]);
    assert_eq!(blocks("yaml")[0], file("examples/notes/template.yaml"));
    let main = file("examples/notes/main.rs");
    for line in blocks("rust")[0].lines() {
        assert!(main.lines().any(|other| other.trim() == line.trim()), "not in main.rs: {line}");
    }
}

#[test]
fn the_example_prints_what_the_readme_says() {
    // Cargo builds examples before it runs all tests, beside this test's directory.
    let directory =
        std::env::current_exe().expect("a path").parent().and_then(Path::parent).expect("a place").to_owned();
    let binary = directory.join("examples/notes");
    let mut command = if binary.exists() {
        Command::new(&binary)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", "appsync", "--example", "notes"]);
        cargo
    };
    let output = command.output().expect("the example starts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        blocks("text")[0],
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
