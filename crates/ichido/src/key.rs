//! The names of effects.
//!
//! A [`Key`] is made of a [`Namespace`] and parts. It is stored as plain text that a person can read in a console:
//! `IDEMPOTENCY#did:web:alice#order-7`, or, in an unprefixed namespace, just its one part: `Ev08ABC`. A separator
//! inside a part is escaped (`#` → `%23`, `%` → `%25`), so two different lists of parts never become the same text. Nor
//! do a prefixed and an unprefixed key: a prefixed key always contains a `#`, an unprefixed one never does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest stored text of a key, in bytes. DynamoDB allows 2048 for a partition key; half of that leaves room for
/// callers that add a prefix of their own.
pub const MAX_KEY_BYTES: usize = 1024;

/// How long an outcome is kept, unless the namespace says otherwise.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a claim lasts, unless the namespace or the call says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(60);

const SEPARATOR: char = '#';

/// Why a key could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// The namespace has no name, or the key has no part.
    #[error("a key needs a namespace with a name and at least one part; the namespace is {namespace:?}")]
    Empty { namespace: String },
    /// One part is empty.
    #[error("part {index} (counted from 0) of a key of namespace {namespace:?} is empty")]
    EmptyPart { namespace: String, index: usize },
    /// The stored text is longer than [`MAX_KEY_BYTES`].
    #[error("a key of namespace {namespace:?} would take {bytes} bytes; at most {MAX_KEY_BYTES} are allowed")]
    TooLong { namespace: String, bytes: usize },
    /// An [unprefixed](Namespace::unprefixed) key has more than one part.
    #[error("a key of the unprefixed namespace {namespace:?} must have exactly one part; it has {parts}")]
    Unprefixed { namespace: String, parts: usize },
}

/// What happens to keys of a namespace while the store cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutagePolicy {
    /// Calls fail, and their callers may try again. Nothing is admitted without the store.
    #[default]
    Closed,
    /// A bounded local memory decides. Each live instance lets one attempt per key go on at a time, replays its outcome, and
    /// reports each admission as it happens. Other instances do not know of it.
    Open,
}

/// A group of keys with the same meaning, retention, lease and outage policy.
#[derive(Debug, Clone)]
#[must_use = "settings return a new namespace"]
pub struct Namespace(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    name: String,
    prefixed: bool,
    /// `None`: for ever.
    retention: Option<Duration>,
    /// `None`: as `retention`.
    unfinished: Option<Duration>,
    lease: Duration,
    outage: OutagePolicy,
}

impl Namespace {
    /// A namespace whose name is the first piece of each stored key.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name.into(), true)
    }

    /// A namespace whose keys are stored as their one part, without the name. For tables whose keys are prescribed.
    pub fn unprefixed(name: impl Into<String>) -> Self {
        Self::with(name.into(), false)
    }

    fn with(name: String, prefixed: bool) -> Self {
        Self(Arc::new(Inner {
            name,
            prefixed,
            retention: Some(DEFAULT_RETENTION),
            unfinished: None,
            lease: DEFAULT_LEASE,
            outage: OutagePolicy::Closed,
        }))
    }

    /// How long an outcome is kept, counted from when it was recorded.
    pub fn retention(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.0).retention = Some(retention);
        self
    }

    /// Outcomes are kept until somebody deletes them: records have no `ttl`.
    pub fn forever(mut self) -> Self {
        Arc::make_mut(&mut self.0).retention = None;
        self
    }

    /// How long a record that is not completed is kept: a claim that nobody settled, a failure, a release. Never shorter
    /// than the retention. Make it longer if a dead letter may be sent again days later, so that the call still learns that
    /// the effect may have happened.
    pub fn keep_unfinished(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.0).unfinished = Some(retention);
        self
    }

    /// How long a claim lasts, unless the call says otherwise.
    pub fn lease(mut self, lease: Duration) -> Self {
        Arc::make_mut(&mut self.0).lease = lease;
        self
    }

    /// The local memory decides while the store is down. See [`OutagePolicy::Open`].
    pub fn fail_open(mut self) -> Self {
        Arc::make_mut(&mut self.0).outage = OutagePolicy::Open;
        self
    }

    /// Calls fail while the store is down. This is the default. See [`OutagePolicy::Closed`].
    pub fn fail_closed(mut self) -> Self {
        Arc::make_mut(&mut self.0).outage = OutagePolicy::Closed;
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn retention_or_none(&self) -> Option<Duration> {
        self.0.retention
    }

    pub(crate) fn unfinished_retention(&self) -> Option<Duration> {
        self.0.retention.map(|retention| retention.max(self.0.unfinished.unwrap_or_default()))
    }

    pub(crate) fn default_lease(&self) -> Duration {
        self.0.lease
    }

    pub(crate) fn fails_open(&self) -> bool {
        self.0.outage == OutagePolicy::Open
    }

    /// What happens to its keys while the store cannot be reached.
    pub fn outage_policy(&self) -> OutagePolicy {
        self.0.outage
    }

    /// The key with these parts.
    pub fn key<P: AsRef<str>>(&self, parts: impl IntoIterator<Item = P>) -> Result<Key, Error> {
        let namespace = || self.0.name.clone();
        let mut text = String::new();
        if self.0.prefixed {
            escape_into(&self.0.name, &mut text);
        }
        let mut count = 0;
        for (index, part) in parts.into_iter().enumerate() {
            let part = part.as_ref();
            if part.is_empty() {
                return Err(Error::EmptyPart { namespace: namespace(), index });
            }
            if self.0.prefixed {
                text.push(SEPARATOR);
            }
            escape_into(part, &mut text);
            count = index + 1;
        }
        if count == 0 || self.0.name.is_empty() {
            return Err(Error::Empty { namespace: namespace() });
        }
        if !self.0.prefixed && count > 1 {
            return Err(Error::Unprefixed { namespace: namespace(), parts: count });
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(Error::TooLong { namespace: namespace(), bytes: text.len() });
        }
        Ok(Key { namespace: self.clone(), text: text.into() })
    }
}

