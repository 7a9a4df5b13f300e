//! Where a stream goes, as the headers of its OPEN: written by whoever opens, read by the other side. One table for all.
//!
//! ```text
//! always        x-mctunnel-proto  x-mctunnel-cluster
//! an endpoint   x-mctunnel-host   x-mctunnel-port
//! the API       x-mctunnel-target: kube-apiserver
//! a service     x-mctunnel-target: service   x-mctunnel-scheme  -namespace  -service  [-port]
//! the hub       x-mctunnel-target: hub       [x-mctunnel-service]      opened by the agent
//! ```

use crate::{
    ClusterName, Destination, Endpoint, Host, Target,
    endpoint::parse_port,
    target::{Label, Scheme, ServicePort, ServiceTarget},
};
use mctunnel_mux::Header;
use std::{fmt, sync::Arc};

/// Which adapter of the agent serves a stream: the value of `x-mctunnel-proto`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol(Arc<str>);

impl Protocol {
    /// Parses a name of 1 to 32 letters a-z, digits and '-'.
    pub fn parse(text: &str) -> Result<Self, InvalidProtocol> {
        let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if (1..=32).contains(&text.len()) && text.bytes().all(token) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidProtocol)
        }
    }

    /// Plain bytes.
    #[must_use]
    pub fn tcp() -> Self {
        Self("tcp".into())
    }

    /// One HTTP exchange.
    #[must_use]
    pub fn http() -> Self {
        Self("http".into())
    }

    /// One gRPC call.
    #[must_use]
    pub fn grpc() -> Self {
        Self("grpc".into())
    }

    /// Reports of a cluster to its hub.
    #[must_use]
    pub fn report() -> Self {
        Self("report".into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not a protocol's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a protocol's name is 1 to 32 of the letters a-z, digits and '-'")]
pub struct InvalidProtocol;

/// The headers that lead a stream to its destination.
#[must_use]
pub fn headers_for(protocol: &Protocol, destination: &Destination) -> Vec<Header> {
    let mut headers = Vec::with_capacity(7);
    let mut put = |name: &str, value: &str| headers.push(Header::text(name, value));
    put(PROTO, protocol.as_str());
    put(CLUSTER, destination.cluster.as_str());
    match &destination.target {
        Target::Endpoint(endpoint) => {
            put(HOST, &endpoint.host.to_string());
            put(PORT, &endpoint.port.to_string());
        }
        Target::KubeApi => put(TARGET, KUBE_API),
        Target::Service(service) => {
            put(TARGET, SERVICE_TARGET);
            put(SCHEME, service.scheme.as_str());
            put(NAMESPACE, service.namespace.as_str());
            put(SERVICE, service.name.as_str());
            match &service.port {
                ServicePort::Only => {}
                ServicePort::Number(port) => put(PORT, &port.to_string()),
                ServicePort::Name(name) => put(PORT, name.as_str()),
            }
        }
    }
    headers
}

/// Reads what [`headers_for`] wrote. Each header must stand there at most once, and none that has no meaning beside the others.
pub fn read(headers: &[Header], cluster: &str) -> Result<(Protocol, Target), BadRouting> {
    if text(headers, CLUSTER)? != Some(cluster) {
        return Err(BadRouting("the stream is for another cluster"));
    }
    let protocol = text(headers, PROTO)?.and_then(|name| Protocol::parse(name).ok());
    let protocol = protocol.ok_or(BadRouting("the stream names no valid protocol"))?;
    let target = match text(headers, TARGET)? {
        None => endpoint(headers)?,
        Some(KUBE_API) => Target::KubeApi,
        Some(SERVICE_TARGET) => service(headers)?,
        Some(_) => return Err(BadRouting("the stream is for a kind of target this agent does not know")),
    };
    Ok((protocol, target))
}

/// The headers of a stream that an agent opens towards its hub, for a service of the hub or for a protocol that needs none.
#[must_use]
pub fn headers_to_hub(protocol: &Protocol, cluster: &ClusterName, service: Option<&Label>) -> Vec<Header> {
    let mut headers = vec![
        Header::text(PROTO, protocol.as_str()),
        Header::text(CLUSTER, cluster.as_str()),
        Header::text(TARGET, HUB_TARGET),
    ];
    headers.extend(service.map(|service| Header::text(SERVICE, service.as_str())));
    headers
}

/// Reads at the hub what [`headers_to_hub`] wrote. The stream must be of the cluster whose tunnel it came through.
pub fn read_at_hub(headers: &[Header], cluster: &ClusterName) -> Result<(Protocol, Option<Label>), BadRouting> {
    if text(headers, CLUSTER)? != Some(cluster.as_str()) {
        return Err(BadRouting("the stream says that it is of another cluster"));
    }
    let protocol = text(headers, PROTO)?.and_then(|name| Protocol::parse(name).ok());
    let protocol = protocol.ok_or(BadRouting("the stream names no valid protocol"))?;
    if text(headers, TARGET)? != Some(HUB_TARGET) {
        return Err(BadRouting("the stream is not for the hub"));
    }
    let service = text(headers, SERVICE)?.map(Label::parse).transpose();
    Ok((protocol, service.map_err(|_| BadRouting("the stream names no valid service"))?))
}

fn endpoint(headers: &[Header]) -> Result<Target, BadRouting> {
    let host = text(headers, HOST)?.and_then(|host| Host::parse_alone(host).ok());
    let port = text(headers, PORT)?.and_then(|port| parse_port(port).ok());
    match (host, port) {
        (Some(host), Some(port)) => Ok(Endpoint { host, port }.into()),
        _ => Err(BadRouting("the stream names no valid host and port")),
    }
}

fn service(headers: &[Header]) -> Result<Target, BadRouting> {
    let bad = |_| BadRouting("the stream names no valid service");
    let part = |name| Ok(text(headers, name)?.unwrap_or_default());
    Ok(Target::Service(ServiceTarget {
        scheme: Scheme::parse(part(SCHEME)?).map_err(bad)?,
        namespace: Label::parse(part(NAMESPACE)?).map_err(bad)?,
        name: Label::parse(part(SERVICE)?).map_err(bad)?,
        port: ServicePort::parse(part(PORT)?).map_err(bad)?,
    }))
}

/// The value of a header that is text and stands there at most once.
fn text<'a>(headers: &'a [Header], name: &str) -> Result<Option<&'a str>, BadRouting> {
    let mut found = headers.iter().filter(|header| header.name == name);
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some(header), None) => {
            std::str::from_utf8(&header.value).map(Some).map_err(|_| BadRouting("a routing header is not text"))
        }
        (Some(_), Some(_)) => Err(BadRouting("a routing header stands there twice")),
    }
}

