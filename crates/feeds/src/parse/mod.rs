//! A feed document to entries: Atom, RSS 1.0 (RDF), RSS 0.9x/2.0 and JSON Feed, found by content, read in one pass.
//!
//! Promise: every entry that has an id or a link is read, in the document's order, with plain text of limited length.
//! A broken date costs only that date, and a broken entry only that entry. Tags that do not match cost nothing. A document
//! that ends too early gives the entries before its end and says so ([`Feed::truncated`]). Time and memory are linear in the
//! size of the document.
//!
//! Refused with an [`Error`]: a document type declaration with declarations of its own (and with it entities that the document defines), an unknown
//! encoding, JSON that ends too early, nesting deeper than [`MAX_DEPTH`], and anything that is not a feed.
//!
//! | | id | title | link | date | author | content |
//! |---|---|---|---|---|---|---|
//! | Atom | `id` | `title` | `link[rel=alternate]` | `published`, `updated` | `author/name`, `dc:creator` | `content`, `summary` |
//! | RDF, RSS | `rdf:about`, `guid` | `title` | `link` | `dc:date`, `pubDate` | `dc:creator`, `author` | `content:encoded`, `description` |
//! | JSON Feed | `id` | `title` | `url`, `external_url` | `date_published`, `date_modified` | `authors`, `author` | `content_text`, `content_html`, `summary` |
//!
//! Categories are `category`, `dc:subject` and `tags`; the enclosure is the first `enclosure`, `link[rel=enclosure]`, `media:content` or attachment.
//!
//! Without an id the link is the id. Without either the entry is skipped, with a [`Problem`]. Feeds of the list are of all kinds, so for them more is
//! done: an entry without id and link has a digest of its texts for an id, different entries of RSS with the same id have their links or such digests
//! for ids, and RSS's titles may be HTML.
//!
//! This file walks through the elements. `vocabulary.rs` knows what each of them means, and `item.rs` makes an entry of them.

mod content;
mod date;
mod encoding;
mod escape;
pub(crate) mod hatena;
pub mod html;
mod item;
mod json;
mod problem;
mod vocabulary;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use quick_xml::{
    NsReader,
    events::{BytesStart, Event},
};
use url::Url;

use crate::entry::{Entry, EntryId, Source, prefix};

pub use content::Content;
use content::Raw;
use item::{Context, Draft};
use problem::Problems;
pub use problem::{Error, Problem};
use vocabulary::{Field, Meaning, Ns, Place, Tag};

/// Deepest nesting of elements.
const MAX_DEPTH: usize = 256;
/// Longest texts, in bytes. A longer text is cut. A longer link is left out, because half a link is a wrong one.
const MAX_TITLE: usize = 2_000;
const MAX_CONTENT: usize = 16_000;
const MAX_AUTHOR: usize = 500;
const MAX_LINK: usize = 4_000;
/// How much markup is read for one text: feeds contain whole articles, and a post has 500 characters.
const MAX_MARKUP: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Atom,
    Rdf,
    Rss,
    Json,
}