/// A part as it stands in the text of a key, for tables with keys that this library does not make.
pub fn escape(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    escape_into(part, &mut text);
    text
}

fn escape_into(part: &str, text: &mut String) {
    for c in part.chars() {
        match c {
            SEPARATOR => text.push_str("%23"),
            '%' => text.push_str("%25"),
            c => text.push(c),
        }
    }
}

/// The name of one effect. Made by [`Namespace::key`].
#[derive(Clone)]
pub struct Key {
    namespace: Namespace,
    text: Arc<str>,
}

impl Key {
    /// The key that is stored as exactly this text, for tools that read tables. Applications use [`Namespace::key`], which
    /// escapes its parts.
    pub fn stored(text: &str) -> Result<Self, Error> {
        let name = text.split(SEPARATOR).next().unwrap_or_default();
        if text.is_empty() {
            return Err(Error::Empty { namespace: name.to_owned() });
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(Error::TooLong { namespace: name.to_owned(), bytes: text.len() });
        }
        Ok(Key { namespace: Namespace::unprefixed(name), text: text.into() })
    }

    /// The namespace that made the key.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The text under which the record is stored.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn text(&self) -> Arc<str> {
        self.text.clone()
    }
}

/// Two keys are equal if they are stored under the same text.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_parts_are_stored_as_plain_text() {
        let transfers = Namespace::new("IDEMPOTENCY");
        assert_eq!(transfers.key(["did:web:a", "order-7"]).unwrap().as_str(), "IDEMPOTENCY#did:web:a#order-7");
        assert_eq!(Namespace::unprefixed("events").key(["Ev123"]).unwrap().as_str(), "Ev123");
    }

    #[test]
    fn a_separator_inside_a_part_makes_another_key() {
        let ns = Namespace::new("N");
        let split = ns.key(["a", "b"]).unwrap();
        let joined = ns.key(["a#b"]).unwrap();
        let escaped = ns.key(["a%23b"]).unwrap();
        assert_ne!(split.as_str(), joined.as_str());
        assert_ne!(joined.as_str(), escaped.as_str());
        assert_eq!(joined.as_str(), format!("N#{}", escape("a#b")));
        assert_eq!(escape("a%#b"), "a%25%23b");
    }

    #[test]
    fn empty_and_overlong_keys_are_errors() {
        let ns = Namespace::new("N");
        assert!(matches!(ns.key::<&str>([]), Err(Error::Empty { .. })));
        assert!(matches!(ns.key(["a", ""]), Err(Error::EmptyPart { index: 1, .. })));
        assert!(matches!(Namespace::new("").key(["a"]), Err(Error::Empty { .. })));
        assert!(ns.key(["x".repeat(MAX_KEY_BYTES - 2)]).is_ok());
        assert!(matches!(ns.key(["x".repeat(MAX_KEY_BYTES - 1)]), Err(Error::TooLong { bytes: 1025, .. })));
        // The stored text counts: each `#` takes three bytes.
        assert!(matches!(ns.key(["#".repeat(400)]), Err(Error::TooLong { .. })));
    }

    #[test]
    fn a_stored_text_is_the_key_that_was_stored() {
        let key = Namespace::new("N").key(["a#b", "c"]).unwrap();
        assert_eq!(Key::stored(key.as_str()).unwrap().as_str(), key.as_str());
        assert!(matches!(Key::stored(""), Err(Error::Empty { .. })));
        assert!(Key::stored(&"x".repeat(MAX_KEY_BYTES)).is_ok());
        assert!(matches!(Key::stored(&"x".repeat(MAX_KEY_BYTES + 1)), Err(Error::TooLong { .. })));
    }

    #[test]
    fn a_namespace_keeps_outcomes_for_a_day_unless_it_says_otherwise() {
        let ns = Namespace::new("N");
        assert_eq!(ns.name(), "N");
        assert_eq!(ns.retention_or_none(), Some(Duration::from_secs(86_400)));
        assert_eq!(ns.retention(Duration::from_secs(1)).retention_or_none(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn an_unprefixed_key_has_one_part() {
        let ns = Namespace::unprefixed("events");
        assert!(matches!(ns.key(["a", "b"]), Err(Error::Unprefixed { parts: 2, .. })));
    }
}
