//! One entry: first a draft of what its elements say, then an [`Entry`] with plain text of limited length.

use jiff::Timestamp;
use url::Url;

use super::{
    MAX_AUTHOR, MAX_LINK, MAX_TITLE,
    content::{Content, Raw},
    date, is_web,
    problem::{Problem, Problems},
    vocabulary::Field,
};
use crate::entry::{Entry, EntryId, Source, prefix};

/// How much of an unreadable date is shown, in bytes.
const SHOWN_OF_DATE: usize = 40;

/// What the elements of an entry say.
#[derive(Default)]
pub(super) struct Draft {
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
        let text = || raw.resolved().into_owned();
        let filled = || Some(text()).filter(|text| !text.trim().is_empty());
        match field {
            // These two are resolved only when somebody wants them.
            Field::Content => self.content = Some(raw),
            Field::Summary => self.summary = Some(raw),
            Field::Id => self.id = self.id.take().or_else(|| Some(text())),
            Field::Guid => self.guid = self.guid.take().or_else(|| Some(text())),
            Field::Title if self.title.is_empty() => self.title = raw.plain(),
            Field::Link => self.link = self.link.take().or_else(filled),
            Field::Date => self.date = self.date.take().or_else(filled),
            Field::Updated => self.updated = self.updated.take().or_else(filled),
            Field::Creator if self.creator.is_empty() => self.creator = raw.plain(),
            Field::Author if self.author.is_empty() => self.author = raw.plain(),
            _ => {}
        }
    }

    pub(super) fn set_link(&mut self, href: String, alternate: bool) {
        let slot = if alternate { &mut self.link } else { &mut self.other_link };
        slot.get_or_insert(href);
    }

    /// The first candidate for an id that is more than white space.
    pub(super) fn id(&self, position: usize, problems: &mut Problems) -> Option<EntryId> {
        let candidates = [&self.id, &self.about, &self.guid, &self.link, &self.other_link];
        let mut blank = false;
        let id = candidates.into_iter().flatten().find_map(|candidate| {
            let id = EntryId::from_feed(candidate);
            blank |= id.is_none();
            id
        });
        if blank {
            problems.push(Problem::BlankId { position });
        }
        if id.is_none() {
            problems.push(Problem::NoId { position });
        }
        id
    }

    pub(super) fn into_entry(
        self,
        id: EntryId,
        context: Context<'_>,
        position: usize,
        problems: &mut Problems,
    ) -> Entry {
        let link = self.link.or(self.other_link);
        let link = absolute(context.base, link.as_deref(), self.guid.as_deref()).unwrap_or_else(|| {
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
        }
    }
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

/// A text that is cut where it is too long.
pub(super) fn cut(text: String, bytes: usize) -> String {
    if text.len() <= bytes { text } else { prefix(&text, bytes).trim_end().to_owned() }
}
