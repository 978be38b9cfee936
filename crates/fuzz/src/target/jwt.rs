//! JSON Web Tokens and the key set that they are verified with.
//!
//! The input is a JOSE header and claims, both JSON, with a line `---` between them. They are signed with a key that is known,
//! so that the fuzzer reaches what is behind the signature. The whole input is also taken as an `Authorization` header and as a key set.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ichido::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokens::identity::jwt::{Caller, Expectations, LEEWAY, OPERATOR_SCOPE};
use tokens::identity::keys::KeySet;

use super::halves;

const NOW: u64 = 1_700_000_000;
const KID: &str = "k1";
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "tokens";

/// A key of this process. So no input contains a token that it has signed.
struct Issuer {
    key: EcdsaKeyPair,
    keys: KeySet,
    expectations: Expectations,
}

static THE_ISSUER: LazyLock<Issuer> = LazyLock::new(|| {
    let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let document = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
    let key = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).expect("a key");
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    let jwks =
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": KID, "x": BASE64.encode(x), "y": BASE64.encode(y)}]});
    let keys = KeySet::parse(&jwks.to_string()).expect("a key set");
    Issuer { key, keys, expectations: Expectations { issuer: ISSUER.to_owned(), audience: AUDIENCE.to_owned() } }
});

impl Issuer {
    fn verify(&self, authorization: &str) -> Option<Caller> {
        self.expectations.verify(Some(authorization), &self.keys, Timestamp::from_secs(NOW)).ok()
    }

    /// `Bearer` and a signed token.
    fn authorization(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("Bearer {signed}.{}", BASE64.encode(signature))
    }
}

pub(crate) fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    key_set(&text);
    assert_eq!(THE_ISSUER.verify(&text), None, "a token that nobody signed was accepted");
    assert_eq!(THE_ISSUER.verify(&format!("Bearer {text}")), None, "a token that nobody signed was accepted");

    let (header, claims) = halves(&text);
    let authorization = THE_ISSUER.authorization(header, claims);
    let Some(caller) = THE_ISSUER.verify(&authorization) else { return };
    assert_allows(header, claims, &caller);
    // The same token with one character changed.
    let mut changed = authorization.into_bytes();
    let at = "Bearer ".len() + data.len() % (changed.len() - "Bearer ".len());
    changed[at] = if changed[at] == b'A' { b'Q' } else { b'A' };
    let changed = String::from_utf8(changed).expect("ASCII");
    assert_eq!(THE_ISSUER.verify(&changed), None, "a token that was changed after it was signed was accepted");
}

fn key_set(text: &str) {
    match KeySet::parse(text) {
        // A key set that can be read accepts nothing that its keys have not signed.
        Ok(keys) => {
            let token =
                format!("Bearer {}.{}.{}", BASE64.encode(r#"{"alg":"ES256","kid":"k1"}"#), BASE64.encode("{}"), "AAAA");
            assert!(THE_ISSUER.expectations.verify(Some(&token), &keys, Timestamp::from_secs(NOW)).is_err());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What an accepted token must say, read by a reader of our own.
fn assert_allows(header: &str, claims: &str, caller: &Caller) {
    let header: Value = serde_json::from_str(header).expect("the header of an accepted token is JSON");
    let claims: Value = serde_json::from_str(claims).expect("the claims of an accepted token are JSON");
    assert!(
        header["alg"] == "ES256" && header["kid"] == KID && header.get("crit").is_none_or(Value::is_null),
        "{header}"
    );
    assert_eq!(claims["iss"], ISSUER);
    let for_us =
        claims["aud"] == AUDIENCE || claims["aud"].as_array().is_some_and(|all| all.contains(&json!(AUDIENCE)));
    assert!(for_us, "{claims}");
    let (now, leeway) = (NOW as f64, LEEWAY.as_secs_f64());
    assert!(claims["exp"].as_f64().is_some_and(|expires| now < expires + leeway), "{claims}");
    // Times are compared in whole milliseconds.
    assert!(claims["nbf"].as_f64().is_none_or(|not_before| not_before < now + leeway + 0.001), "{claims}");
    assert_eq!(claims["sub"], caller.did.as_str());
    let scopes = claims["scope"].as_str().unwrap_or_default();
    assert_eq!(caller.operator, scopes.split(' ').any(|scope| scope == OPERATOR_SCOPE), "{claims}");
}
