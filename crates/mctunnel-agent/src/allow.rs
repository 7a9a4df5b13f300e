//! What the agent may dial: the allow-list, checked on every open, before and after the name is resolved.
//!
//! It decides; it does not resolve and does not dial (that is `dial.rs`). An empty list denies everything.

mod rule;
mod special;
#[cfg(test)]
mod tests;

pub use rule::{InvalidAllowRule, RuleProblem};

use mctunnel_core::{Endpoint, Host};
use rule::{Pattern, Rule};
use std::{fmt, net::IpAddr, sync::Arc};

/// The targets an agent may dial. Cheap to clone.
///
/// Rules are written `tcp://HOST:PORTS`:
///
/// | part | forms |
/// |---|---|
/// | HOST | `db.default.svc`, `*.svc.cluster.local` (one or more labels before the suffix), `10.1.2.3`, `[fd00::1]`, `10.0.0.0/8`, `[fd00::/8]` |
/// | PORTS | `443`, `7001-7010`, `*` |
///
/// A rule for a name lets that name be dialled at whatever ordinary address it resolves to. Loopback, link-local, multicast,
/// unspecified and cloud metadata addresses are not ordinary: they need an address rule that lies wholly inside that range, so
/// `0.0.0.0/0` opens none of them and `127.0.0.1` opens itself. The one exception is a rule for the name `localhost`, which
/// opens loopback for the target `localhost`.
#[derive(Clone, Default)]
pub struct AllowList {
    rules: Arc<[Rule]>,
}

impl AllowList {
    /// Parses a list of rules; the first bad one is the error.
    pub fn parse<I, S>(rules: I) -> Result<Self, InvalidAllowRule>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let rules = rules.into_iter().map(|text| Rule::parse(text.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// Whether the list has no rules and so denies everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Judges a target as it was named, before anything is resolved.
    #[must_use]
    pub fn check_target(&self, target: &Endpoint) -> Verdict {
        let name = match &target.host {
            Host::Ip(ip) if self.covers_address(*ip, target.port) => {
                return Verdict::IfAddressAllowed;
            }
            Host::Ip(_) => return Verdict::Denied,
            Host::Name(name) => name,
        };
        if self.covers_name(name, target.port) {
            Verdict::AllowedByName
        } else if self.rules_for(target.port).any(|rule| rule.is_for_addresses()) {
            Verdict::IfAddressAllowed
        } else {
            Verdict::Denied
        }
    }

    /// Judges one address that the target resolved to. Only an address that passed may be dialled.
    #[must_use]
    pub fn check_address(&self, target: &Endpoint, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let name = match &target.host {
            Host::Ip(ip) => {
                return ip.to_canonical() == address && self.covers_address(address, target.port);
            }
            Host::Name(name) => name,
        };
        if self.covers_address(address, target.port) {
            return true;
        }
        if special::range_of(address).is_none() {
            return self.covers_name(name, target.port);
        }
        &**name == "localhost" && address.is_loopback() && self.has_name(name, target.port)
    }

    /// Whether an address rule opens the address: any for an ordinary one, one within the special range for the others.
    fn covers_address(&self, address: IpAddr, port: u16) -> bool {
        let special = special::range_of(address);
        self.rules_for(port).any(|rule| match &rule.pattern {
            Pattern::Net(net) => net.contains(&address) && special.is_none_or(|range| range.contains(net)),
            Pattern::Name(_) | Pattern::Suffix(_) => false,
        })
    }

    fn covers_name(&self, name: &str, port: u16) -> bool {
        self.rules_for(port).any(|rule| rule.matches_name(name))
    }

    /// Whether there is a rule for exactly this name.
    fn has_name(&self, name: &str, port: u16) -> bool {
        self.rules_for(port).any(|rule| matches!(&rule.pattern, Pattern::Name(own) if **own == *name))
    }

    fn rules_for(&self, port: u16) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.ports.contains(&port))
    }
}

/// The rules, in their order, separated by `, `; `(none)` for the empty list.
impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return f.write_str("(none)");
        }
        for (position, rule) in self.rules.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{rule}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AllowList({self})")
    }
}

// === Verdict ===

/// What the list says about a target before its name is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not to be dialled, whatever it resolves to; the name is not even looked up.
    Denied,
    /// A rule has the name: every ordinary address it resolves to may be dialled.
    AllowedByName,
    /// Only the addresses that an address rule covers may be dialled.
    IfAddressAllowed,
}

/// Whether the address is the agent's own host, its link or its cloud's metadata service: nothing that a service leads to.
pub(crate) fn is_special(address: IpAddr) -> bool {
    special::range_of(address).is_some()
}
