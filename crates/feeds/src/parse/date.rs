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
    // RFC 2822 defines few names of zones, and reads all others as UTC.
    let text = match text.rsplit_once(' ') {
        Some((rest, zone)) => format!("{rest} {}", offset(zone).unwrap_or(zone)),
        None => text.to_owned(),
    };
    if let Ok(at) = RFC2822.parse_timestamp(&text) {
        return Some(at);
    }
    OTHERS.iter().find_map(|format| jiff::fmt::strtime::parse(format, &text).ok()?.to_timestamp().ok())
}

/// What programs write that did not look the formats up.
const OTHERS: [&str; 4] =
    ["%Y-%m-%d %H:%M:%S %z", "%A, %d %B %Y %H:%M:%S %z", "%a, %d %B %Y %H:%M:%S %z", "%a %b %d %H:%M:%S %Y %z"];

/// The offset of a zone that has one name only.
fn offset(zone: &str) -> Option<&'static str> {
    Some(match zone {
        "UTC" | "UT" | "Z" | "GMT" | "WET" => "+0000",
        "BST" | "CET" | "MEZ" => "+0100",
        "CEST" | "EET" | "MESZ" => "+0200",
        "MSK" => "+0300",
        "JST" | "KST" => "+0900",
        _ => return None,
    })
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
            ("Mon, 01 Jan 2024 00:00:00 EST", "2024-01-01T05:00:00Z"),
            ("Mon, 01 Jan 2024 02:00:00 CEST", "2024-01-01T00:00:00Z"),
            ("1 Jan 2024 00:00 +0000", "2024-01-01T00:00:00Z"),
            ("Mon, 01 Jan 24 00:00:00 GMT", "2024-01-01T00:00:00Z"),
            ("2024-01-01 09:00:00 +0900", "2024-01-01T00:00:00Z"),
            ("2024-01-01 00:00:00 UTC", "2024-01-01T00:00:00Z"),
            ("2024-01-01 00:00:00", "2024-01-01T00:00:00Z"),
            ("2024-01-01T00:00Z", "2024-01-01T00:00:00Z"),
            ("Monday, 01 January 2024 00:00:00 GMT", "2024-01-01T00:00:00Z"),
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
