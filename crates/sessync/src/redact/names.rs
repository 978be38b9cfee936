//! What a name says about its value: `DB_PASSWORD`, `x-api-key`, `"SecretAccessKey"`.
//!
//! Names are compared by their ends, in lower case and without separators, so that `apiKey`, `API_KEY` and
//! `x-api-key` are one.

/// What the value under a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Nothing,
    /// A secret if it looks like one: `key`, `token`.
    Perhaps,
    /// A secret unless it is clearly something else.
    Secret,
}

/// Names that end so have secrets.
const SECRET: &[&str] = &[
    "accesskey",
    "accesstoken",
    "accountkey",
    "adminkey",
    "apikey",
    "apitoken",
    "appkey",
    "appsecret",
    "apptoken",
    "authkey",
    "authorization",
    "authtoken",
    "bearertoken",
    "bottoken",
    "clientkey",
    "clientsecret",
    "consumerkey",
    "credential",
    "credentials",
    "csrftoken",
    "deploykey",
    "deploytoken",
    "devicetoken",
    "encryptionkey",
    "ghtoken",
    "githubtoken",
    "gitlabtoken",
    "hmackey",
    "idtoken",
    "jwtkey",
    "licensekey",
    "masterkey",
    "npmtoken",
    "oauthtoken",
    "passcode",
    "passphrase",
    "passwd",
    "password",
    "personaltoken",
    "privatekey",
    "refreshtoken",
    "registrytoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "securitytoken",
    "servicekey",
    "servicerolekey",
    "servicetoken",
    "sessionkey",
    "sessiontoken",
    "sharedaccesskey",
    "sharedkey",
    "signingkey",
    "slacktoken",
    "sshkey",
    "storagekey",
    "subscriptionkey",
    "usertoken",
    "vaulttoken",
    "webhooksecret",
    "xsrftoken",
    "mysqlpwd",
    "dbpwd",
    "userpwd",
    "dbpass",
    "userpass",
    "smtppass",
    "adminpass",
    "rootpass",
    "mailpass",
    "redispass",
    "mysqlpass",
    "pgpass",
    "ftppass",
];

/// Names that end so may have secrets.
const PERHAPS: &[&str] = &[
    "key", "token", "pwd", "pass", "pw", "auth", "cookie", "sig", "creds", "cred", "pat", "salt", "pin", "otp", "dsn",
    "hash",
];

/// Names that end so have none, whatever their last letters are.
const NEVER: &[&str] = &[
    "oldpwd",
    "publickey",
    "publishablekey",
    "primarykey",
    "foreignkey",
    "partitionkey",
    "sortkey",
    "rangekey",
    "hashkey",
    "cachekey",
    "hotkey",
    "monkey",
    "turkey",
    "donkey",
    "whiskey",
    "jockey",
    "hockey",
    "nexttoken",
    "pagetoken",
    "nextpagetoken",
    "continuationtoken",
    "cancellationtoken",
    "canceltoken",
    "synctoken",
    "eostoken",
    "bostoken",
    "padtoken",
    "unktoken",
    "masktoken",
    "septoken",
    "clstoken",
    "stoptoken",
    "starttoken",
    "endtoken",
    "currenttoken",
    "nextpagekey",
    "idempotencykey",
    "objectkey",
    "rowkey",
    "mapkey",
    "translationkey",
    "messagekey",
    "i18nkey",
    "labelkey",
    "groupkey",
    "querykey",
    "reactkey",
    "compositekey",
    "uniquekey",
    "indexkey",
    "eventkey",
    "filekey",
    "lastevaluatedkey",
    "exclusivestartkey",
    "contenthash",
    "githash",
    "commithash",
    "filehash",
    "blockhash",
    "txhash",
    "compass",
    "bypass",
    "trespass",
    "surpass",
    "encompass",
    "forgotpassword",
    "resetpassword",
    "changepassword",
    "showpassword",
    "invalidpassword",
    "wrongpassword",
    "publicsshkey",
    "knownhostkey",
    "hostkey",
    "verifykey",
    "keykey",
];

/// Whether a name that ends so can mean anything, by its last letters. Nearly all names cannot.
pub(super) fn may_end(text: &[u8]) -> bool {
    let [.., a, b, c] = text else { return text.eq_ignore_ascii_case(b"pw") };
    let end = [a.to_ascii_lowercase(), b.to_ascii_lowercase(), c.to_ascii_lowercase()];
    matches!(
        &end,
        b"key" | b"ken" | b"ord" | b"swd" | b"pwd" | b"ase" | b"ode" | b"ret" | b"ial" | b"als" | b"eds" | b"red" | b"ass"
            | b"uth" | b"kie" | b"sig" | b"ion" | b"pat" | b"alt" | b"pin" | b"otp" | b"dsn" | b"ash"
            // `value` of a pair, and the types in `password: string = …`
            | b"lue" | b"ing" | b"str" | b"any"
    ) || end[1..] == *b"pw"
}

/// What the value under a name is. The name may have separators and any case.
pub(super) fn meaning(name: &[u8]) -> Meaning {
    if !may_end(name) {
        return Meaning::Nothing;
    }
    let mut buffer = [0; 24];
    let mut at = buffer.len();
    for byte in name.iter().rev().filter(|byte| byte.is_ascii_alphanumeric()) {
        if at == 0 {
            break;
        }
        at -= 1;
        buffer[at] = byte.to_ascii_lowercase();
    }
    let end = &buffer[at..];
    let ends = |list: &[&str]| list.iter().any(|suffix| end.ends_with(suffix.as_bytes()));
    if end == b"pwd" || end == b"hash" || !ends(SECRET) && !ends(PERHAPS) {
        return Meaning::Nothing;
    }
    if ends(NEVER) {
        return Meaning::Nothing;
    }
    if ends(SECRET) { Meaning::Secret } else { Meaning::Perhaps }
}

/// Whether a name is that of a password: even a number under it is one.
pub(super) fn is_password(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    [&b"password"[..], b"passwd", b"passcode", b"passphrase", b"pwd", b"pass"].iter().any(|end| lower.ends_with(end))
}

/// Whether a text could be such a name and nothing else: in `"name": "DB_PASSWORD"` the value is a name.
pub(super) fn is_secret_name(text: &[u8]) -> bool {
    text.len() <= 64
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && meaning(text) == Meaning::Secret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_means_something_passes_the_quick_test() {
        for name in SECRET.iter().chain(PERHAPS) {
            assert!(may_end(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_are_compared_by_their_ends_whatever_their_style() {
        for name in [
            "DB_PASSWORD",
            "PGPASSWORD",
            "apiKey",
            "x-api-key",
            "SecretAccessKey",
            "SECRET_KEY",
            "aws_session_token",
            "client.secret",
            "Authorization",
        ] {
            assert_eq!(meaning(name.as_bytes()), Meaning::Secret, "{name}");
        }
        for name in ["key", "MY_TOKEN", "cookie", "DB_PW"] {
            assert_eq!(meaning(name.as_bytes()), Meaning::Perhaps, "{name}");
        }
        for name in [
            "input_tokens",
            "primary_key",
            "nextPageToken",
            "PWD",
            "OLDPWD",
            "monkey",
            "keyboard",
            "author",
            "password_hint",
            "access_key_id",
        ] {
            assert_eq!(meaning(name.as_bytes()), Meaning::Nothing, "{name}");
        }
    }
}
