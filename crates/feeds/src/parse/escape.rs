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

/// Stands for a `<` that begins no tag, as in `I <3 Rust`.
const LESS: char = '\u{2}';

/// The document with [`AMPERSAND`] for every `&` and [`LESS`] for every `<` that begins nothing. One ASCII character replaces
/// another, so it stays UTF-8.
pub(super) fn hide(text: &str) -> Vec<u8> {
    let replaced = |byte: &u8| match byte {
        b'&' => AMPERSAND as u8,
        1 | 2 => b' ',
        other => *other,
    };
    let mut bytes: Vec<u8> = text.as_bytes().iter().map(replaced).collect();
    for at in memchr::memchr_iter(b'<', text.as_bytes()) {
        let begins = |next: &u8| next.is_ascii_alphabetic() || !next.is_ascii() || b"_:/!?".contains(next);
        if !bytes.get(at + 1).is_some_and(begins) {
            bytes[at] = LESS as u8;
        }
    }
    bytes
}

/// A text in which `&` means nothing but itself, as in CDATA.
pub(super) fn restore(text: &str) -> String {
    text.replace(AMPERSAND, "&").replace(LESS, "<")
}

/// A text with its references resolved. One that is not defined stays as it is in the document.
pub(super) fn unescape(value: &str) -> Cow<'_, str> {
    let next = |text: &str| memchr::memchr2(AMPERSAND as u8, LESS as u8, text.as_bytes());
    let Some(mut at) = next(value) else { return Cow::Borrowed(value) };
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    loop {
        out.push_str(&rest[..at]);
        let is_less = rest.as_bytes()[at] == LESS as u8;
        rest = &rest[at + 1..];
        let mut buffer = [0; 4];
        let (text, used) = match is_less {
            true => ("<", 0),
            false => html::reference(rest, &mut buffer).unwrap_or(("&", 0)),
        };
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
