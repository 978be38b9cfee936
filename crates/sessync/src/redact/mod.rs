//! Secrets are not uploaded: what looks like a key or a token is replaced by a marker before a row is built.
//!
//! A secret is recognised by its shape (`families`), by the name before it (`names`), or because it is random and
//! nothing explains it (`value`); `scan` finds them in a text. JSON stays JSON: only strings are changed. What one
//! string says of the next counts as well: names and values in lists, options and their values, and a private key
//! whose lines are the elements of a list. `tests/redaction.rs` has the cases, true and false.

mod commands;
mod families;
mod names;
mod scan;
mod value;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use regex::Regex;

use names::{Meaning, is_password, is_phrase, is_secret_name, meaning};
use scan::Hit;
use value::{Look, is_chosen, is_prose, is_reference, is_words};

/// How deep JSON may be nested in strings of JSON and still be read as JSON. What is deeper is only searched as text.
const MAX_DEPTH: usize = 8;
/// How far an object is searched for the name that belongs to a value.
const MAX_OBJECT: usize = 4096;

/// How many secrets of each kind were replaced.
pub type Counts = BTreeMap<String, u64>;

/// Replaces secrets.
#[derive(Debug)]
pub struct Redactor {
    declared: bool,
    own: Vec<(String, Regex)>,
}

impl Redactor {
    /// With what sessync recognises and the user's own patterns, which get the names `user-1`, `user-2`, …
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
        self.searched(text, counts).0
    }

    /// The text, and whether a private key begins in it and does not end.
    fn searched<'a>(&self, text: &'a str, counts: &mut Counts) -> (Cow<'a, str>, bool) {
        let mut hits = Vec::new();
        let found = scan::scan(text.as_bytes(), &mut hits);
        let mut text = match replaced(text, &hits, counts) {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(text),
        };
        if found.escapes
            && let Some(plain) = unescaped(&text)
        {
            // `password\u003dhunter2`: the escapes hide what it is. They are kept unless there is something to hide.
            let mut hits = Vec::new();
            scan::scan(plain.as_bytes(), &mut hits);
            if let Some(replaced) = replaced(&plain, &hits, counts) {
                text = Cow::Owned(replaced);
            }
        }
        for (name, regex) in &self.own {
            if let Some(replaced) = replace(&text, name, regex, counts) {
                text = Cow::Owned(replaced);
            }
        }
        (text, found.open_key)
    }

    /// A JSON text without the secrets in its strings. Everything else stays as it is, to the byte.
    pub fn json<'a>(&self, json: &'a str, counts: &mut Counts) -> Cow<'a, str> {
        if self.is_none() {
            return Cow::Borrowed(json);
        }
        self.nested(json, counts, 0)
    }

    /// The same, for JSON that is in this many strings of JSON.
    fn nested<'a>(&self, json: &'a str, counts: &mut Counts, depth: usize) -> Cow<'a, str> {
        let mut out = Output { json, text: None, copied: 0 };
        let mut context = Context::default();
        let mut hits = Vec::new();
        let mut before = 0;
        for literal in literals(json) {
            context.structure(&json.as_bytes()[before..literal.start]);
            before = literal.end;
            let inner = &json[literal.start + 1..literal.end - 1];
            let after = json[literal.end..].trim_start();
            if let Some(value) = after.strip_prefix(':') {
                context.name(decoded(json, &literal), value.trim_start());
                if let Some(number) = context.number(value.trim_start()) {
                    *counts.entry("named".to_owned()).or_default() += 1;
                    let start = json.len() - value.trim_start().len();
                    out.replace(start..start + number, &marker("named"));
                }
                // A name can be a secret too, in a map from tokens to users.
                hits.clear();
                if inner.len() >= 20 {
                    scan::scan(inner.as_bytes(), &mut hits);
                }
                if !hits.is_empty()
                    && let Cow::Owned(text) = self.text(&decoded(json, &literal), counts)
                {
                    out.replace(literal, &text);
                }
                continue;
            }
            let later = || is_named_later(json, literal.end);
            if let Some(kind) = context.judge(inner, || decoded(json, &literal), later) {
                *counts.entry(kind.to_owned()).or_default() += 1;
                out.replace(literal, &marker(kind));
                continue;
            }
            if depth < MAX_DEPTH
                && inner.trim_start().starts_with(['{', '['])
                && let text = decoded(json, &literal)
                && serde_json::from_str::<IgnoredAny>(&text).is_ok()
            {
                let inside = self.nested(&text, counts, depth + 1);
                let (searched, open_key) = self.searched(&inside, counts);
                context.open_key |= open_key;
                if matches!(searched, Cow::Owned(_)) || matches!(inside, Cow::Owned(_)) {
                    out.replace(literal, &searched);
                }
                continue;
            }
            // Escapes do not matter for the search, so nearly every string is searched as it is written.
            hits.clear();
            let found = scan::scan(inner.as_bytes(), &mut hits);
            context.open_key |= found.open_key;
            if hits.is_empty() && !found.escapes && self.own.is_empty() {
                continue;
            }
            let decoded = decoded(json, &literal);
            if let (Cow::Owned(text), _) = self.searched(&decoded, counts) {
                out.replace(literal, &text);
            }
        }
        out.finish()
    }
}