impl Format {
    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Atom => "Atom",
            Format::Rdf => "RSS 1.0",
            Format::Rss => "RSS",
            Format::Json => "JSON Feed",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Feed {
    pub format: Format,
    /// The site that the feed belongs to. Relative links are relative to it.
    pub site: Option<Url>,
    /// In the order of the document, which is newest first by custom.
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
    /// The document ended too early: entries that it does not show may still be in the feed.
    pub truncated: bool,
    /// How often the feed says that it is updated (`sy:updatePeriod`, `ttl`).
    pub period: Option<Duration>,
}

/// Reads a document. `charset` is from the Content-Type, `url` is where the document was fetched from.
pub fn parse(source: Source, body: &[u8], charset: Option<&str>, url: &Url) -> Result<Feed, Error> {
    let text = encoding::decode(body, charset)?;
    if text.trim_start().starts_with('{') {
        return json::read(source, &text, url);
    }
    let mut parser = Parser::new(source, url);
    parser.run(&text)?;
    parser.finish()
}

/// A text that is being collected.
struct Capture {
    field: Field,
    raw: Raw,
    /// How many elements are open around it.
    depth: usize,
}

/// An element that is open.
struct Open {
    tag: Tag,
    name: u64,
}

/// How often the feed says that it is updated.
#[derive(Default)]
struct Updates {
    period: Option<Duration>,
    frequency: Option<u32>,
    ttl: Option<Duration>,
}

struct Parser<'u> {
    source: Source,
    url: &'u Url,
    format: Option<Format>,
    site: Option<Url>,
    /// `xml:base` of the feed.
    base: Option<Url>,
    /// The open elements, outermost first.
    stack: Vec<Open>,
    /// The entry that is being read.
    draft: Option<Draft>,
    capture: Option<Capture>,
    /// The number of the entry in the document, from 1 on.
    position: usize,
    entries: Vec<Entry>,
    ids: HashSet<EntryId>,
    /// Entries whose id an earlier one has, and their places among the others.
    doubles: Vec<(usize, Entry)>,
    problems: Problems,
    truncated: bool,
    updates: Updates,
}

impl<'u> Parser<'u> {
    fn new(source: Source, url: &'u Url) -> Self {
        Parser {
            source,
            url,
            format: None,
            site: None,
            base: None,
            stack: Vec::new(),
            draft: None,
            capture: None,
            position: 0,
            entries: Vec::new(),
            ids: HashSet::new(),
            doubles: Vec::new(),
            problems: Problems::default(),
            truncated: false,
            updates: Updates::default(),
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Error> {
        let text = escape::hide(text.trim_start());
        // Faster than the standard library, above all where few characters are ASCII.
        let text = encoding_rs::UTF_8.decode_without_bom_handling(&text).0;
        let mut reader = NsReader::from_str(&text);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        loop {
            match reader.read_event() {
                Ok(Event::Start(start)) => {
                    let ns = Ns::from(&reader.resolver().resolve_element(start.name()).0);
                    self.open(ns, &start)?;
                }
                Ok(Event::Empty(start)) => {
                    let ns = Ns::from(&reader.resolver().resolve_element(start.name()).0);
                    self.open(ns, &start)?;
                    self.close(name_of(start.name().as_ref()));
                }
                Ok(Event::End(end)) => self.close(name_of(end.name().as_ref())),
                Ok(Event::Text(text)) if self.capture.is_some() => self.text(&text.xml10_content()),
                Ok(Event::CData(text)) if self.capture.is_some() => self.text(&text.xml10_content()),
                // What only looks like the beginning of CDATA, as in a comment, leaves the references after it as they are.
                Ok(Event::GeneralRef(name)) if self.capture.is_some() => {
                    self.text(&format!("{}{};", escape::AMPERSAND, name.xml10_content()));
                }
                // Declarations of its own could define entities that grow without bound. Others name a file, which nobody reads.
                Ok(Event::DocType(declaration)) if declaration.xml10_content().contains('[') => return Err(Error::Dtd),
                Ok(Event::Eof) => {
                    if !self.stack.is_empty() {
                        self.end_early(reader.buffer_position());
                    }
                    return Ok(());
                }
                Ok(_) => {}
                Err(_) => {
                    self.end_early(reader.buffer_position());
                    return Ok(());
                }
            }
        }
    }

    fn end_early(&mut self, at: u64) {
        self.truncated = true;
        self.problems.push(Problem::Truncated { at });
    }

    fn open(&mut self, ns: Ns, start: &BytesStart<'_>) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        let local = start.local_name();
        let local: &str = local.as_ref();
        let parent = self.stack.last().map(|open| open.tag);
        let tag = if let Some(Capture { raw, .. }) = &mut self.capture {
            raw.push_tag(local, MAX_MARKUP);
            Tag::Other
        } else if parent == Some(Tag::Skipped) {
            Tag::Skipped
        } else {
            let base = matches!(parent, None | Some(Tag::Root | Tag::Channel))
                .then(|| escape::attribute(start, |key| key == "xml:base"))
                .flatten();
            let place = Place {
                format: self.format,
                parent,
                in_item: self.draft.is_some(),
                listed: self.source == Source::Listed,
            };
            let tag = self.begin(Meaning::of(place, ns, local, start));
            if let Some(base) = base {
                self.set_base(tag, &base);
            }
            tag
        };
        self.stack.push(Open { tag, name: name_of(start.name().as_ref()) });
        Ok(())
    }

    fn begin(&mut self, meaning: Meaning) -> Tag {
        match meaning {
            Meaning::Root(format) => {
                self.format = Some(format);
                return Tag::Root;
            }
            Meaning::Channel => return Tag::Channel,
            Meaning::Item { about } => {
                self.position += 1;
                self.draft = Some(Draft::new(about));
                return Tag::Item;
            }
            Meaning::Author => return Tag::Author,
            Meaning::Skipped => return Tag::Skipped,
            Meaning::Text(field, markup) => {
                self.capture = Some(Capture { field, raw: Raw::new(markup), depth: self.stack.len() });
            }
            Meaning::ItemLink { href, alternate } => {
                if let Some(draft) = &mut self.draft {
                    draft.set_link(href, alternate);
                }
            }
            Meaning::Category(category) => {
                if let Some(draft) = &mut self.draft {
                    draft.add_category(&category);
                }
            }
            Meaning::Enclosure { href } => {
                if let Some(draft) = &mut self.draft {
                    draft.set_enclosure(href);
                }
            }
            Meaning::SiteLink { href } => self.set_site(&href),
            Meaning::Nothing => {}
        }
        Tag::Other
    }

    fn text(&mut self, text: &str) {
        if let Some(Capture { raw, .. }) = &mut self.capture {
            let room = MAX_MARKUP.saturating_sub(raw.len());
            raw.push_text(prefix(text, room));
        }
    }

    /// Closes the innermost open element with that name, and all elements that were left open in it.
    /// A closing tag without an opening one is ignored.
    fn close(&mut self, name: u64) {
        let Some(at) = self.stack.iter().rposition(|open| open.name == name) else { return };
        // A stray closing tag within a text closes nothing outside of the text, unless the entry itself ends.
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
            } else if let Some(Capture { raw, .. }) = &mut self.capture {
                raw.push_closing_tag(MAX_MARKUP);
            }
            if open.tag == Tag::Item
                && let Some(draft) = self.draft.take()
            {
                self.item(draft);
            }
        }
    }

