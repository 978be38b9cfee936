//! JSON Web Tokens: verified here and nowhere else.
//!
//! A token is accepted if the key of the [`KeySet`] that its `kid` names has signed it with the key's own algorithm
//! (RS256 for RSA keys, ES256 for P-256 keys), and if issuer, audience and times are right. The algorithm is the key's,
//! not the token's. So `none`, HMAC under a public key and every other confusion fail, because no key has that algorithm.
//! If anything is wrong, the caller gets 401 and nothing is done.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ichido::Timestamp;
use serde::Deserialize;

use super::did::Did;
use super::keys::KeySet;

/// The longest token that is accepted, in bytes.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// How far the issuer's clock may be from ours.
pub const LEEWAY: Duration = Duration::from_secs(30);

/// The scope of operators, who may see every account, freeze accounts and reverse transfers.
pub const OPERATOR_SCOPE: &str = "tokens:operator";

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub did: Did,
    /// Has the operator's scope.
    pub operator: bool,
}

/// Why a token was not accepted. No message quotes the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the request needs a bearer token")]
    Missing,
    #[error("the token is not a signed JWT")]
    Malformed,
    #[error("the token's algorithm is not the algorithm of its key")]
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

/// What a token must say, beside being signed by a known key.
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
            // It lists extensions that the receiver must understand. This one understands none.
            return Err(Error::Malformed);
        }
        let kid = header.kid.ok_or(Error::UnknownKey)?;
        let key = keys.get(&kid).ok_or(Error::UnknownKey)?;
        if header.alg != key.algorithm() {
            return Err(Error::Algorithm);
        }
        if !key.has_signed(signed.as_bytes(), &decode(signature)?) {
            return Err(Error::Signature);
        }
        self.accept(decode_json(payload)?, now)
    }

    fn accept(&self, claims: Claims, now: Timestamp) -> Result<Caller, Error> {
        // NumericDate may have a fraction, so times are compared in milliseconds.
        let expires = claims.exp.ok_or(Error::Expired)?.millis();
        let leeway = i128::try_from(LEEWAY.as_millis()).unwrap_or(0);
        let now = i128::from(now.as_millis());
        // A date beyond every other, such as 1e300, is as late as can be.
        if now >= expires.saturating_add(leeway) {
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
            // A fraction, or beyond any date. `as` saturates, and JSON has no NaN.
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
