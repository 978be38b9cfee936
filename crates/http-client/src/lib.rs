//! What every client of somebody else's HTTP API has in common.
//!
//! [`builder`] begins a client with TLS by ring. [`NoAnswer`] says why a request got no answer, and whether it may have
//! arrived. Only a request that certainly did not arrive may be repeated without asking the other side. No error of this
//! crate contains a URL, because URLs contain tokens.

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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

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
