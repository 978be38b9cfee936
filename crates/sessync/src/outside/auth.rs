//! Access tokens for BigQuery.
//!
//! They come from a service account's key file, or from the application-default credentials in their usual order:
//! `GOOGLE_APPLICATION_CREDENTIALS`, gcloud's own file, the metadata server of a Google machine. No part of a key or
//! a token is ever in an error or in `Debug` output.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use tokio::sync::Mutex;

/// What a token is asked for: to insert rows and to query.
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
/// For how long a token is asked for.
const TOKEN_SECONDS: u64 = 3600;
/// How long before its end a token is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
const GOOGLE_TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const METADATA_HOST: &str = "metadata.google.internal";

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the credentials in {} cannot be read: {reason}; check `service_account_key_path`, or run `gcloud auth application-default login`", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error(
        "credentials of the type {0:?} are not supported; use a service account's key, or `gcloud auth application-default login`"
    )]
    Unsupported(String),
    #[error(
        "there are no credentials: set service_account_key_path, or run `gcloud auth application-default login` ({0})"
    )]
    None(String),
    #[error("the private key of the service account is not an RSA key in PKCS#8 form; download a new key file")]
    Key,
    #[error("Google gave no access token: {0}; check the credentials, or run `gcloud auth application-default login`")]
    Refused(String),
}

/// A larger key file is not read.
const MAX_KEY_BYTES: u64 = 1024 * 1024;

/// A key file.
#[derive(Clone)]
pub(crate) struct KeyFile {
    pub(crate) path: PathBuf,
    /// What was in it when the user's trust was checked. `None`: it is read when it is needed.
    pub(crate) content: Option<Vec<u8>>,
}

impl KeyFile {
    /// Where the key is exchanged for tokens, if that is not Google.
    pub(crate) fn token_address(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Key {
            token_uri: Option<String>,
        }
        let content = match &self.content {
            Some(content) => content.clone(),
            None => crate::dir::read_named(&self.path, MAX_KEY_BYTES).ok()?,
        };
        let address = serde_json::from_slice::<Key>(&content).ok()?.token_uri?;
        (address != GOOGLE_TOKEN_URI).then_some(address)
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Where tokens come from.
pub(crate) struct Credentials {
    source: Source,
    token: Mutex<Option<(String, Instant)>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.source {
            Source::ServiceAccount(account) => &account.client_email,
            Source::User(_) => "a user",
            Source::Metadata(_) => "the metadata server",
        };
        f.debug_tuple("Credentials").field(&kind).finish()
    }
}

enum Source {
    ServiceAccount(ServiceAccount),
    User(User),
    /// The server's host.
    Metadata(String),
}

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
    #[serde(default)]
    private_key_id: Option<String>,
    #[serde(default)]
    token_uri: Option<String>,
}

#[derive(Deserialize)]
struct User {
    client_id: String,
    client_secret: String,
    refresh_token: String,
    #[serde(default)]
    token_uri: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// The places where application-default credentials may be, from the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// `GOOGLE_APPLICATION_CREDENTIALS`
    pub named: Option<PathBuf>,
    /// `CLOUDSDK_CONFIG`, else `~/.config/gcloud`
    pub gcloud: Option<PathBuf>,
    /// `GCE_METADATA_HOST`
    pub metadata: Option<String>,
}

impl Credentials {
    /// From a key file.
    pub(crate) fn from_key(key: &KeyFile) -> Result<Credentials, Error> {
        match &key.content {
            Some(content) => Credentials::from_content(&key.path, content),
            None => Credentials::from_file(&key.path),
        }
    }

