//! Makes the schema and the resolvers of `infra/appsync` part of the binary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let of = |name: &str| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("no {name}")));
    let directory = of("CARGO_MANIFEST_DIR")?.join("../../infra/appsync").canonicalize()?;
    let mut files = Vec::new();
    list(&directory, &mut files)?;
    files.sort();
    let mut out = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&directory).map_err(io::Error::other)?;
        // A path in the code of a resolver always has slashes.
        let name = name.to_string_lossy().replace('\\', "/");
        writeln!(out, "({name:?}, include_str!({file:?})),").map_err(io::Error::other)?;
    }
    out.push_str("]\n");
    fs::write(of("OUT_DIR")?.join("appsync.rs"), out)
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    // A file that is added or removed changes its directory.
    println!("cargo::rerun-if-changed={}", directory.display());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "js" || extension == "graphql") {
            files.push(path);
        }
    }
    Ok(())
}
