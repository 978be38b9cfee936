//! The parts of CBOR (RFC 8949) that Smithy's RPC protocol uses: the types of JSON, and timestamps.
//!
//! JSON has no type for timestamps, so here a timestamp is an object with the single member `$time` (epoch seconds).

use serde_json::{Map, Value, json};

/// How deep values may be nested. Requests are flat.
const MAX_DEPTH: u32 = 16;
const BREAK: u8 = 0xff;

/// A timestamp, from epoch milliseconds, in the form that [`write()`] takes.
pub(super) fn time(ms: u64) -> Value {
    json!({ "$time": ms as f64 / 1e3 })
}

/// Encodes a value.
pub(super) fn write(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(value, &mut bytes);
    bytes
}

fn put(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(flag) => out.push(if *flag { 0xf5 } else { 0xf4 }),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => head(0, whole, out),
            (None, Some(negative)) => head(1, negative.unsigned_abs() - 1, out),
            _ => put_float(number.as_f64().unwrap_or(f64::NAN), out),
        },
        Value::String(text) => {
            head(3, text.len() as u64, out);
            out.extend(text.as_bytes());
        }
        Value::Array(list) => {
            head(4, list.len() as u64, out);
            list.iter().for_each(|each| put(each, out));
        }
        Value::Object(members) => {
            if let (1, Some(seconds)) = (members.len(), members.get("$time").and_then(Value::as_f64)) {
                head(6, 1, out);
                return put_float(seconds, out);
            }
            head(5, members.len() as u64, out);
            for (name, value) in members {
                put(&Value::from(name.as_str()), out);
                put(value, out);
            }
        }
    }
}

fn put_float(value: f64, out: &mut Vec<u8>) {
    out.push(0xfb);
    out.extend(value.to_be_bytes());
}

fn head(major: u8, count: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match count {
        0..24 => out.push(major | count as u8),
        24..=0xff => out.extend([major | 24, count as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend((count as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend((count as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend(count.to_be_bytes());
        }
    }
}

/// Decodes a value; `None` if the bytes are malformed or of another type.
pub(super) fn read(bytes: &[u8]) -> Option<Value> {
    let mut rest = bytes;
    let value = take(&mut rest, 0)?;
    rest.is_empty().then_some(value)
}

fn take(rest: &mut &[u8], depth: u32) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    let first = next(rest, 1)?[0];
    let (major, info) = (first >> 5, first & 0x1f);
    if major == 7 {
        return match info {
            20 => Some(Value::Bool(false)),
            21 => Some(Value::Bool(true)),
            22 | 23 => Some(Value::Null),
            26 => Some(json!(f64::from(f32::from_be_bytes(next(rest, 4)?.try_into().ok()?)))),
            27 => Some(json!(f64::from_be_bytes(next(rest, 8)?.try_into().ok()?))),
            _ => None,
        };
    }
    // Without a length, the value continues until a break byte.
    let count = match info {
        0..24 => Some(u64::from(info)),
        24 => Some(u64::from(next(rest, 1)?[0])),
        25 => Some(u64::from(u16::from_be_bytes(next(rest, 2)?.try_into().ok()?))),
        26 => Some(u64::from(u32::from_be_bytes(next(rest, 4)?.try_into().ok()?))),
        27 => Some(u64::from_be_bytes(next(rest, 8)?.try_into().ok()?)),
        31 if (2..=5).contains(&major) => None,
        _ => return None,
    };
    match (major, count) {
        (0, Some(count)) => Some(json!(count)),
        (1, Some(count)) => Some(json!(-1 - i64::try_from(count).ok()?)),
        (3, Some(count)) => {
            let text = next(rest, usize::try_from(count).ok()?)?;
            Some(Value::from(std::str::from_utf8(text).ok()?))
        }
        (4, count) => {
            let mut list = Vec::new();
            while !ended(rest, count, list.len())? {
                list.push(take(rest, depth + 1)?);
            }
            Some(Value::Array(list))
        }
        (5, count) => {
            let (mut members, mut seen) = (Map::new(), 0);
            while !ended(rest, count, seen)? {
                let Value::String(name) = take(rest, depth + 1)? else { return None };
                members.insert(name, take(rest, depth + 1)?);
                seen += 1;
            }
            Some(Value::Object(members))
        }
        // A tag says what its value means. The only tag in use marks a timestamp, whose value is its seconds.
        (6, Some(_)) => take(rest, depth + 1),
        _ => None,
    }
}

fn ended(rest: &mut &[u8], count: Option<u64>, seen: usize) -> Option<bool> {
    match count {
        Some(count) => Some(seen as u64 >= count),
        None if *rest.first()? == BREAK => {
            *rest = &rest[1..];
            Some(true)
        }
        None => Some(false),
    }
}

fn next<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let long = "x".repeat(70_000);
        let value = json!({
            "a": [1, 23, 24, 255, 256, 65_535, 65_536, u64::MAX, -1, -500], "b": {"c": true, "d": null, "e": 1.5},
            "é": "héllo", "long": long,
        });
        assert_eq!(read(&write(&value)), Some(value));
        assert_eq!(read(&write(&time(1_500))), Some(json!(1.5)));
    }

    #[test]
    fn examples_of_the_standard() {
        assert_eq!(write(&json!({"a": 1, "b": [2, 3]})), [0xa2, 0x61, 0x61, 1, 0x61, 0x62, 0x82, 2, 3]);
        // {_ "Fun": true, "Amt": -2}
        let without_length = [0xbf, 0x63, 0x46, 0x75, 0x6e, 0xf5, 0x63, 0x41, 0x6d, 0x74, 0x21, 0xff];
        assert_eq!(read(&without_length), Some(json!({"Fun": true, "Amt": -2})));
    }

    #[test]
    fn anything_else_is_nothing_and_no_panic() {
        for bytes in [&[][..], &[0x9f], &[0xbf, 1, 1, 0xff], &[0x7b, 0xff, 0xff], &[0x81; 64], &[1, 1], &[0xff]] {
            assert_eq!(read(bytes), None, "{bytes:x?}");
        }
    }
}
