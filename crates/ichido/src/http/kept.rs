//! A response as it is recorded, and back.
//!
//! The outcome is JSON that a person can read in a console:
//! `{"status": 201, "headers": [["content-type", "application/json"]], "text": "{\"id\":7}"}`. A body that is not UTF-8 is
//! under `base64` instead of `text`. A body that would make the outcome larger than [`MAX_OUTCOME_BYTES`] is not kept: both
//! are absent.

use ::http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, SET_COOKIE, TRANSFER_ENCODING};
use ::http::response::Parts;
use ::http::{Response, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::record::MAX_OUTCOME_BYTES;

/// Headers that are not kept even if they are on the list: a cookie belongs to its request, the others to its connection.
const NEVER_KEPT: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, SET_COOKIE, TRANSFER_ENCODING];

/// A character of a text takes at most this many bytes in JSON (`\u0000`).
const MOST_BYTES_PER_BYTE: usize = 6;

/// What is recorded of a response. `body`: all of its bytes, unless they are too many.
pub(super) fn outcome(parts: &Parts, body: Option<&Bytes>, names: &[HeaderName]) -> Value {
    let kept = |name: &HeaderName| !NEVER_KEPT.contains(name) && names.contains(name);
    let headers: Vec<[String; 2]> = parts
        .headers
        .iter()
        .filter(|(name, _)| kept(name))
        // A value may have bytes that are not UTF-8. Each byte becomes the character with its number.
        .map(|(name, value)| [name.as_str().to_owned(), value.as_bytes().iter().copied().map(char::from).collect()])
        .collect();
    let mut outcome = json!({ "status": parts.status.as_u16(), "headers": headers });
    let Some(body) = body else { return outcome };
    let empty = outcome.to_string().len();
    match std::str::from_utf8(body) {
        Ok(text) => outcome["text"] = text.into(),
        Err(_) => outcome["base64"] = BASE64_STANDARD.encode(body).into(),
    }
    let surely_fits = empty + MOST_BYTES_PER_BYTE * body.len() + 16 <= MAX_OUTCOME_BYTES;
    if !surely_fits
        && outcome.to_string().len() > MAX_OUTCOME_BYTES
        && let Some(members) = outcome.as_object_mut()
    {
        members.remove("text");
        members.remove("base64");
    }
    outcome
}

/// A recorded response. `None` in its body: the body was not kept.
pub(super) fn response(outcome: &Value) -> Option<Response<Option<Bytes>>> {
    let status = u16::try_from(outcome.get("status")?.as_u64()?).ok()?;
    let body = match (outcome.get("text"), outcome.get("base64")) {
        (Some(text), _) => Some(Bytes::from(text.as_str()?.to_owned())),
        (None, Some(encoded)) => Some(BASE64_STANDARD.decode(encoded.as_str()?).ok()?.into()),
        (None, None) => None,
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).ok()?;
    for header in outcome.get("headers")?.as_array()? {
        let name = HeaderName::from_bytes(header.get(0)?.as_str()?.as_bytes()).ok()?;
        let value: Option<Vec<u8>> = header.get(1)?.as_str()?.chars().map(|c| u8::try_from(c).ok()).collect();
        response.headers_mut().append(name, HeaderValue::from_bytes(&value?).ok()?);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::http::header::{CONTENT_TYPE, LOCATION};

    fn parts(headers: &[(&'static str, &[u8])]) -> Parts {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::CREATED;
        for (name, value) in headers {
            response.headers_mut().append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        response.into_parts().0
    }

    #[test]
    fn a_response_comes_back_byte_for_byte() {
        let parts =
            parts(&[("location", b"/p/1"), ("location", b"/p/\xe9"), ("content-type", b"a/b"), ("date", b"now")]);
        for body in [&b""[..], b"{\"id\":7}", b"\0\x01\xff\xfe", "あ\u{0}".as_bytes()] {
            let outcome = outcome(&parts, Some(&Bytes::copy_from_slice(body)), &[LOCATION, CONTENT_TYPE]);
            let back = response(&outcome).unwrap();
            assert_eq!(back.status(), StatusCode::CREATED);
            assert_eq!(back.body().as_deref(), Some(body));
            let locations: Vec<_> = back.headers().get_all(LOCATION).iter().map(HeaderValue::as_bytes).collect();
            assert_eq!(locations, [&b"/p/1"[..], b"/p/\xe9"]);
            assert_eq!(back.headers().len(), 3, "a header that is not on the list is not kept");
        }
    }

    #[test]
    fn cookies_and_lengths_are_never_kept_even_if_they_are_on_the_list() {
        let parts = parts(&[("set-cookie", b"session=1"), ("content-length", b"7")]);
        assert_eq!(outcome(&parts, None, &NEVER_KEPT)["headers"], json!([]));
    }

    #[test]
    fn a_body_is_kept_exactly_as_long_as_the_outcome_fits() {
        let parts = parts(&[]);
        let of = |body: Vec<u8>| outcome(&parts, Some(&body.into()), &[]);
        let around = of(Vec::new()).to_string().len();
        let fits = of(vec![b'x'; MAX_OUTCOME_BYTES - around]);
        assert_eq!(fits.to_string().len(), MAX_OUTCOME_BYTES);
        assert!(response(&fits).unwrap().body().is_some());
        let large = response(&of(vec![b'x'; MAX_OUTCOME_BYTES - around + 1])).unwrap();
        assert_eq!((large.status(), large.body()), (StatusCode::CREATED, &None));
        // What counts is the JSON: a control character takes six bytes there.
        assert!(response(&of(vec![1; MAX_OUTCOME_BYTES / 6])).unwrap().body().is_none());
        assert!(response(&of(vec![0xff; MAX_OUTCOME_BYTES / 4 * 3])).unwrap().body().is_none());
    }

    #[test]
    fn what_is_not_a_response_is_not_read_as_one() {
        for outcome in [
            json!("tx-1"),
            json!({ "status": 201 }),
            json!({ "status": 99, "headers": [] }),
            json!({ "status": 200, "headers": [["a"]] }),
            json!({ "status": 200, "headers": [], "base64": "?" }),
        ] {
            assert!(response(&outcome).is_none(), "{outcome}");
        }
    }
}
