//! The certificate of the TLS port. It is made at the first start and kept; clients must be told to trust it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::platform::data::{CERTIFICATE, write_private};

/// The names that the certificate is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Why the TLS port cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the certificate of the TLS port could not be made: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the certificate {} cannot be used: {reason}; remove it and start again", path.display())]
    Use { path: PathBuf, reason: String },
}

/// The configuration of the TLS port, with the certificate in `directory`.
pub(crate) fn config(directory: Option<&Path>) -> Result<Arc<ServerConfig>, Error> {
    let (certificate, key) = match directory {
        None => make()?,
        Some(directory) => {
            let (certificate, key) = (directory.join(CERTIFICATE), directory.join("key.pem"));
            let unusable = |error: std::io::Error| Error::Use { path: certificate.clone(), reason: error.to_string() };
            if !certificate.exists() || !key.exists() {
                let (made, its_key) = make()?;
                write_private(&key, &its_key).map_err(unusable)?;
                std::fs::write(&certificate, made).map_err(unusable)?;
            }
            (std::fs::read_to_string(&certificate).map_err(unusable)?, std::fs::read_to_string(&key).map_err(unusable)?)
        }
    };
    let path = directory.unwrap_or(Path::new("memory")).join(CERTIFICATE);
    let unusable = |reason: String| Error::Use { path: path.clone(), reason };
    let certificate =
        CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| unusable(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| unusable(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(|error| unusable(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn make() -> Result<(String, String), Error> {
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned).to_vec())?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}
