//! HTML to one line of plain text.
//!
//! Promise: tags are removed and text is kept. Entities are decoded exactly once. Line breaks and other white space
//! become single spaces. What only looks like a tag (`a < b > c`, `Vec<String>`) is text and is kept:
//! a tag is `<`, an element name that HTML knows (or one with a dash), and a `>` at its end.
//! Every input gives an output, in time linear in its length.

use quick_xml::escape::resolve_html5_entity;

/// Elements with a visible break before and after them.
const BLOCKS: [Name; 44] = names([
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "legend",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "ul",
]);
/// Elements without a break.
const INLINE: [Name; 71] = names([
    "a", "abbr", "acronym", "area", "audio", "b", "base", "bdi", "bdo", "big", "button", "canvas", "caption", "center",
    "cite", "code", "col", "colgroup", "data", "datalist", "del", "dfn", "em", "embed", "font", "head", "i", "iframe",
    "img", "input", "ins", "kbd", "label", "link", "map", "mark", "meta", "meter", "noscript", "object", "output",
    "param", "path", "picture", "progress", "q", "rp", "rt", "ruby", "s", "samp", "select", "slot", "small", "source",
    "span", "strike", "strong", "sub", "sup", "svg", "template", "textarea", "time", "title", "track", "tt", "u",
    "var", "video", "wbr",
]);
/// Elements whose content is not text.
const UNSEEN: [Name; 2] = names(["script", "style"]);
/// Longest element name that is looked up.
const MAX_NAME: usize = 32;
/// Longest reference (`&…;`) that is looked up. HTML's longest has 31 characters.
const MAX_REFERENCE: usize = 36;

/// The text of a piece of HTML.
pub fn to_text(html: &str) -> String {
    let mut out = Line::with_capacity(html.len());
    let mut rest = html;
    // Nothing after the last `>` is a tag. Knowing that keeps the search linear.
    let after_last_tag = html.len() - html.rfind('>').map_or(0, |at| at + 1);
    while let Some(at) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('&') {
            let mut buffer = [0; 4];
            let (text, used) = reference(&rest[1..], &mut buffer).unwrap_or(("&", 0));
            out.push_str(text);
            rest = &rest[1 + used..];
        } else if rest.len() <= after_last_tag {
            rest = literal(rest, &mut out);
        } else {
            rest = tag(rest, &mut out);
        }
    }
    out.push_str(rest);
    out.finish()
}

/// Text that is not HTML: only its white space becomes single spaces.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = Line::with_capacity(text.len());
    out.push_str(text);
    out.finish()
}

/// Takes what begins with `<` off the input: a tag, a comment, or the character itself.
fn tag<'a>(rest: &'a str, out: &mut Line) -> &'a str {
    if let Some(comment) = rest.strip_prefix("<!--") {
        return match comment.find("-->") {
            Some(end) => &comment[end + 3..],
            None => "",
        };
    }
    let inner = &rest[1..];
    let (closing, name_at) = match inner.strip_prefix('/') {
        Some(name) => (true, name),
        None => (false, inner),
    };
    let name_len =
        name_at.bytes().take(MAX_NAME + 1).take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
    let name = &name_at[..name_len];
    let after_name = &name_at[name_len..];
    let delimited = after_name.starts_with(|c: char| c == '>' || c == '/' || c.is_ascii_whitespace());
    if !delimited || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return literal(rest, out);
    }
    let Some(kind) = kind_of(name) else { return literal(rest, out) };
    let Some(end) = end_of_tag(after_name) else { return literal(rest, out) };
    let after = &after_name[end + 1..];
    match kind {
        Kind::Block => out.space(),
        Kind::Inline => {}
        Kind::Unseen if closing => {}
        Kind::Unseen => return after_closing(after, name),
    }
    after
}

enum Kind {
    Block,
    Inline,
    Unseen,
}

/// An element's name as a number, in the order of the names. Numbers are found faster than strings.
type Name = u128;
const NAME_BYTES: usize = size_of::<Name>();