    fn captured(&mut self, Capture { field, raw, .. }: Capture) {
        let text = || raw.resolved();
        match field {
            Field::SiteLink => {
                let href = text().into_owned();
                self.set_site(&href);
            }
            Field::UpdatePeriod => {
                self.updates.period = match text().trim() {
                    "hourly" => Some(Duration::from_secs(3_600)),
                    "daily" => Some(Duration::from_secs(86_400)),
                    "weekly" => Some(Duration::from_secs(7 * 86_400)),
                    _ => None,
                };
            }
            Field::UpdateFrequency => self.updates.frequency = text().trim().parse().ok().filter(|n| *n > 0),
            Field::TtlMinutes => {
                let minutes = text().trim().parse::<u32>().ok();
                self.updates.ttl = minutes.map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
            }
            _ => {
                if let Some(draft) = &mut self.draft {
                    draft.set(field, raw);
                }
            }
        }
    }

    fn item(&mut self, draft: Draft) {
        let position = self.position;
        let Some(id) = draft.id(self.source, position, &mut self.problems) else { return };
        let is_double = !self.ids.insert(id.clone());
        // Entries of Atom with the same id are versions of one entry.
        let is_version = matches!(self.format, Some(Format::Atom | Format::Json));
        if is_double && (is_version || self.source != Source::Listed) {
            return self.problems.push(Problem::Repeated { position });
        }
        let of_feed = self.base.as_ref().or(self.site.as_ref()).unwrap_or(self.url);
        let own = draft.base.clone();
        let context = Context { source: self.source, base: own.as_ref().unwrap_or(of_feed) };
        let entry = draft.into_entry(id, context, position, &mut self.problems);
        if is_double {
            self.doubles.push((self.entries.len(), entry));
        } else {
            self.entries.push(entry);
        }
    }

