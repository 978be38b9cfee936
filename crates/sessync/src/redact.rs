//! Secrets are not uploaded: what looks like a key or a token is replaced by a marker before a row is built.
//!
//! A secret is what matches [`PATTERNS`] or a pattern of the user, or has one of [`SECRET_NAMES`]. Other secrets are
//! not recognised. JSON stays JSON: patterns see the decoded strings one by one, and a changed string is encoded
//! again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

/// A kind of secret and what it looks like.
#[derive(Debug)]
pub struct Pattern {
    pub name: &'static str,
    pub regex: &'static str,
}

/// What looks like a secret. If a pattern has a group `secret`, only that group is replaced.
pub(crate) const PATTERNS: &[Pattern] = &[
    Pattern { name: "aws-access-key-id", regex: r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b" },
    Pattern {
        name: "aws-secret-access-key",
        regex: r"(?i)aws_?(?:secret_?)(?:access_?)?key[\x22']?\s*[:=]\s*[\x22']?(?P<secret>[A-Za-z0-9/+=]{40})",
    },
    Pattern { name: "github-token", regex: r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b" },
    Pattern { name: "gitlab-token", regex: r"\bglpat-[A-Za-z0-9_-]{20,}" },
    Pattern { name: "slack-token", regex: r"\bxox[abeprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}" },
    Pattern {
        name: "slack-webhook",
        regex: r"https://hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/_-]{20,})",
    },
    Pattern { name: "anthropic-key", regex: r"\bsk-ant-[A-Za-z0-9_-]{20,}" },
    Pattern { name: "openai-key", regex: r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}" },
    Pattern { name: "google-api-key", regex: r"\bAIza[0-9A-Za-z_-]{35}" },
    Pattern { name: "google-oauth-token", regex: r"\bya29\.[0-9A-Za-z_-]{20,}" },
    Pattern { name: "stripe-key", regex: r"\b(?:sk|rk)_(?:live|test)_[0-9A-Za-z]{16,}" },
    Pattern { name: "npm-token", regex: r"\bnpm_[A-Za-z0-9]{36}\b" },
    Pattern { name: "pypi-token", regex: r"\bpypi-[A-Za-z0-9_-]{50,}" },
    Pattern { name: "hugging-face-token", regex: r"\bhf_[A-Za-z0-9]{30,}\b" },
    Pattern { name: "sendgrid-key", regex: r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}" },
    Pattern { name: "json-web-token", regex: r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}" },
    Pattern { name: "bearer-token", regex: r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)" },
    Pattern {
        name: "private-key",
        regex: r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    },
    Pattern { name: "password-in-url", regex: r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:(?P<secret>[^\s:/@]{3,})@" },
    Pattern {
        name: "assignment",
        regex: r"(?i)\b(?:[a-z0-9]+[_-])*(?:password|passwd|secret|api_?key|access_?token|auth_?token|client_?secret)[\x22']?\s*[:=]\s*[\x22']?(?P<secret>[^\s\x22',;{}()<>\[\]$]{8,})",
    },
];

/// A string under one of these names in an object is a secret, whatever it looks like. Names are compared in
/// lower case and without `_` and `-`.
pub(crate) const SECRET_NAMES: &[&str] = &[
    "accesstoken",
    "apikey",
    "authorization",
    "clientsecret",
    "idtoken",
    "password",
    "passwd",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "sessiontoken",
];

/// How many secrets of each kind were replaced.
pub type Counts = BTreeMap<String, u64>;

/// Replaces secrets.
#[derive(Debug)]
pub struct Redactor {
    declared: bool,
    own: Vec<(String, Regex)>,
}

/// [`PATTERNS`], compiled when the first row is built, so that a run with nothing to send does not wait for it.
#[derive(Debug)]
struct Declared {
    patterns: Vec<Regex>,
    /// Says in one pass which patterns match at all.
    any: RegexSet,
}

static DECLARED: LazyLock<Declared> = LazyLock::new(|| Declared {
    patterns: PATTERNS.iter().map(|pattern| Regex::new(pattern.regex).expect("a test compiles each of them")).collect(),
    any: RegexSet::new(PATTERNS.iter().map(|pattern| pattern.regex)).expect("a test compiles all of them"),
});

impl Redactor {
    /// With [`PATTERNS`] and the user's own, which get the names `user-1`, `user-2`, …
    pub fn new(own: &[String]) -> Result<Redactor, regex::Error> {
        let named = |(at, regex): (usize, &String)| Ok((format!("user-{}", at + 1), Regex::new(regex)?));
        Ok(Redactor { declared: true, own: own.iter().enumerate().map(named).collect::<Result<_, _>>()? })
    }

    /// Replaces nothing: for rows that are only counted.
    pub const fn none() -> Redactor {
        Redactor { declared: false, own: Vec::new() }
    }

    /// Whether it replaces nothing.
    pub fn is_none(&self) -> bool {
        !self.declared && self.own.is_empty()
    }

    /// A text without the secrets in it.
    pub fn text<'a>(&self, text: &'a str, counts: &mut Counts) -> Cow<'a, str> {
        if self.is_none() {
            return Cow::Borrowed(text);
        }
        let declared = DECLARED.any.matches(text).into_iter().map(|at| (PATTERNS[at].name, &DECLARED.patterns[at]));
        let own = self.own.iter().map(|(name, regex)| (name.as_str(), regex));
        let mut text = Cow::Borrowed(text);
        for (name, regex) in declared.chain(own) {
            if let Some(replaced) = replace(&text, name, regex, counts) {
                text = Cow::Owned(replaced);
            }
        }
        text
    }

    /// A JSON text without the secrets in its strings. Everything else stays as it is, to the byte.
    pub fn json<'a>(&self, json: &'a str, counts: &mut Counts) -> Cow<'a, str> {
        if self.is_none() {
            return Cow::Borrowed(json);
        }
        let mut out: Option<String> = None;
        let mut copied = 0;
        let mut secret_next = false;
        for literal in literals(json) {
            let inner = &json[literal.start + 1..literal.end - 1];
            let is_name = json[literal.end..].trim_start().starts_with(':');
            let decoded: Cow<'_, str> = match memchr::memchr(b'\\', inner.as_bytes()) {
                None => Cow::Borrowed(inner),
                Some(_) => match serde_json::from_str::<String>(&json[literal.clone()]) {
                    Ok(text) => Cow::Owned(text),
                    // For example a lone surrogate. Then the patterns see the string as it is written.
                    Err(_) => Cow::Borrowed(inner),
                },
            };
            let replaced = if secret_next && !is_name && !decoded.is_empty() {
                *counts.entry("named".to_owned()).or_default() += 1;
                Some(marker("named"))
            } else {
                match self.text(&decoded, counts) {
                    Cow::Owned(text) => Some(text),
                    Cow::Borrowed(_) => None,
                }
            };
            secret_next = is_name && is_secret_name(&decoded) && is_string_next(&json[literal.end..]);
            if let Some(text) = replaced {
                let out = out.get_or_insert_with(|| String::with_capacity(json.len()));
                out.push_str(&json[copied..literal.start]);
                out.push_str(&quoted(&text));
                copied = literal.end;
            }
        }
        match out {
            None => Cow::Borrowed(json),
            Some(mut out) => {
                out.push_str(&json[copied..]);
                Cow::Owned(out)
            }
        }
    }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn replace(text: &str, name: &str, regex: &Regex, counts: &mut Counts) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    for found in regex.captures_iter(text) {
        let Some(secret) = found.name("secret").or_else(|| found.get(0)) else { continue };
        // An empty match of a user's pattern hides nothing, and the marker of an earlier pattern is not a secret.
        if secret.is_empty() || secret.as_str().starts_with("[REDACTED:") {
            continue;
        }
        out.push_str(&text[copied..secret.start()]);
        out.push_str(&marker(name));
        copied = secret.end();
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    (copied > 0).then(|| out + &text[copied..])
}