/// Whether sessync recognises a secret in a text.
pub(crate) fn has_secret(text: &str) -> bool {
    let mut hits = Vec::new();
    scan::scan(text.as_bytes(), &mut hits);
    !hits.is_empty()
}

/// What the strings so far say of the next one.
#[derive(Debug, Default)]
struct Context<'a> {
    /// The name before the value.
    name: Cow<'a, str>,
    meaning: Option<Meaning>,
    /// The lists and objects around the string.
    levels: Vec<Level>,
    /// A list or an object begins here whose values are secrets.
    begins_secrets: bool,
    /// An element of the list is a program of MySQL: `-p…` has its password.
    database: bool,
    /// The last value was an option or a header that has a secret after it.
    option: bool,
    /// A private key has begun and not ended.
    open_key: bool,
}

/// A list or an object.
#[derive(Debug, Default, Clone, Copy)]
struct Level {
    /// A value in it is the name of a secret, under a name such as `name` or `key`.
    named: bool,
    /// Its values are secrets, because of the name before it: `passwords`, `secrets`.
    secrets: bool,
}

impl<'a> Context<'a> {
    /// Takes what stands between two strings.
    fn structure(&mut self, between: &[u8]) {
        for byte in between {
            match byte {
                b'{' | b'[' => {
                    let secrets = std::mem::take(&mut self.begins_secrets)
                        || self.levels.last().is_some_and(|level| level.secrets);
                    self.levels.push(Level { named: false, secrets });
                }
                b'}' | b']' => {
                    self.levels.pop();
                }
                _ => {}
            }
        }
    }

    fn name(&mut self, name: Cow<'a, str>, value: &str) {
        let known = meaning(name.as_bytes());
        self.meaning = value.starts_with('"').then_some(known);
        self.name = name;
        self.option = false;
        self.database = false;
        let is_list = value.starts_with('[');
        let is_plural = self.name.ends_with(['s', 'S']) && value.starts_with('{');
        self.begins_secrets = (is_list || is_plural) && known == Meaning::Secret;
    }

    /// How long the number is that stands under the name of a password.
    fn number(&self, value: &str) -> Option<usize> {
        let length = value.bytes().take_while(u8::is_ascii_digit).count();
        let is_end = !value[length..].starts_with(['.', 'e', 'E']);
        (length >= 6 && is_end && is_password(self.name.as_bytes()) && meaning(self.name.as_bytes()) == Meaning::Secret)
            .then_some(length)
    }

    /// Whether a string is a secret as a whole because of what stands before it.
    fn judge(
        &mut self,
        inner: &str,
        decoded: impl Fn() -> Cow<'a, str>,
        is_named_later: impl Fn() -> bool,
    ) -> Option<&'static str> {
        let (named, option) = (self.meaning.take(), std::mem::take(&mut self.option));
        if self.open_key {
            let text = decoded();
            let ends = text.contains("-----END");
            let length = scan::key_material(text.as_bytes());
            self.open_key = !ends;
            if length > 0 && length * 2 >= text.len()
                || ends && text.trim_start_matches(['+', ' ']).starts_with("-----END")
            {
                return Some("private-key");
            }
        }
        if inner.is_empty() {
            return None;
        }
        match named {
            Some(Meaning::Secret) => {
                let text = decoded();
                if !is_label(&self.name, &text) {
                    return Some("named");
                }
            }
            Some(Meaning::Perhaps) => {
                let text = decoded();
                if scan::may_be_secret(self.name.as_bytes(), text.as_bytes(), true) {
                    return Some("named");
                }
            }
            _ => {}
        }
        let level = self.levels.last().copied().unwrap_or_default();
        if named.is_some() && ends(&self.name, &["value"]) && (level.named || is_named_later()) {
            return (!is_reference(inner.as_bytes())).then_some("named");
        }
        if named.is_some()
            && is_naming(&self.name, inner)
            && let Some(level) = self.levels.last_mut()
        {
            level.named = true;
        }
        let is_about = || {
            const ABOUT: &[&str] =
                &["name", "id", "type", "arn", "at", "date", "version", "status", "url", "path", "kind"];
            named.is_some() && ends(&self.name, ABOUT)
        };
        if level.secrets && !is_about() {
            let text = decoded();
            let bytes = text.as_bytes();
            if is_chosen(bytes) && !text.contains(' ') && !is_reference(bytes) && !is_secret_name(bytes) {
                return Some("named");
            }
        }
        if self.database && inner.len() >= 6 && inner.starts_with("-p") && !is_reference(&inner.as_bytes()[2..]) {
            return Some("named");
        }
        self.database |= named.is_none() && ends(inner, &["mysql", "mariadb", "mysqldump", "mysqladmin"]);
        if option {
            let text = decoded();
            let look = Look::of(text.as_bytes());
            let is_secret = text.len() >= 4
                && !text.starts_with('-')
                && !is_reference(text.as_bytes())
                && (look.digits > 0 || look.others > 0 || look.is_mixed())
                && !text.contains(' ');
            if is_secret {
                return Some("named");
            }
        }
        self.option = named.is_none() && is_option(inner);
        None
    }
}

