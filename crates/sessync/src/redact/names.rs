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
    "amzsignature",
    "googsignature",
    "psk",
    "mnemonic",
    "seedphrase",
    "recoveryphrase",
    "passwort",
    "kennwort",
    "wachtwoord",
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

/// What may stand after the word that says what a name means: `DB_PASSWORD_PROD`, `SECRET_KEY_BASE`.
const SUFFIXES: &[&str] = &[
    "prod",
    "production",
    "dev",
    "staging",
    "stg",
    "test",
    "qa",
    "local",
    "live",
    "base",
    "string",
    "value",
    "new",
    "old",
    "primary",
    "secondary",
    "backup",
    "default",
    "plain",
];

/// Names of secrets that are made of words.
const PHRASES: &[&str] = &["passphrase", "mnemonic", "seedphrase", "recoveryphrase"];

/// Whether a name that ends so can mean anything, by its last letters. Nearly all names cannot.
pub(super) fn may_end(text: &[u8]) -> bool {
    let mut text = text;
    if text.last().is_some_and(u8::is_ascii_digit) {
        // `password1`, `API_TOKEN_1`
        let digits = text.iter().rev().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        text = &text[..text.len() - digits];
        text = text.strip_suffix(b"_").or(text.strip_suffix(b"-")).unwrap_or(text);
    }
    let [.., a, b, c] = text else { return text.eq_ignore_ascii_case(b"pw") };
    let end = [a.to_ascii_lowercase(), b.to_ascii_lowercase(), c.to_ascii_lowercase()];
    matches!(
        &end,
        b"key" | b"ken" | b"ord" | b"ort" | b"swd" | b"pwd" | b"ase" | b"ode" | b"ret" | b"ial" | b"als" | b"eds" | b"red"
            | b"ass" | b"uth" | b"kie" | b"sig" | b"ure" | b"pat" | b"alt" | b"pin" | b"otp" | b"dsn" | b"ash"
            | b"psk" | b"nic"
            // several
            | b"eys" | b"ens" | b"rds" | b"ets"
            // `value` of a pair, and the types in `password: string = …`
            | b"lue" | b"ing" | b"str" | b"any"
    ) || &end[1..] == b"pw"
        // `version` and `description` are in every line of a log.
        || &end == b"ion" && text.last_chunk::<6>().is_some_and(|last| last.eq_ignore_ascii_case(b"zation"))
        || has_suffix(text, &end)
}

/// Whether a name ends with one of the suffixes, as a word of its own.
fn has_suffix(text: &[u8], end: &[u8; 3]) -> bool {
    let may = matches!(
        end,
        b"rod"
            | b"dev"
            | b"stg"
            | b"est"
            | b"cal"
            | b"ive"
            | b"new"
            | b"old"
            | b"ary"
            | b"kup"
            | b"ult"
            | b"ain"
            | b"ion"
    ) || &end[1..] == b"qa";
    may && SUFFIXES.iter().any(|suffix| {
        let Some(start) = text.len().checked_sub(suffix.len() + 1) else { return false };
        let (before, word) = (text[start], &text[start + 1..]);
        word.eq_ignore_ascii_case(suffix.as_bytes())
            && (matches!(before, b'_' | b'-' | b'.') || before.is_ascii_lowercase() && word[0].is_ascii_uppercase())
    })
}

/// The end of a name in lower case, without separators and without what may stand after the word that counts.
struct Core {
    buffer: [u8; 40],
    from: usize,
    to: usize,
}

impl Core {
    fn of(name: &[u8]) -> Core {
        let mut core = Core { buffer: [0; 40], from: 40, to: 40 };
        for byte in name.iter().rev().filter(|byte| byte.is_ascii_alphanumeric()).take(40) {
            core.from -= 1;
            core.buffer[core.from] = byte.to_ascii_lowercase();
        }
        core.drop_digits();
        let whole = core.to;
        if !core.ends(SECRET) && !core.ends(PERHAPS) {
            let suffix = SUFFIXES.iter().find(|suffix| core.text().ends_with(suffix.as_bytes()));
            let length = suffix.map_or(usize::from(core.text().ends_with(b"s")), |suffix| suffix.len());
            core.to -= length;
            core.drop_digits();
            if !core.ends(SECRET) {
                core.to = whole;
            }
        }
        core
    }

    fn drop_digits(&mut self) {
        while self.to > self.from && self.buffer[self.to - 1].is_ascii_digit() {
            self.to -= 1;
        }
    }

    fn text(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    fn ends(&self, list: &[&str]) -> bool {
        let text = self.text();
        let Some(last) = text.last() else { return false };
        // Nearly all of them differ in the last letter.
        list.iter().any(|suffix| suffix.as_bytes().last() == Some(last) && text.ends_with(suffix.as_bytes()))
    }
}

/// What the value under a name is. The name may have separators and any case.
pub(super) fn meaning(name: &[u8]) -> Meaning {
    if !may_end(name) {
        return Meaning::Nothing;
    }
    // The `_auth` of npm is a user and a password; other names that end so are not.
    if let Some(before) = name.strip_suffix(b"_auth")
        && !before.last().is_some_and(u8::is_ascii_alphanumeric)
    {
        return Meaning::Secret;
    }
    let core = Core::of(name);
    let is_secret = core.ends(SECRET);
    // The shell's PWD is a directory.
    if name == b"PWD" || core.text() == b"hash" || !is_secret && !core.ends(PERHAPS) || core.ends(NEVER) {
        return Meaning::Nothing;
    }
    if is_secret { Meaning::Secret } else { Meaning::Perhaps }
}

/// Whether a name is that of a password: even a number or a plain word under it is one.
pub(super) fn is_password(name: &[u8]) -> bool {
    const PASSWORDS: &[&str] =
        &["password", "passwd", "passcode", "passphrase", "passwort", "kennwort", "wachtwoord", "pwd", "pass", "psk"];
    Core::of(name).ends(PASSWORDS)
}

/// Whether a name is that of a secret that is made of words.
pub(super) fn is_phrase(name: &[u8]) -> bool {
    Core::of(name).ends(PHRASES)
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
        let suffixes = SUFFIXES.iter().map(|suffix| format!("_{suffix}"));
        for suffix in suffixes.chain(["1", "_42", "s", "New"].map(str::to_owned)) {
            let name = format!("db_password{suffix}");
            assert!(may_end(name.as_bytes()) && meaning(name.as_bytes()) == Meaning::Secret, "{name}");
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
            "SECRET_KEY_BASE",
            "DB_PASSWORD_PROD",
            "password1",
            "API_TOKEN_1",
            "MY_API_KEYS",
            "passwords",
            "SecretString",
            "secret-string",
            ":_auth",
        ] {
            assert_eq!(meaning(name.as_bytes()), Meaning::Secret, "{name}");
        }
        for name in ["key", "MY_TOKEN", "cookie", "DB_PW", "Pwd", "key1", "basic_auth"] {
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
            "max_tokens",
            "database",
            "basic_auth_test",
        ] {
            assert_eq!(meaning(name.as_bytes()), Meaning::Nothing, "{name}");
        }
    }
}