fn marker(name: &str) -> String {
    format!("[REDACTED:{name}]")
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    SECRET_NAMES.contains(&name.as_str())
}

fn is_string_next(after_name: &str) -> bool {
    let value = after_name.trim_start().strip_prefix(':').unwrap_or("");
    value.trim_start().starts_with('"')
}

/// The places of the strings in a JSON text, with their quotes.
fn literals(json: &str) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let bytes = json.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', &bytes[at..])?;
        let mut end = start + 1;
        loop {
            let found = end + memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[found] == b'"' {
                at = found + 1;
                return Some(start..at);
            }
            end = found + 2;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        Redactor::new(&[]).unwrap()
    }

    /// Made at run time, so that no file contains anything that looks like a secret.
    fn fake(prefix: &str, length: usize) -> String {
        let alphabet = b"A1b2C3d4E5f6G7h8J9k0";
        let tail: String = (0..length).map(|at| alphabet[(at * 7) % alphabet.len()] as char).collect();
        format!("{prefix}{tail}")
    }

    fn samples() -> Vec<(&'static str, String, String)> {
        let upper = |text: String| text.to_ascii_uppercase();
        let whole = |secret: String| (format!("see {secret} there"), secret);
        let (akia, ghp) = (upper(fake("AKIA", 16)), fake("ghp_", 36));
        let list: Vec<(&'static str, (String, String))> = vec![
            ("aws-access-key-id", whole(akia)),
            ("aws-secret-access-key", {
                let s = fake("", 40);
                (format!("AWS_SECRET_ACCESS_KEY={s}"), s)
            }),
            ("github-token", whole(ghp)),
            ("gitlab-token", whole(fake("glpat-", 20))),
            ("slack-token", whole(fake("xoxb-", 24))),
            ("slack-webhook", {
                let s = fake("T0/B0/", 24);
                (format!("https://hooks.slack.com/services/{s}"), s)
            }),
            ("anthropic-key", whole(fake("sk-ant-", 40))),
            ("openai-key", whole(fake("sk-proj-", 48))),
            ("google-api-key", whole(fake("AIza", 35))),
            ("google-oauth-token", whole(fake("ya29.", 40))),
            ("stripe-key", whole(fake("sk_live_", 24))),
            ("npm-token", whole(fake("npm_", 36))),
            ("pypi-token", whole(fake("pypi-", 60))),
            ("hugging-face-token", whole(fake("hf_", 34))),
            ("sendgrid-key", whole(format!("{}.{}", fake("SG.", 22), fake("", 43)))),
            ("json-web-token", whole(format!("{}.{}.{}", fake("eyJ", 20), fake("eyJ", 20), fake("", 30)))),
            ("bearer-token", {
                let s = fake("", 30);
                (format!("Authorization: Bearer {s}"), s)
            }),
            (
                "private-key",
                whole(format!("-----BEGIN RSA {0} KEY-----\n{1}\n-----END RSA {0} KEY-----", "PRIVATE", fake("", 64))),
            ),
            ("password-in-url", {
                let s = fake("", 12);
                (format!("postgres://me:{s}@db/x"), s)
            }),
            ("assignment", {
                let s = fake("", 12);
                (format!("export DB_PASSWORD={s}"), s)
            }),
        ];
        list.into_iter().map(|(name, (text, secret))| (name, text, secret)).collect()
    }

    #[test]
    fn every_declared_pattern_has_a_sample_and_hides_it() {
        let samples = samples();
        let named: Vec<_> = samples.iter().map(|(name, ..)| *name).collect();
        assert_eq!(named, PATTERNS.iter().map(|pattern| pattern.name).collect::<Vec<_>>());
        for (name, text, secret) in samples {
            let mut counts = Counts::new();
            let out = redactor().text(&text, &mut counts).into_owned();
            assert!(!out.contains(&secret), "{name}: {out}");
            assert!(counts.contains_key(name), "{name}: {counts:?}");
        }
    }

    #[test]
    fn a_json_text_stays_json_and_says_where_something_was() {
        for (name, text, secret) in samples() {
            let json =
                serde_json::json!({"n": 1, "deep": [{"text": format!("\"quoted\" \n {text}")}], "z": "é\u{1F600}"})
                    .to_string();
            let out = redactor().json(&json, &mut Counts::new()).into_owned();
            let value: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!out.contains(&secret) && out.contains("[REDACTED:"), "{name}: {out}");
            assert_eq!(value["z"], "é\u{1F600}");
        }
    }

    #[test]
    fn a_string_with_a_secret_name_is_hidden_and_its_neighbours_are_not() {
        let mut counts = Counts::new();
        let json = r#"{"Password" : "hunter", "api-key":"x","password":{"a":"b"},"user":"me"}"#;
        let out = redactor().json(json, &mut counts);
        assert_eq!(
            out,
            r#"{"Password" : "[REDACTED:named]", "api-key":"[REDACTED:named]","password":{"a":"b"},"user":"me"}"#
        );
        assert_eq!(counts["named"], 2);
    }

    #[test]
    fn ordinary_text_is_left_alone_to_the_byte() {
        for text in [
            r#"{"role":"user","content":[{"type":"text","text":"fix the token parser in src/token.rs"}]}"#,
            r#"{"usage":{"input_tokens":12,"cache_read_input_tokens":3.50},"url":"https://example.com:8080/a@b"}"#,
            r#"{"id":"msg_01ABCDEFGHIJKLMNOP","hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}"#,
        ] {
            assert!(matches!(redactor().json(text, &mut Counts::new()), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn a_users_pattern_is_added_and_a_wrong_one_refused() {
        let redactor = Redactor::new(&["ACME-[0-9]+".to_owned()]).unwrap();
        assert_eq!(redactor.text("id ACME-123", &mut Counts::new()), "id [REDACTED:user-1]");
        assert!(Redactor::new(&["(".to_owned()]).is_err());
    }
}
