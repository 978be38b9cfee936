//! References (`&amp;`, `&#x3042;`) in texts and attributes.
//!
//! quick-xml makes an event of every reference, and a feed of escaped HTML has thousands of them. To resolve them text by text
//! instead takes a third of the time. So [`hide`] replaces every `&` by a character that XML forbids before the document is
//! read, and [`unescape`] resolves what follows that character.

use std::borrow::Cow;

use quick_xml::events::BytesStart;

use super::html;

/// Stands for `&` while a document is read. XML forbids this character, so it cannot mean anything else.
const AMPERSAND: char = '\u{1}';

/// The document with [`AMPERSAND`] for every `&`. One ASCII character replaces another, so it stays UTF-8.
pub(super) fn hide(text: &str) -> Vec<u8> {
    let replaced = |byte: &u8| match byte {
        b'&' => AMPERSAND as u8,
        1 => b' ',
        other => *other,
    };
    text.as_bytes().iter().map(replaced).collect()
}

/// A text in which `&` means nothing but itself, as in CDATA.
pub(super) fn restore(text: &str) -> String {
    text.replace(AMPERSAND, "&")
}

/// A text with its references resolved. One that is not defined stays as it is in the document.
pub(super) fn unescape(value: &str) -> Cow<'_, str> {
    let next = |text: &str| memchr::memchr(AMPERSAND as u8, text.as_bytes());
    let Some(mut at) = next(value) else { return Cow::Borrowed(value) };
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    loop {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut buffer = [0; 4];
        let (text, used) = html::reference(rest, &mut buffer).unwrap_or(("&", 0));
        out.push_str(text);
        rest = &rest[used..];
        match next(rest) {
            Some(found) => at = found,
            None => break,
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The value of the first attribute whose name, with its prefix, is wanted.
pub(super) fn attribute(start: &BytesStart<'_>, wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut attributes = start.html_attributes();
    let found = attributes.with_checks(false).flatten().find(|attribute| wanted(attribute.key.as_ref()))?;
    Some(unescape(&found.value).into_owned())
}