    fn from_file(path: &Path) -> Result<Credentials, Error> {
        let content = crate::dir::read_named(path, MAX_KEY_BYTES)
            .map_err(|error| Error::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
        Credentials::from_content(path, &content)
    }

    fn from_content(path: &Path, content: &[u8]) -> Result<Credentials, Error> {
        let unreadable = |reason: String| Error::Unreadable { path: path.to_owned(), reason };
        #[derive(Deserialize)]
        struct Kind {
            #[serde(rename = "type")]
            kind: Option<String>,
        }
        // An error of serde can quote the value, which may be the key. Tell only where it is.
        let wrong = |error: serde_json::Error| {
            unreadable(format!("it is not a key file (line {}, column {})", error.line(), error.column()))
        };
        let kind = serde_json::from_slice::<Kind>(content).map_err(wrong)?.kind.unwrap_or_default();
        let source = match kind.as_str() {
            "service_account" => Source::ServiceAccount(serde_json::from_slice(content).map_err(wrong)?),
            "authorized_user" => Source::User(serde_json::from_slice(content).map_err(wrong)?),
            _ => return Err(Error::Unsupported(kind)),
        };
        Ok(Credentials { source, token: Mutex::new(None) })
    }

    /// The application-default credentials.
    pub(crate) fn default_from(places: &Places) -> Result<Credentials, Error> {
        if let Some(path) = &places.named {
            return Credentials::from_file(path);
        }
        let gcloud = places.gcloud.as_ref().map(|directory| directory.join("application_default_credentials.json"));
        match gcloud {
            Some(path) if path.exists() => Credentials::from_file(&path),
            _ => {
                let host = places.metadata.clone().unwrap_or_else(|| METADATA_HOST.to_owned());
                Ok(Credentials { source: Source::Metadata(host), token: Mutex::new(None) })
            }
        }
    }

    /// A valid token.
    pub(crate) async fn token(&self, client: &reqwest::Client, timeout: Duration) -> Result<String, Error> {
        // The lock is held while a token is fetched: other calls wait for the same token.
        let mut token = self.token.lock().await;
        if let Some((token, until)) = &*token
            && Instant::now() < *until
        {
            return Ok(token.clone());
        }
        let answer = self.fetch(client, timeout).await?;
        let lasts = Duration::from_secs(answer.expires_in.unwrap_or(TOKEN_SECONDS)).saturating_sub(RENEW_BEFORE);
        *token = Some((answer.access_token.clone(), Instant::now() + lasts));
        Ok(answer.access_token)
    }

    /// The next call gets a new token.
    pub(crate) async fn forget_token(&self) {
        *self.token.lock().await = None;
    }

    async fn fetch(&self, client: &reqwest::Client, timeout: Duration) -> Result<Answer, Error> {
        let call = match &self.source {
            Source::ServiceAccount(account) => {
                let uri = account.token_uri.as_deref().unwrap_or(GOOGLE_TOKEN_URI);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                let assertion = account.assertion(uri, now)?;
                let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
                form(client, uri, format!("grant_type={grant}&assertion={assertion}"))
            }
            Source::User(user) => form(
                client,
                user.token_uri.as_deref().unwrap_or(GOOGLE_TOKEN_URI),
                format!(
                    "grant_type=refresh_token&client_id={}&client_secret={}&refresh_token={}",
                    escaped(&user.client_id),
                    escaped(&user.client_secret),
                    escaped(&user.refresh_token)
                ),
            ),
            Source::Metadata(host) => client
                .get(format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token"))
                .header("metadata-flavor", "Google"),
        };
        let answer = call.timeout(timeout).send().await.map_err(|error| {
            let text = http_client::reason(error);
            match self.source {
                Source::Metadata(_) => Error::None(text),
                _ => Error::Refused(text),
            }
        })?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|error| Error::Refused(http_client::reason(error)))?;
        if !status.is_success() {
            #[derive(Deserialize)]
            struct Why {
                error: Option<String>,
                error_description: Option<String>,
            }
            let why = serde_json::from_slice::<Why>(&body).ok();
            let why =
                why.map(|why| [why.error, why.error_description].into_iter().flatten().collect::<Vec<_>>().join(": "));
            return Err(Error::Refused(format!("{status} {}", why.unwrap_or_default())));
        }
        serde_json::from_slice(&body).map_err(|_| Error::Refused("the answer holds no token".to_owned()))
    }
}

impl ServiceAccount {
    /// The signed JWT that is exchanged for a token.
    fn assertion(&self, audience: &str, now: u64) -> Result<String, Error> {
        let mut header = serde_json::json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.private_key_id {
            header["kid"] = id.as_str().into();
        }
        let claims = serde_json::json!({
            "iss": self.client_email, "scope": SCOPE, "aud": audience, "iat": now, "exp": now + TOKEN_SECONDS,
        });
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let key = RsaKeyPair::from_pkcs8(&der(&self.private_key)?).map_err(|_| Error::Key)?;
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).map_err(|_| Error::Key)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// The bytes in a PEM text.
fn der(pem: &str) -> Result<Vec<u8>, Error> {
    let body: String = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).map_err(|_| Error::Key)
}

fn form(client: &reqwest::Client, uri: &str, body: String) -> reqwest::RequestBuilder {
    client.post(uri).header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// A value in a form or a URL, percent-encoded.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => (byte as char).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};

    use super::*;

    /// The RSA key of RFC 7515, appendix A.2: n, e, d, p, q, dp, dq, qi.
    const RFC_7515_KEY: [&str; 8] = [
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
        "AQAB",
        "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ",
        "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc",
        "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc",
        "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0",
        "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU",
        "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U",
    ];

    fn tlv(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match body.len() {
            short @ 0..=127 => out.push(short as u8),
            middle @ 128..=255 => out.extend([0x81, middle as u8]),
            long => {
                out.push(0x82);
                out.extend_from_slice(&(long as u16).to_be_bytes());
            }
        }
        out.extend_from_slice(body);
        out
    }

    fn integer(bytes: &[u8]) -> Vec<u8> {
        let mut body = bytes.to_vec();
        if body[0] >= 0x80 {
            body.insert(0, 0);
        }
        tlv(2, &body)
    }

    fn pem() -> String {
        let numbers = RFC_7515_KEY.map(|text| URL_SAFE_NO_PAD.decode(text).unwrap());
        let mut key = integer(&[0]);
        numbers.iter().for_each(|number| key.extend(integer(number)));
        let rsa = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
        let mut info = integer(&[0]);
        info.extend_from_slice(&rsa);
        info.extend(tlv(4, &tlv(0x30, &key)));
        format!("-----BEGIN X-----\n{}\n-----END X-----\n", STANDARD.encode(tlv(0x30, &info)))
    }

    #[test]
    fn the_assertion_is_signed_with_the_accounts_key() {
        let account = ServiceAccount {
            client_email: "a@example.com".to_owned(),
            private_key: pem(),
            private_key_id: Some("k1".to_owned()),
            token_uri: None,
        };
        let assertion = account.assertion("https://token.example", 1000).unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!((claims["iat"].as_u64(), claims["exp"].as_u64()), (Some(1000), Some(4600)));
        let [n, e] = [RFC_7515_KEY[0], RFC_7515_KEY[1]].map(|text| URL_SAFE_NO_PAD.decode(text).unwrap());
        RsaPublicKeyComponents { n: &n, e: &e }
            .verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
    }

    #[test]
    fn a_broken_key_file_is_reported_without_quoting_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.json");
        std::fs::write(&path, r#"{"type":"service_account","client_email":"a","private_key":12345}"#).unwrap();
        let error = Credentials::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("key.json") && !error.contains("12345"), "{error}");
        std::fs::write(&path, r#"{"type":"external_account"}"#).unwrap();
        assert!(matches!(Credentials::from_file(&path), Err(Error::Unsupported(_))));
    }
}
