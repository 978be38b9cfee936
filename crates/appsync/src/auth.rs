//! Who is calling, and in which authorisation mode.
//!
//! There are two of AppSync's modes: API keys and IAM. An API key is checked against the configured keys and their expiry. An
//! IAM request is checked by its access key alone, which names a configured [`IamCaller`]. Its signature is not verified, because
//! this crate knows no secret keys. So serve only clients on your own machine.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// An authorisation mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// `API_KEY`: a key in `x-api-key`.
    ApiKey,
    /// `AWS_IAM`: a signed request.
    Iam,
}

impl Mode {
    pub(crate) const ALL: [Self; 2] = [Self::ApiKey, Self::Iam];

    pub(crate) fn directive(self) -> &'static str {
        match self {
            Self::ApiKey => "aws_api_key",
            Self::Iam => "aws_iam",
        }
    }

    /// What `util.authType()` returns.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::ApiKey => "API Key Authorization",
            Self::Iam => "IAM Authorization",
        }
    }

    /// The mode by its name in CloudFormation.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "API_KEY" => Some(Self::ApiKey),
            "AWS_IAM" => Some(Self::Iam),
            _ => None,
        }
    }
}

/// A key that callers may present.
#[derive(Clone)]
pub struct ApiKey {
    key: String,
    /// Seconds since 1970. A key without this never expires.
    expires: Option<i64>,
}

impl ApiKey {
    /// A key that does not expire.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), expires: None }
    }

    /// The same key until `epoch_seconds`.
    #[must_use]
    pub fn expires(mut self, epoch_seconds: i64) -> Self {
        self.expires = Some(epoch_seconds);
        self
    }
}

impl<T: Into<String>> From<T> for ApiKey {
    fn from(key: T) -> Self {
        Self::new(key)
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKey").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// An IAM caller, as `ctx.identity` shows it.
#[derive(Debug, Clone)]
pub struct IamCaller {
    /// The account.
    pub account_id: String,
    /// The user or role, as IAM names it.
    pub user_arn: String,
    /// `ctx.identity.username`.
    pub username: String,
}

impl IamCaller {
    /// A role of an account.
    pub fn role(account_id: impl Into<String>, role: &str) -> Self {
        let account_id = account_id.into();
        Self {
            user_arn: format!("arn:aws:sts::{account_id}:assumed-role/{role}/local"),
            username: format!("{role}:local"),
            account_id,
        }
    }
}

/// The credential of a caller.
#[derive(Clone)]
pub(crate) enum Credential {
    /// Nothing.
    None,
    /// An API key.
    ApiKey(String),
    /// An access key. Its caller has to be configured.
    AccessKey(String),
    /// A caller that the program itself vouches for.
    Iam(IamCaller),
}

/// Somebody who makes a request.
#[derive(Clone)]
pub struct Caller {
    pub(crate) credential: Credential,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) source_ip: Option<String>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the credential and the headers: both contain secrets.
        f.debug_struct("Caller").field("source_ip", &self.source_ip).finish_non_exhaustive()
    }
}

impl Caller {
    fn with(credential: Credential) -> Self {
        Self { credential, headers: BTreeMap::new(), source_ip: None }
    }

    /// A caller without a credential.
    pub fn anonymous() -> Self {
        Self::with(Credential::None)
    }

    /// A caller with an API key.
    pub fn api_key(key: impl Into<String>) -> Self {
        Self::with(Credential::ApiKey(key.into()))
    }

    /// A caller whom IAM knows. The program itself vouches for it.
    pub fn iam(caller: IamCaller) -> Self {
        Self::with(Credential::Iam(caller))
    }

    /// Adds a header of the request, as `ctx.request.headers` shows it.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.insert(name.to_ascii_lowercase(), value.into());
        self
    }

    /// Sets the address that the request came from.
    #[must_use]
    pub fn source_ip(mut self, address: impl Into<String>) -> Self {
        self.source_ip = Some(address.into());
        self
    }

    /// Reads the credential from headers. Their names must be in lower case.
    pub(crate) fn from_headers(headers: BTreeMap<String, String>) -> Self {
        let credential = match headers.get("authorization") {
            Some(authorization) if authorization.starts_with("AWS4-HMAC-SHA256") => authorization
                .split_once("Credential=")
                .and_then(|(_, rest)| rest.split('/').next())
                .map_or(Credential::None, |key| Credential::AccessKey(key.to_owned())),
            _ => headers.get("x-api-key").map_or(Credential::None, |key| Credential::ApiKey(key.clone())),
        };
        Self { credential, headers, source_ip: None }
    }
}