    /// Some sites give every entry the same id, or no id and the same link. If all links of such entries differ, the links are their ids; if not,
    /// digests of what they say are. What says the same is one entry.
    fn tell_doubles_apart(&mut self) {
        let doubles = std::mem::take(&mut self.doubles);
        let shared: HashSet<EntryId> = doubles.iter().map(|(_, double)| double.id.clone()).collect();
        let mut links: HashMap<EntryId, (usize, HashSet<String>)> = HashMap::new();
        let all = self.entries.iter().chain(doubles.iter().map(|(_, double)| double));
        for entry in all.filter(|entry| shared.contains(&entry.id)) {
            let (entries, links) = links.entry(entry.id.clone()).or_default();
            *entries += 1;
            links.extend(Some(entry.link.clone()).filter(|link| !link.is_empty()));
        }
        let by_link = |id: &EntryId| links.get(id).is_some_and(|(entries, links)| links.len() == *entries);
        for entry in self.entries.iter_mut().filter(|entry| shared.contains(&entry.id)) {
            let apart = item::id_apart(entry, by_link(&entry.id));
            if let Some(apart) = apart.filter(|apart| self.ids.insert(apart.clone())) {
                entry.id = apart;
            }
        }
        let mut added = 0;
        for (at, mut double) in doubles {
            let apart = item::id_apart(&double, by_link(&double.id));
            match apart.filter(|apart| self.ids.insert(apart.clone())) {
                Some(apart) => {
                    double.id = apart;
                    self.entries.insert(at + added, double);
                    added += 1;
                }
                None => self.problems.push(Problem::Repeated { position: at + added + 1 }),
            }
        }
    }

    /// `xml:base` of the feed or of an entry: what relative links are relative to.
    fn set_base(&mut self, tag: Tag, base: &str) {
        let base = self.base.as_ref().unwrap_or(self.url).join(base.trim()).ok().filter(is_web);
        match (tag, &mut self.draft) {
            (Tag::Item, Some(draft)) => draft.base = base,
            (Tag::Root | Tag::Channel, _) => self.base = base.or(self.base.take()),
            _ => {}
        }
    }

    fn set_site(&mut self, href: &str) {
        if self.site.is_none() {
            self.site = self.url.join(href.trim()).ok().filter(is_web);
        }
    }

    fn finish(mut self) -> Result<Feed, Error> {
        if !self.doubles.is_empty() {
            self.tell_doubles_apart();
        }
        let format = self.format.ok_or(Error::NotAFeed)?;
        let mut problems = self.problems.into_vec();
        // A feed may be empty, but not because none of its entries could be read.
        if self.entries.is_empty()
            && let Some(problem) = problems.pop()
        {
            return Err(Error::NothingReadable(problem));
        }
        let Updates { period, frequency, ttl } = self.updates;
        Ok(Feed {
            format,
            site: self.site,
            entries: self.entries,
            problems,
            truncated: self.truncated,
            period: ttl.or_else(|| period.map(|period| period / frequency.unwrap_or(1))),
        })
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// A name as a number. Names are only compared, and this needs no allocation per element.
fn name_of(name: &str) -> u64 {
    let (eights, rest) = name.as_bytes().as_chunks();
    let rest = rest.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let numbers = eights.iter().map(|eight| u64::from_le_bytes(*eight)).chain([rest]);
    numbers.fold(name.len() as u64, |hash, number| (hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
pub(crate) mod tests;
