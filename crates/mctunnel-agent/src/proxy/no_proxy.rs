//! The rules of `NO_PROXY`: which hosts are reached directly.

use ipnet::IpNet;
use mctunnel_core::{Host, endpoint::parse_port};
use std::net::IpAddr;

/// A parsed `NO_PROXY`.
#[derive(Debug, Clone, Default)]
pub(super) struct NoProxy(Vec<Exception>);

#[derive(Debug, Clone)]
enum Exception {
    Everything,
    /// The name itself (unless `below_only`) and all names below it.
    Name {
        name: String,
        below_only: bool,
        port: Option<u16>,
    },
    Net {
        net: IpNet,
        port: Option<u16>,
    },
}

impl NoProxy {
    /// Reads the list; entries that make no sense are skipped.
    pub(super) fn parse(text: &str) -> Self {
        let entries = text.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        Self(entries.filter_map(Exception::parse).collect())
    }

    pub(super) fn matches(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|exception| exception.matches(host, port))
    }
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Ok(net) = entry.parse() {
            return Some(Self::Net { net, port: None });
        }
        if let Ok(ip) = entry.parse::<IpAddr>() {
            return Some(Self::Net { net: ip.to_canonical().into(), port: None });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(parse_port(port).ok()?)),
            _ => (entry, None),
        };
        let below = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
        match (Host::parse(below.unwrap_or(host)).ok()?, below) {
            (Host::Name(name), below) => Some(Self::Name { name: name.to_string(), below_only: below.is_some(), port }),
            (Host::Ip(ip), None) => Some(Self::Net { net: ip.into(), port }),
            (Host::Ip(_), Some(_)) => None,
        }
    }

    fn matches(&self, host: &Host, port: u16) -> bool {
        match (self, host) {
            (Self::Everything, _) => true,
            (Self::Name { name, below_only, port: only }, Host::Name(host)) => {
                let below = || host.strip_suffix(name.as_str()).is_some_and(|labels| labels.ends_with('.'));
                only.is_none_or(|only| only == port) && ((!below_only && **host == **name) || below())
            }
            (Self::Net { net, port: only }, Host::Ip(ip)) => only.is_none_or(|only| only == port) && net.contains(ip),
            (Self::Name { .. }, Host::Ip(_)) | (Self::Net { .. }, Host::Name(_)) => false,
        }
    }
}
