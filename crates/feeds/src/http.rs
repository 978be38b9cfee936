//! What all our HTTP clients have in common.

use std::{error::Error, fmt::Write, sync::Once};

/// A client builder: TLS by ring, no proxy of the environment (it would see what the address checks do not).
pub(crate) fn builder() -> reqwest::ClientBuilder {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that the process has chosen one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().no_proxy()
}

/// Why a request failed, without its URL: URLs hold tokens.
pub(crate) fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}
