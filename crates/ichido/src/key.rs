//! What an effect is called.
//!
//! A [`Key`] is made of a [`Namespace`] and parts. What is stored is plain text that a person can read
//! in a console: `IDEMPOTENCY#did:web:alice#order-7`, or, in an unprefixed namespace, the one part
//! alone: `Ev08ABC`. A separator inside a part is escaped (`#` → `%23`, `%` → `%25`), so two different
//! lists of parts never become the same text, nor do keys of two namespaces in one table:
//! a prefixed key always contains a bare `#`, an unprefixed one never does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest stored text of a key, in bytes. DynamoDB takes 2048 for a partition key; half of it
/// leaves room for callers that put a prefix of their own in front.
pub const MAX_KEY_BYTES: usize = 1024;

/// How long an outcome is kept unless the namespace says otherwise.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a claim lasts unless the namespace, or the call, says otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(60);

const SEPARATOR: char = '#';

/// Why a key could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a key of namespace {namespace:?} has no parts")]
    Empty { namespace: String },
    #[error("part {index} of a key of namespace {namespace:?} is empty")]
    EmptyPart { namespace: String, index: usize },
    #[error("a key of namespace {namespace:?} would take {bytes} bytes; {MAX_KEY_BYTES} are allowed")]
    TooLong { namespace: String, bytes: usize },
    #[error("a key of the unprefixed namespace {namespace:?} has exactly one part, not {parts}")]
    Unprefixed { namespace: String, parts: usize },
}

/// What happens to keys of a namespace while the store cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutagePolicy {
    /// Nothing is admitted without the store: the call fails, and its caller may try again.
    #[default]
    Closed,
    /// A bounded local memory decides: a key is admitted at most once per living instance, and each
    /// such admission is reported as it happens.
    Open,
}

/// A family of keys that share a meaning, and with it a retention, a lease and an outage policy.
#[derive(Debug, Clone)]
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

    /// A namespace whose keys are stored as their one part alone, for tables whose keys are given.
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

    /// How long an outcome is kept, counted from the moment it was recorded.
    pub fn retention(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.0).retention = Some(retention);
        self
    }

    /// Outcomes are kept until somebody deletes them: records carry no `ttl`.
    pub fn forever(mut self) -> Self {
        Arc::make_mut(&mut self.0).retention = None;
        self
    }

    /// How long a record is kept whose effect was not completed: a claim that nobody came back to, a failure,
    /// a release. Longer than the retention where a dead letter may be sent again days later and must still find
    /// out that it may have been done.
    pub fn keep_unfinished(mut self, retention: Duration) -> Self {
        Arc::make_mut(&mut self.0).unfinished = Some(retention);
        self
    }

    /// How long a claim lasts when the call does not say.
    pub fn lease(mut self, lease: Duration) -> Self {
        Arc::make_mut(&mut self.0).lease = lease;
        self
    }

    /// While the store is down, let the local memory decide. See [`OutagePolicy::Open`].
    pub fn fail_open(mut self) -> Self {
        Arc::make_mut(&mut self.0).outage = OutagePolicy::Open;
        self
    }

    /// While the store is down, refuse. This is the default. See [`OutagePolicy::Closed`].
    pub fn fail_closed(mut self) -> Self {
        Arc::make_mut(&mut self.0).outage = OutagePolicy::Closed;
        self
    }

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

    pub fn outage_policy(&self) -> OutagePolicy {
        self.0.outage
    }

    /// Makes the key of these parts.
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
    /// The key whose record stands under this very text, for tools that look at tables. Applications make
    /// theirs with [`Namespace::key`], which escapes.
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
    }

    #[test]
    fn empty_and_overlong_keys_are_errors() {
        let ns = Namespace::new("N");
        assert!(matches!(ns.key::<&str>([]), Err(Error::Empty { .. })));
        assert!(matches!(ns.key(["a", ""]), Err(Error::EmptyPart { index: 1, .. })));
        assert!(matches!(Namespace::new("").key(["a"]), Err(Error::Empty { .. })));
        assert!(ns.key(["x".repeat(MAX_KEY_BYTES - 2)]).is_ok());
        assert!(matches!(ns.key(["x".repeat(MAX_KEY_BYTES - 1)]), Err(Error::TooLong { bytes: 1025, .. })));
        // What counts is what is stored: each of these takes three bytes.
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
