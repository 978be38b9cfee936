//! References (`&amp;`, `&#x3042;`) in texts and attributes.
//!
//! quick-xml makes an event of every reference, and a feed of escaped HTML has thousands of them. To resolve them text by text
//! instead takes a third of the time. So [`hide`] replaces every `&` by a character that XML forbids before the document is
//! read, and [`unescape`] resolves what follows that character.

use std::borrow::Cow;

use memchr::memmem::Finder;
use quick_xml::events::BytesStart;

use super::html;

/// Stands for `&` while a document is read. XML forbids this character, so it cannot mean anything else.
pub(super) const AMPERSAND: char = '\u{1}';

/// Stands for a `<` that begins no tag, as in `I <3 Rust`.
const LESS: char = '\u{2}';

/// The document with [`AMPERSAND`] for every `&` and [`LESS`] for every `<` that begins nothing. One ASCII character replaces
/// another, so it stays UTF-8. In CDATA both characters mean nothing but themselves, so they stay.
pub(super) fn hide(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let (begin, end) = (Finder::new(b"<![CDATA["), Finder::new(b"]]>"));
    while let Some(start) = begin.find(rest)
        && let Some(length) = end.find(&rest[start..])
    {
        hide_markup(&rest[..start], &mut out);
        let (data, after) = rest[start..].split_at(length);
        match memchr::memchr2(AMPERSAND as u8, LESS as u8, data) {
            None => out.extend_from_slice(data),
            Some(_) => out.extend(data.iter().map(|byte| if is_ours(*byte) { b' ' } else { *byte })),
        }
        rest = after;
    }
    hide_markup(rest, &mut out);
    out
}

fn hide_markup(text: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend(text.iter().map(|byte| match *byte {
        b'&' => AMPERSAND as u8,
        byte if is_ours(byte) => b' ',
        byte => byte,
    }));
    for at in memchr::memchr_iter(b'<', text) {
        let begins = |next: &u8| next.is_ascii_alphabetic() || !next.is_ascii() || b"_:/!?".contains(next);
        // Where the text ends, CDATA begins or the document ends.
        if !text.get(at + 1).is_some_and(begins) {
            out[from + at] = LESS as u8;
        }
    }
}

/// Whether this is a character that stands for another one.
fn is_ours(byte: u8) -> bool {
    byte == AMPERSAND as u8 || byte == LESS as u8
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
