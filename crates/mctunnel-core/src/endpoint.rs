//! A host and a port, as a client or an operator named them. Parsed once; every check and every dial uses this value.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// A TCP endpoint; names are resolved where it is dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address.
    pub host: Host,
    /// Port, never 0.
    pub port: u16,
}

impl Endpoint {
    /// Parses `host:port` or `[v6]:port`.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidTarget::NoPort)?;
        Ok(Self { host: Host::parse(host)?, port: parse_port(port)? })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            host @ (Host::Name(_) | Host::Ip(IpAddr::V4(_))) => write!(f, "{host}:{}", self.port),
        }
    }
}

/// Parses a decimal port from 1 to 65535 without sign or leading zero, so that `0443` is not another spelling of `443`.
pub fn parse_port(text: &str) -> Result<u16, InvalidTarget> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    match text.parse() {
        Ok(port) if plain => Ok(port),
        _ => Err(InvalidTarget::BadPort),
    }
}

/// A host: an IP address, or a DNS name that cannot be mistaken for one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A lower-case DNS name without trailing dot.
    Name(Arc<str>),
    /// An address; IPv4-mapped IPv6 is held as IPv4.
    Ip(IpAddr),
}

impl Host {
    /// Parses a name, an IPv4 address, or a bracketed IPv6 address.
    ///
    /// Refused: zones (`fe80::1%eth0`), legacy numeric spellings (`0x7f.1`, `2130706433`, `127.1`), and anything that is not LDH plus `_`.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(InvalidTarget::BadHost)?;
            let ip: Ipv6Addr = inner.parse().map_err(|_| InvalidTarget::BadHost)?;
            return Ok(Self::Ip(IpAddr::V6(ip).to_canonical()));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            // A bare IPv6 address before ":port" is ambiguous; only the bracketed form is taken.
            return if ip.is_ipv4() { Ok(Self::Ip(ip)) } else { Err(InvalidTarget::BadHost) };
        }
        parse_name(text).map(Self::Name)
    }

    /// As [`Host::parse`], but takes IPv6 without brackets too: for fields that hold a host alone.
    pub fn parse_alone(text: &str) -> Result<Self, InvalidTarget> {
        match text.parse::<IpAddr>() {
            Ok(ip) => Ok(Self::Ip(ip.to_canonical())),
            Err(_) => Self::parse(text),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(ip) => ip.fmt(f),
        }
    }
}

fn parse_name(text: &str) -> Result<Arc<str>, InvalidTarget> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label_ok = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if name.is_empty() || name.len() > 253 || !name.split('.').all(label_ok) {
        return Err(InvalidTarget::BadHost);
    }
    // Resolvers read a name whose last label is a number as an IPv4 address in some old spelling.
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    if hex || last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(InvalidTarget::BadHost);
    }
    Ok(name.into())
}

/// The text does not name a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// No `:port`.
    #[error("a target needs a port, as in db.default.svc:5432")]
    NoPort,
    /// Not a port.
    #[error("the port must be a number from 1 to 65535 without leading zeros")]
    BadPort,
    /// Not a host.
    #[error("the host must be a DNS name, an IPv4 address in dotted form, or an IPv6 address in brackets")]
    BadHost,
    /// Not a service.
    #[error(
        "a service is [http:|https:]name[:port] in a namespace, each part in lower case, as in https:helloworld:8080"
    )]
    BadService,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_one_spelling() {
        for (text, shown) in [
            ("db.default.svc:5432", "db.default.svc:5432"),
            ("DB.Default.svc.:5432", "db.default.svc:5432"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("[::1]:65535", "[::1]:65535"),
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
            ("_sip._tcp.example:5060", "_sip._tcp.example:5060"),
            ("db1.2nd:5432", "db1.2nd:5432"),
            ("a.0xag:1", "a.0xag:1"),
            ("0x7f.a:1", "0x7f.a:1"),
            ("a-b:1", "a-b:1"),
        ] {
            assert_eq!(Endpoint::parse(text).map(|t| t.to_string()).as_deref(), Ok(shown));
        }
    }

    #[test]
    fn misleading_targets_are_refused() {
        for bad in [
            "",
            "host",
            "host:",
            ":80",
            "host:0",
            "host:65536",
            "host:+80",
            "host:080",
            "host:80x",
            "host: 80",
            "2130706433:80",
            "0x7f.1:80",
            "0x7f000001:80",
            "127.1:80",
            "1.2.3.4.5:80",
            "0177.0.0.1:80",
            "::1:80",
            "[::1%eth0]:80",
            "[::1:80",
            "[1.2.3.4]:80",
            "a..b:80",
            "-a:80",
            "a-:80",
            "a b:80",
            "é:80",
            "a/b:80",
            "user@host:80",
            "a\0:80",
            "%31:80",
        ] {
            assert!(Endpoint::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_are_as_long_as_dns_has_them() {
        let label = |length| "x".repeat(length);
        let name = |last| format!("{}.{}.{}.{}", label(63), label(63), label(63), label(last));
        for (host, is_good) in [(label(63), true), (label(64), false), (name(61), true), (name(62), false)] {
            assert_eq!(Host::parse(&host).is_ok(), is_good, "{}", host.len());
        }
    }

    #[test]
    fn an_address_stands_in_brackets_unless_it_stands_alone() {
        let v6 = Host::Ip("fd00::1".parse().unwrap());
        assert_eq!(Host::parse("[fd00::1]"), Ok(v6.clone()));
        assert_eq!(Host::parse("fd00::1"), Err(InvalidTarget::BadHost));
        for text in ["fd00::1", "[fd00::1]"] {
            assert_eq!(Host::parse_alone(text), Ok(v6.clone()), "{text}");
        }
        assert_eq!(Host::parse_alone("::ffff:10.0.0.1").map(|host| host.to_string()).as_deref(), Ok("10.0.0.1"));
        assert_eq!(Host::parse_alone("DB.").map(|host| host.to_string()).as_deref(), Ok("db"));
        assert!(Host::parse_alone("127.1").is_err());
    }
}
