//! Dates in requests: RFC 3339 with an offset.
//!
//! A bare date or a local time is a different instant in each place, so it is refused.

use ichido::Timestamp;

/// The last instant that can be written with a four-digit year.
const MAX_MILLIS: i64 = 253_402_207_200_999;

/// Why a text is not an instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be an instant with an offset, such as 2026-01-31T09:00:00Z, from 1970 to 9999")]
pub(crate) struct Error {
    name: &'static str,
}

/// Reads an instant, rounded up to a millisecond. Entries are made at whole milliseconds, so the rounding does not change
/// which of them are before the instant and which are not.
pub(crate) fn parse(name: &'static str, text: &str) -> Result<Timestamp, Error> {
    let error = Error { name };
    // jiff also accepts a time zone in brackets and a space instead of the T. RFC 3339 does not.
    let plain = text.len() <= 40 && text.bytes().all(|b| b.is_ascii_digit() || b"-:.+TZtz".contains(&b));
    if !plain || !text.bytes().any(|b| b == b'T' || b == b't') {
        return Err(error);
    }
    let instant: jiff::Timestamp = text.parse().map_err(|_| error.clone())?;
    let millis = instant.as_millisecond() + i64::from(instant.subsec_nanosecond() % 1_000_000 > 0);
    match u64::try_from(millis) {
        Ok(millis) if instant.as_millisecond() <= MAX_MILLIS => Ok(Timestamp::from_millis(millis)),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instants_are_rfc_3339_with_an_offset() {
        let millis = |text| parse("startDate", text).map(Timestamp::as_millis);
        assert_eq!(millis("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(millis("1970-01-01T09:00:00+09:00"), Ok(0));
        assert_eq!(millis("1970-01-01T00:00:00.5Z"), Ok(500));
        assert_eq!(millis("1970-01-01T00:00:00.0001Z"), Ok(1));
        for text in [
            "",
            "2026-01-31",
            "2026-01-31T09:00:00",
            "2026-02-30T00:00:00Z",
            "yesterday",
            "1700000000",
            "1969-12-31T23:59:59Z",
            "2026-01-31 09:00:00Z",
            "2026-01-31T09:00:00+09:00[Asia/Tokyo]",
            "２026-01-31T09:00:00Z",
        ] {
            assert_eq!(millis(text), Err(Error { name: "startDate" }), "{text}");
        }
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn written_and_read_again_an_instant_is_the_same(millis in 0..MAX_MILLIS as u64) {
                let instant = Timestamp::from_millis(millis);
                prop_assert_eq!(parse("t", &instant.to_string()), Ok(instant));
            }

            #[test]
            fn any_text_is_an_instant_or_an_error(text in "\\PC{0,40}|[0-9TZ:.+-]{0,30}") {
                let _ = parse("t", &text);
            }
        }
    }
}
