pub(crate) mod feed;
pub(crate) mod graphql;
pub(crate) mod html;
pub(crate) mod journal;
pub(crate) mod jwt;
pub(crate) mod realtime;
pub(crate) mod record;
pub(crate) mod redact;
pub(crate) mod slack;
pub(crate) mod template;

/// The input at its first line that is only `---`: what is before it, and what is after it (empty if there is no such line).
fn halves(text: &str) -> (&str, &str) {
    text.split_once("\n---\n").unwrap_or((text, ""))
}
