//! The text of a post: a template filled with the feed's text, made harmless and short enough.
//!
//! Promise of [`Template::render`]: the result is not longer than the limit as Mastodon counts it. The link is never
//! cut; the comment is shortened first, then the title. Nobody is mentioned, also not by a URL, and no word is tagged. An empty part
//! leaves no gap. If the text does not fit even without comment and title, that is [`Error::TooLong`].
//!
//! Mastodon counts grapheme clusters, and every URL as a fixed number of characters (23 by default).

use std::fmt;

use unicode_segmentation::UnicodeSegmentation;

/// How long a post may be, by the instance's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub characters: usize,
    pub url: usize,
}

impl Limit {
    /// Mastodon's default.
    pub const MASTODON: Limit = Limit { characters: 500, url: 23 };
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the post is too long even after shortening: it has {counted} characters, and {limit} are allowed")]
    TooLong { counted: usize, limit: usize },
}

/// What a template can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Title,
    Link,
    Author,
    /// `{comment}` and `{content}` are the same: of a bookmark the content is its comment.
    Content,
    Categories,
    Enclosure,
}

impl Part {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "title" => Part::Title,
            "link" => Part::Link,
            "author" => Part::Author,
            "comment" | "content" => Part::Content,
            "categories" => Part::Categories,
            "enclosure" => Part::Enclosure,
            _ => return None,
        })
    }
}

/// The texts for a template: plain text from the feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    pub title: String,
    pub link: String,
    pub author: String,
    pub content: String,
    /// Separated by commas.
    pub categories: String,
    pub enclosure: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Part(Part),
}

/// A format such as `[GH] {title} {link}`: words of literals and `{title}`, `{link}`, `{author}`, `{content}` (or `{comment}`),
/// `{categories}`, `{enclosure}`.
///
/// A word whose parts are all empty is left out with its literals (`id:{author}`). A word of punctuation only (`>`) is left
/// out, too, if it would no longer be between two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    words: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error(
        "the template {template:?} names {{{name}}}; use {{title}}, {{link}}, {{author}}, {{content}}, {{categories}} or {{enclosure}}"
    )]
    Unknown { template: String, name: String },
    #[error("the template {template:?} has a brace that is not closed or not opened")]
    Brace { template: String },
    #[error("the template is empty")]
    Empty,
}

