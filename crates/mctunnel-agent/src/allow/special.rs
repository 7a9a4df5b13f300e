//! Address ranges that a name must never lead to by accident: the agent's own host, its link, its cloud's metadata service.
//!
//! It knows ranges, not rules. Private ranges are ordinary here: reaching them is what a tunnel is for.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The special range the address lies in, in the address's own family.
///
/// An IPv6 address that carries an IPv4 address (NAT64, 6to4, IPv4-compatible, IPv4-translated) is judged by the one it carries.
pub(super) fn range_of(address: IpAddr) -> Option<IpNet> {
    match address.to_canonical() {
        IpAddr::V4(ip) => range_of_v4(ip).map(IpNet::V4),
        IpAddr::V6(ip) => range_of_v6(ip).map(IpNet::V6),
    }
}

fn range_of_v4(ip: Ipv4Addr) -> Option<Ipv4Net> {
    SPECIAL_V4.into_iter().find(|net| net.contains(&ip))
}

fn range_of_v6(ip: Ipv6Addr) -> Option<Ipv6Net> {
    if let Some(net) = SPECIAL_V6.into_iter().find(|net| net.contains(&ip)) {
        return Some(net);
    }
    let carrier = CARRIERS.into_iter().find(|carrier| carrier.contains(&ip))?;
    carry(carrier, range_of_v4(carried(carrier, ip))?)
}

/// The IPv4 address that stands in the 32 bits behind the carrier's prefix.
fn carried(carrier: Ipv6Net, ip: Ipv6Addr) -> Ipv4Addr {
    let shifted = (ip.to_bits() << carrier.prefix_len()).to_be_bytes();
    let [a, b, c, d, ..] = shifted;
    Ipv4Addr::new(a, b, c, d)
}

/// The part of the carrier's range that carries the IPv4 net.
fn carry(carrier: Ipv6Net, net: Ipv4Net) -> Option<Ipv6Net> {
    let low = 96_u8.checked_sub(carrier.prefix_len())?;
    let bits = carrier.addr().to_bits() | (u128::from(net.addr().to_bits()) << low);
    Ipv6Net::new(Ipv6Addr::from_bits(bits), carrier.prefix_len() + net.prefix_len()).ok()
}

/// The narrower range stands before the wider one it lies in.
const SPECIAL_V4: [Ipv4Net; 9] = [
    v4([169, 254, 169, 254], 32), // metadata of most clouds
    v4([100, 100, 100, 200], 32), // metadata of Alibaba Cloud
    v4([168, 63, 129, 16], 32),   // platform services of Azure
    v4([192, 0, 0, 192], 32),     // metadata of Oracle Cloud
    v4([0, 0, 0, 0], 8),          // "this host"; Linux dials it as loopback
    v4([127, 0, 0, 0], 8),        // loopback
    v4([169, 254, 0, 0], 16),     // link-local
    v4([224, 0, 0, 0], 4),        // multicast
    v4([255, 255, 255, 255], 32), // broadcast
];

const SPECIAL_V6: [Ipv6Net; 7] = [
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128),          // unspecified; Linux dials it as loopback
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),          // loopback
    v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32), // metadata and credentials of AWS
    v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254], 128), // metadata of Google Cloud
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),      // link-local
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8),       // multicast
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48),   // local NAT64: where the IPv4 address stands is not known
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
