//! A feed document to entries: Atom, RSS 1.0 (RDF), and RSS 0.9x/2.0, read in one pass.
//!
//! Promise: every entry that can be told apart from the others comes out, in the document's order, with
//! plain bounded text in it. A broken date costs that date; a broken entry costs that entry; tags that do
//! not match cost nothing; a document that ends too early gives the entries before its end and says so
//! ([`Feed::truncated`]). Time and memory are linear in the document.
//!
//! Refused, with an [`Error`]: a document type declaration (and with it every entity of the document's
//! own), an encoding nobody knows, nesting beyond [`MAX_DEPTH`], and anything that is not a feed.
//!
//! | | id | title | link | date | author | content |
//! |---|---|---|---|---|---|---|
//! | Atom | `id` | `title` | `link[rel=alternate]` | `published`, `updated` | `author/name`, `dc:creator` | `content`, `summary` |
//! | RDF, RSS | `rdf:about`, `guid` | `title` | `link` | `dc:date`, `pubDate` | `dc:creator`, `author` | `content:encoded`, `description` |
//!
//! Without an id the link is the id; without either the entry is skipped, with a [`Problem`].

mod content;
mod date;
mod encoding;

use std::{borrow::Cow, collections::HashSet, time::Duration};

use quick_xml::{
    NsReader,
    events::{BytesStart, Event},
    name::{Namespace, ResolveResult},
};
use url::Url;

use crate::{
    entry::{Entry, EntryId, Source, prefix},
    html,
};

pub use content::Content;
use content::Raw;

/// Deepest nesting of elements.
pub const MAX_DEPTH: usize = 256;
/// Longest texts, in bytes: what is longer is cut (a link: dropped, for half a link is a wrong one).
pub const MAX_TITLE: usize = 2_000;
pub const MAX_CONTENT: usize = 16_000;
pub const MAX_AUTHOR: usize = 500;
pub const MAX_LINK: usize = 4_000;
/// How much markup is looked at for a text: feeds carry whole articles, a post carries 500 characters.
const MAX_MARKUP: usize = 256 * 1024;
/// Stands for `&` while a document is read. quick-xml makes an event of every reference, and a feed of escaped HTML has thousands:
/// resolving them in one go, text by text, takes a third of the time. XML forbids this character, so it cannot mean
/// anything else.
const AMPERSAND: char = '\u{1}';
/// Most problems that are reported one by one.
const MAX_PROBLEMS: usize = 20;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the document has a DTD, which is refused")]
    Dtd,
    #[error("the document is in the unknown encoding {name:?}")]
    Encoding { name: String },
    #[error("elements are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("the document is not a feed: no feed, RDF or rss element in it")]
    NotAFeed,
    #[error("no entry of the document could be read: {0}")]
    NothingReadable(Problem),
}

/// What was wrong with a part of a document that could be read otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("entry {position} has no id that is more than white space, and no link: skipped")]
    NoId { position: usize },
    #[error("entry {position} has an id of white space only: the next candidate was taken")]
    BlankId { position: usize },
    #[error("entry {position} repeats the id of an earlier one: skipped")]
    Repeated { position: usize },
    #[error("entry {position} has the unreadable date {text:?}")]
    Date { position: usize, text: String },
    #[error("entry {position} has an unusable link: left out")]
    Link { position: usize },
    #[error("the document ends too early or is not XML from byte {at} on")]
    Truncated { at: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Atom,
    Rdf,
    Rss,
}

#[derive(Debug, Clone)]
pub struct Feed {
    pub format: Format,
    /// The site that the feed is of, against which relative links are resolved.
    pub site: Option<Url>,
    /// In the order of the document, which is newest first by custom.
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
    /// The document ended too early: what it does not show may still be in the feed.
    pub truncated: bool,
    /// How often the feed itself says that it is updated (`sy:updatePeriod`, `ttl`).
    pub period: Option<Duration>,
}

