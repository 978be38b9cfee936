//! What the elements of Atom, RSS 1.0 (RDF) and RSS 0.9x/2.0 mean. Feeds mix the three, so their names are read in all of them.

use quick_xml::{
    events::BytesStart,
    name::{Namespace, ResolveResult},
};

use super::{Format, content::Markup, escape::attribute};

/// The namespaces that matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ns {
    /// Atom, RSS in any version, or no namespace at all.
    Feed,
    Rdf,
    Dc,
    Content,
    Sy,
    Media,
    Other,
}

impl From<&ResolveResult<'_>> for Ns {
    fn from(resolved: &ResolveResult<'_>) -> Self {
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
                "http://search.yahoo.com/mrss/" | "http://search.yahoo.com/mrss" => Ns::Media,
                _ => Ns::Other,
            },
            // A prefix that was never declared has its customary meaning.
            ResolveResult::Unknown(prefix) => match prefix.as_str() {
                "atom" | "rss" => Ns::Feed,
                "rdf" => Ns::Rdf,
                "dc" | "dcterms" => Ns::Dc,
                "content" => Ns::Content,
                "sy" => Ns::Sy,
                "media" => Ns::Media,
                _ => Ns::Other,
            },
        }
    }
}

/// A text that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Id,
    Guid,
    /// A guid that says of itself that it is no link.
    OpaqueGuid,
    Title,
    Link,
    Date,
    Updated,
    Creator,
    Author,
    Content,
    Summary,
    Category,
    SiteLink,
    UpdatePeriod,
    UpdateFrequency,
    TtlMinutes,
}

/// What an open element is to the elements inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    Root,
    Channel,
    Item,
    Author,
    /// An element whose content belongs to something else, such as Atom's `source`.
    Skipped,
    Other,
}

/// Where an element is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// `None` until the root element was read.
    pub(super) format: Option<Format>,
    pub(super) parent: Option<Tag>,
    pub(super) in_item: bool,
    /// Whether the feed is one of the list.
    pub(super) listed: bool,
}

/// What an element means at its place.
#[derive(Debug)]
pub(super) enum Meaning {
    Root(Format),
    Channel,
    Item {
        about: Option<String>,
    },
    Author,
    Skipped,
    /// Its text is wanted.
    Text(Field, Markup),
    /// The link of the entry, or another link of it.
    ItemLink {
        href: String,
        alternate: bool,
    },
    Category(String),
    Enclosure {
        href: String,
    },
    SiteLink {
        href: String,
    },
    Nothing,
}

impl Meaning {
    pub(super) fn of(place: Place, ns: Ns, local: &str, start: &BytesStart<'_>) -> Self {
        let Some(format) = place.format else {
            return match (ns, local) {
                (Ns::Feed, "feed") => Meaning::Root(Format::Atom),
                (Ns::Rdf, "RDF") => Meaning::Root(Format::Rdf),
                (Ns::Feed, "rss") => Meaning::Root(Format::Rss),
                _ => Meaning::Nothing,
            };
        };
        match (ns, local) {
            (Ns::Feed, "channel") => Meaning::Channel,
            (Ns::Feed, "entry" | "item") if !place.in_item => {
                Meaning::Item { about: attribute(start, |key| matches!(key, "rdf:about" | "about")) }
            }
            _ if place.in_item => in_item(format, place, ns, local, start),
            _ => in_feed(place.parent, ns, local, start),
        }
    }
}

fn in_feed(parent: Option<Tag>, ns: Ns, local: &str, start: &BytesStart<'_>) -> Meaning {
    if !matches!(parent, Some(Tag::Root | Tag::Channel)) {
        return Meaning::Nothing;
    }
    match (ns, local) {
        (Ns::Feed, "link") => match attribute(start, |key| key == "href") {
            Some(href) if is_alternate(start) => Meaning::SiteLink { href },
            Some(_) => Meaning::Nothing,
            None => Meaning::Text(Field::SiteLink, Markup::None),
        },
        (Ns::Sy, "updatePeriod") => Meaning::Text(Field::UpdatePeriod, Markup::None),
        (Ns::Sy, "updateFrequency") => Meaning::Text(Field::UpdateFrequency, Markup::None),
        (Ns::Feed, "ttl") => Meaning::Text(Field::TtlMinutes, Markup::None),
        _ => Meaning::Nothing,
    }
}

