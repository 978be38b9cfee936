//! GraphQL's five scalars and AWS's nine, as input and as output.
//!
//! A value that does not fit its scalar is an error. Scalars that a schema itself declares take any value.

use serde_json::{Number, Value};

/// The value of a variable or an argument, as a resolver gets it. `None` if it does not fit.
pub(crate) fn from_input(scalar: &str, value: &Value) -> Option<Value> {
    match scalar {
        "Int" => value.as_i64().filter(|n| i32::try_from(*n).is_ok()).map(Value::from),
        "Float" => value.as_f64().filter(|n| n.is_finite()).map(|_| value.clone()),
        "String" => value.is_string().then(|| value.clone()),
        "Boolean" => value.is_boolean().then(|| value.clone()),
        "ID" => match value {
            Value::String(_) => Some(value.clone()),
            Value::Number(number) if number.is_i64() || number.is_u64() => Some(Value::String(number.to_string())),
            _ => None,
        },
        // Any JSON text. The resolver gets the parsed value.
        "AWSJSON" => value.as_str().and_then(|text| serde_json::from_str(text).ok()),
        "AWSTimestamp" => value.as_i64().map(Value::from),
        name => match text_rule(name) {
            Some(rule) => value.as_str().filter(|text| rule(text)).map(Value::from),
            None => Some(value.clone()),
        },
    }
}

/// A resolver's value, as the answer has it. `None` if it does not fit.
pub(crate) fn to_output(scalar: &str, value: Value) -> Option<Value> {
    match scalar {
        "Int" => integer(&value).filter(|n| i32::try_from(*n).is_ok()).map(Value::from),
        "AWSTimestamp" => integer(&value).map(Value::from),
        "Float" => match &value {
            Value::Number(_) => Some(value),
            Value::String(text) => text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number),
            _ => None,
        },
        "String" | "ID" => match value {
            Value::String(_) => Some(value),
            Value::Number(number) => Some(Value::String(number.to_string())),
            Value::Bool(flag) => Some(Value::String(flag.to_string())),
            // AppSync turns maps and lists into text only for AWSJSON.
            _ => None,
        },
        "Boolean" => match value {
            Value::Bool(_) => Some(value),
            Value::String(text) if text == "true" || text == "false" => Some(Value::Bool(text == "true")),
            Value::Number(number) => number.as_f64().map(|n| Value::Bool(n != 0.0)),
            _ => None,
        },
        "AWSJSON" => match value {
            Value::String(text) => {
                serde_json::from_str::<serde::de::IgnoredAny>(&text).ok().map(|_| Value::String(text))
            }
            other => serde_json::to_string(&other).ok().map(Value::String),
        },
        name => match text_rule(name) {
            Some(rule) => value.as_str().is_some_and(rule).then_some(value),
            None => Some(value),
        },
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "the fraction is zero and the range is checked")]
        Value::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.0e15).map(|n| n as i64)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn text_rule(scalar: &str) -> Option<fn(&str) -> bool> {
    Some(match scalar {
        "AWSDate" => is_date,
        "AWSTime" => is_time,
        "AWSDateTime" => is_date_time,
        "AWSEmail" => is_email,
        "AWSURL" => is_url,
        "AWSPhone" => is_phone,
        "AWSIPAddress" => is_address,
        _ => return None,
    })
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let part = text.get(..count)?;
    part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
}