impl Template {
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        let words =
            template.split_whitespace().map(|word| Self::word(template, word)).collect::<Result<Vec<_>, _>>()?;
        if words.is_empty() { Err(TemplateError::Empty) } else { Ok(Template { words }) }
    }

    fn word(template: &str, word: &str) -> Result<Vec<Piece>, TemplateError> {
        let brace = || TemplateError::Brace { template: template.to_owned() };
        let mut pieces = Vec::new();
        let mut rest = word;
        while let Some(open) = rest.find(['{', '}']) {
            if rest[open..].starts_with('}') {
                return Err(brace());
            }
            if open > 0 {
                pieces.push(Piece::Literal(rest[..open].to_owned()));
            }
            let close = rest[open..].find('}').ok_or_else(brace)? + open;
            let name = &rest[open + 1..close];
            let part = Part::named(name)
                .ok_or_else(|| TemplateError::Unknown { template: template.to_owned(), name: name.to_owned() })?;
            pieces.push(Piece::Part(part));
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(pieces)
    }

    /// The text to post, within the limit, for a destination where `@name` and `#tag` mean something.
    pub fn render(&self, parts: &Parts, limit: Limit) -> Result<String, Error> {
        let parts = Parts { link: posted_url(&parts.link), enclosure: posted_url(&parts.enclosure), ..parts.clone() };
        self.within(&parts, limit, neutralise)
    }

    /// The text to post, within the limit, for a destination that takes text for text.
    pub fn render_plain(&self, parts: &Parts, limit: Limit) -> Result<String, Error> {
        self.within(parts, limit, undirected)
    }

    fn within(&self, parts: &Parts, limit: Limit, harmless: fn(&str) -> String) -> Result<String, Error> {
        let mut parts = Parts {
            title: harmless(&parts.title),
            author: harmless(&parts.author),
            content: harmless(&parts.content),
            categories: harmless(&parts.categories),
            link: parts.link.trim().to_owned(),
            enclosure: parts.enclosure.trim().to_owned(),
        };
        let mut text = self.fill(&parts);
        // The content first, the title last. The text is counted again after each cut, because a word
        // that becomes empty is left out with its literals.
        for shortened in [Part::Content, Part::Categories, Part::Title] {
            let counted = count(&text, limit);
            if counted <= limit.characters {
                return Ok(text);
            }
            let original = parts.get(shortened).to_owned();
            let mut room = count(&original, limit).saturating_sub(counted - limit.characters);
            loop {
                parts.set(shortened, shorten(&original, room, limit));
                text = self.fill(&parts);
                if room == 0 || count(&text, limit) <= limit.characters {
                    break;
                }
                room -= 1;
            }
        }
        match count(&text, limit) {
            counted if counted <= limit.characters => Ok(text),
            counted => Err(Error::TooLong { counted, limit: limit.characters }),
        }
    }

    fn fill(&self, parts: &Parts) -> String {
        let filled: Vec<Option<Word>> = self.words.iter().map(|word| fill_word(word, parts)).collect();
        let foreign = |word: &Option<Word>| word.as_ref().is_some_and(|word| word.foreign);
        let mut text = String::new();
        for (at, word) in filled.iter().enumerate() {
            let Some(Word { text: word, foreign: false }) = word else {
                push_word(&mut text, word.as_ref().map_or("", |word| word.text.as_str()));
                continue;
            };
            let separates = word.chars().all(|c| !c.is_alphanumeric());
            if separates && !(filled[..at].iter().any(foreign) && filled[at + 1..].iter().any(foreign)) {
                continue;
            }
            push_word(&mut text, word);
        }
        text
    }
}

struct Word {
    text: String,
    /// Whether a part of it is from the feed.
    foreign: bool,
}

fn fill_word(word: &[Piece], parts: &Parts) -> Option<Word> {
    let mut text = String::new();
    let (mut named, mut foreign) = (false, false);
    for piece in word {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Part(part) => {
                named = true;
                let value = parts.get(*part);
                foreign |= !value.is_empty();
                text.push_str(value);
            }
        }
    }
    (!named || foreign).then_some(Word { text, foreign })
}

fn push_word(text: &mut String, word: &str) {
    if word.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word);
}

impl Parts {
    fn get(&self, part: Part) -> &str {
        match part {
            Part::Title => &self.title,
            Part::Link => &self.link,
            Part::Author => &self.author,
            Part::Content => &self.content,
            Part::Categories => &self.categories,
            Part::Enclosure => &self.enclosure,
        }
    }

    fn set(&mut self, part: Part, text: String) {
        match part {
            Part::Title => self.title = text,
            Part::Link => self.link = text,
            Part::Author => self.author = text,
            Part::Content => self.content = text,
            Part::Categories => self.categories = text,
            Part::Enclosure => self.enclosure = text,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} characters", self.characters)
    }
}

/// The length of a text as Mastodon counts it.
pub fn count(text: &str, limit: Limit) -> usize {
    tokens(text).map(|token| token.count(limit)).sum()
}

/// The longest beginning of a text that fits, with an ellipsis if something was cut off. URLs are not split.
pub(crate) fn shorten(text: &str, room: usize, limit: Limit) -> String {
    if count(text, limit) <= room {
        return text.to_owned();
    }
    // An ellipsis alone says nothing.
    if room < 2 {
        return String::new();
    }
    let mut kept = String::new();
    let mut left = room - 1;
    for token in tokens(text) {
        let counted = token.count(limit);
        if counted > left {
            break;
        }
        left -= counted;
        kept.push_str(token.text);
    }
    let trimmed = kept.trim_end();
    if trimmed.is_empty() { String::new() } else { format!("{trimmed}…") }
}

