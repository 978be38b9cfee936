//! Dates as feeds write them: RFC 3339 (Atom, Dublin Core), RFC 2822 (RSS), and the shorter forms of W3CDTF that
//! feeds use in practice. A date that cannot be read is `None`; the entry is kept.

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    fmt::rfc2822,
    tz::TimeZone,
};

pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let utc = |civil: DateTime| TimeZone::UTC.to_timestamp(civil).ok();
    // A date without a zone, or without a time of day, is read as UTC.
    if let Ok(civil) = text.parse::<DateTime>() {
        return utc(civil);
    }
    if let Ok(date) = text.parse::<Date>() {
        return utc(date.at(0, 0, 0, 0));
    }
    static RFC2822: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);
    if let Ok(at) = RFC2822.parse_timestamp(text) {
        return Some(at);
    }
    // `Mon, 01 Jan 2024 00:00:00 UTC` and the like: RFC 2822 defines few names of zones.
    let (rest, zone) = text.rsplit_once(' ')?;
    let offset = match zone {
        "UTC" | "Z" | "GMT" => "+0000",
        "JST" => "+0900",
        _ => return None,
    };
    RFC2822.parse_timestamp(format!("{rest} {offset}")).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_forms_met_in_feeds_are_read() {
        for (text, expected) in [
            ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
            (" 2024-01-01T09:00:00+09:00 ", "2024-01-01T00:00:00Z"),
            ("2024-01-01T00:00:00.123Z", "2024-01-01T00:00:00.123Z"),
            ("2024-01-01T00:00:00", "2024-01-01T00:00:00Z"),
            ("2024-01-01", "2024-01-01T00:00:00Z"),
            ("Mon, 01 Jan 2024 09:00:00 +0900", "2024-01-01T00:00:00Z"),
            ("Tue, 01 Jan 2024 00:00:00 GMT", "2024-01-01T00:00:00Z"),
            ("Mon, 01 Jan 2024 00:00:00 UTC", "2024-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse(text).map(|at| at.to_string()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_no_date() {
        for text in ["", "yesterday", "2024-13-45T99:00:00Z", "0000", "９９"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