/// Reads `YYYY-MM-DD`. Returns the rest of the text.
fn date(text: &str) -> Option<&str> {
    let (year, rest) = (digits(text, 4)?, text.get(4..)?.strip_prefix('-')?);
    let (month, rest) = (digits(rest, 2)?, rest.get(2..)?.strip_prefix('-')?);
    let day = digits(rest, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    (1..=days).contains(&day).then(|| rest.get(2..))?
}

/// Reads `hh:mm[:ss[.fraction]]`. Returns the rest of the text.
fn time(text: &str) -> Option<&str> {
    let (hour, rest) = (digits(text, 2)?, text.get(2..)?.strip_prefix(':')?);
    let minute = digits(rest, 2)?;
    let mut rest = rest.get(2..)?;
    let mut second = 0;
    if let Some(after) = rest.strip_prefix(':') {
        second = digits(after, 2)?;
        rest = after.get(2..)?;
        if let Some(fraction) = rest.strip_prefix('.') {
            let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if length == 0 {
                return None;
            }
            rest = fraction.get(length..)?;
        }
    }
    (hour < 24 && minute < 60 && second < 60).then_some(rest)
}

/// Nothing, `Z` or `±hh:mm[:ss]`.
fn is_offset(text: &str) -> bool {
    if text.is_empty() || text == "Z" {
        return true;
    }
    text.strip_prefix(['+', '-']).is_some_and(|rest| time(rest) == Some(""))
}

fn is_date(text: &str) -> bool {
    date(text).is_some_and(is_offset)
}

fn is_time(text: &str) -> bool {
    time(text).is_some_and(is_offset)
}

fn is_date_time(text: &str) -> bool {
    let rest = date(text).and_then(|rest| rest.strip_prefix('T')).and_then(time);
    // Here the offset is required, unlike in a date or a time.
    rest.is_some_and(|rest| !rest.is_empty() && is_offset(rest))
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let plain = |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control());
    plain(local)
        && plain(domain)
        && domain.contains('.')
        && !domain.starts_with('.')
        && !domain.ends_with('.')
        && !domain.contains("..")
}

fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.strip_prefix("mailto:").is_some_and(is_email);
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let schemed = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    schemed && !host.is_empty() && !text.chars().any(char::is_whitespace)
}

fn is_phone(text: &str) -> bool {
    let body = text.strip_prefix('+').unwrap_or(text);
    let count = body.chars().filter(char::is_ascii_digit).count();
    (3..=15).contains(&count) && body.chars().all(|c| c.is_ascii_digit() || " -().".contains(c))
}

fn is_address(text: &str) -> bool {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let most = if address.is_ipv4() { 32 } else { 128 };
    prefix.is_none_or(|prefix| prefix.parse::<u8>().is_ok_and(|bits| bits <= most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of AppSync's page on scalar types, and near misses.
    #[test]
    fn aws_scalars_take_what_the_documentation_says() {
        for (scalar, good, bad) in [
            (
                "AWSDate",
                vec!["1970-01-01", "1970-01-01Z", "1970-01-01-07:00", "1970-01-01+05:30"],
                vec!["1970-1-1", "1970-02-30", "x"],
            ),
            (
                "AWSTime",
                vec!["12:30", "12:30:24", "12:30:24.500Z", "12:30:24-07:00"],
                vec!["24:00", "12", "12:30:24.", "12:60"],
            ),
            (
                "AWSDateTime",
                vec!["1970-01-01T12:00:00Z", "1970-01-01T12:00:00.123+09:00"],
                vec!["1970-01-01T12:00:00", "1970-01-01"],
            ),
            ("AWSEmail", vec!["username@example.com"], vec!["username", "a@b", "a b@c.d", "a@.c"]),
            (
                "AWSURL",
                vec!["https://example.com", "mailto:a@b.c", "http://h/p?q#f"],
                vec!["example.com", "http://", "http://a b"],
            ),
            ("AWSPhone", vec!["+1 415-555-0100", "03-1234-5678"], vec!["phone", "+", "12"]),
            (
                "AWSIPAddress",
                vec!["123.12.34.56", "1a2b:3c4b::1234:4567", "10.0.0.0/8", "::/0"],
                vec!["1.2.3", "1.2.3.4/33", "g::"],
            ),
        ] {
            for text in good {
                assert_eq!(from_input(scalar, &json!(text)), Some(json!(text)), "{scalar} {text}");
                assert_eq!(to_output(scalar, json!(text)), Some(json!(text)), "{scalar} {text}");
            }
            for text in bad {
                assert_eq!(from_input(scalar, &json!(text)), None, "{scalar} {text}");
                assert_eq!(to_output(scalar, json!(text)), None, "{scalar} {text}");
            }
        }
        assert_eq!(from_input("AWSJSON", &json!("{\"a\":[1]}")), Some(json!({"a": [1]})));
        assert_eq!(from_input("AWSJSON", &json!("{a")), None);
        assert_eq!(to_output("AWSJSON", json!({"a": 1})), Some(json!("{\"a\":1}")));
        assert_eq!(from_input("AWSTimestamp", &json!(0)), Some(json!(0)));
        assert_eq!(from_input("AWSTimestamp", &json!("0")), None);
    }
}
