//! Who is calling: JSON Web Tokens, verified here and nowhere else.
//!
//! A token is accepted if a key of the [`KeySet`] named by its `kid` has signed it with that key's own algorithm
//! (RS256 for RSA keys, ES256 for P-256 keys), and issuer, audience and times are right. The algorithm is the key's,
//! not the token's: `none`, HMAC under a public key and every other confusion fail because no key has that algorithm.
//! Whatever is wrong, the caller gets 401 and nothing was done.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ichido::Timestamp;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

use crate::did::Did;

/// The longest token that is looked at, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// How far the issuer's clock may be from ours.
pub const LEEWAY: Duration = Duration::from_secs(30);

/// The scope of those who may see and do everything.
pub const OPERATOR_SCOPE: &str = "tokens:operator";

/// The most keys in a set: rotation takes two, several issuers' a few more.
pub const MAX_KEYS: usize = 32;

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub did: Did,
    /// Has the operator's scope.
    pub operator: bool,
}

/// Why a token was not accepted. None of them quotes the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a bearer token is required")]
    Missing,
    #[error("the token is not a signed JWT")]
    Malformed,
    #[error("the token's algorithm is not the one of its key")]
    Algorithm,
    #[error("the token's key is not known")]
    UnknownKey,
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token's subject is not a DID")]
    Subject,
}

/// What is asked of a token beside a good signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectations {
    pub issuer: String,
    pub audience: String,
}

impl Expectations {
    /// Verifies the value of an `Authorization` header.
    pub fn verify(&self, authorization: Option<&str>, keys: &KeySet, now: Timestamp) -> Result<Caller, Error> {
        let token = bearer(authorization)?;
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Error::Malformed);
        };
        let signed = &token[..header.len() + 1 + payload.len()];
        let header: Header = decode_json(header)?;
        if header.crit.is_some() {
            // says: refuse me if you do not understand this; we understand none
            return Err(Error::Malformed);
        }
        let kid = header.kid.ok_or(Error::UnknownKey)?;
        let key = keys.0.get(&kid).ok_or(Error::UnknownKey)?;
        if header.alg != key.algorithm() {
            return Err(Error::Algorithm);
        }
        key.verify(signed.as_bytes(), &decode(signature)?)?;
        self.accept(decode_json(payload)?, now)
    }

    fn accept(&self, claims: Claims, now: Timestamp) -> Result<Caller, Error> {
        // NumericDate may have a fraction; it is compared in milliseconds, rounded towards refusal.
        let expires = claims.exp.ok_or(Error::Expired)?.millis();
        let leeway = i128::try_from(LEEWAY.as_millis()).unwrap_or(0);
        let now = i128::from(now.as_millis());
        if now >= expires + leeway {
            return Err(Error::Expired);
        }
        if claims.nbf.is_some_and(|not_before| now + leeway < not_before.millis()) {
            return Err(Error::NotYet);
        }
        if claims.iss.as_deref() != Some(self.issuer.as_str()) {
            return Err(Error::Issuer);
        }
        let for_us = match &claims.aud {
            Some(Audience::One(audience)) => *audience == self.audience,
            Some(Audience::Many(audiences)) => audiences.contains(&self.audience),
            None => false,
        };
        if !for_us {
            return Err(Error::Audience);
        }
        let did = claims.sub.as_deref().unwrap_or_default().parse().map_err(|_| Error::Subject)?;
        let operator = claims.scope.unwrap_or_default().split(' ').any(|scope| scope == OPERATOR_SCOPE);
        Ok(Caller { did, operator })
    }
}

/// The `kid` of a token, before anything is known of it: tells whether the keys should be read again.
pub fn key_id(authorization: Option<&str>) -> Option<String> {
    let token = bearer(authorization).ok()?;
    decode_json::<Header>(token.split('.').next()?).ok()?.kid
}

fn bearer(authorization: Option<&str>) -> Result<&str, Error> {
    let (scheme, token) = authorization.and_then(|value| value.split_once(' ')).ok_or(Error::Missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Error::Missing);
    }
    let token = token.trim_matches(' ');
    if token.is_empty() {
        return Err(Error::Missing);
    }
    if token.len() > MAX_TOKEN_BYTES || !token.is_ascii() {
        return Err(Error::Malformed);
    }
    Ok(token)
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<Audience>,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    scope: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Seconds since the epoch, as the issuer wrote them.
#[derive(Deserialize)]
struct NumericDate(serde_json::Number);

impl NumericDate {
    fn millis(&self) -> i128 {
        match self.0.as_i64() {
            Some(seconds) => i128::from(seconds) * 1000,
            // a fraction, or beyond any date: `as` saturates, and NaN does not exist in JSON
            None => (self.0.as_f64().unwrap_or(0.0) * 1000.0) as i128,
        }
    }
}

fn decode(text: &str) -> Result<Vec<u8>, Error> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::Malformed)
}

fn decode_json<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Error> {
    serde_json::from_slice(&decode(text)?).map_err(|_| Error::Malformed)
}

// Keys

/// The public keys that issuers sign with, by `kid`: during a rotation the old one and the new one.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet(BTreeMap<String, Key>);

/// Why a text is not a set of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    #[error("the key set is not a JWKS: an object with a list of keys")]
    NotAKeySet,
    #[error("the key set has no RSA (2048 to 8192 bits) or P-256 key with a kid")]
    NoKey,
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooMany,
    #[error("two keys of the set have the same kid")]
    Twice,
}

#[derive(Clone, PartialEq, Eq)]
enum Key {
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
    /// Reads a JWKS. Keys for other purposes or of other kinds are passed over.
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

    fn algorithm(&self) -> &'static str {
        match self {
            Key::Rsa { .. } => "RS256",
            Key::P256(_) => "ES256",
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), Error> {
        match self {
            Key::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Key::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        }
        .map_err(|_| Error::Signature)
    }
}
