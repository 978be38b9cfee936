//! HTML to one line of text.

use feeds::parse::html::to_text;

pub(crate) fn check(data: &[u8]) {
    let html = String::from_utf8_lossy(data);
    let text = to_text(&html);
    assert_is_one_line(&text);
    // No entity of HTML has more bytes than twice its name.
    assert!(text.len() <= 2 * html.len(), "the text is longer than its markup can say");
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    assert_eq!(to_text(&escaped), text, "escaped text does not come back as it was");
}

/// One trimmed line with single spaces and without control characters.
pub(super) fn assert_is_one_line(text: &str) {
    assert_eq!(text.trim(), text, "white space around a line");
    assert!(!text.contains("  "), "two spaces in {text:?}");
    let bad = text.chars().find(|c| c.is_control() || (c.is_whitespace() && *c != ' '));
    assert!(bad.is_none(), "{bad:?} in {text:?}");
}