/// What is counted: a URL as a whole, anything else by grapheme cluster.
struct Token<'a> {
    text: &'a str,
    is_url: bool,
}

impl Token<'_> {
    fn count(&self, limit: Limit) -> usize {
        if self.is_url { limit.url } else { 1 }
    }
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let begun = text.len() - rest.len();
        let after_word = text[..begun].chars().next_back().is_some_and(char::is_alphanumeric);
        let url = if after_word { 0 } else { url_len(rest) };
        let (token, is_url) = match url {
            0 => (rest.graphemes(true).next().unwrap_or(rest), false),
            length => (&rest[..length], true),
        };
        rest = &rest[token.len()..];
        Some(Token { text: token, is_url })
    })
}

/// How many bytes at the beginning of `text` Mastodon takes for a URL: a scheme, a host with a dot and a
/// name at its end, and the characters of a URL that follow, without punctuation at the end.
/// In doubt it is not a URL. Then every character is counted, which is never too few.
fn url_len(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return 0 };
    let scheme = text.len() - rest.len();
    let host_len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-')).unwrap_or(rest.len());
    let host = &rest[..host_len];
    let Some((name, top)) = host.rsplit_once('.') else { return 0 };
    if name.is_empty() || top.len() < 2 || !top.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return 0;
    }
    let after = &rest[host_len..];
    let path_len = match after.chars().next() {
        Some('/' | '?' | '#' | ':') => after.find(|c: char| !is_url_char(c)).unwrap_or(after.len()),
        _ => 0,
    };
    let url = &text[..scheme + host_len + path_len];
    let minimum = scheme + host_len;
    let trimmed = url.trim_end_matches(['.', ',', ':', ';', '!', '?', '\'', '"', ')', ']', '}', '*', '~', '|']);
    trimmed.len().max(minimum)
}

fn is_url_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%|".contains(c)
}

/// A URL as it is posted where `@name` means something. Mastodon also looks for names inside of URLs
/// (`https://example.com/?to:@name`), so `@` is encoded. A user in front of the host cannot be encoded: then the URL would lead to
/// another host. It is left out.
pub(crate) fn posted_url(url: &str) -> String {
    let url = url.trim();
    let from = url.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(from);
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
    let host = if scheme.is_empty() { authority } else { authority.rsplit('@').next().unwrap_or(authority) };
    encode_at(&format!("{scheme}{host}{path}"))
}

fn encode_at(url: &str) -> String {
    url.replace('@', "%40").replace('＠', "%EF%BC%A0")
}

/// A text in which it makes no difference whether an `@` of a URL is encoded: what was posted before it was, or by another program, is
/// still found.
pub(crate) fn decode_at(text: &str) -> String {
    text.replace("%40", "@").replace("%EF%BC%A0", "＠")
}

/// Text of the feed that mentions and tags nobody: `@name` and `#tag` get a zero-width space after the
/// sign, and characters that reverse the direction of writing are removed. In a URL only `@` is encoded.
fn neutralise(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for token in tokens(text.trim()) {
        if token.is_url {
            out.push_str(&encode_at(token.text));
            continue;
        }
        for c in token.text.chars() {
            match c {
                '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {}
                '@' | '＠' | '#' | '＃' => {
                    out.push(c);
                    out.push(SEPARATOR);
                }
                _ => out.push(c),
            }
        }
    }
    out
}

