//! Tokens that are accepted, and the many that are not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use emulator::issuer::Issuer;
use ichido::Timestamp;
use serde_json::{Value, json};
use tokens::identity::did::Did;
use tokens::identity::jwt::{Error, Expectations, LEEWAY, MAX_TOKEN_BYTES, OPERATOR_SCOPE};
use tokens::identity::keys::{KeySet, KeySetError};

const NOW: Timestamp = Timestamp::from_secs(1_750_000_000);

/// An RSA public key whose private half was thrown away after it had signed [`rsa_token`].
const RSA_MODULUS: &str = "rL22FwEFaToT3lFt-HhQiTGgpB7ZytpzOIEbGSTjo54ZwS771CCm7AOKZkR-Ru5sb3n-leE951c6rDeBWGlKydfM8IZGawx8rsWIVcl3mB9U0OSwfsaahO7Iz0Sm77i0NMSaFWgYPcAyhzlA68Q3HL5DZ9m-n-FAH2WmXJUd71dK-MQWvDV1XGivNXKTmd22p5LdjXuG3idZxSDK2_L70VtXDmXg5k_BFbYAcnDMpC8tgxmWQskfSop6sQdk4rMVhvDBk7yVfwkrfhtcMwdEfhk7sjeFefeciwMDqR-OqwuNaMez9pnSzvuuD6q6nH5gkY57mN_1PT7aMD9BliB4OQ";
const RSA_SIGNATURE: &str = "Kytro0vRrT0F-XTTdQWg6QHGCGgQyPwRqWwul9utRXVAlgz1ey3l9c739oOo3rZe-hB0M6gc1D_HHGP4MjcOONdAdO1LVX13ZmB2VCuIsPwyc-aZf7j_FXfWLQTSY6ILXCA6wmwp-Ph-X60zvFkPq-X5JBlaaQgAl0f_Br0GPSpwVqQ9LEPKDBpP3EUBqkxWyoVPitKiw7oFMHtTVMAwBygoO2EqTVwOIKLrikRWxTXc9q6f8GDfWd7X_sk-IFtD9oqwM9QTN1wTMyqCNSr-CKdcSqBgZ9MaNmYO9ScRdkbFC86AOIRGLV2jws2PpQLQ2dE_2bGltDKdK2tdsEDpyg";