/// Whether a name ends with one of these, in any case.
fn ends(name: &str, with: &[&str]) -> bool {
    let Some(last) = name.as_bytes().last().map(u8::to_ascii_lowercase) else { return false };
    with.iter().any(|end| {
        // Nearly all of them differ in the last letter.
        end.as_bytes().last() == Some(&last)
            && name.len() >= end.len()
            && name.as_bytes()[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    })
}

/// Whether this is the name of a pair, and the name of a secret: `"name": "DB_PASSWORD"`, `"Name": "/prod/db/password"`.
fn is_naming(name: &str, value: &str) -> bool {
    ends(name, &["name", "key", "variable", "header"])
        && is_secret_name(value.rsplit('/').next().unwrap_or(value).as_bytes())
}

/// Whether the object that goes on here has the name of a secret.
fn is_named_later(json: &str, from: usize) -> bool {
    let rest = &json.as_bytes()[from..json.len().min(from + MAX_OBJECT)];
    let (mut depth, mut at) = (0_usize, 0);
    let mut name: Option<&str> = None;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return false,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let Some(literal) = literals(&json[from + at..]).next() else { return false };
                let text = &json[from + at + 1..from + at + literal.end - 1];
                at += literal.end;
                let is_name = json[from + at..].trim_start().starts_with(':');
                match name.take() {
                    _ if depth > 0 => {}
                    _ if is_name => name = Some(text),
                    Some(name) if is_naming(name, text) => return true,
                    _ => {}
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    false
}

/// Whether a string in a list says that the next one is a secret: `--password`, `x-api-key`.
fn is_option(text: &str) -> bool {
    let option = text.strip_prefix("--").filter(|name| is_secret_name(name.as_bytes()));
    option.is_some()
        || text.len() <= 32 && text.contains('-') && !text.starts_with('-') && is_secret_name(text.as_bytes())
}

/// Whether the value under the name of a secret is a text for people or a name, and no secret.
fn is_label(name: &str, value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_phrase = is_phrase(name.as_bytes()) || is_password(name.as_bytes()) && is_words(bytes);
    is_reference(bytes)
        || is_prose(bytes) && !is_phrase
        || value.len() > 3 && is_secret_name(bytes) && Look::of(bytes).digits == 0
}

/// The text that is being made.
struct Output<'a> {
    json: &'a str,
    text: Option<String>,
    copied: usize,
}

impl<'a> Output<'a> {
    fn replace(&mut self, place: std::ops::Range<usize>, by: &str) {
        let text = self.text.get_or_insert_with(|| String::with_capacity(self.json.len()));
        text.push_str(&self.json[self.copied..place.start]);
        text.push_str(&quoted(by));
        self.copied = place.end;
    }

    fn finish(self) -> Cow<'a, str> {
        match self.text {
            None => Cow::Borrowed(self.json),
            Some(text) => Cow::Owned(text + &self.json[self.copied..]),
        }
    }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a string of JSON says.
fn decoded<'a>(json: &'a str, literal: &std::ops::Range<usize>) -> Cow<'a, str> {
    let inner = &json[literal.start + 1..literal.end - 1];
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Cow::Borrowed(inner),
        Some(_) => match serde_json::from_str::<String>(&json[literal.clone()]) {
            Ok(text) => Cow::Owned(text),
            // For example a lone surrogate. Then the string is searched as it is written.
            Err(_) => Cow::Borrowed(inner),
        },
    }
}