fn in_item(format: Format, place: Place, ns: Ns, local: &str, start: &BytesStart<'_>) -> Meaning {
    let Place { parent, listed, .. } = place;
    if parent == Some(Tag::Author) && (ns, local) == (Ns::Feed, "name") {
        return Meaning::Text(Field::Author, Markup::None);
    }
    if parent != Some(Tag::Item) {
        return Meaning::Nothing;
    }
    let plain = |field| Meaning::Text(field, Markup::None);
    // Atom says which kind of text an element has.
    let typed = |field| match format {
        Format::Atom => Meaning::Text(field, Markup::of_atom(start)),
        Format::Rdf | Format::Rss | Format::Json => Meaning::Text(field, Markup::None),
    };
    let url = |name: &str| attribute(start, |key| key == name).filter(|url| !url.trim().is_empty());
    match (ns, local) {
        (Ns::Feed, "source") => Meaning::Skipped,
        (Ns::Feed, "author") if format == Format::Atom => Meaning::Author,
        (Ns::Feed, "author") => plain(Field::Author),
        (Ns::Feed, "id") => plain(Field::Id),
        (Ns::Feed, "guid") => match attribute(start, |key| key == "isPermaLink").as_deref() {
            Some("false") if listed => plain(Field::OpaqueGuid),
            _ => plain(Field::Guid),
        },
        // Many a site writes HTML into RSS's titles, which are text by their specification, and readers show it as such.
        (Ns::Feed, "title") if listed && format != Format::Atom => Meaning::Text(Field::Title, Markup::Html),
        (Ns::Feed, "title") => typed(Field::Title),
        (Ns::Feed, "category") => match url("label").or_else(|| url("term")) {
            Some(category) => Meaning::Category(category),
            None => plain(Field::Category),
        },
        (Ns::Dc, "subject") => plain(Field::Category),
        (Ns::Feed, "enclosure") => url("url").map_or(Meaning::Nothing, |href| Meaning::Enclosure { href }),
        (Ns::Media, "content") => url("url").map_or(Meaning::Nothing, |href| Meaning::Enclosure { href }),
        (Ns::Feed, "link") => match attribute(start, |key| key == "href") {
            Some(href) if rel(start).is_some_and(|rel| rel.eq_ignore_ascii_case("enclosure")) => {
                Meaning::Enclosure { href }
            }
            Some(href) => Meaning::ItemLink { href, alternate: is_alternate(start) },
            None => plain(Field::Link),
        },
        (Ns::Feed, "published" | "pubDate" | "issued") | (Ns::Dc, "date") => plain(Field::Date),
        (Ns::Feed, "updated" | "modified") => plain(Field::Updated),
        (Ns::Dc, "creator") => plain(Field::Creator),
        (Ns::Content, "encoded") => Meaning::Text(Field::Content, Markup::Html),
        (Ns::Feed, "content") => typed(Field::Content),
        (Ns::Feed, "summary") => typed(Field::Summary),
        (Ns::Feed, "description") => Meaning::Text(Field::Summary, Markup::Html),
        _ => Meaning::Nothing,
    }
}

/// Whether a link leads to the page itself. Atom's links say so; one that says nothing does, too.
fn is_alternate(start: &BytesStart<'_>) -> bool {
    rel(start).is_none_or(|rel| rel.eq_ignore_ascii_case("alternate"))
}

fn rel(start: &BytesStart<'_>) -> Option<String> {
    attribute(start, |key| key == "rel")
}
