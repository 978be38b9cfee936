//! What can be wrong with a document, or with a part of it.

use super::MAX_DEPTH;

/// Most problems that are kept of one document.
const MAX_PROBLEMS: usize = 20;

/// Why a document could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("the document has a DTD with declarations of its own, which is not allowed")]
    Dtd,
    #[error("the document is not JSON, or ends too early: {0}")]
    Json(String),
    #[error("the document is in the unknown encoding {name:?}")]
    Encoding { name: String },
    #[error("elements are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("the document is not a feed: it has no feed, RDF or rss element, and it is no JSON Feed")]
    NotAFeed,
    #[error("no entry of the document could be read: {0}")]
    NothingReadable(Problem),
}

/// What is wrong with one part of a document whose other parts were read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("entry {position} has neither an id nor a link: skipped")]
    NoId { position: usize },
    #[error("entry {position} has an id of white space only: used its next candidate for an id")]
    BlankId { position: usize },
    #[error("entry {position} repeats the id of an earlier entry: skipped")]
    Repeated { position: usize },
    #[error("entry {position} has the unreadable date {text:?}: left the date out")]
    Date { position: usize, text: String },
    #[error("entry {position} has an unusable link: left the link out")]
    Link { position: usize },
    #[error("entry {position} is not an object: skipped")]
    NotAnItem { position: usize },
    #[error("the document ends too early, or is not XML, from byte {at} on")]
    Truncated { at: u64 },
}

/// The first problems of a document.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(problem);
        }
    }

    pub(super) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}
