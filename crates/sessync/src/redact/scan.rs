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
use super::names::{self, Meaning, is_password, is_phrase, is_secret_name, meaning};
use super::value::{Look, is_chosen, is_code, is_prose, is_reference, is_words};

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
        // 0xe2 begins `│`.
        if matches!(byte, b'=' | b':' | b'>' | b'(' | b'|' | b'~' | b'-' | b'\\' | b'%' | b'&' | 0x1b | 0xe2) {
            class[at] |= MARK;
        }
        if matches!(byte, b'D' | b'N' | b'T' | b'Y') {
            class[at] |= CAPITAL;
        }
        at += 1;
    }
    class
};

/// How many bytes are classified at a time: one bit each.
const BLOCK: usize = 64;

/// The classes of the bytes of a block, one bit per byte.
#[derive(Clone, Copy)]
struct Block {
    word: u64,
    mark: u64,
    capital: u64,
    dense: u64,
}

impl Block {
    /// Of the first bytes of a text. What is missing has no class.
    fn of(text: &[u8]) -> Block {
        match text.first_chunk() {
            Some(bytes) => Block::of_bytes(bytes),
            None => {
                let mut bytes = [0; BLOCK];
                bytes[..text.len()].copy_from_slice(text);
                Block::of_bytes(&bytes)
            }
        }
    }

    fn of_bytes(bytes: &[u8; BLOCK]) -> Block {
        let mut block = Block { word: 0, mark: 0, capital: 0, dense: 0 };
        for (at, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let classes = u64::from_le_bytes(eight.map(|byte| CLASS[usize::from(byte)]));
            let bits = |class: u8| eight_bits(classes >> class.trailing_zeros()) << (8 * at);
            block.word |= bits(WORD);
            block.mark |= bits(MARK);
            block.capital |= bits(CAPITAL);
            block.dense |= bits(DENSE);
        }
        block
    }
}

