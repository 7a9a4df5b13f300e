//! The names the hub's certificate answers to: those it must have, and those that are convenient on this machine.

use super::HUB_SERVER_NAME;
use crate::{IdentityError, certificate};
use mctunnel_core::Host;
use rcgen::SanType;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName};

/// The names of the hub.
pub(super) struct ServerNames {
    required: Vec<Host>,
    convenient: Vec<Host>,
}

impl ServerNames {
    /// [`HUB_SERVER_NAME`] and `extra`, which must be DNS names or IP addresses; with `localhost`, the loopback
    /// addresses and the machine's own name for convenience.
    pub(super) fn parse(extra: &[String]) -> Result<Self, IdentityError> {
        let parse = |name: &str| Host::parse_alone(name).map_err(|_| IdentityError::InvalidName(name.to_owned()));
        let mut required = vec![parse(HUB_SERVER_NAME)?];
        for name in extra {
            required.push(parse(name)?);
        }
        let mut convenient =
            vec![parse("localhost")?, Host::Ip(Ipv4Addr::LOCALHOST.into()), Host::Ip(Ipv6Addr::LOCALHOST.into())];
        convenient.extend(machine_name());
        Ok(Self { required, convenient })
    }

    /// Whether a certificate has every required name. A machine that was renamed is no reason to issue a new one.
    pub(super) fn required_are_in(&self, server: &X509Certificate<'_>) -> bool {
        let Ok(present) = certificate::subject_alternative_names(server) else {
            return false;
        };
        self.required.iter().all(|name| present.iter().any(|p| is_same(name, p)))
    }

    /// All names, each once, as a certificate has them.
    pub(super) fn to_sans(&self) -> Result<Vec<SanType>, IdentityError> {
        let mut all: Vec<_> = self.required.iter().chain(&self.convenient).collect();
        all.sort();
        all.dedup();
        all.into_iter().map(to_san).collect()
    }
}

fn to_san(host: &Host) -> Result<SanType, IdentityError> {
    match host {
        Host::Ip(ip) => Ok(SanType::IpAddress(*ip)),
        Host::Name(name) => {
            let name = name.as_ref();
            Ok(SanType::DnsName(name.try_into().map_err(|_| IdentityError::InvalidName(name.to_owned()))?))
        }
    }
}

fn is_same(host: &Host, present: &GeneralName<'_>) -> bool {
    match (host, present) {
        (Host::Name(name), GeneralName::DNSName(dns)) => name.eq_ignore_ascii_case(dns),
        (Host::Ip(IpAddr::V4(ip)), GeneralName::IPAddress(octets)) => ip.octets() == **octets,
        (Host::Ip(IpAddr::V6(ip)), GeneralName::IPAddress(octets)) => ip.octets() == **octets,
        _ => false,
    }
}

/// The machine's name where the system tells it in a file and it is a DNS name; nothing depends on it.
fn machine_name() -> Option<Host> {
    let text = ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|f| std::fs::read_to_string(f).ok())?;
    Host::parse(text.trim()).ok()
}
