//! What an entry says beyond its title.
//!
//! Of most entries that are read nothing else is asked than whether they are known. So a content stays as the feed has it,
//! and becomes text when somebody wants it.

use std::{borrow::Cow, fmt};

use super::{MAX_CONTENT, Markup, cut, unescape};
use crate::{entry::Source, hatena, html};

/// The content of an entry: one line of plain text, at most [`MAX_CONTENT`] bytes of it, once it is asked for.
#[derive(Clone)]
pub struct Content(Form);

#[derive(Clone)]
enum Form {
    Text(String),
    /// In the order of preference; the first that says something is the content.
    Feed {
        source: Source,
        candidates: [Option<Raw>; 2],
    },
}

/// A text as the feed has it, references not yet resolved.
#[derive(Clone)]
pub(super) struct Raw {
    pub(super) text: String,
    pub(super) markup: Markup,
}

impl Raw {
    /// What the text says, in its markup.
    pub(super) fn resolved(&self) -> Cow<'_, str> {
        match self.markup {
            Markup::None | Markup::Html => unescape(&self.text),
            // resolved while the elements were read
            Markup::Xhtml => Cow::Borrowed(&self.text),
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
