//! The names the hub's certificate answers to: those it must have, and those that are convenient on this machine.

use super::HUB_SERVER_NAME;
use crate::{IdentityError, certificate};
use mctunnel_core::Host;
use rcgen::SanType;
use rustls_pki_types::CertificateDer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_parser::extensions::GeneralName;

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
    pub(super) fn required_are_in(&self, server: &CertificateDer<'_>) -> bool {
        let present = names_of(server);
        self.required.iter().all(|name| present.contains(name))
    }

    /// These names, and those that a certificate has.
    pub(super) fn with_those_of(&self, server: &CertificateDer<'_>) -> Self {
        let mut convenient = self.convenient.clone();
        convenient.extend(names_of(server));
        Self { required: self.required.clone(), convenient }
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

/// The names of a certificate; none if it cannot be read.
fn names_of(server: &CertificateDer<'_>) -> Vec<Host> {
    let Ok(server) = certificate::parse(server) else { return Vec::new() };
    let names = certificate::subject_alternative_names(&server).unwrap_or_default();
    names.into_iter().filter_map(to_host).collect()
}

fn to_host(name: &GeneralName<'_>) -> Option<Host> {
    if let GeneralName::DNSName(name) = name {
        return Host::parse_alone(name).ok();
    }
    let GeneralName::IPAddress(octets) = name else { return None };
    let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
    let ip = v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
    ip.ok().map(Host::Ip)
}

/// The machine's name where the system tells it in a file and it is a DNS name; nothing depends on it.
fn machine_name() -> Option<Host> {
    let text = ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|f| std::fs::read_to_string(f).ok())?;
    Host::parse(text.trim()).ok()
}