/// The lowest bit of each of the eight bytes. The product moves the bit of byte i to 56 + i, and no two products meet.
fn eight_bits(bytes: u64) -> u64 {
    (bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// What a block must know of the one before it.
#[derive(Clone, Copy, Default)]
struct Carry {
    /// 1 if its last byte was part of a word.
    word: u64,
    /// 1 if a name in capitals can end with its last byte.
    capital: u64,
    /// Which of its last bytes can stand in base64.
    dense: u64,
}

/// The bytes of a block that can stand in base64, after [`LONG`] bytes of the one before.
#[derive(Clone, Copy)]
struct Dense(u128);

impl Dense {
    fn new(before: u64, block: u64) -> Dense {
        Dense(u128::from(block) << LONG | u128::from(before))
    }

    /// Where in the block a run reaches the length that is looked at.
    fn long(self) -> u64 {
        const { assert!(LONG == 24, "three times eight") };
        let Dense(one) = self;
        let two = one & one >> 1;
        let four = two & two >> 2;
        let eight = four & four >> 4;
        let all = eight & eight >> 8 & eight >> 16;
        // A run that is one longer has been looked at.
        (all >> 1 & !one) as u64
    }

    fn forget_before(&mut self, offset: usize) {
        self.0 &= u128::MAX << (LONG + offset);
    }

    /// Those of the block's last bytes, for the next block.
    fn last(self) -> u64 {
        (self.0 >> BLOCK) as u64 & ((1 << LONG) - 1)
    }
}

/// Words after which a secret can come, besides the families.
const INTRODUCTIONS: &[&str] = &[
    "bearer ",
    "basic ",
    "password ",
    "passwd ",
    "secret ",
    "token ",
    "identified by ",
    "requirepass ",
    "sqlplus ",
    "eyj",
];

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
/// The longest private key whose beginning is not there.
const MAX_KEY: usize = 16 * 1024;
/// The longest password that is looked for in quotes.
const MAX_VALUE: usize = 4096;
/// How random texts that no name explains may be long. Shorter ones are identifiers, longer ones are data.
const RANDOM: std::ops::RangeInclusive<usize> = 32..=100;

/// Finds the secrets in a text, in order and without overlaps.
pub(super) fn scan(text: &[u8], hits: &mut Vec<Hit>) -> Found {
    Scanner { text, hits, found: Found::default(), nested: false, beginnings: &BEGINNINGS }.run()
}

pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    hits: &'a mut Vec<Hit>,
    found: Found,
    /// It is decoded base64: it is not decoded again.
    nested: bool,
    beginnings: &'a [u64],
}

/// A value after a name.
pub(super) struct Value {
    pub(super) place: Range<usize>,
    pub(super) quoted: bool,
}

impl Scanner<'_> {
    /// Looks at the bytes that are worth it, in order. They are found block by block, because a branch on every byte
    /// or word would be guessed wrong most of the time.
    fn run(mut self) -> Found {
        let text = self.text;
        let (mut base, mut carry) = (0, Carry::default());
        while base < text.len() {
            let block = Block::of(&text[base..]);
            let mut dense = Dense::new(carry.dense, block.dense);
            let mut begins = block.word & !(block.word << 1 | carry.word);
            let named = !block.word & (block.capital << 1 | carry.capital);
            let mut ahead = u64::MAX;
            let mut long = dense.long();
            let skipped = loop {
                let bits = (block.mark | begins | named | long) & ahead;
                if bits == 0 {
                    break None;
                }
                let offset = bits.trailing_zeros() as usize;
                ahead = u64::MAX.checked_shl(offset as u32 + 1).unwrap_or(0);
                let (at, is) = (base + offset, |plane: u64| plane >> offset & 1 != 0);
                let is_family = is(begins) && self.may_begin(at);
                let is_value = is(named) && text.get(at) == Some(&b' ');
                if !(is_family || is_value || is(block.mark | long)) {
                    continue;
                }
                let next = if is(block.mark) {
                    self.mark(at)
                } else if is_family {
                    self.family(at).or_else(|| self.introduced(at)).unwrap_or(at + 1)
                } else if is_value {
                    self.constant(at)
                } else {
                    self.long(at)
                };
                if next == at + 1 {
                    continue;
                }
                // A word begins where the look ended, whatever was before it.
                match next - base {
                    skip @ 0..BLOCK => {
                        ahead = u64::MAX << skip;
                        begins |= block.word & 1 << skip;
                        dense.forget_before(skip);
                        long = dense.long();
                    }
                    _ => break Some(next),
                }
            };
            (base, carry) = match skipped {
                None => {
                    (base + BLOCK, Carry { word: block.word >> 63, capital: block.capital >> 63, dense: dense.last() })
                }
                Some(next) => {
                    let capital = u64::from(CLASS[usize::from(self.before(next))] & CAPITAL != 0);
                    (next, Carry { word: 0, capital, dense: 0 })
                }
            };
        }
        self.found
    }

    /// Whether the word that begins here can be that of a family or an introduction.
    fn may_begin(&self, at: usize) -> bool {
        let Some([a, b, c]) = self.text.get(at..at + 3) else { return false };
        let hash = beginning([*a, *b, *c]);
        self.beginnings[hash / 64] >> (hash % 64) & 1 != 0
    }

    pub(super) fn hit(&mut self, place: Range<usize>, kind: &'static str) -> usize {
        let end = place.end;
        self.hits.push(Hit { place, kind });
        end
    }

    /// A secret before the place that is looked at. What was found in it already is a part of it.
    pub(super) fn hit_before(&mut self, place: Range<usize>, kind: &'static str) {
        let mut start = place.start;
        while let Some(last) = self.hits.last().filter(|last| last.place.end > start) {
            if last.place.start < start {
                start = last.place.end;
                break;
            }
            self.hits.pop();
        }
        if start < place.end {
            self.hits.push(Hit { place: start..place.end, kind });
        }
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    pub(super) fn before(&self, at: usize) -> u8 {
        at.checked_sub(1).map_or(0, |at| self.text[at])
    }

    /// The end of a run of bytes that are so, looked at no further than this: what a text repeats a million times
    /// must not be read to its end each time.
    pub(super) fn run_within(&self, from: usize, most: usize, is: impl Fn(u8) -> bool) -> usize {
        let until = (from + most).min(self.text.len());
        self.text[from..until].iter().position(|byte| !is(*byte)).map_or(until, |length| from + length)
    }

    /// The end of a run of bytes that are so.
    pub(super) fn run_of(&self, from: usize, is: impl Fn(u8) -> bool) -> usize {
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
        if !is_secret {
            return at + 1;
        }
        let text = &self.text[value.clone()];
        let look = Look::of(text);
        let is_dense = look.length >= 16 && look.digits > 0 && look.upper > 1 && look.lower > 1;
        let is_chosen = look.upper > 1 && look.lower > 1 && is_chosen(text) && !is_named(text);
        if look.is_mixed() || is_dense || is_chosen { self.hit(value, "assignment") } else { at + 1 }
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
        if is("sqlplus ") {
            return self.user_slash_password(spaces(end));
        }
        if is("password is ") {
            let from = end + " is ".len();
            let to = self.run_within(from, MAX_BARE, is_bare);
            let text = self.text[from..to].strip_suffix(b".").unwrap_or(&self.text[from..to]);
            let is_secret = is_chosen(text) && !is_reference(text) && !is_named(text);
            return is_secret.then(|| self.hit(from..from + text.len(), "assignment"));
        }
        if let Some(after) = self.in_a_column(start, end) {
            return Some(after);
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

    /// A name at the beginning of a line, a gap, and a value at its end: `password    …`. After one space, `token …`, the
    /// value must look random.
    fn in_a_column(&mut self, start: usize, end: usize) -> Option<usize> {
        let from = self.run_within(end, 64, |byte| matches!(byte, b' ' | b'\t'));
        let to = self.run_within(from, MAX_BARE, is_bare);
        let text = &self.text[from..to];
        let is_column = from - end >= 2 && self.begins_line(start) && self.ends_line(to) && is_chosen(text);
        let look = Look::of(text);
        let is_token = from > end && look.length >= 20 && look.is_random() && !text.contains(&b'/');
        let is_secret = (is_column && (look.digits > 0 || look.others > 0) || is_token) && !is_reference(text);
        is_secret.then(|| self.hit(from..to, "assignment"))
    }

    /// Whether a line or a string begins here, or only spaces are before.
    fn begins_line(&self, at: usize) -> bool {
        let line = &self.text[at.saturating_sub(40)..at];
        let spaces = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let at = at - spaces;
        at == 0 || matches!(self.before(at), b'\n' | b'"' | b'`') || self.text[..at].ends_with(b"\\n")
    }

    /// Whether a line or a string ends here, or only spaces follow.
    pub(super) fn ends_line(&self, at: usize) -> bool {
        let at = self.run_within(at, 64, |byte| matches!(byte, b' ' | b'\t' | b'\r'));
        let escape = self.run_within(at, 8, |byte| byte == b'\\');
        match self.byte(escape) {
            b'n' | b'r' => escape > at,
            b'\n' | b'"' | b'\'' | b'`' => true,
            _ => at >= self.text.len(),
        }
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
        if token.len() == 52 && self.is_for_azure_devops(from) && Look::of(token).is_mixed() {
            return self.hit(from..to, "azure-devops-token");
        }
        if let Some(after) = self.wrapped_secret(from..to) {
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

    /// These tokens have no shape of their own: only what stands before them tells.
    fn is_for_azure_devops(&self, at: usize) -> bool {
        let before = &self.text[at.saturating_sub(60)..at];
        let before = before.to_ascii_lowercase();
        [&b"devops"[..], b"dev.azure.com", b"azdo"].iter().any(|word| memchr::memmem::find(&before, word).is_some())
    }

    /// Base64 that is broken into lines and stands for a text with a secret: all of its lines.
    fn wrapped_secret(&mut self, first: Range<usize>) -> Option<usize> {
        if !(60..=80).contains(&first.len()) || !decode(&self.text[first.start..first.start + 20]).is_some_and(is_text)
        {
            return None;
        }
        let mut joined = self.text[first.clone()].to_vec();
        let mut end = first.end;
        while joined.len() < MAX_ENCODED && self.text[end - 1] != b'=' {
            let gap = self.run_within(end, 16, |byte| matches!(byte, b'\n' | b'\r' | b' ' | b'\t' | b'\\'));
            let next = if self.before(gap) == b'\\' && self.byte(gap) == b'n' { gap + 1 } else { gap };
            let line = next..self.run_within(next, first.len() + 1, |byte| Body::Base64.has(byte));
            if next == end || line.is_empty() || line.len() > first.len() {
                break;
            }
            joined.extend_from_slice(&self.text[line.clone()]);
            end = line.end;
            if line.len() < first.len() {
                break;
            }
        }
        (end > first.end && self.is_encoded_secret(&joined)).then(|| self.hit(first.start..end, "encoded"))
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
        self.is_encoded_secret(&self.text[place])
    }

    fn is_encoded_secret(&self, token: &[u8]) -> bool {
        if self.nested || token.len() < 24 || token.len() > MAX_ENCODED || !decode(&token[..20]).is_some_and(is_text) {
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
            b'%' => {
                let code = self.text.get(at + 1..at + 3);
                // A quote, a colon or an equals sign.
                self.found.escapes |=
                    code.is_some_and(|code| matches!(code, b"22" | b"27" | b"3A" | b"3a" | b"3D" | b"3d"));
                code.is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit)).then_some(at + 3)
            }
            b'&' => {
                self.found.escapes |= matches!(self.byte(at + 1), b'#' | b'q' | b'a')
                    && [&b"&quot;"[..], b"&apos;", b"&#3", b"&#x2"]
                        .iter()
                        .any(|quote| self.text[at..].starts_with(quote));
                None
            }
            0xe2 => {
                if self.text[at..].starts_with("│".as_bytes()) {
                    self.cell(at, 3)
                } else {
                    None
                }
            }
            // The colours of a terminal: ESC [ 32 m
            // A text that was cut off may end within one.
            0x1b => {
                let letter = self.run_of(at + 1, |byte| byte.is_ascii_digit() || matches!(byte, b'[' | b';'));
                Some((letter + 1).min(self.text.len()))
            }
            b'=' => self.equals(at),
            b':' => self.colon(at),
            b'>' => self.element(at),
            b'(' => self.call(at).or_else(|| self.arguments(at)),
            b'|' => self.piped(at).or_else(|| self.cell(at, 1)),
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
        let from = if self.byte(at + 1) == b'>' { at + 2 } else { at + 1 };
        match self.value(from) {
            Some(value) => self.judge(name, value, at),
            None => self.below(name, from),
        }
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
            b' ' if self.text[..at].ends_with(b"Private-Lines") => {
                let end = at + 1 + key_material(&self.text[at + 1..]);
                return (end > at + 1).then(|| self.hit(at + 1..end, "private-key"));
            }
            _ => {}
        }
        let next = self.byte(at + 1);
        if next == b'*' || next.is_ascii_digit() {
            if let Some(after) = self.pgpass(at) {
                return Some(after);
            }
        } else if self.before(at) == b'n' && self.text[..at].ends_with(b":thin") {
            return self.user_slash_password(at + 1);
        }
        if next.is_ascii_alphanumeric()
            && let Some(after) = self.firebase(at)
        {
            return Some(after);
        }
        let name = self.name(at)?;
        match self.value(at + 1) {
            Some(value) => self.judge(name, value, at),
            None => self.below(name, at + 1),
        }
    }

    /// The key of Firebase's messages: `AAAA`, seven bytes, a colon and 130 bytes or more.
    fn firebase(&mut self, at: usize) -> Option<usize> {
        let start = at.checked_sub(11)?;
        if !self.text[start..].starts_with(b"AAAA") {
            return None;
        }
        let end = self.run_within(at + 1, MAX_BODY, |byte| Body::Word.has(byte));
        (end - at > 120).then(|| {
            self.hit_before(start..end, "firebase-key");
            end
        })
    }

    /// A line of `.pgpass`: `host:5432:database:user:password`. This is the colon before the port.
    fn pgpass(&mut self, at: usize) -> Option<usize> {
        let port = match self.byte(at + 1) {
            b'*' => at + 2,
            b'1'..=b'9' => self.run_within(at + 1, 6, |byte| byte.is_ascii_digit()),
            _ => return None,
        };
        let is_port = self.byte(at + 1) == b'*' || (4..=5).contains(&(port - at - 1));
        let is_host = self.before(at).is_ascii_alphanumeric() || self.before(at) == b'*';
        let field = |from: usize| {
            let end = self.run_within(from, 128, |byte| is_bare(byte) && byte != b':' && byte != b'/');
            (self.byte(end) == b':' && end > from).then_some(end)
        };
        if !is_port || !is_host || self.byte(port) != b':' {
            return None;
        }
        let password = field(field(port + 1)? + 1)? + 1;
        let end = self.run_within(password, 256, |byte| is_bare(byte) && byte != b':');
        let text = &self.text[password..end];
        let is_secret = self.ends_line(end) && is_chosen(text) && !is_reference(text);
        is_secret.then(|| self.hit(password..end, "assignment"))
    }

    /// `user/password@`, as Oracle's programs take it.
    fn user_slash_password(&mut self, from: usize) -> Option<usize> {
        let slash = self.run_within(from, 64, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'"'));
        let end =
            self.run_within(slash + usize::from(self.byte(slash) == b'/'), 128, |byte| is_bare(byte) && byte != b'@');
        let place = slash + 1..end;
        let is_secret = slash > from
            && self.byte(slash) == b'/'
            && self.byte(end) == b'@'
            && place.len() >= 3
            && !is_reference(&self.text[place.clone()]);
        is_secret.then(|| self.hit(place, "assignment"))
    }

    /// The value of a name that stands on the next line: of JSON, of a block in YAML, of a heredoc, or what was
    /// typed at a prompt.
    fn below(&mut self, name: Range<usize>, from: usize) -> Option<usize> {
        if meaning(&self.text[name.clone()]) != Meaning::Secret {
            return None;
        }
        let mut at = self.run_within(from, 64, |byte| matches!(byte, b' ' | b'\t'));
        let is_block = match self.byte(at) {
            b'|' | b'>' => {
                at = self.run_within(at + 1, 4, |byte| matches!(byte, b'-' | b'+' | b'0'..=b'9'));
                true
            }
            b'<' if self.byte(at + 1) == b'<' => {
                at = self.run_within(at + 2, 40, |byte| byte.is_ascii_alphanumeric() || b"-~_'\"".contains(&byte));
                true
            }
            _ => false,
        };
        let line = self.next_line(at)?;
        if !is_block && let Some(value) = self.value(line).filter(|value| value.quoted) {
            return self.judge(name, value, from - 1);
        }
        let end = self.run_within(line, MAX_BARE, |byte| !matches!(byte, b'\n' | b'\r' | b'\\' | b'"'));
        let text = &self.text[line..end];
        let is_secret = match is_block {
            true => text.len() >= 4 && !is_prose(text) && !text.contains(&b'-'),
            false => !text.contains(&b' ') && self.ends_line(end) && is_chosen(text) && Look::of(text).digits > 0,
        };
        // A key in a block has its own shape.
        (is_secret && !is_reference(text)).then(|| self.hit(line..end, "assignment"))
    }

    /// Where the next line begins, after its indentation. `None`: this line has more.
    fn next_line(&self, at: usize) -> Option<usize> {
        let at = self.run_within(at, 16, |byte| matches!(byte, b' ' | b'\t' | b'\r'));
        let escape = self.run_within(at, 8, |byte| byte == b'\\');
        let next = match self.byte(escape) {
            b'\n' if escape == at => at + 1,
            b'n' if escape > at => escape + 1,
            _ => return None,
        };
        Some(self.run_within(next, 64, |byte| matches!(byte, b' ' | b'\t')))
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
        if self.before(end) == b'm' && self.text[at.saturating_sub(24)..end].contains(&0x1b) {
            // The end of a colour.
            let escape = memchr::memrchr(0x1b, &self.text[..end])?;
            let is_colour =
                self.text[escape + 1..end - 1].iter().all(|byte| byte.is_ascii_digit() || b"[;".contains(byte));
            end = if is_colour { escape } else { end };
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
    pub(super) fn value(&self, from: usize) -> Option<Value> {
        let mut start = self.run_of(from, |byte| matches!(byte, b' ' | b'\t'));
        if self.byte(start) == 0x1b {
            let letter = self.run_within(start + 1, 16, |byte| byte.is_ascii_digit() || matches!(byte, b'[' | b';'));
            start = (letter + 1).min(self.text.len());
        }
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
        let known = match meaning(name_text) {
            Meaning::Perhaps if self.is_qualified(&name) => Meaning::Secret,
            known => known,
        };
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
        let is_close = self.text[mark] == b'=' && name.end == mark && value.place.start == mark + 1;
        if !value.quoted && is_password(name_text) {
            if let Some(end) = self.four_by_four(value.place.start) {
                return Some(self.hit(value.place.start..end, "assignment"));
            }
            let text = &self.text[value.place.clone()];
            let is_end = self.ends_line(value.place.end)
                || is_close && matches!(self.byte(value.place.end), b' ' | b'&' | b';')
                || known == Meaning::Secret && text.len() >= 4 && text.iter().all(u8::is_ascii_digit);
            if known == Meaning::Secret && is_end && is_weak(text) {
                return Some(self.hit(value.place, "assignment"));
            }
        }
        let is_shell = self.text[mark] == b'='
            && name.end == mark
            && value.place.start == mark + 1
            && name_text.iter().all(|byte| !byte.is_ascii_lowercase());
        let after = self.byte(value.place.end);
        let text = &self.text[value.place.start..value.place.end.min(value.place.start + JUDGED)];
        let mut is_call = !value.quoted && matches!(after, b'(' | b'[' | b'{');
        let wrapped = is_call && after == b'(' && is_wrapper(text);
        if wrapped && let Some(inner) = self.value(value.place.end + 1).filter(|inner| inner.quoted) {
            (value, is_call) = (inner, false);
        }
        let text = &self.text[value.place.start..value.place.end.min(value.place.start + JUDGED)];
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

    /// Whether the word before a name says more: `API key: …`.
    fn is_qualified(&self, name: &Range<usize>) -> bool {
        let Some(space) = name.start.checked_sub(1).filter(|space| self.text[*space] == b' ') else { return false };
        let word = self.text[..space].iter().rev().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
        word > 0 && meaning(&self.text[space - word..name.end]) == Meaning::Secret
    }

    /// Where a password ends that is written as four times four letters.
    fn four_by_four(&self, from: usize) -> Option<usize> {
        let text = self.text.get(from..from + 19)?;
        let fits = text.iter().enumerate().all(|(at, byte)| match at % 5 {
            4 => *byte == b' ',
            _ => byte.is_ascii_lowercase(),
        });
        (fits && !self.byte(from + 19).is_ascii_alphanumeric() && self.ends_line(from + 19)).then_some(from + 19)
    }

    /// Whether this is `value` in `name: DB_PASSWORD, value: …`.
    fn is_value_of_secret_name(&self, name: Range<usize>) -> bool {
        let own = &self.text[name.clone()];
        if !own.to_ascii_lowercase().ends_with(b"value") {
            return false;
        }
        let before = &self.text[name.start.saturating_sub(200)..name.start];
        // Not in another object.
        let object = before.iter().rposition(|byte| matches!(byte, b'{' | b'}')).map_or(0, |at| at + 1);
        let words: Vec<&[u8]> = before[object..]
            .rsplit(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')))
            .filter(|word| word.len() > 1)
            .take(8)
            .collect();
        let is_label = |word: &[u8]| {
            let label = word.to_ascii_lowercase();
            [&b"name"[..], b"key", b"variable", b"header"].iter().any(|word| label.ends_with(word))
        };
        let named = words.iter().position(|word| is_label(word) && !is_secret_name(word));
        // The last part of a path, `/prod/db/password`, counts.
        words.len() > 1 && is_label(words[1]) && is_secret_name(words[0])
            || named.is_some_and(|label| label > 0 && words[..label].iter().any(|word| is_secret_name(word)))
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
            // The public half of Sentry's addresses.
            None if memchr::memmem::find(&self.text[user.end..end], b"sentry").is_some() => return Some(end),
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

    /// `| SecretAccessKey | … |`, with this many bytes between the cells.
    fn cell(&mut self, at: usize, bytes: usize) -> Option<usize> {
        let name = self.name(at)?;
        if meaning(&self.text[name.clone()]) != Meaning::Secret {
            return None;
        }
        let value = self.value(at + bytes)?;
        let text = &self.text[value.place.clone()];
        let look = Look::of(text);
        // The rest of the cell is empty.
        let end = self.run_within(value.place.end + usize::from(value.quoted), 256, |byte| byte == b' ');
        let is_alone = self.byte(end) == b'|' || self.text[end..].starts_with("│".as_bytes());
        let is_chosen = is_alone && is_password(&self.text[name]) && is_chosen(text) && !is_named(text);
        let is_secret = look.is_mixed() || look.is_long_hex() || is_chosen && !is_reference(text);
        is_secret.then(|| self.hit(value.place, "assignment"))
    }

    /// `define('DB_PASSWORD', '…')`, `getenv("DB_PASSWORD", "…")`: the argument after the name of a secret.
    fn arguments(&mut self, at: usize) -> Option<usize> {
        let quote = self.run_within(at + 1, 8, |byte| matches!(byte, b' ' | b'\\'));
        if !matches!(self.byte(quote), b'"' | b'\'') {
            return None;
        }
        let name = self.value(at + 1).filter(|name| name.quoted && is_secret_name(&self.text[name.place.clone()]))?;
        let comma = self.run_within(name.place.end, 12, |byte| matches!(byte, b'\\' | b'"' | b'\'' | b' '));
        if self.byte(comma) != b',' {
            return None;
        }
        let value = self.value(comma + 1).filter(|value| value.quoted)?;
        let text = &self.text[value.place.clone()];
        let is_secret =
            !is_reference(text) && !is_prose(text) && !is_secret_name(text) && is_chosen(text) && !is_named(text);
        is_secret.then(|| self.hit(value.place, "assignment"))
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
            if self.text[at..].starts_with(b"-----END ") {
                return self.end_of_key(at);
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
        let is_option = matches!(self.before(at), b' ' | b'"' | b'\'')
            && matches!(self.byte(at + 1), b'u' | b'p' | b'a' | b'w' | b'U' | b'P' | b'N' | b's' | b'k' | b'b');
        if is_option { self.short_option(at) } else { None }
    }

    /// `--password …`
    fn flag(&mut self, at: usize) -> Option<usize> {
        let end = self.run_of(at + 2, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let name = &self.text[at + 2..end];
        let known = meaning(name);
        if matches!(self.before(at), b'-') {
            return Some(end);
        }
        if known == Meaning::Nothing {
            return self.long_option(at, end).or(Some(end));
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
                    let is_weak = is_password(name) && is_weak(text) && !is_of_sentence(text);
                    let is_words = value.quoted && is_password(name) && is_words(text);
                    text.len() >= 4
                        && (!is_prose(text) && (!is_code(text) || look.upper > 1 && look.lower > 1 || is_weak)
                            || is_words)
                }
                _ => may_be_secret(name, text, true),
            };
        if is_secret { Some(self.hit(value.place, "assignment")) } else { Some(end) }
    }

    fn private_key(&mut self, at: usize) -> Option<usize> {
        let dashes = |from: usize, most: usize| {
            let until = (from + most).min(self.text.len());
            self.text[from..until].windows(5).position(|window| window == b"-----").map(|found| from + found + 5)
        };
        let header = dashes(at + 11, 60)?;
        if !self.text[at..header].windows(11).any(|window| window == b"PRIVATE KEY") {
            // A public key or a certificate: nothing of it is a secret, if it is nothing else.
            let is_armour = |byte: &u8| Body::Base64.has(*byte) || matches!(byte, b'\n' | b'\r' | b' ' | b'\\');
            let body = &self.text[header..(header + MAX_KEY).min(self.text.len())];
            let end = memchr::memmem::find(body, b"-----END ").filter(|end| body[..*end].iter().all(is_armour));
            return Some(end.map_or(header, |end| header + end));
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

impl Scanner<'_> {
    /// The end of a private key whose beginning is not there: the lines before it are the key.
    fn end_of_key(&mut self, at: usize) -> Option<usize> {
        let footer = &self.text[at..(at + 60).min(self.text.len())];
        let after = at + 9 + footer[9..].windows(5).position(|window| window == b"-----")? + 5;
        if !self.text[at..after].windows(11).any(|window| window == b"PRIVATE KEY") {
            return Some(after);
        }
        let from = at.saturating_sub(MAX_KEY);
        let (mut start, mut cursor) = (at, at);
        // Word by word upwards: the lines of the key, and their numbers.
        loop {
            let above = &self.text[from..cursor];
            let is_end = |byte: &u8| Body::Base64.has(*byte) && *byte != b'n';
            let above = &above[..above.iter().rposition(is_end).map_or(0, |at| at + 1)];
            let line = above.iter().rposition(|byte| !Body::Base64.has(*byte)).map_or(0, |at| at + 1);
            let mut word = &above[line..];
            if line > 0 && above[line - 1] == b'\\' {
                word = word.strip_prefix(b"n").unwrap_or(word);
            }
            let gap = cursor - from - above.len();
            let is_number = word.len() <= 6 && word.iter().all(u8::is_ascii_digit) && !word.is_empty();
            let is_line = is_key_line(word) || start == at && word.ends_with(b"=");
            if gap > 12 || !is_line && !is_number {
                break;
            }
            cursor = from + above.len() - word.len();
            start = if is_line { cursor } else { start };
        }
        if start < at {
            self.hit_before(start..after, "private-key");
        }
        Some(after)
    }
}

/// Whether a word can be a line of a key.
fn is_key_line(word: &[u8]) -> bool {
    let look = Look::of(word);
    word.len() >= 16 && look.upper > 0 && look.lower > 0
}

/// Whether it is a plain text.
fn is_text(bytes: impl AsRef<[u8]>) -> bool {
    bytes.as_ref().iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t'))
}

/// Whether a call only wraps its argument: `Some("…")`, `SecretString::from("…")`.
fn is_wrapper(name: &[u8]) -> bool {
    let last = name.rsplit(|byte| matches!(byte, b':' | b'.')).next().unwrap_or_default();
    [
        &b"Some"[..],
        b"Ok",
        b"Just",
        b"from",
        b"new",
        b"Secret",
        b"SecretString",
        b"SecretStr",
        b"String",
        b"str",
        b"quote",
    ]
    .contains(&last)
}

/// Whether it is a password as people choose it, which only its name tells: a word, or a number.
fn is_weak(value: &[u8]) -> bool {
    let is_number = value.len() >= 4 && value.iter().all(u8::is_ascii_digit);
    let is_word = value.len() >= 6 && value.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_mixed_word = value.len() >= 10
        && value.iter().all(u8::is_ascii_alphanumeric)
        && value[1..].iter().any(u8::is_ascii_uppercase);
    is_number || (is_word || is_mixed_word) && !is_reference(value) && !is_named(value)
}

/// Whether a word goes on with a sentence after the name of an option.
fn is_of_sentence(word: &[u8]) -> bool {
    [&b"option"[..], b"options", b"argument", b"arguments", b"parameter", b"switch", b"should", b"because", b"before"]
        .contains(&word)
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
        Body::Crypt => body.contains(&b'$') && look.digits + look.upper >= 4,
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
        return is_phrase(name) || password && quoted && is_words(value);
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
    let look = Look::of(value);
    if look.digits > 1 || look.others > 0 {
        return false;
    }
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
            && !matches!(value[0], b'/' | b'~')
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
    // `linux-cargo-` and a digest: the key of a cache.
    let is_digest =
        is(b"key") && value.rsplit(|byte| *byte == b'-').next().is_some_and(|part| Look::of(part).is_long_hex());
    if is_url || is_uuid || is_path || is_digest || look.length < is_long {
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
pub(super) fn is_bare(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"\"'`,;&|()[]{}<>\\\x1b".contains(&byte)
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Scanner<'_> {
        /// The same search, byte by byte.
        fn run_by_byte(mut self) -> Found {
            let text = self.text;
            let (mut at, mut was_word, mut length) = (0, false, 0);
            while at < text.len() {
                let is = |class: u8| CLASS[usize::from(text[at])] & class != 0;
                length = if is(DENSE) { length + 1 } else { 0 };
                let begins = is(WORD) && !was_word && self.may_begin(at);
                let next = if is(MARK) {
                    self.mark(at)
                } else if begins {
                    self.family(at).or_else(|| self.introduced(at)).unwrap_or(at + 1)
                } else if text[at] == b' ' && CLASS[usize::from(self.before(at))] & CAPITAL != 0 {
                    self.constant(at)
                } else if length == LONG {
                    self.long(at)
                } else {
                    at + 1
                };
                was_word = next == at + 1 && is(WORD);
                length = if next == at + 1 { length } else { 0 };
                at = next;
            }
            self.found
        }
    }

    #[test]
    fn blocks_find_what_a_search_byte_by_byte_finds() {
        let random = "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg";
        let pieces = [
            "a",
            "word",
            " ",
            "  ",
            "\\n",
            "\\t",
            "\n",
            "\\\"",
            "=",
            ":",
            ": ",
            "-",
            "--",
            "/",
            ".",
            "%3D",
            "&quot;",
            "│",
            "\u{1b}[32m",
            "é",
            "password",
            "PASSWORD ",
            "API_KEY ",
            "TOKEN ",
            "hunter2x9",
            "Bearer ",
            "token ",
            "ghp_",
            "glpat-",
            "eyJ",
            "://u:",
            "@host",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "abcdefghijklmnopqrstuvwxyzabcdefghijklmn",
            random,
            &random[..23],
            &random[..24],
            "s3cr3tV4lu3F0rT3st1ng99",
            "+",
            "(",
            ")",
            "|",
            "~",
            "'",
            "`",
            ">",
            "0123456789",
        ];
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let text: String = (0..rng.usize(0..40)).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
            let search = |by_byte: bool| {
                let mut hits = Vec::new();
                let scanner = Scanner {
                    text: text.as_bytes(),
                    hits: &mut hits,
                    found: Found::default(),
                    nested: false,
                    beginnings: &BEGINNINGS,
                };
                let found = if by_byte { scanner.run_by_byte() } else { scanner.run() };
                (hits, found)
            };
            assert_eq!(search(false), search(true), "seed {seed}: {text:?}");
        }
    }
}
