//! The issuer's public keys: from a parameter, read again while the function lives.
//!
//! Put a new key into the set at least [`function::aws::SECRET_KEPT`] before the issuer signs with it. Take the old one
//! out when its last token has expired. If a new set cannot be read, that is logged as an error and the set before it
//! stays in use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use function::Secret;
use function::aws;
use function::secret::Source;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

/// The most keys in a set. A rotation needs two, several issuers a few more.
pub(crate) const MAX_KEYS: usize = 32;

/// Where the keys come from, and the last ones that could be read.
#[derive(Debug)]
pub struct Keys {
    source: Source,
    /// The last text that was read, and the keys in it. Held for a look, never across a call.
    read: Mutex<Option<(Secret, Arc<KeySet>)>>,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Parameter(#[from] aws::Error),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
}

impl Keys {
    /// Keys from a source that holds a JWKS.
    pub fn new(source: Source) -> Self {
        Keys { source, read: Mutex::default() }
    }

    /// The parameter that holds the keys.
    pub(crate) fn parameter(&self) -> &str {
        self.source.name()
    }

    /// The keys as they are now.
    pub async fn current(&self) -> Result<Arc<KeySet>, Error> {
        let text = self.source.get().await?;
        let mut read = telemetry::lock(&self.read);
        if let Some((known, keys)) = &*read
            && *known == text
        {
            return Ok(Arc::clone(keys));
        }
        match (KeySet::parse(text.expose()), &*read) {
            (Ok(keys), _) => {
                let keys = Arc::new(keys);
                *read = Some((text, Arc::clone(&keys)));
                Ok(keys)
            }
            (Err(error), Some((_, keys))) => {
                let parameter = self.parameter();
                tracing::error!(
                    parameter,
                    error = &error as &(dyn std::error::Error + 'static),
                    "could not read the issuer's new public keys in parameter {parameter}; using the previous ones"
                );
                Ok(Arc::clone(keys))
            }
            (Err(error), None) => Err(error.into()),
        }
    }
}

/// Public keys by `kid`. During a rotation the set has the old key and the new one.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet(BTreeMap<String, Key>);

/// Why a text is not a set of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    #[error("the key set is not a JWKS, which is a JSON object with a list `keys`")]
    NotAKeySet,
    #[error("the key set has no usable key: it needs an RSA (2048 to 8192 bits) or P-256 key with a kid")]
    NoKey,
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooMany,
    #[error("two keys of the key set have the same kid; give each its own")]
    Twice,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Key {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// The uncompressed point.
    P256(Vec<u8>),
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a JWKS. Keys for other purposes or of other kinds are ignored.
    pub fn parse(text: &str) -> Result<Self, KeySetError> {
        let jwks: Jwks = serde_json::from_str(text).map_err(|_| KeySetError::NotAKeySet)?;
        if jwks.keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany);
        }
        let mut keys = BTreeMap::new();
        for jwk in jwks.keys {
            let Some((kid, key)) = Key::of(jwk) else { continue };
            if keys.insert(kid, key).is_some() {
                return Err(KeySetError::Twice);
            }
        }
        if keys.is_empty() { Err(KeySetError::NoKey) } else { Ok(KeySet(keys)) }
    }

    pub fn has(&self, kid: &str) -> bool {
        self.0.contains_key(kid)
    }

    pub(super) fn get(&self, kid: &str) -> Option<&Key> {
        self.0.get(kid)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Key {
    fn of(jwk: Jwk) -> Option<(String, Key)> {
        const P256_BYTES: usize = 32;
        const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        if jwk.used_for.is_some_and(|used_for| used_for != "sig") {
            return None;
        }
        let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Key::Rsa { n: bytes(jwk.n).filter(|n| RSA_BYTES.contains(&n.len()))?, e: bytes(jwk.e)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(jwk.x)?, bytes(jwk.y)?);
                if x.len() != P256_BYTES || y.len() != P256_BYTES {
                    return None;
                }
                Key::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            _ => return None,
        };
        if jwk.alg.is_some_and(|alg| alg != key.algorithm()) {
            return None;
        }
        Some((jwk.kid.filter(|kid| !kid.is_empty())?, key))
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Key::Rsa { .. } => "RS256",
            Key::P256(_) => "ES256",
        }
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Key::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Key::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        }
        .is_ok()
    }
}
