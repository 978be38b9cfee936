//! An issuer of tokens for development and tests. It has a key and signs ES256 tokens with it.
//!
//! The token API has no code for this issuer. It gets the public key as configuration, like that of a real issuer.

use std::fmt::{self, Display};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ichido::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

/// Signs tokens for one issuer name, audience and key.
pub struct Issuer {
    name: String,
    audience: String,
    kid: String,
    key: EcdsaKeyPair,
    random: SystemRandom,
}

/// The key could not be made or used: the system has no random numbers, or the kept key is damaged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key of the development issuer could not be made or used")]
pub struct Error;

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name).field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl Issuer {
    /// An issuer with a new key.
    pub fn new(name: impl Into<String>, audience: impl Into<String>, kid: impl Into<String>) -> Result<Self, Error> {
        Self::with_key(name, audience, kid, &Self::new_key()?)
    }

    /// A new private key (PKCS #8), for an issuer that must be the same after a restart.
    pub fn new_key() -> Result<Vec<u8>, Error> {
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).map_err(|_| Error)?;
        Ok(document.as_ref().to_vec())
    }

    /// An issuer with a kept key.
    pub fn with_key(
        name: impl Into<String>,
        audience: impl Into<String>,
        kid: impl Into<String>,
        pkcs8: &[u8],
    ) -> Result<Self, Error> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).map_err(|_| Error)?;
        Ok(Issuer { name: name.into(), audience: audience.into(), kid: kid.into(), key, random })
    }

    /// The public key as JWKS.
    pub fn jwks(&self) -> Value {
        json!({ "keys": [self.jwk()] })
    }

    /// The public key as JWK.
    pub fn jwk(&self) -> Value {
        // 0x04, then x, then y
        let point = self.key.public_key().as_ref().get(1..).unwrap_or_default();
        let (x, y) = point.split_at(point.len() / 2);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }

    /// A token for `subject`.
    pub fn token(&self, subject: impl Display, expires: Timestamp) -> Result<String, Error> {
        self.sign(&self.claims(subject, expires))
    }

    /// A token for `subject` with a scope.
    pub fn scoped_token(&self, subject: impl Display, scope: &str, expires: Timestamp) -> Result<String, Error> {
        let mut claims = self.claims(subject, expires);
        claims["scope"] = scope.into();
        self.sign(&claims)
    }

    /// The claims of a token that is accepted.
    pub fn claims(&self, subject: impl Display, expires: Timestamp) -> Value {
        json!({ "iss": self.name, "aud": self.audience, "sub": subject.to_string(), "exp": expires.as_secs() })
    }

    /// Signs any claims.
    pub fn sign(&self, claims: &Value) -> Result<String, Error> {
        self.sign_with(&json!({ "alg": "ES256", "typ": "JWT", "kid": self.kid }), claims)
    }

    /// Signs any claims under any header. Tests need headers that must be refused.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> Result<String, Error> {
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(&self.random, signed.as_bytes()).map_err(|_| Error)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_token_is_signed_with_the_key_that_is_published() {
        let issuer = Issuer::new("https://issuer.example", "tokens", "k1").unwrap();
        let token = issuer.scoped_token("did:key:alice", "admin", Timestamp::from_secs(60)).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let claims: Value = serde_json::from_slice(&decode(signed.split_once('.').unwrap().1)).unwrap();
        assert_eq!(
            claims,
            json!({
                "iss": "https://issuer.example", "aud": "tokens", "sub": "did:key:alice", "exp": 60, "scope": "admin",
            })
        );
        let jwk = issuer.jwk();
        let point = [vec![4], decode(jwk["x"].as_str().unwrap()), decode(jwk["y"].as_str().unwrap())].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed.as_bytes(), &decode(signature)).unwrap();
    }

    #[test]
    fn an_issuer_with_a_kept_key_is_the_same_and_a_damaged_key_is_an_error() {
        let key = Issuer::new_key().unwrap();
        let issuer = |key: &[u8]| Issuer::with_key("i", "a", "k", key);
        assert_eq!(issuer(&key).unwrap().jwks(), issuer(&key).unwrap().jwks());
        assert_eq!(issuer(&key[1..]).unwrap_err(), Error);
    }
}