/// `None` for a name that is longer than all that are listed.
const fn name(text: &[u8]) -> Option<Name> {
    if text.len() > NAME_BYTES {
        return None;
    }
    let mut bytes = [0; NAME_BYTES];
    let mut at = 0;
    while at < text.len() {
        bytes[at] = text[at].to_ascii_lowercase();
        at += 1;
    }
    Some(Name::from_be_bytes(bytes))
}

const fn names<const N: usize>(texts: [&str; N]) -> [Name; N] {
    let mut names = [0; N];
    let mut at = 0;
    while at < N {
        names[at] = name(texts[at].as_bytes()).expect("a listed name is short");
        at += 1;
    }
    names
}

fn kind_of(text: &str) -> Option<Kind> {
    match name(text.as_bytes()) {
        Some(name) if BLOCKS.binary_search(&name).is_ok() => Some(Kind::Block),
        Some(name) if INLINE.binary_search(&name).is_ok() => Some(Kind::Inline),
        Some(name) if UNSEEN.contains(&name) => Some(Kind::Unseen),
        // A custom element.
        _ if text.len() <= MAX_NAME && text.contains('-') && !text.ends_with('-') => Some(Kind::Inline),
        _ => None,
    }
}

/// Where the `>` of a tag is. One within quotes does not count.
fn end_of_tag(attributes: &str) -> Option<usize> {
    let bytes = attributes.as_bytes();
    let mut from = 0;
    while let Some(found) = memchr::memchr3(b'>', b'"', b'\'', &bytes[from..]) {
        let at = from + found;
        if bytes[at] == b'>' {
            return Some(at);
        }
        from = at + 1;
        // A quote opens a value only after `=`. Elsewhere it is an ordinary character.
        if bytes[..at].trim_ascii_end().ends_with(b"=") {
            match memchr::memchr(bytes[at], &bytes[from..]) {
                Some(closing) => from += closing + 1,
                // The quote is never closed, so the first `>` ends the tag.
                None => return attributes.find('>'),
            }
        }
    }
    attributes.find('>')
}

/// What follows the closing tag of an element whose content is not text.
fn after_closing<'a>(rest: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(found) = rest[from..].find("</") {
        let name_at = from + found + 2;
        let candidate = rest.as_bytes().get(name_at..name_at + name.len());
        if candidate.is_some_and(|candidate| candidate.eq_ignore_ascii_case(name.as_bytes())) {
            return match rest[name_at..].find('>') {
                Some(end) => &rest[name_at + end + 1..],
                None => "",
            };
        }
        from = name_at;
    }
    ""
}

fn literal<'a>(rest: &'a str, out: &mut Line) -> &'a str {
    out.push_str("<");
    &rest[1..]
}

/// What follows an `&`, in HTML or in XML: the text that it means, and how many bytes it has, with the semicolon. `None` if it
/// means nothing. The first four are so frequent that they are not looked up.
pub(crate) fn reference<'b>(rest: &str, buffer: &'b mut [u8; 4]) -> Option<(&'b str, usize)> {
    match rest.as_bytes() {
        [b'l', b't', b';', ..] => return Some(("<", 3)),
        [b'g', b't', b';', ..] => return Some((">", 3)),
        [b'a', b'm', b'p', b';', ..] => return Some(("&", 4)),
        [b'q', b'u', b'o', b't', b';', ..] => return Some(("\"", 5)),
        _ => {}
    }
    let end = rest.bytes().take(MAX_REFERENCE).position(|byte| byte == b';')?;
    let name = &rest[..end];
    let text = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            &*char::from_u32(meant(code))?.encode_utf8(buffer)
        }
        None => resolve_html5_entity(name)?,
    };
    Some((text, end + 1))
}

