//! With the feature `engine`, this is libFuzzer: it looks for inputs that break a target. Without it, it replays inputs:
//! `cargo run -p fuzz -- TARGET FILE…`.
#![cfg_attr(feature = "engine", no_main)]

#[cfg(feature = "engine")]
mod engine {
    use std::sync::LazyLock;

    use fuzz::Target;

    /// libFuzzer owns the arguments, so a variable names the target.
    static TARGET: LazyLock<&Target> = LazyLock::new(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        fuzz::target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}, which is not a target"))
    });

    libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.check)(data));
}

#[cfg(not(feature = "engine"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: fuzz TARGET FILE…")?;
    let target = fuzz::target(&name).ok_or_else(|| format!("{name} is not a target"))?;
    for file in arguments {
        (target.check)(&std::fs::read(&file).map_err(|error| format!("cannot read {file}: {error}"))?);
    }
    Ok(())
}