/// A text whose escapes of plain characters (`\u003d`, `\/`, `&quot;`, `%22`) are replaced by what they stand for. `None`:
/// it has none.
fn unescaped(text: &str) -> Option<String> {
    const ENTITIES: &[(&str, char)] = &[
        ("&quot;", '"'),
        ("&#34;", '"'),
        ("&#x22;", '"'),
        ("&apos;", '\''),
        ("&#39;", '\''),
        ("&#x27;", '\''),
        ("&amp;", '&'),
    ];
    let code = |high: &u8, low: &u8, plain: &[u8]| {
        let digits = [*high, *low];
        let code = std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
        code.filter(|code| code.is_ascii_alphanumeric() || plain.contains(code)).map(char::from)
    };
    let mut out = String::new();
    let mut rest = text;
    let mut any = false;
    while let Some(at) = memchr::memchr3(b'\\', b'&', b'%', rest.as_bytes()) {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let plain = match escape.as_bytes() {
            [b'\\', b'/', ..] => Some(('/', 2)),
            [b'\\', b'u', b'0', b'0', high, low, ..] => {
                code(high, low, b" =:_-+/.&<>@'\"").map(|char| (char, "\\u0000".len()))
            }
            [b'&', ..] => ENTITIES
                .iter()
                .find(|(entity, _)| escape.starts_with(entity))
                .map(|(entity, char)| (*char, entity.len())),
            [b'%', high, low, ..] => code(high, low, b" =:_-+/.@'\"{},").map(|char| (char, "%00".len())),
            _ => None,
        };
        let (char, length) = plain.unwrap_or((char::from(escape.as_bytes()[0]), 1));
        any |= plain.is_some();
        out.push(char);
        rest = &escape[length..];
    }
    any.then(|| out + rest)
}

fn replaced(text: &str, hits: &[Hit], counts: &mut Counts) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    for Hit { place, kind } in hits {
        if place.start < copied || !text.is_char_boundary(place.start) || !text.is_char_boundary(place.end) {
            continue;
        }
        out.push_str(&text[copied..place.start]);
        out.push_str(&marker(kind));
        copied = place.end;
        *counts.entry((*kind).to_owned()).or_default() += 1;
    }
    (copied > 0).then(|| out + &text[copied..])
}

fn replace(text: &str, name: &str, regex: &Regex, counts: &mut Counts) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    for found in regex.captures_iter(text) {
        let Some(secret) = found.name("secret").or_else(|| found.get(0)) else { continue };
        // An empty match hides nothing, and the marker of an earlier secret is none.
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
        assert_eq!(redactor.json(r#"{"a":"id ACME-123"}"#, &mut Counts::new()), r#"{"a":"id [REDACTED:user-1]"}"#);
        assert!(Redactor::new(&["(".to_owned()]).is_err());
    }

    #[test]
    fn json_stays_json_whatever_is_in_it() {
        let pieces = [
            "\\",
            "\"",
            "password",
            "=",
            ":",
            " ",
            "\n",
            "\\u0041",
            "a1B2c3D4e5F6g7H8",
            "{",
            "}",
            "é",
            "\u{1F600}",
            "-----BEGIN RSA PRIVATE KEY-----",
            "://u:",
            "@",
            "'",
            "eyJ",
            ".",
        ];
        for seed in 0..3000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let text: String = (0..rng.usize(0..14)).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
            let json = serde_json::json!({"password": text, "list": ["--token", text, {"name": text, "value": text}], text.clone(): 1}).to_string();
            let out = redactor().json(&json, &mut Counts::new()).into_owned();
            assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "seed {seed}: {json} -> {out}");
            redactor().text(&text, &mut Counts::new());
        }
    }

    /// Each of these was read to its end from every place, if nothing bounded it. The test would not end.
    #[test]
    fn a_text_that_repeats_itself_is_read_in_bounded_steps() {
        let begin = format!("-----BEGIN {}PRIVATE KEY-----", "");
        for part in [
            "key=",
            "token:",
            "glpat-",
            "eyJ-",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaa-",
            "cookie:a=",
            "a://b:",
            "password=\"",
            "--password-",
            "\\u0061",
            "sk-proj-",
            &begin,
        ] {
            let text = part.repeat(40_000 / part.len());
            redactor().text(&text, &mut Counts::new());
            redactor().json(&quoted(&text), &mut Counts::new());
        }
    }
}