/// The character that a number means. Numbers from 128 to 159 are characters of Windows-1252, as browsers read them.
fn meant(code: u32) -> u32 {
    match u8::try_from(code) {
        Ok(byte @ 0x80..=0x9f) => {
            let bytes = [byte];
            let text = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&bytes).0;
            text.chars().next().map_or(code, u32::from)
        }
        _ => code,
    }
}

/// Whether this becomes a space in a line: white space of any kind, and control characters.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// Where the first space is, or the end. Most text is ASCII, where one look at a byte is enough.
fn end_of_word(text: &str) -> usize {
    let visible = |byte: &u8| byte.is_ascii_graphic();
    let ascii = text.as_bytes().iter().take_while(|byte| visible(byte)).count();
    ascii + text[ascii..].find(is_space).unwrap_or(text.len() - ascii)
}

/// A line under construction: each run of white space becomes one space, and there is none at either end.
struct Line {
    text: String,
    pending: bool,
}

impl Line {
    fn with_capacity(bytes: usize) -> Self {
        Line { text: String::with_capacity(bytes), pending: false }
    }

    fn space(&mut self) {
        self.pending = true;
    }

    fn push_str(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let word = &rest[..end_of_word(rest)];
            if !word.is_empty() {
                if self.pending && !self.text.is_empty() {
                    self.text.push(' ');
                }
                self.pending = false;
                self.text.push_str(word);
            }
            rest = &rest[word.len()..];
            let behind = rest.trim_start_matches(is_space);
            self.pending |= behind.len() < rest.len();
            rest = behind;
        }
    }

    fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_elements_are_sorted_for_the_search() {
        assert!(BLOCKS.is_sorted());
        assert!(INLINE.is_sorted());
    }

    #[test]
    fn tags_go_and_text_stays() {
        assert_eq!(to_text("<p>Hello, <b class='x>y'>world</b>!</p>"), "Hello, world!");
    }

    #[test]
    fn what_only_looks_like_a_tag_is_text() {
        for text in ["a < b > c", "a <b", "Vec<String>", "1<2", "x <- y", "<3", "</", "<"] {
            assert_eq!(to_text(text), text);
        }
    }

    #[test]
    fn entities_are_decoded_once() {
        assert_eq!(
            to_text("&amp;lt;b&amp;gt; &lt;i&gt; &#x3042;&#12356; &eacute; &copy"),
            "&lt;b&gt; <i> あい é &copy"
        );
    }

    #[test]
    fn unknown_entities_and_lone_ampersands_are_text() {
        assert_eq!(to_text("R&D & &nosuch; &#xD800; &;"), "R&D & &nosuch; &#xD800; &;");
    }

    #[test]
    fn breaks_and_white_space_become_single_spaces() {
        assert_eq!(
            to_text("  one<br/>two\r\n\n three<p>four</p>five&nbsp;six\u{3000}七 "),
            "one two three four five six 七"
        );
    }

    #[test]
    fn scripts_styles_and_comments_are_not_text() {
        assert_eq!(to_text("a<script>if (1 < 2) { '</p>' }</SCRIPT>b<!-- <p>no</p> -->c<style>p{}</style>"), "abc");
    }

    #[test]
    fn custom_elements_are_tags() {
        assert_eq!(to_text("<g-emoji alias=\"tada\">🎉</g-emoji> released"), "🎉 released");
    }

    mod properties {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #![proptest_config(crate::parse::tests::cases(256))]

            #[test]
            fn any_input_gives_one_trimmed_line(html in "\\PC*|[<>&;/a-z \"'=!\\-\n]{0,200}") {
                let text = to_text(&html);
                prop_assert_eq!(text.trim(), text.as_str());
                prop_assert!(!text.contains(['\n', '\r', '\t']) && !text.contains("  "));
            }

            #[test]
            fn escaped_text_comes_back_as_it_was(words in proptest::collection::vec("[a-z<>&\"']{1,8}", 0..8)) {
                let text = words.join(" ");
                let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                prop_assert_eq!(to_text(&escaped), text);
            }
        }
    }
}
