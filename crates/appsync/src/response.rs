//! Answers: data in the order of the selection, and errors in AppSync's shape.

use apollo_compiler::Name;
use apollo_compiler::parser::{LineColumn, SourceMap, SourceSpan};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A value of an answer. An object also has its type and the field name of each value, because the messages to subscribers are
/// made from the answer to a mutation, whose aliases may differ from theirs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Leaf(Value),
    List(Vec<Data>),
    Object(Object),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object {
    pub(crate) type_name: Name,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The alias, or the name of the field.
    pub(crate) key: Name,
    pub(crate) field: Name,
    pub(crate) data: Data,
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Leaf(value) => value.serialize(serializer),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.entries.len()))?;
                for entry in &object.entries {
                    map.serialize_entry(entry.key.as_str(), &entry.data)?;
                }
                map.end()
            }
        }
    }
}

/// One step of a path into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Segment {
    /// The key in an object.
    Key(String),
    /// The index in a list.
    Index(usize),
}

/// `/listGroups[0]/name`: a path as AppSync's messages have it.
pub(crate) fn place(path: &[Segment]) -> String {
    path.iter().fold(String::new(), |text, segment| match segment {
        Segment::Key(key) => format!("{text}/{key}"),
        Segment::Index(index) => format!("{text}[{index}]"),
    })
}

/// A place in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// Always `null`, as on AppSync.
    source_name: Option<&'static str>,
}

impl From<LineColumn> for Location {
    fn from(place: LineColumn) -> Self {
        Self { line: place.line, column: place.column, source_name: None }
    }
}

pub(crate) fn locate(span: Option<SourceSpan>, sources: &SourceMap) -> Vec<Location> {
    span.and_then(|span| span.line_column(sources)).map(Location::from).into_iter().collect()
}

/// An error of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// The message for the caller.
    pub message: String,
    /// Where in the answer. Empty for an error of the whole request.
    pub path: Vec<Segment>,
    /// Where in the document.
    pub locations: Vec<Location>,
    /// What AppSync adds. Errors of GraphQL itself have none.
    pub raised: Option<RaisedParts>,
}

/// What AppSync shows of an error in addition to what GraphQL defines.
#[derive(Debug, Clone, PartialEq)]
pub struct RaisedParts {
    /// AppSync's `errorType`.
    pub error_type: Option<String>,
    /// Filtered by the selection.
    pub data: Value,
    /// As the resolver gave it.
    pub error_info: Value,
}

impl Error {
    /// An error of the whole request.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self { message: message.into(), path: Vec::new(), locations: Vec::new(), raised: None }
    }

    /// An error of the whole request with a type, such as a bound that was exceeded.
    pub(crate) fn typed(error_type: &str, message: impl Into<String>) -> Self {
        Self {
            raised: Some(RaisedParts {
                error_type: Some(error_type.to_owned()),
                data: Value::Null,
                error_info: Value::Null,
            }),
            ..Self::request(message)
        }
    }

    /// AppSync's `errorType`, if there is one.
    pub fn error_type(&self) -> Option<&str> {
        self.raised.as_ref().and_then(|raised| raised.error_type.as_deref())
    }
}

impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("path", &(!self.path.is_empty()).then_some(&self.path))?;
        if let Some(raised) = &self.raised {
            map.serialize_entry("data", &raised.data)?;
            map.serialize_entry("errorType", &raised.error_type)?;
            map.serialize_entry("errorInfo", &raised.error_info)?;
        }
        map.serialize_entry("locations", &(!self.locations.is_empty()).then_some(&self.locations))?;
        map.serialize_entry("message", &self.message)?;
        map.end()
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    pub(crate) data: Option<Data>,
    /// What went wrong, if anything.
    pub errors: Vec<Error>,
}

impl Response {
    pub(crate) fn refused(errors: Vec<Error>) -> Self {
        Self { data: None, errors }
    }

    /// `data` as JSON; `null` if there is none.
    pub fn data(&self) -> Value {
        serde_json::to_value(&self.data).unwrap_or(Value::Null)
    }

    /// The whole answer as JSON.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// Whether there is no error.
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }
}

impl Serialize for Response {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("data", &self.data)?;
        if !self.errors.is_empty() {
            map.serialize_entry("errors", &self.errors)?;
        }
        map.end()
    }
}
