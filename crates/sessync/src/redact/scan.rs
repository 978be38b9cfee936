//! Finds the secrets in one text.
//!
//! One pass over the bytes. Each word is compared with the beginnings of the known families, and the few bytes that
//! can stand between a name and its value (`=`, `:`, `>`, `(`, `|`, `-`) are looked at more closely. Escapes do not
//! matter: quotes may have any number of backslashes before them. So JSON in a string of JSON is searched without
//! being parsed, however deep it is.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::families::{Body, FAMILIES, Family};
use super::names::{self, Meaning, is_password, is_secret_name, meaning};
use super::value::{Look, is_code, is_prose, is_reference};

/// A secret: its place and its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) place: Range<usize>,
    pub(super) kind: &'static str,
}

/// What a text had besides secrets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// A private key begins in it and does not end: the rest may be in the next string.
    pub(super) open_key: bool,
    /// It has an escape that hides what it stands for.
    pub(super) escapes: bool,
}

/// A letter, a digit or `_`.
const WORD: u8 = 1;
/// It is looked at.
const MARK: u8 = 2;
/// A name in capitals can end with it.
const CAPITAL: u8 = 4;
/// It can stand in base64.
const DENSE: u8 = 8;
/// A run of base64 of this length is looked at.
const LONG: usize = 24;

/// What kind of byte each one is.
static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            class[at] |= WORD | DENSE;
        }
        if matches!(byte, b'+' | b'/') {
            class[at] |= DENSE;
        }
        if matches!(byte, b'=' | b':' | b'>' | b'(' | b'|' | b'~' | b'-' | b'\\' | b'%' | 0x1b) {
            class[at] |= MARK;
        }
        if matches!(byte, b'D' | b'N' | b'T' | b'Y') {
            class[at] |= CAPITAL;
        }
        at += 1;
    }
    class
};

/// Words after which a secret can come, besides the families.
const INTRODUCTIONS: &[&str] = &["bearer ", "basic ", "password ", "identified by ", "requirepass ", "eyj"];

/// How words begin that are a family or an introduction: a set of hashes of three bytes. Few other words are in it.
static BEGINNINGS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let mut bits = vec![0; BEGINNING_BITS / 64];
    let mut set = |bytes: [u8; 3]| bits[beginning(bytes) / 64] |= 1 << (beginning(bytes) % 64);
    for family in FAMILIES {
        match *family.prefix.as_bytes() {
            [first, second, third, ..] => set([first, second, third]),
            [first, second] => {
                (0..=255).filter(|third| family.body.has(*third)).for_each(|third| set([first, second, third]))
            }
            _ => {}
        }
    }
    for word in INTRODUCTIONS {
        let [a, b, c, ..] = *word.as_bytes() else { continue };
        for upper in 0..8 {
            let cased = |byte: u8, bit: u8| if upper >> bit & 1 == 1 { byte.to_ascii_uppercase() } else { byte };
            set([cased(a, 0), cased(b, 1), cased(c, 2)]);
        }
    }
    bits
});
const BEGINNING_BITS: usize = 1 << 15;

fn beginning([a, b, c]: [u8; 3]) -> usize {
    (usize::from(a) << 10 ^ usize::from(b) << 5 ^ usize::from(c)) % BEGINNING_BITS
}

/// The families by their first byte.
static BY_FIRST: LazyLock<Vec<Vec<&'static Family>>> = LazyLock::new(|| {
    let mut by_first = vec![Vec::new(); 256];
    for family in FAMILIES {
        by_first[usize::from(family.prefix.as_bytes()[0])].push(family);
    }
    by_first
});

/// How much of what follows a prefix is looked at before it is known to be a secret.
const MAX_BODY: usize = 1024;
/// How much of a value is looked at to judge it.
const JUDGED: usize = 128;
/// The longest value without quotes.
const MAX_BARE: usize = 1024;
/// How far cookies and wrapped data are looked at.
const MAX_RUN: usize = 4096;
/// The longest base64 that is decoded.
const MAX_ENCODED: usize = 64 * 1024;
/// The longest password that is looked for in quotes.
const MAX_VALUE: usize = 4096;
/// How random texts that no name explains may be long. Shorter ones are identifiers, longer ones are data.
const RANDOM: std::ops::RangeInclusive<usize> = 32..=100;

/// Finds the secrets in a text, in order and without overlaps.
pub(super) fn scan(text: &[u8], hits: &mut Vec<Hit>) -> Found {
    Scanner { text, hits, found: Found::default(), nested: false, beginnings: &BEGINNINGS }.run()
}

struct Scanner<'a> {
    text: &'a [u8],
    hits: &'a mut Vec<Hit>,
    found: Found,
    /// It is decoded base64: it is not decoded again.
    nested: bool,
    beginnings: &'a [u64],
}

/// A value after a name.
struct Value {
    place: Range<usize>,
    quoted: bool,
}

