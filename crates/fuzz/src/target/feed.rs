//! Feed documents: Atom, RDF and RSS, in any encoding.
//!
//! The input is a document. If its first line is `charset=NAME`, that is what the Content-Type says, and the document follows.

use std::collections::HashSet;

use feeds::entry::{Entry, Source};
use feeds::parse::{Feed, parse};
use url::Url;

use super::html::assert_is_one_line;

/// The bounds that `feeds::parse` states, in bytes.
const MAX_ID: usize = 600;
const MAX_TITLE: usize = 2_000;
const MAX_CONTENT: usize = 16_000;
const MAX_AUTHOR: usize = 500;
const MAX_LINK: usize = 4_000;
const MAX_PROBLEMS: usize = 20;
/// How far into a document its encoding is looked for. A document that is cut before may be read in another encoding.
const DECLARATION_WITHIN: usize = 256;

pub(crate) fn check(data: &[u8]) {
    let (charset, body) = charset_of(data);
    let url = Url::parse("https://feeds.example/site/feed").expect("a URL");
    for source in [Source::Github, Source::Hatebu] {
        let read = |body: &[u8]| parse(source, body, charset, &url);
        let Ok(feed) = read(body) else { continue };
        assert_bounded(&feed);
        // A document that ends too early gives the entries before its end, and the same ones.
        let cut = DECLARATION_WITHIN.max(body.len() / 2);
        if let Some(Ok(part)) = body.get(..cut).map(read) {
            assert!(part.entries.len() <= feed.entries.len(), "a part of the document has more entries than the whole");
            assert_eq!(
                part.entries[..],
                feed.entries[..part.entries.len()],
                "a part of the document has other entries"
            );
        }
    }
}

fn charset_of(data: &[u8]) -> (Option<&str>, &[u8]) {
    let named = data.strip_prefix(b"charset=").and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        Some((std::str::from_utf8(&rest[..end]).ok()?, &rest[end + 1..]))
    });
    named.map_or((None, data), |(charset, body)| (Some(charset), body))
}

fn assert_bounded(feed: &Feed) {
    let mut ids = HashSet::new();
    for entry in &feed.entries {
        let Entry { id, title, link, author, content, .. } = entry;
        assert!(!id.as_str().trim().is_empty() && id.as_str().len() <= MAX_ID, "{id:?}");
        assert!(ids.insert(id.clone()), "two entries have the id {id:?}");
        assert!(title.len() <= MAX_TITLE && author.len() <= MAX_AUTHOR);
        assert_is_one_line(title);
        assert_is_one_line(author);
        let content = content.text();
        assert!(content.len() <= MAX_CONTENT);
        assert_is_one_line(&content);
        if !link.is_empty() {
            let url = Url::parse(link).unwrap_or_else(|error| panic!("the link {link:?} is not a URL: {error}"));
            assert!(matches!(url.scheme(), "http" | "https") && link.len() <= MAX_LINK, "{link:?}");
        }
    }
    assert!(feed.problems.len() <= MAX_PROBLEMS);
    for problem in &feed.problems {
        assert!(!problem.to_string().is_empty());
    }
}
