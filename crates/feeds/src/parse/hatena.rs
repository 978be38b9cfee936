//! What is special about Hatena Bookmark: where the comment of a bookmark is.
//!
//! In a user's feed, `content:encoded` has a quotation of the page, then a paragraph with the user's icon,
//! name and tags as links, then the comment. `description` often has the comment alone, but not always.

use super::html;

/// The comment in Hatena's HTML. `None` if the HTML does not have that shape; then all of it is content.
pub(crate) fn comment(html: &str) -> Option<String> {
    let trimmed = html.trim_start();
    let is_hatena = trimmed.starts_with("<blockquote") && trimmed.contains("b.hatena.ne.jp");
    if !is_hatena {
        return None;
    }
    let after_quotation = &trimmed[trimmed.rfind("</blockquote>")? + "</blockquote>".len()..];
    let from = after_quotation.rfind("</a>").map_or(0, |at| at + "</a>".len());
    Some(html::to_text(&after_quotation[from..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTE: &str = r#"<blockquote cite="https://example.com/" title="T"><cite><img src="https://cdn-ak2.favicon.st-hatena.com/x" alt="" /> <a href="https://example.com/">T</a></cite><p>The page's own words.</p><p><a href="https://b.hatena.ne.jp/entry/s/example.com/"><img src="https://b.hatena.ne.jp/entry/image/x" /></a></p></blockquote>"#;

    #[test]
    fn the_comment_follows_the_user_and_the_tags() {
        let html = format!(
            r##"{QUOTE}<p><img src="x" /> <a href="https://b.hatena.ne.jp/masutaka/">masutaka</a> <a href="#">rust</a> a &lt; b, よい記事</p>"##
        );
        assert_eq!(comment(&html).as_deref(), Some("a < b, よい記事"));
    }

    #[test]
    fn no_comment_is_an_empty_comment_and_never_the_page_itself() {
        let html = format!(r##"{QUOTE}<p><a href="https://b.hatena.ne.jp/masutaka/">masutaka</a> </p>"##);
        assert_eq!(comment(&html).as_deref(), Some(""));
    }

    #[test]
    fn other_html_is_not_taken_apart() {
        assert_eq!(comment("<p>コメント</p>"), None);
    }
}