/// The headers of a stream lead nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRouting(&'static str);

const PROTO: &str = "x-mctunnel-proto";
const CLUSTER: &str = "x-mctunnel-cluster";
const HOST: &str = "x-mctunnel-host";
const PORT: &str = "x-mctunnel-port";
const TARGET: &str = "x-mctunnel-target";
const SCHEME: &str = "x-mctunnel-scheme";
const NAMESPACE: &str = "x-mctunnel-namespace";
const SERVICE: &str = "x-mctunnel-service";
const KUBE_API: &str = "kube-apiserver";
const SERVICE_TARGET: &str = "service";
const HUB_TARGET: &str = "hub";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_what_is_read() {
        let service = |spec| Target::from(ServiceTarget::parse("default", spec).unwrap());
        for target in [
            Endpoint::parse("db.svc:5432").unwrap().into(),
            Endpoint::parse("[fd00::1]:1").unwrap().into(),
            Target::KubeApi,
            service("https:helloworld:8080"),
            service("helloworld:web"),
            service("helloworld"),
        ] {
            let destination = Destination { cluster: "c1".parse().unwrap(), target };
            let headers = headers_for(&Protocol::http(), &destination);
            assert_eq!(read(&headers, "c1"), Ok((Protocol::http(), destination.target)));
            assert!(read(&headers, "c2").is_err());
            for header in &headers {
                let twice: Vec<Header> = headers.iter().chain([header]).cloned().collect();
                assert!(read(&twice, "c1").is_err(), "{header:?}");
            }
        }
    }

    #[test]
    fn a_stream_to_the_hub_is_of_the_cluster_that_opened_it() {
        let (own, other) = ("c1".parse().unwrap(), "c2".parse().unwrap());
        let service = Label::parse("hub-apiserver").unwrap();
        for service in [None, Some(&service)] {
            let headers = headers_to_hub(&Protocol::tcp(), &own, service);
            assert_eq!(read_at_hub(&headers, &own), Ok((Protocol::tcp(), service.cloned())));
            assert!(read_at_hub(&headers, &other).is_err());
            assert!(read(&headers, "c1").is_err(), "no agent takes it for a target of its own");
            for header in &headers {
                let twice: Vec<Header> = headers.iter().chain([header]).cloned().collect();
                assert!(read_at_hub(&twice, &own).is_err(), "{header:?}");
                let without: Vec<Header> = headers.iter().filter(|h| *h != header).cloned().collect();
                assert_eq!(read_at_hub(&without, &own).is_err(), header.name != SERVICE, "{header:?}");
            }
        }
        let mut misspelt = headers_to_hub(&Protocol::tcp(), &own, None);
        misspelt.push(Header::text(SERVICE, "../hub"));
        assert!(read_at_hub(&misspelt, &own).is_err());
    }

    #[test]
    fn a_protocol_has_one_spelling() {
        let (longest, longer) = ("p".repeat(32), "p".repeat(33));
        for good in ["tcp", "a", "0", "my-protocol", "-", &longest] {
            assert_eq!(Protocol::parse(good).map(|protocol| protocol.to_string()).as_deref(), Ok(good));
        }
        for bad in ["", "TCP", "t_p", "t p", "t.p", "é", "tcp\n", &longer] {
            assert_eq!(Protocol::parse(bad), Err(InvalidProtocol), "{bad:?}");
        }
        let own = [Protocol::tcp(), Protocol::http(), Protocol::grpc(), Protocol::report()];
        assert_eq!(own.each_ref().map(Protocol::as_str), ["tcp", "http", "grpc", "report"]);
    }

    #[test]
    fn a_routing_header_is_text() {
        let good = [Header::text(CLUSTER, "c1"), Header::text(PROTO, "tcp"), Header::text(TARGET, KUBE_API)];
        assert_eq!(read(&good, "c1"), Ok((Protocol::tcp(), Target::KubeApi)));
        for name in [CLUSTER, PROTO, TARGET] {
            let mut headers = good.clone();
            for header in headers.iter_mut().filter(|header| header.name == name) {
                header.value = vec![0xff].into();
            }
            assert_eq!(read(&headers, "c1"), Err(BadRouting("a routing header is not text")), "{name}");
        }
    }

    #[test]
    fn headers_that_lead_nowhere_are_refused() {
        for (name, value) in [(TARGET, "node"), (HOST, "0x7f.1"), (PORT, "080"), (PROTO, "TCP"), (PROTO, "")] {
            let mut headers = vec![Header::text(CLUSTER, "c1")];
            for (own, given) in [(PROTO, "tcp"), (HOST, "db"), (PORT, "1")] {
                headers.push(Header::text(own, if own == name { value } else { given }));
            }
            if name == TARGET {
                headers.push(Header::text(name, value));
            }
            assert!(read(&headers, "c1").is_err(), "{name}: {value}");
        }
    }
}