/// Reads a document. `charset` is the Content-Type's, `url` where it was read from.
pub fn parse(source: Source, body: &[u8], charset: Option<&str>, url: &Url) -> Result<Feed, Error> {
    let text = encoding::decode(body, charset)?;
    let mut parser = Parser::new(source, url);
    parser.run(&text)?;
    parser.finish()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ns {
    /// Atom, RSS in any version, or no namespace at all.
    Feed,
    Rdf,
    Dc,
    Content,
    Sy,
    Other,
}

fn namespace(resolved: &ResolveResult<'_>) -> Ns {
    match resolved {
        ResolveResult::Unbound => Ns::Feed,
        ResolveResult::Bound(Namespace(uri)) => match uri.trim() {
            "http://www.w3.org/2005/Atom"
            | "http://purl.org/atom/ns#"
            | "http://purl.org/rss/1.0/"
            | "http://purl.org/rss/2.0/"
            | "http://backend.userland.com/rss2"
            | "http://my.netscape.com/rdf/simple/0.9/"
            | "http://channel.netscape.com/rdf/simple/0.9/" => Ns::Feed,
            "http://www.w3.org/1999/02/22-rdf-syntax-ns#" => Ns::Rdf,
            "http://purl.org/dc/elements/1.1/" | "http://purl.org/dc/terms/" => Ns::Dc,
            "http://purl.org/rss/1.0/modules/content/" => Ns::Content,
            "http://purl.org/rss/1.0/modules/syndication/" => Ns::Sy,
            _ => Ns::Other,
        },
        // A prefix that was never declared means what everybody means by it.
        ResolveResult::Unknown(prefix) => match prefix.as_str() {
            "atom" | "rss" => Ns::Feed,
            "rdf" => Ns::Rdf,
            "dc" | "dcterms" => Ns::Dc,
            "content" => Ns::Content,
            "sy" => Ns::Sy,
            _ => Ns::Other,
        },
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Id,
    Guid,
    Title,
    Link,
    Date,
    Updated,
    Creator,
    Author,
    Content,
    Summary,
    SiteLink,
    UpdatePeriod,
    UpdateFrequency,
    TtlMinutes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Markup {
    /// Plain text.
    None,
    /// The text is HTML.
    Html,
    /// The elements inside are the HTML; their text is text.
    Xhtml,
}

struct Capture {
    field: Field,
    raw: Raw,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tag {
    Root,
    Channel,
    Item,
    Author,
    /// An element whose inside is not ours to read, as Atom's `source`.
    Skipped,
    Other,
}

struct Open {
    tag: Tag,
    name: u64,
}

#[derive(Default)]
struct Draft {
    about: Option<String>,
    id: Option<String>,
    guid: Option<String>,
    title: String,
    link: Option<String>,
    other_link: Option<String>,
    date: Option<String>,
    updated: Option<String>,
    creator: String,
    author: String,
    content: Option<Raw>,
    summary: Option<Raw>,
}

struct Parser<'u> {
    source: Source,
    url: &'u Url,
    format: Option<Format>,
    site: Option<Url>,
    stack: Vec<Open>,
    draft: Option<Draft>,
    capture: Option<Capture>,
    position: usize,
    entries: Vec<Entry>,
    seen: HashSet<EntryId>,
    problems: Vec<Problem>,
    truncated: bool,
    update_period: Option<Duration>,
    update_frequency: Option<u32>,
    ttl: Option<Duration>,
}

impl<'u> Parser<'u> {
    fn new(source: Source, url: &'u Url) -> Self {
        Parser {
            source,
            url,
            format: None,
            site: None,
            stack: Vec::new(),
            draft: None,
            capture: None,
            position: 0,
            entries: Vec::new(),
            seen: HashSet::new(),
            problems: Vec::new(),
            truncated: false,
            update_period: None,
            update_frequency: None,
            ttl: None,
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Error> {
        let text = without_ampersands(text.trim_start());
        // Quicker than the standard library, above all where few characters are ASCII.
        let text = encoding_rs::UTF_8.decode_without_bom_handling(&text).0;
        let mut reader = NsReader::from_str(&text);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        loop {
            let event = match reader.read_event() {
                Ok(event) => event,
                Err(_) => {
                    self.end_early(reader.buffer_position());
                    return Ok(());
                }
            };
            match event {
                Event::Start(start) => {
                    let ns = namespace(&reader.resolver().resolve_element(start.name()).0);
                    self.open(ns, &start)?;
                }
                Event::Empty(start) => {
                    let ns = namespace(&reader.resolver().resolve_element(start.name()).0);
                    self.open(ns, &start)?;
                    self.close(name_of(start.name().as_ref()));
                }
                Event::End(end) => self.close(name_of(end.name().as_ref())),
                Event::Text(text) if self.capture.is_some() => self.text(&text.xml10_content()),
                Event::CData(text) if self.capture.is_some() => {
                    self.text(&text.xml10_content().replace(AMPERSAND, "&"));
                }
                Event::DocType(_) => return Err(Error::Dtd),
                Event::Eof => {
                    if !self.stack.is_empty() {
                        self.end_early(reader.buffer_position());
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    fn end_early(&mut self, at: u64) {
        self.truncated = true;
        self.problem(Problem::Truncated { at });
    }

    fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn open(&mut self, ns: Ns, start: &BytesStart<'_>) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let local = start.local_name();
        let local: &str = local.as_ref();
        let tag = if let Some(Capture { raw, .. }) = &mut self.capture {
            if raw.markup != Markup::None && raw.text.len() < MAX_MARKUP {
                raw.text.push('<');
                raw.text.push_str(local);
                raw.text.push('>');
            }
            Tag::Other
        } else if self.stack.last().is_some_and(|open| open.tag == Tag::Skipped) {
            Tag::Skipped
        } else {
            self.element(ns, local, start)
        };
        self.stack.push(Open { tag, name: name_of(start.name().as_ref()) });
        Ok(())
    }

    fn element(&mut self, ns: Ns, local: &str, start: &BytesStart<'_>) -> Tag {
        match (ns, local) {
            (Ns::Feed, "feed") if self.format.is_none() => {
                self.format = Some(Format::Atom);
                Tag::Root
            }
            (Ns::Rdf, "RDF") if self.format.is_none() => {
                self.format = Some(Format::Rdf);
                Tag::Root
            }
            (Ns::Feed, "rss") if self.format.is_none() => {
                self.format = Some(Format::Rss);
                Tag::Root
            }
            _ if self.format.is_none() => Tag::Other,
            (Ns::Feed, "channel") => Tag::Channel,
            (Ns::Feed, "entry" | "item") if self.draft.is_none() => {
                self.position += 1;
                let about = attribute(start, |key| matches!(key, "rdf:about" | "about"));
                self.draft = Some(Draft { about, ..Draft::default() });
                Tag::Item
            }
            _ if self.draft.is_some() => self.element_of_item(ns, local, start),
            _ => self.element_of_feed(ns, local, start),
        }
    }

    fn element_of_feed(&mut self, ns: Ns, local: &str, start: &BytesStart<'_>) -> Tag {
        let at_feed = self.stack.last().is_some_and(|open| matches!(open.tag, Tag::Root | Tag::Channel));
        if !at_feed {
            return Tag::Other;
        }
        match (ns, local) {
            (Ns::Feed, "link") => match attribute(start, |key| key == "href") {
                Some(href) if is_alternate(start) => self.set_site(&href),
                Some(_) => {}
                None => self.begin(Field::SiteLink, Markup::None),
            },
            (Ns::Sy, "updatePeriod") => self.begin(Field::UpdatePeriod, Markup::None),
            (Ns::Sy, "updateFrequency") => self.begin(Field::UpdateFrequency, Markup::None),
            (Ns::Feed, "ttl") => self.begin(Field::TtlMinutes, Markup::None),
            _ => {}
        }
        Tag::Other
    }

    fn element_of_item(&mut self, ns: Ns, local: &str, start: &BytesStart<'_>) -> Tag {
        let parent = self.stack.last().map(|open| open.tag);
        if parent == Some(Tag::Author) {
            if (ns, local) == (Ns::Feed, "name") {
                self.begin(Field::Author, Markup::None);
            }
            return Tag::Other;
        }
        if parent != Some(Tag::Item) {
            return Tag::Other;
        }
        let atom = self.format == Some(Format::Atom);
        match (ns, local) {
            (Ns::Feed, "source") => return Tag::Skipped,
            (Ns::Feed, "author") if atom => return Tag::Author,
            (Ns::Feed, "author") => self.begin(Field::Author, Markup::None),
            (Ns::Feed, "id") => self.begin(Field::Id, Markup::None),
            (Ns::Feed, "guid") => self.begin(Field::Guid, Markup::None),
            (Ns::Feed, "title") => self.begin(Field::Title, self.markup(start, Markup::None)),
            (Ns::Feed, "link") => match attribute(start, |key| key == "href") {
                Some(href) => self.link(href, is_alternate(start)),
                None => self.begin(Field::Link, Markup::None),
            },
            (Ns::Feed, "published" | "pubDate" | "issued") | (Ns::Dc, "date") => self.begin(Field::Date, Markup::None),
            (Ns::Feed, "updated" | "modified") => self.begin(Field::Updated, Markup::None),
            (Ns::Dc, "creator") => self.begin(Field::Creator, Markup::None),
            (Ns::Content, "encoded") => self.begin(Field::Content, Markup::Html),
            (Ns::Feed, "content") => self.begin(Field::Content, self.markup(start, Markup::None)),
            (Ns::Feed, "summary") => self.begin(Field::Summary, self.markup(start, Markup::None)),
            (Ns::Feed, "description") => self.begin(Field::Summary, Markup::Html),
            _ => {}
        }
        Tag::Other
    }

    /// Atom says which kind of text a construct holds.
    fn markup(&self, start: &BytesStart<'_>, otherwise: Markup) -> Markup {
        if self.format != Some(Format::Atom) {
            return otherwise;
        }
        match attribute(start, |key| key == "type").as_deref() {
            Some("html" | "text/html") => Markup::Html,
            Some("xhtml" | "application/xhtml+xml") => Markup::Xhtml,
            _ => Markup::None,
        }
    }

    fn link(&mut self, href: String, alternate: bool) {
        if let Some(draft) = &mut self.draft {
            let slot = if alternate { &mut draft.link } else { &mut draft.other_link };
            slot.get_or_insert(href);
        }
    }

    fn set_site(&mut self, href: &str) {
        if self.site.is_none() {
            self.site = self.url.join(href.trim()).ok().filter(is_web);
        }
    }

    fn begin(&mut self, field: Field, markup: Markup) {
        self.capture = Some(Capture { field, raw: Raw { text: String::new(), markup }, depth: self.stack.len() });
    }

    fn text(&mut self, text: &str) {
        let Some(Capture { raw, .. }) = &mut self.capture else { return };
        let room = MAX_MARKUP.saturating_sub(raw.text.len());
        let text = prefix(text, room);
        if raw.markup == Markup::Xhtml {
            raw.text.push_str(&unescape(text).replace('&', "&amp;").replace('<', "&lt;"));
        } else {
            raw.text.push_str(text);
        }
    }

    /// Closes the innermost open element of that name and all that were left open in it.
    /// A closing tag without an opening one is ignored.
    fn close(&mut self, name: u64) {
        let Some(at) = self.stack.iter().rposition(|open| open.name == name) else { return };
        // Within a text, a stray closing tag closes nothing outside of it, unless the entry itself ends.
        if let Some(capture) = &self.capture
            && at < capture.depth
            && !matches!(self.stack[at].tag, Tag::Item | Tag::Channel | Tag::Root)
        {
            return;
        }
        while self.stack.len() > at {
            let Some(open) = self.stack.pop() else { return };
            if let Some(capture) = self.capture.take_if(|capture| capture.depth >= self.stack.len()) {
                self.captured(capture);
            } else if let Some(Capture { raw, .. }) = &mut self.capture
                && raw.markup != Markup::None
                && raw.text.len() < MAX_MARKUP
            {
                // The name does not matter: a break is a break, and inline elements leave no trace.
                raw.text.push_str("</span>");
            }
            if open.tag == Tag::Item
                && let Some(draft) = self.draft.take()
            {
                self.item(draft);
            }
        }
    }

    fn captured(&mut self, capture: Capture) {
        let Capture { field, raw, .. } = capture;
        match (field, &mut self.draft) {
            (Field::Content, Some(draft)) => return draft.content = Some(raw),
            (Field::Summary, Some(draft)) => return draft.summary = Some(raw),
            _ => {}
        }
        let text = || raw.resolved().into_owned();
        let filled = |text: String| Some(text).filter(|text| !text.trim().is_empty());
        match field {
            Field::SiteLink => return self.set_site(&text()),
            Field::UpdatePeriod => {
                self.update_period = match text().trim() {
                    "hourly" => Some(Duration::from_secs(3_600)),
                    "daily" => Some(Duration::from_secs(86_400)),
                    "weekly" => Some(Duration::from_secs(7 * 86_400)),
                    _ => None,
                };
                return;
            }
            Field::UpdateFrequency => return self.update_frequency = text().trim().parse().ok().filter(|n| *n > 0),
            Field::TtlMinutes => {
                return self.ttl =
                    text().trim().parse().ok().map(|minutes: u32| Duration::from_secs(u64::from(minutes) * 60));
            }
            _ => {}
        }
        let Some(draft) = &mut self.draft else { return };
        match field {
            Field::Id => draft.id = draft.id.take().or_else(|| Some(text())),
            Field::Guid => draft.guid = draft.guid.take().or_else(|| Some(text())),
            Field::Title if draft.title.is_empty() => draft.title = raw.plain(),
            Field::Link => draft.link = draft.link.take().or_else(|| filled(text())),
            Field::Date => draft.date = draft.date.take().or_else(|| filled(text())),
            Field::Updated => draft.updated = draft.updated.take().or_else(|| filled(text())),
            Field::Creator if draft.creator.is_empty() => draft.creator = raw.plain(),
            Field::Author if draft.author.is_empty() => draft.author = raw.plain(),
            _ => {}
        }
    }

    fn item(&mut self, draft: Draft) {
        let position = self.position;
        let mut blank = false;
        let id = [&draft.id, &draft.about, &draft.guid, &draft.link, &draft.other_link].into_iter().flatten().find_map(
            |candidate| {
                let id = EntryId::from_feed(candidate);
                blank |= id.is_none();
                id
            },
        );
        if blank {
            self.problem(Problem::BlankId { position });
        }
        let Some(id) = id else {
            return self.problem(Problem::NoId { position });
        };
        if !self.seen.insert(id.clone()) {
            return self.problem(Problem::Repeated { position });
        }
        let link = self.absolute(draft.link.or(draft.other_link).as_deref(), draft.guid.as_deref(), position);
        let published = self.date(draft.date, position).or_else(|| self.date(draft.updated, position));
        let author = if draft.creator.is_empty() { draft.author } else { draft.creator };
        self.entries.push(Entry {
            id,
            title: cut(draft.title, MAX_TITLE),
            link,
            published,
            author: cut(author, MAX_AUTHOR),
            content: Content::of_feed(self.source, draft.content, draft.summary),
        });
    }

    fn date(&mut self, text: Option<String>, position: usize) -> Option<jiff::Timestamp> {
        let text = text?;
        let at = date::parse(&text);
        if at.is_none() {
            let text = prefix(text.trim(), 40).to_owned();
            self.problem(Problem::Date { position, text });
        }
        at
    }

    /// The link as an absolute URL of the web, or nothing. A guid that is a URL serves if there is no link.
    fn absolute(&mut self, link: Option<&str>, guid: Option<&str>, position: usize) -> String {
        let base = self.site.as_ref().unwrap_or(self.url);
        let absolute = match link.map(str::trim).filter(|link| !link.is_empty()) {
            Some(link) => base.join(link).ok(),
            None => match guid.and_then(|guid| Url::parse(guid.trim()).ok()) {
                Some(url) => Some(url),
                None => return String::new(),
            },
        };
        match absolute.filter(is_web).map(String::from).filter(|link| link.len() <= MAX_LINK) {
            Some(link) => link,
            None => {
                self.problem(Problem::Link { position });
                String::new()
            }
        }
    }

    fn finish(mut self) -> Result<Feed, Error> {
        let format = self.format.ok_or(Error::NotAFeed)?;
        // An empty feed is a feed; one from which nothing could be read is not.
        if self.entries.is_empty()
            && let Some(problem) = self.problems.pop()
        {
            return Err(Error::NothingReadable(problem));
        }
        let period = match self.ttl {
            Some(ttl) => Some(ttl),
            None => self.update_period.map(|period| period / self.update_frequency.unwrap_or(1)),
        };
        Ok(Feed {
            format,
            site: self.site,
            entries: self.entries,
            problems: self.problems,
            truncated: self.truncated,
            period,
        })
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

fn cut(text: String, bytes: usize) -> String {
    if text.len() <= bytes { text } else { prefix(&text, bytes).trim_end().to_owned() }
}

/// Atom's links say what they are; one that does not is the page itself.
fn is_alternate(start: &BytesStart<'_>) -> bool {
    attribute(start, |key| key == "rel").is_none_or(|rel| rel.eq_ignore_ascii_case("alternate"))
}

/// The value of the first attribute whose name (with its prefix) is wanted.
fn attribute(start: &BytesStart<'_>, wanted: impl Fn(&str) -> bool) -> Option<String> {
    let mut attributes = start.html_attributes();
    let found = attributes.with_checks(false).flatten().find(|attribute| wanted(attribute.key.as_ref()))?;
    Some(unescape(&found.value).into_owned())
}

/// The document with [`AMPERSAND`] for `&`: one ASCII character for another leaves it UTF-8.
fn without_ampersands(text: &str) -> Vec<u8> {
    let replaced = |byte: &u8| match byte {
        b'&' => AMPERSAND as u8,
        1 => b' ',
        other => *other,
    };
    text.as_bytes().iter().map(replaced).collect()
}

/// A text or the value of an attribute with its references resolved. One that nobody defined stays what the document says.
fn unescape(value: &str) -> Cow<'_, str> {
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

/// Names are only compared: FNV-1a of them spares an allocation an element.
fn name_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
