//! Cursors: where the next page of a history begins.
//!
//! To a client a cursor is an opaque text. It contains the last id of the page before, and a digest that binds it to one
//! history of one account. A cursor of another history, a changed one, or any other text is an error. The digest need not
//! be a secret: a client that makes up a cursor can only start a page elsewhere in a history that it may read anyway.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::amount::Delta;
use crate::identity::did::Did;
use crate::ledger::{History, Place, TransactionId};

/// Changes when the content changes, so that a cursor of an earlier version is refused and not misread.
const VERSION: u8 = 1;
const ID_BYTES: usize = 16;
const DIGEST_BYTES: usize = 8;
const BYTES: usize = 1 + ID_BYTES + DIGEST_BYTES;
const BALANCE_BYTES: usize = 16;
const STATEMENT_BYTES: usize = BYTES + BALANCE_BYTES;

/// The text is not a cursor of this history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cursor does not belong to this history; start again without a cursor")]
pub(super) struct Error;

/// The cursor of the page that follows `last`.
pub(crate) fn encode(history: History, did: &Did, last: TransactionId) -> String {
    let mut bytes = Vec::with_capacity(BYTES);
    bytes.push(VERSION);
    bytes.extend(last.number_be());
    bytes.extend(digest(history, did, last));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The last id of the page before.
pub(super) fn decode(history: History, did: &Did, text: &str) -> Result<TransactionId, Error> {
    let bytes: [u8; BYTES] = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(Error)?;
    let [VERSION, rest @ ..] = bytes else { return Err(Error) };
    let (id, bound) = rest.split_at(ID_BYTES);
    let id: [u8; ID_BYTES] = id.try_into().map_err(|_| Error)?;
    let id: TransactionId = uuid::Uuid::from_bytes(id).to_string().parse().map_err(|_| Error)?;
    if digest(history, did, id) == bound { Ok(id) } else { Err(Error) }
}

/// The cursor of the page of a statement that begins there. It also carries the balance.
pub(crate) fn encode_statement(did: &Did, place: Place) -> String {
    let mut bytes = Vec::with_capacity(STATEMENT_BYTES);
    bytes.push(VERSION);
    bytes.extend(place.after.number_be());
    bytes.extend(place.balance.0.to_be_bytes());
    bytes.extend(statement_digest(did, place));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Where the page of a statement begins.
pub(super) fn decode_statement(did: &Did, text: &str) -> Result<Place, Error> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == STATEMENT_BYTES).ok_or(Error)?;
    let [VERSION, rest @ ..] = bytes.as_slice() else { return Err(Error) };
    let (id, rest) = rest.split_at(ID_BYTES);
    let (balance, bound) = rest.split_at(BALANCE_BYTES);
    let id: [u8; ID_BYTES] = id.try_into().map_err(|_| Error)?;
    let after: TransactionId = uuid::Uuid::from_bytes(id).to_string().parse().map_err(|_| Error)?;
    let balance = Delta(i128::from_be_bytes(balance.try_into().map_err(|_| Error)?));
    let place = Place { after, balance };
    if statement_digest(did, place) == bound { Ok(place) } else { Err(Error) }
}

fn digest(history: History, did: &Did, last: TransactionId) -> [u8; DIGEST_BYTES] {
    let name: &[u8] = match history {
        History::Sent => b"tokens cursor sent ",
        History::Received => b"tokens cursor received ",
    };
    short(Sha256::new().chain_update(name).chain_update(last.number_be()).chain_update(did.as_str()))
}

fn statement_digest(did: &Did, place: Place) -> [u8; DIGEST_BYTES] {
    let digest = Sha256::new().chain_update(b"tokens cursor statement ").chain_update(place.after.number_be());
    short(digest.chain_update(place.balance.0.to_be_bytes()).chain_update(did.as_str()))
}

fn short(digest: Sha256) -> [u8; DIGEST_BYTES] {
    let digest = digest.finalize();
    let mut short = [0; DIGEST_BYTES];
    short.copy_from_slice(&digest[..DIGEST_BYTES]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use ichido::Timestamp;
    use proptest::prelude::*;

    fn alice() -> Did {
        "did:key:alice".parse().unwrap()
    }

    #[test]
    fn a_cursor_belongs_to_one_history() {
        let id = TransactionId::new(Timestamp::from_millis(1_700_000_000_000), [1; 10]);
        let cursor = encode(History::Sent, &alice(), id);
        assert_eq!(decode(History::Sent, &alice(), &cursor), Ok(id));
        assert_eq!(decode(History::Received, &alice(), &cursor), Err(Error));
        assert_eq!(decode(History::Sent, &"did:key:bob".parse().unwrap(), &cursor), Err(Error));
    }

    #[test]
    fn a_cursor_of_a_statement_belongs_to_one_account_and_carries_its_balance() {
        let after = TransactionId::new(Timestamp::from_millis(1_700_000_000_000), [1; 10]);
        let place = Place { after, balance: Delta(1_250_000_000) };
        let cursor = encode_statement(&alice(), place);
        assert_eq!(decode_statement(&alice(), &cursor), Ok(place));
        assert_eq!(decode_statement(&"did:key:bob".parse().unwrap(), &cursor), Err(Error));
        assert_eq!(decode_statement(&alice(), &encode(History::Sent, &alice(), after)), Err(Error));
        assert_eq!(decode(History::Sent, &alice(), &cursor), Err(Error));
        let richer = encode_statement(&alice(), Place { balance: Delta(9), ..place });
        let forged = format!("{}{}", &richer[..44], &cursor[44..]);
        assert_eq!(decode_statement(&alice(), &forged), Err(Error));
    }

    // `make soak` finds them by this name.
    mod properties {
        use super::*;

        proptest! {
            #[test]
            fn a_changed_cursor_is_refused(millis in 0..1_u64 << 47, random in any::<[u8; 10]>(), place in 0..34_usize, by in 1..64_usize) {
                const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
                let cursor = encode(History::Sent, &alice(), TransactionId::new(Timestamp::from_millis(millis), random));
                let mut bytes = cursor.into_bytes();
                let place = place % bytes.len();
                let was = ALPHABET.iter().position(|b| *b == bytes[place]).unwrap();
                bytes[place] = ALPHABET[(was + by) % 64];
                prop_assert_eq!(decode(History::Sent, &alice(), std::str::from_utf8(&bytes).unwrap()), Err(Error));
            }

            #[test]
            fn any_other_text_is_refused(text in "\\PC{0,60}|[A-Za-z0-9_-]{34}") {
                prop_assert_eq!(decode(History::Sent, &alice(), &text), Err(Error));
            }
        }
    }
}
