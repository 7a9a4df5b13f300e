//! One rule of the allow-list: its grammar and its errors. It does not decide alone (that is `allow.rs`).

use ipnet::{IpNet, Ipv4Net};
use mctunnel_core::{ErrorCode, Host, endpoint::parse_port};
use std::{fmt, net::IpAddr, ops::RangeInclusive, sync::Arc};

/// `tcp://HOST:PORTS`, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) pattern: Pattern,
    pub(super) ports: RangeInclusive<u16>,
}

/// The host part of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Exactly this name.
    Name(Arc<str>),
    /// Any name with one or more labels before this suffix; held with its leading dot.
    Suffix(Arc<str>),
    /// The addresses of this net; a single address is a net of one.
    Net(IpNet),
}

impl Rule {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidAllowRule> {
        Self::parse_parts(text).map_err(|problem| InvalidAllowRule { rule: text.to_owned(), problem })
    }

    fn parse_parts(text: &str) -> Result<Self, RuleProblem> {
        let rest = text.strip_prefix("tcp://").ok_or(RuleProblem::NoScheme)?;
        let (host, ports) = rest.rsplit_once(':').ok_or(RuleProblem::NoPorts)?;
        // "[fd00::1]" alone also has a colon, but what follows the last one is not a port list.
        if ports.ends_with(']') {
            return Err(RuleProblem::NoPorts);
        }
        Ok(Self { pattern: Pattern::parse(host)?, ports: parse_ports(ports)? })
    }

    pub(super) fn matches_name(&self, name: &str) -> bool {
        match &self.pattern {
            Pattern::Name(own) => **own == *name,
            Pattern::Suffix(suffix) => name.strip_suffix(&**suffix).is_some_and(|labels| !labels.is_empty()),
            Pattern::Net(_) => false,
        }
    }

    pub(super) fn is_for_addresses(&self) -> bool {
        matches!(self.pattern, Pattern::Net(_))
    }
}

impl Pattern {
    fn parse(host: &str) -> Result<Self, RuleProblem> {
        if host.contains('/') {
            return parse_net(host).map(Self::Net);
        }
        if let Some(suffix) = host.strip_prefix("*.") {
            return match Host::parse(suffix) {
                Ok(Host::Name(name)) => Ok(Self::Suffix(format!(".{name}").into())),
                Ok(Host::Ip(_)) | Err(_) => Err(RuleProblem::BadSuffix),
            };
        }
        if host.contains('*') {
            return Err(RuleProblem::BadSuffix);
        }
        if !host.starts_with('[') && host.contains(':') {
            return Err(RuleProblem::NoBrackets);
        }
        match Host::parse(host) {
            Ok(Host::Name(name)) => Ok(Self::Name(name)),
            Ok(Host::Ip(ip)) => Ok(Self::Net(ip.into())),
            Err(_) => Err(RuleProblem::BadHost),
        }
    }
}

/// Parses `10.0.0.0/8` or `[fd00::/8]`; an IPv4-mapped net becomes the IPv4 net it means.
fn parse_net(text: &str) -> Result<IpNet, RuleProblem> {
    let bare = match text.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or(RuleProblem::BadNet)?,
        None if text.contains(':') => return Err(RuleProblem::NoBrackets),
        None => text,
    };
    let net: IpNet = bare.parse().map_err(|_| RuleProblem::BadNet)?;
    if text.starts_with('[') && matches!(net, IpNet::V4(_)) {
        return Err(RuleProblem::BadNet);
    }
    if net.addr() != net.network() {
        return Err(RuleProblem::HostBits(net.trunc()));
    }
    if let (IpAddr::V4(ip), Some(prefix)) = (net.addr().to_canonical(), net.prefix_len().checked_sub(96))
        && matches!(net, IpNet::V6(_))
    {
        return Ipv4Net::new(ip, prefix).map(IpNet::V4).map_err(|_| RuleProblem::BadNet);
    }
    Ok(net)
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, RuleProblem> {
    if text == "*" {
        return Ok(1..=u16::MAX);
    }
    let port = |text| parse_port(text).map_err(|_| RuleProblem::BadPorts);
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    if first > last {
        return Err(RuleProblem::BackwardPorts);
    }
    Ok(first..=last)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Name(name) => write!(f, "tcp://{name}:")?,
            Pattern::Suffix(suffix) => write!(f, "tcp://*{suffix}:")?,
            Pattern::Net(net) => {
                let single = net.prefix_len() == net.max_prefix_len();
                match (net, single) {
                    (IpNet::V4(net), true) => write!(f, "tcp://{}:", net.addr())?,
                    (IpNet::V4(net), false) => write!(f, "tcp://{net}:")?,
                    (IpNet::V6(net), true) => write!(f, "tcp://[{}]:", net.addr())?,
                    (IpNet::V6(net), false) => write!(f, "tcp://[{net}]:")?,
                }
            }
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => f.write_str("*"),
            (first, last) if first == last => write!(f, "{first}"),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

// === InvalidAllowRule ===

/// A rule of the allow-list cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("allow rule {rule:?}: {problem}; write it like {}", problem.example())]
pub struct InvalidAllowRule {
    /// The rule as it was given.
    pub rule: String,
    /// What is wrong with it.
    pub problem: RuleProblem,
}

impl InvalidAllowRule {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-AGENT-BAD-ALLOW-RULE",
            remedy: "write each rule as tcp://HOST:PORTS, for example tcp://db.default.svc:5432",
        }
    }
}

/// What is wrong with a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleProblem {
    /// It does not begin with `tcp://`.
    #[error("it must begin with tcp://")]
    NoScheme,
    /// It has no port.
    #[error("it must say which ports, '*' for all of them")]
    NoPorts,
    /// The port part is none of `443`, `7001-7010`, `*`.
    #[error("a port is a number from 1 to 65535 without leading zeros, a range of two such numbers, or '*'")]
    BadPorts,
    /// The range ends before it begins.
    #[error("the port range ends before it begins")]
    BackwardPorts,
    /// The host is neither a name nor an address.
    #[error("the host must be a DNS name, an address or a CIDR range")]
    BadHost,
    /// The wildcard is not `*.` followed by a name.
    #[error("'*' stands only at the front of a name, followed by a dot")]
    BadSuffix,
    /// An IPv6 address or range without brackets.
    #[error("an IPv6 address or range must be in brackets")]
    NoBrackets,
    /// The CIDR range cannot be read.
    #[error("the CIDR range cannot be read")]
    BadNet,
    /// The CIDR range has bits set behind its prefix.
    #[error("the CIDR range has bits set behind its prefix, which would be {0}")]
    HostBits(IpNet),
}

impl RuleProblem {
    /// A rule of the kind that was probably meant.
    fn example(&self) -> &'static str {
        match self {
            Self::NoScheme | Self::BadHost => "tcp://db.default.svc:5432",
            Self::NoPorts => "tcp://db.default.svc:5432 or tcp://10.0.0.0/8:*",
            Self::BadPorts | Self::BackwardPorts => "tcp://db.default.svc:5432 or tcp://db.default.svc:7001-7010",
            Self::BadSuffix => "tcp://*.svc.cluster.local:443, or tcp://0.0.0.0/0:443 for every ordinary IPv4 address",
            Self::NoBrackets => "tcp://[fd00::1]:443 or tcp://[fd00::/8]:443",
            Self::BadNet | Self::HostBits(_) => "tcp://10.0.0.0/8:443 or tcp://[fd00::/8]:443",
        }
    }
}