/// For `https://issuer.example`, audiences `tokens` and `other`, from 1 700 000 000 to 1 800 000 000.
fn rsa_token() -> String {
    let header = r#"{"alg":"RS256","typ":"JWT","kid":"rsa-1"}"#;
    let claims = r#"{"iss":"https://issuer.example","aud":["tokens","other"],"sub":"did:key:alice","exp":1800000000,"nbf":1700000000}"#;
    format!("{}.{}.{RSA_SIGNATURE}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

fn rsa_jwk() -> Value {
    json!({ "kty": "RSA", "kid": "rsa-1", "use": "sig", "alg": "RS256", "n": RSA_MODULUS, "e": "AQAB" })
}

fn expectations() -> Expectations {
    Expectations { issuer: "https://issuer.example".into(), audience: "tokens".into() }
}

fn issuer(kid: &str) -> Issuer {
    Issuer::new("https://issuer.example", "tokens", kid).unwrap()
}

fn alice() -> Did {
    "did:key:alice".parse().unwrap()
}

fn keys(jwks: Value) -> KeySet {
    KeySet::parse(&jwks.to_string()).unwrap()
}

/// `Ok(operator?)` or the error.
fn verify(token: &str, keys: &KeySet, now: Timestamp) -> Result<bool, Error> {
    let caller = expectations().verify(Some(&format!("Bearer {token}")), keys, now)?;
    assert_eq!(caller.did, alice());
    Ok(caller.operator)
}

fn later(seconds: u64) -> Timestamp {
    Timestamp::from_secs(NOW.as_secs() + seconds)
}

#[test]
fn es256_and_rs256_tokens_are_accepted() {
    let issuer = issuer("ec-1");
    let both = keys(json!({ "keys": [issuer.jwk(), rsa_jwk()] }));
    assert_eq!(verify(&issuer.token(alice(), later(60)).unwrap(), &both, NOW), Ok(false));
    assert_eq!(verify(&issuer.scoped_token(alice(), OPERATOR_SCOPE, later(60)).unwrap(), &both, NOW), Ok(true));
    assert_eq!(verify(&rsa_token(), &both, NOW), Ok(false));
    // the scheme's name has no case
    assert!(expectations().verify(Some(&format!("bearer {}", rsa_token())), &both, NOW).is_ok());
}

#[test]
fn times_are_checked_with_a_small_leeway() {
    let rsa = keys(json!({ "keys": [rsa_jwk()] }));
    let at = |seconds| verify(&rsa_token(), &rsa, Timestamp::from_secs(seconds));
    let leeway = LEEWAY.as_secs();
    assert_eq!(at(1_800_000_000 + leeway - 1), Ok(false));
    assert_eq!(at(1_800_000_000 + leeway), Err(Error::Expired));
    assert_eq!(at(1_700_000_000 - leeway), Ok(false));
    assert_eq!(at(1_700_000_000 - leeway - 1), Err(Error::NotYet));

    let issuer = issuer("ec-1");
    let set = keys(issuer.jwks());
    let mut eternal = issuer.claims(alice(), later(60));
    eternal.as_object_mut().unwrap().remove("exp");
    assert_eq!(
        verify(&issuer.sign(&eternal).unwrap(), &set, NOW),
        Err(Error::Expired),
        "a token without an end is none"
    );
}

#[test]
fn a_token_for_somebody_else_is_refused() {
    let issuer = issuer("ec-1");
    let set = keys(issuer.jwks());
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims(alice(), later(60));
        claims[name] = value;
        verify(&issuer.sign(&claims).unwrap(), &set, NOW)
    };
    assert_eq!(with("iss", json!("https://issuer.example.evil")), Err(Error::Issuer));
    assert_eq!(with("iss", Value::Null), Err(Error::Issuer));
    assert_eq!(with("aud", json!("other")), Err(Error::Audience));
    assert_eq!(with("aud", json!([])), Err(Error::Audience));
    assert_eq!(with("aud", json!(["other", "tokens"])), Ok(false));
    assert_eq!(with("sub", json!("alice")), Err(Error::Subject));
    assert_eq!(with("sub", Value::Null), Err(Error::Subject));
    assert_eq!(with("scope", json!("tokens:operators email")), Ok(false), "a scope is a whole word");
    assert_eq!(with("exp", json!("1800000000")), Err(Error::Malformed));
}

#[test]
fn no_algorithm_but_the_keys_own_is_accepted() {
    let issuer = issuer("ec-1");
    let set = keys(json!({ "keys": [issuer.jwk(), rsa_jwk()] }));
    let claims = issuer.claims(alice(), later(60));
    for (header, error) in [
        (json!({ "alg": "none", "kid": "ec-1" }), Error::Algorithm),
        (json!({ "alg": "None", "kid": "ec-1" }), Error::Algorithm),
        (json!({ "alg": "HS256", "kid": "ec-1" }), Error::Algorithm),
        (json!({ "alg": "ES384", "kid": "ec-1" }), Error::Algorithm),
        (json!({ "alg": "RS256", "kid": "ec-1" }), Error::Algorithm),
        (json!({ "alg": "ES256", "kid": "rsa-1" }), Error::Algorithm),
        (json!({ "alg": "RS256", "kid": "rsa-1" }), Error::Signature),
        (json!({ "alg": "ES256" }), Error::UnknownKey),
        (json!({ "alg": "ES256", "kid": "ec-2" }), Error::UnknownKey),
        (json!({ "alg": "ES256", "kid": "ec-1", "crit": ["b64"] }), Error::Malformed),
        (json!({ "kid": "ec-1" }), Error::Malformed),
    ] {
        assert_eq!(verify(&issuer.sign_with(&header, &claims).unwrap(), &set, NOW), Err(error), "{header}");
    }
    // unsigned, as `none` has it
    let unsigned = issuer.sign_with(&json!({ "alg": "none", "kid": "ec-1" }), &claims).unwrap();
    let unsigned = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
    assert_eq!(verify(&unsigned, &set, NOW), Err(Error::Algorithm));
    // HMAC under the public key, the classical confusion
    let signed = issuer.sign_with(&json!({ "alg": "HS256", "kid": "rsa-1" }), &claims).unwrap();
    let signed = signed.rsplit_once('.').unwrap().0;
    let mac =
        ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, RSA_MODULUS.as_bytes()), signed.as_bytes());
    assert_eq!(verify(&format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac)), &set, NOW), Err(Error::Algorithm));
}

