//! The texts of `docs/runbooks/`: what an alarm means, how to look, and what to do.

use crate::contract::Runbook;

/// Names and texts, in the order of the names.
const ALL: &[(&str, &str)] = &[
    ("budget", include_str!("../../../docs/runbooks/budget.md")),
    ("feed-silence", include_str!("../../../docs/runbooks/feed-silence.md")),
    ("feed-subscriber-duration", include_str!("../../../docs/runbooks/feed-subscriber-duration.md")),
    ("feed-subscriber-errors", include_str!("../../../docs/runbooks/feed-subscriber-errors.md")),
    ("further-feeds-errors", include_str!("../../../docs/runbooks/further-feeds-errors.md")),
    ("http-api-errors", include_str!("../../../docs/runbooks/http-api-errors.md")),
    ("mesh-api-key", include_str!("../../../docs/runbooks/mesh-api-key.md")),
    ("mesh-errors", include_str!("../../../docs/runbooks/mesh-errors.md")),
    ("mesh-latency", include_str!("../../../docs/runbooks/mesh-latency.md")),
    ("mesh-resolver-errors", include_str!("../../../docs/runbooks/mesh-resolver-errors.md")),
    ("mesh-resolver-throttles", include_str!("../../../docs/runbooks/mesh-resolver-throttles.md")),
    ("mesh-unavailable", include_str!("../../../docs/runbooks/mesh-unavailable.md")),
    ("notifier-errors", include_str!("../../../docs/runbooks/notifier-errors.md")),
    ("slack-events-errors", include_str!("../../../docs/runbooks/slack-events-errors.md")),
    ("slack-fallback-active", include_str!("../../../docs/runbooks/slack-fallback-active.md")),
    ("slack-files-dead-letters", include_str!("../../../docs/runbooks/slack-files-dead-letters.md")),
    ("slack-files-errors", include_str!("../../../docs/runbooks/slack-files-errors.md")),
    ("tokens-api-errors", include_str!("../../../docs/runbooks/tokens-api-errors.md")),
    ("tokens-api-latency", include_str!("../../../docs/runbooks/tokens-api-latency.md")),
    ("tokens-conflicts", include_str!("../../../docs/runbooks/tokens-conflicts.md")),
    ("tokens-unresolved", include_str!("../../../docs/runbooks/tokens-unresolved.md")),
];

/// The runbook of a name, or of a path that ends in it (`docs/runbooks/mesh-errors.md`).
pub fn find(name: &str) -> Option<Runbook> {
    let name = name_of(name);
    let (name, markdown) = ALL.iter().find(|(known, _)| *known == name)?;
    Some(Runbook {
        name: (*name).to_owned(),
        path: format!("docs/runbooks/{name}.md"),
        markdown: (*markdown).to_owned(),
    })
}

/// The name of a path: `docs/runbooks/mesh-errors.md` → `mesh-errors`.
pub fn name_of(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".md").unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runbook_of_the_documentation_is_here() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/runbooks");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .expect("the runbooks")
            .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
            .filter(|file| file != "README.md")
            .collect();
        files.sort();
        assert_eq!(files, ALL.iter().map(|(name, _)| format!("{name}.md")).collect::<Vec<_>>());
        assert!(
            find("docs/runbooks/mesh-errors.md").is_some_and(|runbook| runbook.markdown.starts_with("# mesh-errors"))
        );
        assert!(find("../README").is_none());
    }
}
