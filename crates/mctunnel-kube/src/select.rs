//! Which addresses of a service are given, and in which order. Pure: what is known comes in, the answer goes out.

#[cfg(test)]
mod tests;

use crate::{
    ServiceName, address,
    view::{EndpointState, KnownEndpoint, KnownPort, KnownService, KnownSlice},
};
use mctunnel_core::{LocateError, ServicePort};
use std::{fmt::Write as _, net::SocketAddr};

/// A port of a service, as it is asked for and as its endpoints call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChosenPort<'a> {
    /// Its number at the service.
    pub(crate) number: u16,
    /// Its name, which joins it to the ports of the slices. `None` for a service without ports, whose endpoints are reached at
    /// the number itself.
    pub(crate) name: Option<&'a str>,
}

/// Finds the port of a service.
pub(crate) fn choose_port<'a>(
    name: &ServiceName,
    service: &'a KnownService,
    wanted: &ServicePort,
) -> Result<ChosenPort<'a>, LocateError> {
    let chosen = |port: &'a KnownPort| Some(ChosenPort { number: port.number?, name: Some(&*port.name) });
    let found = match (wanted, &*service.ports) {
        // A headless service may have no ports; an `ExternalName` seldom has any.
        (ServicePort::Number(number), []) => Some(ChosenPort { number: *number, name: None }),
        (ServicePort::Number(number), ports) => ports.iter().find(|port| port.number == Some(*number)).and_then(chosen),
        (ServicePort::Name(wanted), ports) => ports.iter().find(|port| *port.name == *wanted.as_str()).and_then(chosen),
        (ServicePort::Only, [only]) => chosen(only),
        (ServicePort::Only, []) => {
            return Err(LocateError::NotFound(format!("service {name} names no TCP port; ask for one by its number")));
        }
        (ServicePort::Only, ports) => {
            let message = format!("service {name} has several ports, ask for one of them: {}", listed(ports));
            return Err(LocateError::NotFound(message));
        }
    };
    found.ok_or_else(|| {
        let wanted = match wanted {
            ServicePort::Number(number) => number.to_string(),
            ServicePort::Name(label) => format!("named {label}"),
            ServicePort::Only => String::new(),
        };
        let has = if service.ports.is_empty() { "none".to_owned() } else { listed(&service.ports) };
        LocateError::NotFound(format!("service {name} has no TCP port {wanted}; it has {has}"))
    })
}

/// `80 (web), 9090`.
fn listed(ports: &[KnownPort]) -> String {
    let mut text = String::new();
    for port in ports {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{}", port.number.unwrap_or_default());
        if !port.name.is_empty() {
            let _ = write!(text, " ({})", port.name);
        }
    }
    text
}

/// The addresses of a service's port, as [`Located`](mctunnel_core::Located) has them.
#[derive(Debug)]
pub(crate) struct ChosenEndpoints {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) preferred: usize,
}

/// The addresses of a service's port.
///
/// Ready endpoints are given, or those that drain if no other is left; those meant for the agent's zone before the others. Each
/// group begins at a place that `random` chooses, so that clients who take the first spread over all.
pub(crate) fn choose_endpoints(
    name: &ServiceName,
    port: ChosenPort<'_>,
    slices: &[&KnownSlice],
    api_server: &[SocketAddr],
    random: u64,
) -> Result<ChosenEndpoints, LocateError> {
    let mut refused = Vec::new();
    for state in [EndpointState::Ready, EndpointState::Draining] {
        let in_group = |is_near: bool| {
            let fits = move |endpoint: &KnownEndpoint| endpoint.state == state && endpoint.is_near == is_near;
            address::sift(addresses(slices, port, fits), api_server)
        };
        let (mut given, reasons) = in_group(true);
        let (mut far, far_reasons) = in_group(false);
        refused.extend(reasons.into_iter().chain(far_reasons));
        // Both are sorted.
        far.retain(|address| given.binary_search(address).is_err());
        rotate(&mut given, random);
        rotate(&mut far, random);
        let preferred = given.len();
        given.append(&mut far);
        if !given.is_empty() {
            return Ok(ChosenEndpoints { addresses: given, preferred });
        }
    }
    if !refused.is_empty() {
        let message = format!("service {name} must not be reached through a tunnel: {}", refused.join(", "));
        return Err(LocateError::Forbidden(message));
    }
    let known: usize = slices.iter().map(|slice| slice.endpoints.len()).sum();
    Err(LocateError::NoneReady(format!(
        "service {name} has no ready endpoint for port {}, of {known} in all",
        port.number
    )))
}

/// The addresses of those endpoints that fit, each at its own slice's port, each once, sorted.
fn addresses(slices: &[&KnownSlice], port: ChosenPort<'_>, fits: impl Fn(&KnownEndpoint) -> bool) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for slice in slices {
        let Some(number) = slice_port(slice, port) else { continue };
        let of_slice = slice.endpoints.iter().filter(|endpoint| fits(endpoint));
        found.extend(of_slice.map(|endpoint| SocketAddr::new(endpoint.ip, number)));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The number that a slice has for the port.
fn slice_port(slice: &KnownSlice, port: ChosenPort<'_>) -> Option<u16> {
    let Some(name) = port.name else { return Some(port.number) };
    slice.ports.iter().find(|own| *own.name == *name).map(|own| own.number.unwrap_or(port.number))
}

fn rotate(addresses: &mut [SocketAddr], random: u64) {
    let length = u64::try_from(addresses.len()).unwrap_or(u64::MAX);
    if let Some(by) = random.checked_rem(length) {
        addresses.rotate_left(usize::try_from(by).unwrap_or_default());
    }
}