/// Text of the feed without the characters that reverse the direction of writing.
fn undirected(text: &str) -> String {
    text.trim().chars().filter(|c| !matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')).collect()
}

/// ZERO WIDTH SPACE. It ends a name and a tag. (U+200C would not: it is allowed in tags.)
pub(crate) const SEPARATOR: char = '\u{200B}';

#[cfg(test)]
mod tests {
    use super::*;

    const GITHUB: &str = "[GH] {title} {link}";
    const HATEBU: &str = "[B!] id:{author} {comment} > {title} {link}";
    const LINK: &str = "https://example.com/a/very/long/path?that=counts&as=23";

    fn parts(author: &str, comment: &str, title: &str) -> Parts {
        let (title, author, content) = (title.into(), author.into(), comment.into());
        Parts { title, link: LINK.into(), author, content, ..Parts::default() }
    }

    fn render(template: &str, parts: &Parts) -> String {
        Template::parse(template).unwrap().render(parts, Limit::MASTODON).unwrap()
    }

    #[test]
    fn a_full_bookmark_reads_as_documented() {
        let text = render(HATEBU, &parts("masutaka", "よい", "題名"));
        assert_eq!(text, format!("[B!] id:masutaka よい > 題名 {LINK}"));
    }

    #[test]
    fn empty_parts_leave_no_gaps() {
        assert_eq!(render(HATEBU, &parts("masutaka", "", "T")), format!("[B!] id:masutaka > T {LINK}"));
        assert_eq!(render(HATEBU, &parts("", "C", "T")), format!("[B!] C > T {LINK}"));
        assert_eq!(render(HATEBU, &parts("", "", "T")), format!("[B!] T {LINK}").replace("[B!] T", "[B!] T"));
        assert_eq!(render(GITHUB, &parts("", "", "")), format!("[GH] {LINK}"));
    }

    #[test]
    fn a_url_counts_as_23_wherever_it_stands() {
        assert_eq!(count(LINK, Limit::MASTODON), 23);
        assert_eq!(count(&format!("see {LINK}, and"), Limit::MASTODON), 4 + 23 + 5);
        assert_eq!(count("https://localhost/", Limit::MASTODON), 18);
        assert_eq!(count("xhttps://example.com/", Limit::MASTODON), 21);
    }

    #[test]
    fn what_a_reader_sees_as_one_character_counts_as_one() {
        assert_eq!(count("👨‍👩‍👧‍👦é🇯🇵", Limit::MASTODON), 3);
    }

    #[test]
    fn the_comment_is_shortened_first_and_the_link_never() {
        let text = render(HATEBU, &parts("m", &"こ".repeat(600), "Title"));
        assert_eq!(count(&text, Limit::MASTODON), 500);
        assert!(text.contains("…") && text.ends_with(&format!("> Title {LINK}")), "{text}");
    }

    #[test]
    fn the_title_is_shortened_when_no_comment_is_left() {
        let text = render(HATEBU, &parts("m", &"c".repeat(600), &"t".repeat(600)));
        assert_eq!(count(&text, Limit::MASTODON), 500);
        assert!(!text.contains('c') || text.contains("…"), "{text}");
        assert!(text.contains("t…") && text.ends_with(LINK), "{text}");
    }

    #[test]
    fn too_long_even_without_words_is_an_error() {
        let limit = Limit { characters: 10, url: 23 };
        let error = Template::parse(GITHUB).unwrap().render(&parts("", "", "T"), limit).unwrap_err();
        assert_eq!(error, Error::TooLong { counted: 28, limit: 10 });
    }

    #[test]
    fn nobody_is_mentioned_and_nothing_is_tagged() {
        let text = render(GITHUB, &parts("", "", "@everyone look at #rust and ＃日本語 by a@b.example"));
        assert_eq!(
            text,
            format!("[GH] @\u{200B}everyone look at #\u{200B}rust and ＃\u{200B}日本語 by a@\u{200B}b.example {LINK}")
        );
    }

    #[test]
    fn urls_in_foreign_text_stay_whole() {
        assert_eq!(neutralise("see https://example.com/a?b=c#part ok"), "see https://example.com/a?b=c#part ok");
    }

    #[test]
    fn a_url_mentions_nobody_wherever_it_stands() {
        let hostile = "https://example.com/?to:@victim@social.example";
        let parts = Parts {
            title: format!("look: {hostile}"),
            link: hostile.into(),
            enclosure: "https://example.com/＠victim/.@victim".into(),
            ..Parts::default()
        };
        let text = render("{title} {enclosure} {link}", &parts);
        let encoded = "https://example.com/?to:%40victim%40social.example";
        assert_eq!(text, format!("look: {encoded} https://example.com/%EF%BC%A0victim/.%40victim {encoded}"));
        // Where nobody can be mentioned, the link stays as it is.
        let plain = Template::parse("{link}").unwrap().render_plain(&parts, Limit::MASTODON).unwrap();
        assert_eq!(plain, hostile);
    }

    #[test]
    fn a_user_before_the_host_is_left_out_so_that_the_url_leads_to_the_same_host() {
        for (url, posted) in [
            ("https://-@victim@example.com/a@b?c@d#e@f", "https://example.com/a%40b?c%40d#e%40f"),
            ("https://user:pass@example.com:8443/", "https://example.com:8443/"),
            ("https://example.com?a@b", "https://example.com?a%40b"),
            ("https://example.com#a@b", "https://example.com#a%40b"),
            ("mailto:name@example.com", "mailto:name%40example.com"),
            ("https://example.com/plain", "https://example.com/plain"),
        ] {
            assert_eq!(posted_url(url), posted);
        }
    }

    #[test]
    fn categories_and_enclosures_are_parts_like_others_and_empty_ones_leave_no_gap() {
        let full = Parts {
            categories: "rust, feeds".into(),
            enclosure: "https://x.example/1.mp3".into(),
            ..parts("", "C", "T")
        };
        let template = "{title} ({categories}) {content} {enclosure} {link}";
        assert_eq!(render(template, &full), format!("T (rust, feeds) C https://x.example/1.mp3 {LINK}"));
        assert_eq!(render(template, &parts("", "", "T")), format!("T {LINK}"));
    }

    #[test]
    fn plain_text_stays_as_it_is_but_for_the_direction_of_writing() {
        let parts = parts("", "", "@here #tag \u{202E}gro.live");
        let text = Template::parse(GITHUB).unwrap().render_plain(&parts, Limit::MASTODON).unwrap();
        assert_eq!(text, format!("[GH] @here #tag gro.live {LINK}"));
    }

    #[test]
    fn a_template_that_cannot_work_says_why() {
        assert!(matches!(Template::parse("{titel}"), Err(TemplateError::Unknown { name, .. }) if name == "titel"));
        assert!(matches!(Template::parse("{title"), Err(TemplateError::Brace { .. })));
        assert!(matches!(Template::parse("title}"), Err(TemplateError::Brace { .. })));
        assert!(matches!(Template::parse("  "), Err(TemplateError::Empty)));
    }

    mod properties {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #![proptest_config(crate::parse::tests::cases(64))]

            #[test]
            fn whatever_the_parts_the_post_fits_and_ends_with_the_link(
                author in "\\PC{0,40}",
                comment in "(\\PC|https://example\\.com/[a-z]{0,40} |[@#]){0,120}",
                title in "(\\PC|https://example\\.com/[a-z]{0,40} ){0,120}",
                characters in 60_usize..200,
            ) {
                let limit = Limit { characters, url: 23 };
                let parts = Parts { title, link: LINK.into(), author, content: comment, ..Parts::default() };
                match Template::parse(HATEBU).unwrap().render(&parts, limit) {
                    Ok(text) => {
                        prop_assert!(count(&text, limit) <= characters);
                        prop_assert!(text.ends_with(LINK));
                        prop_assert!(!text.contains("undefined"));
                    }
                    // Only an author can be too long: it is not shortened.
                    Err(Error::TooLong { .. }) => prop_assert!(parts.author.graphemes(true).count() > 10),
                }
            }

            #[test]
            fn shortening_never_lengthens(text in "\\PC{0,100}", room in 0_usize..60) {
                let short = shorten(&text, room, Limit::MASTODON);
                prop_assert!(count(&short, Limit::MASTODON) <= room);
            }
        }
    }
}