#[test]
fn a_changed_token_is_refused() {
    let (first, second) = (issuer("ec-1"), issuer("ec-1"));
    let set = keys(first.jwks());
    let token = first.token(alice(), later(60)).unwrap();
    assert_eq!(
        verify(&second.token(alice(), later(60)).unwrap(), &set, NOW),
        Err(Error::Signature),
        "another key of the same name"
    );

    let [header, _, signature]: [&str; 3] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let mut claims = first.claims(alice(), later(60));
    claims["scope"] = json!("tokens:operator");
    let forged = format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    assert_eq!(verify(&forged, &set, NOW), Err(Error::Signature));
}

#[test]
fn what_is_no_token_is_no_token() {
    let set = keys(issuer("ec-1").jwks());
    let refused = |header: Option<&str>| expectations().verify(header, &set, NOW).unwrap_err();
    assert_eq!(refused(None), Error::Missing);
    for header in ["", "Bearer", "Bearer ", "Basic YTpi", "token"] {
        assert_eq!(refused(Some(header)), Error::Missing, "{header:?}");
    }
    for header in ["Bearer a", "Bearer a.b", "Bearer a.b.c", "Bearer a.b.c.d", "Bearer ..", "Bearer é.é.é"] {
        assert_eq!(refused(Some(header)), Error::Malformed, "{header:?}");
    }
    assert_eq!(refused(Some(&format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1)))), Error::Malformed);
}

#[test]
fn during_a_rotation_both_keys_are_good_and_afterwards_the_old_one_is_not() {
    let (old, new) = (issuer("2026-01"), issuer("2026-02"));
    let during = keys(json!({ "keys": [old.jwk(), new.jwk()] }));
    let after = keys(new.jwks());
    let (old, new) = (old.token(alice(), later(60)).unwrap(), new.token(alice(), later(60)).unwrap());
    assert_eq!((verify(&old, &during, NOW), verify(&new, &during, NOW)), (Ok(false), Ok(false)));
    assert_eq!((verify(&old, &after, NOW), verify(&new, &after, NOW)), (Err(Error::UnknownKey), Ok(false)));
}

#[test]
fn a_key_set_passes_over_what_it_cannot_use_and_refuses_what_is_ambiguous() {
    let ec = issuer("ec-1").jwk();
    let parse = |keys: Value| KeySet::parse(&json!({ "keys": keys }).to_string());
    let with = |name: &str, value: Value| {
        let mut jwk = ec.clone();
        jwk[name] = value;
        jwk
    };
    assert!(parse(json!([with("use", json!("enc")), ec])).is_ok_and(|keys| keys.has("ec-1")));
    for unusable in [
        with("use", json!("enc")),
        with("alg", json!("RS256")),
        with("crv", json!("P-384")),
        with("kty", json!("oct")),
        with("x", json!("AA")),
        with("kid", Value::Null),
        json!({ "kty": "RSA", "kid": "small", "n": "AQAB", "e": "AQAB" }),
    ] {
        assert_eq!(parse(json!([unusable])), Err(KeySetError::NoKey), "{unusable}");
    }
    assert_eq!(parse(json!([ec, ec])), Err(KeySetError::Twice));
    assert_eq!(parse(Value::Array(vec![ec; 33])), Err(KeySetError::TooMany));
    assert_eq!(KeySet::parse("[]"), Err(KeySetError::NotAKeySet));
}
