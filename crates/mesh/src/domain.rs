//! `createDomain`: a name for the caller's address, so that classmates behind one router find each other.
//!
//! The name is a keyed digest: whoever sees it does not learn the address, and nobody can make the name of somebody else's address. Devices
//! with IPv6 have an address each, so there the network counts (the first 64 bits). For the same reason it counts as one caller.

use std::net::{IpAddr, Ipv6Addr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::group::{Error, Random};
use crate::table::Table;

/// How many bytes of the digest are the name.
const NAME_BYTES: usize = 16;

/// The name of the domain of an address, as lower-case hexadecimal digits.
pub(crate) async fn name(table: &Table, random: &Random, address: &str) -> Result<String, Error> {
    let Some(network) = network(address) else {
        return Err(Error::Validation("The caller has no address that a domain could be named after.".to_owned()));
    };
    let key = table.domain_key(format!("{}{}", random().simple(), random().simple())).await?;
    Ok(digest(&key, network))
}

/// Who counts as one caller: an identity, or the network of an address. `infra/appsync/functions/putMember.js` makes the same of an address.
pub(crate) fn caller(identity_or_address: &str) -> String {
    match network(identity_or_address) {
        Some(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}::/64")
        }
        Some(IpAddr::V4(address)) => address.to_string(),
        None => identity_or_address.to_owned(),
    }
}

/// What all devices of a network have in common.
fn network(address: &str) -> Option<IpAddr> {
    Some(match address.parse::<IpAddr>().ok()?.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    })
}

fn digest(key: &str, network: IpAddr) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key of any length");
    mac.update(network.to_string().as_bytes());
    hex::encode(&mac.finalize().into_bytes()[..NAME_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_one_network_have_one_name_and_others_another() {
        let name = |address: &str| network(address).map(|network| digest("key", network));
        assert_eq!(name("2001:db8:1:2::5"), name("2001:db8:1:2:aaaa::1"));
        assert_ne!(name("2001:db8:1:2::5"), name("2001:db8:1:3::5"));
        assert_eq!(name("::ffff:192.0.2.7"), name("192.0.2.7"));
        assert_ne!(name("192.0.2.7"), name("192.0.2.8"));
        assert_ne!(name("192.0.2.7"), network("192.0.2.7").map(|network| digest("another key", network)));
        for nobody in ["", "unknown", "192.0.2.7:443", "<script>"] {
            assert_eq!(caller(nobody), nobody);
            assert_eq!(name(nobody), None, "{nobody}");
        }
    }
}
