//! What an entry says beyond its title.
//!
//! For most entries of a read the only question is whether they are known. So the content stays as it is in the feed, and
//! becomes text when somebody asks for it.

use std::{borrow::Cow, fmt};

use quick_xml::events::BytesStart;

use super::{
    MAX_CONTENT,
    escape::{attribute, unescape},
    hatena, html,
    item::cut,
};
use crate::entry::Source;

/// The content of an entry: when asked for, one line of plain text, cut at [`MAX_CONTENT`] bytes.
#[derive(Clone)]
pub struct Content(Form);

#[derive(Clone)]
enum Form {
    Text(String),
    /// In the order of preference. The first one that is not empty is the content.
    Feed {
        source: Source,
        candidates: [Option<Raw>; 2],
    },
}

/// What kind of text an element has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Markup {
    /// Plain text.
    None,
    /// The text is HTML.
    Html,
    /// The elements inside are the HTML, and their text is text.
    Xhtml,
}

impl Markup {
    /// What Atom's attribute `type` says.
    pub(super) fn of_atom(start: &BytesStart<'_>) -> Self {
        match attribute(start, |key| key == "type").as_deref() {
            Some("html" | "text/html") => Markup::Html,
            Some("xhtml" | "application/xhtml+xml") => Markup::Xhtml,
            _ => Markup::None,
        }
    }
}

/// A text as it is in the feed, with unresolved references.
#[derive(Clone)]
pub(super) struct Raw {
    text: String,
    markup: Markup,
}

impl Raw {
    pub(super) fn new(markup: Markup) -> Self {
        Raw { text: String::new(), markup }
    }

    /// A text that has no references to resolve.
    pub(super) fn of_text(text: &str, markup: Markup) -> Self {
        // The characters that stand for `&` and `<` in documents of XML mean nothing here.
        Raw { text: text.replace(['\u{1}', '\u{2}'], " "), markup }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn push_text(&mut self, text: &str) {
        if self.markup == Markup::Xhtml {
            self.text.push_str(&unescape(text).replace('&', "&amp;").replace('<', "&lt;"));
        } else {
            self.text.push_str(text);
        }
    }

    /// An element inside the text. It is kept where the text is markup and shorter than `most`.
    pub(super) fn push_tag(&mut self, name: &str, most: usize) {
        if self.markup != Markup::None && self.text.len() < most {
            self.text.push('<');
            self.text.push_str(name);
            self.text.push('>');
        }
    }

    /// Which element ends does not matter: here only opening tags make a break.
    pub(super) fn push_closing_tag(&mut self, most: usize) {
        if self.markup != Markup::None && self.text.len() < most {
            self.text.push_str("</span>");
        }
    }

    /// The text with its references resolved, still in its markup.
    pub(super) fn resolved(&self) -> Cow<'_, str> {
        match self.markup {
            Markup::None | Markup::Html => unescape(&self.text),
            // It was resolved while the elements were read.
            Markup::Xhtml => Cow::Borrowed(&self.text),
        }
    }

    /// The same, without a copy if there is nothing to resolve.
    pub(super) fn into_resolved(self) -> String {
        match self.resolved() {
            Cow::Owned(text) => text,
            Cow::Borrowed(_) => self.text,
        }
    }

    pub(super) fn plain(&self) -> String {
        self.plain_of(&self.resolved())
    }

    fn plain_of(&self, resolved: &str) -> String {
        match self.markup {
            Markup::None => html::one_line(resolved),
            Markup::Html | Markup::Xhtml => html::to_text(resolved),
        }
    }
}

impl Content {
    pub(super) fn of_feed(source: Source, content: Option<Raw>, summary: Option<Raw>) -> Self {
        Content(Form::Feed { source, candidates: [content, summary] })
    }

    /// The text; empty if there is none.
    pub fn text(&self) -> Cow<'_, str> {
        let (source, [content, summary]) = match &self.0 {
            Form::Text(text) => return Cow::Borrowed(text),
            Form::Feed { source, candidates } => (*source, candidates),
        };
        let content = content.as_ref().map(|raw| {
            let resolved = raw.resolved();
            let comment = if source == Source::Hatebu { hatena::comment(&resolved) } else { None };
            comment.unwrap_or_else(|| raw.plain_of(&resolved))
        });
        let content = content.filter(|text| !text.is_empty()).or_else(|| summary.as_ref().map(Raw::plain));
        Cow::Owned(cut(content.unwrap_or_default(), MAX_CONTENT))
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Self {
        Content(Form::Text(text.into()))
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}
