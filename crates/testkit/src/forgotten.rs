//! Tests that nothing runs: with one program for most tests of a crate, a new file has to be named there.

use std::fs;
use std::path::Path;

/// The files in the `tests` directory of a crate that neither the main program there nor `Cargo.toml` names.
pub fn forgotten_tests(crate_directory: &str) -> Vec<String> {
    let directory = Path::new(crate_directory);
    let read = |name: &str| fs::read_to_string(directory.join(name)).expect(name);
    let (modules, manifest) = (read("tests/main.rs"), read("Cargo.toml"));
    let files = fs::read_dir(directory.join("tests")).expect("tests").map(|file| file.expect("a file").path());
    let named = |name: &str| {
        name == "main"
            || modules.lines().any(|line| line == format!("mod {name};"))
            || manifest.contains(&format!("path = \"tests/{name}.rs\""))
    };
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| name(&path))
        .filter(|name| !named(name))
        .collect()
}
