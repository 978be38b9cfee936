//! An issuer for development and tests: makes a key when it is made, and signs ES256 tokens with it.
//!
//! The service does not know it: it gets the issuer's public keys as configuration, as it would get anyone's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ichido::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::did::Did;
use crate::jwt::OPERATOR_SCOPE;

/// Signs tokens for one issuer name, audience and key.
pub struct Issuer {
    name: String,
    audience: String,
    kid: String,
    key: EcdsaKeyPair,
    random: SystemRandom,
}

/// The key could not be made or used: the system has no randomness, or the kept key is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the development issuer's key could not be made or used")]
pub struct Error;

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("name", &self.name).field("kid", &self.kid).finish_non_exhaustive()
    }
}

impl Issuer {
    /// An issuer with a new key.
    pub fn new(name: impl Into<String>, audience: impl Into<String>, kid: impl Into<String>) -> Result<Self, Error> {
        Self::with_key(name, audience, kid, &Self::new_key()?)
    }

    /// A new private key (PKCS #8), for an issuer that has to be the same after a restart.
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
        let point = self.key.public_key().as_ref();
        let (x, y) = point[1..].split_at((point.len() - 1) / 2);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }

    /// A token for the owner of an account.
    pub fn token(&self, did: &Did, expires: Timestamp) -> Result<String, Error> {
        self.sign(&self.claims(did, expires))
    }

    /// A token with the operator's scope.
    pub fn operator_token(&self, did: &Did, expires: Timestamp) -> Result<String, Error> {
        let mut claims = self.claims(did, expires);
        claims["scope"] = OPERATOR_SCOPE.into();
        self.sign(&claims)
    }

    /// The claims of a token that is accepted.
    pub fn claims(&self, did: &Did, expires: Timestamp) -> Value {
        json!({ "iss": self.name, "aud": self.audience, "sub": did.as_str(), "exp": expires.as_secs() })
    }

    /// Signs any claims.
    pub fn sign(&self, claims: &Value) -> Result<String, Error> {
        self.sign_with(&json!({ "alg": "ES256", "typ": "JWT", "kid": self.kid }), claims)
    }

    /// Signs under any header, for tests of those that must be refused.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> Result<String, Error> {
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(&self.random, signed.as_bytes()).map_err(|_| Error)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
