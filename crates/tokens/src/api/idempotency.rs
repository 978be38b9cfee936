//! Idempotency keys: the client's own name for one transfer.
//!
//! A key belongs to its sender: the same text from another sender names another transfer. Any printable ASCII is allowed,
//! also `#`, because separators are escaped where keys are stored. The library says what a key is and how the header is
//! read.

use std::fmt;
use std::str::FromStr;

use ichido::http::{KeyError, check_key, parse_key};
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// The longest key, in bytes.
pub const MAX_LENGTH: usize = ichido::http::MAX_KEY_LENGTH;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Box<str>);

/// Why a text is not an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the header Idempotency-Key and idempotencyKey in the body differ; send only one of them")]
    Ambiguous,
}

impl IdempotencyKey {
    /// The key that the service makes for a client that sent none.
    pub fn generated(random: Uuid) -> Self {
        IdempotencyKey(random.to_string().into())
    }

    /// The key that the ledger makes of something that it knows: short printable ASCII.
    pub(crate) fn derived(text: String) -> Self {
        IdempotencyKey(text.into())
    }

    /// The key of a request: from its header, its body, or both if they agree.
    pub fn of_request(header: Option<&str>, body: Option<&str>) -> Result<Option<Self>, Error> {
        match (header.map(parse_key).transpose()?, body) {
            (Some(header), Some(body)) if header != body => Err(Error::Ambiguous),
            (Some(key), _) => Ok(Some(IdempotencyKey(key.into()))),
            (None, Some(text)) => text.parse().map(Some),
            (None, None) => Ok(None),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        check_key(text)?;
        Ok(IdempotencyKey(text.into()))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_body_may_both_name_the_key_if_they_agree() {
        let key = |header, body| IdempotencyKey::of_request(header, body).map(|key| key.map(|key| key.to_string()));
        assert_eq!(key(None, None), Ok(None));
        assert_eq!(key(Some("k1"), None), Ok(Some("k1".into())));
        assert_eq!(key(None, Some("k1")), Ok(Some("k1".into())));
        assert_eq!(key(Some("k1"), Some("k1")), Ok(Some("k1".into())));
        assert_eq!(key(Some("\"k1\""), Some("k1")), Ok(Some("k1".into())));
        assert_eq!(key(Some("k1"), Some("k2")), Err(Error::Ambiguous));
        assert_eq!(key(Some(""), None), Err(KeyError::Empty.into()));
        assert_eq!(key(Some("\"k1"), None), Err(KeyError::Quotes.into()));
    }

    #[test]
    fn a_key_is_short_printable_ascii() {
        assert!("a#b%c".parse::<IdempotencyKey>().is_ok());
        assert_eq!("a b".parse::<IdempotencyKey>(), Err(KeyError::Character.into()));
        assert_eq!("ключ".parse::<IdempotencyKey>(), Err(KeyError::Character.into()));
        assert_eq!("k".repeat(MAX_LENGTH + 1).parse::<IdempotencyKey>(), Err(KeyError::TooLong.into()));
        assert!("k".repeat(MAX_LENGTH).parse::<IdempotencyKey>().is_ok());
    }
}
