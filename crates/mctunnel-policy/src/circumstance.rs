//! Under which circumstances a binding or a deny rule applies: a condition, hours, dates, where the client comes from. What cannot be
//! told counts against the request: an allowing binding does not apply, a denying rule does.

pub(crate) mod facts;
pub(crate) mod window;

use crate::{
    condition::{Condition, Conditions},
    doubt::twin,
    file::{List, WindowText},
    rule::Sense,
};
use facts::Facts;
use ipnet::IpNet;
use mctunnel_core::{Access, Protocol};
use std::{
    net::IpAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use window::Window;

/// What has to hold besides who and what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circumstances {
    pub(crate) condition: Option<Arc<Condition>>,
    pub(crate) sources: Option<Vec<IpNet>>,
    pub(crate) window: Option<Window>,
    /// Seconds since 1970; applies from then on.
    pub(crate) not_before: Option<u64>,
    /// Seconds since 1970; applies until then.
    pub(crate) not_after: Option<u64>,
}

/// The keys of a binding or a deny rule that are about circumstances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CircumstanceText<'a> {
    pub(crate) when: Option<&'a str>,
    pub(crate) sources: Option<&'a List>,
    pub(crate) window: Option<&'a WindowText>,
    pub(crate) not_before: Option<&'a str>,
    pub(crate) not_after: Option<&'a str>,
}

impl Circumstances {
    /// Reads them; notes every mistake.
    pub(crate) fn read(text: CircumstanceText<'_>, conditions: &Conditions) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        let mut read = Self::default();
        let mut note = |key: &str, mistake: String| mistakes.push(format!("{key}: {mistake}"));
        if let Some(when) = text.when {
            match conditions.compiled(when) {
                Ok(condition) => read.condition = Some(condition),
                Err(mistake) => note("when", mistake),
            }
        }
        if let Some(sources) = text.sources {
            match sources.0.iter().map(|text| network(text)).collect() {
                Ok(networks) => read.sources = Some(networks),
                Err(mistake) => note("sources", mistake),
            }
        }
        if let Some(window) = text.window {
            match Window::read(window) {
                Ok(window) => read.window = Some(window),
                Err(mistake) => note("window", mistake),
            }
        }
        for (key, text, place) in
            [("notBefore", text.not_before, &mut read.not_before), ("notAfter", text.not_after, &mut read.not_after)]
        {
            match text.map(instant) {
                Some(Ok(seconds)) => *place = Some(seconds),
                Some(Err(mistake)) => note(key, mistake),
                None => {}
            }
        }
        if let (Some(from), Some(to)) = (read.not_before, read.not_after)
            && from >= to
        {
            note("notAfter", "it is not after notBefore".to_owned());
        }
        if mistakes.is_empty() { Ok(read) } else { Err(mistakes) }
    }

    /// Whether they hold; in the sense of `Possibly`, whether they may.
    pub(crate) fn hold(&self, facts: &Facts<'_>, sense: Sense) -> bool {
        let now = facts.now();
        self.not_before.is_none_or(|from| now >= from)
            && self.not_after.is_none_or(|to| now < to)
            && self.window.as_ref().is_none_or(|window| window.has(now))
            && self.sources.as_ref().is_none_or(|sources| comes_from(sources, facts.source(), sense))
            // The dearest comes last.
            && self.condition.as_ref().is_none_or(|condition| is_met(condition, facts, sense))
    }

    /// Whether they always hold.
    pub(crate) fn are_none(&self) -> bool {
        self.condition.is_none()
            && self.sources.is_none()
            && self.window.is_none()
            && self.not_before.is_none()
            && self.not_after.is_none()
    }

    /// Whether the passing of a minute can change whether they hold.
    pub(crate) fn depend_on_the_hour(&self) -> bool {
        self.window.is_some() || self.condition.as_ref().is_some_and(|condition| condition.reads_time())
    }
}

/// Whether a condition holds; in the sense of `Possibly`, whether it may.
fn is_met(condition: &Condition, facts: &Facts<'_>, sense: Sense) -> bool {
    let holds = |facts: &Facts<'_>| match condition.holds(facts) {
        Ok(holds) => holds,
        Err(error) => {
            tracing::debug!(condition = condition.text(), %error, "a condition could not be evaluated");
            sense == Sense::Possibly
        }
    };
    if holds(facts) {
        return true;
    }
    let is_in_doubt = sense == Sense::Possibly && condition.reads_protocol();
    let other = twin(facts.access.protocol).filter(|_| is_in_doubt).and_then(|name| Protocol::parse(name).ok());
    other.is_some_and(|protocol| {
        let access = Access { protocol: &protocol, ..*facts.access };
        holds(&Facts { access: &access, labels: facts.labels, seconds: facts.seconds })
    })
}

fn comes_from(sources: &[IpNet], source: Option<IpAddr>, sense: Sense) -> bool {
    match source {
        Some(source) => {
            let source = source.to_canonical();
            sources.iter().any(|network| network.contains(&source))
        }
        None => sense == Sense::Possibly,
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    let network: IpNet = text
        .parse()
        .map_err(|_| format!("{text:?} is not a network: write 10.0.0.0/8, 192.0.2.7/32 or 2001:db8::/32"))?;
    if network.trunc() != network {
        return Err(format!("{text:?} has bits behind its prefix; the network is {}", network.trunc()));
    }
    if matches!(network, IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some()) {
        return Err(format!("{text:?} is IPv4 in the clothes of IPv6: write it as IPv4"));
    }
    Ok(network)
}

/// Seconds since 1970 of `2026-12-31T18:00:00Z`.
fn instant(text: &str) -> Result<u64, String> {
    let bad = |_| format!("{text:?} is not a time in UTC: write it as 2026-12-31T18:00:00Z");
    let time = humantime::parse_rfc3339(text).map_err(bad)?;
    Ok(seconds(time))
}

/// Seconds since 1970; a clock before that is at 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_circumstance_is_one() {
        assert!(Circumstances::default().are_none());
        let window = WindowText {
            days: Some(List(vec!["*".to_owned()])),
            from: Some("08:00".to_owned()),
            to: Some("18:00".to_owned()),
            utc_offset: None,
        };
        let conditions = Conditions::compile(["true"].into_iter());
        let alone = [
            Circumstances { condition: Some(conditions.compiled("true").unwrap()), ..Circumstances::default() },
            Circumstances { sources: Some(Vec::new()), ..Circumstances::default() },
            Circumstances { window: Some(Window::read(&window).unwrap()), ..Circumstances::default() },
            Circumstances { not_before: Some(0), ..Circumstances::default() },
            Circumstances { not_after: Some(0), ..Circumstances::default() },
        ];
        for own in alone {
            assert!(!own.are_none(), "{own:?}");
        }
    }

    #[test]
    fn a_client_comes_from_one_of_the_networks() {
        let networks = ["10.0.0.0/8", "192.0.2.0/24"].map(|text| network(text).unwrap());
        let from = |text: &str| comes_from(&networks, Some(text.parse().unwrap()), Sense::Certainly);
        assert!(from("10.1.2.3") && from("192.0.2.7") && from("::ffff:10.1.2.3"));
        assert!(!from("203.0.113.1") && !from("2001:db8::1"));
        assert!(!comes_from(&networks, None, Sense::Certainly) && comes_from(&networks, None, Sense::Possibly));
    }
}