/// Why a caller is refused, in AWS's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// There is no credential.
    #[error("Missing authorization header")]
    Missing,
    /// The API key is not known or has expired.
    #[error("You are not authorized to make this call.")]
    BadKey,
    /// The access key is not known.
    #[error("The security token included in the request is invalid.")]
    BadAccessKey,
    /// The API does not have this mode.
    #[error("Valid authorization header not provided.")]
    ModeNotEnabled,
}

impl Error {
    /// AppSync's `errorType`.
    pub(crate) fn error_type(&self) -> &'static str {
        match self {
            Self::BadAccessKey => "UnrecognizedClientException",
            Self::Missing | Self::BadKey | Self::ModeNotEnabled => "UnauthorizedException",
        }
    }
}

/// A caller whose credential was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) mode: Mode,
    /// `ctx.identity`.
    pub(crate) identity: Value,
}

/// The modes and credentials that an API accepts.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The default mode first, then the additional ones.
    pub(crate) modes: Vec<Mode>,
    /// The expiry of each key, by the digest of the key: a lookup by digest takes the same time however much a guess resembles a real key.
    keys: HashMap<[u8; 32], Option<i64>>,
    access_keys: HashMap<String, IamCaller>,
}

impl Gate {
    pub(crate) fn new(modes: Vec<Mode>) -> Self {
        Self { modes, ..Self::default() }
    }

    pub(crate) fn add_key(&mut self, key: &ApiKey) {
        self.keys.insert(Sha256::digest(key.key.as_bytes()).into(), key.expires);
    }

    pub(crate) fn add_access_key(&mut self, access_key: String, caller: IamCaller) {
        self.access_keys.insert(access_key, caller);
    }

    /// The mode of fields without a directive.
    pub(crate) fn default_mode(&self) -> Mode {
        self.modes.first().copied().unwrap_or(Mode::ApiKey)
    }

    pub(crate) fn accept(&self, caller: &Caller, now_ms: i64) -> Result<Accepted, Error> {
        let (mode, identity) = match &caller.credential {
            Credential::None => return Err(Error::Missing),
            Credential::ApiKey(key) => {
                let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
                let expires = self.keys.get(&digest).ok_or(Error::BadKey)?;
                if expires.is_some_and(|at| at.saturating_mul(1000) <= now_ms) {
                    return Err(Error::BadKey);
                }
                (Mode::ApiKey, Value::Null)
            }
            Credential::AccessKey(key) => {
                let known = self.access_keys.get(key).ok_or(Error::BadAccessKey)?;
                (Mode::Iam, identity(known, key, caller))
            }
            Credential::Iam(known) => (Mode::Iam, identity(known, "", caller)),
        };
        if self.modes.contains(&mode) { Ok(Accepted { mode, identity }) } else { Err(Error::ModeNotEnabled) }
    }
}

fn identity(known: &IamCaller, user: &str, caller: &Caller) -> Value {
    json!({
        "accountId": known.account_id,
        "cognitoIdentityAuthProvider": null,
        "cognitoIdentityAuthType": null,
        "cognitoIdentityId": null,
        "cognitoIdentityPoolId": null,
        "sourceIp": caller.source_ip.as_ref().map_or_else(Vec::new, |address| vec![address]),
        "user": user,
        "userArn": known.user_arn,
        "username": known.username,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        let mut gate = Gate::new(vec![Mode::ApiKey, Mode::Iam]);
        gate.add_key(&ApiKey::new("first"));
        gate.add_key(&ApiKey::new("second").expires(100));
        gate.add_access_key("AKIDEXAMPLE".to_owned(), IamCaller::role("123456789012", "publisher"));
        gate
    }

    #[test]
    fn a_key_is_good_until_it_expires() {
        assert_eq!(gate().accept(&Caller::api_key("first"), 0).expect("known").mode, Mode::ApiKey);
        assert!(gate().accept(&Caller::api_key("second"), 99_999).is_ok());
        assert_eq!(gate().accept(&Caller::api_key("second"), 100_000).expect_err("expired"), Error::BadKey);
        assert_eq!(gate().accept(&Caller::api_key("other"), 0).expect_err("unknown"), Error::BadKey);
        assert_eq!(gate().accept(&Caller::anonymous(), 0).expect_err("nothing"), Error::Missing);
    }

    #[test]
    fn a_signed_request_is_its_configured_caller() {
        let header = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/appsync/aws4_request, SignedHeaders=host, Signature=0";
        let headers = BTreeMap::from([("authorization".to_owned(), header.to_owned())]);
        let accepted = gate().accept(&Caller::from_headers(headers), 0).expect("known");
        assert_eq!(accepted.mode, Mode::Iam);
        assert_eq!(accepted.identity["accountId"], "123456789012");
    }
}
