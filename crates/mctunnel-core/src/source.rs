//! What counts as one source of connections, where shares are given out: no more than one attacker can be expected to have.

use std::net::{IpAddr, Ipv6Addr};

/// The source that an address belongs to. Who has one address of IPv6 has the 2^64 beside it.
#[must_use]
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t40_who_has_an_address_has_what_is_beside_it() {
        let source = |text: &str| source_of(text.parse().unwrap());
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"), "another spelling of the same");
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    }
}
