//! The value of the header `Idempotency-Key`.

use std::borrow::Cow;

/// The name of the request header that carries the key.
pub const HEADER: &str = "idempotency-key";

/// The name of the response header that marks a replay. Its value is `true`.
pub const REPLAYED: &str = "idempotency-replayed";

/// The name of the response header that says `false` if the response was given, but the store could not record it.
/// A duplicate may then be carried out again.
pub const RECORDED: &str = "idempotency-recorded";

/// The longest key, in characters.
pub const MAX_KEY_LENGTH: usize = 255;

/// Why a text is not an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no character in it.
    #[error("an idempotency key must not be empty")]
    Empty,
    /// It is longer than [`MAX_KEY_LENGTH`].
    #[error("an idempotency key has at most {MAX_KEY_LENGTH} characters")]
    TooLong,
    /// It has a space, a control character or a character that is not ASCII.
    #[error("an idempotency key has only printable ASCII characters and no spaces")]
    Character,
    /// It begins with a quote, but is not one quoted string.
    #[error(
        "a quoted idempotency key ends with its closing quote, and has \\\" for a quote and \\\\ for a backslash in it"
    )]
    Quotes,
    /// The request has the header more than once.
    #[error("a request has only one idempotency key")]
    Repeated,
}

/// The key in a value of the header.
///
/// In the draft the value is a string of structured fields (RFC 9651): `"8e03978e-40d5"`, with quotes. Most clients send
/// it without quotes. Both are read, and name the same key. Inside the quotes, `\"` and `\\` stand for `"` and `\`. A
/// value that begins with a quote must be such a string; parameters after it are refused, because the draft has none.
///
/// The key itself has 1 to [`MAX_KEY_LENGTH`] printable ASCII characters and no spaces. (The draft also permits spaces,
/// and tells servers to publish a narrower format.)
///
/// ```
/// use ichido::http::parse_key;
/// assert_eq!(parse_key("\"order-7\"")?, "order-7");
/// assert_eq!(parse_key("order-7")?, "order-7");
/// assert!(parse_key("\"order-7").is_err());
/// # Ok::<(), ichido::http::KeyError>(())
/// ```
pub fn parse_key<V: AsRef<[u8]> + ?Sized>(value: &V) -> Result<Cow<'_, str>, KeyError> {
    let value = value.as_ref();
    // The longest value: every character is escaped, and two quotes.
    if value.len() > 2 * MAX_KEY_LENGTH + 2 {
        return Err(KeyError::TooLong);
    }
    let value = std::str::from_utf8(value).map_err(|_| KeyError::Character)?;
    let value = value.trim_matches(' ');
    let key = match value.strip_prefix('"') {
        Some(quoted) => Cow::Owned(unquote(quoted)?),
        None => Cow::Borrowed(value),
    };
    check_key(&key)?;
    Ok(key)
}

/// Is this text an idempotency key? For keys that come from elsewhere than the header, without quotes.
pub fn check_key(text: &str) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if text.len() > MAX_KEY_LENGTH {
        return Err(KeyError::TooLong);
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::Character);
    }
    Ok(())
}

/// The string whose opening quote was read.
fn unquote(quoted: &str) -> Result<String, KeyError> {
    let mut text = String::with_capacity(quoted.len());
    let mut rest = quoted.chars();
    loop {
        match rest.next() {
            Some('"') if rest.as_str().is_empty() => return Ok(text),
            Some('\\') => match rest.next() {
                Some(escaped @ ('"' | '\\')) => text.push(escaped),
                _ => return Err(KeyError::Quotes),
            },
            Some('"') | None => return Err(KeyError::Quotes),
            Some(other) => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> Result<String, KeyError> {
        parse_key(value).map(Cow::into_owned)
    }

    #[test]
    fn a_key_is_the_same_with_quotes_and_without() {
        assert_eq!(key("8e03978e-40d5"), Ok("8e03978e-40d5".into()));
        assert_eq!(key("\"8e03978e-40d5\""), Ok("8e03978e-40d5".into()));
        assert_eq!(key("  \"k\" "), Ok("k".into()));
        assert_eq!(key("a#b%c,d=e;f"), Ok("a#b%c,d=e;f".into()));
    }

    #[test]
    fn quotes_and_backslashes_are_escaped_inside_quotes_only() {
        assert_eq!(key(r#""a\"b\\c""#), Ok(r#"a"b\c"#.into()));
        assert_eq!(key(r#"a"b\c"#), Ok(r#"a"b\c"#.into()));
        assert_eq!(key(r#""a\nb""#), Err(KeyError::Quotes));
    }

    #[test]
    fn a_string_that_is_not_closed_or_goes_on_is_no_key() {
        for value in ["\"", "\"abc", r#""abc\"#, r#""abc\""#, r#""a"b"#, r#""a"b""#, r#""a", "b""#, r#""a";v=1"#] {
            assert_eq!(key(value), Err(KeyError::Quotes), "{value}");
        }
    }

    #[test]
    fn hostile_values_are_no_keys() {
        assert_eq!(key(""), Err(KeyError::Empty));
        assert_eq!(key("   "), Err(KeyError::Empty));
        assert_eq!(key("\"\""), Err(KeyError::Empty));
        for value in ["a b", "\"a b\"", "a\tb", "a\0b", "\u{7f}", "ключ", "\"ключ\"", "a\nb"] {
            assert_eq!(key(value), Err(KeyError::Character), "{value:?}");
        }
        assert_eq!(parse_key(&b"a\xffb"[..]), Err(KeyError::Character));
        assert_eq!(key(&"k".repeat(10_240)), Err(KeyError::TooLong));
    }

    #[test]
    fn the_limit_counts_the_key_and_not_its_quotes_or_escapes() {
        let longest = "k".repeat(MAX_KEY_LENGTH);
        assert_eq!(key(&longest), Ok(longest.clone()));
        assert_eq!(key(&format!("\"{longest}\"")), Ok(longest.clone()));
        assert_eq!(key(&format!("{longest}k")), Err(KeyError::TooLong));
        assert_eq!(key(&format!("\"{longest}k\"")), Err(KeyError::TooLong));
        let quotes = "\"".repeat(MAX_KEY_LENGTH);
        assert_eq!(key(&format!("\"{}\"", "\\\"".repeat(MAX_KEY_LENGTH))), Ok(quotes));
    }
}
