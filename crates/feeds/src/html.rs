//! HTML to one line of plain text.
//!
//! Promise: tags go, text stays; entities are decoded exactly once; line breaks and other white space
//! become single spaces. What only looks like a tag (`a < b > c`, `Vec<String>`) is text and survives:
//! a tag is `<`, an element name that HTML knows (or one with a dash), and a `>` to end it.
//! Any input gives an output, in time linear in its length.

use quick_xml::escape::resolve_html5_entity;

/// Elements after which, and before which, a reader sees a break.
const BLOCKS: &[&str] = &[
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
];
/// Elements that a reader does not see.
const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "area", "audio", "b", "base", "bdi", "bdo", "big", "button", "canvas", "caption", "center",
    "cite", "code", "col", "colgroup", "data", "datalist", "del", "dfn", "em", "embed", "font", "head", "i", "iframe",
    "img", "input", "ins", "kbd", "label", "link", "map", "mark", "meta", "meter", "noscript", "object", "output",
    "param", "path", "picture", "progress", "q", "rp", "rt", "ruby", "s", "samp", "select", "slot", "small", "source",
    "span", "strike", "strong", "sub", "sup", "svg", "template", "textarea", "time", "title", "track", "tt", "u",
    "var", "video", "wbr",
];
/// Elements whose content is not text.
const UNSEEN: &[&str] = &["script", "style"];
/// Longest element name that is looked up.
const MAX_NAME: usize = 32;
/// Longest entity between `&` and `;`; HTML's own longest has 31 characters.
const MAX_ENTITY: usize = 33;

/// The text of a piece of HTML.
pub fn to_text(html: &str) -> String {
    let mut out = Line::with_capacity(html.len());
    let mut rest = html;
    // Behind the last `>` nothing is a tag; knowing it keeps the search for one linear.
    let after_last_tag = html.len() - html.rfind('>').map_or(0, |at| at + 1);
    while let Some(at) = rest.find(['<', '&']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('&') {
            let mut buffer = [0; 4];
            let (text, used) = entity(rest, &mut buffer);
            out.push_str(text);
            rest = &rest[used..];
        } else if rest.len() <= after_last_tag {
            rest = literal(rest, &mut out);
        } else {
            rest = tag(rest, &mut out);
        }
    }
    out.push_str(rest);
    out.finish()
}

/// Text that is not HTML: only its white space is put in order.
pub fn one_line(text: &str) -> String {
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

fn kind_of(name: &str) -> Option<Kind> {
    let mut buffer = [0_u8; MAX_NAME];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    let lower = std::str::from_utf8(lower).ok()?;
    if BLOCKS.binary_search(&lower).is_ok() {
        Some(Kind::Block)
    } else if INLINE.binary_search(&lower).is_ok() || (lower.contains('-') && !lower.ends_with('-')) {
        Some(Kind::Inline)
    } else if UNSEEN.contains(&lower) {
        Some(Kind::Unseen)
    } else {
        None
    }
}

/// Where the `>` of a tag is; those within quotes do not count.
fn end_of_tag(attributes: &str) -> Option<usize> {
    let mut quote = None;
    let mut after_equals = false;
    for (at, byte) in attributes.bytes().enumerate() {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None => match byte {
                b'>' => return Some(at),
                b'"' | b'\'' if after_equals => quote = Some(byte),
                _ => {}
            },
        }
        if !byte.is_ascii_whitespace() {
            after_equals = byte == b'=';
        }
    }
    // A quote that never closes: the first `>` ends the tag after all.
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

/// What an entity at the beginning of `rest` stands for, and how many bytes were used.
/// Without a meaning, the `&` alone is used, as text.
fn entity<'b>(rest: &str, buffer: &'b mut [u8; 4]) -> (&'b str, usize) {
    let body = &rest[1..];
    let Some(end) = body.bytes().take(MAX_ENTITY).position(|byte| byte == b';') else { return ("&", 1) };
    match resolve(&body[..end], buffer) {
        Some(text) => (text, end + 2),
        None => ("&", 1),
    }
}

/// What `name` means between `&` and `;`, in HTML or in XML. Markup is full of the first few: they are not looked up.
pub(crate) fn resolve<'b>(name: &str, buffer: &'b mut [u8; 4]) -> Option<&'b str> {
    match name {
        "lt" => return Some("<"),
        "gt" => return Some(">"),
        "amp" => return Some("&"),
        "quot" => return Some("\""),
        _ => {}
    }
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).map(|c| &*c.encode_utf8(buffer));
    }
    resolve_html5_entity(name)
}

/// One line under construction: runs of white space become one space, none at either end.
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
        for piece in text.split_inclusive(|c: char| c.is_whitespace() || c.is_control()) {
            let word = piece.trim_end_matches(|c: char| c.is_whitespace() || c.is_control());
            if !word.is_empty() {
                if self.pending && !self.text.is_empty() {
                    self.text.push(' ');
                }
                self.pending = false;
                self.text.push_str(word);
            }
            if word.len() < piece.len() {
                self.pending = true;
            }
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
            #![proptest_config(crate::cases(256))]

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
