//! Addresses that are never given for a service: the agent's own host, its link, its cloud's metadata service. Whoever may write
//! an `EndpointSlice` or a DNS record could lead a client there otherwise.
//!
//! It knows ranges, not rules. Private ranges are ordinary here: reaching them is what a tunnel is for.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why the address is never given; `None` for an ordinary one.
///
/// An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4, compatible, translated) is judged by the one it carries.
#[must_use]
pub fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(ip) => forbidden_v4(ip),
        IpAddr::V6(ip) => forbidden_v6(ip),
    }
}

fn forbidden_v4(ip: Ipv4Addr) -> Option<&'static str> {
    FORBIDDEN_V4.into_iter().find(|(net, _)| net.contains(&ip)).map(|(_, why)| why)
}

fn forbidden_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if let Some((_, why)) = FORBIDDEN_V6.into_iter().find(|(net, _)| net.contains(&ip)) {
        return Some(why);
    }
    let carrier = CARRIERS.into_iter().find(|carrier| carrier.contains(&ip))?;
    let [a, b, c, d, ..] = (ip.to_bits() << carrier.prefix_len()).to_be_bytes();
    forbidden_v4(Ipv4Addr::new(a, b, c, d))
}

/// Splits addresses into those that may be given, in their order, and the reasons for which the others are not.
pub(crate) fn sift(addresses: Vec<SocketAddr>, api_server: &[SocketAddr]) -> (Vec<SocketAddr>, Vec<String>) {
    let mut reasons = Vec::new();
    let mut given = addresses;
    given.retain(|address| {
        let why = if api_server.contains(address) { Some(API_SERVER) } else { forbidden(address.ip()) };
        reasons.extend(why.map(|why| format!("{address} is {why}")));
        why.is_none()
    });
    (given, reasons)
}

const API_SERVER: &str = "the kube-apiserver, which has a path of its own";
const METADATA: &str = "a metadata service";
const THIS_HOST: &str = "the agent's own host";
const LOOPBACK: &str = "a loopback address";
const LINK_LOCAL: &str = "a link-local address";
const MULTICAST: &str = "a multicast or broadcast address";
const LOCAL_NAT64: &str = "in the range of local NAT64, where it cannot be checked";

/// The narrower range stands before the wider one it lies in.
const FORBIDDEN_V4: [(Ipv4Net, &str); 9] = [
    (v4([169, 254, 169, 254], 32), METADATA), // most clouds
    (v4([100, 100, 100, 200], 32), METADATA), // Alibaba Cloud
    (v4([168, 63, 129, 16], 32), METADATA),   // platform services of Azure
    (v4([192, 0, 0, 192], 32), METADATA),     // Oracle Cloud
    (v4([0, 0, 0, 0], 8), THIS_HOST),         // Linux dials it as loopback
    (v4([127, 0, 0, 0], 8), LOOPBACK),
    (v4([169, 254, 0, 0], 16), LINK_LOCAL),
    (v4([224, 0, 0, 0], 4), MULTICAST),
    (v4([255, 255, 255, 255], 32), MULTICAST),
];

const FORBIDDEN_V6: [(Ipv6Net, &str); 7] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), THIS_HOST), // Linux dials it as loopback
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), LOOPBACK),
    (v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32), METADATA), // AWS
    (v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254], 128), METADATA), // Google Cloud
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LINK_LOCAL),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), MULTICAST),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), LOCAL_NAT64),
];

/// Prefixes behind which an IPv4 address stands.
const CARRIERS: [Ipv6Net; 4] = [
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), // NAT64
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),    // 6to4
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96),    // IPv4-translated
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96),         // IPv4-compatible
];

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_addresses_are_given() {
        for address in ["10.0.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8", "fd00::1", "2001:db8::1", "64:ff9b::a00:1"]
        {
            assert_eq!(forbidden(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn special_addresses_are_not() {
        for (address, why) in [
            ("127.0.0.1", LOOPBACK),
            ("127.255.0.1", LOOPBACK),
            ("::1", LOOPBACK),
            ("0.0.0.0", THIS_HOST),
            ("0.1.2.3", THIS_HOST),
            ("::", THIS_HOST),
            ("169.254.169.254", METADATA),
            ("100.100.100.200", METADATA),
            ("168.63.129.16", METADATA),
            ("192.0.0.192", METADATA),
            ("fd00:ec2::254", METADATA),
            ("fd20:ce::254", METADATA),
            ("169.254.0.1", LINK_LOCAL),
            ("fe80::1", LINK_LOCAL),
            ("224.0.0.1", MULTICAST),
            ("255.255.255.255", MULTICAST),
            ("ff02::1", MULTICAST),
            ("::ffff:127.0.0.1", LOOPBACK),
            ("::127.0.0.1", LOOPBACK),
            ("64:ff9b::a9fe:a9fe", METADATA),
            ("64:ff9b:1::1", LOCAL_NAT64),
            ("2002:7f00:1::", LOOPBACK),
            ("::ffff:0:a9fe:a9fe", METADATA),
        ] {
            assert_eq!(forbidden(address.parse().unwrap()), Some(why), "{address}");
        }
    }

    #[test]
    fn sifting_keeps_the_order_and_says_why() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let (given, reasons) = sift(
            parse(&["10.0.0.2:80", "127.0.0.1:80", "10.0.0.9:6443", "10.0.0.9:80", "10.0.0.1:80"]),
            &parse(&["10.0.0.9:6443"]),
        );
        assert_eq!(given, parse(&["10.0.0.2:80", "10.0.0.9:80", "10.0.0.1:80"]));
        assert_eq!(reasons, [format!("127.0.0.1:80 is {LOOPBACK}"), format!("10.0.0.9:6443 is {API_SERVER}")]);
    }
}
