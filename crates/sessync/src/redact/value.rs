//! What a value looks like: random, or a word, a path, a type, a reference to something else.

/// How varied a text is.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Look {
    pub(super) length: usize,
    pub(super) upper: usize,
    pub(super) lower: usize,
    pub(super) digits: usize,
    pub(super) others: usize,
    /// How often a letter or digit is followed by one of another class.
    changes: usize,
    /// How many runs of small letters there are: in words they are long.
    runs: usize,
    /// How many different bytes there are.
    distinct: u32,
    hex: bool,
}

impl Look {
    pub(super) fn of(text: &[u8]) -> Look {
        let mut look = Look { length: text.len(), hex: true, ..Look::default() };
        let mut set = [0_u64; 4];
        let mut last = 0;
        for byte in text {
            let class = match byte {
                b'A'..=b'Z' => {
                    look.upper += 1;
                    1
                }
                b'a'..=b'z' => {
                    look.lower += 1;
                    look.runs += usize::from(last != 2);
                    2
                }
                b'0'..=b'9' => {
                    look.digits += 1;
                    3
                }
                _ => {
                    look.others += 1;
                    0
                }
            };
            look.hex &= byte.is_ascii_hexdigit();
            if class != 0 && last != 0 && class != last {
                look.changes += 1;
            }
            last = class;
            set[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
        look.distinct = set.iter().map(|bits| bits.count_ones()).sum();
        look
    }

    /// Letters of both cases and digits, thrown together: no word of any language and no name in a program.
    pub(super) fn is_random(&self) -> bool {
        self.length >= 16
            && self.upper >= 2
            && self.lower >= 2
            && (self.digits >= 2 && self.changes * 10 >= self.length * 3 && self.lower * 10 <= self.runs * 32
                || self.digits < 2 && self.is_jumbled())
            && self.distinct as usize >= 10.min(self.length / 2)
    }

    /// The same without capitals: `k3j4h5g6f7d8s9a0`.
    pub(super) fn is_mixed(&self) -> bool {
        self.length >= 12
            && (self.digits >= 2 || self.is_jumbled())
            && self.upper + self.lower >= 2
            && (self.is_random() || self.changes * 10 >= self.length * 3)
            && self.distinct >= 6
    }

    /// Capitals and small letters alternate more often than in any name.
    fn is_jumbled(&self) -> bool {
        self.upper >= 3 && self.lower >= 3 && self.changes * 10 >= self.length * 4 && self.lower * 10 <= self.runs * 26
    }

    pub(super) fn is_long_hex(&self) -> bool {
        self.hex && self.length >= 32 && self.digits >= 4 && self.upper + self.lower >= 4 && self.distinct >= 6
    }

    pub(super) fn letters(&self) -> usize {
        self.upper + self.lower
    }
}

/// Words that stand where a value would be.
const WORDS: &[&str] = &[
    "true",
    "false",
    "null",
    "none",
    "nil",
    "undefined",
    "string",
    "str",
    "number",
    "int",
    "bool",
    "boolean",
    "bytes",
    "text",
    "object",
    "any",
    "required",
    "optional",
    "redacted",
    "hidden",
    "masked",
    "empty",
    "unset",
    "missing",
    "default",
    "example",
    "placeholder",
    "changeme",
    "todo",
    "tbd",
    "varchar",
    "char",
    "input",
    "value",
    "yes",
    "no",
    "secret",
    "password",
    "token",
    "key",
    "plaintext",
    "prompt",
    "vault",
    "file",
    "env",
    "self",
    "this",
    "unknown",
    "invalid",
    "expired",
    "incorrect",
    "wrong",
    "correct",
    "accepted",
    "rejected",
    "updated",
    "changed",
    "disabled",
    "enabled",
    "protected",
    "encrypted",
    "denied",
    "failed",
    "success",
    "generated",
    "provided",
    "supplied",
    "confirmed",
    "verified",
    "mismatch",
    "string?",
];

/// Whether a value only refers to a secret or stands for one: `${TOKEN}`, `<your key>`, `xxxx`, `null`.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let Some(first) = value.first() else { return true };
    if matches!(first, b'$' | b'<' | b'{' | b'%' | b'*' | b'[' | b'(' | b'@' | b'&' | b'#' | b'!')
        && is_bracketed(value)
    {
        return true;
    }
    if value.starts_with(b"[REDACTED") || value.windows(3).any(|three| three == b"***" || three == b"...") {
        return true;
    }
    if value.len() >= 4 && Look::of(value).distinct <= 1 {
        return true;
    }
    let lower = value.to_ascii_lowercase();
    if WORDS.iter().any(|word| word.as_bytes() == lower) {
        return true;
    }
    let has = |part: &[u8]| lower.windows(part.len()).any(|window| window == part);
    [
        &b"xxxx"[..],
        b"your-",
        b"your_",
        b"<your",
        b"placeholder",
        b"example",
        b"process.env",
        b"os.environ",
        b"env.",
        b"secretref",
        b"config.",
    ]
    .iter()
    .any(|part| has(part))
        && Look::of(value).changes * 10 < value.len() * 3
}

/// Whether it begins as a variable, a template or a tag: not every `$` does.
fn is_bracketed(value: &[u8]) -> bool {
    match value {
        [b'$', b'{' | b'(', ..]
        | [b'<', ..]
        | [b'{', b'{' | b'%', ..]
        | [b'%', b'(' | b's' | b'v' | b'd' | b'{', ..] => true,
        // $NAME or $name, but not a password that begins with $.
        [b'$', rest @ ..] => !rest.is_empty() && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'),
        [b'{', .., b'}'] | [b'%', .., b'%'] | [b'[', .., b']'] => true,
        [b'*', b'*', ..] | [b'(', ..] | [b'&', ..] => true,
        _ => false,
    }
}

/// Whether it is made like a name or a path in a program: `self.password`, `Foo::BAR`, `user_password`, `getToken`.
pub(super) fn is_code(value: &[u8]) -> bool {
    let look = Look::of(value);
    let plain = value
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-' | b'?' | b'!' | b'/'));
    plain
        && !look.is_mixed()
        && (look.digits == 0 || look.changes * 10 < look.length * 3 && look.letters() > look.digits * 2)
}

/// Whether it is a sentence or a label for people.
pub(super) fn is_prose(value: &[u8]) -> bool {
    let words = value.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let mut count = 0;
    for word in words {
        count += 1;
        if word.iter().any(u8::is_ascii_digit) {
            return false;
        }
    }
    count >= 2
}

/// Words that stand in labels and messages about passwords, and hardly in a password.
const LABELS: &[&str] = &[
    "the",
    "a",
    "an",
    "is",
    "are",
    "was",
    "be",
    "been",
    "to",
    "of",
    "in",
    "on",
    "at",
    "for",
    "and",
    "or",
    "not",
    "no",
    "your",
    "you",
    "my",
    "our",
    "its",
    "it",
    "this",
    "that",
    "with",
    "without",
    "from",
    "by",
    "as",
    "if",
    "must",
    "should",
    "can",
    "may",
    "will",
    "please",
    "enter",
    "type",
    "password",
    "passwords",
    "passphrase",
    "token",
    "key",
    "secret",
    "login",
    "sign",
    "user",
    "username",
    "email",
    "new",
    "old",
    "current",
    "confirm",
    "repeat",
    "forgot",
    "reset",
    "change",
    "show",
    "hide",
    "invalid",
    "wrong",
    "incorrect",
    "required",
    "missing",
    "set",
    "unset",
    "use",
    "used",
    "see",
    "when",
    "has",
    "have",
    "do",
    "does",
    "than",
    "least",
    "characters",
    "chars",
    "long",
    "short",
    "min",
    "max",
    "same",
    "match",
    "field",
    "value",
    "empty",
    "none",
    "string",
    "default",
    "example",
    "optional",
];

/// Whether words are a password and not a text for people: `correct horse battery staple`, `p#ss w$rd`.
pub(super) fn is_words(value: &[u8]) -> bool {
    let words = || value.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let has_inner_symbol = |word: &[u8]| {
        word.windows(3).any(|three| {
            three[0].is_ascii_alphanumeric() && b"#$%^&*@!=+~".contains(&three[1]) && three[2].is_ascii_alphanumeric()
        })
    };
    let is_plain = |word: &[u8]| word.len() >= 3 && word.iter().all(u8::is_ascii_lowercase);
    let is_label = |word: &[u8]| LABELS.iter().any(|label| label.as_bytes().eq_ignore_ascii_case(word));
    words().any(has_inner_symbol) && !words().any(is_label)
        || words().count() >= 3 && words().all(|word| is_plain(word) && !is_label(word))
}

/// Whether a value without a prefix could be a password that somebody chose or a program made.
pub(super) fn is_chosen(value: &[u8]) -> bool {
    let look = Look::of(value);
    let is_name = value.iter().any(|byte| b".:/()".contains(byte)) && !look.is_mixed();
    value.len() >= 6
        && !is_name
        && (look.digits > 0 && look.letters() > 0 && !(is_code(value) && look.upper == 0 && look.digits < 2)
            || look.others > 0 && look.letters() > 0 && !is_code(value)
            || look.upper > 1 && look.lower > 1 && value.len() >= 8 && look.changes * 10 >= look.length * 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_text_is_told_from_a_long_name() {
        assert!(Look::of(b"aB3dE5fG7hJ9kL1mN2pQ").is_random());
        for name in [
            "getUserNameFromDatabaseById2",
            "AWS_LAMBDA_FUNCTION_NAME_64",
            "docs-2024-11-01-release-notes",
            "claude-opus-4-1-20250805",
            "UserPasswordResetFormContainerView2",
            "XMLHttpRequestEventTarget2Handler",
        ] {
            assert!(!Look::of(name.as_bytes()).is_random(), "{name}");
        }
    }

    #[test]
    fn words_are_a_password_if_they_are_no_label() {
        for value in ["correct horse battery staple", "p#ss w$rd"] {
            assert!(is_words(value.as_bytes()), "{value}");
        }
        for value in ["Enter your password", "Mot de passe", "must have eight characters", "not set", "R&D only is"] {
            assert!(!is_words(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn what_stands_for_a_secret_is_none() {
        for value in [
            "${TOKEN}",
            "$TOKEN",
            "<your key>",
            "{{ secret }}",
            "********",
            "xxxxxxxx",
            "null",
            "your-api-key-here",
            "%s",
            "process.env.TOKEN",
        ] {
            assert!(is_reference(value.as_bytes()), "{value}");
        }
        for value in ["hunter2", "$ecret-9x!", "pa%ss", "tr0ub4dor&3"] {
            assert!(!is_reference(value.as_bytes()), "{value}");
        }
    }
}
