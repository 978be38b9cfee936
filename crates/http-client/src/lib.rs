//! What every client of somebody else's HTTP API has in common.
//!
//! [`builder`] begins a client with TLS by ring. [`NoAnswer`] says why a request got no answer, and whether it may have
//! arrived. Only a request that certainly did not arrive may be repeated without asking the other side. No error of this
//! crate contains a URL, because URLs contain tokens. [`retry_after`] reads how long the other side asks to wait.

use std::time::Duration;

use ichido::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Begins a client with TLS by ring. The start-up of aws-lc would take longer than the rest of a cold start.
pub fn builder() -> reqwest::ClientBuilder {
    install_ring();
    reqwest::Client::builder()
}

/// Makes ring the TLS provider of this process. Calling it again, or after somebody else chose a provider, changes nothing.
pub fn install_ring() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has installed a provider, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Why a request got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NoAnswer {
    /// Whether the other side may have received the request, and so may have acted on it.
    pub may_have_arrived: bool,
    /// What went wrong and why, in one line without the URL.
    pub reason: String,
}

impl From<reqwest::Error> for NoAnswer {
    fn from(error: reqwest::Error) -> Self {
        // Only these two happen before the first byte is sent.
        let may_have_arrived = !(error.is_connect() || error.is_builder());
        Self { may_have_arrived, reason: reason(error) }
    }
}

/// An error with its causes in one line, without the URL.
pub fn reason(error: reqwest::Error) -> String {
    telemetry::causes(&error.without_url())
}

/// How long `Retry-After` asks us to wait: it is a number of seconds, or a date. `None` if there is no such header or it
/// cannot be read.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    parse_retry_after(value(headers)?, now)
}

/// As [`retry_after`], but a date is not read. A function that knows only this one is smaller by a calendar.
pub fn retry_after_seconds(headers: &HeaderMap) -> Option<Duration> {
    seconds(value(headers)?)
}

/// How long the value of a `Retry-After` header asks us to wait.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    seconds(value).or_else(|| {
        let at = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp();
        Some(Timestamp::from_millis(u64::try_from(at.as_millisecond()).ok()?).since(now))
    })
}

fn value(headers: &HeaderMap) -> Option<&str> {
    headers.get(RETRY_AFTER)?.to_str().ok()
}

/// A number that does not fit is more than a century, so it is a mistake of the other side.
fn seconds(value: &str) -> Option<Duration> {
    value.trim().parse::<u32>().ok().map(|seconds| Duration::from_secs(u64::from(seconds)))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())])
    }

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now = Timestamp::from_secs(1_000_000_000);
        let cases = [
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("0", Some(0)),
            ("Sun, 09 Sep 2001 01:46:49 GMT", Some(9)),
            ("Sun, 09 Sep 2001 01:46:31 GMT", Some(0)),
            ("Sun, 09 Sep 1951 01:46:31 GMT", None),
            ("99999999999999", None),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (value, expected) in cases {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&with(value), now), expected, "{value:?}");
            assert_eq!(parse_retry_after(value, now), expected, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_date_is_not_read_if_only_seconds_are_wanted() {
        assert_eq!(retry_after_seconds(&with("7")), Some(Duration::from_secs(7)));
        assert_eq!(retry_after_seconds(&with("Sun, 09 Sep 2001 01:46:49 GMT")), None);
    }

    #[tokio::test]
    async fn a_request_that_never_connected_did_not_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let sent = builder().no_proxy().build().unwrap().get(format!("http://{address}/secret-path")).send().await;
        let error = NoAnswer::from(sent.unwrap_err());
        assert!(!error.may_have_arrived, "{error}");
        assert!(!error.reason.contains("secret-path"), "{error}");
    }

    #[tokio::test]
    async fn a_request_whose_connection_broke_may_have_arrived() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 1024]);
        });
        let sent = builder().no_proxy().build().unwrap().get(format!("http://{address}/secret-path")).send().await;
        let error = NoAnswer::from(sent.unwrap_err());
        assert!(error.may_have_arrived, "{error}");
        assert!(!error.reason.contains("secret-path"), "{error}");
    }
}
