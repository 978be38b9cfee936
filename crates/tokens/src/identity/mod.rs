//! Who is calling: the issuer's public keys, the token that they have signed, and the DID in it.

pub mod did;
pub mod jwt;
pub mod keys;
