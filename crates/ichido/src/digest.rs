//! Tells whether two requests are the same, by a keyed digest of each field that the caller names.
//!
//! The record holds the digests instead of the values, so a reader of the table learns no value. The error for a
//! duplicate that differs names the fields that differ.

use std::collections::BTreeMap;
use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes kept of each digest: enough that two values do not share one by accident, and few enough to cost nothing in an item.
const DIGEST_BYTES: usize = 16;
/// Bytes that name the digest key in the record.
const KEY_ID_BYTES: usize = 4;

/// The secret under which fields are digested. Records made under another secret cannot be compared: they are replayed
/// without a comparison. So change the secret only together with a new table, or when all records have expired.
#[derive(Clone)]
pub struct DigestKey {
    mac: Hmac<Sha256>,
    id: String,
}

impl DigestKey {
    /// The key of this secret, which may have any length.
    pub fn new(secret: &[u8]) -> Self {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
        let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
        let id = hex(&mac.clone().chain_update(b"ichido digest key id").finalize().into_bytes()[..KEY_ID_BYTES]);
        Self { mac, id }
    }

    /// Starts a set of digests under this key.
    pub fn digests(&self) -> DigestsBuilder<'_> {
        DigestsBuilder { key: self, fields: BTreeMap::new() }
    }

    fn digest(&self, field: &str, value: &[u8]) -> String {
        // The length separates name and value: ("ab", "c") and ("a", "bc") must differ.
        let mac =
            self.mac.clone().chain_update((field.len() as u64).to_be_bytes()).chain_update(field).chain_update(value);
        hex(&mac.finalize().into_bytes()[..DIGEST_BYTES])
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DigestKey({})", self.id)
    }
}

/// Collects the fields of one request.
#[derive(Debug)]
pub struct DigestsBuilder<'k> {
    key: &'k DigestKey,
    fields: BTreeMap<String, String>,
}

impl DigestsBuilder<'_> {
    /// Adds a field. A second value under the same name replaces the first.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        let name = name.into();
        let digest = self.key.digest(&name, value.as_ref());
        self.fields.insert(name, digest);
        self
    }

    /// The digests of the fields.
    pub fn build(self) -> Digests {
        Digests { key_id: self.key.id.clone(), fields: self.fields }
    }
}

/// The digests of one request's fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    pub(crate) key_id: String,
    pub(crate) fields: BTreeMap<String, String>,
}

/// Are these two requests known to be different? A request without digests is never known to differ.
pub(crate) fn differ(ours: Option<&Digests>, theirs: Option<&Digests>) -> bool {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.key_id == theirs.key_id && ours.fields != theirs.fields,
        _ => false,
    }
}

/// The fields in which these two requests are known to differ.
pub(crate) fn differences(ours: Option<&Digests>, theirs: Option<&Digests>) -> Vec<String> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => ours.differences(theirs),
        _ => Vec::new(),
    }
}

impl Digests {
    /// Digests as a store has kept them: the [id of the digest key](Self::key_id), and the [fields](Self::fields).
    pub fn stored(key_id: impl Into<String>, fields: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { key_id: key_id.into(), fields: fields.into_iter().collect() }
    }

    /// Names the digest key. Digests under different keys cannot be compared.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The name and the digest of each field, in alphabetical order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, digest)| (name.as_str(), digest.as_str()))
    }

    /// The fields in which two requests differ, in alphabetical order: fields with different digests, and fields that only
    /// one request has. Empty if the two were made under different digest keys.
    pub fn differences(&self, other: &Digests) -> Vec<String> {
        if self.key_id != other.key_id {
            return Vec::new();
        }
        let mut names: Vec<&String> = self.fields.keys().chain(other.fields.keys()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter(|name| self.fields.get(*name) != other.fields.get(*name)).cloned().collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_fields_that_differ() {
        let key = DigestKey::new(b"k");
        let first = key.digests().field("amount", "100").field("to", "bob").field("note", "x").build();
        let same = key.digests().field("note", "x").field("to", "bob").field("amount", "100").build();
        let other = key.digests().field("amount", "101").field("to", "bob").field("memo", "x").build();
        assert!(first.differences(&same).is_empty());
        assert_eq!(first.differences(&other), ["amount", "memo", "note"]);
    }

    #[test]
    fn equal_values_of_different_fields_have_different_digests() {
        let digests = DigestKey::new(b"k").digests().field("a", "x").field("b", "x").build();
        assert_ne!(digests.fields["a"], digests.fields["b"]);
    }

    #[test]
    fn records_of_another_digest_key_are_not_compared() {
        let old = DigestKey::new(b"old").digests().field("a", "1").build();
        let new = DigestKey::new(b"new").digests().field("a", "2").build();
        assert!(new.differences(&old).is_empty());
    }

    #[test]
    fn the_secret_is_not_in_its_debug_form() {
        assert!(!format!("{:?}", DigestKey::new(b"hunter2")).contains("hunter2"));
    }
}
