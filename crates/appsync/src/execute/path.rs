//! Places in an answer.

use apollo_compiler::Name;

use crate::response::{self, Segment};

/// A place in the answer, linked to the place above it. It is written out only when an error needs it.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    pub(super) above: Option<&'a Path<'a>>,
    pub(super) place: Place<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Key(&'a Name),
    Index(usize),
}

impl Path<'_> {
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut at = Some(self);
        while let Some(path) = at {
            segments.push(match path.place {
                Place::Key(key) => Segment::Key(key.to_string()),
                Place::Index(index) => Segment::Index(index),
            });
            at = path.above;
        }
        segments.reverse();
        segments
    }

    /// `/listGroups[0]/name`, as in AppSync's messages.
    pub(super) fn text(&self) -> String {
        response::place(&self.segments())
    }
}
