//! One entry: first a draft of what its elements say, then an [`Entry`] with plain text of limited length.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use url::Url;

use super::{
    MAX_AUTHOR, MAX_LINK, MAX_TITLE,
    content::{Content, Raw},
    date, html, is_web,
    problem::{Problem, Problems},
    vocabulary::Field,
};
use crate::entry::{Entry, EntryId, Source, digest_part, prefix};

/// Most categories of an entry, and the longest of them in bytes.
const MAX_CATEGORIES: usize = 20;
const MAX_CATEGORY: usize = 200;
/// How much of an unreadable date is shown, in bytes.
const SHOWN_OF_DATE: usize = 40;

/// What the elements of an entry say.
#[derive(Default)]
pub(super) struct Draft {
    about: Option<String>,
    id: Option<String>,
    guid: Option<String>,
    /// Whether the guid says of itself that it is no link.
    guid_is_opaque: bool,
    title: String,
    link: Option<String>,
    other_link: Option<String>,
    date: Option<String>,
    updated: Option<String>,
    creator: String,
    author: String,
    content: Option<Raw>,
    summary: Option<Raw>,
    categories: Vec<String>,
    enclosure: Option<String>,
    /// `xml:base` of the entry.
    pub(super) base: Option<Url>,
}

/// What is the same for all entries of a document.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) source: Source,
    /// What relative links are relative to.
    pub(super) base: &'a Url,
}

impl Draft {
    /// `about` is the attribute `rdf:about` of the entry's element.
    pub(super) fn new(about: Option<String>) -> Self {
        Draft { about, ..Draft::default() }
    }

    /// Takes in the text of an element. Of several with the same meaning the first counts.
    pub(super) fn set(&mut self, field: Field, raw: Raw) {
        match field {
            // These two are resolved only when somebody wants them.
            Field::Content => self.content = Some(raw),
            Field::Summary => self.summary = Some(raw),
            Field::Id => {
                self.id.get_or_insert_with(|| raw.into_resolved());
            }
            Field::Guid => {
                self.guid.get_or_insert_with(|| raw.into_resolved());
            }
            Field::OpaqueGuid => {
                self.guid_is_opaque |= self.guid.is_none();
                self.guid.get_or_insert_with(|| raw.into_resolved());
            }
            Field::Category => self.add_category(&raw.resolved()),
            Field::Title if self.title.is_empty() => self.title = raw.plain(),
            Field::Link => fill(&mut self.link, raw),
            Field::Date => fill(&mut self.date, raw),
            Field::Updated => fill(&mut self.updated, raw),
            Field::Creator if self.creator.is_empty() => self.creator = raw.plain(),
            Field::Author if self.author.is_empty() => self.author = raw.plain(),
            _ => {}
        }
    }

    pub(super) fn set_link(&mut self, href: String, alternate: bool) {
        let slot = if alternate { &mut self.link } else { &mut self.other_link };
        slot.get_or_insert(href);
    }

    pub(super) fn add_category(&mut self, category: &str) {
        let category = cut(html::one_line(category), MAX_CATEGORY);
        if !category.is_empty() && self.categories.len() < MAX_CATEGORIES && !self.categories.contains(&category) {
            self.categories.push(category);
        }
    }

    pub(super) fn set_enclosure(&mut self, href: String) {
        self.enclosure.get_or_insert(href);
    }

    /// The first candidate for an id that is more than white space.
    pub(super) fn id(&self, source: Source, position: usize, problems: &mut Problems) -> Option<EntryId> {
        let candidates = [&self.id, &self.about, &self.guid, &self.link, &self.other_link, &self.enclosure];
        let mut blank = false;
        let id = candidates.into_iter().flatten().find_map(|candidate| {
            let id = EntryId::from_feed(candidate);
            blank |= id.is_none();
            id
        });
        if blank {
            problems.push(Problem::BlankId { position });
        }
        let id = id.or_else(|| if source == Source::Listed { self.id_of_texts() } else { None });
        if id.is_none() {
            problems.push(Problem::NoId { position });
        }
        id
    }