impl Scanner<'_> {
    /// The loop decides by arithmetic which bytes are worth a look, because a branch on every word would be guessed
    /// wrong most of the time.
    fn run(mut self) -> Found {
        let text = self.text;
        let (mut at, mut was_word, mut length, mut before) = (0, 0_u8, 0_usize, 0_u8);
        while let Some(byte) = text.get(at).copied() {
            let class = CLASS[usize::from(byte)];
            let is_word = class & WORD;
            length = (length + 1) * usize::from(class >> 3);
            let hash = if let Some([a, b, c]) = text.get(at..at + 3) { beginning([*a, *b, *c]) } else { 0 };
            let begins = (self.beginnings[hash / 64] >> (hash % 64)) as u8 & is_word & !was_word;
            let names = u8::from(byte == b' ') & CLASS[usize::from(before)] >> 2 & 1;
            if class & MARK | begins | names | u8::from(length == LONG) == 0 {
                (at, was_word, before) = (at + 1, is_word, byte);
                continue;
            }
            let next = if class & MARK != 0 {
                self.mark(at)
            } else if begins != 0 {
                self.family(at).or_else(|| self.introduced(at)).unwrap_or(at + 1)
            } else if names != 0 {
                self.constant(at)
            } else {
                self.long(at)
            };
            (was_word, length) = if next == at + 1 { (is_word, length) } else { (0, 0) };
            at = next;
            before = self.before(at);
        }
        self.found
    }

    fn hit(&mut self, place: Range<usize>, kind: &'static str) -> usize {
        let end = place.end;
        self.hits.push(Hit { place, kind });
        end
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(0, |at| self.text[at])
    }

    /// The end of a run of bytes that are so, looked at no further than this: what a text repeats a million times
    /// must not be read to its end each time.
    fn run_within(&self, from: usize, most: usize, is: impl Fn(u8) -> bool) -> usize {
        let until = (from + most).min(self.text.len());
        self.text[from..until].iter().position(|byte| !is(*byte)).map_or(until, |length| from + length)
    }

    /// The end of a run of bytes that are so.
    fn run_of(&self, from: usize, is: impl Fn(u8) -> bool) -> usize {
        self.text[from..].iter().position(|byte| !is(*byte)).map_or(self.text.len(), |length| from + length)
    }

    /// `ENV API_KEY value`: a name in capitals, and a value after a space.
    fn constant(&mut self, at: usize) -> usize {
        let value = at + 1..self.run_of(at + 1, is_bare);
        let is_secret = self.name(at).is_some_and(|name| {
            name.end == at
                && self.text[name.clone()].iter().all(|byte| !byte.is_ascii_lowercase())
                && meaning(&self.text[name]) == Meaning::Secret
        });
        let look = Look::of(&self.text[value.clone()]);
        let is_dense = look.length >= 16 && look.digits > 0 && look.upper > 1 && look.lower > 1;
        if is_secret && (look.is_mixed() || is_dense) { self.hit(value, "assignment") } else { at + 1 }
    }

    fn family(&mut self, start: usize) -> Option<usize> {
        for family in &BY_FIRST[usize::from(self.text[start])] {
            let prefix = family.prefix.as_bytes();
            if !self.text[start..].starts_with(prefix) {
                continue;
            }
            let body = start + prefix.len();
            let mut end = self.run_within(body, MAX_BODY, |byte| family.body.has(byte));
            while family.body == Body::Dotted && end > body && self.text[end - 1] == b'.' {
                end -= 1;
            }
            let length = end - body;
            let is_fixed = family.least == family.most;
            if length < family.least || length > family.most || is_fixed && self.byte(end).is_ascii_alphanumeric() {
                continue;
            }
            if is_plausible(family, &self.text[body..end]) {
                let end = if length < MAX_BODY - 8 { end } else { self.run_of(end, |byte| family.body.has(byte)) };
                return Some(self.hit(start..end, family.kind));
            }
        }
        None
    }

    fn introduced(&mut self, start: usize) -> Option<usize> {
        let end = self.run_of(start, |byte| CLASS[usize::from(byte)] & WORD != 0);
        let is = |word: &str| {
            self.text[start..].get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes()))
        };
        if self.text[start..].starts_with(b"eyJ") {
            return self.web_token(start);
        }
        let spaces = |from: usize| self.run_of(from, |byte| byte == b' ');
        if is("bearer ") {
            let from = spaces(end);
            let to = self.run_of(from, |byte| byte.is_ascii_alphanumeric() || b"._~+/=-".contains(&byte));
            let look = Look::of(&self.text[from..to]);
            let is_token = look.length >= 16 && look.digits > 0 && !is_reference(&self.text[from..to]);
            return is_token.then(|| self.hit(from..to, "bearer-token"));
        }
        if is("basic ") {
            let from = spaces(end);
            let to = self.run_of(from, |byte| Body::Base64.has(byte));
            let decoded = decode(&self.text[from..to])?;
            let is_pair =
                to - from >= 8 && decoded.contains(&b':') && decoded.iter().all(|byte| (0x20..0x7f).contains(byte));
            return is_pair.then(|| self.hit(from..to, "basic-credentials"));
        }
        let by_space = if is("identified by ") {
            Some(start + "identified by".len())
        } else if is("password ") || is("requirepass ") {
            Some(end)
        } else {
            None
        };
        let value = self.value(by_space?)?;
        let text = &self.text[value.place.clone()];
        let is_netrc = !value.quoted && is("password ") && {
            let line = &self.text[start.saturating_sub(100)..start];
            line.windows(6).any(|window| window == b"login ") && text.len() >= 4
        };
        let is_plain = !value.quoted && is("requirepass ") && text.len() >= 4;
        let is_secret =
            value.quoted && text.len() >= 4 && !is_prose(text) && !is_secret_name(text) || is_netrc || is_plain;
        (is_secret && !is_reference(text)).then(|| self.hit(value.place, "assignment"))
    }

    /// `header.claims.signature`, each in base64.
    fn web_token(&mut self, start: usize) -> Option<usize> {
        let part = |from: usize| self.run_within(from, MAX_RUN, |byte| Body::Word.has(byte));
        let first = self.run_within(start, MAX_BODY, |byte| Body::Word.has(byte));
        if first - start < 10 || self.byte(first) != b'.' {
            return None;
        }
        let second = part(first + 1);
        if second - first < 9 || self.byte(second) != b'.' {
            return None;
        }
        let end = self.run_of(second, |byte| Body::Dotted.has(byte));
        Some(self.hit(start..end, "json-web-token"))
    }

    /// A long run: perhaps random, perhaps a secret in base64. `at` is somewhere in it.
    fn long(&mut self, at: usize) -> usize {
        let (start, end) = (at, at + 1);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'_' | b'-');
        let mut from = start;
        while from > start.saturating_sub(400) && is_part(self.before(from)) {
            from -= 1;
        }
        if self.before(from) == b'\\' && matches!(self.text[from], b'n' | b'r' | b't') {
            from += 1;
        }
        let mut to = self.run_within(end, MAX_RUN, is_part);
        to = self.run_within(to, 2, |byte| byte == b'=');
        let token = &self.text[from..to];
        if token.len() > 400 && Look::of(&token[..200]).is_random() {
            // Data, such as an image: none of its words means anything.
            return if self.hides_a_secret(from..to) { self.hit(from..to, "encoded") } else { to };
        }
        if let [.., dot, second] = [self.byte(to), self.byte(to + 1)]
            && dot == b'.'
            && second.is_ascii_alphanumeric()
            && let Some(after) = self.discord(from, to)
        {
            return after;
        }
        // Before this place there can be a secret in the same run.
        from = from.max(self.hits.last().map_or(0, |last| last.place.end));
        if self.hides_a_secret(from..to) {
            return self.hit(from..to, "encoded");
        }
        if self.is_random(from..to) {
            return self.hit(from..to, "high-entropy");
        }
        end
    }

    /// A bot's token: three parts of 24 to 28, 6 and 27 to 38 bytes.
    fn discord(&mut self, from: usize, to: usize) -> Option<usize> {
        let part = |from: usize| self.run_of(from, |byte| Body::Word.has(byte));
        let second = part(to + 1);
        let third = if self.byte(second) == b'.' { part(second + 1) } else { return None };
        let lengths = (to - from, second - to - 1, third - second - 1);
        let fits = (24..=28).contains(&lengths.0) && lengths.1 == 6 && (27..=38).contains(&lengths.2);
        (fits && Look::of(&self.text[from..third]).is_random()).then(|| self.hit(from..third, "discord-token"))
    }

    fn is_random(&self, place: Range<usize>) -> bool {
        let token = &self.text[place.clone()];
        if !RANDOM.contains(&token.len()) || !Look::of(token).is_random() {
            return false;
        }
        // Hashes and public keys say what they are; so do the identifiers of many services (`cus_…`, `msg_…`).
        let lower = token.to_ascii_lowercase();
        if [&b"sha1-"[..], b"sha256-", b"sha384-", b"sha512-", b"aaaa"].iter().any(|prefix| lower.starts_with(prefix)) {
            return false;
        }
        let prefix = token.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
        if (2..=12).contains(&prefix) && matches!(token[prefix], b'_' | b'-') {
            return false;
        }
        if matches!(self.before(place.start), b':' | b'/' | b'.' | b'@' | b'%' | b'?' | b'#' | b'&' | b'$' | b'~') {
            return false;
        }
        if token.contains(&b'/') && (token.len() != 40 || token.split(|byte| *byte == b'/').any(is_path_part)) {
            return false;
        }
        // A part of a URL.
        let chunk = &self.text[place.start.saturating_sub(300)..place.start];
        let chunk =
            chunk.rsplit(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<')).next();
        if chunk.is_some_and(|chunk| chunk.windows(3).any(|window| window == b"://")) {
            return false;
        }
        !self.is_wrapped(place)
    }

    /// Whether the line before or after is a run of base64 as well: data that is broken into lines.
    fn is_wrapped(&self, place: Range<usize>) -> bool {
        let is_base64 = |byte: u8| Body::Base64.has(byte);
        let rest = &self.text[place.end..(place.end + 24).min(self.text.len())];
        let gap =
            rest.iter().position(|byte| byte.is_ascii_alphanumeric() && *byte != b'n' && *byte != b'r').unwrap_or(0);
        let breaks = |gap: &[u8]| gap.contains(&b'\n') || gap.windows(2).any(|two| two == b"\\n");
        if breaks(&rest[..gap]) {
            let next = place.end + gap;
            let length = self.run_of(next, is_base64) - next;
            if length + 1 >= place.len() || (place.len() == 64 || place.len() == 76) && length >= 4 {
                return true;
            }
        }
        let head = &self.text[place.start.saturating_sub(24)..place.start];
        let Some(newline) = head.iter().rposition(|byte| *byte == b'\n' || *byte == b'\\') else { return false };
        let mut end = place.start - (head.len() - newline);
        while end > 0 && !is_base64(self.text[end - 1]) && place.start - end < 24 {
            end -= 1;
        }
        let length = self.text[..end].iter().rev().take(120).take_while(|byte| is_base64(**byte)).count();
        length >= place.len()
    }

    /// Whether base64 stands for a text with a secret in it.
    fn hides_a_secret(&self, place: Range<usize>) -> bool {
        let token = &self.text[place];
        let is_text = |bytes: &[u8]| bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t'));
        if self.nested
            || token.len() < 24
            || token.len() > MAX_ENCODED
            || !decode(&token[..20]).is_some_and(|start| is_text(&start))
        {
            return false;
        }
        let Some(decoded) = decode(token).filter(|decoded| is_text(decoded)) else { return false };
        let mut hits = Vec::new();
        Scanner { text: &decoded, hits: &mut hits, found: Found::default(), nested: true, beginnings: self.beginnings }
            .run();
        !hits.is_empty()
    }

    /// Looks at a byte that can stand between a name and a value. Returns where to go on.
    fn mark(&mut self, at: usize) -> usize {
        let after = match self.text[at] {
            b'\\' => {
                let escape = self.byte(at + 1);
                self.found.escapes |= matches!(escape, b'u' | b'/');
                // The letter belongs to the escape, not to the word after it.
                matches!(escape, b'n' | b'r' | b't').then_some(at + 2)
            }
            b'%' => self
                .text
                .get(at + 1..at + 3)
                .is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
                .then_some(at + 3),
            // The colours of a terminal: ESC [ 32 m
            // A text that was cut off may end within one.
            0x1b => {
                let letter = self.run_of(at + 1, |byte| byte.is_ascii_digit() || matches!(byte, b'[' | b';'));
                Some((letter + 1).min(self.text.len()))
            }
            b'=' => self.equals(at),
            b':' => self.colon(at),
            b'>' => self.element(at),
            b'(' => self.call(at),
            b'|' => self.cell(at),
            b'~' => self.azure(at),
            _ => self.dash(at),
        };
        after.unwrap_or(at + 1)
    }

    fn equals(&mut self, at: usize) -> Option<usize> {
        if matches!(self.byte(at + 1), b'=' | b'~') {
            return Some(at + 2);
        }
        if matches!(self.before(at), b'=' | b'!' | b'<' | b'>' | b'+' | b'*' | b'/' | b'|' | b'^') {
            return None;
        }
        let name = self.name(at)?;
        let value = self.value(if self.byte(at + 1) == b'>' { at + 2 } else { at + 1 })?;
        self.judge(name, value, at)
    }

    fn colon(&mut self, at: usize) -> Option<usize> {
        match self.byte(at + 1) {
            b'/' if self.byte(at + 2) == b'/' => return self.url(at),
            b':' => return Some(at + 2),
            b'=' => return None,
            b'A' if self.byte(at + 2) == b'A' && self.before(at).is_ascii_digit() => {
                let digits = self.text[..at].iter().rev().take(12).take_while(|byte| byte.is_ascii_digit()).count();
                let end = self.run_of(at + 1, |byte| Body::Word.has(byte));
                if (8..=10).contains(&digits) && end - at - 1 == 35 {
                    return Some(self.hit(at + 1..end, "telegram-token"));
                }
            }
            _ => {}
        }
        let name = self.name(at)?;
        let value = self.value(at + 1)?;
        self.judge(name, value, at)
    }

    /// The name before a mark, if it can be one that has a secret.
    fn name(&self, at: usize) -> Option<Range<usize>> {
        let mut end = at;
        while end > 0
            && at - end < 12
            && matches!(self.text[end - 1], b' ' | b'\t' | b'"' | b'\'' | b'`' | b'\\' | b']' | b':' | b'?' | b'!')
        {
            end -= 1;
        }
        if !names::may_end(&self.text[..end]) {
            return None;
        }
        let mut start = end;
        while start > 0
            && end - start < 64
            && (CLASS[usize::from(self.text[start - 1])] & WORD != 0 || matches!(self.text[start - 1], b'-' | b'.'))
        {
            start -= 1;
        }
        let is_type = |name: &[u8]| matches!(name, b"string" | b"String" | b"str" | b"any");
        if is_type(&self.text[start..end]) && self.text[at] == b'=' && start > 0 && start < at {
            // `password: string = "…"`
            let colon = self.text[..start].iter().rposition(|byte| !matches!(byte, b' ' | b'&'))?;
            return (self.text[colon] == b':').then(|| self.name(colon)).flatten();
        }
        (start < end).then_some(start..end)
    }

    /// The value that begins here, after spaces.
    fn value(&self, from: usize) -> Option<Value> {
        let mut start = self.run_of(from, |byte| matches!(byte, b' ' | b'\t'));
        if matches!(self.byte(start), b'b' | b'f' | b'r' | b'u' | b'@' | b'&')
            && matches!(self.byte(start + 1), b'"' | b'\'')
        {
            start += 1;
        }
        let quote = self.run_of(start, |byte| byte == b'\\');
        let escapes = quote - start;
        if let delimiter @ (b'"' | b'\'' | b'`') = self.byte(quote) {
            let begin = quote + 1;
            let most = (begin + MAX_VALUE).min(self.text.len());
            for found in memchr::memchr_iter(delimiter, &self.text[begin..most]) {
                let end = begin + found;
                let backslashes = self.text[begin..end].iter().rev().take_while(|byte| **byte == b'\\').count();
                if backslashes == escapes {
                    return Some(Value { place: begin..end - escapes, quoted: true });
                }
            }
            start = begin;
        }
        let end = self.run_within(start, MAX_BARE, is_bare);
        (end > start).then_some(Value { place: start..end, quoted: false })
    }

    /// Whether the value under a name is a secret.
    fn judge(&mut self, name: Range<usize>, value: Value, mark: usize) -> Option<usize> {
        let name_text = &self.text[name.clone()];
        let known = meaning(name_text);
        if known == Meaning::Nothing && self.is_value_of_secret_name(name.clone()) {
            let text = &self.text[value.place.clone()];
            let is_secret = text.len() >= 4 && !is_reference(text) && !is_prose(text);
            return is_secret.then(|| self.hit(value.place, "assignment"));
        }
        if known == Meaning::Nothing {
            return None;
        }
        let mut value = value;
        let is_header = name_text.to_ascii_lowercase().ends_with(b"authorization");
        if is_header && !value.quoted && is_scheme(&self.text[value.place.clone()]) {
            value = self.value(value.place.end)?;
        }
        if name_text.to_ascii_lowercase().ends_with(b"cookie") {
            return self.cookies(value.place.start);
        }
        let is_shell = self.text[mark] == b'='
            && name.end == mark
            && value.place.start == mark + 1
            && name_text.iter().all(|byte| !byte.is_ascii_lowercase());
        let after = self.byte(value.place.end);
        let text = &self.text[value.place.start..value.place.end.min(value.place.start + JUDGED)];
        let is_call = !value.quoted && matches!(after, b'(' | b'[' | b'{');
        let is_secret = !is_call
            && match known {
                Meaning::Secret => is_secret(name_text, text, value.quoted, is_shell),
                _ => may_be_secret(name_text, text, value.quoted),
            };
        if !is_secret {
            return None;
        }
        let is_aws = name_text.to_ascii_lowercase().ends_with(b"key") && text.len() == 40 && Look::of(text).is_random();
        Some(self.hit(value.place, if is_aws { "aws-secret-access-key" } else { "assignment" }))
    }

    /// Whether this is `value` in `name: DB_PASSWORD, value: …`.
    fn is_value_of_secret_name(&self, name: Range<usize>) -> bool {
        let own = &self.text[name.clone()];
        if !own.to_ascii_lowercase().ends_with(b"value") {
            return false;
        }
        let before = &self.text[name.start.saturating_sub(120)..name.start];
        let mut words = before
            .rsplit(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')))
            .filter(|word| word.len() > 1);
        let (Some(secret), Some(label)) = (words.next(), words.next()) else { return false };
        let label = label.to_ascii_lowercase();
        [&b"name"[..], b"key", b"variable", b"header"].iter().any(|word| label.ends_with(word))
            && is_secret_name(secret)
    }

    /// The cookies of a header: those that look random.
    fn cookies(&mut self, from: usize) -> Option<usize> {
        let end = self.run_within(from, MAX_RUN, |byte| !matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\'));
        let mut at = from;
        let mut last = None;
        for part in self.text[from..end].split(|byte| *byte == b';') {
            if let Some(equals) = part.iter().position(|byte| *byte == b'=') {
                let value = &part[equals + 1..];
                let look = Look::of(value);
                if look.length >= 16 && (look.is_mixed() || look.is_long_hex()) && !value.contains(&b' ') {
                    last = Some(self.hit(at + equals + 1..at + part.len(), "cookie"));
                }
            }
            at += part.len() + 1;
        }
        last
    }

    /// `scheme://user:password@host`
    fn url(&mut self, at: usize) -> Option<usize> {
        let start = at + 3;
        let most = (start + 512).min(self.text.len());
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`<>\\)]}|".contains(byte);
        let end = self.text[start..most].iter().position(is_end).map_or(most, |length| start + length);
        let Some(host) = memchr::memrchr(b'@', &self.text[start..end]) else { return self.webhook(start, end) };
        let user = start..start + host;
        let password = match memchr::memchr(b':', &self.text[user.clone()]) {
            Some(colon) => user.start + colon + 1..user.end,
            None if Look::of(&self.text[user.clone()]).is_mixed() && user.len() >= 20 => user,
            None => return Some(end),
        };
        match is_reference(&self.text[password.clone()]) && !password.is_empty() || password.is_empty() {
            true => Some(end),
            false => {
                self.hit(password, "password-in-url");
                Some(end)
            }
        }
    }

    /// Addresses at which anybody who knows them can post.
    fn webhook(&mut self, start: usize, end: usize) -> Option<usize> {
        let host = &self.text[start..end];
        let path_end = self.run_of(end, |byte| byte.is_ascii_alphanumeric() || b"/_-.@%".contains(&byte));
        let path = &self.text[end..path_end];
        let (kind, prefix) = match host {
            b"hooks.slack.com" => ("slack-webhook", 1),
            b"discord.com" | b"discordapp.com" if path.starts_with(b"/api/webhooks/") => ("discord-webhook", 14),
            _ if host.ends_with(b".webhook.office.com") && path.starts_with(b"/webhookb2/") => ("teams-webhook", 11),
            _ => return None,
        };
        let secret = end + prefix..path_end;
        (secret.len() >= 20).then(|| self.hit(secret, kind))
    }

    /// `<password>…</password>`
    fn element(&mut self, at: usize) -> Option<usize> {
        let name = self.name(at).filter(|name| name.end == at && self.before(name.start) == b'<')?;
        if meaning(&self.text[name]) != Meaning::Secret {
            return None;
        }
        let end = self.run_within(at + 1, 300, |byte| !matches!(byte, b'<' | b'\n'));
        let value = &self.text[at + 1..end];
        let is_secret = (4..=256).contains(&value.len())
            && self.text[end..].starts_with(b"</")
            && !is_reference(value)
            && !is_prose(value);
        is_secret.then(|| self.hit(at + 1..end, "assignment"))
    }

    /// `.password("…")`
    fn call(&mut self, at: usize) -> Option<usize> {
        let name = self.name(at).filter(|name| name.end == at)?;
        if meaning(&self.text[name.clone()]) != Meaning::Secret {
            return None;
        }
        let value = self.value(at + 1).filter(|value| value.quoted)?;
        let text = &self.text[value.place.clone()];
        let own = self.text[name].rsplit(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
        let asks = [
            &b"get"[..],
            b"find",
            b"has",
            b"is",
            b"fetch",
            b"load",
            b"read",
            b"parse",
            b"valid",
            b"hash",
            b"check",
            b"verif",
            b"del",
            b"create",
            b"log",
        ];
        let is_secret = !asks.iter().any(|verb| own.starts_with(verb))
            && text.len() >= 6
            && !is_reference(text)
            && !is_prose(text)
            && !is_code(text);
        is_secret.then(|| self.hit(value.place, "assignment"))
    }

    /// `| SecretAccessKey | … |`
    fn cell(&mut self, at: usize) -> Option<usize> {
        let name = self.name(at)?;
        if meaning(&self.text[name]) != Meaning::Secret {
            return None;
        }
        let value = self.value(at + 1)?;
        let look = Look::of(&self.text[value.place.clone()]);
        (look.is_mixed() || look.is_long_hex()).then(|| self.hit(value.place, "assignment"))
    }

    /// The secret of an Azure application has `Q~` in its place.
    fn azure(&mut self, at: usize) -> Option<usize> {
        let is = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'~' | b'.' | b'-');
        if self.before(at) != b'Q'
            || at < 5
            || !self.text[at - 2].is_ascii_digit()
            || !self.text[at - 5..at].iter().all(|byte| is(*byte))
        {
            return None;
        }
        let end = self.run_of(at + 1, is);
        ((31..=34).contains(&(end - at - 1))).then(|| self.hit(at - 5..end, "azure-client-secret"))
    }

    fn dash(&mut self, at: usize) -> Option<usize> {
        if self.byte(at + 1) == b'-' {
            if self.text[at..].starts_with(b"-----BEGIN ") {
                return self.private_key(at);
            }
            let end = self.run_of(at, |byte| byte == b'-');
            return if end - at == 2 { self.flag(at) } else { Some(end) };
        }
        const SECURE: &[u8] = b"-SecureString ";
        if self.byte(at + 1) == b'S' && self.text[at..].starts_with(SECURE) {
            let value = self.value(at + SECURE.len())?;
            let is_secret = value.quoted && !is_reference(&self.text[value.place.clone()]);
            return is_secret.then(|| self.hit(value.place, "assignment"));
        }
        let is_option = matches!(self.before(at), b' ' | b'"' | b'\'') && matches!(self.byte(at + 1), b'u' | b'p');
        if is_option { self.short_option(at) } else { None }
    }

    /// `--password …`
    fn flag(&mut self, at: usize) -> Option<usize> {
        let end = self.run_of(at + 2, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let name = &self.text[at + 2..end];
        let known = meaning(name);
        if known == Meaning::Nothing || matches!(self.before(at), b'-') {
            return Some(end);
        }
        // In a list of arguments, quotes and a comma stand between them.
        let gap = self.run_of(end, |byte| matches!(byte, b' ' | b'"' | b'\'' | b',' | b'\\' | b'\t'));
        if gap == end || gap - end > 8 || self.byte(gap) == b'-' {
            return Some(end);
        }
        let value = self
            .value(end)
            .filter(|value| value.quoted && value.place.start >= gap)
            .unwrap_or(Value { place: gap..self.run_of(gap, is_bare), quoted: false });
        let text = &self.text[value.place.clone()];
        let is_secret = !is_reference(text)
            && match known {
                Meaning::Secret => {
                    let look = Look::of(text);
                    text.len() >= 4 && !is_prose(text) && (!is_code(text) || look.upper > 1 && look.lower > 1)
                }
                _ => may_be_secret(name, text, true),
            };
        if is_secret { Some(self.hit(value.place, "assignment")) } else { Some(end) }
    }

    /// `curl -u user:password`, `mysql -ppassword`, `sshpass -p password`
    fn short_option(&mut self, at: usize) -> Option<usize> {
        let before = &self.text[at.saturating_sub(200)..at];
        let command = before.rsplit(|byte| matches!(byte, b'\n' | b';' | b'|')).next().unwrap_or_default();
        let runs = |name: &str| command.windows(name.len()).any(|window| window == name.as_bytes());
        let attached = !matches!(self.byte(at + 2), b' ' | b'"' | b'\'' | b'\\' | b',');
        if self.text[at + 1] == b'u' {
            if attached || !runs("curl") && !runs("wget") && !runs("http ") {
                return None;
            }
            let value = self.value(at + 2)?;
            let colon = memchr::memchr(b':', &self.text[value.place.clone()])?;
            let password = value.place.start + colon + 1..value.place.end;
            let is_secret = password.len() >= 3 && !is_reference(&self.text[password.clone()]);
            return is_secret.then(|| self.hit(password, "assignment"));
        }
        let is_database = runs("mysql") || runs("mariadb");
        if attached && is_database || !attached && (runs("sshpass") || runs("docker login")) {
            let value = self.value(at + 2)?;
            let text = &self.text[value.place.clone()];
            let is_secret = text.len() >= 4 && !is_reference(text) && !text.starts_with(b"-");
            return is_secret.then(|| self.hit(value.place, "assignment"));
        }
        None
    }

    fn private_key(&mut self, at: usize) -> Option<usize> {
        let dashes = |from: usize, most: usize| {
            let until = (from + most).min(self.text.len());
            self.text[from..until].windows(5).position(|window| window == b"-----").map(|found| from + found + 5)
        };
        let header = dashes(at + 11, 60)?;
        if !self.text[at..header].windows(11).any(|window| window == b"PRIVATE KEY") {
            return Some(header);
        }
        let rest = &self.text[header..];
        // Once there is no end, there is none for the keys after it either.
        let end = if self.found.open_key { None } else { memchr::memmem::find(rest, b"-----END ") };
        if let Some(end) = end {
            let end = dashes(header + end + 9, 60).unwrap_or(header + end + 9);
            return Some(self.hit(at..end, "private-key"));
        }
        // It is cut off: what looks like a key is one. The rest may be in the next string.
        self.found.open_key = true;
        let end = header + key_material(rest);
        if end > header { Some(self.hit(at..end, "private-key")) } else { Some(header) }
    }
}

/// How many bytes at the beginning look like the body of a private key: base64, in lines that may have numbers.
pub(super) fn key_material(text: &[u8]) -> usize {
    let mut end = 0;
    let mut at = 0;
    while at < text.len() {
        let gap = text[at..].iter().position(|byte| Body::Base64.has(*byte)).map_or(text.len(), |length| at + length);
        // `\n` between two lines of a nested string.
        let start =
            if gap > 0 && text[gap - 1] == b'\\' && matches!(text.get(gap), Some(b'n' | b'r')) { gap + 1 } else { gap };
        let stop =
            text[start..].iter().position(|byte| !Body::Base64.has(*byte)).map_or(text.len(), |length| start + length);
        let word = &text[start..stop];
        let is_number = word.len() <= 6 && word.iter().all(u8::is_ascii_digit);
        let is_header = matches!(
            word,
            b"Proc-Type" | b"DEK-Info" | b"ENCRYPTED" | b"AES-256-CBC" | b"AES-128-CBC" | b"DES-EDE3-CBC"
        );
        let look = Look::of(word);
        let is_body = word.len() >= 16 && look.upper > 0 && look.lower > 0
            || word.len() >= 16 && look.is_long_hex()
            || word.ends_with(b"=") && end > 0;
        if is_body {
            end = stop;
        } else if !(is_number || is_header || word.len() <= 1) {
            break;
        }
        at = stop.max(at + 1);
    }
    end
}

fn is_plausible(family: &Family, body: &[u8]) -> bool {
    let look = Look::of(&body[..body.len().min(80)]);
    if family.ordinary {
        return look.is_random();
    }
    if is_reference(&body[..body.len().min(JUDGED)]) {
        return false;
    }
    match family.body {
        Body::Hex => look.digits >= 4,
        Body::Upper => look.upper >= 4,
        _ => look.digits >= 1 || look.upper >= 2 && look.lower >= 2,
    }
}

/// Whether a value under a name such as `password` is the secret itself.
fn is_secret(name: &[u8], value: &[u8], quoted: bool, is_shell: bool) -> bool {
    if value.len() < 4 || is_reference(value) {
        return false;
    }
    let password = is_password(name);
    if value.contains(&b' ') && is_prose(value) {
        return name.to_ascii_lowercase().ends_with(b"passphrase");
    }
    let look = Look::of(value);
    let is_path = matches!(value, [b'/', ..] | [b'.', b'/', ..] | [b'~', b'/', ..])
        || value.windows(3).any(|window| window == b"://");
    if is_path && !look.is_random() {
        return false;
    }
    if is_secret_name(value) && !look.is_mixed() && look.digits == 0 {
        return false;
    }
    let is_dense = look.length >= 16 && look.digits > 0 && look.others == 0;
    if quoted {
        return password || !is_code(value) || is_dense;
    }
    if is_shell {
        let is_variable = look.lower == 0 && look.digits == 0 && value.contains(&b'_');
        let is_word = look.lower > 0 && look.upper == 0 && look.others == 0 && value.len() >= 6;
        return !is_variable && (password || !is_code(value) || is_word || is_dense);
    }
    if look.letters() == 0 && look.others == 0 {
        return password && value.len() >= 6;
    }
    if password && look.others == 0 && look.upper > 1 && look.lower > 1 && value.len() >= 8 && !is_named(value) {
        return true;
    }
    if password && look.digits > 0 && value.len() >= 6 && !value.iter().any(|byte| b".:/".contains(byte)) {
        return true;
    }
    value.len() >= 6 && (look.digits > 0 || look.others > 0 || look.is_mixed()) && !is_code(value)
        || is_dense && look.upper > 1 && look.lower > 1
}

/// Whether it is named for what it has, as names in programs are: `newPassword`, `SecretString`.
fn is_named(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "pass", "pwd", "secret", "value", "input", "user", "token", "key", "cred", "string", "str", "text", "field",
        "hash", "data", "type", "config", "option", "env", "param", "form", "null", "default", "props", "state",
        "account", "auth", "model", "schema", "error",
    ];
    let lower = value.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.windows(word.len()).any(|window| window == word.as_bytes()))
}

/// Whether a value under a name such as `key` is a secret: it must look like one.
pub(super) fn may_be_secret(name: &[u8], value: &[u8], quoted: bool) -> bool {
    if value.contains(&b' ') || is_reference(value) {
        return false;
    }
    let look = Look::of(value);
    let lower = name.to_ascii_lowercase();
    let is = |end: &[u8]| lower.ends_with(end);
    if is(b"pass") || is(b"pw") || is(b"pwd") || is(b"creds") || is(b"cred") {
        return value.len() >= 6
            && look.letters() > 0
            && ((look.digits > 0 || quoted && look.others > 0) && !is_code(value)
                || quoted
                    && look.others == 0
                    && look.upper > 1
                    && look.lower > 1
                    && value.len() >= 8
                    && !is_named(value));
    }
    if is(b"hash") || is(b"salt") || is(b"dsn") || is(b"pin") || is(b"otp") || is(b"pat") {
        return look.is_random() && look.length >= 20 && !value.contains(&b'/');
    }
    if is(b"auth")
        && value.len() >= 8
        && decode(value).is_some_and(|pair| pair.contains(&b':') && pair.iter().all(|byte| (0x20..0x7f).contains(byte)))
    {
        return true;
    }
    let is_url = value.windows(3).any(|window| window == b"://");
    let is_uuid = value.len() == 36 && value.iter().filter(|byte| **byte == b'-').count() == 4;
    let is_long = if quoted { 16 } else { 20 };
    let is_path = value.contains(&b'/') && value.split(|byte| *byte == b'/').any(is_path_part);
    if is_url || is_uuid || is_path || look.length < is_long {
        return false;
    }
    let plain =
        value.iter().all(|byte| Body::Base64.has(*byte) || matches!(byte, b'.' | b'~' | b'%' | b'!' | b'$' | b'*'));
    // Keys in caches and maps are hashes as well; tokens are not.
    plain && (look.is_random() || look.is_mixed() && look.length >= 20 || look.is_long_hex() && !is(b"key"))
}

fn is_path_part(part: &[u8]) -> bool {
    part.len() >= 3 && part.iter().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.'))
        || part.windows(2).any(|two| two == b"..")
}

/// Bytes of a value without quotes.
fn is_bare(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"\"'`,;&|()[]{}<>\\".contains(&byte)
}

fn is_scheme(text: &[u8]) -> bool {
    [&b"basic"[..], b"bearer", b"token", b"digest", b"apikey", b"negotiate", b"key", b"bot"]
        .iter()
        .any(|scheme| text.eq_ignore_ascii_case(scheme))
}

/// Base64 of either alphabet, with or without padding.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    let text = &text[..end];
    if text.iter().any(|byte| matches!(byte, b'-' | b'_')) {
        return URL_SAFE_NO_PAD.decode(text).ok();
    }
    STANDARD_NO_PAD.decode(text).ok()
}
