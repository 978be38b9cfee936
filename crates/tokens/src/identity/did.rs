//! DIDs: the names of accounts and their owners.
//!
//! A DID has the W3C syntax `did:method:identifier`, without path, query or fragment. So it contains no `#`, no `/` and
//! no space, and is safe in a key, a path and a log line.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The longest DID, in bytes.
pub const MAX_LENGTH: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Did(Box<str>);

/// Why a text is not a DID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a DID is at most {MAX_LENGTH} characters long")]
    TooLong,
    #[error("a DID is did:method:identifier, such as did:key:z6Mk...")]
    Syntax,
}

impl Did {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Did {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_LENGTH {
            return Err(Error::TooLong);
        }
        let (method, identifier) =
            text.strip_prefix("did:").and_then(|rest| rest.split_once(':')).ok_or(Error::Syntax)?;
        let method_ok = !method.is_empty() && method.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if method_ok && is_identifier(identifier.as_bytes()) { Ok(Did(text.into())) } else { Err(Error::Syntax) }
    }
}

/// `*( *idchar ":" ) 1*idchar`: the last part is not empty; `%` is followed by two hexadecimal digits.
fn is_identifier(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut last = b':';
    while let [byte, tail @ ..] = rest {
        rest = match byte {
            b'%' => match tail {
                [high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => tail,
                _ => return false,
            },
            b'.' | b'-' | b'_' | b':' => tail,
            _ if byte.is_ascii_alphanumeric() => tail,
            _ => return false,
        };
        last = *byte;
    }
    last != b':'
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Did {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_syntax_of_the_recommendation_is_accepted() {
        for text in [
            "did:key:z6MkhaXg",
            "did:web:example.com:user:alice",
            "did:web:localhost%3A8443",
            "did:plc:a",
            "did:ion::x",
        ] {
            assert!(text.parse::<Did>().is_ok(), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!("did:key:{}", "a".repeat(MAX_LENGTH));
        for text in [
            "",
            "alice",
            "did:",
            "did:key",
            "did:key:",
            "did::x",
            "did:KEY:x",
            "DID:key:x",
            "did:key:a#b",
            "did:key:a/b",
            "did:key:a?b",
            "did:key:a b",
            "did:key:ä",
            "did:web:a%3",
            "did:web:a%zz",
            "did:key:a:",
            "did:key:a\n",
            &long,
        ] {
            assert!(text.parse::<Did>().is_err(), "{text}");
        }
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn an_accepted_did_is_plain_ascii_without_separators(text in "did:[a-z0-9]{0,3}:[ -~]{0,20}|.*") {
                if let Ok(did) = text.parse::<Did>() {
                    prop_assert_eq!(did.as_str(), &text);
                    prop_assert!(text.bytes().all(|b| b.is_ascii_graphic() && !b"#/?\\\"".contains(&b)));
                }
            }
        }
    }
}