    /// The id of an entry that has neither an id nor a link: a digest of what it says. `None` if it says nothing.
    fn id_of_texts(&self) -> Option<EntryId> {
        let raw = |raw: &Option<Raw>| raw.as_ref().map(Raw::plain).unwrap_or_default();
        let texts = [self.title.clone(), raw(&self.content), raw(&self.summary), self.date.clone().unwrap_or_default()];
        if texts[..3].iter().all(String::is_empty) {
            return None;
        }
        let mut digest = Sha256::new();
        for text in &texts {
            digest_part(&mut digest, text);
        }
        EntryId::from_feed(&format!("text:{}", hex::encode(&digest.finalize()[..16])))
    }

    pub(super) fn into_entry(
        self,
        id: EntryId,
        context: Context<'_>,
        position: usize,
        problems: &mut Problems,
    ) -> Entry {
        let link = self.link.or(self.other_link);
        let guid = self.guid.filter(|_| !self.guid_is_opaque);
        let enclosure = self.enclosure.and_then(|href| absolute(context.base, Some(&href), None));
        let link = absolute(context.base, link.as_deref(), guid.as_deref()).unwrap_or_else(|| {
            problems.push(Problem::Link { position });
            String::new()
        });
        let mut date = |text: Option<String>| date_of(text?, position, problems);
        let published = date(self.date).or_else(|| date(self.updated));
        let author = if self.creator.is_empty() { self.author } else { self.creator };
        Entry {
            id,
            title: cut(self.title, MAX_TITLE),
            link,
            published,
            author: cut(author, MAX_AUTHOR),
            content: Content::of_feed(context.source, self.content, self.summary),
            categories: self.categories,
            enclosure: enclosure.unwrap_or_default(),
        }
    }
}

/// Another id for an entry whose id others have, too: its link, or a digest of what it says.
pub(super) fn id_apart(entry: &Entry, by_link: bool) -> Option<EntryId> {
    if by_link {
        return EntryId::from_feed(&entry.link);
    }
    let mut digest = Sha256::new();
    let date = entry.published.map(|at| at.to_string()).unwrap_or_default();
    for text in [entry.id.as_str(), &entry.link, &entry.title, &date] {
        digest_part(&mut digest, text);
    }
    // Without a title, what it says is all that tells it apart.
    if entry.title.is_empty() {
        digest_part(&mut digest, &entry.content.text());
    }
    EntryId::from_feed(&format!("text:{}", hex::encode(&digest.finalize()[..16])))
}

fn date_of(text: String, position: usize, problems: &mut Problems) -> Option<Timestamp> {
    let at = date::parse(&text);
    if at.is_none() {
        problems.push(Problem::Date { position, text: prefix(text.trim(), SHOWN_OF_DATE).to_owned() });
    }
    at
}

/// The link as an absolute URL of the web. Without a link, a guid that is a URL is used; without either, the result is empty.
/// `None` if there is a link that cannot be used.
fn absolute(base: &Url, link: Option<&str>, guid: Option<&str>) -> Option<String> {
    let url = match link.map(str::trim).filter(|link| !link.is_empty()) {
        Some(link) => base.join(link).ok()?,
        None => match guid.and_then(|guid| Url::parse(guid.trim()).ok()) {
            Some(url) => url,
            None => return Some(String::new()),
        },
    };
    Some(url).filter(is_web).map(String::from).filter(|link| link.len() <= MAX_LINK)
}

/// Takes a text in, if there is none so far and it is more than white space.
fn fill(slot: &mut Option<String>, raw: Raw) {
    if slot.is_none() {
        *slot = Some(raw.into_resolved()).filter(|text| !text.trim().is_empty());
    }
}

/// A text that is cut where it is too long.
pub(super) fn cut(text: String, bytes: usize) -> String {
    if text.len() <= bytes { text } else { prefix(&text, bytes).trim_end().to_owned() }
}
